/*
 * upgrade.h - the launcher replaced by a new program, which continues with its boxes. Private to
 * launcher/; design: docs/design/2026-11-15-upgrade.md.
 *
 * In the launcher (upgrade.c, upgrade_exec.c): NONE, then TRYING (children execute the new
 * programs), RESTING (work in progress finishes, nothing is begun), then execve(2); in the new
 * program HOLDING (its broker does not serve yet, the former programs are kept), then NONE. From
 * every state but the last the old program can continue. Nothing here waits.
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
    struct loop_source probe;             /* pidfd of the child that tries a program */
    pid_t probe_pid;
    int probed;     /* which of them */
    int answer_fd;  /* what it says */
    uint64_t at_ms; /* when patience ends; 0: never */
};

void upgrade_init(struct launcher *launcher);
/* The supervisor's request; takes the descriptors. */
void upgrade_asked(struct launcher *launcher, const int *fds, size_t count);
/*
 * Each turn: executes the program when everything has finished, gives up a child that takes too
 * long.
 */
void upgrade_turn(struct launcher *launcher, uint64_t now_ms);
/* Nothing is begun, and the broker's messages are not read. */
bool upgrade_rests(const struct launcher *launcher);
void upgrade_served(struct launcher *launcher); /* the broker serves */
/*
 * The new broker ended before it served. Returns if this was no upgrade, or the way back is closed.
 */
void upgrade_failed(struct launcher *launcher, const char *why);

/* upgrade_exec.c */
/* Executes these instead of us; returns on failure only, with everything unchanged. */
int upgrade_exec(struct launcher *launcher, const int program_fd[_UPGRADE_PROGRAM_MAX],
                 bool is_return, const char *reason);
/* As it would be handed over now, sealed. */
int upgrade_write(struct launcher *launcher, bool is_return, const char *reason, int *ret_fd);
/* Whether another launcher handed over to this process; otherwise it is a fresh start. */
bool upgrade_is_taken(void);
int upgrade_take(struct launcher *launcher, struct error *err);
#define UPGRADE_HOLD_MS 30000 /* a broker that does not serve by then never will */

#endif
