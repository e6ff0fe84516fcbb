/* test_file_path.c - names of files in a box as text, what errors mean, and counting for edits. */
#include <errno.h>
#include <string.h>

#include "unit.h"

#include "base/cleanup.h"
#include "tool/file_path.h"

static void test_paths_are_normalised(void **state)
{
    static const struct {
        const char *path, *expected;
    } rows[] = {
        {"/tmp/x", "/tmp/x"},
        {"//tmp///x/", "/tmp/x"},
        {"/tmp/./a/../b", "/tmp/b"},
        {"/../../tmp/x", "/tmp/x"},
        {"/tmp/..", "/"},
        {"/tmp/...", "/tmp/..."},
        {"/tmp/a/b/../../..", "/"},
        {"/tmp/\xff\n", "/tmp/\xff\n"},
    };
    char path[LIMIT_PATH_BYTES + 1];
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_int_equal(file_path_normalise(rows[i].path, strlen(rows[i].path), path, &err), 0);
        assert_string_equal(path, rows[i].expected);
    }
}

static void test_tools_write_in_two_folders_only(void **state)
{
    static const char *const bad[] = {
        "/home/user/x",
        "/etc/passwd",
        "/tmp",
        "/workspace",
        "/tmp/../etc/passwd",
        "/tmpx/y",
        "/workspace/.",
        "/workspace2/x",
        "/tmp/../home/user/x",
        "x",
        "tmp/x",
        "./tmp/x",
        "/",
        "/tmp/a/../..",
    };
    static const char *const good[] = {"/tmp/x", "/workspace/a/b", "/etc/../tmp/x", "/tmp//x"};
    char path[LIMIT_PATH_BYTES + 1];
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_true(file_path_for_tool(bad[i], strlen(bad[i]), path, &err) < 0);
        assert_string_equal(err.text, "Invalid path: must be /tmp/* or /workspace/*");
        assert_string_equal(err.code, "path_invalid");
    }
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_int_equal(file_path_for_tool(good[i], strlen(good[i]), path, &err), 0);
    assert_int_equal(file_path_for_tool("/tmp/x/", 7, path, &err), -EISDIR);
}

static void test_what_is_no_path(void **state)
{
    char path[LIMIT_PATH_BYTES + 1], longest[LIMIT_PATH_BYTES + 2];
    struct error err;

    (void)state;
    assert_true(file_path_for_tool("", 0, path, &err) < 0);
    assert_non_null(strstr(err.text, "empty"));
    assert_true(file_path_for_tool("/tmp/a\0b", 8, path, &err) < 0);
    assert_non_null(strstr(err.text, "NUL"));
    memset(longest, 'x', sizeof(longest));
    memcpy(longest, "/tmp/", 5);
    assert_int_equal(file_path_for_tool(longest, sizeof(longest), path, &err), -ENAMETOOLONG);
    longest[5 + 256] = '\0';
    assert_int_equal(file_path_for_tool(longest, 5 + 256, path, &err), -ENAMETOOLONG);
    longest[5 + 255] = '\0';
    assert_int_equal(file_path_for_tool(longest, 5 + 255, path, &err), 0);
}

static void test_rest_names_three_roots(void **state)
{
    static const char *const good[] = {"/tmp", "/workspace/", "/home/user", "/home/user/.x"};
    static const char *const bad[] = {"/home", "/home/users", "/", "/tmp/..", "relative", "/proc"};
    char path[LIMIT_PATH_BYTES + 1];
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_int_equal(file_path_for_rest(good[i], strlen(good[i]), path, &err), 0);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        assert_true(file_path_for_rest(bad[i], strlen(bad[i]), path, &err) < 0);
        assert_string_equal(err.code, "path_invalid");
    }
}

static void test_errors_have_codes(void **state)
{
    static const struct {
        int num;
        const char *code;
    } rows[] = {
        {ENOENT, "path_not_found"},      {EISDIR, "path_is_folder"}, {ENOTDIR, "path_not_folder"},
        {EXDEV, "path_refused"},         {EACCES, "path_refused"},   {ELOOP, "path_refused"},
        {EPERM, "path_refused"},         {EROFS, "read_only"},       {EEXIST, "path_exists"},
        {ENOTEMPTY, "folder_not_empty"}, {ENOSPC, "disk_full"},      {EDQUOT, "disk_full"},
        {ENAMETOOLONG, "path_invalid"},  {EINVAL, "path_invalid"},   {EIO, "engine"},
    };
    struct error err = {0}, told;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        error_set(&err, -rows[i].num, ERROR_ENGINE, "x");
        file_error(&err, "/tmp/a", &told);
        assert_string_equal(told.code, rows[i].code);
        assert_int_equal(told.num, -rows[i].num);
        assert_non_null(strstr(told.text, "'/tmp/a'"));
    }
    error_set(&err, -ENOENT, ERROR_SESSION_ENDED, "it ended");
    file_error(&err, "/tmp/a", &told);
    assert_string_equal(told.code, "session_ended");
    assert_string_equal(told.text, "it ended");
}

static void test_occurrences_do_not_overlap(void **state)
{
    static const struct {
        const char *data;
        size_t length;
        const char *what;
        size_t what_length, count, first;
    } rows[] = {
        {"aaaa", 4, "aa", 2, 2, 0},     {"aaa", 3, "aa", 2, 1, 0},
        {"abc", 3, "c", 1, 1, 2},       {"abc", 3, "abc", 3, 1, 0},
        {"abc", 3, "abcd", 4, 0, 0},    {"", 0, "a", 1, 0, 0},
        {"a\0b\0b", 5, "\0b", 2, 2, 1}, {"\xff\xfe\xff", 3, "\xfe", 1, 1, 1},
        {"x\ny\nx", 5, "\nx", 2, 1, 3}, {"abc", 3, "", 0, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        size_t first = 0;

        assert_int_equal(
            bytes_count(rows[i].data, rows[i].length, rows[i].what, rows[i].what_length, &first),
            rows[i].count);
        assert_int_equal(first, rows[i].first);
    }
}

/* The work of a count has a bound: a file of one letter and the letter. */
static void test_a_count_ends(void **state)
{
    static char text[2 * BYTES_COUNT_MAX];
    size_t first = 1;

    (void)state;
    memset(text, 'x', sizeof(text));
    assert_int_equal(bytes_count(text, sizeof(text), "x", 1, &first), BYTES_COUNT_MAX + 1);
    assert_int_equal(first, 0);
    assert_int_equal(bytes_count(text, BYTES_COUNT_MAX, "x", 1, &first), BYTES_COUNT_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_are_normalised),
        cmocka_unit_test(test_tools_write_in_two_folders_only),
        cmocka_unit_test(test_what_is_no_path),
        cmocka_unit_test(test_rest_names_three_roots),
        cmocka_unit_test(test_errors_have_codes),
        cmocka_unit_test(test_occurrences_do_not_overlap),
        cmocka_unit_test(test_a_count_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
