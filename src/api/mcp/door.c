/* door.c - MCP over HTTP as a door of the front hall: its rows, open() and close(). */
#include <errno.h>
#include <stdlib.h>

#include "api/front/door.h"
#include "api/mcp/mcp_http.h"
#include "api/mcp/pipe.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "tool/prompt.h"
#include "tool/tool.h"

extern const struct door_ops mcp_door;

struct mcp_door {
    struct mcp_server *server;
    struct mcp_engine *host;
    struct mcp_http *http;
};

static void close_door(void *ctx)
{
    struct mcp_door *door = ctx;

    mcp_http_free(door->http);
    mcp_engine_free(door->host);
    mcp_server_freep(&door->server);
    free(door);
}

static int open_door(struct front *front, void **ret, struct error *err)
{
    CLEANUP(buf_free) struct buf prompt = BUF_INIT(PROMPT_MAX); /* where the host writes none */
    struct mcp_door *door = calloc(1, sizeof(*door));
    int r = -ENOMEM;

    if (!door)
        return error_memory(err);
    *ret = door;
    door->host = mcp_engine_new(front->manager, front->tools, &front->auth);
    if (door->host)
        r = prompt_write(
            &(struct prompt_spec){.config = session_manager_config(front->manager), .is_mcp = true},
            &prompt);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "out of memory");
    r = mcp_server_new(&(struct mcp_settings){.tools = tool_table,
                                              .tool_count = tool_count,
                                              .can_install = !config_no_install(
                                                  session_manager_config(front->manager)),
                                              .prompt = buf_text(&prompt),
                                              .has_fixtures = front->info.has_fixtures,
                                              .is_http = true},
                       &door->server, err);
    if (r < 0)
        return r;
    return mcp_http_new(&(struct mcp_http_spec){.reactor = front->reactor,
                                                .server = door->server,
                                                .ops = &mcp_engine_ops,
                                                .host = door->host},
                        &door->http, err);
}

static void handle(struct door_call *call)
{
    struct mcp_door *door = call->door;

    mcp_http_handle(door->http, call->http, &call->caller);
}

static void fail(struct door_call *call, const struct error *err)
{
    mcp_http_fail(call->http, err);
}

static void refuse(struct http_request *http, const struct door_refusal *refusal)
{
    mcp_http_refuse(http, refusal->status, refusal->header, refusal->text);
}

static const struct door_route routes[] = {
    {
        .method = "POST",
        .path = MCP_HTTP_PATH,
        .body = BODY_JSON,
        .request_max = LIMIT_MCP_LINE,
        .scope = SCOPE_RUN,
        .handle = handle,
    },
    {
        .method = "GET",
        .path = MCP_HTTP_PATH,
        .scope = SCOPE_RUN,
        .handle = handle,
    },
    {
        .method = "DELETE",
        .path = MCP_HTTP_PATH,
        .scope = SCOPE_RUN,
        .handle = handle,
    },
    {
        .method = "GET",
        .path = MCP_PIPE_PATH,
        .scope = SCOPE_RUN,
        .handle = handle,
    },
};

const struct door_ops mcp_door = {
    .name = "mcp",
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .checks_itself = true,
    .allows_duplicates = true,
    .open = open_door,
    .close = close_door,
    .fail = fail,
    .refuse = refuse,
};
