/*
 * keys.h - the keys typed at a session's terminal, and the escape sequences of `bailey shell`.
 * Pure.
 *
 * Ctrl-] begins one: then d detaches, k kills, Ctrl-] sends one; any other key is sent together
 * with it.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_KEYS_H
#define BAILEY_CLI_CLIENT_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define KEY_ESCAPE 0x1d /* Ctrl-] */

enum keys_wish { KEYS_NONE, KEYS_DETACH, KEYS_KILL };

struct keys {
    bool is_escaped; /* the last byte was the escape; zeroed is a valid start */
};

/* Appends the bytes for the guest; stops after an escape sequence. */
enum keys_wish keys_feed(struct keys *keys, const char *data, size_t length, struct buf *to);

#endif
