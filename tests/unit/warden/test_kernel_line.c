/* test_kernel_line.c - what a kernel says, in any pieces, cut into events and ends. */
#include "unit.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "warden/kernel_line.h"

struct heard {
    char events[512];
    char ends[256]; /* "2:0 " for each; "x2:0 " for an exit */
};

static void hear(struct heard *heard, const struct kernel_word *word)
{
    size_t have = strlen(heard->ends);

    if (word->kind == KERNEL_EVENT)
        strncat(heard->events, word->data, word->length);
    else if (word->kind != KERNEL_NOTHING)
        snprintf(heard->ends + have, sizeof(heard->ends) - have, "%s%u:%d ",
                 word->kind == KERNEL_EXIT ? "x" : "", word->id, word->status);
}

static struct heard feed(const char *text, size_t piece)
{
    struct heard heard = {0};
    struct kernel_line line = {0};

    for (size_t at = 0, length = strlen(text); at < length;) {
        struct kernel_word word;
        size_t part = piece < length - at ? piece : length - at;
        size_t taken = kernel_line_feed(&line, text + at, part, &word);

        assert_in_range(taken, 1, part);
        hear(&heard, &word);
        at += taken;
    }
    return heard;
}

static void check(const char *text, const char *events, const char *ends)
{
    for (size_t piece = 1; piece < 80; piece++) {
        struct heard heard = feed(text, piece);

        assert_string_equal(heard.events, events);
        assert_string_equal(heard.ends, ends);
    }
}

static void test_words(void **state)
{
    (void)state;
    check("{\"a\": 1}\nend 2 0\n{}\n{b}\nend 4294967295 1\n", "{\"a\": 1}\n{}\n{b}\n",
          "2:0 4294967295:1 ");
    check("end 00007 1\n", "", "7:1 ");
    check("exit 2 0\nexit 4294967295 255\nend 3 1\n", "", "x2:0 x4294967295:255 3:1 ");
    check("{never ended", "{never ended", "");
    check("end 2 0", "", ""); /* it has to be ended itself */
}

static void test_nonsense(void **state)
{
    (void)state;
    check("\n\n \nend\nend \nend 2\nend 2 \nend 2 2\nend 2 10\nend 2 0 \nend  2 0\n end 2 0\n"
          "end 2 0\r\nEnd 2 0\nend -2 0\nend +2 0\nend 0x2 0\nend 2 -0\nend 4294967296 0\n"
          "end 18446744073709551618 0\nend 2,0\nend2 0\nends 2 0\nend 2 0 0\n[{}]\n\"{\"\n",
          "", "");
    check("end 00000000000000000000000000000002 0\nend 3 0\n", "", "3:0 "); /* too long, passed */
    check("exit\nexit \nexit 2\nexit 2 256\nexit 2 -1\nexi 2 0\nexit2 0\nexits 2 0\nexit 2 0 0\n",
          "", "");
    check("x end 2 0\n{ end 2 0\n", "{ end 2 0\n", "");
}

static void test_nul_and_high_bytes(void **state)
{
    struct kernel_line line = {0};
    struct kernel_word word;

    (void)state;
    assert_int_equal(kernel_line_feed(&line, "end 2\0 0\n", 9, &word), 9);
    assert_int_equal(word.kind, KERNEL_NOTHING);
    assert_int_equal(kernel_line_feed(&line, "{\0\xff\n{", 5, &word), 4);
    assert_int_equal(word.kind, KERNEL_EVENT);
    assert_int_equal(word.length, 4);
}

static void test_cut(void **state)
{
    struct kernel_line line = {0};
    struct kernel_word word;

    (void)state;
    kernel_line_cut(&line); /* between lines it does nothing */
    kernel_line_feed(&line, "{\"half", 6, &word);
    assert_int_equal(word.kind, KERNEL_EVENT);
    kernel_line_cut(&line);
    assert_int_equal(kernel_line_feed(&line, "\": 1}\nend 2 0\n", 14, &word), 6);
    assert_int_equal(word.kind, KERNEL_NOTHING);
    assert_int_equal(kernel_line_feed(&line, "end 2 0\n", 8, &word), 8);
    assert_int_equal(word.kind, KERNEL_END);
    kernel_line_feed(&line, "end 2", 5, &word);
    kernel_line_cut(&line);
    kernel_line_feed(&line, " 0\n", 3, &word);
    assert_int_equal(word.kind, KERNEL_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_nul_and_high_bytes),
        cmocka_unit_test(test_cut),
    };

    return cmocka_run_group_tests_name("warden/kernel_line", tests, NULL, NULL);
}
