/*
 * progress_line.h - shows progress as one changing line on standard error on a terminal, and as
 * several lines elsewhere. For cli/client only.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_PROGRESS_LINE_H
#define BAILEY_CLI_CLIENT_PROGRESS_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress_line {
    bool is_silent, is_terminal;
    bool has_line; /* a line is shown that can be overwritten */
};

struct progress_line progress_line_begin(bool is_silent);
void progress_line_show(struct progress_line *line, const char *text); /* sanitised */
void progress_line_clear(struct progress_line *line);

/* The columns of the terminal; 80 if they are not known. */
size_t progress_columns(void);

#define PROGRESS_BAR_SIZE 20
/* "[####............]"; with an unknown total (0) it is empty. Pure. */
void progress_bar(uint64_t done, uint64_t total, char bar[PROGRESS_BAR_SIZE]);

/*
 * Packages that the installer has begun with, by its lines; begins with a total if it is known,
 * else zeros. Pure.
 */
struct package_count {
    size_t done, total;
};
void package_count_line(struct package_count *count, const char *line);
/* "[####............]  3 of 12 packages  LINE", or the line alone while nothing is counted. Pure.
 */
void package_count_text(const struct package_count *count, const char *line, char *text,
                        size_t size);

#endif
