/*
 * notebook.h - the code cells of a Jupyter notebook (.ipynb): found, and joined to one program.
 *
 * Pure; fuzzed. A notebook of another language than Python, of a format before 4, or one that is
 * not JSON is refused with what to do.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_NOTEBOOK_H
#define BAILEY_CLI_NOTEBOOK_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

/* By its name: "a.ipynb". NULL is none. */
bool notebook_is(const char *path);

/*
 * The code cells of `file` in their order, a new strv: the second is cell 2 in messages, where
 * `from` is what the notebook is called.
 */
int notebook_cells(const struct buf *file, const char *from, char ***ret, struct error *err);

/*
 * The cells as one Python program. Lines of IPython (!command, %magic), which only the interpreter
 * of a session knows, are refused with the number of their cell, except for %matplotlib, which is
 * left out.
 */
int notebook_join(char *const *cells, const char *from, struct buf *program, struct error *err);

#endif
