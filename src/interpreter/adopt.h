/*
 * adopt.h - an interpreter that a caller names by its path: which folders of the host a box has to
 * show for it. For the launcher, which has no configuration and no PATH of a caller.
 *
 * Reads a few files and links of the host, never executes anything, and opens nothing but regular
 * files. What is shown must look like nothing but an interpreter (python.c).
 *
 * Runs in: launcher, supervisor, broker, commands
 */
#ifndef BAILEY_INTERPRETER_ADOPT_H
#define BAILEY_INTERPRETER_ADOPT_H

#include <stddef.h>

#include "base/error.h"

#define INTERPRETER_BINDS_MAX 4

/* An interpreter found on this host. Owns its strings. */
struct interpreter {
    char *path;     /* the program, as a path that is valid in the box */
    char *found_by; /* "PATH", "pyenv", "SANDBOX_PYTHON", "SANDBOX_ROOT", "venv" */
    char *binds[INTERPRETER_BINDS_MAX]; /* folders outside of /usr that the box has to show */
    size_t bind_count;
};

enum interpreter_kind { INTERPRETER_PYTHON, INTERPRETER_NODE, _INTERPRETER_KIND_MAX };

/*
 * `path` is absolute and has to be valid in a box as it is: a link that leads out of the folders
 * that the box shows is refused, with the path to name instead. *ret is written on success only.
 * Errors (ERROR_NO_INTERPRETER) begin with the setting's name; -EACCES: it cannot be reached with
 * the rights of this process.
 */
int interpreter_adopt(enum interpreter_kind kind, const char *path, struct interpreter *ret,
                      struct error *err);
const char *interpreter_setting(enum interpreter_kind kind); /* "SANDBOX_PYTHON" */
void interpreter_free(struct interpreter *interpreter);      /* safe twice */

#endif
