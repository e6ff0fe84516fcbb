/*
 * cell_prompt.h - reads cells that are typed on a terminal, with a prompt. For cli/client only.
 *
 * Lines are read until they are a whole statement; an empty line ends a block. The prompt goes to
 * standard error. Blocks until a cell, the end of the input or a signal.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_CELL_PROMPT_H
#define BAILEY_CLI_CLIENT_CELL_PROMPT_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

struct cell_prompt {
    int cancel_fd;      /* signals_open() */
    bool is_python;     /* other languages: a line whose brackets are closed is a cell */
    int signal;         /* a signal other than SIGINT ended it; 0: none */
    struct buf pending; /* read and not used yet */
};

void cell_prompt_init(struct cell_prompt *prompt, int cancel_fd, bool is_python);

/* 1: a cell in `cell`; 0: the input or a signal has ended it; negative: err says why. */
int cell_prompt_read(struct cell_prompt *prompt, struct buf *cell, struct error *err);

void cell_prompt_free(struct cell_prompt *prompt); /* for CLEANUP() */

#endif
