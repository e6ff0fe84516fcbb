/* test_clean.c - pictures and links that a reader cannot open, out of text in any pieces. */
#include "unit.h"

#include <string.h>

#include "api/chat/clean.h"
#include "base/cleanup.h"

static void expect(const char *text, const char *wanted)
{
    for (size_t step = 1; step < 50; step += 7) {
        CLEANUP(buf_free) struct buf to = BUF_INIT(100000);
        struct clean clean = CLEAN_INIT;
        size_t length = strlen(text);

        for (size_t at = 0; at < length; at += step)
            assert_int_equal(clean_feed(&clean, text + at, MIN(step, length - at), false, &to), 0);
        assert_int_equal(clean_feed(&clean, "", 0, true, &to), 0);
        assert_string_equal(buf_text(&to), wanted);
        clean_free(&clean);
    }
}

static void test_links_to_files_of_the_sandbox_keep_their_words(void **state)
{
    (void)state;
    expect("See [the plot](sandbox:/mnt/data/p.png).", "See the plot.");
    expect("[a](/mnt/data/a) [b](/tmp/output/b.csv) [c](c.csv) [d](file:///x) [e](attachment:e)",
           "a b c d e");
    expect("[plot (1)](sandbox:/mnt/data/plot(1).png)!", "plot (1)!");
    expect("[[a]](b)", "[a]");
}

static void test_pictures_are_removed(void **state)
{
    (void)state;
    expect("Here: ![plot](sandbox:/p.png) done", "Here:  done");
    expect("![a](https://example.org/a.png)", "");
    expect("[![a](b.png)](c)", "");
}

static void test_what_can_be_opened_stays(void **state)
{
    (void)state;
    expect("[docs](https://example.org) [m](mailto:a@b) [t](#top) [h](HTTP://x)",
           "[docs](https://example.org) [m](mailto:a@b) [t](#top) [h](HTTP://x)");
    expect("a[0] and (b) and [c] (d) and !e and ![f]", "a[0] and (b) and [c] (d) and !e and ![f]");
    expect("[x", "[x");
    expect("\\[a](b)", "\\[a](b)");
}

static void test_code_stays(void **state)
{
    (void)state;
    expect("`f[0](x)` [a](b)", "`f[0](x)` a");
    expect("```\n![i](y)\n\n[a](b)\n```\n[a](b)", "```\n![i](y)\n\n[a](b)\n```\na");
    expect("a ` alone\n\n[a](b)", "a ` alone\n\na");
}

static void test_what_never_ends_is_shown(void **state)
{
    static char text[3 * CLEAN_HELD];
    CLEANUP(buf_free) struct buf to = BUF_INIT(100000);
    struct clean clean = CLEAN_INIT;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[0] = '[';
    assert_int_equal(clean_feed(&clean, text, sizeof(text) - 1, false, &to), 0);
    assert_int_equal(to.length, sizeof(text) - 1);
    clean_free(&clean);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_links_to_files_of_the_sandbox_keep_their_words),
        cmocka_unit_test(test_pictures_are_removed),
        cmocka_unit_test(test_what_can_be_opened_stays),
        cmocka_unit_test(test_code_stays),
        cmocka_unit_test(test_what_never_ends_is_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
