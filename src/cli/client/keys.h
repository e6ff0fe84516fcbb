/*
 * keys.h - what is typed at a session's terminal, and the escape that is for us. Pure.
 *
 * Ctrl-] begins it: then d leaves, k kills, Ctrl-] sends one; anything else goes through with it.
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

/* Appends what goes to the guest; stops behind the bytes that make a wish. */
enum keys_wish keys_feed(struct keys *keys, const char *data, size_t length, struct buf *to);

#endif
