/*
 * mcp_host.h - a host of the protocol that only writes down what it is asked, for the tests of MCP.
 * Static on purpose: each test program has its own.
 */
#ifndef BAILEY_TESTS_MCP_HOST_H
#define BAILEY_TESTS_MCP_HOST_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "api/mcp/mcp.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "tool/tool.h"

#define MODERN                                                \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":" \
    "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}"

static const struct tool_row tools[] = {
    {.name = "sandbox_exec",
     .title = "Run a command",
     .description = "Runs a command",
     .schema = "{\"type\":\"object\",\"properties\":{\"command\":{\"type\":\"array\",\"items\":{"
               "\"type\":\"string\"}},\"timeout\":{\"type\":\"number\",\"default\":60}},"
               "\"required\":[\"command\"],\"additionalProperties\":false}",
     .needs_session = true,
     .is_core = true,
     .mcp_timeout_s = 50},
    {.name = "run_python_code",
     .title = "Run Python",
     .description = "Runs Python",
     .schema = "{\"type\":\"object\",\"properties\":{\"code\":{\"type\":\"string\","
               "\"contentMediaType\":\"text/plain\"}},\"required\":[\"code\"]}"},
};

/* What the fake host saw; each test begins with an empty one. */
static struct host {
    json_t *sent; /* array of messages */
    int last_code;
    struct mcp_work *works[8];
    size_t work_count;
    char tool[64], session[80], path[256];
    json_t *arguments;
    size_t maximum;
    int cancelled, lists, reads;
    bool refuses;
} host;
static struct mcp_server *server;
static struct mcp_peer *peer;

static void fake_send(void *ctx, const char *message, size_t length, int error_code)
{
    json_t *json = json_loadb(message, length, JSON_ALLOW_NUL, NULL);

    (void)ctx;
    assert_non_null(json);
    assert_null(memchr(message, '\n', length));
    assert_string_equal(json_string_value(json_object_get(json, "jsonrpc")), "2.0");
    json_array_append_new(host.sent, json);
    host.last_code = error_code;
}

static int refuse(struct error *err)
{
    return error_set(err, -5, ERROR_NO_DAEMON, "nobody is there");
}

static int fake_call(void *ctx, struct mcp_work *work, const struct tool_row *tool,
                     const char *session, json_t *arguments, struct error *err)
{
    (void)ctx;
    if (host.refuses)
        return refuse(err);
    host.works[host.work_count++ % ARRAY_SIZE(host.works)] = work;
    str_copy(host.tool, sizeof(host.tool), tool->name);
    str_copy(host.session, sizeof(host.session), session ? session : "(none)");
    json_decref(host.arguments);
    host.arguments = json_incref(arguments);
    mcp_work_attach(work, &host);
    assert_ptr_equal(mcp_work_attached(work), &host);
    return 0;
}

static int fake_list(void *ctx, struct mcp_work *work, struct error *err)
{
    (void)ctx;
    if (host.refuses)
        return refuse(err);
    host.works[host.work_count++ % ARRAY_SIZE(host.works)] = work;
    host.lists++;
    return 0;
}

static int fake_read(void *ctx, struct mcp_work *work, const char *session, const char *path,
                     size_t maximum, struct error *err)
{
    (void)ctx;
    if (host.refuses)
        return refuse(err);
    host.works[host.work_count++ % ARRAY_SIZE(host.works)] = work;
    str_copy(host.session, sizeof(host.session), session);
    str_copy(host.path, sizeof(host.path), path);
    host.maximum = maximum;
    host.reads++;
    return 0;
}

static void fake_cancel(void *ctx, struct mcp_work *work)
{
    (void)ctx;
    (void)work;
    host.cancelled++;
}

static const struct mcp_ops ops = {fake_send,   fake_call, fake_list, fake_read,
                                   fake_cancel, NULL,      NULL};

__attribute__((unused)) static int begin_with(bool is_structured)
{
    const struct mcp_settings settings = {.tools = tools,
                                          .tool_count = ARRAY_SIZE(tools),
                                          .prompt = "Write, run, read, edit.",
                                          .is_structured = is_structured};

    host = (struct host){.sent = json_array()};
    return mcp_server_new(&settings, &server, NULL) | mcp_peer_new(server, &ops, NULL, &peer, NULL);
}

static int begin(void **state)
{
    (void)state;
    return begin_with(false);
}

static int end(void **state)
{
    (void)state;
    mcp_peer_freep(&peer);
    mcp_server_freep(&server);
    json_decref(host.sent);
    json_decref(host.arguments);
    return 0;
}

__attribute__((unused)) static void say(const char *text)
{
    mcp_peer_message(peer, text, strlen(text), 1000);
}

/* The one message that came since the last look. */
static json_t *heard(void)
{
    static json_t *last;

    assert_int_equal(json_array_size(host.sent), 1);
    json_decref(last);
    last = json_incref(json_array_get(host.sent, 0));
    json_array_clear(host.sent);
    return last;
}

static json_t *at(json_t *json, const char *path)
{
    char name[128];

    while (*path) {
        size_t length = strcspn(path, "|");

        memcpy(name, path, length);
        name[length] = '\0';
        json = json_is_array(json) ? json_array_get(json, (size_t)strtoul(name, NULL, 10))
                                   : json_object_get(json, name);
        path += length + (path[length] == '|');
    }
    return json;
}

__attribute__((unused)) static const char *text_at(json_t *json, const char *path)
{
    const char *text = json_string_value(at(json, path));

    return text ? text : "(no text)";
}

__attribute__((unused)) static bool is_true_at(json_t *json, const char *path)
{
    json_t *value = at(json, path); /* jansson's macros look twice */

    return json_is_true(value);
}

__attribute__((unused)) static json_int_t number_at(json_t *json, const char *path)
{
    return json_integer_value(at(json, path));
}

__attribute__((unused)) static void call_with(const char *id, const char *params)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);

    buf_printf(&text, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"method\":\"tools/call\",\"params\":{%s}}",
               id, params);
    say(buf_text(&text));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
