/*
 * python_lines.h - what a line of Python leaves open: a string, a bracket, a block. Pure.
 *
 * Enough to tell lines of IPython from Python, and to know when typed lines are a whole statement;
 * whether they are valid is for the interpreter to say.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_PYTHON_LINES_H
#define BAILEY_CLI_PYTHON_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* How far a source was read: what of it continues on the next line. Begins with zeros. */
struct python_lines {
    char quote;     /* of the string that is open; 0: none */
    bool is_triple; /* it may have newlines */
    unsigned depth; /* open brackets */
    bool continues; /* the line ends in a backslash */
    char last;      /* the line's last character that is no blank and no comment; 0: none */
};

/*
 * Reads the line at `at`, with those that a backslash in a string joins to it. Returns its length
 * without the newline; *is_foreign: it is one that only IPython knows.
 */
size_t python_line_read(struct python_lines *reader, const char *at, bool *is_foreign);

/* Whether lines that were typed can run: nothing is open, and a block ends in an empty line. */
bool python_is_complete(const char *text);

#endif
