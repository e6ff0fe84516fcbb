/* test_yaml.c - what YAML becomes in JSON, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "config/config.h"

static void becomes(const char *yaml, const char *expected)
{
    struct error err = {0};
    json_t *tree = NULL;
    char *text;

    if (config_yaml_parse(yaml, strlen(yaml), "f", &tree, &err) < 0)
        fail_msg("%s: %s", yaml, err.text);
    text = json_dumps(tree, JSON_ENCODE_ANY | JSON_COMPACT);
    assert_string_equal(text, expected);
    free(text);
    json_decref(tree);
}

static void fails(const char *yaml, size_t length, const char *expected)
{
    struct error err = {0};
    json_t *tree = NULL;

    assert_true(config_yaml_parse(yaml, length, "f", &tree, &err) < 0);
    assert_null(tree);
    assert_ptr_equal(err.code, ERROR_BAD_CONFIG);
    if (!strstr(err.text, expected))
        fail_msg("'%s' is not in '%s'", expected, err.text);
}

static void trees(void **state)
{
    (void)state;
    becomes("", "null");
    becomes("# only a comment\n", "null");
    becomes("---\n", "null");
    becomes("a: 1\nb:\n  - x\n  - {c: d}\n  - [1, [2]]\ne: {}\nf: []\n",
            "{\"a\":1,\"b\":[\"x\",{\"c\":\"d\"},[1,[2]]],\"e\":{},\"f\":[]}");
    becomes("%YAML 1.1\n--- \na: b\n...\n", "{\"a\":\"b\"}");
    becomes("a: |\n  two\n  lines\nb: >-\n  one\n  line\n",
            "{\"a\":\"two\\nlines\\n\",\"b\":\"one line\"}");
    becomes("1: a\ntrue: b\n", "{\"1\":\"a\",\"true\":\"b\"}");
    becomes("\xef\xbb\xbf"
            "a: b",
            "{\"a\":\"b\"}");
}

static void scalars(void **state)
{
    (void)state;
    becomes("[null, Null, NULL, ~, ]", "[null,null,null,null]");
    becomes("[true, True, TRUE, false, False, FALSE]", "[true,true,true,false,false,false]");
    becomes("[yes, no, on, tRue, y]", "[\"yes\",\"no\",\"on\",\"tRue\",\"y\"]");
    becomes("[0, 7, -12, 9223372036854775807, -9223372036854775808]",
            "[0,7,-12,9223372036854775807,-9223372036854775808]");
    becomes("[012, 0x10, 0o7, +1, 1_000, 1:30, 9223372036854775808]",
            "[\"012\",\"0x10\",\"0o7\",\"+1\",\"1_000\",\"1:30\",\"9223372036854775808\"]");
    becomes("[0.5, -1.5, 1e3, 25e-2]", "[0.5,-1.5,1000.0,0.25]");
    becomes("[.5, 1., .inf, -.inf, .nan, 1e999, inf, nan, 0x1p3, 1e, 00.5, 1.5.2]",
            "[\".5\",\"1.\",\".inf\",\"-.inf\",\".nan\",\"1e999\",\"inf\",\"nan\",\"0x1p3\",\"1e\","
            "\"00.5\",\"1.5.2\"]");
    becomes("['1', \"true\", '', \"null\"]", "[\"1\",\"true\",\"\",\"null\"]");
    becomes("\"\\u00fc\"", "\"\xc3\xbc\"");
}

static void refusals(void **state)
{
    static const struct {
        const char *yaml;
        const char *expected;
    } rows[] = {
        {"a: &x 1\n", "f:1: anchors"},
        {"a: &x [1]\n", "f:1: anchors"},
        {"&x a: 1\n", "anchors"},
        {"b: 1\na: *x\n", "f:2: aliases"},
        {"a: !!str 1\n", "f:1: tags"},
        {"a: !x [1]\n", "tags"},
        {"a: ! x\n", "tags"},
        {"a: 1\nb: 2\na: 3\n", "f:3: duplicate key 'a'"},
        {"{a: 1, 'a': 2}", "duplicate key 'a'"},
        {"a: 1\n--- \nb: 2\n", "f:2: only one document"},
        {"? [a]\n: b\n", "f:1: a key must be"},
        {"{{a: b}: c}", "a key must be"},
        {"? \n: b\n", "a key is empty"},
        {"a: \"x\\0y\"\n", "NUL"},
        {"\"a\\0\": 1\n", "NUL"},
        {"a: [1\n", "f:2: "},
        {"a: b: c\n", "f:1: mapping values"},
        {"\ta: b\n", "f:1: "},
        {"a: \xff\n", "f: byte 3: "},
        {"a: \x01\n", "f: byte 3: "},
        {"\"\\uD800\"", "f:1: "},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        fails(rows[i].yaml, strlen(rows[i].yaml), rows[i].expected);
    fails("a\0b", 3, "f: byte 1: ");
}

static void depth_has_a_ceiling(void **state)
{
    char yaml[1024];

    (void)state;
    memset(yaml, '[', 64);
    memset(yaml + 64, ']', 64);
    yaml[128] = '\0';
    becomes(yaml, "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
                  "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]");
    memset(yaml, '[', 65);
    fails(yaml, 65, "deeper than 64");
}

static void size_has_a_ceiling(void **state)
{
    size_t length = LIMIT_CONFIG_BYTES + 1;
    char *yaml = malloc(length);

    (void)state;
    assert_non_null(yaml);
    memset(yaml, '#', length);
    fails(yaml, length, "f: larger than 1024 KB");
    free(yaml);
}

/* Each prefix of a document is parsed or refused, and nothing is lost either way (sanitizers look).
 */
static void every_prefix(void **state)
{
    static const char yaml[] = "a: {b: [1, \"x\", {c: 'd'}], e: ~}\nf:\n  - g: |\n      h\n  - i\n";

    (void)state;
    for (size_t length = 0; length < sizeof(yaml); length++) {
        struct error err = {0};
        json_t *tree = NULL;
        int r = config_yaml_parse(yaml, length, "f", &tree, &err);

        assert_true(r == 0 ? tree != NULL : tree == NULL && err.text[0]);
        json_decref(tree);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees),
        cmocka_unit_test(scalars),
        cmocka_unit_test(refusals),
        cmocka_unit_test(depth_has_a_ceiling),
        cmocka_unit_test(size_has_a_ceiling),
        cmocka_unit_test(every_prefix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
