/*
 * session.h - one agent's workspace, create to end: its box, executions, files, datasets, outputs.
 *
 * Owned by its engine; a pointer is good until the session is dropped from memory, which never
 * happens while a call on it is pending. Never blocks. After session_end() every execution has
 * ended and every pending call has failed with session_ended.
 *
 * States (state.c has the table of what may follow what):
 *   NEW       no box yet; everything may be asked for, the first use makes the box
 *   STARTING  the box is being made (or taken over); calls wait
 *   READY     the box stands
 *   ENDING    the box is being taken away; nothing may be asked for
 *   ENDED     only its record, its outputs on disk and why it ended
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_SESSION_H
#define BAILEY_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "model/result.h"
#include "runtime/box/box.h"
#include "runtime/box/files.h"
#include "runtime/runtime.h"

typedef struct json_t json_t;
struct caller;
struct session_manager;
struct execution;
struct session;

enum session_state {
    SESSION_NEW,
    SESSION_STARTING,
    SESSION_READY,
    SESSION_ENDING,
    SESSION_ENDED,
    _SESSION_STATE_MAX,
};
const char *session_state_name(enum session_state state);

const char *session_id(const struct session *session);
enum session_state session_state(const struct session *session);
struct session_manager *session_manager_of(const struct session *session);
json_t *session_json(struct session *session); /* as docs/rest.md says; new reference or NULL */

/* Somebody used it: its idle time begins anew. Done by every call below. */
void session_touch(struct session *session);
void session_extend(struct session *session, uint64_t more_ms);
/* A provisional session has all that it was to be given. */
int session_complete(struct session *session, struct error *err);

/* reason: "deleted", "idle", ... (static). done (may be NULL) once nothing is left. */
void session_end(struct session *session, const char *reason, void (*done)(void *ctx), void *ctx);
/* The same for who asked for it, which the audit tells. */
void session_end_by(struct session *session, const struct caller *caller, const char *reason,
                    void (*done)(void *ctx), void *ctx);

/*
 * The box, made when it is not there yet: ready() with the box, or with an error and NULL; from
 * the reactor or at once. The box is good until the caller returns to the loop or its calls end:
 * pending calls on it fail when the session ends. cancel: by its ctx.
 */
void session_box(struct session *session,
                 void (*ready)(void *ctx, struct box *box, const struct error *err), void *ctx);
void session_box_cancel(struct session *session, void *ctx);

/* ---- executions (execution.c) ---- */
struct execution_spec {
    const struct caller *caller; /* who asks; NULL: the engine itself. Copied. */
    const char *const *argv;
    json_t *env;     /* object of strings over the session's own; NULL: none */
    const char *cwd; /* NULL: /workspace */
    bool stdin_open;
    const void *input; /* all of its standard input, copied; NULL: none, or by execution_stdin() */
    size_t input_length;
    uint64_t timeout_ms; /* 0: until the session ends */
    bool is_pty, is_background;
    unsigned rows, columns;
};
/*
 * Starts a command, also when the box has to be made first. It is owned by the session, which keeps
 * the newest LIMIT_EXECUTIONS; a pointer is good while somebody watches it.
 */
int session_exec(struct session *session, const struct execution_spec *spec, struct execution **ret,
                 struct error *err);
/* "3" or "s_....3". Errors: execution_not_found. */
int session_find_execution(struct session *session, const char *word, struct execution **ret,
                           struct error *err);
/* The oldest command with these words (an array) that began at `since_ms` (since 1970) or later and
 * has a number above `after`; NULL: there is none. */
struct execution *session_find_command(struct session *session, json_t *argv, uint64_t since_ms,
                                       uint32_t after);
void session_each_execution(struct session *session,
                            void (*each)(void *ctx, struct execution *execution), void *ctx);

uint32_t execution_number(const struct execution *execution);
struct session *execution_session(const struct execution *execution);
bool execution_has_ended(const struct execution *execution); /* its result is there */
bool execution_is_background(const struct execution *execution);
void execution_set_background(struct execution *execution); /* nobody's leaving ends it now */
json_t *execution_json(const struct execution *execution);  /* docs/rest.md, "process" */

/*
 * A watcher is told when there is more to read or when it has ended; it reads at its own pace. One
 * that paces holds the guest back when it is far behind, so that nothing is lost to it.
 */
struct execution_watcher;
struct execution_watch_events {
    void (*started)(void *ctx); /* may be NULL */
    void (*more)(void *ctx);    /* output, or the end */
};
struct execution_watcher *execution_watch(struct execution *execution, bool paces,
                                          const struct execution_watch_events *events, void *ctx);
/* How far it has read; what lies before may be given up. */
void execution_watch_at(struct execution_watcher *watcher, const uint64_t offset[BOX_STREAMS]);
/*
 * The watcher leaves; ends_it: it is the one who asked for the command. Once he and everybody else
 * has left a command that is not in the background, it is killed: nobody waits for it.
 */
void execution_unwatch(struct execution_watcher *watcher, bool ends_it);

/* Bytes of stream 1, 2 or (of a cell, JSON lines) 3 from an offset; 0: none yet (or the end);
 * -ERANGE: not kept any more. */
ssize_t execution_read(const struct execution *execution, int stream, uint64_t offset, void *data,
                       size_t size);
uint64_t execution_written(const struct execution *execution, int stream);
uint64_t execution_first(const struct execution *execution, int stream);

/*
 * The one result, of one that has ended or (exit_code 0, meta as far as known) so far. Output is
 * read from the beginning, up to the limit. `result` is inited by the callee, freed by the caller.
 */
void execution_result(const struct execution *execution, uint64_t output_bytes,
                      struct result *result);

long execution_stdin(struct execution *execution, const void *data, size_t length,
                     struct error *err);
/* ready() once, when more input can be taken or never will be; cancel with ready NULL. */
void execution_stdin_wait(struct execution *execution, void (*ready)(void *ctx), void *ctx);
int execution_stdin_end(struct execution *execution, struct error *err);
int execution_signal(struct execution *execution, int signal, struct error *err);
int execution_resize(struct execution *execution, unsigned rows, unsigned columns,
                     struct error *err);

/* ---- contexts and cells (context.c, cell.c): code that keeps its variables; docs/kernels.md ----
 */
struct context;
struct context_spec {
    const char *language; /* NULL: "python" */
    const char *name;     /* NULL: none */
    const char *cwd;      /* NULL: /workspace */
};
/* Errors: bad_input, no_interpreter, context_taken, too_many_contexts. No kernel is started yet. */
int session_create_context(struct session *session, const struct context_spec *spec,
                           struct context **ret, struct error *err);
/* By id ("c1") or name; NULL: the default one of the language, made when it is not there. */
int session_find_context(struct session *session, const char *word, const char *language,
                         struct context **ret, struct error *err);
void session_each_context(struct session *session, void (*each)(void *ctx, struct context *context),
                          void *ctx);
json_t *context_json(const struct context *context); /* docs/kernels.md, "context" */
/* The kernel ends; the next cell has a new one. Its running and waiting cells fail. */
void context_restart(struct context *context);
int context_interrupt(struct context *context, struct error *err); /* -ESRCH: nothing runs */
void context_remove(struct context *context);

struct cell_request {
    const struct caller *caller; /* as in execution_spec */
    struct context *context;
    json_t *keeper; /* what code and input are parts of, kept as long; NULL: they are copied */
    const char *code;
    size_t code_length;
    const char *input; /* NULL: none */
    size_t input_length;
    json_t *env;         /* for this cell; NULL: none */
    uint64_t timeout_ms; /* 0: until the session ends */
    bool is_background;
};
/* An execution like any other, with events beside its output (stream 3 of execution_read()). */
int session_cell(struct session *session, const struct cell_request *request,
                 struct execution **ret, struct error *err);
bool execution_is_cell(const struct execution *execution);
/*
 * What a cell said so far: {"results", "error", "execution_count"} and, for its meta, {"context",
 * "language", "kernel", "kernel_note"?, "kernel_lost"?, "warm"}. New references.
 */
json_t *execution_cell_json(const struct execution *execution);
json_t *execution_cell_meta(const struct execution *execution);
/*
 * A module that a cell lacks is fetched, or was: {"state":"installing","package"}, then {"state":
 * "installed"|"failed", ...} with what its meta has of it. NULL: nothing of the kind.
 */
json_t *execution_install_json(const struct execution *execution);
/* result_to_json(), and of a cell all of the above in its place; new reference or NULL. */
json_t *execution_reply(const struct execution *execution, const struct result *result);
/* The same with values that were read before; NULL: not a cell. */
json_t *cell_reply_json(const struct result *result, json_t *cell, json_t *cell_meta);
/* A line of stream 3 without its end: {"type", ...} with the members of docs/kernels.md and no
 * others; NULL: it is none. Pure. */
json_t *cell_event_parse(const char *line, size_t length);

/* ---- outputs (outputs.c): /tmp/output to output/session_{id}/ ---- */
struct session_output {
    const char *name; /* relative to /tmp/output */
    uint64_t bytes;
    uint64_t time_ns;
    const char *type; /* MIME; of a saved one by its content */
    const char *kind; /* "text", "image", "binary" */
    bool is_saved;
    const char *skipped;     /* why it was not, though it could have been; NULL */
    const char *id, *sha256; /* of a saved one (artifacts.h); NULL: it has none */
};
/*
 * Whether a command may have left something to collect: not if the warden said at its end that
 * /tmp/output was empty, and nothing is known from before. Spares most calls a turn to the box.
 */
bool session_has_output(struct session *session, const struct execution *execution);
/*
 * Fetches what changed: done() with those that are new or changed since the last time, at most
 * LIMIT_TOOL_OUTPUTS of them saved, and how many regular files there are in all. Announces images
 * on the bus. Calls made meanwhile wait for a collection of their own.
 */
void session_collect(struct session *session,
                     void (*done)(void *ctx, const struct session_output *changed, size_t count,
                                  uint64_t total, const struct error *err),
                     void *ctx);
void session_collect_cancel(struct session *session, void *ctx);
/* All known outputs: {"folder","total","outputs":[...]}; new reference or NULL. */
json_t *session_outputs_json(struct session *session);
json_t *session_output_json(struct session *session, const struct session_output *output);
/* A saved one, for reading; -ENOENT. Never follows a link. */
int session_output_open(struct session *session, const char *name, struct error *err);
/* Absolute; of a tenant's an address, as it has no business with folders of the host. */
const char *session_output_folder(struct session *session);

/* ---- datasets (datasets.c): data/{id}/ bound at /tmp/data ---- */
struct dataset_upload;
/* Errors: bad_input (name), dataset_taken, disk_full. Nothing is seen in the box before the end. */
int dataset_begin(struct session *session, const char *name, struct dataset_upload **ret,
                  struct error *err);
int dataset_write(struct dataset_upload *upload, const void *data, size_t length,
                  struct error *err);
/* Frees it in any case. One that is under way when the session ends fails at its next call. */
int dataset_end(struct dataset_upload *upload, struct error *err);
void dataset_cancel(struct dataset_upload *upload); /* NULL is fine */
/*
 * A file of a configured folder, by its absolute path, copied a piece in each turn of the loop.
 * Errors at once: bad_input, path_not_found, and those of dataset_begin(); else done() comes once
 * from the loop (err->num 0: it is there), unless dataset_cancel() was called before.
 */
int dataset_from_folder(struct session *session, const char *name, const char *path,
                        void (*done)(void *ctx, const struct error *err), void *ctx,
                        struct dataset_upload **ret, struct error *err);
/* "sales 2024/q1" becomes "sales_2024_q1.csv". Errors: bad_input. Pure. */
int dataset_file_name(const char *name, char *ret, size_t size, struct error *err);
json_t *session_datasets_json(struct session *session);

#endif
