/*
 * fuzz_mcp.c - a hostile client and a hostile guest: lines to the MCP door, and whatever comes
 * back for the calls they start. What goes out is always one JSON object on one line.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp/mcp.h"
#include "base/cleanup.h"
#include "tool/reply.h"
#include "tool/tool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define WORKS_MAX 16

static struct mcp_work *works[WORKS_MAX];
static size_t work_count;

static void check_sent(void *ctx, const char *message, size_t length, int kind)
{
    json_t *json = json_loadb(message, length, JSON_ALLOW_NUL, NULL);
    json_t *id = json_object_get(json, "id");

    (void)ctx;
    if (!json_is_object(json) || memchr(message, '\n', length))
        abort();
    if (id && !json_is_string(id) && !json_is_integer(id))
        abort();
    if ((kind != 0 && kind != MCP_NOTICE) != (json_object_get(json, "error") != NULL))
        abort();
    json_decref(json);
}

/* What a work waits for: a host answers what it was asked. */
static char is_call, is_list, is_read;

static int keep(struct mcp_work *work, char *kind)
{
    mcp_work_attach(work, kind);
    if (work_count == WORKS_MAX)
        return -1;
    works[work_count++] = work;
    return 0;
}

static int keep_call(void *ctx, struct mcp_work *work, const struct tool_row *tool,
                     const char *session, json_t *arguments, struct error *err)
{
    (void)ctx;
    (void)session;
    (void)err;
    if (!tool || !json_is_object(arguments) || json_object_get(arguments, "session"))
        abort();
    return keep(work, &is_call);
}

static int keep_list(void *ctx, struct mcp_work *work, struct error *err)
{
    (void)ctx;
    (void)err;
    return keep(work, &is_list);
}

static int keep_read(void *ctx, struct mcp_work *work, const char *session, const char *path,
                     size_t maximum, struct error *err)
{
    (void)ctx;
    (void)session;
    (void)err;
    if (path[0] != '/' || strstr(path, "/../") || maximum == 0)
        abort();
    return keep(work, &is_read);
}

static void forget(void *ctx, struct mcp_work *work)
{
    (void)ctx;
    for (size_t i = 0; i < work_count; i++)
        if (works[i] == work)
            works[i] = works[--work_count];
}

/* A listing that is any JSON. */
static void list(struct mcp_work *work, const char *body, size_t size)
{
    CLEANUP(json_decrefp) json_t *outputs = json_loadb(body, size, JSON_ALLOW_NUL, NULL);

    mcp_work_listed(work, "s_1", outputs);
}

/* Any kind of reply, whose texts are a guest's bytes and whose values are any JSON. */
static void reply(struct mcp_work *work, const char *body, size_t size)
{
    CLEANUP(tool_reply_free)
    struct tool_reply told = {
        .kind = (enum tool_reply_kind)(size > 0 ? (unsigned char)body[0] % (TOOL_REPLY_TEXT + 1)
                                                : TOOL_REPLY_TEXT),
        .file_path = "/tmp/a",
        .execution_id = "s_1.7",
        .has_result = true,
        .outputs = json_loadb(body, size, JSON_ALLOW_NUL, NULL),
        .cell = json_loadb(body, size, JSON_ALLOW_NUL, NULL),
        .text = BUF_INIT(SIZE_MAX / 2),
    };

    result_init(&told.result, &(struct limits){.output_bytes = 1024});
    capture_add(&told.result.out, body, size, 1024);
    capture_add(&told.result.err, body, size, 1024);
    result_note(&told.result, "%.*s", (int)(size % 100), body);
    buf_append(&told.text, body, size);
    told.has_result = told.kind >= TOOL_REPLY_RUNNING;
    mcp_work_called(work, "s_1", &told);
    told.has_result = true;
}

/* Answers the oldest work with the rest of the line. */
static void answer(const uint8_t *data, size_t size)
{
    struct mcp_work *work = works[0];
    const char *body = (const char *)data;

    works[0] = works[--work_count];
    mcp_work_printed(work, body, size);
    if (size > 0 && data[0] == '!')
        mcp_work_failed(work, &(struct error){.text = "failed"});
    else if (mcp_work_attached(work) == &is_read)
        mcp_work_read(work, size > 0 ? (enum mcp_read_kind)(data[0] % 4) : MCP_READ_FILE, body,
                      size);
    else if (mcp_work_attached(work) == &is_list)
        list(work, body, size);
    else
        reply(work, body, size);
}

static const struct tool_row tool = {
    .name = "sandbox_exec",
    .title = "t",
    .description = "d",
    .schema = "{\"type\":\"object\",\"properties\":{\"timeout\":{\"type\":\"number\"}}}",
};
static const struct mcp_ops ops = {check_sent, keep_call, keep_list, keep_read, forget, NULL, NULL};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mcp_server *server = NULL;
    struct mcp_peer *peer = NULL;
    const uint8_t *end = data + size;
    uint64_t now = 0;

    work_count = 0;
    if (mcp_server_new(&(struct mcp_settings){.tools = &tool, .tool_count = 1, .prompt = "p"},
                       &server, NULL) < 0 ||
        mcp_peer_new(server, &ops, NULL, &peer, NULL) < 0)
        abort();
    while (data < end) {
        const uint8_t *line_end = memchr(data, '\n', (size_t)(end - data));
        size_t length = (size_t)((line_end ? line_end : end) - data);

        if (length > 0 && data[0] == '<' && work_count > 0) /* a reply of the daemon */
            answer(data + 1, length - 1);
        else
            mcp_peer_message(peer, (const char *)data, length, now);
        now += 2000;
        mcp_peer_tick(peer, now);
        data += length + (line_end != NULL);
    }
    mcp_peer_freep(&peer);
    mcp_server_freep(&server);
    return 0;
}
