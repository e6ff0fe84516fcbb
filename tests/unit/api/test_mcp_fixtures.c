/* test_mcp_fixtures.c - the fixtures of the conformance suite: hidden without the switch, and what
 * they ask of a client. */
#include "api/mcp_host.h"

static int begin_fixtures(void **state)
{
    const struct mcp_settings settings = {
        .tools = tools, .tool_count = ARRAY_SIZE(tools), .has_fixtures = true};

    (void)state;
    host = (struct host){.sent = json_array()};
    return mcp_server_new(&settings, &server, NULL) | mcp_peer_new(server, &ops, NULL, &peer, NULL);
}

#define FIXTURE_TEST(name) cmocka_unit_test_setup_teardown(name, begin_fixtures, end)
#define ABLE                                                                                     \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                     \
    "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{},\"sampling\":{},\"roots" \
    "\":{}}}"

static void they_are_hidden_without_the_switch(void **state)
{
    (void)state;
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
    assert_int_equal(json_array_size(at(heard(), "result|tools")), ARRAY_SIZE(tools));
    call_with("1", "\"name\":\"test_simple_text\"");
    assert_int_equal(number_at(heard(), "error|code"), -32602);
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{\"uri\":"
        "\"test://static-text\"}}");
    assert_int_equal(number_at(heard(), "error|code"), -32002);
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/subscribe\",\"params\":{\"uri\":"
        "\"test://watched-resource\"}}");
    assert_int_equal(number_at(heard(), "error|code"), -32601);
    assert_int_equal(host.work_count, 0);
}

static void a_legacy_tool_asks_and_takes_its_own_answer(void **state)
{
    json_t *asked;

    (void)state;
    call_with("7", "\"name\":\"test_sampling\",\"arguments\":{\"prompt\":\"why?\"}");
    asked = heard();
    assert_int_equal(host.last_code, MCP_NOTICE);
    assert_string_equal(text_at(asked, "method"), "sampling/createMessage");
    assert_string_equal(text_at(asked, "params|messages|0|content|text"), "why?");
    say("{\"jsonrpc\":\"2.0\",\"id\":\"another\",\"result\":{}}");
    assert_int_equal(json_array_size(host.sent), 0);
    say("{\"jsonrpc\":\"2.0\",\"id\":\"ask-7\",\"result\":{\"role\":\"assistant\",\"content\":{"
        "\"type\":\"text\",\"text\":\"because\"}}}");
    asked = heard();
    assert_int_equal(number_at(asked, "id"), 7);
    assert_string_equal(text_at(asked, "result|content|0|text"), "LLM response: because");
}

static void a_state_is_taken_back_only_as_it_was(void **state)
{
    char text[600], given[100];

    (void)state;
    call_with("1", "\"name\":\"test_input_required_result_tampered_state\"," ABLE);
    str_copy(given, sizeof(given), text_at(heard(), "result|requestState"));
    str_format(text, sizeof(text), "\"requestState\":\"%sx\",", given);
    call_with("3", strcat(text, "\"name\":\"test_input_required_result_tampered_state\"," ABLE));
    assert_int_equal(number_at(heard(), "error|code"), -32602);
    str_format(text, sizeof(text), "\"requestState\":\"%s\",", given);
    call_with("4", strcat(text, "\"name\":\"test_input_required_result_request_state\"," ABLE));
    assert_int_equal(number_at(heard(), "error|code"), -32602);
}

static void rounds_go_on(void **state)
{
    char text[600], first[100], second[100];
    json_t *answer;

    (void)state;
    call_with("1", "\"name\":\"test_input_required_result_multi_round\"," ABLE);
    answer = heard();
    assert_string_equal(text_at(answer, "result|resultType"), "input_required");
    str_copy(first, sizeof(first), text_at(answer, "result|requestState"));
    str_format(text, sizeof(text),
               "\"name\":\"test_input_required_result_multi_round\",\"inputResponses\":{\"step\":{"
               "}},\"requestState\":\"%s\"," ABLE,
               first);
    call_with("2", text);
    answer = heard();
    assert_string_equal(text_at(answer, "result|resultType"), "input_required");
    str_copy(second, sizeof(second), text_at(answer, "result|requestState"));
    assert_string_not_equal(first, second);
    str_format(text, sizeof(text),
               "\"name\":\"test_input_required_result_multi_round\",\"inputResponses\":{\"step\":{"
               "}},\"requestState\":\"%s\"," ABLE,
               second);
    call_with("3", text);
    assert_string_equal(text_at(heard(), "result|resultType"), "complete");
}

static void nothing_is_asked_that_was_not_declared(void **state)
{
    json_t *answer;

    (void)state;
    call_with("1", "\"name\":\"test_missing_capability\"," MODERN "}");
    answer = heard();
    assert_int_equal(number_at(answer, "error|code"), -32021);
    assert_true(json_is_object(at(answer, "error|data|requiredCapabilities|sampling")));
    call_with("1", "\"name\":\"test_input_required_result_capabilities\"," MODERN "}");
    assert_string_equal(text_at(heard(), "result|resultType"), "complete");
}

int main(void)
{
    const struct CMUnitTest tests_[] = {
        TEST(they_are_hidden_without_the_switch),
        FIXTURE_TEST(a_legacy_tool_asks_and_takes_its_own_answer),
        FIXTURE_TEST(a_state_is_taken_back_only_as_it_was),
        FIXTURE_TEST(rounds_go_on),
        FIXTURE_TEST(nothing_is_asked_that_was_not_declared),
    };

    return cmocka_run_group_tests(tests_, NULL, NULL);
}
