/*
 * settings.h - the columns of the row of SANDBOX_TYPE=url (runtime/registry.c) that are functions:
 * its settings checked, compared between two runs, and named where the server lacks something.
 *
 * The key of the server is no setting: it is in the environment of `bailey serve` or of the
 * command, or in a file, and only the provider host gets or reads it. Pure.
 *
 * Runs in: hosts, broker, commands
 */
#ifndef BAILEY_RUNTIME_REMOTE_SETTINGS_H
#define BAILEY_RUNTIME_REMOTE_SETTINGS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

struct config;

#define REMOTE_UNAVAILABLE "The server of SANDBOX_URL cannot be used" /* a reason follows */
#define REMOTE_GONE "the server of SANDBOX_URL did not answer any more"
#define REMOTE_NO_INSTALL                                                                         \
    "packages cannot be installed into a box of SANDBOX_TYPE=url: build a template with them on " \
    "its server, or set SANDBOX_TYPE=local"
#define REMOTE_ENV_KEY "SANDBOX_URL_KEY"

#define REMOTE_TARGETS_MAX 16
#define REMOTE_ADDRESS_MAX 520
#define REMOTE_WEIGHT_MAX 100
/*
 * The next address of a list with commas, "http://a:1,http://b:2;weight=3", and where the rest
 * begins. 1: there was one; 0: it is the end; -EINVAL: it is no address.
 */
int remote_settings_next(const char **list, char address[REMOTE_ADDRESS_MAX], unsigned *weight);

int remote_settings_check(struct config *config, struct error *err);
int remote_settings_shape(const struct config *config, struct buf *text);
int remote_settings_check_run(const struct config *config, struct error *err);
const char *remote_settings_place(const struct config *config);
bool remote_settings_is_meant(const struct config *config); /* SANDBOX_URL is set */
int remote_settings_no_template(const char *name, struct error *err);
void remote_settings_no_program(const struct config *config, const char *program,
                                const char *language, struct error *err);

#endif
