/*
 * image.h - `bailey image build` in two parts: image.c has the actions, image_build.c builds. For
 * cli/client only.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_IMAGE_H
#define BAILEY_CLI_CLIENT_IMAGE_H

#include "cli/client/action.h"
#include "runtime/docker/client.h"

int image_build(struct action_job *job); /* returns the exit status */

#endif
