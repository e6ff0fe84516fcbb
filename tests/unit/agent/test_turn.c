/* test_turn.c - what model servers send, put together into one answer. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "agent/turn.h"
#include "base/limits.h"

static int feed(struct turn *turn, const char *event, struct error *err)
{
    return turn_event(turn, event, strlen(event), err);
}

static void feed_all(struct turn *turn, const char *const *events)
{
    struct error err = {0};

    turn_init(turn);
    for (; *events; events++)
        assert_int_equal(feed(turn, *events, &err), 0);
}

#define DELTA(delta) "{\"choices\":[{\"index\":0,\"delta\":" delta "}]}"
#define CALL(rest) DELTA("{\"tool_calls\":[{" rest "}]}")

static void test_text_finish_and_usage(void **state)
{
    static const char *const events[] = {
        DELTA("{\"role\":\"assistant\",\"content\":\"\"}"),
        DELTA("{\"content\":\"a\"}"),
        DELTA("{\"content\":[{\"type\":\"text\",\"text\":\"b\"}],\"refusal\":null}"),
        "{\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}],\"usage\":null}",
        "{\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,"
        "\"prompt_tokens_details\":{\"cached_tokens\":2}}}",
        NULL};
    struct turn turn;

    (void)state;
    feed_all(&turn, events);
    assert_string_equal(buf_text(&turn.text), "ab");
    assert_int_equal(turn.finish, TURN_LENGTH);
    assert_int_equal(turn.usage.input, 7);
    assert_int_equal(turn.usage.cached, 2);
    assert_int_equal(turn.usage.output, 3);
    turn_free(&turn);
}

static void test_fragments_belong_to_the_call_of_their_index(void **state)
{
    static const char *const events[] = {
        CALL("\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}"),
        CALL("\"index\":1,\"id\":\"b\",\"function\":{\"name\":\"g\",\"arguments\":\"[\"}"),
        CALL("\"index\":0,\"function\":{\"arguments\":\"}\"}"),
        CALL("\"index\":1,\"function\":{\"arguments\":\"]\"}"), NULL};
    struct turn turn;

    (void)state;
    feed_all(&turn, events);
    assert_int_equal(turn.count, 2);
    assert_string_equal(turn.calls[0].id, "a");
    assert_string_equal(buf_text(&turn.calls[0].arguments), "{}");
    assert_string_equal(turn.calls[1].name, "g");
    assert_string_equal(buf_text(&turn.calls[1].arguments), "[]");
    turn_free(&turn);
}

static void test_calls_without_index_or_id(void **state)
{
    static const char *const events[] = {
        CALL("\"function\":{\"name\":\"f\",\"arguments\":\"{\"}"),
        CALL("\"function\":{\"arguments\":\"}\"}"),
        CALL("\"id\":\"\",\"function\":{\"name\":\"g\",\"arguments\":{\"a\":1}}"), NULL};
    struct turn turn;

    (void)state;
    feed_all(&turn, events);
    assert_int_equal(turn.count, 2);
    assert_string_equal(buf_text(&turn.calls[0].arguments), "{}");
    assert_string_equal(buf_text(&turn.calls[1].arguments), "{\"a\":1}");
    assert_true(strncmp(turn.calls[0].id, "call_", 5) == 0);
    assert_string_not_equal(turn.calls[0].id, turn.calls[1].id);
    turn_free(&turn);
}

static void test_each_call_may_have_index_0(void **state)
{
    static const char *const events[] = {
        CALL("\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}"),
        CALL("\"index\":0,\"id\":\"b\",\"function\":{\"name\":\"f\",\"arguments\":\"{\"}"),
        CALL("\"index\":0,\"function\":{\"arguments\":\"}\"}"), NULL};
    struct turn turn;

    (void)state;
    feed_all(&turn, events);
    assert_int_equal(turn.count, 2);
    assert_string_equal(buf_text(&turn.calls[1].arguments), "{}");
    turn_free(&turn);
}

static void test_what_is_no_event_is_an_error(void **state)
{
    static const struct {
        const char *text;
        int num;
    } rows[] = {
        {"", -EPROTO},
        {"{", -EPROTO},
        {"[]", -EPROTO},
        {"5", -EPROTO},
        {"{\"error\":{\"message\":\"no\"}}", -EREMOTEIO},
        {"{\"error\":\"no\"}", -EREMOTEIO},
        {"{\"object\":\"error\",\"message\":\"no\"}", -EREMOTEIO},
        {"{}", 0},
        {"{\"choices\":5}", 0},
        {"{\"choices\":[5]}", 0},
        {"{\"choices\":[{\"delta\":{\"tool_calls\":[5,{}]}}]}", 0},
        {"{\"error\":null,\"choices\":[]}", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct turn turn;
        struct error err = {0};

        turn_init(&turn);
        assert_int_equal(feed(&turn, rows[i].text, &err), rows[i].num);
        assert_true(rows[i].num == 0 || err.text[0]);
        turn_free(&turn);
    }
}

static void test_calls_have_a_maximum(void **state)
{
    struct turn turn;
    struct error err = {0};
    int r = 0;

    (void)state;
    turn_init(&turn);
    for (unsigned i = 0; i <= LIMIT_AGENT_CALLS && r == 0; i++)
        r = feed(&turn, CALL("\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}"), &err);
    assert_int_equal(r, -EFBIG);
    assert_int_equal(turn.count, LIMIT_AGENT_CALLS);
    turn_free(&turn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_finish_and_usage),
        cmocka_unit_test(test_fragments_belong_to_the_call_of_their_index),
        cmocka_unit_test(test_calls_without_index_or_id),
        cmocka_unit_test(test_each_call_may_have_index_0),
        cmocka_unit_test(test_what_is_no_event_is_an_error),
        cmocka_unit_test(test_calls_have_a_maximum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
