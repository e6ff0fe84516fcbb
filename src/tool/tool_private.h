/*
 * tool_private.h - the state of a tool call under way, for the handlers in tool/ only.
 *
 * Theory of operation. A call has at most one pending operation at a time, each with a member here:
 * the box, the lock of a file, a file operation, an execution that is awaited, a one-shot run, an
 * installation, a pause.
 * call_release() cancels the pending operation, so that an end and a cancel are the same code. A
 * handler ends with call_reply() or call_fail(), after which the call is freed.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_TOOL_TOOL_PRIVATE_H
#define BAILEY_TOOL_TOOL_PRIVATE_H

#include <jansson.h>

#include "base/reactor.h"
#include "model/caller.h"
#include "session/await.h"
#include "session/installer.h"
#include "session/session.h"
#include "session/session_manager.h"
#include "tool/call.h"

struct tools {
    struct session_manager *manager;
    struct reactor *reactor;
    struct schema *schemas[TOOL_MAX]; /* in the order of the rows of tool_table */
    struct schema *envelope;
    struct tool_call *file_locks; /* calls that use a file or wait for it, in order */
};

struct tool_call {
    struct tools *tools;
    const struct tool_row *row;
    json_t *input;      /* the input; owns the parameters */
    json_t *parameters; /* borrowed from input */
    char *trace;        /* reasoning trace, cut to TOOL_TRACE_MAX; NULL: none */
    const char *word;   /* id or name of the session, as given; NULL: none */
    struct session *session;
    bool has_made;        /* this call created the session, without a name */
    struct caller caller; /* for the audit log */
    uint64_t started_ms;
    void (*done)(void *ctx, const struct tool_reply *reply);
    void *ctx;

    bool is_starting; /* inside tool_start(): a reply is delivered when it returns */
    bool has_ended;
    struct tool_reply reply; /* filled by the handler */

    /* the box */
    bool waits_for_box;
    void (*with_box)(struct tool_call *call, struct box *box);

    /* a file: file_lock.c, file.c */
    struct tool_call *next_locked;
    bool wants_file_lock;
    void (*on_file_locked)(struct tool_call *call);
    char path[LIMIT_PATH_BYTES + 1];
    struct box *box; /* used by the operation below */
    uint32_t op;     /* 0: none */
    bool is_put;
    const char *data; /* bytes to write; owned by the parameters or by `file` */
    size_t data_length, data_at;
    struct buf file; /* bytes that were read, or are written instead */
    size_t held;     /* of them, and of their copy while they are changed */
    bool is_too_large;
    void (*file_done)(struct tool_call *call, const struct error *err);

    struct execution_await await; /* an execution */
    void (*exec_done)(struct tool_call *call, struct execution_outcome *outcome);

    /* a run without a session */
    struct run *run;

    struct installation *installation; /* NULL: none under way */

    bool waits_for_pause; /* or for a resumption */
};

/* One file each. Errors of the call are found before a session is created for it. */
void sandbox_exec_start(struct tool_call *call);
void sandbox_wait_start(struct tool_call *call);
void sandbox_write_file_start(struct tool_call *call);
void sandbox_edit_file_start(struct tool_call *call);
void run_code_start(struct tool_call *call);
void run_python_code_start(struct tool_call *call);
void sandbox_install_start(struct tool_call *call);
void sandbox_pause_start(struct tool_call *call);

/* call.c: the ends. call_reply() delivers call->reply. */
void call_reply(struct tool_call *call);
void call_fail(struct tool_call *call, const struct error *err, const char *hint);
void call_fail_memory(struct tool_call *call);
const char *call_hint(const char *code); /* advice about an error */
void call_set_hint(struct tool_reply *reply, const char *hint);
void call_take_result(struct tool_call *call, struct execution_outcome *outcome);
/* The reply has its result: if code did not find a module, the hint says what to do about it. */
void call_hint_missing(struct tool_call *call);
void call_release(struct tool_call *call);
/*
 * Finds a session of the caller's tenant; the local caller may name any tenant's session by its id.
 */
int call_find(const struct tool_call *call, const char *word, bool with_ended, struct session **ret,
              struct error *err);
bool call_session(struct tool_call *call); /* finds or creates it; false: the call has failed */
void call_use(struct tool_call *call, struct session *session); /* sets the session of the call */
json_t *call_parameter(const struct tool_call *call, const char *name); /* NULL: not given */
uint64_t call_timeout_ms(const struct tool_call *call, uint64_t fallback_ms);

/* file_lock.c: serialises calls on one file. */
void call_lock_file(struct tool_call *call, void (*on_file_locked)(struct tool_call *call));
void call_unlock_file(struct tool_call *call);

/* file.c: one operation at a time, in the session's box. */
void call_put(struct tool_call *call, const char *data, size_t length,
              void (*done)(struct tool_call *call, const struct error *err));
void call_get(struct tool_call *call,
              void (*done)(struct tool_call *call, const struct error *err));
/* The file was written: announces it on the bus and replies. */
void call_reply_file(struct tool_call *call, const char *hint);

/* call.c: execution_await() for this call, with the outputs. */
void call_await(struct tool_call *call, struct execution *execution, uint64_t timeout_ms,
                void (*done)(struct tool_call *call, struct execution_outcome *outcome));
/* exec.c: the reply of sandbox_exec and sandbox_wait. */
void call_reply_exec(struct tool_call *call, struct execution_outcome *outcome);

#endif
