/*
 * run.h - `bailey run` and `bailey exec`: from an invocation to an exit status. Blocks for the run.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_RUN_H
#define BAILEY_CLI_RUN_H

#include "cli/options.h"
#include "cli/request.h"
#include "cli/source.h"

int run_main(const struct invocation *invocation);
int exec_main(const struct invocation *invocation);

/* For a run on a server (client/run_remote.c): what to run, checked as here. */
struct run_source {
    struct source source; /* source_free() */
    const struct language_row *language;
    const char *const *argv;
};
int run_find_source(const struct invocation *invocation, const struct request *request,
                    const struct config *config, struct run_source *ret, struct error *err);
int run_check_program(const struct request *request, const char *const *argv, struct error *err);
/* Reports bad input, as JSON if the request says so. Returns the exit status. */
int run_refuse_with(const struct request *request, const struct config *config,
                    const struct error *err);

/* Arguments that could not be read, as the one result in JSON. Returns the exit status. */
int run_refuse(const struct error *err);

#endif
