/*
 * session_manager.h - all sessions of a daemon: created, found, ended, and adopted after a broker's
 * death.
 *
 * Owns the sessions, their boxes, and the one-shot runs under way. One thread, never blocks except
 * for the index. Called by tool/ and api/ (through session.h) and started by broker/.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_SESSION_MANAGER_H
#define BAILEY_SESSION_SESSION_MANAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/reactor.h"
#include "config/config.h"

typedef struct json_t json_t;
struct audit;
struct bus;
struct caller;
struct session_manager;
struct index;
struct provider;
struct made;
struct metrics;
struct session;
struct tenants;

/* Descriptors and names of the state folders; all borrowed. */
struct session_folders {
    int index_fd, output_fd, artifacts_fd, data_fd, logs_fd;
    int layers_fd, templates_fd, packages_fd;
    const char *output; /* absolute path as the daemon's user sees it; for replies */
    const char *artifacts;
    const int *dataset_fds;             /* configured folders, opened read-only */
    const char *const *dataset_folders; /* their names as configured, NULL-terminated */
};

/* The daemon's own interpreter of a language, found when it started. */
struct session_language {
    const char *name;    /* "python" */
    const char *script;  /* "main.py": file name of a run's source */
    const char *driver;  /* path in the box of the script that makes a kernel of it; NULL: none */
    const char *program; /* path in the box; NULL: not installed, `missing` says what to do */
    const char *missing;
    const char *normal;      /* path for callers who name none, if that is another one; or NULL */
    const char *here;        /* with containers: its path in a local box; NULL: none */
    const char *fingerprint; /* changes with the program; NULL: unknown */
    const char *own;         /* its name in a box with a file system of its own; NULL: `program` */
};

struct session_manager_spec {
    struct reactor *reactor;
    const struct config *config;
    struct session_folders folders;
    const struct session_language *languages;
    size_t language_count;
    json_t *interpreters; /* [{"named", "program"}] that callers may name; borrowed; NULL: none */
    struct index *index;
    struct bus *bus;
    struct audit *audit;
    struct metrics *metrics; /* NULL: no metrics */
    const char *state;       /* the state folder as the user sees it; NULL: unknown */
    bool has_no_ceiling;     /* boxes may exceed the configuration's limits */
};
int session_manager_new(const struct session_manager_spec *spec, struct session_manager **ret,
                        struct error *err);
void session_manager_free(struct session_manager *manager);

/*
 * Start: the provider has named the boxes of an earlier broker through session_manager_found();
 * then session_manager_start() adopts them (HELLO to each warden), ends in the index what has no
 * box any more, and calls ready() when every box has answered or was given up.
 */
void session_manager_set_provider(struct session_manager *manager, struct provider *provider);
void session_manager_found(struct session_manager *manager, const struct made *made);
void session_manager_start(struct session_manager *manager, uint32_t generation,
                           void (*ready)(void *ctx), void *ctx);
/* A box ended by itself; why: enum launcher_why. */
void session_manager_box_ended(struct session_manager *manager, uint32_t number, unsigned why);
struct kernel_end;
void session_manager_kernel_ended(struct session_manager *manager, const struct kernel_end *end);
/* CPU time outside of boxes, which counts for the tenant's quota: its packages in zygotes. */
void session_manager_spent(struct session_manager *manager, const char *tenant, uint64_t cpu_us);

/*
 * Stops everything: SIGTERM to all that runs, SIGKILL after the grace time, every end recorded;
 * then done(). A second call only sets the grace time again.
 */
void session_manager_stop(struct session_manager *manager, uint64_t grace_ms,
                          void (*done)(void *ctx), void *ctx);

/* Whether nothing is alive, for a daemon that exits when it is not needed. */
bool session_manager_is_idle(const struct session_manager *manager);
unsigned session_manager_session_count(const struct session_manager *manager); /* alive */
const struct config *session_manager_config(const struct session_manager *manager);
struct bus *session_manager_bus(struct session_manager *manager);
struct audit *session_manager_audit(struct session_manager *manager);
struct metrics *session_manager_metrics(struct session_manager *manager);
struct held *session_manager_held(const struct session_manager *manager); /* lives as long */
/* So many bytes more in memory for a tenant: 0, or ERROR_QUOTA or ERROR_BUSY; and back again. */
int session_manager_hold(struct session_manager *manager, const char *tenant, size_t bytes,
                         struct error *err);
void session_manager_release(struct session_manager *manager, const char *tenant, size_t bytes);
int session_manager_logs_fd(const struct session_manager *manager); /* borrowed */

/*
 * Settings of callers (settings_table.h). `more` ({KEY: text}), or a header's text, is added to
 * what the caller has; the result is checked, and over the network it can only tighten. The caller
 * is copied freely afterwards. Errors: bad_input, setting_differs.
 */
int session_manager_settings(struct session_manager *manager, struct caller *caller, json_t *more,
                             struct error *err);
int session_manager_settings_text(struct session_manager *manager, struct caller *caller,
                                  const char *text, struct error *err);
/* The configuration of a caller's run or new session; valid until the loop's next turn. */
int session_manager_config_of(struct session_manager *manager, const struct caller *caller,
                              const struct config **ret, struct error *err);
void session_manager_reloaded(struct session_manager *manager); /* the configuration changed */

/* Sets the gauges (sessions, programs, boxes that wait), before metrics are read. */
void session_manager_measure(struct session_manager *manager);
const struct session_language *session_manager_language(const struct session_manager *manager,
                                                        const char *name);

/*
 * interpreters.c: the program that runs a language in boxes of this configuration (SANDBOX_PYTHON,
 * SANDBOX_NODE), as a path or a name in the box; `row`: the provider of the box. *ret_other: it is
 * not the daemon's own, so the box has to be asked for it, has no warm kernel and no template.
 * Errors: no_interpreter, bad_input, which name the key. ret_other may be NULL.
 */
struct provider_row;
int session_manager_interpreter(const struct session_manager *manager, const struct config *config,
                                const struct provider_row *row,
                                const struct session_language *language, const char **ret_program,
                                const char **ret_other, struct error *err);
/* The same for Python; NULL: the daemon's own. For requests of boxes and packages. */
const char *session_manager_other_python(const struct session_manager *manager,
                                         const struct config *config);
const char *session_manager_other_node(const struct session_manager *manager,
                                       const struct config *config);
/*
 * A template belongs to the daemon's own Python. Error: bad_input, which names SANDBOX_PYTHON.
 */
int session_manager_own_python(const struct session_manager *manager, const struct config *config,
                               const char *what, struct error *err);

/*
 * Templates (template.c): names to layers, from <state>/templates. A template without a layer is
 * the host's own Python. `session_manager_template` answers with borrowed strings, valid until the
 * loop's next turn.
 */
struct session_template {
    const char *name;
    const char *layer;             /* NULL: none */
    const char *const *env;        /* NULL-terminated "K=V" */
    const char *const *tier_names; /* above base, NULL-terminated */
    unsigned tier_count;           /* base included: tiers are 0 .. tier_count - 1 */
};
/* NULL: the configured one. Errors: template_not_found, template_not_built. */
int session_manager_template(struct session_manager *manager, const char *name,
                             struct session_template *ret, struct error *err);
/* The same for another configuration than the daemon's: its template, its type. */
int session_manager_template_of(struct session_manager *manager, const struct config *config,
                                const char *name, struct session_template *ret, struct error *err);
/*
 * What to do about a module that code did not find (missing.h): `is_kept` if the code ran in a
 * session. False: there is nothing to say.
 */
bool session_manager_missing_hint(struct session_manager *manager, const struct config *config,
                                  const char *module, bool is_kept, struct buf *text);
/* The smallest tier whose modules cover the import lines of this source; a hint, nothing more. */
unsigned session_manager_tier(struct session_manager *manager,
                              const struct session_template *found_template, const char *code,
                              size_t length);

/*
 * What is kept warm: {"zygotes": [...], "pool": {...}}, docs/rest.md; done() is called once with a
 * new reference (NULL: no memory), unless the call was cancelled by its ctx.
 */
void session_manager_look(struct session_manager *manager, void (*done)(void *ctx, json_t *state),
                          void *ctx);
void session_manager_look_cancel(struct session_manager *manager, void *ctx);

struct session_spec {
    const struct caller *caller; /* the caller; NULL: the engine itself. Copied. */
    const char *tenant;          /* NULL: TENANT_LOCAL */
    const char *template_name;   /* NULL: as configured */
    const char *name;            /* NULL: none */
    json_t *env;                 /* object of strings, or NULL; borrowed */
    uint64_t idle_ms;            /* 0: as configured */
    uint64_t age_ms;             /* 0: as configured */
    json_t *settings;    /* {KEY: text} where the caller has none; NULL: the daemon's. Borrowed. */
    json_t *notes;       /* of the door, session_notes(); NULL: none. Borrowed. */
    bool pauses_at_end;  /* at its age limit it is paused, and not ended */
    bool resumes_by_use; /* while it is paused, a call that needs its box resumes it */
    bool is_spare; /* made by one call that named no session: its idle time is SPARE_IDLE_MS, and it
                      goes first where room is needed, until session_promote() */
    bool is_provisional; /* if the broker dies before session_complete(), the session is removed */
};
/*
 * Names are unique in a tenant. Errors: name_taken, bad_input, too_many_sessions (with err->num
 * -EAGAIN and session_manager_retry_s()), quota_exceeded, disk_full (it could not be stored).
 */
int session_manager_create(struct session_manager *manager, const struct session_spec *spec,
                           struct session **ret, struct error *err);
/*
 * The same in the place of the session `before` (an id, or a name of the tenant's), if that has
 * ended: with its settings where the caller and the specification say nothing, and for a name with
 * its datasets; nothing of a session with a name that was deleted. `note` says to the caller what
 * is gone; empty: there was no such session.
 */
#define SUCCESSION_NOTE 512
int session_manager_succeed(struct session_manager *manager, const char *before,
                            const struct session_spec *spec, struct session **ret,
                            char note[SUCCESSION_NOTE], struct error *err);
/* Ends an unused spare session, preferably of this tenant; false: there is none. */
#define SPARE_IDLE_MS 60000
bool session_manager_make_room(struct session_manager *manager, const char *tenant, bool is_any);
unsigned session_manager_retry_s(
    const struct session_manager *manager); /* seconds until a session ends, at the latest */

/*
 * By id, by a unique prefix of an id (at least 4 characters after "s_", or without it; live
 * sessions are preferred), or by name (the local tenant's session before those of other tenants).
 * Errors: session_not_found, session_ambiguous, session_ended.
 */
int session_manager_find(struct session_manager *manager, const char *word, struct session **ret,
                         struct error *err);
/* The same, also for sessions that ended. */
int session_manager_find_any(struct session_manager *manager, const char *word,
                             struct session **ret, struct error *err);
/* Live ones first, newest first. */
void session_manager_each(struct session_manager *manager, bool with_ended,
                          void (*each)(void *ctx, struct session *session), void *ctx);
/* The tenant that owns the session; doors check it before they show anything. */
const char *session_tenant(const struct session *session);
/*
 * As session_manager_find() and session_manager_find_any(), among the sessions of one tenant only.
 */
int session_manager_find_of(struct session_manager *manager, const char *tenant, const char *word,
                            bool with_ended, struct session **ret, struct error *err);
unsigned session_manager_session_count_of(const struct session_manager *manager,
                                          const char *tenant); /* alive */
/* Quotas; never NULL. */
struct tenants *session_manager_tenants(struct session_manager *manager);
struct index *session_manager_index(struct session_manager *manager);
/* The tenant that owns this box; NULL: no tenant, or an installer's box. */
const char *session_manager_box_tenant(const struct session_manager *manager, uint32_t number);
unsigned
session_manager_queue_depth(const struct session_manager *manager); /* boxes that wait to be made */

/* ---- one-shot runs (run.c): a new box for each, removed afterwards ---- */
struct run;
struct result;
/* A file that is put into a run's box. */
struct run_file {
    const char *name; /* a file name in /workspace */
    const void *data;
    size_t length;
};
#define RUN_FILE_OVER "over the size that is kept" /* why a file was not fetched */
struct run_spec {
    const struct caller *caller; /* the caller; NULL: the engine itself. Copied. */
    const char *template_name;   /* NULL: as configured */
    const char *tenant;          /* NULL: TENANT_LOCAL */
    const char *language;        /* "python" */
    json_t *keeper; /* owns code and input, and is kept as long as they are needed; NULL: they are
                       copied */
    const char *code;
    size_t code_length;
    json_t *env;       /* object of strings, or NULL */
    const char *input; /* standard input; NULL: none */
    size_t input_length;
    uint64_t timeout_ms;   /* 0: as configured */
    const char *name;      /* file name of its source in /workspace; NULL: the language's default */
    json_t *arguments;     /* array of strings: its arguments, or NULL */
    bool keeps_nothing;    /* the caller handles SANDBOX_STORE_CODE itself */
    uint64_t output_bytes; /* limit of each stream; 0: as configured */
    /* Put into /workspace before the program starts; copied. */
    const struct run_file *files;
    size_t file_count;
    /* Packages as a user writes them, NULL-terminated, or NULL; copied. Installed by an
     * installer box before the run's box is made, in timeout_ms at most. Python only. */
    const char *const *requirements;
    /* Called for each regular file directly in /tmp/output, once before done(), with done()'s
     * ctx, up to fetch_bytes in sum; further files are listed in the result's files with
     * RUN_FILE_OVER. Names come out of a box and are hostile. NULL: files are only counted. */
    void (*fetched)(void *ctx, const char *name, const void *data, size_t length);
    uint64_t fetch_bytes;
    /* Called with output while the program runs, with done()'s ctx; returns the bytes that were
     * taken. Less than all stops the stream until session_manager_run_resume(). NULL: output is
     * only in the result. */
    size_t (*sink)(void *ctx, int stream, const void *data, size_t length);
};
/* done() is called once, with a result for every ending; the callee frees the result. */
int session_manager_run(struct session_manager *manager, const struct run_spec *spec,
                        void (*done)(void *ctx, struct result *result), void *ctx, struct run **ret,
                        struct error *err);
/* The box is ended; neither done() nor the sink is called any more. */
void session_manager_run_cancel(struct run *run);
void session_manager_run_resume(
    struct run *run, int stream); /* the sink has room; not to be called from inside the sink */
const char *session_manager_run_id(const struct run *run);
const char *session_manager_run_tenant(const struct run *run);
struct run *session_manager_run_find(struct session_manager *manager,
                                     const char *id); /* NULL: there is none */
/* Kills the program; output that it wrote is still read, and done() is called with `cancelled`. */
void session_manager_run_stop(struct run *run);

#endif
