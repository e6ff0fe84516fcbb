/*
 * cell_prompt.h - reads cells that are typed on a terminal, with a prompt. For cli/client only.
 *
 * Lines are read until they are a whole statement; an empty line ends a block. The prompt goes to
 * standard error. Blocks until a cell, the end of the input or a signal.
 *
 * On a terminal that can move its cursor lines are edited with keys and have a history; a text that
 * is pasted is one cell. Another one (TERM is unset or "dumb", or standard error is no terminal)
 * has the line mode of the kernel. The terminal is in its own mode whenever cell_prompt_read() is
 * over.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_CELL_PROMPT_H
#define BAILEY_CLI_CLIENT_CELL_PROMPT_H

#include <stdbool.h>
#include <termios.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/client/history.h"
#include "cli/client/line_edit.h"

struct cell_prompt {
    int cancel_fd;      /* signals_open() */
    bool is_python;     /* other languages: a line whose brackets are closed is a cell */
    int signal;         /* a signal other than SIGINT ended it; 0: none */
    struct buf pending; /* read and not used yet */

    bool edits; /* lines are edited here, not by the kernel */
    bool is_raw;
    bool marks_pastes; /* the terminal was asked to, until cell_prompt_free() */
    struct termios saved;
    struct history history;
    struct line_edit edit;
    struct buf shown; /* the line as the terminal shows it, with the cursor behind it */
    bool is_shown;    /* `shown` is right */
};

/*
 * `history_path` NULL: no file. An error is about that file: the prompt works, without it.
 */
int cell_prompt_init(struct cell_prompt *prompt, int cancel_fd, bool is_python,
                     const char *history_path, struct error *err);

/* 1: a cell in `cell`; 0: the input or a signal has ended it; negative: err says why. */
int cell_prompt_read(struct cell_prompt *prompt, struct buf *cell, struct error *err);

void cell_prompt_free(struct cell_prompt *prompt); /* for CLEANUP() */

#endif
