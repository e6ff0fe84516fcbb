/* tools.c - GET /v1/tools and POST /v1/tools/{name}: lists the tools, calls one. */
#include "tool/tool.h"

#include <errno.h>
#include <string.h>

#include "api/rest/rest_private.h"
#include "base/str.h"
#include "tool/call.h"

void tools_list(struct door_call *call)
{
    const struct config *config = session_manager_config(call->front->manager);
    json_t *tools = json_array();

    for (size_t i = 0; tools && i < tool_count; i++) {
        if (!tool_is_offered(&tool_table[i], config))
            continue;
        if (json_array_append_new(tools, tool_row_json(&tool_table[i])) < 0) {
            json_decref(tools);
            tools = NULL;
        }
    }
    front_reply(call->http, 200, tools ? json_pack("{s:o}", "tools", tools) : NULL);
}

/* A request that waits for its tool call. */
struct waiting {
    struct http_request *http;
    struct tool_call *call;
};

static void on_done(void *ctx, const struct tool_reply *reply)
{
    struct waiting *waiting = ctx;

    front_reply(waiting->http, 200, reply ? tool_reply_json(reply) : NULL);
    free(waiting);
}

static void on_gone(void *ctx)
{
    struct waiting *waiting = ctx;

    tool_cancel(waiting->call);
    free(waiting);
}

static void unknown_tool(struct door_call *call, const char *name)
{
    const char *nearest = tool_nearest(name);
    struct error err = {0};

    if (nearest)
        error_set(&err, -ENOENT, ERROR_UNKNOWN_TOOL, "unknown tool '%.60s'; did you mean '%s'?",
                  name, nearest);
    else
        error_set(&err, -ENOENT, ERROR_UNKNOWN_TOOL,
                  "unknown tool '%.60s'; GET /v1/tools lists them", name);
    front_fail(call->front, call->http, &err, json_pack("{s:s?}", "nearest", nearest));
}

/* The session that the query or the header pins; false: it was answered. */
static bool pinned_session(struct door_call *call, const char **ret)
{
    const char *query = front_query_text(call, "session");
    const char *header = http_header(call->http, SESSION_HEADER);

    *ret = query ? query : header;
    if (header && (!header[0] || strlen(header) > LIMIT_NAME)) {
        front_fail_field(call->http, SESSION_HEADER,
                         "the header " SESSION_HEADER " has to be the name or the id of a session");
        return false;
    }
    if (query && header && !str_equal(query, header)) {
        front_fail_field(call->http, SESSION_HEADER,
                         "the header " SESSION_HEADER
                         " and the query argument 'session' name different sessions");
        return false;
    }
    return true;
}

void tools_call(struct door_call *call)
{
    const char *name = http_param(call->http, "name");
    const struct tool_row *row = tool_find(name);
    const char *session;
    struct waiting *waiting;
    struct tool_call *started;

    if (!row) {
        unknown_tool(call, name);
        return;
    }
    if (!pinned_session(call, &session))
        return;
    waiting = malloc(sizeof(*waiting));
    if (!waiting) {
        front_fail_memory(call->http);
        return;
    }
    *waiting = (struct waiting){.http = call->http};
    tool_start(call->front->tools, &call->caller, row, call->body, session, NULL, on_done, waiting,
               &started);
    if (!started)
        return; /* it was answered, and `waiting` is freed */
    waiting->call = started;
    http_on_gone(call->http, on_gone, waiting);
}
