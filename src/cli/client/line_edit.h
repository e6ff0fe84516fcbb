/*
 * line_edit.h - one line that is edited with keys, with a history to choose from. For cli/client
 * only.
 *
 * Does no I/O: bytes of a terminal go in one by one, and what the terminal is to show comes out.
 * Lines are UTF-8; a byte that is no part of it is left out. Owns its buffers; borrows the history.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_LINE_EDIT_H
#define BAILEY_CLI_CLIENT_LINE_EDIT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "cli/client/history.h"

enum line_event {
    LINE_MORE,     /* the line goes on */
    LINE_DONE,     /* Enter */
    LINE_END,      /* Ctrl-D on an empty line */
    LINE_TOO_LONG, /* the line has its maximum; it is unchanged */
};

struct line_edit {
    struct buf line;   /* what is typed; its maximum is the caller's */
    size_t at;         /* the cursor, in bytes */
    bool is_pasting;   /* between the marks of a bracketed paste: newlines and tabs are text */
    bool is_searching; /* Ctrl-R */

    const struct history *history;
    size_t chosen;     /* the line of the history that is shown; its count: none */
    struct buf draft;  /* what was typed before one was chosen */
    struct buf query;  /* of Ctrl-R */
    struct buf killed; /* of Ctrl-K, Ctrl-U, Ctrl-W, for Ctrl-Y */
    char sequence[16]; /* an escape sequence or character that is not complete */
    size_t sequence_length;
};

void line_edit_init(struct line_edit *edit, const struct history *history, size_t maximum);
void line_edit_free(struct line_edit *edit); /* for CLEANUP() */

/* Begins the next line: what is edited is forgotten, but not the state of a paste. */
void line_edit_clear(struct line_edit *edit);

enum line_event line_edit_take(struct line_edit *edit, char byte);

/*
 * Appends what shows prompt, line and cursor on a terminal of this many columns: a line that is too
 * long is shown in part. `begin` and `end` are the prompt's colour. 0 or -ENOMEM, -EFBIG.
 */
int line_edit_show(const struct line_edit *edit, const char *prompt, const char *begin,
                   const char *end, size_t columns, struct buf *out);

/* How many columns a text takes. */
size_t line_edit_width(const char *text, size_t length);

#endif
