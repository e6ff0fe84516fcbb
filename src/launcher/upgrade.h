/*
 * upgrade.h - the launcher replaced by a new program, which goes on with its boxes. Private to
 * launcher/; design: docs/design/2026-11-15-upgrade.md.
 *
 * In the launcher (upgrade.c, upgrade_exec.c): NONE, then TRYING (children execute the new
 * programs), RESTING (what is under way gets done, nothing is begun), then execve(2); in the new
 * program HOLDING (its broker does not serve yet, the former programs are kept), then NONE. From
 * every state but the last the old program goes on. Nothing here waits.
 * In the stub (serve_upgrade.c): the socket through which somebody asks for it.
 */
#ifndef BAILEY_LAUNCHER_UPGRADE_H
#define BAILEY_LAUNCHER_UPGRADE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "sys/loop.h"

struct engine;
struct serve;

enum upgrade_state { UPGRADE_NONE, UPGRADE_TRYING, UPGRADE_RESTING, UPGRADE_HOLDING };

enum { UPGRADE_SELF, UPGRADE_ENGINE, _UPGRADE_PROGRAM_MAX };

struct upgrade {
    enum upgrade_state state;
    int program_fd[_UPGRADE_PROGRAM_MAX]; /* the new ones; HOLDING: the former ones */
    struct loop_source probe;             /* pidfd of who tries one */
    pid_t probe_pid;
    int probed;     /* which of them */
    int answer_fd;  /* what it says */
    uint64_t at_ms; /* when patience ends; 0: never */
};

void upgrade_init(struct engine *engine);
/* The stub's word; takes the descriptors. */
void upgrade_asked(struct engine *engine, const int *fds, size_t count);
/* Each turn: what rested long enough is executed, who takes too long is given up. */
void upgrade_turn(struct engine *engine, uint64_t now_ms);
/* Nothing is begun, and the broker is not listened to. */
bool upgrade_rests(const struct engine *engine);
void upgrade_served(struct engine *engine); /* the broker serves */
/* It has ended before it did. Returns where this was no upgrade, or the way back is closed. */
void upgrade_failed(struct engine *engine, const char *why);

/* upgrade_exec.c */
/* Executes these in our place; returns on failure only, with everything as it was. */
int upgrade_exec(struct engine *engine, const int program_fd[_UPGRADE_PROGRAM_MAX], bool is_return,
                 const char *reason);
/* As it would be handed over now, sealed. */
int upgrade_write(struct engine *engine, bool is_return, const char *reason, int *ret_fd);
/* Somebody handed over to this process; else it is a start from nothing. */
bool upgrade_is_taken(void);
int upgrade_take(struct engine *engine, struct error *err);
#define UPGRADE_HOLD_MS 30000 /* a broker that does not serve by then never will */

/* ---- in the stub ---- */

struct upgrade_door {
    int listen_fd, client_fd;
    bool is_asked; /* the client waits for the launcher's answer */
    uid_t owner;   /* who may ask, besides root */
};

void upgrade_door_init(struct upgrade_door *door);
/* Must: come before the privilege goes. */
int upgrade_door_open(struct upgrade_door *door, const char *socket, struct error *err);
void upgrade_door_close(struct upgrade_door *door);
void upgrade_door_remove(const char *socket); /* its name */
/* Something came at either of its descriptors; the request goes to `launcher_fd`. */
void upgrade_door_turn(struct upgrade_door *door, int launcher_fd);
/* The launcher's answer, as it came. */
void upgrade_door_answer(struct upgrade_door *door, const char *message, size_t length);

#endif
