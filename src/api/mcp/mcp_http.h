/*
 * mcp_http.h - MCP over streamable HTTP: the path /mcp, conversations, streams; both eras.
 *
 * The front hall (door.c) admits a request and passes it on. The session manager is behind
 * mcp_http_ops, so that the transport can be tested without one (http_host.c has the real
 * implementation). One thread, never blocks. Free it after the servers have stopped.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_API_MCP_HTTP_H
#define BAILEY_API_MCP_HTTP_H

#include "api/mcp/mcp.h"
#include "base/limits.h"
#include "base/reactor.h"
#include "http/server.h"
#include "model/caller.h"

struct mcp_http;

#define MCP_HTTP_PATH "/mcp"

/* The caller and the state of its conversation: passed to the host with each work. */
struct mcp_asker {
    struct caller caller;
    /* The conversation's own session, empty before there is one; NULL: it has none. */
    char (*own)[LIMIT_NAME + 1];
    /* Commands outlive the call that started them: a client finds them again after its
     * connection was lost. */
    bool keeps_commands;
    uint32_t found; /* number of the last command that was found again */
    bool is_pinned; /* `own` is what the request itself names */
};

struct mcp_http_ops {
    /* As in mcp_ops; `asker` lives as long as the work. */
    int (*call)(void *host, struct mcp_asker *asker, struct mcp_work *work,
                const struct tool_row *tool, const char *session, json_t *arguments,
                struct error *err);
    int (*list)(void *host, const struct mcp_asker *asker, struct mcp_work *work,
                struct error *err);
    int (*read)(void *host, const struct mcp_asker *asker, struct mcp_work *work,
                const char *session, const char *path, size_t maximum, struct error *err);
    /* As in mcp_ops: of the conversation's session, or of one that would be made. */
    void (*about)(void *host, const struct mcp_asker *asker, struct buf *text);
    void (*prompt)(void *host, const struct mcp_asker *asker, struct buf *text);
    /* is_left: the client left. Objects created for this work only, and named only in its
     * answer, are removed. */
    void (*cancel)(void *host, struct mcp_work *work, bool is_left);
    /* Progress is due: reports the output so far with mcp_work_printed(). */
    void (*look)(void *host, struct mcp_work *work);
    /* The conversation has ended, and its own session with it; done() when the session has
     * ended. caller NULL: not requested by a client. */
    void (*left)(void *host, const struct principal *who, const struct caller *caller,
                 const char *session, void (*done)(void *ctx), void *ctx);
    /* A message after its request: lines of the log name this caller. NULL: handling is over.
     * May be NULL. */
    void (*speak)(void *host, const struct caller *caller, const char *session);
};

struct mcp_http_spec {
    struct reactor *reactor;
    const struct mcp_server *server;
    const struct mcp_http_ops *ops;
    void *host;
};
int mcp_http_new(const struct mcp_http_spec *spec, struct mcp_http **ret, struct error *err);
void mcp_http_free(struct mcp_http *door); /* cancels running requests; NULL is fine */
/* An admitted request for MCP_HTTP_PATH, by POST, GET or DELETE, or for MCP_PIPE_PATH. */
void mcp_http_handle(struct mcp_http *door, struct http_request *http, const struct caller *caller);
/* A request that was not admitted: an error of auth_admit(). */
void mcp_http_fail(struct http_request *http, const struct error *err);
/* A request that the server itself refuses, in the protocol's shape; `header` may be NULL. */
void mcp_http_refuse(struct http_request *http, unsigned status, const char *header,
                     const char *why);
size_t mcp_http_sessions(const struct mcp_http *door); /* number of conversations */

/* The broker's host (http_host.c): tools, sessions and files of the session manager. */
struct session_manager;
struct auth;
struct mcp_engine;
struct tools;
extern const struct mcp_http_ops mcp_engine_ops;
struct mcp_engine *mcp_engine_new(struct session_manager *manager, struct tools *tools,
                                  const struct auth *auth); /* NULL: no memory; borrows all */
void mcp_engine_free(struct mcp_engine *host);              /* after mcp_http_free() */

#endif
