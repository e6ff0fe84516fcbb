/* resources.c - files of sessions as resources: the list of outputs, the template, reading one. */
#include <string.h>

#include "api/mcp/fixtures.h"
#include "api/mcp/mcp_private.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

#define STATIC_TTL_MS (5 * 60 * 1000L)

void mcp_templates_list(struct mcp_request *request)
{
    json_t *list;

    if (json_object_get(request->params, "cursor")) {
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL, "unknown cursor");
        return;
    }
    list = json_pack("[{s:s,s:s,s:s,s:s}]", "uriTemplate", MCP_TEMPLATE, "name", "sandbox-file",
                     "title", "File of a session", "description",
                     "An output by its name below /tmp/output, or any file or folder by its path "
                     "(tmp/... or workspace/...)");
    if (request->peer->server->has_fixtures)
        mcp_fixtures_list("resourceTemplates", list);
    mcp_send_cached(request->peer, &request->origin, json_pack("{s:o}", "resourceTemplates", list),
                    STATIC_TTL_MS);
}

void mcp_resources_list(struct mcp_request *request)
{
    struct mcp_work *work;
    struct error err = {0};

    if (json_object_get(request->params, "cursor")) {
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL, "unknown cursor");
        return;
    }
    work = mcp_work_new(request, WORK_LIST);
    if (work && request->peer->ops->list(request->peer->ctx, work, &err) < 0)
        mcp_work_failed(work, &err);
}

/* One output as an item of the list; NULL: it cannot be read. */
static json_t *list_item(const char *session, json_t *output)
{
    CLEANUP(buf_free) struct buf uri = BUF_INIT(MCP_URI_MAX);
    CLEANUP(buf_free) struct buf path = BUF_INIT(LIMIT_PATH_BYTES);
    const char *name = mcp_text(output, "name");
    const char *mime = mcp_text(output, "mime");

    if (!name || mcp_text(output, "skipped") ||
        buf_printf(&path, MCP_OUTPUT_FOLDER "%s", name) < 0 ||
        mcp_uri_write(&uri, session, buf_text(&path)) < 0)
        return NULL;
    return json_pack("{s:s,s:s,s:s,s:I}", "uri", buf_text(&uri), "name", name, "mimeType",
                     mime ? mime : mcp_mime(name), "size",
                     json_integer_value(json_object_get(output, "bytes")));
}

void mcp_work_listed(struct mcp_work *work, const char *session, json_t *outputs)
{
    json_t *list = json_array(), *output;
    size_t index;

    if (work->peer->server->has_fixtures) /* first in the list, and readable */
        mcp_fixtures_list("resources", list);
    json_array_foreach(outputs, index, output)
    {
        json_t *item = session ? list_item(session, output) : NULL;

        if (item)
            json_array_append_new(list, item);
    }
    mcp_send_cached(work->peer, &work->origin, json_pack("{s:o}", "resources", list), 0);
    mcp_work_free(work);
}

static void send_missing(struct mcp_peer *peer, const struct mcp_origin *origin, const char *uri,
                         const char *why)
{
    mcp_send_error(peer, origin, origin->is_modern ? MCP_INVALID_PARAMS : MCP_NO_RESOURCE,
                   json_pack("{s:s}", "uri", uri), "resource not found: %s", why);
}

void mcp_resources_read(struct mcp_request *request)
{
    const char *uri = mcp_text(request->params, "uri");
    char session[MCP_SESSION_SIZE], path[LIMIT_PATH_BYTES + 1];
    struct mcp_work *work;
    struct error err = {0};

    if (!uri) {
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL,
                       "'uri' has to be a string");
        return;
    }
    if (mcp_uri_parse(uri, session, path) < 0) {
        send_missing(request->peer, &request->origin, uri,
                     "the form is " MCP_TEMPLATE ", without '..'");
        return;
    }
    work = mcp_work_new(request, WORK_READ);
    if (!work)
        return;
    work->uri = strdup(uri);
    if (!work->uri)
        error_memory(&err);
    else if (request->peer->ops->read(request->peer->ctx, work, session, path, LIMIT_MCP_RESOURCE,
                                      &err) == 0)
        return;
    mcp_work_failed(work, &err);
}

static bool is_text(const char *data, size_t length)
{
    size_t at = 0;

    while (at < length) {
        int step = utf8_length(data + at, length - at);

        if (step <= 0 || data[at] == '\0')
            return false;
        at += (size_t)step;
    }
    return true;
}

static json_t *file_contents(const char *uri, const char *data, size_t length)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(BASE64_LENGTH(LIMIT_MCP_RESOURCE));
    const char *mime = mcp_mime(uri);

    if (is_text(data, length)) {
        if (str_equal(mime, "application/octet-stream"))
            mime = "text/plain";
        return json_pack("{s:s,s:s,s:s%}", "uri", uri, "mimeType", mime, "text",
                         length > 0 ? data : "", length);
    }
    if (base64_encode(data, length, &text) < 0)
        return NULL;
    return json_pack("{s:s,s:s,s:s%}", "uri", uri, "mimeType", mime, "blob", buf_text(&text),
                     text.length);
}

static json_t *folder_contents(const char *uri, const char *lines, size_t length)
{
    return json_pack("{s:s,s:s,s:o}", "uri", uri, "mimeType", "inode/directory", "text",
                     text_to_json(lines, length));
}

void mcp_resource_done(struct mcp_work *work, enum mcp_read_kind kind, const void *data,
                       size_t length)
{
    json_t *contents = NULL;
    char why[ERROR_TEXT_MAX] = "there is no such file";

    if (kind == MCP_READ_MISSING) {
        if (length > 0)
            str_format(why, sizeof(why), "%.*s", (int)MIN(length, sizeof(why) - 1),
                       (const char *)data);
        send_missing(work->peer, &work->origin, work->uri, why);
    } else if (kind == MCP_READ_TOO_LARGE) {
        mcp_send_error(
            work->peer, &work->origin, MCP_INTERNAL, json_pack("{s:s}", "uri", work->uri),
            "larger than %llu MB; read a part of it with sandbox_exec", LIMIT_MCP_RESOURCE / MIB);
    } else {
        contents = kind == MCP_READ_FOLDER ? folder_contents(work->uri, data, length)
                                           : file_contents(work->uri, data, length);
        mcp_send_cached(work->peer, &work->origin, json_pack("{s:[o]}", "contents", contents), 0);
    }
    mcp_work_free(work);
}
