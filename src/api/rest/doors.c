/*
 * doors.c - other doors on the same listeners: each gives its rows, and finds itself again in
 * http_row(). A new one is a row of the table here.
 */
#include "api/rest/doors.h"

#include <errno.h>

#include "api/execute/execute.h"
#include "api/mcp/mcp_http.h"
#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "tool/prompt.h"
#include "tool/tool.h"

/* ---- MCP ---- */

struct mcp_door {
    struct mcp_server *server;
    struct mcp_engine *host;
    struct mcp_http *http;
};

static void mcp_close(void *ctx)
{
    struct mcp_door *door = ctx;

    mcp_http_free(door->http);
    mcp_engine_free(door->host);
    mcp_server_freep(&door->server);
    free(door);
}

static int mcp_open(struct rest *rest, void **ret, struct error *err)
{
    CLEANUP(buf_free) struct buf prompt = BUF_INIT(PROMPT_MAX);
    struct mcp_door *door = calloc(1, sizeof(*door));
    int r = -ENOMEM;

    if (!door)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    *ret = door;
    door->host = mcp_engine_new(rest->manager, rest->tools, &rest->auth);
    if (door->host)
        r = prompt_write(session_manager_config(rest->manager), &prompt);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "out of memory");
    r = mcp_server_new(&(struct mcp_settings){.tools = tool_table,
                                              .tool_count = tool_count,
                                              .prompt = buf_text(&prompt),
                                              .has_fixtures = rest->info.has_fixtures,
                                              .is_http = true},
                       &door->server, err);
    if (r < 0)
        return r;
    return mcp_http_new(&(struct mcp_http_spec){.reactor = rest->reactor,
                                                .server = door->server,
                                                .ops = &mcp_engine_ops,
                                                .host = door->host},
                        &door->http, err);
}

static const struct http_route *mcp_routes(void *ctx, size_t *ret_count)
{
    return mcp_http_routes(((struct mcp_door *)ctx)->http, ret_count);
}

/* ---- POST /execute ---- */

static int execute_open(struct rest *rest, void **ret, struct error *err)
{
    (void)err;
    *ret = &rest->execute;
    return 0;
}

static const struct http_route *routes_of_execute(void *ctx, size_t *ret_count)
{
    (void)ctx;
    return execute_routes(ret_count);
}

static void execute_close(void *ctx)
{
    (void)ctx;
}

/* ---- all of them ---- */

static const struct door_row {
    const char *name;
    /* *ret is closed also when it fails, unless it is NULL. */
    int (*open)(struct rest *rest, void **ret, struct error *err);
    const struct http_route *(*routes)(void *door, size_t *ret_count);
    void (*close)(void *door);
    /* How it refuses what no handler sees; NULL: as REST does. */
    const char *path;
    void (*refuse)(struct http_request *http, unsigned status, const char *header, const char *why);
} table[] = {
    {"mcp", mcp_open, mcp_routes, mcp_close, MCP_HTTP_PATH, mcp_http_refuse},
    {"execute", execute_open, routes_of_execute, execute_close, NULL, NULL},
};
_Static_assert(ARRAY_SIZE(table) <= REST_DOORS_MAX, "more doors than there is room for");

int rest_doors_open(struct rest *rest, struct error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        int r = table[i].open(rest, &rest->doors[i], err);

        if (r < 0)
            return r;
    }
    return 0;
}

size_t rest_doors_routes(struct rest *rest, struct http_route *to)
{
    size_t total = 0;

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        size_t count;
        const struct http_route *routes = table[i].routes(rest->doors[i], &count);

        for (size_t at = 0; to && at < count; at++)
            to[total + at] = routes[at];
        total += count;
    }
    return total;
}

void rest_doors_close(struct rest *rest)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if (rest->doors[i])
            table[i].close(rest->doors[i]);
        rest->doors[i] = NULL;
    }
}

bool rest_doors_refuse(struct http_request *http, unsigned status, const char *header,
                       const char *why)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if (table[i].refuse && str_equal(table[i].path, http_path(http))) {
            table[i].refuse(http, status, header, why);
            return true;
        }
    }
    return false;
}
