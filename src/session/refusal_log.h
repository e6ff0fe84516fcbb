/*
 * refusal_log.h - a refusal, told once to the metrics and to the audit, whichever door it happened
 * at. Called by doors and tools. Never fails the caller; blocks for the page cache only.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_REFUSAL_LOG_H
#define BAILEY_SESSION_REFUSAL_LOG_H

#include <stdbool.h>

struct caller;
struct session_manager;
struct error;

/* What is known of it; NULL or empty: not that. Borrowed. */
struct refusal {
    const struct caller *caller;
    const struct error *err;
    const char *reason; /* of bailey_refused_total, where the error does not say it: "origin" */
    const char *method, *path, *peer, *session, *tool;
};

/* Whether the engine would not do it, as opposed to could not, or did not understand it. */
bool refusal_is(const struct error *err);
/* Of one tenant, and of all without a key, LIMIT_REFUSAL_LINES in a minute have a line each; others
 * are told together, in one with their number (`more`). All are counted. */
void refusal_log_add(struct session_manager *manager, const struct refusal *refusal);

/* Of session_manager.c. */
int refusal_log_start(
    struct session_manager *manager); /* -ENOMEM: refusal_log_stop() is due all the same */
void refusal_log_stop(struct session_manager *manager); /* safe twice */

#endif
