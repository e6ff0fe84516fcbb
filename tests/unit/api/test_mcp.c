/*
 * test_mcp.c - the protocol with a fake host: both eras, errors, ids, hostile input, calls,
 * cancellation, progress by a clock of our own.
 */
#include "api/mcp_host.h"
#include "api/mcp_reply.h"

/* ---- eras ---- */

static void discover_tells_the_modern_era(void **state)
{
    json_t *answer;

    (void)state;
    say("{\"params\":{" MODERN "}},\"method\":\"server/discover\",\"id\":\"server-discover-probe-1"
        "\",\"jsonrpc\":\"2.0\"}");
    answer = heard();
    assert_string_equal(text_at(answer, "id"), "server-discover-probe-1");
    assert_string_equal(text_at(answer, "result|resultType"), "complete");
    assert_string_equal(text_at(answer, "result|supportedVersions|0"), "2026-07-28");
    assert_int_equal(json_array_size(at(answer, "result|supportedVersions")), 1);
    assert_true(json_is_integer(at(answer, "result|ttlMs")));
    assert_string_equal(text_at(answer, "result|cacheScope"), "public");
    assert_string_equal(text_at(answer, "result|_meta|io.modelcontextprotocol/serverInfo|name"),
                        "bailey");
    assert_null(at(answer, "result|serverInfo"));
    assert_true(json_is_object(at(answer, "result|capabilities|tools")));
    assert_true(strlen(text_at(answer, "result|instructions")) < 2048);
}

static void initialize_agrees_on_a_version(void **state)
{
    static const char *const rows[][2] = {
        {"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"}, {"2025-06-18", "2025-06-18"},
        {"2025-11-25", "2025-11-25"}, {"2026-07-28", "2025-11-25"}, {"1999-01-01", "2025-11-25"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char text[256];
        json_t *answer;

        str_format(text, sizeof(text),
                   "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{"
                   "\"protocolVersion\":\"%s\",\"capabilities\":{\"odd\":1}}}",
                   rows[i][0]);
        say(text);
        answer = heard();
        assert_true(json_is_integer(at(answer, "id")));
        assert_int_equal(number_at(answer, "id"), 0);
        assert_string_equal(text_at(answer, "result|protocolVersion"), rows[i][1]);
        assert_string_equal(text_at(answer, "result|serverInfo|name"), "bailey");
        assert_null(at(answer, "result|resultType"));
        assert_null(at(answer, "result|_meta"));
    }
    say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert_int_equal(json_array_size(host.sent), 0);
}

/* Each message alone decides: probe, handshake and both again. */
static void the_era_is_not_pinned(void **state)
{
    (void)state;
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" MODERN "}}}");
    assert_string_equal(text_at(heard(), "result|resultType"), "complete");
    say("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
        "\"2025-06-18\"}}");
    assert_string_equal(text_at(heard(), "result|protocolVersion"), "2025-06-18");
    say("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/list\"}");
    assert_null(at(heard(), "result|resultType"));
    say("{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/list\",\"params\":{" MODERN "}}}");
    assert_string_equal(text_at(heard(), "result|resultType"), "complete");
}

static void methods_belong_to_an_era(void **state)
{
    static const char *const legacy_only[] = {"initialize", "ping", "logging/setLevel"};
    static const char *const nowhere[] = {"subscriptions/listen", "resources/subscribe", "x", ""};
    char text[512];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(legacy_only); i++) {
        str_format(text, sizeof(text),
                   "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\",\"params\":{" MODERN "}}}",
                   legacy_only[i]);
        say(text);
        assert_int_equal(number_at(heard(), "error|code"), -32601);
    }
    for (size_t i = 0; i < ARRAY_SIZE(nowhere); i++) {
        str_format(text, sizeof(text), "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"%s\"}",
                   nowhere[i]);
        say(text);
        assert_int_equal(number_at(heard(), "error|code"), -32601);
        assert_int_equal(host.last_code, -32601);
    }
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
    assert_int_equal(json_object_size(at(heard(), "result")), 0);
}

static void a_modern_request_says_what_it_speaks(void **state)
{
    json_t *answer;

    (void)state;
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
        "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}}");
    assert_int_equal(number_at(heard(), "error|code"), -32602);
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
        "\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
    assert_int_equal(number_at(heard(), "error|code"), -32602);
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\"}");
    assert_int_equal(number_at(heard(), "error|code"), -32602);
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{\"_meta\":{"
        "\"io.modelcontextprotocol/protocolVersion\":\"2030-01-01\","
        "\"io.modelcontextprotocol/clientCapabilities\":{}}}}");
    answer = heard();
    assert_int_equal(number_at(answer, "error|code"), -32022);
    assert_string_equal(text_at(answer, "error|data|supported|0"), "2026-07-28");
    assert_string_equal(text_at(answer, "error|data|requested"), "2030-01-01");
}

static void logging_is_taken(void **state)
{
    (void)state;
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\",\"params\":{\"level\":"
        "\"info\"}}");
    assert_int_equal(json_object_size(at(heard(), "result")), 0);
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\",\"params\":{\"level\":"
        "\"loud\"}}");
    assert_int_equal(number_at(heard(), "error|code"), -32602);
}

/* ---- messages ---- */

static void ids_come_back_as_they_are(void **state)
{
    static const char *const ids[] = {"0",    "-1",    "9007199254740993",    "9223372036854775807",
                                      "\"\"", "\"0\"", "\"a \\u00e9 \\\\ b\""};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
        CLEANUP(json_decrefp) json_t *id = json_loads(ids[i], JSON_DECODE_ANY, NULL);
        char text[256];

        str_format(text, sizeof(text), "{\"id\":%s,\"method\":\"ping\",\"jsonrpc\":\"2.0\"}",
                   ids[i]);
        say(text);
        assert_true(json_equal(at(heard(), "id"), id));
    }
}

static void params_may_be_null(void **state)
{
    (void)state;
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":null}");
    assert_int_equal(json_array_size(at(heard(), "result|tools")), 2);
}

static void bad_messages_are_answered(void **state)
{
    static const struct {
        const char *text;
        int code;
        bool has_id;
    } rows[] = {
        {"{", -32700, false},
        {"nonsense", -32700, false},
        {"{\"id\":1,}", -32700, true},
        {"[]", -32600, false},
        {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", -32600, false},
        {"7", -32600, false},
        {"null", -32600, false},
        {"{}", -32600, false},
        {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", -32600, true},
        {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600, false},
        {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600, false},
        {"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", -32600, false},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", -32600, true},
        {"{\"jsonrpc\":\"2.0\",\"id\":1}", -32600, true},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", -32602, true},
        {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\\u0000x\"}", -32600, true},
        {"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}", -32700,
         true},
        {"{\"params\":{\"id\":9,\"a\":\"\\ud800\"},\"id\":\"x\"}", -32700, true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        json_t *answer;

        say(rows[i].text);
        answer = heard();
        assert_int_equal(number_at(answer, "error|code"), rows[i].code);
        assert_int_equal(at(answer, "id") != NULL, rows[i].has_id);
        assert_true(json_is_string(at(answer, "error|message")));
    }
}

static void what_needs_no_answer_gets_none(void **state)
{
    static const char *const rows[] = {
        "",
        " \t\r",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":1,\"message\":\"\"}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unheard\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":3}}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"tools/list\"}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        say(rows[i]);
    assert_int_equal(json_array_size(host.sent), 0);
}

static void deep_and_doubled_and_long(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * MIB);

    (void)state;
    buf_append_text(&text, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\",\"params\":{\"a\":");
    for (size_t i = 0; i < 5000; i++)
        buf_append_text(&text, "[");
    mcp_peer_message(peer, buf_text(&text), text.length, 0);
    assert_int_equal(number_at(heard(), "id"), 5);

    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"x\",\"method\":\"ping\"}");
    assert_int_equal(number_at(heard(), "id"), 2);

    buf_clear(&text);
    buf_append_text(&text, "{\"params\":{\"pad\":\"");
    for (size_t i = 0; i < 20 * MIB / 16; i++)
        buf_append_text(&text, "0123456789abcdef");
    buf_append_text(&text, "\"},\"method\":\"ping\",\"jsonrpc\":\"2.0\",\"id\":6}");
    mcp_peer_message(peer, buf_text(&text), text.length, 0);
    assert_int_equal(number_at(heard(), "id"), 6);

    mcp_peer_too_long(peer, "{\"id\":8,\"x\":\"", 13);
    assert_int_equal(number_at(heard(), "id"), 8);
}

/* ---- tools ---- */

static void tools_are_listed(void **state)
{
    json_t *answer;

    (void)state;
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
    answer = at(heard(), "result|tools");
    assert_int_equal(json_array_size(answer), 2);
    assert_string_equal(text_at(answer, "0|name"), "sandbox_exec");
    assert_string_equal(text_at(answer, "0|title"), "Run a command");
    assert_int_equal(number_at(answer, "0|inputSchema|properties|timeout|default"), 50);
    assert_string_equal(text_at(answer, "0|inputSchema|properties|session|type"), "string");
    assert_string_equal(text_at(answer, "1|inputSchema|properties|session|type"), "string");
    assert_null(at(answer, "1|inputSchema|properties|code|contentMediaType"));
    assert_true(json_is_false(at(answer, "0|annotations|readOnlyHint")));
    assert_null(at(answer, "0|outputSchema"));
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"cursor\":\"x\"}}");
    assert_int_equal(number_at(heard(), "error|code"), -32602);
}

static void bad_calls(void **state)
{
    (void)state;
    call_with("1", "\"name\":\"sandbox_exce\"");
    assert_int_equal(number_at(heard(), "error|code"), -32602);
    call_with("1", "\"arguments\":{}");
    assert_int_equal(number_at(heard(), "error|code"), -32602);
    call_with("1", "\"name\":\"sandbox_exec\",\"arguments\":[]");
    assert_int_equal(number_at(heard(), "error|code"), -32602);
    call_with("1", "\"name\":\"sandbox_exec\",\"arguments\":{\"session\":7}");
    assert_true(is_true_at(heard(), "result|isError"));
    host.refuses = true;
    call_with("1", "\"name\":\"sandbox_exec\"");
    assert_string_equal(text_at(json_array_get(host.sent, 0), "result|content|0|text"),
                        "nobody is there");
    assert_true(is_true_at(heard(), "result|isError"));
    assert_int_equal(host.work_count, 0);
}

static void a_call_gets_its_arguments(void **state)
{
    (void)state;
    call_with("1", "\"name\":\"sandbox_exec\",\"_meta\":{\"claudecode/toolUseId\":\"t\"}");
    assert_string_equal(host.session, "(none)");
    assert_int_equal(number_at(host.arguments, "timeout"), 50);
    call_with("2", "\"name\":\"sandbox_exec\",\"arguments\":{\"command\":[\"ls\"],\"timeout\":7,"
                   "\"session\":\"mine\"}");
    assert_string_equal(host.session, "mine");
    assert_int_equal(number_at(host.arguments, "timeout"), 7);
    assert_null(at(host.arguments, "session"));
    call_with("3",
              "\"name\":\"sandbox_exec\",\"arguments\":{\"background\":true,\"session\":null}");
    assert_null(at(host.arguments, "timeout"));
    assert_string_equal(host.session, "(none)");
    call_with("4", "\"name\":\"run_python_code\",\"arguments\":{\"code\":\"a\\u0000b\"}");
    assert_null(at(host.arguments, "timeout"));
    assert_int_equal(json_string_length(at(host.arguments, "code")), 3);
    assert_int_equal(json_array_size(host.sent), 0);
}

static void answers_come_in_any_order(void **state)
{
    static const char reply[] = "{\"exit_code\":0,\"stdout\":\"x\",\"stderr\":\"\"}";

    (void)state;
    call_with("1", "\"name\":\"sandbox_exec\"");
    call_with("\"two\"", "\"name\":\"sandbox_exec\"");
    say("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"ping\"}");
    assert_int_equal(number_at(heard(), "id"), 3);
    answer_with(host.works[1], "s_1", reply);
    assert_string_equal(text_at(heard(), "id"), "two");
    answer_with(host.works[0], "s_1", reply);
    assert_int_equal(number_at(heard(), "id"), 1);
}

static void too_many_at_once(void **state)
{
    (void)state;
    for (int i = 0; i < LIMIT_MCP_CALLS; i++)
        call_with("1", "\"name\":\"sandbox_exec\"");
    assert_int_equal(json_array_size(host.sent), 0);
    call_with("2", "\"name\":\"sandbox_exec\"");
    assert_int_equal(number_at(heard(), "error|code"), -32603);
}

static void cancel_kills_and_stays_silent(void **state)
{
    (void)state;
    call_with("1", "\"name\":\"sandbox_exec\"");
    call_with("\"1\"", "\"name\":\"sandbox_exec\"");
    say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
        "cancelled\",\"params\":{\"requestId\":9}}");
    assert_int_equal(host.cancelled, 0);
    say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1,"
        "\"reason\":\"bored\"}}");
    assert_int_equal(host.cancelled, 1);
    mcp_work_failed(host.works[1], &(struct error){.text = "lost"});
    assert_string_equal(text_at(heard(), "id"), "1");
    call_with("5", "\"name\":\"sandbox_exec\"");
    mcp_peer_freep(&peer);
    assert_int_equal(host.cancelled, 2);
    assert_int_equal(json_array_size(host.sent), 0);
}

static void progress_rises(void **state)
{
    json_t *notice;

    (void)state;
    call_with("1", "\"name\":\"sandbox_exec\"");
    assert_true(mcp_peer_tick(peer, 1000000) == UINT64_MAX);
    call_with("2", "\"name\":\"sandbox_exec\",\"_meta\":{\"progressToken\":\"t\"}");
    assert_int_equal(mcp_peer_tick(peer, 1000), 1000 + MCP_PROGRESS_FIRST_MS);
    assert_int_equal(json_array_size(host.sent), 0);
    assert_int_equal(mcp_peer_tick(peer, 6000), 6000 + MCP_PROGRESS_MS);
    notice = heard();
    assert_string_equal(text_at(notice, "method"), "notifications/progress");
    assert_string_equal(text_at(notice, "params|progressToken"), "t");
    assert_int_equal(number_at(notice, "params|progress"), 5);
    assert_string_equal(text_at(notice, "params|message"), "running for 5 s");
    mcp_work_printed(host.works[1], "one\nstep 3 of 9\n\n", 17);
    mcp_peer_tick(peer, 11000);
    notice = heard();
    assert_int_equal(number_at(notice, "params|progress"), 10);
    assert_string_equal(text_at(notice, "params|message"), "running for 10 s: step 3 of 9");
    mcp_work_failed(host.works[1], &(struct error){.text = "over"});
    heard();
    assert_true(mcp_peer_tick(peer, 100000) == UINT64_MAX);
    assert_int_equal(json_array_size(host.sent), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(discover_tells_the_modern_era),
        TEST(initialize_agrees_on_a_version),
        TEST(the_era_is_not_pinned),
        TEST(methods_belong_to_an_era),
        TEST(a_modern_request_says_what_it_speaks),
        TEST(logging_is_taken),
        TEST(ids_come_back_as_they_are),
        TEST(params_may_be_null),
        TEST(bad_messages_are_answered),
        TEST(what_needs_no_answer_gets_none),
        TEST(deep_and_doubled_and_long),
        TEST(tools_are_listed),
        TEST(bad_calls),
        TEST(a_call_gets_its_arguments),
        TEST(answers_come_in_any_order),
        TEST(too_many_at_once),
        TEST(cancel_kills_and_stays_silent),
        TEST(progress_rises),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
