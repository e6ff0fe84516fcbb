/* test_json.c - src/model/json.c and json_write.c: bounds, places of errors; fuzz_json.c compares
 * with jansson. */
#include "unit.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "model/json.h"
#include "model/text.h"

static int number_of(const char *text, size_t length)
{
    struct json_problem problem;
    json_t *json = json_parse(text, length, JSON_DECODE_ANY, &problem);

    json_decref(json);
    return problem.num;
}

static void test_depth(void **state)
{
    char deep[2 * LIMIT_JSON_DEPTH + 2];

    (void)state;
    memset(deep, '[', sizeof(deep));
    memset(deep + LIMIT_JSON_DEPTH, ']', LIMIT_JSON_DEPTH);
    assert_int_equal(number_of(deep, 2 * LIMIT_JSON_DEPTH), 0);
    memset(deep, '[', sizeof(deep));
    assert_int_equal(number_of(deep, LIMIT_JSON_DEPTH), -EINVAL);
    assert_int_equal(number_of(deep, LIMIT_JSON_DEPTH + 1), -E2BIG);
    assert_int_equal(number_of("\"[[[\\\"[[\"", 9), 0);
}

/* "[", then `piece` `count` times, then "0]" */
static struct buf many(const char *piece, size_t count)
{
    struct buf text = BUF_INIT(256 * MIB);

    assert_int_equal(buf_append_text(&text, "["), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(buf_append_text(&text, piece), 0);
    assert_int_equal(buf_append_text(&text, "0]"), 0);
    return text;
}

/* Three bytes of a request would be hundreds of ours. */
static void test_many_values(void **state)
{
    static const struct {
        const char *piece;
        size_t fit, too_many;
    } rows[] = {
        {"{},", 50000, 60000},     {"[],", 100000, 150000},      {"0,", 200000, 300000},
        {"\"\",", 200000, 300000}, {"{\"a\":0},", 25000, 40000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf text = many(rows[i].piece, rows[i].fit);

        assert_int_equal(number_of(text.data, text.length), 0);
        buf_free(&text);
        text = many(rows[i].piece, rows[i].too_many);
        assert_int_equal(number_of(text.data, text.length), -EFBIG);
        buf_free(&text);
    }
}

/* Text is bounded by the length of the document, and costs no more than that. */
static void test_long_text(void **state)
{
    struct buf text = BUF_INIT(16 * MIB);

    (void)state;
    buf_append_text(&text, "\"");
    while (text.length < 8 * MIB)
        buf_append_text(&text, "0123456789abcdef\\u00e9\xc3\xa9");
    buf_append_text(&text, "\"");
    assert_int_equal(number_of(text.data, text.length), 0);
    buf_free(&text);
}

static void test_together(void **state)
{
    struct buf text = many("{},", 40000);
    size_t left = LIMIT_JSON_STRUCTURE;
    struct json_problem problem;
    json_t *first = json_parse_within(text.data, text.length, 0, &left, &problem);
    size_t after = left;

    (void)state;
    assert_non_null(first);
    assert_true(after < LIMIT_JSON_STRUCTURE);
    assert_null(json_parse_within(text.data, text.length, 0, &left, &problem));
    assert_int_equal(problem.num, -EFBIG);
    assert_int_equal(left, after);
    json_decref(first);
    buf_free(&text);
}

static void test_place(void **state)
{
    struct json_problem problem;

    (void)state;
    assert_null(json_parse("{\n \"\xc3\xa9\": x}", 11, 0, &problem));
    assert_int_equal(problem.num, -EINVAL);
    assert_int_equal(problem.line, 2);
    assert_int_equal(problem.column, 7);
    assert_int_equal(problem.position, 9);
    assert_string_equal(problem.text, "invalid token near 'x'");
    assert_null(json_parse("1", 1, 0, &problem));
    assert_string_equal(problem.text, "'[' or '{' expected near '1'");
    assert_null(json_parse("[1", 2, 0, &problem));
    assert_string_equal(problem.text, "']' expected near end of file");
    assert_null(json_parse("{\"a\":1,\"a\":2}", 13, JSON_REJECT_DUPLICATES, NULL));
}

static void test_maximum(void **state)
{
    json_t *json = json_pack("{s:s}", "a", "0123456789");
    struct buf text = BUF_INIT(12);

    (void)state;
    assert_int_equal(text_of_json(json, JSON_COMPACT, &text), -EFBIG);
    text.length = 0;
    text.maximum = 100;
    assert_int_equal(text_of_json(json, JSON_COMPACT, &text), 0);
    assert_string_equal(buf_text(&text), "{\"a\":\"0123456789\"}");
    buf_free(&text);
    json_decref(json);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_depth),     cmocka_unit_test(test_many_values),
        cmocka_unit_test(test_long_text), cmocka_unit_test(test_together),
        cmocka_unit_test(test_place),     cmocka_unit_test(test_maximum),
    };

    return cmocka_run_group_tests_name("model/json", tests, NULL, NULL);
}
