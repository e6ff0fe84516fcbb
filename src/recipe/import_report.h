/*
 * import_report.h - the command that runs guest/python/check_imports.py, and what it found: which
 * blocked modules the code imports, and what to tell its author. Pure; the line comes out of a box
 * and is treated as hostile.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RECIPE_IMPORT_REPORT_H
#define BAILEY_RECIPE_IMPORT_REPORT_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

/* Room for a message about every module that a line can name. */
#define IMPORT_REPORT_MAX (64 * 1024)
#define IMPORT_CHECK_MS 10000                /* timeout of the check */
#define IMPORT_CHECK_OUTPUT_MAX (256 * 1024) /* bytes of the line */

/*
 * The command that prints that line. Its arguments point into the struct and to the strings it was
 * made of.
 */
struct import_checker {
    struct buf code, blocked;
    const char *argv[8];
};
/* script: the source in the box, "-" for standard input; blocked: a strv, or NULL. */
int import_checker_make(struct import_checker *checker, const char *program, const char *script,
                        char *const *blocked, struct error *err);
void import_checker_free(struct import_checker *checker); /* for CLEANUP(); zeroed is fine */

/*
 * Parses the line. Returns the number of different blocked modules and gives their names in
 * *ret_modules (a strv, owned by the caller; never NULL on success), with a text in `message` that
 * names each one, its first line, and what to use instead. 0 with an empty message: the code may
 * run. 0 with a message: the code has a syntax error, which the message describes. A line that
 * cannot be parsed, or that reports a failed check, is an error: the code must not run then.
 */
int import_report_parse(const char *json, size_t length, char ***ret_modules, struct buf *message,
                        struct error *err);

/* Some of the checker's standard output; a line that became too long does not parse. */
void import_line_add(struct buf *line, const void *data, size_t length);

/*
 * The checker has ended: 0: the code may run. blocked_import: its text names the modules, and so
 * does *ret_modules (a strv, owned by the caller; else it stays as it is).
 */
int import_line_judge(const struct buf *line, char ***ret_modules, struct error *err);

#endif
