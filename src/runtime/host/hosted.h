/*
 * hosted.h - one box of a provider that has a host process, for a command that waits.
 *
 * The provider host is the program bailey-engine (box_spec.engine), started for this box and gone
 * with it: whatever happens to us, it sees the end of its rendezvous socket and removes the box.
 * Needs no HTTP library in this program. Blocks for the bring-up; ends early when
 * box_spec.cancel_fd says so. The same for every row with PROVIDER_HOSTED.
 *
 * Runs in: commands
 */
#ifndef BAILEY_RUNTIME_HOST_HOSTED_H
#define BAILEY_RUNTIME_HOST_HOSTED_H

#include <stdbool.h>

#include "runtime/runtime.h"

struct config;

/* Variables of a host besides those of the configuration. */
#define HOST_ENV_ENGINE "BAILEY_HOST_ENGINE"     /* the engine's id */
#define HOST_ENV_STATE "BAILEY_HOST_STATE"       /* the state folder; not set: one box, no daemon */
#define HOST_ENV_IDENTITY "BAILEY_HOST_IDENTITY" /* that folder's identity */
#define HOST_ENV_PROGRESS "BAILEY_HOST_PROGRESS" /* standard error is a person's who waits */

extern const struct runtime_ops hosted_ops;

/* The effective configuration as variables, for box_spec.engine_env; strv; NULL: no memory. */
char **hosted_env(const struct config *config, bool shows_progress);

#endif
