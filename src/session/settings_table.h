/*
 * settings_table.h - the settings of callers and sessions, each applied to the daemon's
 * configuration once.
 *
 * Many calls bring the same settings, so a set is kept under its text and shared: by sessions,
 * executions and runs, which hold a reference, and by callers (model/caller.h), which have only its
 * number. Sets without a reference are dropped when there are more than LIMIT_SETTINGS of them, the
 * longest unused first; sets of callers over the network make no others go. One thread, no I/O.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_SETTINGS_TABLE_H
#define BAILEY_SESSION_SETTINGS_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"

struct caller;
struct execution;
struct run;
struct session;
struct session_manager;

/* Whose settings they are decides how they are checked. */
enum settings_owner {
    SETTINGS_NETWORK, /* a caller over the network, who can only tighten */
    SETTINGS_USER,    /* a caller of the daemon's user */
    SETTINGS_SESSION, /* a session: they were checked when its caller brought them */
};

struct settings {
    struct settings *next;
    struct session_manager *manager;
    uint32_t number; /* not 0 */
    unsigned references;
    uint64_t used; /* a count: the higher, the later it was used */
    unsigned generation;
    enum settings_owner owner;
    char *text;    /* the object as JSON, sorted */
    json_t *given; /* {KEY: text} */
    struct config config;
};

/* A set with a reference for the caller. Errors: those of settings_apply(). */
int settings_take(struct session_manager *manager, json_t *given, enum settings_owner owner,
                  struct settings **ret, struct error *err);
struct settings *settings_hold(struct settings *settings); /* NULL is fine; returns it */
void settings_release(struct settings *settings);          /* NULL is fine */
/* Those of a caller; NULL: it has none. -ESTALE with an error: they were dropped. */
int settings_of_caller(struct session_manager *manager, const struct caller *caller,
                       struct settings **ret, struct error *err);
void settings_table_free(struct session_manager *manager);

/*
 * The settings of a new session: what the caller set, the members of `spec`, and for all other keys
 * of sessions the daemon's values of this moment.
 */
struct session_spec;
int settings_of_new(struct session_manager *manager, const struct session_spec *spec,
                    struct settings **ret, struct error *err);
/* interpreters.c: SANDBOX_PYTHON and SANDBOX_NODE as the programs that the session will have. */
int settings_fix_interpreters(struct session_manager *manager, json_t *settings,
                              const struct config *config, struct error *err);
/*
 * interpreters.c: whether a caller may name these. Over the network only those of the server's
 * configuration; where that has a list, other callers too. Error: bad_input, which names the key.
 */
int settings_check_interpreters(const struct session_manager *manager, const struct config *config,
                                bool is_network, struct error *err);
/* Replaces a set by one with this template: the name that "auto" stood for. */
int settings_set_template(struct settings **settings, const char *name, struct error *err);
/*
 * The settings of a call in a session: the session's, with the caller's keys of calls. *ret gets a
 * reference, or NULL. Error: setting_differs.
 */
int settings_of_call(struct session *session, const struct caller *caller, struct settings **ret,
                     struct error *err);

/* The configurations that apply; never NULL. */
const struct config *session_config(const struct session *session);
const struct config *execution_config(const struct execution *execution);
const struct config *run_config(const struct run *run);

#endif
