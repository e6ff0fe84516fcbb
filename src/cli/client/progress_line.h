/*
 * progress_line.h - shows progress as one changing line on standard error on a terminal, and as
 * several lines elsewhere. For cli/client only.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_PROGRESS_LINE_H
#define BAILEY_CLI_CLIENT_PROGRESS_LINE_H

#include <stdbool.h>

struct progress_line {
    bool is_silent, is_terminal;
    bool has_line; /* a line is shown that can be overwritten */
};

struct progress_line progress_line_begin(bool is_silent);
void progress_line_show(struct progress_line *line, const char *text); /* sanitised */
void progress_line_clear(struct progress_line *line);

#endif
