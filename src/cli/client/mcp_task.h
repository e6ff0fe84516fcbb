/*
 * mcp_task.h - a work of the MCP door on its way through the daemon. Private to mcp_host.c and
 * mcp_files.c. Owned by its host; one call is under way at most. A function that fails or answers a
 * task frees it.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_MCP_TASK_H
#define BAILEY_CLI_CLIENT_MCP_TASK_H

#include "cli/client/mcp_host.h"

struct task {
    struct task *next;
    struct mcp_host *host;
    struct mcp_work *work; /* NULL: nobody waits for it any more */
    struct rest_call *call;
    size_t maximum; /* bytes of a file that may be read; 0: as usual */

    /* a tool call */
    const struct mcp_tool *tool;
    json_t *arguments;
    char session[LIMIT_NAME + 1]; /* empty: none */
    char execution[ID_MAX + 24];  /* of sandbox_exec once it runs; empty before */
    char began[32];               /* RFC 3339 */
    bool is_exec;                 /* sandbox_exec that is waited for */
    bool waits_for_session;
    bool has_waited; /* for its end, once */
    bool has_looked; /* for an execution whose start was not answered */

    char path[LIMIT_PATH_BYTES + 1]; /* a read */
};

struct task *task_new(struct mcp_host *host, struct mcp_work *work, struct error *err);
void task_free(struct task *task);
void task_fail(struct task *task, const struct error *err);
void task_answer(struct task *task, const struct rest_reply *reply);
int task_send(struct task *task, const char *method, const struct buf *path, json_t *body,
              bool may_repeat, void (*done)(void *ctx, const struct rest_reply *reply));

#endif
