/*
 * tools.c - tools/list and tools/call: converts rows to the protocol's shape, and runs a call from
 * its arguments to the result with its pictures.
 */
#include <errno.h>
#include <string.h>

#include "api/mcp/mcp_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "tool/tool.h"

#define TOOLS_TTL_MS (5 * 60 * 1000L) /* the list changes only with the program */
#define NAMES_MAX 32

/* Whether no conversation is kept, so that later calls have to name the session. */
static bool is_stateless(const struct mcp_server *server, const struct mcp_origin *origin)
{
    return server->is_http && origin->is_modern;
}

static json_t *session_schema(const struct tool_row *tool, bool is_stateless)
{
    const char *text =
        !tool->needs_session
            ? "id or name of a session; not needed, each call has a fresh sandbox of its own"
        : is_stateless
            ? "id or name of a session, as an earlier result names it, to go on with its files; "
              "left out, a new one is made, unless the address of this server names one"
            : "id or name of a session; leave it out to go on in this conversation's own";

    return json_pack("{s:s,s:s}", "type", "string", "description", text);
}

/* The row's schema in this door's form. */
static json_t *tool_schema(const struct tool_row *tool, bool is_stateless)
{
    json_t *schema = json_loads(tool->schema, JSON_REJECT_DUPLICATES, NULL);
    json_t *properties = json_object_get(schema, "properties");
    json_t *timeout = json_object_get(properties, "timeout"), *property;
    const char *name;

    if (!json_is_object(properties)) {
        json_decref(schema);
        return NULL;
    }
    if (tool->mcp_timeout_s && json_is_object(timeout)) {
        json_object_set_new(timeout, "default", json_integer(tool->mcp_timeout_s));
        json_object_set_new(timeout, "description",
                            json_sprintf("seconds it may run, 1 to %d; %u when left out. For "
                                         "longer work: background, then sandbox_wait",
                                         LIMIT_EXEC_TIMEOUT_S, tool->mcp_timeout_s));
    }
    json_object_set_new(properties, "session", session_schema(tool, is_stateless));
    /* Accepted from those who know it; a model need not read about it in every tool. */
    json_object_del(properties, "reasoning_trace");
    json_object_del(schema, "additionalProperties");
    /* Some model APIs refuse this keyword, and clients do not need it. */
    json_object_foreach(properties, name, property)
    {
        json_object_del(property, "contentMediaType");
    }
    return schema;
}

static json_t *tool_shape(const struct tool_row *tool, bool is_stateless)
{
    const char *description =
        tool->own_description && !is_stateless ? tool->own_description : tool->description;
    json_t *shape;

    shape = json_pack("{s:s,s:s,s:s,s:o,s:{s:s,s:b,s:b,s:b,s:b}}", "name", tool->name, "title",
                      tool->title, "description", description, "inputSchema",
                      tool_schema(tool, is_stateless), "annotations", "title", tool->title,
                      "readOnlyHint", tool->is_read_only, "destructiveHint", tool->is_destructive,
                      "idempotentHint", tool->is_idempotent, "openWorldHint", tool->is_open_world);
    if (shape && tool->is_core)
        json_object_set_new(shape, "_meta", json_pack("{s:b}", "anthropic/alwaysLoad", 1));
    return shape;
}

json_t *mcp_tools_build(const struct mcp_settings *settings, bool is_stateless, struct error *err)
{
    CLEANUP(json_decrefp) json_t *list = json_array();

    for (size_t i = 0; i < settings->tool_count; i++) {
        json_t *shape;

        if (settings->tools[i].needs_install && !settings->can_install)
            continue;
        shape = tool_shape(&settings->tools[i], is_stateless);
        if (!shape || json_array_append_new(list, shape) < 0) {
            error_set(err, -EINVAL, ERROR_ENGINE, "the tool '%s' cannot be shown",
                      settings->tools[i].name);
            return NULL;
        }
    }
    return ptr_take(&list);
}

void mcp_tools_list(struct mcp_request *request)
{
    const struct mcp_server *server = request->peer->server;
    json_t *list =
        is_stateless(server, &request->origin) ? server->stateless_list : server->tool_list;

    /* The list has one page, so no cursor is valid. */
    if (json_object_get(request->params, "cursor"))
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL, "unknown cursor");
    else
        mcp_send_cached(request->peer, &request->origin, json_pack("{s:O}", "tools", list),
                        TOOLS_TTL_MS);
}

static const struct tool_row *find_tool(struct mcp_request *request)
{
    const struct mcp_server *server = request->peer->server;
    const char *name = mcp_text(request->params, "name");
    const char *names[NAMES_MAX + 1] = {0};
    const char *nearest;

    for (size_t i = 0; i < server->tool_count; i++) {
        if (str_equal(server->tools[i].name, name))
            return &server->tools[i];
        if (i < NAMES_MAX)
            names[i] = server->tools[i].name;
    }
    nearest = name ? str_nearest(name, names) : NULL;
    if (!name)
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL,
                       "'name' has to be the name of a tool");
    else if (nearest)
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL,
                       "unknown tool '%.60s'; did you mean '%s'?", name, nearest);
    else
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL,
                       "unknown tool '%.60s'", name);
    return NULL;
}

/* The tool's arguments: without `session`, and with this door's timeout. NULL: no memory. */
static json_t *tool_arguments(const struct tool_row *tool, json_t *given)
{
    json_t *arguments = given ? json_copy(given) : json_object();

    json_object_del(arguments, "session");
    if (json_is_null(json_object_get(arguments, "reasoning_trace")))
        json_object_del(arguments, "reasoning_trace"); /* models send null for "none" */
    if (tool->mcp_timeout_s && !json_object_get(arguments, "timeout") &&
        !json_is_true(json_object_get(arguments, "background")))
        json_object_set_new(arguments, "timeout", json_integer(tool->mcp_timeout_s));
    return arguments;
}

/* Whether `session` is a valid name or missing; models send null for "none". */
static bool take_session(json_t *given, const char **ret_session)
{
    json_t *value = json_object_get(given, "session");
    const char *session = mcp_text(given, "session");

    *ret_session = session;
    return !value || json_is_null(value) ||
           (session && session[0] && json_string_length(value) <= LIMIT_NAME);
}

void mcp_tools_call(struct mcp_request *request)
{
    const struct tool_row *tool = find_tool(request);
    json_t *given = json_object_get(request->params, "arguments");
    CLEANUP(json_decrefp) json_t *arguments = NULL;
    const char *session;
    struct mcp_work *work;
    struct error err = {0};

    if (!tool)
        return;
    if (given && !json_is_object(given)) {
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL,
                       "'arguments' has to be an object");
        return;
    }
    if (!take_session(given, &session)) {
        mcp_send_result(request->peer, &request->origin,
                        mcp_content_refusal("'session' has to be the id or name of a session. "
                                            "Leave it out to use this conversation's own."));
        return;
    }
    work = mcp_work_new(request, WORK_CALL);
    if (!work)
        return;
    work->has_session = session != NULL;
    arguments = tool_arguments(tool, given);
    if (!arguments)
        error_memory(&err);
    else if (request->peer->ops->call(request->peer->ctx, work, tool, session, arguments, &err) ==
             0)
        return;
    mcp_work_failed(work, &err);
}

/* Whether the era knows resource_link and structuredContent. */
static bool has_links(const struct mcp_work *work)
{
    return work->origin.is_modern || strcmp(work->peer->version, MCP_LEGACY_LINKS) >= 0;
}

/* Fetches the next picture, or answers when there is none. */
static void finish_call(struct mcp_work *work)
{
    struct mcp_peer *peer = work->peer;
    const char *path;
    size_t maximum;

    while ((path = mcp_content_wants(work->content, &maximum))) {
        if (peer->ops->read(peer->ctx, work, work->session, path, maximum, NULL) == 0)
            return;
        mcp_content_picture(work->content, NULL, 0);
    }
    mcp_send_result(peer, &work->origin, mcp_content_result(work->content, has_links(work)));
    mcp_work_free(work);
}

void mcp_call_read(struct mcp_work *work, enum mcp_read_kind kind, const void *data, size_t length)
{
    mcp_content_picture(work->content, kind == MCP_READ_FILE ? data : NULL, length);
    finish_call(work);
}

void mcp_work_called(struct mcp_work *work, const char *session, const struct tool_reply *reply)
{
    bool is_structured = has_links(work) && work->peer->server->is_structured;

    const struct mcp_view view = {
        .session = session,
        .names_session = is_stateless(work->peer->server, &work->origin),
        .is_own = !is_stateless(work->peer->server, &work->origin) && !work->has_session,
    };

    str_copy(work->session, sizeof(work->session), session ? session : "");
    if (mcp_content_new(&view, reply, is_structured, &work->content) < 0)
        mcp_work_failed(work, &(struct error){.num = -ENOMEM, .text = "out of memory"});
    else
        finish_call(work);
}
