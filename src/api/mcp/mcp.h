/*
 * mcp.h - the Model Context Protocol without transport: messages in, messages out, both eras.
 *
 * A transport (http.c for /mcp, pipe.c for `bailey mcp`) hands in each message and gets each answer
 * through `send`; the host (http_host.c) does what needs the engine, through the other ops. Nothing
 * here blocks, reads a clock or touches a descriptor. One thread. Which era a message belongs to is
 * decided for each message alone. Input is hostile: any bytes are answered or ignored.
 *
 * A host may answer a work from inside the op that began it, and then returns 0 from that. After
 * cancel() it forgets the work; after an answer the work is gone, unless a read is asked for next.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_API_MCP_MCP_H
#define BAILEY_API_MCP_MCP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct json_t json_t;
struct tool_reply;
struct tool_row;

struct mcp_server; /* what all connections share: constant after it was made */
struct mcp_peer;   /* one connection */
struct mcp_work;   /* a request of it that waits for the host */

struct mcp_settings {
    const struct tool_row *tools; /* borrowed for the server's life */
    size_t tool_count;
    const char *prompt; /* the text of the one prompt, copied; NULL: there is none */
    bool is_structured; /* results carry structuredContent that repeats all of their text */
    bool has_fixtures;  /* those of the conformance suite; only tests set it */
    bool is_http;       /* without a conversation a call that names no session makes a new one */
};

int mcp_server_new(const struct mcp_settings *settings, struct mcp_server **ret, struct error *err);
void mcp_server_freep(struct mcp_server **server);

#define MCP_LOG_FOLDER "/.log/"

#define MCP_NOTICE 1

struct mcp_ops {
    /*
     * One whole message, without a newline in it or behind it. kind: the code of the JSON-RPC error
     * that it is, 0 for a result, MCP_NOTICE for what answers nothing.
     */
    void (*send)(void *ctx, const char *message, size_t length, int kind);
    /* A tool call; `arguments` without `session`, which is NULL when it was left out. */
    int (*call)(void *ctx, struct mcp_work *work, const struct tool_row *tool, const char *session,
                json_t *arguments, struct error *err);
    /* The outputs of the connection's own session. */
    int (*list)(void *ctx, struct mcp_work *work, struct error *err);
    /*
     * A file or folder by its absolute path in the box; more than `maximum` bytes are too large.
     * MCP_LOG_FOLDER "NUMBER/stdout" (or stderr) is what an execution printed, its beginning.
     */
    int (*read)(void *ctx, struct mcp_work *work, const char *session, const char *path,
                size_t maximum, struct error *err);
    /* The work is wanted no more: what it runs has to end. Nothing may be told about it again. */
    void (*cancel)(void *ctx, struct mcp_work *work);
};

int mcp_peer_new(const struct mcp_server *server, const struct mcp_ops *ops, void *ctx,
                 struct mcp_peer **ret, struct error *err);
/* Cancels what still runs, without a word. */
void mcp_peer_freep(struct mcp_peer **peer);

/* One message: a line of stdio, a body of HTTP. */
void mcp_peer_message(struct mcp_peer *peer, const char *text, size_t length, uint64_t now_ms);
/* A message that was longer than the host takes; `text` is its beginning. */
void mcp_peer_too_long(struct mcp_peer *peer, const char *text, size_t length);
/* Sends the progress that is due; returns when to call again, UINT64_MAX: nothing to wait for. */
uint64_t mcp_peer_tick(struct mcp_peer *peer, uint64_t now_ms);
/* The id of the connection's own session, once it is known: for completion. Copied. */
void mcp_peer_session(struct mcp_peer *peer, const char *session);

/* When its message came first, if the answer was lost (ms since 1970); 0: it is new. */
uint64_t mcp_work_lost_ms(const struct mcp_work *work);

/* The host's own pointer at a work. */
void mcp_work_attach(struct mcp_work *work, void *thing);
void *mcp_work_attached(const struct mcp_work *work);

/* The end of what has been printed so far, shown with the next progress. */
void mcp_work_printed(struct mcp_work *work, const char *text, size_t length);

/*
 * The answers. `session` is the one that was used, NULL when there was none; `outputs` an array as
 * docs/rest.md has it. All of it is borrowed.
 */
void mcp_work_called(struct mcp_work *work, const char *session, const struct tool_reply *reply);
void mcp_work_listed(struct mcp_work *work, const char *session, json_t *outputs);

enum mcp_read_kind {
    MCP_READ_FILE,      /* data: its bytes */
    MCP_READ_FOLDER,    /* data: lines of text: a name, "\t" and its bytes, or "/" of a folder */
    MCP_READ_MISSING,   /* no such file, session or box; data: why, or nothing */
    MCP_READ_TOO_LARGE, /* over the maximum */
};
void mcp_work_read(struct mcp_work *work, enum mcp_read_kind kind, const void *data, size_t length);

/* It could not be done at all. */
void mcp_work_failed(struct mcp_work *work, const struct error *err);

#endif
