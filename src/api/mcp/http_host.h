/*
 * http_host.h - shared by http_host.c and http_files.c only.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_API_MCP_HTTP_HOST_H
#define BAILEY_API_MCP_HTTP_HOST_H

#include <jansson.h>

#include "api/mcp/mcp_http.h"

struct mcp_engine {
    struct session_manager *manager;
    struct tools *tools;
    const struct auth *auth;
};

/* Attached to a work: the first member of each struct that waits for the session manager. */
struct mcp_task {
    struct mcp_work *work;
    /* Ends and frees it; is_left as in mcp_http_ops. */
    void (*cancel)(struct mcp_engine *host, struct mcp_task *task, bool is_left);
};

/* http_files.c */
int mcp_engine_list(void *host, const struct mcp_asker *asker, struct mcp_work *work,
                    struct error *err);
int mcp_engine_read(void *host, const struct mcp_asker *asker, struct mcp_work *work,
                    const char *session, const char *path, size_t maximum, struct error *err);

#endif
