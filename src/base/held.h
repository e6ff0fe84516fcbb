/*
 * held.h - how many bytes the broker holds for each tenant and in all: bodies that are not answered
 * yet, replies and events that are not read yet, messages of WebSockets, code that waits for its
 * kernel, files that a tool changes.
 *
 * Each of them has a maximum of its own; this is the maximum of many at once, so that one key
 * cannot fill the memory by holding requests open. One object for the broker (session_manager.h).
 * Called by http/, by doors whose streams have buffers of their own, and by session/. One thread,
 * no I/O.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_HELD_H
#define BAILEY_BASE_HELD_H

#include <stdbool.h>
#include <stddef.h>

struct held;

struct held *held_new(size_t each, size_t all); /* maxima; NULL: no memory */
void held_free(struct held *held);              /* NULL is fine */

/*
 * `bytes` more: 0, -EDQUOT (the tenant holds too much), -ENOBUFS (all of them do, or no memory). A
 * free one is only part of the sum: the owner, on the unix socket. NULL `held`: always 0.
 */
int held_take(struct held *held, const char *tenant, bool is_free, size_t bytes);
void held_give(struct held *held, const char *tenant, size_t bytes);
/* Whether held_take() would say 0. */
int held_check(const struct held *held, const char *tenant, bool is_free, size_t bytes);
size_t held_by(const struct held *held, const char *tenant); /* NULL: all of them */

#endif
