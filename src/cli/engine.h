/*
 * engine.h - the other program: `bailey` finds bailey-engine and executes it, bailey-engine finds
 * `bailey` for starting a daemon.
 *
 * Both look beside themselves (a build folder), then where an installation puts the other. The
 * environment has no influence: PATH must not decide which program gets a session's data.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_ENGINE_H
#define BAILEY_CLI_ENGINE_H

#include <limits.h>

#include "base/error.h"

/* The path of bailey-engine, absolute. */
int engine_program(char path[PATH_MAX], struct error *err);

/* The same for another `bailey`, at this absolute path. */
int engine_beside(const char *program, char path[PATH_MAX], struct error *err);

/* The path of `bailey`, for bailey-engine. */
int engine_find_bailey(char path[PATH_MAX], struct error *err);

/* Executes bailey-engine with the same arguments. Returns only on failure, with an exit status. */
int engine_execute(char *const *argv, char *const *env);

#endif
