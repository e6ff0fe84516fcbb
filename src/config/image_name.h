/*
 * image_name.h - what an image may be called: [registry[:port]/]name[:tag][@sha256:digest], as
 * Docker's own grammar has it. Such a name has nothing in it that a path, a query or a command line
 * would take for something else. Pure functions.
 *
 * Runs in: broker, hosts, supervisor, commands
 */
#ifndef BAILEY_CONFIG_IMAGE_NAME_H
#define BAILEY_CONFIG_IMAGE_NAME_H

#include <stdbool.h>

bool image_name_is_valid(const char *text);

#endif
