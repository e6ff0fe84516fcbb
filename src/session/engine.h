/*
 * engine.h - all sessions of a daemon: made, found, ended, and taken over after a broker's death.
 *
 * Owns the sessions, their boxes, and the one-shot runs under way. One thread, never blocks but for
 * the index. Called by tool/ and api/ (through session.h) and started by broker/.
 */
#ifndef BAILEY_SESSION_ENGINE_H
#define BAILEY_SESSION_ENGINE_H

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
struct engine;
struct index;
struct maker;
struct made;
struct metrics;
struct session;
struct tenants;

/* Descriptors and names of the state folders; all borrowed. */
struct engine_folders {
    int index_fd, output_fd, artifacts_fd, data_fd, logs_fd;
    int layers_fd, templates_fd, packages_fd;
    const char *output; /* absolute, as the daemon's user sees it; for replies */
    const char *artifacts;
    const int *dataset_fds;             /* configured folders, opened read-only */
    const char *const *dataset_folders; /* their names as configured, NULL-terminated */
};

/* An interpreter in every box, found when the daemon started. */
struct engine_language {
    const char *name;   /* "python" */
    const char *script; /* "main.py": what a run's source is called */
    const char *driver; /* path in the box of what makes a kernel of it; NULL: it has none */
    const char
        *program; /* path in the box; NULL: this machine has none, `missing` says what to do */
    const char *missing;
    const char *here;        /* with containers: its path in a box of this machine; NULL: none */
    const char *fingerprint; /* changes with the program; NULL: nobody looked */
};

struct engine_spec {
    struct reactor *reactor;
    const struct config *config;
    struct engine_folders folders;
    const struct engine_language *languages;
    size_t language_count;
    struct index *index;
    struct bus *bus;
    struct audit *audit;
    struct metrics *metrics; /* NULL: nothing is counted */
};
int engine_new(const struct engine_spec *spec, struct engine **ret, struct error *err);
void engine_free(struct engine *engine);

/*
 * Start: the maker has named the boxes of an earlier broker through engine_found(); then
 * engine_start() takes them over (HELLO to each warden), ends in the index what has no box any
 * more, and calls ready() when every box has answered or was given up.
 */
void engine_set_maker(struct engine *engine, struct maker *maker);
void engine_found(struct engine *engine, const struct made *made);
void engine_start(struct engine *engine, uint32_t generation, void (*ready)(void *ctx), void *ctx);
/* By itself; why: enum launcher_why. */
void engine_box_ended(struct engine *engine, uint32_t number, unsigned why);
struct kernel_end;
void engine_kernel_ended(struct engine *engine, const struct kernel_end *end);

/*
 * Goodbye: SIGTERM to everything that runs, SIGKILL after the grace, everything recorded; done().
 * Called again it only sets the grace anew.
 */
void engine_stop(struct engine *engine, uint64_t grace_ms, void (*done)(void *ctx), void *ctx);

/* Is anything alive? For a daemon that leaves when nobody needs it. */
bool engine_is_idle(const struct engine *engine);
unsigned engine_session_count(const struct engine *engine); /* alive */
const struct config *engine_config(const struct engine *engine);
struct bus *engine_bus(struct engine *engine);
struct audit *engine_audit(struct engine *engine);
struct metrics *engine_metrics(struct engine *engine);
int engine_logs_fd(const struct engine *engine); /* borrowed */

/*
 * Whoever's request is handled at this moment: what is started from inside of it is theirs, in the
 * audit and in results. Set by the gate (copied), and taken back (NULL) when the door's handler has
 * returned; a door whose messages come without a request does both itself. Never NULL when asked
 * for.
 */
void engine_set_caller(struct engine *engine, const struct caller *caller);
const struct caller *engine_caller(const struct engine *engine);

/* Gauges of what is there now (sessions, programs, boxes that wait), for who reads the metrics. */
void engine_measure(struct engine *engine);
const struct engine_language *engine_language(const struct engine *engine, const char *name);

/*
 * Templates (template.c): names to layers, from <state>/templates. What has none is the host's own
 * Python. `engine_template` answers with borrowed strings, good until the loop's next turn.
 */
struct engine_template {
    const char *name;
    const char *layer;             /* NULL: none */
    const char *const *env;        /* NULL-terminated "K=V" */
    const char *const *tier_names; /* above base, NULL-terminated */
    unsigned tier_count;           /* base included: tiers are 0 .. tier_count - 1 */
};
/* NULL: the configured one. Errors: template_not_found, template_not_built. */
int engine_template(struct engine *engine, const char *name, struct engine_template *ret,
                    struct error *err);
/* The smallest tier whose modules cover the import lines of this source; a hint, nothing more. */
unsigned engine_tier(struct engine *engine, const struct engine_template *furniture,
                     const char *code, size_t length);

/*
 * What is kept warm: {"zygotes": [...], "pool": {...}}, docs/rest.md; done() once (NULL: no
 * memory), with a new reference, unless it was cancelled by its ctx.
 */
void engine_look(struct engine *engine, void (*done)(void *ctx, json_t *state), void *ctx);
void engine_look_cancel(struct engine *engine, void *ctx);

struct session_spec {
    const char *tenant;        /* NULL: TENANT_LOCAL */
    const char *template_name; /* NULL: as configured */
    const char *name;          /* NULL: none */
    json_t *env;               /* object of strings, or NULL; borrowed */
    uint64_t idle_ms;          /* 0: as configured */
    uint64_t age_ms;           /* 0: as configured */
    bool is_draft; /* should the broker die before session_complete(), there is no session */
};
/*
 * Names are unique in a tenant. Errors: name_taken, bad_input, too_many_sessions (with err->num
 * -EAGAIN and engine_retry_s()), quota_exceeded, disk_full: it could not be recorded.
 */
int engine_create(struct engine *engine, const struct session_spec *spec, struct session **ret,
                  struct error *err);
unsigned
engine_retry_s(const struct engine *engine); /* until a place will be free, at the latest */

/*
 * By id, by the beginning of one (at least 4 characters behind "s_", or without it) while that is
 * unique (among those that live, when one of them fits), or by name (of several tenants' the local
 * one's comes first). Errors: session_not_found, session_ambiguous, session_ended.
 */
int engine_find(struct engine *engine, const char *word, struct session **ret, struct error *err);
/* The same, also for sessions that ended. */
int engine_find_any(struct engine *engine, const char *word, struct session **ret,
                    struct error *err);
/* Live ones first, newest first. */
void engine_each(struct engine *engine, bool with_ended,
                 void (*each)(void *ctx, struct session *session), void *ctx);
/* Of whom a session is; doors ask before they show anything of it. */
const char *session_tenant(const struct session *session);
/* As engine_find() and engine_find_any(), among the sessions of a tenant: no other is there. */
int engine_find_of(struct engine *engine, const char *tenant, const char *word, bool with_ended,
                   struct session **ret, struct error *err);
unsigned engine_session_count_of(const struct engine *engine, const char *tenant); /* alive */
/* Quotas; never NULL. */
struct tenants *engine_tenants(struct engine *engine);
struct index *engine_index(struct engine *engine);
/* Whose box this is; NULL: nobody's, or an installer's. */
const char *engine_box_tenant(const struct engine *engine, uint32_t number);
unsigned engine_queue_depth(const struct engine *engine); /* boxes that wait to be made */

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
    const char *template_name; /* NULL: as configured */
    const char *tenant;        /* NULL: TENANT_LOCAL */
    const char *language;      /* "python" */
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
     * the stream until engine_run_resume(). NULL: only in the result.
     */
    size_t (*sink)(void *ctx, int stream, const void *data, size_t length);
};
/* done() comes once, with a result for every ending; the result is the callee's to free. */
int engine_run(struct engine *engine, const struct run_spec *spec,
               void (*done)(void *ctx, struct result *result), void *ctx, struct run **ret,
               struct error *err);
void engine_run_cancel(struct run *run); /* the box is ended; nobody is called any more */
void engine_run_resume(struct run *run, int stream); /* the sink has room; not from inside of it */
const char *engine_run_id(const struct run *run);
const char *engine_run_tenant(const struct run *run);
struct run *engine_run_find(struct engine *engine, const char *id); /* NULL: there is none */
/* The program is killed, what it wrote is still taken, and done() comes, with `cancelled`. */
void engine_run_stop(struct run *run);

#endif
