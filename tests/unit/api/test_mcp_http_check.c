/* test_mcp_http_check.c - what is read out of headers: types, ids of events, copies of the body. */
#include "unit.h"

#include "api/mcp/mcp_http_private.h"
#include "base/cleanup.h"

static void types_are_ranges(void **state)
{
    static const struct {
        const char *accept;
        bool has_json, has_events;
    } rows[] = {
        {NULL, true, true},
        {"", true, true},
        {"*/*", true, true},
        {"application/json", true, false},
        {"Application/JSON;q=0.9 , text/html", true, false},
        {"text/html,text/event-stream", false, true},
        {"text/*", false, true},
        {"application/*", true, false},
        {"application/jsonp", false, false},
        {"application", false, false},
        {"*/json", false, false},
        {",,;,", false, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_int_equal(mcp_accepts(rows[i].accept, "application/json"), rows[i].has_json);
        assert_int_equal(mcp_accepts(rows[i].accept, "text/event-stream"), rows[i].has_events);
    }
    assert_true(mcp_is_json_type("application/json"));
    assert_true(mcp_is_json_type(" APPLICATION/json ; charset=utf-8"));
    assert_false(mcp_is_json_type(NULL));
    assert_false(mcp_is_json_type("application/json-patch+json"));
    assert_false(mcp_is_json_type("text/plain; application/json"));
}

static void ids_of_events_are_two_numbers(void **state)
{
    static const char *const bad[] = {"",     "-",    "1",   "1-",  "-1",
                                      "1-2-", "1- 2", "a-1", "1-b", "18446744073709551616-1"};
    uint64_t stream, event;

    (void)state;
    assert_true(mcp_event_id("7-12", &stream, &event));
    assert_int_equal(stream, 7);
    assert_int_equal(event, 12);
    assert_true(mcp_event_id("18446744073709551615-0", &stream, &event));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(mcp_event_id(bad[i], &stream, &event));
}

static void blanks_around_values_do_not_count(void **state)
{
    CLEANUP(json_decrefp)
    json_t *message =
        json_pack("{s:s,s:{s:s,s:{s:s,s:{}}}}", "method", "tools/call", "params", "name", "a b",
                  "_meta", MCP_META_VERSION, MCP_MODERN, MCP_META_CAPABILITIES);
    static const struct {
        const char *name;
        int code;
    } rows[] = {
        {"a b", 0},
        {" \ta b \t", 0},
        {"  =?base64?YSBi?= ", 0},
        {"=?base64?YSBi?", MCP_HEADER_MISMATCH},
        {"=?base64?YSBi ?=", MCP_HEADER_MISMATCH},
        {"=?base64?=", MCP_HEADER_MISMATCH},
        {"a  b", MCP_HEADER_MISMATCH},
        {" ", MCP_HEADER_MISMATCH},
    };
    char to[5], why[100];

    (void)state;
    assert_null(mcp_header_value(NULL, to, sizeof(to)));
    assert_string_equal(mcp_header_value(" \t ", to, sizeof(to)), "");
    assert_string_equal(mcp_header_value("\tx y ", to, sizeof(to)), "x y");
    assert_string_equal(mcp_header_value("123456", to, sizeof(to)), "1234");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_int_equal(mcp_check_headers(message,
                                           &(struct mcp_headers){.version = MCP_MODERN,
                                                                 .method = " tools/call ",
                                                                 .name = rows[i].name},
                                           why, sizeof(why)),
                         rows[i].code);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_ranges),
        cmocka_unit_test(ids_of_events_are_two_numbers),
        cmocka_unit_test(blanks_around_values_do_not_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
