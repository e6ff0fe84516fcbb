/*
 * image_name.h - checks image references: [registry[:port]/]name[:tag][@sha256:digest], by Docker's
 * own grammar. Such a name contains no character that is special in a path, a query or a command
 * line. Pure functions.
 *
 * Runs in: broker, hosts, supervisor, commands
 */
#ifndef BAILEY_CONFIG_IMAGE_NAME_H
#define BAILEY_CONFIG_IMAGE_NAME_H

#include <stdbool.h>

bool image_name_is_valid(const char *text);

#endif
