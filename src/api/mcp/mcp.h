/*
 * mcp.h - the Model Context Protocol without transport: messages in, messages out, both eras.
 *
 * A transport (http.c for /mcp, pipe.c for `bailey mcp`) passes each message in and gets each
 * answer through `send`; the host (http_host.c) connects it to the session manager, through the
 * other ops. Nothing here blocks, reads a clock or touches a descriptor. One thread. Which era a
 * message belongs to is decided for each message alone. Input is hostile: any bytes are answered or
 * ignored.
 *
 * A host may answer a work inside the op that began it, and then returns 0. After cancel() it must
 * not use the work; after an answer the work is freed, unless a read is requested next.
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

struct mcp_server; /* shared by all connections: constant after creation */
struct mcp_peer;   /* one connection */
struct buf;
struct mcp_work; /* a request that waits for the host */

struct mcp_settings {
    const struct tool_row *tools; /* borrowed for the server's life */
    size_t tool_count;
    bool can_install;   /* tools that install packages are listed */
    const char *prompt; /* the text of the one prompt, where mcp_ops has none, copied; NULL: none */
    bool is_structured; /* results carry structuredContent that repeats all of their text */
    bool has_fixtures;  /* offers the fixtures of the conformance suite; only tests set it */
    bool is_http;       /* without a conversation, a call that names no session creates one */
};

int mcp_server_new(const struct mcp_settings *settings, struct mcp_server **ret, struct error *err);
void mcp_server_freep(struct mcp_server **server);

#define MCP_LOG_FOLDER "/.log/"

#define MCP_NOTICE 1

struct mcp_ops {
    /* One whole message, without a newline. kind: the code if it is a JSON-RPC error, 0 for a
     * result, MCP_NOTICE for a message that is not an answer. */
    void (*send)(void *ctx, const char *message, size_t length, int kind);
    /* A tool call; `arguments` without `session`, which is NULL if it was not given. */
    int (*call)(void *ctx, struct mcp_work *work, const struct tool_row *tool, const char *session,
                json_t *arguments, struct error *err);
    /* The outputs of the connection's own session. */
    int (*list)(void *ctx, struct mcp_work *work, struct error *err);
    /* A file or folder by its absolute path in the box; more than `maximum` bytes are too large.
     * MCP_LOG_FOLDER "NUMBER/stdout" (or stderr) is the beginning of an execution's output. */
    int (*read)(void *ctx, struct mcp_work *work, const char *session, const char *path,
                size_t maximum, struct error *err);
    /* The work is no longer wanted: what it runs must end. No callback about it may follow. */
    void (*cancel)(void *ctx, struct mcp_work *work);
    /* A sentence for the instructions about the packages that code has; NULL: nothing is said. */
    void (*about)(void *ctx, struct buf *text);
    /* The prompt with the limits of the caller and the packages of its session; NULL, or without a
     * text: that of the server. */
    void (*prompt)(void *ctx, struct buf *text);
};

int mcp_peer_new(const struct mcp_server *server, const struct mcp_ops *ops, void *ctx,
                 struct mcp_peer **ret, struct error *err);
/* Cancels running requests without an answer. */
void mcp_peer_freep(struct mcp_peer **peer);

/* One message: a line of stdio, a body of HTTP. */
void mcp_peer_message(struct mcp_peer *peer, const char *text, size_t length, uint64_t now_ms);
/* A message that was longer than the host accepts; `text` is its beginning. */
void mcp_peer_too_long(struct mcp_peer *peer, const char *text, size_t length);
/* A message that the host does not take now: it is answered with this error. */
void mcp_peer_refuse(struct mcp_peer *peer, const char *text, size_t length, const char *why);
/* Sends the progress that is due; returns the time of the next call, UINT64_MAX: none. */
uint64_t mcp_peer_tick(struct mcp_peer *peer, uint64_t now_ms);
/* Sets the id of the connection's own session, for completion. Copied. */
void mcp_peer_session(struct mcp_peer *peer, const char *session);

/*
 * The time at which its message was first sent, if the answer was lost (ms since 1970); 0: it is
 * new.
 */
uint64_t mcp_work_lost_ms(const struct mcp_work *work);

/* The host's own pointer for a work. */
void mcp_work_attach(struct mcp_work *work, void *thing);
void *mcp_work_attached(const struct mcp_work *work);

/* The end of the output so far, shown with the next progress message. */
void mcp_work_printed(struct mcp_work *work, const char *text, size_t length);

/*
 * The answers. `session` is the one that was used, NULL: none; `outputs` an array as in
 * docs/rest.md. All are borrowed.
 */
void mcp_work_called(struct mcp_work *work, const char *session, const struct tool_reply *reply);
void mcp_work_listed(struct mcp_work *work, const char *session, json_t *outputs);

enum mcp_read_kind {
    MCP_READ_FILE,      /* data: the file's bytes */
    MCP_READ_FOLDER,    /* data: lines of text: a name, "\t" and its size, or "/" for a folder */
    MCP_READ_MISSING,   /* no such file, session or box; data: the reason, or empty */
    MCP_READ_TOO_LARGE, /* over the maximum */
};
void mcp_work_read(struct mcp_work *work, enum mcp_read_kind kind, const void *data, size_t length);

/* The request failed. */
void mcp_work_failed(struct mcp_work *work, const struct error *err);

#endif
