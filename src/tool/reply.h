/*
 * reply.h - the result of a tool call, as a struct that each door renders once in its own shape.
 *
 * A handler fills it (call.h), done() lends it to a door. REST and the command line show
 * tool_reply_json(); MCP writes text and content blocks from the members. Members that a kind does
 * not have are zero. JSON values (outputs, cell) are references that the reply owns; they are never
 * text. One thread.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_TOOL_REPLY_H
#define BAILEY_TOOL_REPLY_H

#include "base/buf.h"
#include "base/error.h"
#include "base/id.h"
#include "model/result.h"

typedef struct json_t json_t;

enum tool_reply_kind {
    TOOL_REPLY_FAILED,    /* {success:false, error, code, hint}: the tool could not do its job */
    TOOL_REPLY_FILE,      /* {success, file_path, bytes_written}: a file was written or edited */
    TOOL_REPLY_STARTED,   /* {success, execution_id, running}: a command in the background */
    TOOL_REPLY_RUNNING,   /* {running, stdout, stderr}: it has not ended; `result` so far */
    TOOL_REPLY_COMMAND,   /* sandbox_exec's reply: `result` and the outputs of a command */
    TOOL_REPLY_RESULT,    /* the result of docs/result.md; of a cell with its values */
    TOOL_REPLY_TEXT,      /* run_python_code's: `text` and some members of `result` */
    TOOL_REPLY_INSTALLED, /* {success, installed}: packages were installed */
    TOOL_REPLY_PAUSED,    /* {success, paused}: the session was paused or resumed */
};

struct tool_reply {
    enum tool_reply_kind kind;
    char execution_id[80]; /* of the program that ran; empty: none ran */
    char session_id[ID_MAX];
    char session_note[512]; /* about the session; empty: none */
    char hint[768];         /* what to do next; empty: none */
    bool is_hint_news;      /* the hint says more than the output does */

    /* FAILED */
    struct error error;
    char field[160], nearest[64]; /* the wrong parameter; a known name that is similar */
    unsigned retry_s;             /* 0: unknown */

    /* FILE; of FAILED only the path, as far as the call gave one */
    const char *file_path; /* borrowed from the call; NULL: none */
    uint64_t bytes_written;

    /* RUNNING, COMMAND, RESULT, TEXT */
    bool has_result; /* `result` is initialised */
    struct result result;
    uint64_t offset;          /* RUNNING, COMMAND: of the first byte that a stream shows */
    json_t *names;            /* array, COMMAND: the names of all new or changed outputs */
    json_t *outputs;          /* array, COMMAND: details of some of them, and skipped entries */
    json_t *cell, *cell_meta; /* RESULT of a cell: execution_cell_json(), _meta(); NULL: none */
    const char *state;        /* static: whether variables are kept; NULL: unknown */
    bool is_state_news;       /* `state` is not what the tool's description says */
    json_t *note;             /* string about a missing module; NULL: none */
    struct buf text;          /* TEXT */

    json_t *installed; /* array of {name, version}, INSTALLED: what was not there before */

    bool is_paused; /* PAUSED */
};

/* The error code of a failed call, for the audit log; NULL: it succeeded. */
const char *tool_reply_error(const struct tool_reply *reply);
bool tool_reply_has_exit(const struct tool_reply *reply); /* result.exit_code is valid */

/*
 * How to see more of a stream that was cut: "stdout: 10240 of 99000 bytes are shown; sandbox_wait
 * {...} shows more". `id` is the execution as the caller may name it. Empty: all is shown, or the
 * output is not kept.
 */
int tool_reply_read_on(const struct tool_reply *reply, int stream, const char *id,
                       struct buf *text);

/* As in docs/rest.md; a new reference, or NULL: no memory. */
json_t *tool_reply_json(const struct tool_reply *reply);

void tool_reply_free(struct tool_reply *reply); /* may be called twice */

#endif
