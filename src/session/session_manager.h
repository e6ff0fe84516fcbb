/*
 * session_manager.h - all sessions of a daemon: made, found, ended, and taken over after a broker's
 * death.
 *
 * Owns the sessions, their boxes, and the one-shot runs under way. One thread, never blocks but for
 * the index. Called by tool/ and api/ (through session.h) and started by broker/.
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
    const char *output; /* absolute, as the daemon's user sees it; for replies */
    const char *artifacts;
    const int *dataset_fds;             /* configured folders, opened read-only */
    const char *const *dataset_folders; /* their names as configured, NULL-terminated */
};

/* An interpreter in every box, found when the daemon started. */
struct session_language {
    const char *name;   /* "python" */
    const char *script; /* "main.py": what a run's source is called */
    const char *driver; /* path in the box of what makes a kernel of it; NULL: it has none */
    const char
        *program; /* path in the box; NULL: this machine has none, `missing` says what to do */
    const char *missing;
    const char *here;        /* with containers: its path in a box of this machine; NULL: none */
    const char *fingerprint; /* changes with the program; NULL: nobody looked */
};

struct session_manager_spec {
    struct reactor *reactor;
    const struct config *config;
    struct session_folders folders;
    const struct session_language *languages;
    size_t language_count;
    struct index *index;
    struct bus *bus;
    struct audit *audit;
    struct metrics *metrics; /* NULL: nothing is counted */
};
int session_manager_new(const struct session_manager_spec *spec, struct session_manager **ret,
                        struct error *err);
void session_manager_free(struct session_manager *manager);

/*
 * Start: the provider has named the boxes of an earlier broker through session_manager_found();
 * then session_manager_start() takes them over (HELLO to each warden), ends in the index what has
 * no box any more, and calls ready() when every box has answered or was given up.
 */
void session_manager_set_provider(struct session_manager *manager, struct provider *provider);
void session_manager_found(struct session_manager *manager, const struct made *made);
void session_manager_start(struct session_manager *manager, uint32_t generation,
                           void (*ready)(void *ctx), void *ctx);
/* By itself; why: enum launcher_why. */
void session_manager_box_ended(struct session_manager *manager, uint32_t number, unsigned why);
struct kernel_end;
void session_manager_kernel_ended(struct session_manager *manager, const struct kernel_end *end);

/*
 * Goodbye: SIGTERM to everything that runs, SIGKILL after the grace, everything recorded; done().
 * Called again it only sets the grace anew.
 */
void session_manager_stop(struct session_manager *manager, uint64_t grace_ms,
                          void (*done)(void *ctx), void *ctx);

/* Is anything alive? For a daemon that leaves when nobody needs it. */
bool session_manager_is_idle(const struct session_manager *manager);
unsigned session_manager_session_count(const struct session_manager *manager); /* alive */
const struct config *session_manager_config(const struct session_manager *manager);
struct bus *session_manager_bus(struct session_manager *manager);
struct audit *session_manager_audit(struct session_manager *manager);
struct metrics *session_manager_metrics(struct session_manager *manager);
int session_manager_logs_fd(const struct session_manager *manager); /* borrowed */

/* Gauges of what is there now (sessions, programs, boxes that wait), for who reads the metrics. */
void session_manager_measure(struct session_manager *manager);
const struct session_language *session_manager_language(const struct session_manager *manager,
                                                        const char *name);

/*
 * Templates (template.c): names to layers, from <state>/templates. What has none is the host's own
 * Python. `session_manager_template` answers with borrowed strings, good until the loop's next
 * turn.
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
/* The smallest tier whose modules cover the import lines of this source; a hint, nothing more. */
unsigned session_manager_tier(struct session_manager *manager,
                              const struct session_template *found_template, const char *code,
                              size_t length);

/*
 * What is kept warm: {"zygotes": [...], "pool": {...}}, docs/rest.md; done() once (NULL: no
 * memory), with a new reference, unless it was cancelled by its ctx.
 */
void session_manager_look(struct session_manager *manager, void (*done)(void *ctx, json_t *state),
                          void *ctx);
void session_manager_look_cancel(struct session_manager *manager, void *ctx);

struct session_spec {
    const struct caller *caller; /* who asks; NULL: the engine itself. Copied. */
    const char *tenant;          /* NULL: TENANT_LOCAL */
    const char *template_name;   /* NULL: as configured */
    const char *name;            /* NULL: none */
    json_t *env;                 /* object of strings, or NULL; borrowed */
    uint64_t idle_ms;            /* 0: as configured */
    uint64_t age_ms;             /* 0: as configured */
    bool is_provisional; /* should the broker die before session_complete(), there is no session */
};
/*
 * Names are unique in a tenant. Errors: name_taken, bad_input, too_many_sessions (with err->num
 * -EAGAIN and session_manager_retry_s()), quota_exceeded, disk_full: it could not be recorded.
 */
int session_manager_create(struct session_manager *manager, const struct session_spec *spec,
                           struct session **ret, struct error *err);
unsigned session_manager_retry_s(
    const struct session_manager *manager); /* until a place will be free, at the latest */

/*
 * By id, by the beginning of one (at least 4 characters behind "s_", or without it) while that is
 * unique (among those that live, when one of them fits), or by name (of several tenants' the local
 * one's comes first). Errors: session_not_found, session_ambiguous, session_ended.
 */
int session_manager_find(struct session_manager *manager, const char *word, struct session **ret,
                         struct error *err);
/* The same, also for sessions that ended. */
int session_manager_find_any(struct session_manager *manager, const char *word,
                             struct session **ret, struct error *err);
/* Live ones first, newest first. */
void session_manager_each(struct session_manager *manager, bool with_ended,
                          void (*each)(void *ctx, struct session *session), void *ctx);
/* Of whom a session is; doors ask before they show anything of it. */
const char *session_tenant(const struct session *session);
/* As session_manager_find() and session_manager_find_any(), among the sessions of a tenant: no
 * other is there. */
int session_manager_find_of(struct session_manager *manager, const char *tenant, const char *word,
                            bool with_ended, struct session **ret, struct error *err);
unsigned session_manager_session_count_of(const struct session_manager *manager,
                                          const char *tenant); /* alive */
/* Quotas; never NULL. */
struct tenants *session_manager_tenants(struct session_manager *manager);
struct index *session_manager_index(struct session_manager *manager);
/* Whose box this is; NULL: nobody's, or an installer's. */
const char *session_manager_box_tenant(const struct session_manager *manager, uint32_t number);
unsigned
session_manager_queue_depth(const struct session_manager *manager); /* boxes that wait to be made */

/* ---- one-shot runs (run.c): a fresh box each, gone afterwards ---- */
struct run;
struct result;
/* A file of a run's own. */
struct run_file {
    const char *name; /* one name, in /workspace */
    const void *data;
    size_t length;
};
#define RUN_FILE_OVER "over the size that is kept" /* why a file did not come along */
struct run_spec {
    const struct caller *caller; /* who asks; NULL: the engine itself. Copied. */
    const char *template_name;   /* NULL: as configured */
    const char *tenant;          /* NULL: TENANT_LOCAL */
    const char *language;        /* "python" */
    json_t *keeper; /* what code and input are parts of, kept as long; NULL: they are copied */
    const char *code;
    size_t code_length;
    json_t *env;       /* object of strings, or NULL */
    const char *input; /* standard input; NULL: none */
    size_t input_length;
    uint64_t timeout_ms;   /* 0: as configured */
    const char *name;      /* of its source in /workspace; NULL: as the language has it */
    json_t *arguments;     /* array of strings behind it, or NULL */
    bool keeps_nothing;    /* SANDBOX_STORE_CODE is the caller's to do */
    uint64_t output_bytes; /* kept of each stream; 0: as configured */
    /* Put into /workspace before it starts; copied. */
    const struct run_file *files;
    size_t file_count;
    /*
     * Packages as a user writes them, NULL-terminated, or NULL; copied. Fetched by an installer box
     * before there is a box for the run, in timeout_ms at most. Python only.
     */
    const char *const *requirements;
    /*
     * Regular files that lie directly in /tmp/output, each told once before done(), to its ctx, up
     * to fetch_bytes together; those over it are among the result's files, with RUN_FILE_OVER.
     * Names come out of a box and are hostile. NULL: they are only counted.
     */
    void (*fetched)(void *ctx, const char *name, const void *data, size_t length);
    uint64_t fetch_bytes;
    /*
     * Output while it comes, to the ctx of done(): the bytes that were taken; less than all stops
     * the stream until session_manager_run_resume(). NULL: only in the result.
     */
    size_t (*sink)(void *ctx, int stream, const void *data, size_t length);
};
/* done() comes once, with a result for every ending; the result is the callee's to free. */
int session_manager_run(struct session_manager *manager, const struct run_spec *spec,
                        void (*done)(void *ctx, struct result *result), void *ctx, struct run **ret,
                        struct error *err);
/* The box is ended; neither done() nor the sink is called any more. */
void session_manager_run_cancel(struct run *run);
void session_manager_run_resume(struct run *run,
                                int stream); /* the sink has room; not from inside of it */
const char *session_manager_run_id(const struct run *run);
const char *session_manager_run_tenant(const struct run *run);
struct run *session_manager_run_find(struct session_manager *manager,
                                     const char *id); /* NULL: there is none */
/* The program is killed, what it wrote is still taken, and done() comes, with `cancelled`. */
void session_manager_run_stop(struct run *run);

#endif
