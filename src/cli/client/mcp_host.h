/*
 * mcp_host.h - what the MCP door asks of the world, done with the daemon's REST: tool calls that
 * survive a broker's end, files, outputs, the front's own session.
 *
 * One thread, never blocks but for reaching the daemon. Answers go to the works that asked.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_MCP_HOST_H
#define BAILEY_CLI_CLIENT_MCP_HOST_H

#include "api/mcp/mcp.h"
#include "base/id.h"
#include "base/limits.h"
#include "cli/client/mcp_rest.h"

struct task;

struct mcp_host {
    struct rest rest;
    struct mcp_peer *peer;
    const char *name; /* --session; NULL: one is made at first use and deleted at the end */
    char session[LIMIT_NAME + 1]; /* its id (or the name); empty: not made yet */
    struct rest_call *making;     /* the call that makes it */
    struct task *tasks;
};

/* The four ops of struct mcp_ops; ctx is the host. */
int host_call(void *ctx, struct mcp_work *work, const struct mcp_tool *tool, const char *session,
              json_t *arguments, struct error *err);
int host_list(void *ctx, struct mcp_work *work, struct error *err);
int host_read(void *ctx, struct mcp_work *work, const char *session, const char *path,
              size_t maximum, struct error *err);
void host_cancel(void *ctx, struct mcp_work *work);

/*
 * After the peer is gone: deletes the session that was made and hears what is under way, for a
 * moment. Then everything is closed.
 */
void host_end(struct mcp_host *host);

#endif
