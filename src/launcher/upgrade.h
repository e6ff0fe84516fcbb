/*
 * upgrade.h - the launcher replaced by a new program, which goes on with its boxes. Private to
 * launcher/; design: docs/design/2026-11-15-upgrade.md.
 *
 * In the launcher (upgrade.c, upgrade_exec.c): NONE, then TRYING (children execute the new
 * programs), RESTING (what is under way gets done, nothing is begun), then execve(2); in the new
 * program HOLDING (its broker does not serve yet, the former programs are kept), then NONE. From
 * every state but the last the old program goes on. Nothing here waits.
 *
 * Runs in: launcher
 */
#ifndef BAILEY_LAUNCHER_UPGRADE_H
#define BAILEY_LAUNCHER_UPGRADE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "launcher/launcher_plan.h"
#include "sys/loop.h"

struct launcher;

enum upgrade_state { UPGRADE_NONE, UPGRADE_TRYING, UPGRADE_RESTING, UPGRADE_HOLDING };

struct upgrade {
    enum upgrade_state state;
    int program_fd[_UPGRADE_PROGRAM_MAX]; /* the new ones; HOLDING: the former ones */
    struct loop_source probe;             /* pidfd of who tries one */
    pid_t probe_pid;
    int probed;     /* which of them */
    int answer_fd;  /* what it says */
    uint64_t at_ms; /* when patience ends; 0: never */
};

void upgrade_init(struct launcher *launcher);
/* The supervisor's word; takes the descriptors. */
void upgrade_asked(struct launcher *launcher, const int *fds, size_t count);
/* Each turn: what rested long enough is executed, who takes too long is given up. */
void upgrade_turn(struct launcher *launcher, uint64_t now_ms);
/* Nothing is begun, and the broker is not listened to. */
bool upgrade_rests(const struct launcher *launcher);
void upgrade_served(struct launcher *launcher); /* the broker serves */
/* It has ended before it did. Returns where this was no upgrade, or the way back is closed. */
void upgrade_failed(struct launcher *launcher, const char *why);

/* upgrade_exec.c */
/* Executes these in our place; returns on failure only, with everything as it was. */
int upgrade_exec(struct launcher *launcher, const int program_fd[_UPGRADE_PROGRAM_MAX],
                 bool is_return, const char *reason);
/* As it would be handed over now, sealed. */
int upgrade_write(struct launcher *launcher, bool is_return, const char *reason, int *ret_fd);
/* Somebody handed over to this process; else it is a start from nothing. */
bool upgrade_is_taken(void);
int upgrade_take(struct launcher *launcher, struct error *err);
#define UPGRADE_HOLD_MS 30000 /* a broker that does not serve by then never will */

#endif
