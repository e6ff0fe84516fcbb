/*
 * source.h - where the code of a run comes from: a file, standard input or an argument; checked.
 *
 * Blocks for reading. Owns the bytes: source_free(). Every refusal says what to do.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_SOURCE_H
#define BAILEY_CLI_SOURCE_H

#include "base/buf.h"
#include "base/error.h"
#include "interpreter/language.h"

struct config;

struct source {
    struct buf code;
    const char *name; /* base name for the box, borrowed from the path; NULL: it has none */
};

/*
 * Reads a regular file or a pipe; `path` "-" is standard input. The code of a notebook is the whole
 * file: its cells follow with notebook_cells() or source_join_notebook().
 */
int source_read(struct source *source, const char *path, struct error *err);

/* After source_read() of a notebook (cli/notebook.h): its cells as one program. */
int source_join_notebook(struct source *source, const char *from, struct error *err);

/* Copies `code`, the value of -c. */
int source_from_text(struct source *source, const char *code, struct error *err);

void source_free(struct source *source);

/* Refuses a file of another language and data, by the extension, unless a language is named. */
int source_check_kind(const char *name, const char *path, struct error *err);

/*
 * The language by name, or by the extension of `path` when there is no name, or Python. An error
 * lists the known ones; a known one that SANDBOX_SUPPORTED_LANGUAGES leaves out is refused.
 */
int source_language(const char *name, const char *path, const struct config *config,
                    const struct language_row **ret, struct error *err);

#endif
