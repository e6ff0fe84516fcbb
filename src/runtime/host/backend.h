/*
 * backend.h - what a provider is inside of bailey-engine, the program with the HTTP client: one row
 * for each provider with PROVIDER_HOSTED, of the same name as its row in runtime/registry.c. They
 * are apart because `bailey` itself has rows, and must not need the libraries of these.
 *
 * Runs in: hosts, commands
 */
#ifndef BAILEY_RUNTIME_HOST_BACKEND_H
#define BAILEY_RUNTIME_HOST_BACKEND_H

#include <jansson.h>

#include "base/error.h"

struct config;

struct backend_row {
    const char *name;
    /* The report of `bailey doctor` (cli/doctor_provider.c); blocks; new reference. NULL: none. */
    json_t *(*doctor)(const struct config *config);
};

const struct backend_row *backend_find(const char *name); /* NULL: none of that name */

/* Rows that a build option adds (more_backends.c); NULL behind the last. */
extern const struct backend_row *const backend_rows_more[];

#endif
