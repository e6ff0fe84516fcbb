/*
 * show_config.h - the printers of `bailey config`.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_SHOW_CONFIG_H
#define BAILEY_CLI_SHOW_CONFIG_H

#include "base/buf.h"
#include "config/config.h"

typedef struct json_t json_t;
json_t *show_config_json(const struct config *config); /* new reference; NULL: out of memory */
int show_config_text(const struct config *config, struct buf *to);
/* Names on standard error what of `env` looks like a key and is none: it has no effect. */
void show_config_unused(char *const *env);

#endif
