/*
 * sanitize.h - makes what a guest prints harmless on a terminal.
 *
 * A streaming filter: printable UTF-8, newline, tab and carriage return pass, everything that could
 * steer a terminal or turn text around (escape and other controls, C1, invalid bytes, bidirectional
 * controls) becomes visible text such as \x1b or \u202e. State is at most one cut sequence; zeroed
 * is a valid start. Pure.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_SANITIZE_H
#define BAILEY_CLI_SANITIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct sanitizer {
    unsigned char held[4]; /* the beginning of a sequence that the last chunk cut */
    size_t held_count;
    bool one_line; /* newline, tab and carriage return are made visible too: for names */
};

/* Appends the harmless form of `data` to `to`. 0 or the negative errno of the buffer. */
int sanitize_feed(struct sanitizer *sanitizer, const void *data, size_t length, struct buf *to);

/* The stream has ended: what was held is invalid and is shown. */
int sanitize_finish(struct sanitizer *sanitizer, struct buf *to);

/* A whole text at once, on one line: file names and other texts of a guest in our own messages. */
int sanitize_line(const char *text, struct buf *to);

/* The most bytes one byte of input can become: an invalid byte is "\xff". */
#define SANITIZE_GROWTH 4

#endif
