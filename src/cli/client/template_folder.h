/*
 * template_folder.h - a template as the body of POST /v1/templates, from a folder or from this
 * program.
 *
 * The folder's files are read with the caller's rights, beneath it. Blocks only for reading them.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_TEMPLATE_FOLDER_H
#define BAILEY_CLI_CLIENT_TEMPLATE_FOLDER_H

#include "base/error.h"

typedef struct json_t json_t;

/*
 * `word`: the name of a template that ships with the program, else a folder with a template.yaml;
 * NULL: the working folder. *ret is a new reference: the body of POST /v1/templates.
 */
int template_load(const char *word, json_t **ret, struct error *err);

#endif
