/*
 * progress_line.h - where some work is, as one line on standard error that changes on a terminal,
 * and as lines elsewhere. Inside of client/.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_PROGRESS_LINE_H
#define BAILEY_CLI_CLIENT_PROGRESS_LINE_H

#include <stdbool.h>

struct progress_line {
    bool is_silent, is_terminal;
    bool has_line; /* one stands there that can be overwritten */
};

struct progress_line progress_line_begin(bool is_silent);
void progress_line_show(struct progress_line *line, const char *text); /* made harmless */
void progress_line_clear(struct progress_line *line);

#endif
