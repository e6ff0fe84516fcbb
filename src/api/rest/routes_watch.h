/*
 * routes_watch.h - rows of the REST door about what happened; included by routes.c in the middle of
 * its table, and by nobody else.
 *
 * Runs in: broker
 */

#define S_TAIL "{\"type\":\"integer\",\"minimum\":0,\"maximum\":100000}"

{"GET",        "/metrics", "metrics", "Counts and times for Prometheus, in its text format 0.0.4",
 {{0}},        BODY_NONE,  NULL,      200,
 "text/plain", NULL,       "",        SCOPE_METRICS,
 false,        metrics_get},
    {"GET",
     "/v1/audit",
     "audit",
     "Lines of the audit as they were written, oldest first, one JSON object each",
     {QUERY("session", S_NAME, "only of this session, by its whole id"),
      QUERY("tenant", S_NAME, "only of this tenant"),
      QUERY("action", S_NAME, "only of this action; with a dot at the end, all that begin so"),
      QUERY("since", S_NAME, "only from this time on, in UTC: 2026-11-15T08:15:04Z"),
      QUERY("tail", S_TAIL, "only the last ones of the newest file, so many"),
      QUERY("follow", S_BOOLEAN, "go on with those that come")},
     BODY_NONE,
     NULL,
     200,
     TYPE_LINES,
     NULL,
     "",
     SCOPE_ADMIN,
     false,
     audit_get},
