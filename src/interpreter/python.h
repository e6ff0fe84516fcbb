/*
 * python.h - from a path that looks like Python to what a box needs to run it: the program, and the
 * folders outside of /usr that it lives in. Private to interpreter/. Reads a few files
 * and links of the host and never executes anything.
 *
 * Runs in: launcher, supervisor, broker, commands
 */
#ifndef BAILEY_INTERPRETER_PYTHON_H
#define BAILEY_INTERPRETER_PYTHON_H

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"
#include "interpreter/adopt.h"

#define PATH_SIZE (LIMIT_PATH_BYTES + 1)
#define WHY_SIZE 192 /* why a candidate was refused, for the error's text */

/* path.c: path names as text. */
bool path_is_below(const char *path, const char *folder); /* or the folder itself */
bool path_cut(char *path); /* to its parent; false when that is "/" already */
int path_clean(const char *path, char *ret, size_t size); /* absolute; "//", "." and ".." removed */
const char *path_name(const char *path);                  /* after the last '/' */

/*
 * python.c: `path` is an executable ELF program, or a link to one. Fills path and binds of `ret`
 * (zeroed by the caller, freed by it also on an error); *ret_is_venv says whether it is one of a
 * virtual environment. A negative errno with the reason in `why` when it cannot be used; -ENOMEM
 * ends the search, so that it never ends at another interpreter.
 */
int python_adopt(const char *path, struct interpreter *ret, bool *ret_is_venv, char why[WHY_SIZE]);
/* The same for Node.js, which is one program and its prefix. */
int node_adopt(const char *path, struct interpreter *ret, bool *ret_is_venv, char why[WHY_SIZE]);

/*
 * pyenv.c: the program that a pyenv shim would execute, found as pyenv does it (PYENV_VERSION,
 * .python-version, the global version) without executing it. 1 when found, 0 when the version is
 * "system" and the search has to go on, a negative errno with the reason in `why` otherwise.
 */
int pyenv_resolve(const char *shim, char *path, size_t size, char why[WHY_SIZE]);

#endif
