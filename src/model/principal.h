/*
 * principal.h - the authenticated caller: a tenant, by a key or over the daemon's unix socket.
 * Plain data.
 *
 * Every door makes one for each request before anything else is done, and all rooms below get it:
 * sessions, files, outputs, events and counts of another tenant do not exist for it
 * (session_not_found, in the same time as for one that does not exist).
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_MODEL_PRINCIPAL_H
#define BAILEY_MODEL_PRINCIPAL_H

#include <stdbool.h>
#include <stdint.h>

#define TENANT_MAX 64 /* [a-z0-9][a-z0-9-]*, with its NUL */
#define KEY_ID_MAX 24 /* hexadecimal, with its NUL */
#define TENANT_LOCAL "local"

/* What a key may be used for. */
enum scope {
    SCOPE_RUN,      /* "run": one-shot runs, tools, /execute */
    SCOPE_SESSIONS, /* "sessions": sessions, commands, cells, packages, events */
    SCOPE_FILES,    /* "files": files, datasets, outputs */
    SCOPE_METRICS,  /* "metrics": /metrics */
    SCOPE_ADMIN,    /* "admin": keys and audit of its own tenant */
    SCOPE_OPERATOR, /* "operator": admin of every tenant; templates, reload, every tenant's counts
                     */
    _SCOPE_MAX,
};
#define SCOPE_BIT(scope) (1u << (scope))
#define SCOPE_ALL (SCOPE_BIT(_SCOPE_MAX) - 1)
/* What a program needs that runs code: of a key for which nothing else was asked. */
#define SCOPES_ORDINARY (SCOPE_BIT(SCOPE_RUN) | SCOPE_BIT(SCOPE_SESSIONS) | SCOPE_BIT(SCOPE_FILES))
/* Numbers of scopes are in the index: new ones come last. */
const char *scope_name(enum scope scope);
int scope_from_name(const char *name, enum scope *ret); /* -EINVAL */

struct principal {
    char tenant[TENANT_MAX];
    char key[KEY_ID_MAX]; /* empty: over the daemon's own socket */
    uint32_t scopes;      /* SCOPE_BIT()s */
    bool is_local;        /* a client of the unix socket is the daemon's owner: every scope */
    uint64_t key_mark;    /* which text of the key: a rotated one has another */
    uint64_t until_ms;    /* wall clock until which the key is valid; 0: until it is removed */
};

/* Over the unix socket. */
extern const struct principal principal_local;

/* Whether it may do what needs the scope; "operator" includes "admin", and nothing else another. */
bool principal_may(const struct principal *who, enum scope scope);

/* 0, or -EINVAL: not a tenant's name. */
int tenant_check(const char *name);

#endif
