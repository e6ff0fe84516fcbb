/* test_image_name.c - what an image may be called, and what only looks like it. */
#include "unit.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "config/image_name.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void names(void **state)
{
    static const char *const rows[] = {
        "a",
        "bailey-sandbox:latest",
        "a--b/c__d/e.f_g",
        "library/python:3.11-slim_x.Y",
        "localhost/a",
        "LOCAL/a",
        "registry.example/team/sandbox:2",
        "registry.example:5000/a",
        "127.0.0.1:9/no-such-image:1",
        "a@sha256:" HEX,
        "host:1/a:t@sha256:" HEX,
        "sha256:" HEX,
        HEX,
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (!image_name_is_valid(rows[i]))
            fail_msg("'%s' was refused", rows[i]);
    }
}

static const char *const wrong[] = {
    "",
    "-v",
    "/",
    "/a",
    "a/",
    "a//b",
    ".",
    "..",
    "a/../b",
    "a/../../b?x=1",
    "../../containers",
    "a/./b",
    "a b",
    "a?x",
    "a#x",
    "a%2e",
    "a&b=c",
    "a;b",
    "a\nb",
    "a\\b",
    "A",
    "a/B",
    "a.",
    ".a",
    "a..b",
    "a-",
    "a_",
    "a___b",
    "a._b",
    "a:",
    ":a",
    "a:-b",
    "a:.b",
    "a:b:c",
    "a:b/",
    "a:b/c d",
    "host:/a",
    "host:x/a",
    "host:123456/a",
    "-host.x/a",
    "host-.x/a",
    "ho..st/a",
    "host:1:2/a",
    "a@",
    "a@sha256:",
    "a@sha256:abc",
    "a@sha512:" HEX,
    "a@sha256:" HEX "0",
    "@sha256:" HEX,
    "a@sha256:ABCDEF6789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
    "a@b@sha256:" HEX,
    "caf\xc3\xa9",
    "[::1]/a",
};

static void no_names(void **state)
{
    char text[LIMIT_IMAGE_NAME + 2];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        if (image_name_is_valid(wrong[i]))
            fail_msg("'%s' was taken", wrong[i]);
    }
    memset(text, 'a', sizeof(text));
    text[LIMIT_IMAGE_NAME + 1] = 0;
    assert_false(image_name_is_valid(text));
    text[LIMIT_IMAGE_NAME] = 0;
    assert_true(image_name_is_valid(text));
    text[1] = ':';
    assert_false(image_name_is_valid(text)); /* a tag has 128 at most */
    text[2 + 128] = 0;
    assert_true(image_name_is_valid(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names), cmocka_unit_test(no_names)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
