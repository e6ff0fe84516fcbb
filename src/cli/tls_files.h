/*
 * tls_files.h - certificate and key of the server, read with the caller's rights: the broker gets
 * their text. Used where a daemon is started and where it is reloaded. Blocks for the files.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_TLS_FILES_H
#define BAILEY_CLI_TLS_FILES_H

#include "base/error.h"
#include "config/config.h"

/* {"certificate": PEM, "key": PEM}, or NULL where none is configured. bad_config: one without the
 * other, or a file that cannot be read. */
int tls_files_json(const struct config *config, json_t **ret, struct error *err);

#endif
