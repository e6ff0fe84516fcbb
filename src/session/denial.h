/*
 * denial.h - a refusal, told once to the metrics and to the audit, whichever door it happened at.
 * Called by doors and tools. Never fails the caller; blocks for the page cache only.
 */
#ifndef BAILEY_SESSION_DENIAL_H
#define BAILEY_SESSION_DENIAL_H

#include <stdbool.h>

struct caller;
struct engine;
struct error;

/* What is known of it; NULL or empty: not that. Borrowed. */
struct denial {
    const struct caller *caller;
    const struct error *err;
    const char *reason; /* of bailey_refused_total, where the error does not say it: "origin" */
    const char *method, *path, *peer, *session, *tool;
};

/* Whether the engine would not do it, as opposed to could not, or did not understand it. */
bool denial_is(const struct error *err);
/* Of one tenant, and of all without a key, LIMIT_DENIALS in a minute have a line each; others are
 * told together, in one with their number (`more`). All are counted. */
void engine_denied(struct engine *engine, const struct denial *denial);

/* Of engine.c. */
int denials_start(struct engine *engine); /* -ENOMEM: denials_stop() is due all the same */
void denials_stop(struct engine *engine); /* safe twice */

#endif
