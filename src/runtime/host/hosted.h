/*
 * hosted.h - one box of a provider with a host process, for a blocking command.
 *
 * The provider host is the program bailey-engine (box_spec.engine), started for this box and ended
 * with it: however the command ends, the provider host sees the end of its rendezvous socket and
 * removes the box. Needs no HTTP library in this program. Blocks for the bring-up; ends early if
 * box_spec.cancel_fd is readable. The same for every row with PROVIDER_HOSTED.
 *
 * Runs in: hosts, commands
 */
#ifndef BAILEY_RUNTIME_HOST_HOSTED_H
#define BAILEY_RUNTIME_HOST_HOSTED_H

#include <stdbool.h>

#include "runtime/runtime.h"

struct config;

/* Variables of a host in addition to those of the configuration. */
#define HOST_ENV_ENGINE "BAILEY_HOST_ENGINE"     /* the engine's id */
#define HOST_ENV_STATE "BAILEY_HOST_STATE"       /* the state folder; not set: one box, no daemon */
#define HOST_ENV_IDENTITY "BAILEY_HOST_IDENTITY" /* that folder's identity */
#define HOST_ENV_NO_CEILING "BAILEY_HOST_NO_CEILING" /* set: limits are no maximum */
#define HOST_ENV_PYTHON "BAILEY_HOST_PYTHON"         /* path of the Python that it keeps warm */
#define HOST_ENV_BINDS "BAILEY_HOST_BINDS"           /* folders that boxes show besides; "A:B" */
/* Standard error is a terminal with a waiting user */
#define HOST_ENV_PROGRESS "BAILEY_HOST_PROGRESS"

extern const struct runtime_ops hosted_ops;

/*
 * The effective configuration as variables, with the provider's secret, for box_spec.engine_env;
 * strv; NULL: no memory.
 */
char **hosted_env(const struct config *config, bool shows_progress);

#endif
