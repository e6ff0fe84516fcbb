/*
 * refusal_log.h - records a refusal in the metrics and the audit log, once, whichever door it
 * happened at. Called by doors and tools. Never fails the caller; blocks for the page cache only.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_REFUSAL_LOG_H
#define BAILEY_SESSION_REFUSAL_LOG_H

#include <stdbool.h>

struct caller;
struct session_manager;
struct error;

/* The known facts; NULL or empty: unknown. Borrowed. */
struct refusal {
    const struct caller *caller;
    const struct error *err;
    const char
        *reason; /* label of bailey_refused_total, if the error does not determine it: "origin" */
    const char *method, *path, *peer, *session, *tool;
};

/* Whether the engine refused to do it, as opposed to failing or not understanding the request. */
bool refusal_is(const struct error *err);
/*
 * Each tenant, and all clients without a key together, get LIMIT_REFUSAL_LINES lines per minute;
 * further refusals share one line with their number (`more`). All are counted.
 */
void refusal_log_add(struct session_manager *manager, const struct refusal *refusal);

/* Called by session_manager.c. */
int refusal_log_start(
    struct session_manager *manager); /* -ENOMEM: refusal_log_stop() is due all the same */
void refusal_log_stop(struct session_manager *manager); /* safe twice */

#endif
