/* test_pull.c - how far an image is that comes, from lines that may be anybody's. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "runtime/docker/docker_private.h"

static void note(struct pull *pull, const char *line)
{
    json_t *json = json_loads(line, 0, NULL);

    assert_non_null(json);
    pull_note(pull, json);
    json_decref(json);
}

static void assert_words(const struct pull *pull, const char *wanted)
{
    char words[DOCKER_PULL_WORDS];

    pull_words(pull, words, sizeof(words));
    assert_string_equal(words, wanted);
}

static void test_an_image_comes(void **state)
{
    struct pull pull = {0};

    (void)state;
    assert_words(&pull, "asking the registry");
    note(&pull, "{\"status\":\"Pulling from team/bare\",\"id\":\"1\"}");
    assert_words(&pull, "asking the registry");
    note(&pull, "{\"status\":\"Already exists\",\"id\":\"a\"}");
    note(&pull, "{\"status\":\"Pulling fs layer\",\"progressDetail\":{},\"id\":\"b\"}");
    assert_words(&pull, "0.0 of 0.0 MB, 1 of 2 layers");
    note(&pull, "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":2500000,"
                "\"total\":12345678},\"id\":\"b\"}");
    assert_words(&pull, "2.5 of 12.3 MB, 1 of 2 layers");
    note(&pull, "{\"status\":\"Download complete\",\"progressDetail\":{},\"id\":\"b\"}");
    assert_words(&pull, "12.3 of 12.3 MB, 1 of 2 layers");
    note(&pull, "{\"status\":\"Extracting\",\"progressDetail\":{\"current\":5,\"total\":12345678},"
                "\"id\":\"b\"}");
    assert_words(&pull, "12.3 of 12.3 MB, 1 of 2 layers");
    note(&pull, "{\"status\":\"Pull complete\",\"progressDetail\":{},\"id\":\"b\"}");
    note(&pull, "{\"status\":\"Digest: sha256:0\"}");
    assert_words(&pull, "12.3 of 12.3 MB, 2 of 2 layers");
    assert_string_equal(pull.problem, "");
}

static void test_it_fails(void **state)
{
    struct pull pull = {0};

    (void)state;
    note(&pull, "{\"errorDetail\":{\"message\":\"m\"},\"error\":\"unexpected EOF\"}");
    assert_string_equal(pull.problem, "unexpected EOF");
    assert_words(&pull, "asking the registry");
}

static void test_lines_that_make_no_sense(void **state)
{
    static const char *const lines[] = {
        "{}",
        "{\"status\":7,\"id\":[],\"error\":{}}",
        "{\"status\":\"Downloading\"}",
        "{\"status\":\"Downloading\",\"id\":\"x\",\"progressDetail\":7}",
        "{\"status\":\"Extracting\",\"id\":\"x\",\"progressDetail\":{\"current\":-1,\"total\":-9}}",
        "{\"status\":\"Downloading\",\"id\":\"0123456789012345678901234567890123456789\"}",
    };
    struct pull pull = {0};
    char line[160], words[DOCKER_PULL_WORDS];

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        note(&pull, lines[i]);
    for (unsigned i = 0; i < 3 * LIMIT_DOCKER_LAYERS; i++) {
        str_format(line, sizeof(line),
                   "{\"status\":\"Downloading\",\"id\":\"%u\",\"progressDetail\":"
                   "{\"current\":9223372036854775807,\"total\":1}}",
                   i);
        note(&pull, line);
    }
    assert_int_equal(pull.layer_count, LIMIT_DOCKER_LAYERS);
    pull_words(&pull, words, sizeof(words));
    assert_non_null(strstr(words, " MB, 0 of 128 layers"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_image_comes),
        cmocka_unit_test(test_it_fails),
        cmocka_unit_test(test_lines_that_make_no_sense),
    };

    return cmocka_run_group_tests_name("runtime/docker pull", tests, NULL, NULL);
}
