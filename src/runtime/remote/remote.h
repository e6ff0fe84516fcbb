/*
 * remote.h - the backend of SANDBOX_TYPE=url: boxes are sessions of another Bailey, or one-shot
 * runs of a server with POST /execute; see remote_private.h.
 *
 * Runs in: hosts, commands
 */
#ifndef BAILEY_RUNTIME_REMOTE_REMOTE_H
#define BAILEY_RUNTIME_REMOTE_REMOTE_H

#include <jansson.h>

#include "runtime/host/backend.h"

extern const struct backend_ops remote_ops;

/* The report of `bailey doctor` (runtime/host/backend.h); blocks; new reference. */
json_t *remote_doctor(const struct config *config);

#endif
