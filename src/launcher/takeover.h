/*
 * takeover.h - a `bailey serve` takes over a daemon that a command started on demand: the launcher
 * and its boxes stay, and the broker is started again with other settings, listeners and log.
 * Private to launcher/.
 *
 * NONE, then ENDING (the broker is being ended), STARTING (its successor does not serve yet; the
 * former settings are kept), then NONE. A successor that ends before it serves is the way back.
 *
 * Runs in: launcher
 */
#ifndef BAILEY_LAUNCHER_TAKEOVER_H
#define BAILEY_LAUNCHER_TAKEOVER_H

#include <stdbool.h>
#include <stddef.h>

#include "launcher/launcher_plan.h"

struct launcher;

enum takeover_state { TAKEOVER_NONE, TAKEOVER_ENDING, TAKEOVER_STARTING };

struct takeover {
    enum takeover_state state;
    bool is_possible;                    /* the numbers of the listeners are free */
    int plan_fd, settings_fd, stderr_fd; /* the former ones; -1: none */
    const struct launcher_plan *plan;
    struct launcher_plan *taken; /* the launcher's own from then on; owned */
    char **env;
    char reason[256]; /* why the successor did not start */
};

/* Keeps the numbers of listeners free for one. Must: come before anything else is opened. */
void takeover_init(struct launcher *launcher);
/* The supervisor's request; takes the descriptors: TAKEOVER_* of launcher_plan.h. */
void takeover_asked(struct launcher *launcher, const int *fds, size_t count);
/* The broker says why it cannot start. */
void takeover_reason(struct launcher *launcher, const char *text);
/* The broker has ended; true: as it should. */
bool takeover_broker_ended(struct launcher *launcher, const char *how);
void takeover_served(struct launcher *launcher); /* the broker serves */

#endif
