/*
 * session.h - one agent's workspace, create to end: its box, executions, files, datasets, outputs.
 *
 * Owned by its session manager; a pointer is valid until the session is dropped from memory, which
 * never happens while a call on it is pending. Never blocks. After session_end() every execution
 * has ended and every pending call has failed with session_ended.
 *
 * States (state.c has the table of what may follow what):
 *   NEW       no box yet; every call is allowed, the first use makes the box
 *   STARTING  the box is being made (or adopted); calls wait
 *   READY     the box is usable
 *   PAUSING   its processes are being stopped; calls fail, as in PAUSED
 *   PAUSED    nothing of it runs; calls that need the box fail, or resume it (resumes_by_use)
 *   RESUMING  its processes are being continued; calls wait
 *   ENDING    the box is being removed; every call fails
 *   ENDED     only its record, its outputs on disk and the reason are left
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
#include "runtime/box/ports.h"
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
    SESSION_PAUSING,
    SESSION_PAUSED,
    SESSION_RESUMING,
    SESSION_ENDING,
    SESSION_ENDED,
    _SESSION_STATE_MAX,
};
const char *session_state_name(enum session_state state);

const char *session_id(const struct session *session);
enum session_state session_state(const struct session *session);
struct session_manager *session_manager_of(const struct session *session);
json_t *session_json(struct session *session); /* as docs/rest.md says; new reference or NULL */

/*
 * Settings of a caller (session_manager.h): whether they agree with those that the session was made
 * with (error: setting_differs), and the SANDBOX_TIMEOUT_SEC that the caller or the maker of the
 * session set; `fallback_ms` if neither did.
 */
int session_check_settings(struct session *session, const struct caller *caller, struct error *err);
uint64_t session_timeout_ms(struct session *session, const struct caller *caller,
                            uint64_t fallback_ms);

/* The session was used: its idle time starts again. Done by every call below. */
void session_touch(struct session *session);
void session_extend(struct session *session, uint64_t more_ms);
/* Its age limit is this time from now on, wall clock; for a door that has a timeout of its own. */
void session_expire_at(struct session *session, uint64_t expires_ms);
uint64_t session_created_ms(const struct session *session);
uint64_t session_expires_ms(const struct session *session); /* the age limit */
const char *session_template_name(const struct session *session);
struct limits session_limits(const struct session *session);
/*
 * What the door that made it has to remember, an object that only the door reads; kept in the
 * index. NULL: nothing. session_set_notes() takes it over; errors: disk_full, and nothing changes.
 */
json_t *session_notes(const struct session *session);
int session_set_notes(struct session *session, json_t *notes, struct error *err);
/* A provisional session has received everything that was requested for it. */
int session_complete(struct session *session, struct error *err);

/* A second call uses a session that one call made: it is an ordinary one from now on. */
void session_promote(struct session *session);

#define REASON_ROOM \
    "room_needed" /* it was made by one call, and another session needed its place */
/* reason: "deleted", "idle", ... (static). done (may be NULL) once all its resources are gone. */
void session_end(struct session *session, const char *reason, void (*done)(void *ctx), void *ctx);
/* The same, with the caller that the audit log names. */
void session_end_by(struct session *session, const struct caller *caller, const char *reason,
                    void (*done)(void *ctx), void *ctx);

/*
 * Pausing (pause.c): the session's processes stop where they are and keep their memory; deadlines
 * of its commands stop with them, its age does not. Waiting calls and streams of its commands end,
 * operations on files under way fail. done() is called once, perhaps before the call returns,
 * unless session_pause_leave() found it by its ctx. Errors: session_paused (it is paused already),
 * too_many_sessions (SANDBOX_MAX_PAUSED_SESSIONS; for resume SANDBOX_MAX_SESSIONS), session_ended,
 * box_lost. Resuming a session that is not paused does nothing.
 */
struct pause_spec {
    const struct caller *caller; /* NULL: the engine itself. Copied. */
    bool outlives_age; /* its age limit does not end it while it is paused: its door sets another
                          one when it is resumed */
};
typedef void (*pause_done)(void *ctx, const struct error *err);
void session_pause(struct session *session, const struct pause_spec *spec, pause_done done,
                   void *ctx);
void session_resume(struct session *session, const struct caller *caller, pause_done done,
                    void *ctx);
void session_pause_leave(struct session *session, const void *ctx);
bool session_is_paused(const struct session *session); /* or about to be, or being resumed */
/*
 * Whether a call may use what is in its box now; session_box() asks it too. A paused session that
 * resumes by use is resumed. Errors: session_paused, too_many_sessions.
 */
int session_check_pause(struct session *session, struct error *err);
/* A call that needs its box resumes it (session_spec). */
bool session_resumes_by_use(const struct session *session);

/*
 * The box, made if the session has none yet: ready() with the box, or with an error and NULL; from
 * the reactor or before the call returns. The box is valid until the caller returns to the loop or
 * its calls end: pending calls on it fail when the session ends. session_box_cancel() finds the
 * call by its ctx.
 */
void session_box(struct session *session,
                 void (*ready)(void *ctx, struct box *box, const struct error *err), void *ctx);
void session_box_cancel(struct session *session, void *ctx);

/* ---- executions (execution.c) ---- */
struct execution_spec {
    const struct caller *caller; /* the caller; NULL: the engine itself. Copied. */
    const char *const *argv;
    json_t *env;     /* object of strings, added to the session's own; NULL: none */
    const char *cwd; /* NULL: /workspace */
    bool stdin_open;
    const void
        *input; /* the whole standard input, copied; NULL: none, or sent by execution_stdin() */
    size_t input_length;
    json_t *keeper;      /* owns `input`: a long one is then stored by a thread; NULL: at once */
    uint64_t timeout_ms; /* 0: until the session ends */
    bool is_pty, is_background;
    unsigned rows, columns;
};
/*
 * Starts a command, and makes the box first if there is none. The session owns the execution and
 * keeps the newest LIMIT_EXECUTIONS; a pointer is valid while the execution has a watcher.
 */
int session_exec(struct session *session, const struct execution_spec *spec, struct execution **ret,
                 struct error *err);
/* "3" or "s_....3". Errors: execution_not_found. */
int session_find_execution(struct session *session, const char *word, struct execution **ret,
                           struct error *err);
/*
 * The oldest command with these arguments (an array) that began at `since_ms` (since 1970) or later
 * and has a number above `after`; NULL: there is none.
 */
struct execution *session_find_command(struct session *session, json_t *argv, uint64_t since_ms,
                                       uint32_t after);
void session_each_execution(struct session *session,
                            void (*each)(void *ctx, struct execution *execution), void *ctx);

uint32_t execution_number(const struct execution *execution);
struct session *execution_session(const struct execution *execution);
uint32_t execution_pid(const struct execution *execution); /* in its box; 0: not started, unknown */
bool execution_has_started(const struct execution *execution);
bool execution_is_pty(const struct execution *execution);
uint64_t execution_ended_ms(const struct execution *execution); /* wall clock; 0: it runs */
bool execution_has_ended(const struct execution *execution);    /* its result is complete */
bool execution_is_background(const struct execution *execution);
void execution_set_background(
    struct execution *execution); /* from now on it does not end when its watchers leave */
json_t *execution_json(const struct execution *execution); /* docs/rest.md, "process" */

/*
 * A watcher is called when there is more to read or when the execution has ended; it reads at its
 * own pace. A watcher that paces holds the guest back when it is far behind, so that it loses
 * nothing.
 */
struct execution_watcher;
struct execution_watch_events {
    void (*started)(void *ctx); /* may be NULL */
    void (*more)(void *ctx);    /* output, or the end */
    void (*paused)(void *ctx);  /* its session is being paused: the client is told; may be NULL */
};
struct execution_watcher *execution_watch(struct execution *execution, bool paces,
                                          const struct execution_watch_events *events, void *ctx);
/* How far the watcher has read; bytes before that may be deleted. */
void execution_watch_at(struct execution_watcher *watcher, const uint64_t offset[BOX_STREAMS]);
/*
 * The watcher leaves; ends_it: it belongs to the client that requested the command. When that
 * client and all other watchers have left a command that is not in the background, the command is
 * killed.
 */
void execution_unwatch(struct execution_watcher *watcher, bool ends_it);

/*
 * Bytes of stream 1, 2 or (of a cell, JSON lines) 3 from an offset; 0: none yet (or the end);
 * -ERANGE: deleted.
 */
ssize_t execution_read(const struct execution *execution, int stream, uint64_t offset, void *data,
                       size_t size);
uint64_t execution_written(const struct execution *execution, int stream);
uint64_t execution_first(const struct execution *execution, int stream);

/*
 * The result of an ended execution, or the state so far (exit_code 0, meta as far as known). Output
 * is read from the beginning, up to the limit. `result` is initialised here and freed by the
 * caller.
 */
void execution_result(const struct execution *execution, uint64_t output_bytes,
                      struct result *result);

long execution_stdin(struct execution *execution, const void *data, size_t length,
                     struct error *err);
/* ready() is called once, when more input can be taken or never will be; ready NULL cancels. */
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
    bool is_default;      /* the default context of its language; if there is one, that is it */
};
/* Errors: bad_input, no_interpreter, context_taken, too_many_contexts. No kernel is started yet. */
int session_create_context(struct session *session, const struct context_spec *spec,
                           struct context **ret, struct error *err);
/* By id ("c1") or name; NULL: the default context of the language, created if missing. */
int session_find_context(struct session *session, const char *word, const char *language,
                         struct context **ret, struct error *err);
void session_each_context(struct session *session, void (*each)(void *ctx, struct context *context),
                          void *ctx);
json_t *context_json(const struct context *context); /* docs/kernels.md, "context" */
/* The kernel ends; the next cell starts a new one. Running and waiting cells fail. */
void context_restart(struct context *context);
int context_interrupt(struct context *context, struct error *err); /* -ESRCH: nothing runs */
void context_remove(struct context *context);

struct cell_request {
    const struct caller *caller; /* as in execution_spec */
    struct context *context;
    json_t *keeper; /* owns code and input, and is kept as long as they are needed; NULL: they are
                       copied */
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
 * The values and errors a cell has reported so far: {"results", "error", "execution_count"} and,
 * for its meta, {"context", "language", "kernel", "kernel_note"?, "kernel_lost"?, "warm"}. New
 * references.
 */
json_t *execution_cell_json(const struct execution *execution);
json_t *execution_cell_meta(const struct execution *execution);
/*
 * A missing module of a cell is being installed, or was: {"state":"installing","package"}, then
 * {"state": "installed"|"failed", ...} with the members its meta has. NULL: no module was missing.
 */
json_t *execution_install_json(const struct execution *execution);
/*
 * The bytes of a stream (1 or 2) from `offset` on, at most `limit`; `capture` is replaced. Returns
 * the offset of its first byte, which is a later one where output is not kept any more.
 */
uint64_t execution_window(const struct execution *execution, int stream, uint64_t offset,
                          uint64_t limit, struct capture *capture);
/* result_to_json() and, for a cell, all of the above; new reference or NULL. */
json_t *execution_reply(const struct execution *execution, const struct result *result);
/* The same with values that were read before; NULL: not a cell. */
json_t *cell_reply_json(const struct result *result, json_t *cell, json_t *cell_meta);
/*
 * Parses a line of stream 3 without its newline: {"type", ...} with the members of docs/kernels.md
 * and no others; NULL: not an event. Pure.
 */
json_t *cell_event_parse(const char *line, size_t length);

/* ---- outputs (outputs.c): /tmp/output to output/session_{id}/ ---- */
struct session_output {
    const char *name; /* relative to /tmp/output */
    uint64_t bytes;
    uint64_t time_ns;
    const char *type; /* MIME type; of a saved file by its content */
    const char *kind; /* "text", "image", "data", "binary" */
    bool is_saved;
    const char *skipped;     /* why it was not saved, although its kind is saved; NULL */
    bool is_later;           /* skipped because there are many: saved after a later command */
    const char *id, *sha256; /* of a saved file (artifacts.h); NULL: none */
};
/*
 * Whether a command may have left files to collect: false if the warden reported at its end that
 * /tmp/output was empty, and no outputs are known from before. Saves most calls a round trip to the
 * box.
 */
bool session_has_output(struct session *session, const struct execution *execution);
/*
 * Fetches changed files: done() gets those that are new or changed since the last call, at most
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
/* Opens a saved file for reading; -ENOENT. Never follows a link. */
int session_output_open(struct session *session, const char *name, struct error *err);
/* An absolute path; for an API tenant a URL, because API tenants do not learn paths of the host. */
const char *session_output_folder(struct session *session);

/* ---- datasets (datasets.c): data/{id}/ bound at /tmp/data ---- */
struct dataset_upload;
/*
 * Errors: bad_input (name), dataset_taken, disk_full. The file appears in the box only when it is
 * complete.
 */
int dataset_begin(struct session *session, const char *name, struct dataset_upload **ret,
                  struct error *err);
int dataset_write(struct dataset_upload *upload, const void *data, size_t length,
                  struct error *err);
/*
 * Frees it in any case. An upload that is under way when the session ends fails at its next call.
 */
int dataset_end(struct dataset_upload *upload, struct error *err);
void dataset_cancel(struct dataset_upload *upload); /* NULL is fine */
/*
 * A file of a configured folder, by its absolute path, copied a piece in each turn of the loop.
 * Errors at once: bad_input, path_not_found, and those of dataset_begin(); else done() comes once
 * from the loop (err->num 0: the file is there), unless dataset_cancel() was called before.
 */
int dataset_from_folder(struct session *session, const char *name, const char *path,
                        void (*done)(void *ctx, const struct error *err), void *ctx,
                        struct dataset_upload **ret, struct error *err);
/* "sales 2024/q1" becomes "sales_2024_q1.csv", "s.parquet" stays as it is. Errors: bad_input. Pure.
 */
int dataset_file_name(const char *name, char *ret, size_t size, struct error *err);
json_t *session_datasets_json(struct session *session);

#endif
