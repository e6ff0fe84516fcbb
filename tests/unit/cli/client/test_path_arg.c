/* test_path_arg.c - ID:PATH and host names, names from a box, names of datasets; the layout of
 * tables.
 */
#include <errno.h>
#include <string.h>

#include "unit.h"

#include "base/cleanup.h"
#include "cli/client/path_arg.h"
#include "cli/client/table.h"

static void expect_box(const char *word, const char *session, const char *path, bool ends_in_slash)
{
    struct path_arg path_arg;
    struct error err = {0};

    assert_int_equal(path_arg_parse(word, &path_arg, &err), 0);
    assert_true(path_arg.is_in_box);
    assert_string_equal(path_arg.session, session);
    assert_string_equal(path_arg.path, path);
    assert_int_equal(path_arg.ends_in_slash, ends_in_slash);
}

static void expect_host(const char *word)
{
    struct path_arg path_arg;
    struct error err = {0};

    assert_int_equal(path_arg_parse(word, &path_arg, &err), 0);
    assert_false(path_arg.is_in_box);
    assert_string_equal(path_arg.path, word);
}

static void test_words(void **state)
{
    struct path_arg path_arg;
    struct error err = {0};
    char longest[LIMIT_PATH_BYTES + 10] = "id:/";

    (void)state;
    expect_box("ab12:/tmp/a.csv", "ab12", "/tmp/a.csv", false);
    expect_box("ab12:a/b", "ab12", "/workspace/a/b", false);
    expect_box("ab12:", "ab12", "/workspace", false);
    expect_box("ab12:/tmp/", "ab12", "/tmp/", true);
    expect_box("ab12:/a:b", "ab12", "/a:b", false);
    expect_host("a.csv");
    expect_host("./a:b");
    expect_host("/x/a:b");
    expect_host(":a");
    expect_host("-");
    assert_int_equal(path_arg_parse("", &path_arg, &err), -EINVAL);
    memset(longest + 4, 'a', sizeof(longest) - 5);
    assert_int_equal(path_arg_parse(longest, &path_arg, &err), -ENAMETOOLONG);
    assert_int_equal(path_arg_parse(longest + 3, &path_arg, &err), -ENAMETOOLONG);
}

/* Beside -s NAME the word has the path alone. */
static void test_beside_a_session_option(void **state)
{
    static const char *const words[][2] = {
        {"/tmp/a", "/tmp/a"},   {":/tmp/a", "/tmp/a"},         {"a/b:c", "/workspace/a/b:c"},
        {":a", "/workspace/a"}, {"./a:b", "/workspace/./a:b"}, {"", "/workspace"},
    };
    struct path_arg path_arg;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        assert_int_equal(path_arg_parse_in("work", words[i][0], &path_arg, &err), 0);
        assert_true(path_arg.is_in_box);
        assert_string_equal(path_arg.session, "work");
        assert_string_equal(path_arg.path, words[i][1]);
    }
    assert_int_equal(path_arg_parse_in("work", "other:/tmp/a", &path_arg, &err), -EINVAL);
    assert_non_null(strstr(err.text, "both name a session"));
}

static void test_only_of_a_session(void **state)
{
    struct path_arg path_arg;
    struct error err = {0};

    (void)state;
    assert_int_equal(path_arg_parse_box("ab12", true, &path_arg, &err), 0);
    assert_string_equal(path_arg.session, "ab12");
    assert_string_equal(path_arg.path, "/workspace");
    assert_int_equal(path_arg_parse_box("ab12:x", false, &path_arg, &err), 0);
    assert_string_equal(path_arg.path, "/workspace/x");
    assert_int_equal(path_arg_parse_box("ab12", false, &path_arg, &err), -EINVAL);
    assert_int_equal(path_arg_parse_box("ab12:", false, &path_arg, &err),
                     -EINVAL); /* rm of everything */
    assert_int_equal(path_arg_parse_box("/tmp/x", true, &path_arg, &err), -EINVAL);
    assert_int_equal(path_arg_parse_box("", true, &path_arg, &err), -EINVAL);
}

static void test_base_and_join(void **state)
{
    char name[NAME_MAX + 1], path[LIMIT_PATH_BYTES + 1];
    struct error err = {0};

    (void)state;
    path_arg_base("/a/b/c.txt", name);
    assert_string_equal(name, "c.txt");
    path_arg_base("dir//", name);
    assert_string_equal(name, "dir");
    path_arg_base("/", name);
    assert_string_equal(name, "");
    assert_int_equal(path_arg_join(path, "/tmp", "x", &err), 0);
    assert_string_equal(path, "/tmp/x");
    assert_int_equal(path_arg_join(path, "/tmp/", "x", &err), 0);
    assert_string_equal(path, "/tmp/x");
}

static void test_names_that_lead_out(void **state)
{
    static const char *const good[] = {"a", "a/b", "...", "a/..b", ".hidden", "a b/c\nd"};
    static const char *const bad[] = {"",     "/", "/etc/passwd", "..",   "../x", "a/../b",
                                      "a/..", ".", "a/./b",       "a//b", "a/",   "./a"};
    char longest[NAME_MAX + 2];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_true(path_arg_name_is_safe(good[i]));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(path_arg_name_is_safe(bad[i]));
    memset(longest, 'a', sizeof(longest));
    longest[NAME_MAX + 1] = 0;
    assert_false(path_arg_name_is_safe(longest));
    longest[NAME_MAX] = 0;
    assert_true(path_arg_name_is_safe(longest));
}

static void test_datasets(void **state)
{
    char file[NAME_MAX + 1];

    (void)state;
    path_arg_dataset("sales 2024/q1=x", strlen("sales 2024/q1"), file);
    assert_string_equal(file, "sales_2024_q1.csv");
    path_arg_dataset("my/s.parquet", strlen("my/s.parquet"), file);
    assert_string_equal(file, "my_s.parquet");
}

static void test_columns_stand_in_line(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(4096);
    CLEANUP(table_free) struct table table;

    (void)state;
    table_begin(&table, (const char *const[]){"NAME", ">SIZE", "WHERE", NULL});
    table_cell(&table, "n\xc3\xa4me.csv");
    table_cell(&table, "7");
    table_cell(&table, "here");
    table_cell(&table, "a\x1b[31m\nb");
    table_cell(&table, "12345");
    table_cell(&table, NULL);
    assert_int_equal(table_print(&table, &text), 0);
    assert_string_equal(buf_text(&text), "NAME             SIZE  WHERE\n"
                                         "n\xc3\xa4me.csv            7  here\n"
                                         "a\\x1b[31m\\x0ab  12345  -\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_only_of_a_session),
        cmocka_unit_test(test_beside_a_session_option),
        cmocka_unit_test(test_base_and_join),
        cmocka_unit_test(test_names_that_lead_out),
        cmocka_unit_test(test_datasets),
        cmocka_unit_test(test_columns_stand_in_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
