/*
 * language.h - the languages a run may be written in, a row each, and the interpreters that this
 * machine has for them. Reads a few files of the host, never executes a guest's.
 *
 * Runs in: supervisor, broker, commands
 */
#ifndef BAILEY_INTERPRETER_LANGUAGE_H
#define BAILEY_INTERPRETER_LANGUAGE_H

#include <stddef.h>

#include "base/error.h"
#include "interpreter/adopt.h"
#include "model/spec.h"

struct config;

struct language_row {
    const char *name;          /* "python" */
    const char *title;         /* "Python" */
    const char *extensions[4]; /* of files that are written in it, NULL-terminated */
    const char *extension;     /* ".py": of a source that we name */
    const char *script;        /* "main.py": the source's name when it has none */
    const char *driver;        /* in the box: makes a kernel of the interpreter, as its argument */
    const char *program;       /* "python3": what it is called in an image */
};
extern const struct language_row language_table[];
extern const size_t language_count;

const struct language_row *language_find(const char *name);    /* NULL when unknown */
const struct language_row *language_of_path(const char *path); /* by its extension; NULL */

/* Finds the interpreter for a language; an error that says what to install when there is none. */
int interpreter_find(const struct language_row *language, const struct config *config,
                     struct interpreter *ret, struct error *err);

/* A text that changes when the program does: a template that was built for another is stale. */
#define INTERPRETER_FINGERPRINT 64
void interpreter_fingerprint(const struct interpreter *interpreter, const struct config *config,
                             char text[INTERPRETER_FINGERPRINT]);

#endif
