/*
 * message.h - bailey's own messages on standard error, and printed text on standard output.
 *
 * Control characters in messages are neutralised. Blocks for the descriptor.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_MESSAGE_H
#define BAILEY_CLI_MESSAGE_H

#include "base/buf.h"
#include "base/error.h"

/* "bailey: ..." and a newline on standard error. */
void message_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The error, and what to do next if its code says it. */
void message_error(const struct error *err);

/* The same, and the exit status of bad input: what a command returns. */
int message_bad_input(const struct error *err);

/* What to do next about an error code, as a sentence; NULL: the text says it all. */
const char *next_step(const char *code);

/*
 * Prints a text on standard output; returns the exit status: 0, 141 (the reader has gone) or 125.
 */
int print_text(const struct buf *text);

/* The same for text that contains a guest's text: neutralised on a terminal. */
int print_guest_text(const struct buf *text);

/* The same for a JSON document on one line; takes the reference. NULL is "out of memory". */
typedef struct json_t json_t;
int print_json(json_t *json);

#endif
