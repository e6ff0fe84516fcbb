/*
 * test_mcp_http.c - MCP over HTTP with real connections and a fake engine: eras, headers,
 * conversations, streams that are left, asked for again and cancelled.
 *
 * The fake engine's one tool does what its command says: "now" answers at once, "wait" when a later
 * "release" comes, "tell" says something before its answer.
 */
#include "api/mcp_reply.h"
#include "http/serving.h"
#include "tool/tool.h"

#include "api/mcp/mcp_http_private.h"
#include "base/cleanup.h"
#include "base/str.h"

#define JSON "Content-Type: application/json\r\n"
#define BOTH "Accept: application/json, text/event-stream\r\n"
#define MODERN_META                                           \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":" \
    "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}"
#define MODERN_HEADERS(method) "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: " method "\r\n"

static const struct tool_row rows[] = {
    {.name = "sandbox_exec",
     .title = "Run a command",
     .description = "Runs a command",
     .schema = "{\"type\":\"object\",\"properties\":{\"command\":{\"type\":\"string\"}}}",
     .needs_session = true},
};

static struct {
    struct mcp_work *waiting[4];
    size_t count;
    int cancelled, left, calls;
    bool had_own, was_left;
} host;

static struct mcp_server *mcp;
static struct mcp_http *door;

/* The header X-Key says who it is. */
static int fake_admit(struct http_request *http, struct principal *ret, struct error *err)
{
    const char *key = http_header(http, "X-Key");

    *ret = principal_local;
    if (str_equal(key, "bad"))
        return error_set(err, -EACCES, ERROR_ENGINE, "no such key");
    if (str_equal(key, "low"))
        return error_set(err, -EPERM, ERROR_ENGINE, "the key needs the scope run");
    if (str_equal(key, "many")) {
        error_set(err, -EDQUOT, ERROR_QUOTA, "too many requests");
        err->retry_s = 7;
        return err->num;
    }
    if (key) {
        ret->is_local = false;
        str_copy(ret->key, sizeof(ret->key), key);
    }
    return 0;
}

static void answer(struct mcp_work *work, const char *text)
{
    char body[200];

    str_format(body, sizeof(body), "{\"exit_code\":0,\"stdout\":\"%s\",\"session_id\":\"s_1\"}",
               text);
    answer_with(work, "s_1", body);
}

static int fake_call(void *ctx, struct mcp_asker *asker, struct mcp_work *work,
                     const struct tool_row *tool, const char *session, json_t *arguments,
                     struct error *err)
{
    const char *command = json_string_value(json_object_get(arguments, "command"));

    (void)ctx;
    (void)tool;
    (void)session;
    (void)err;
    host.calls++;
    host.had_own = asker->own != NULL;
    if (asker->own)
        str_copy(*asker->own, sizeof(*asker->own), "s_1");
    if (str_equal(command, "tell"))
        mcp_send_notice(work->peer, "notifications/x", json_pack("{s:i}", "n", 1));
    if (str_equal(command, "wait") || str_equal(command, "tell")) {
        host.waiting[host.count++] = work;
        sem_post(&reached);
        return 0;
    }
    if (str_equal(command, "release"))
        while (host.count > 0)
            answer(host.waiting[--host.count], "released");
    answer(work, command ? command : "nothing");
    return 0;
}

static int fake_list(void *ctx, const struct mcp_asker *asker, struct mcp_work *work,
                     struct error *err)
{
    (void)ctx;
    (void)asker;
    (void)err;
    mcp_work_listed(work, NULL, NULL);
    return 0;
}

static int fake_read(void *ctx, const struct mcp_asker *asker, struct mcp_work *work,
                     const char *session, const char *path, size_t maximum, struct error *err)
{
    (void)ctx;
    (void)asker;
    (void)session;
    (void)path;
    (void)maximum;
    (void)err;
    mcp_work_read(work, MCP_READ_MISSING, NULL, 0);
    return 0;
}

static void fake_cancel(void *ctx, struct mcp_work *work, bool is_left)
{
    (void)ctx;
    host.was_left = is_left;
    host.cancelled++;
    for (size_t i = 0; i < host.count; i++)
        if (host.waiting[i] == work)
            host.waiting[i] = host.waiting[--host.count];
    sem_post(&reached);
}

static void fake_look(void *ctx, struct mcp_work *work)
{
    (void)ctx;
    mcp_work_printed(work, "line\n", 5);
}

static void fake_left(void *ctx, const struct principal *who, const struct caller *caller,
                      const char *session, void (*done)(void *ctx), void *done_ctx)
{
    (void)ctx;
    (void)caller;
    (void)who;
    must(str_equal(session, "s_1"), "the conversation's own session");
    (void)done;
    (void)done_ctx;
    host.left++;
}

static const struct mcp_http_ops fake_ops = {
    .call = fake_call,
    .list = fake_list,
    .read = fake_read,
    .cancel = fake_cancel,
    .look = fake_look,
    .left = fake_left,
};

static void no_route(struct http_request *request, bool is_path, const char *allow, void *ctx)
{
    (void)allow;
    (void)ctx;
    http_reply(request, is_path ? 405 : 404, NULL, NULL, "", 0);
}

/* As the front hall does it: before the body, and again when it is there. */
static bool on_admit(struct http_request *request, void *ctx)
{
    struct principal who;
    struct error err = {0};

    (void)ctx;
    if (fake_admit(request, &who, &err) == 0)
        return true;
    mcp_http_fail(request, &err);
    return false;
}

static void on_request(struct http_request *request, void *ctx)
{
    struct caller caller = {.request = "req_1"};
    struct error err = {0};

    (void)ctx;
    fake_admit(request, &caller.who, &err);
    mcp_http_handle(door, request, &caller);
}

static const struct http_route routes[] = {
    {.method = "POST",
     .pattern = MCP_HTTP_PATH,
     .body = HTTP_WHOLE_BODY,
     .body_max = LIMIT_MCP_LINE,
     .handle = on_request,
     .admit = on_admit},
    {.method = "GET", .pattern = MCP_HTTP_PATH, .handle = on_request, .admit = on_admit},
    {.method = "DELETE", .pattern = MCP_HTTP_PATH, .handle = on_request, .admit = on_admit},
};

/* The door needs the reactor, which is the server's: a loop without rows comes first. */
static int set_up(void **state)
{
    const struct mcp_settings settings = {
        .tools = rows, .tool_count = ARRAY_SIZE(rows), .is_http = true};
    struct http_server_spec spec = {.client_max = 20, .no_route = no_route};
    struct error err = {0};

    (void)state;
    memset(&host, 0, sizeof(host));
    serving_start(&spec);
    http_server_stop(server);
    if (mcp_server_new(&settings, &mcp, &err) < 0 ||
        mcp_http_new(&(struct mcp_http_spec){.reactor = reactor, .server = mcp, .ops = &fake_ops},
                     &door, &err) < 0)
        return -1;
    spec.routes = routes;
    spec.route_count = ARRAY_SIZE(routes);
    spec.listen_fd = listen_fd;
    return http_server_start(reactor, &spec, &server, &err);
}

static int tear_down(void **state)
{
    (void)state;
    http_server_stop(server);
    server = NULL;
    mcp_http_free(door);
    mcp_server_freep(&mcp);
    serving_stop();
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* ---- clients ---- */

static const char *request(const char *method, const char *headers, const char *body)
{
    static char text[8192];

    snprintf(text, sizeof(text),
             "%s /mcp HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu\r\n%s\r\n%s",
             method, strlen(body), headers, body);
    return text;
}

/* Status and something that stands in the reply; NULL: anything. */
static const char *expect(const char *method, const char *headers, const char *body, int status,
                          const char *part)
{
    const char *reply = client_ask(request(method, headers, body));
    char line[32];

    snprintf(line, sizeof(line), "HTTP/1.1 %d", status);
    if (strncmp(reply, line, strlen(line)) != 0 || (part && !strstr(reply, part))) {
        fprintf(stderr, "for %s\n%s\n%s\nwanted %d and %s, got\n%s\n", method, headers, body,
                status, part ? part : "anything", reply);
        abort();
    }
    return reply;
}

#define CALL(id, command, meta)                                                            \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"" \
    "sandbox_exec\",\"arguments\":{\"command\":\"" command "\"}" meta "}}"
#define MODERN_CALL(id, command) CALL(id, command, "," MODERN_META)
#define CALL_HEADERS JSON BOTH MODERN_HEADERS("tools/call") "Mcp-Name: sandbox_exec\r\n"
#define INITIALIZE                                                                            \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\"" \
    ":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define PING "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"

/* Begins a conversation; its headers in memory that the next one reuses. */
static const char *initialize(const char *more)
{
    static char headers[300];
    char given[200];
    const char *at;

    snprintf(given, sizeof(given), JSON BOTH "%s", more);
    at = strstr(expect("POST", given, INITIALIZE, 200, "\"protocolVersion\":\"2025-11-25\""),
                "Mcp-Session-Id: ");
    must(at, "an id");
    snprintf(headers, sizeof(headers), JSON BOTH "%.*s\r\n%s", (int)strcspn(at, "\r"), at, more);
    return headers;
}

static void client_modern(void)
{
    static const char list[] =
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\",\"params\":{" MODERN_META "}}";
    static const char other[] =
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\",\"params\":"
        "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"
        "\"2031-01-01\",\"io.modelcontextprotocol/clientCapabilities\":{}}}"
        "}";

    expect("POST", JSON BOTH MODERN_HEADERS("tools/list"), list, 200,
           "\"resultType\":\"complete\"");
    must(!strstr(client_ask(request("POST", JSON BOTH MODERN_HEADERS("tools/list"), list)),
                 "Mcp-Session-Id"),
         "no conversation");
    /* in this order: header, members, equal, known, copies */
    expect("POST", JSON BOTH, list, 400, "-32020");
    expect("POST", JSON BOTH MODERN_HEADERS("tools/list"), PING, 400, "-32602");
    expect("POST", JSON BOTH "MCP-Protocol-Version: 2025-11-25\r\nMcp-Method: tools/list\r\n", list,
           400, "-32020");
    expect("POST", JSON BOTH "MCP-Protocol-Version: 2031-01-01\r\nMcp-Method: tools/list\r\n",
           other, 400, "\"supported\":[\"2026-07-28\"]");
    expect("POST", JSON BOTH MODERN_HEADERS("tools/lists"), list, 400, "-32020");
    expect("POST", JSON BOTH "MCP-Protocol-Version: 2026-07-28\r\n", list, 400, "-32020");
    expect("POST", JSON BOTH MODERN_HEADERS("ping"),
           "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{" MODERN_META "}}", 404,
           "-32601");
    expect("POST", CALL_HEADERS, MODERN_CALL("1", "now"), 200, "now");
    expect("POST", JSON BOTH MODERN_HEADERS("tools/call"), MODERN_CALL("1", "now"), 400, "-32020");
    expect("POST", JSON BOTH MODERN_HEADERS("tools/call") "Mcp-Name: other\r\n",
           MODERN_CALL("1", "now"), 400, "-32020");
    expect("POST",
           JSON BOTH MODERN_HEADERS("tools/call") "Mcp-Name: =?base64?c2FuZGJveF9leGVj?=\r\n",
           MODERN_CALL("1", "now"), 200, "now");
    expect("POST", JSON BOTH MODERN_HEADERS("tools/call") "Mcp-Name: =?base64?c2Fu*?=\r\n",
           MODERN_CALL("1", "now"), 400, "-32020");
    expect("POST", JSON BOTH MODERN_HEADERS("x"), "{\"jsonrpc\":\"2.0\",\"method\":\"x\"}", 202,
           "\r\n\r\n");
    expect("GET", "Accept: text/event-stream\r\n", "", 405, "Allow: POST");
    expect("HEAD", "", "", 405, "Allow: POST");
    expect("DELETE", "", "", 405, "Allow: POST");
}

static void modern_requests_stand_alone(void **state)
{
    (void)state;
    serve(client_modern);
    assert_false(host.had_own);
    assert_int_equal(mcp_http_sessions(door), 0);
}

static void client_bad(void)
{
    char deep[400];
    int used = 0;

    while (used < 200)
        used += snprintf(deep + used, 2, "[");
    expect("POST", BOTH "Content-Type: text/plain\r\n", INITIALIZE, 415, "-32600");
    expect("POST", BOTH, INITIALIZE, 415, "application/json");
    expect("POST", "Content-Type: Application/JSON; charset=utf-8\r\nAccept: */*\r\n", INITIALIZE,
           200, "application/json");
    expect("POST", JSON, INITIALIZE, 200, "application/json");
    expect("POST", JSON "Accept: text/html\r\n", INITIALIZE, 406, "Accept");
    expect("POST", JSON "Accept: text/event-stream\r\n", INITIALIZE, 200, "data: {\"jsonrpc\"");
    expect("POST", JSON BOTH, "{\"jsonrpc\"", 400, "-32700");
    expect("POST", JSON BOTH, "", 400, "-32700");
    expect("POST", JSON BOTH, " ", 400, "-32700");
    expect("POST", JSON BOTH, deep, 400, "-32700");
    expect("POST", JSON BOTH, "[" INITIALIZE "]", 400, "-32600");
    expect("POST", JSON BOTH, "7", 400, "-32600");
    expect("POST", JSON BOTH, PING, 400, "Mcp-Session-Id");
    expect("POST", JSON BOTH "MCP-Protocol-Version: 1999-01-01\r\n", PING, 400, NULL);
    expect("POST", JSON BOTH "Mcp-Session-Id: mcp_nobody\r\n", PING, 404, "initialize");
    expect("GET", BOTH "Mcp-Session-Id: mcp_nobody\r\n", "", 404, "initialize");
    expect("DELETE", "Mcp-Session-Id: mcp_nobody\r\n", "", 404, "initialize");
    must(!strstr(expect("POST", JSON BOTH,
                        "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\"}", 200, "-32602"),
                 "Mcp-Session-Id"),
         "no conversation after a bad handshake");
    expect("POST", JSON BOTH "X-Key: bad\r\n", INITIALIZE, 401, "WWW-Authenticate: Bearer");
    expect("POST", JSON BOTH "X-Key: low\r\n", INITIALIZE, 403, "scope");
    expect("POST", JSON BOTH "X-Key: many\r\n", INITIALIZE, 429, "Retry-After: 7");
    expect("PUT", JSON BOTH, INITIALIZE, 405, NULL);
}

static void what_is_wrong_is_refused(void **state)
{
    (void)state;
    serve(client_bad);
    assert_int_equal(mcp_http_sessions(door), 3);
}

static void client_conversation(void)
{
    char mine[300], theirs[400];
    const char *headers = initialize("X-Key: one\r\n");

    snprintf(mine, sizeof(mine), "%s", headers);
    snprintf(theirs, sizeof(theirs), "%.*s", (int)(strstr(mine, "X-Key") - mine), mine);
    expect("POST", mine, PING, 200, "\"result\":{}");
    expect("POST", mine, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}", 202,
           "\r\n\r\n");
    expect("POST", mine, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}", 202, "\r\n\r\n");
    expect("POST", mine, "{\"method\":\"notifications/initialized\"}", 400, "-32600");
    expect("POST", mine, "{\"jsonrpc\":\"2.0\",\"id\":1}", 400, "-32600");
    expect("POST", mine, "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", 400, "-32600");
    expect("POST", mine, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nothing\"}", 200, "-32601");
    expect("POST", mine, CALL("2", "now", ""), 200, "now");
    /* it is nobody else's */
    expect("POST", theirs, PING, 404, "initialize");
    expect("DELETE", theirs, "", 404, "initialize");
    strcat(theirs, "X-Key: two\r\n");
    expect("POST", theirs, PING, 404, "initialize");
    expect("DELETE", mine, "", 204, NULL);
    expect("POST", mine, PING, 404, "initialize");
}

static void a_conversation_belongs_to_a_key(void **state)
{
    (void)state;
    serve(client_conversation);
    assert_true(host.had_own);
    assert_int_equal(host.left, 1);
    assert_int_equal(mcp_http_sessions(door), 0);
}

static void client_streams(void)
{
    const char *reply;
    char text[4096];
    int fd = client_connect();

    client_say(fd, request("POST", CALL_HEADERS, MODERN_CALL("\"a\"", "tell")));
    client_read_until(fd, text, sizeof(text), "notifications/x", 1);
    must(strstr(text, "Content-Type: text/event-stream"), "events");
    must(!strstr(text, "\nid: "), "no ids");
    sem_wait(&reached);
    reply = expect("POST", CALL_HEADERS, MODERN_CALL("1", "release"), 200, "release");
    client_read_all(fd, text, sizeof(text));
    must(strstr(text, "released") && strstr(text, "\"id\":\"a\""), "the answer");
    close(fd);
    (void)reply;
    /* a client that does not know events gets none */
    fd = client_connect();
    client_say(fd, request("POST", JSON MODERN_HEADERS("tools/call") "Mcp-Name: sandbox_exec\r\n",
                           MODERN_CALL("2", "tell")));
    sem_wait(&reached);
    expect("POST", CALL_HEADERS, MODERN_CALL("1", "release"), 200, "release");
    client_read_all(fd, text, sizeof(text));
    must(strstr(text, "Content-Type: application/json") && !strstr(text, "notifications/x"),
         "plain JSON");
    close(fd);
}

static void what_comes_before_the_answer_makes_a_stream(void **state)
{
    (void)state;
    serve(client_streams);
    assert_int_equal(host.cancelled, 0);
}

static void client_leaves(void)
{
    char text[4096];
    int fd = client_connect();

    client_say(fd, request("POST", CALL_HEADERS, MODERN_CALL("1", "wait")));
    sem_wait(&reached);
    close(fd);
    sem_wait(&reached); /* cancelled */
    fd = client_connect();
    client_say(fd, request("POST", CALL_HEADERS, MODERN_CALL("1", "tell")));
    client_read_until(fd, text, sizeof(text), "notifications/x", 1);
    sem_wait(&reached);
    close(fd);
    sem_wait(&reached);
}

static void who_leaves_a_modern_request_cancels_it(void **state)
{
    (void)state;
    serve(client_leaves);
    assert_int_equal(host.cancelled, 2);
    assert_int_equal(host.count, 0);
    assert_true(host.was_left);
}

static void client_resumes(void)
{
    char mine[300], again[400], text[4096], id[32];
    const char *at;
    int fd;

    snprintf(mine, sizeof(mine), "%s", initialize(""));
    fd = client_connect();
    client_say(fd, request("POST", mine, CALL("5", "tell", "")));
    client_read_until(fd, text, sizeof(text), "notifications/x", 1);
    sem_wait(&reached);
    close(fd); /* that is no cancellation */
    must(strstr(text, "-0\nretry: 1000\ndata: \n\n"), "a first event to come back with");
    at = strstr(text, "event: message\n");
    must(at || strstr(text, "id: "), "events");
    at = strstr(text, "id: ");
    snprintf(id, sizeof(id), "%.*s", (int)strcspn(at + 4, "\n"), at + 4);
    expect("POST", mine, CALL("6", "release", ""), 200, "release");
    /* from the first event on: what was told, and the answer */
    snprintf(again, sizeof(again), "%sLast-Event-ID: %s\r\n", mine, id);
    at = expect("GET", again, "", 200, "notifications/x");
    must(strstr(at, "released") && strstr(at, "\"id\":5") && !strstr(at, "retry:"), "the rest");
    /* from the second on: only the answer; behind the last: nothing */
    id[strlen(id) - 1] = '1';
    snprintf(again, sizeof(again), "%sLast-Event-ID: %s\r\n", mine, id);
    at = expect("GET", again, "", 200, "released");
    must(!strstr(at, "notifications/x"), "not twice");
    id[strlen(id) - 1] = '2';
    snprintf(again, sizeof(again), "%sLast-Event-ID: %s\r\n", mine, id);
    must(!strstr(expect("GET", again, "", 200, NULL), "data:"), "nothing more");
    id[strlen(id) - 1] = '3';
    snprintf(again, sizeof(again), "%sLast-Event-ID: %s\r\n", mine, id);
    expect("GET", again, "", 400, "no longer stored");
    snprintf(again, sizeof(again), "%sLast-Event-ID: nonsense\r\n", mine);
    expect("GET", again, "", 400, "no longer stored");
    snprintf(again, sizeof(again), "%.*sAccept: text/html\r\n", (int)(strstr(mine, BOTH) - mine),
             mine);
    at = strstr(mine, "Mcp-Session-Id");
    snprintf(again, sizeof(again), "Accept: text/html\r\n%s", at);
    expect("GET", again, "", 406, "text/event-stream");
}

static void a_legacy_stream_is_asked_for_again(void **state)
{
    (void)state;
    serve(client_resumes);
    assert_int_equal(host.cancelled, 0);
}

static void client_cancels(void)
{
    char mine[300], text[4096];
    int fd;

    snprintf(mine, sizeof(mine), "%s", initialize(""));
    fd = client_connect();
    client_say(fd, request("POST", mine, CALL("5", "wait", "")));
    sem_wait(&reached);
    expect("POST", mine,
           "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
           "\"requestId\":\"5\"}}",
           202, NULL); /* another id: the text, not the number */
    must(host.cancelled == 0, "not yet");
    expect("POST", mine,
           "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{"
           "\"requestId\":5}}",
           202, NULL);
    client_read_all(fd, text, sizeof(text));
    must(!strstr(text, "jsonrpc"), "no answer");
    close(fd);
    /* the end of the conversation ends what runs and who listens */
    fd = client_connect();
    client_say(fd, request("GET", mine, ""));
    client_read_until(fd, text, sizeof(text), "text/event-stream", 1);
    expect("DELETE", mine, "", 204, NULL);
    client_read_all(fd, text, sizeof(text));
    close(fd);
}

static void a_notification_cancels(void **state)
{
    (void)state;
    serve(client_cancels);
    assert_int_equal(host.cancelled, 1);
    assert_int_equal(mcp_http_sessions(door), 0);
}

static void client_many(void)
{
    char first[300];

    snprintf(first, sizeof(first), "%s", initialize("X-Key: one\r\n"));
    for (int i = 0; i < LIMIT_MCP_KEY_SESSIONS; i++)
        initialize("X-Key: one\r\n");
    expect("POST", first, PING, 404, "initialize");
    expect("POST", initialize("X-Key: two\r\n"), PING, 200, NULL);
}

static void the_oldest_conversation_of_a_key_makes_room(void **state)
{
    (void)state;
    serve(client_many);
    assert_int_equal(mcp_http_sessions(door), LIMIT_MCP_KEY_SESSIONS + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(modern_requests_stand_alone),
        TEST(what_is_wrong_is_refused),
        TEST(a_conversation_belongs_to_a_key),
        TEST(what_comes_before_the_answer_makes_a_stream),
        TEST(who_leaves_a_modern_request_cancels_it),
        TEST(a_legacy_stream_is_asked_for_again),
        TEST(a_notification_cancels),
        TEST(the_oldest_conversation_of_a_key_makes_room),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
