/*
 * image.h - `bailey image build` in two parts: image.c has the actions, image_build.c the making.
 * Inside of client/.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_IMAGE_H
#define BAILEY_CLI_CLIENT_IMAGE_H

#include "cli/client/action.h"

#define IMAGE_LABEL "bailey.image" /* of every image that was made here: the version of bailey */
#define IMAGE_LABEL_TEMPLATE "bailey.template"
#define IMAGE_LABEL_LAYER "bailey.layer"
#define IMAGE_LABEL_TIERS "bailey.tiers" /* of the template, as JSON */

int image_build(struct action_job *job); /* returns the exit status */

#endif
