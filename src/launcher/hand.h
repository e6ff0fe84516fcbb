/*
 * hand.h - what survives an exec and what does not: descriptors, programs, privileges. For
 * supervisor/ and launcher/, which start each other's programs.
 *
 * Runs in: launcher, supervisor
 */
#ifndef BAILEY_LAUNCHER_HAND_H
#define BAILEY_LAUNCHER_HAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct fd_move {
    int from, to; /* from -1: `to` stays empty */
};
/* Descriptors by number, ascending and complete; all others are closed by the next exec. */
int hand_fds(struct fd_move *moves, size_t count);
/* A sealed copy in memory; *ret_fd is close-on-exec. */
int hand_program(const char *path, int *ret_fd, struct error *err);
int hand_bytes(const char *name, const void *data, size_t length, int *ret_fd, struct error *err);
int hand_exec(int program_fd, char *const *argv, char *const *env); /* returns only on failure */
/* Becomes this id (-1: stays) without any capability, for good, also where the id is 0. */
int hand_off_privileges(int64_t id, bool clears_groups);

#endif
