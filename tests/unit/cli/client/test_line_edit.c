/* test_line_edit.c - a line that is edited with keys, and its history in memory and in a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/history.h"
#include "cli/client/line_edit.h"

#define UP "\033[A"
#define DOWN "\033[B"
#define LEFT "\033[D"
#define HOME "\033[H"

static enum line_event type(struct line_edit *edit, const char *keys)
{
    enum line_event event = LINE_MORE;

    for (; *keys; keys++)
        event = line_edit_take(edit, *keys);
    return event;
}

static void three_lines(struct history *history)
{
    static const char *const lines[] = {"import os", "x = os.getcwd()", "print(x)"};
    struct error err = {0};

    assert_int_equal(history_open(history, NULL, &err), 0);
    for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
        assert_int_equal(history_add(history, lines[i], &err), 0);
}

static void test_keys(void **state)
{
    static const struct {
        const char *keys, *line;
        size_t at;
    } rows[] = {
        {"abc", "abc", 3},
        {"abc" LEFT "X", "abXc", 3},
        {"abc" HOME "X", "Xabc", 1},
        {"abc\001X\005Y", "XabcY", 5},
        {"abc" LEFT LEFT "\033[3~", "ac", 1},
        {"abc\177\177", "a", 1},
        {"one two\027", "one ", 4},
        {"one two\027\031\031", "one twotwo", 10},
        {"one two" HOME "\013", "", 0},
        {"one two" LEFT "\025", "o", 0},
        {"one two\033bX", "one Xtwo", 5},
        {"one two\001\033[1;5CX", "oneX two", 4},
        {"one two\001\033d", " two", 0},
        {"\303\244\344\275\240" LEFT "x", "\303\244x\344\275\240", 3},
        {"\303\244\177", "", 0},
        {"a\377\303z", "az", 2},       /* no UTF-8 */
        {"a\033[19~\033Ozb", "ab", 2}, /* keys that mean nothing here */
        {"a\033[99;99;99;99;99;99;99;99~b", "ab", 2},
        {"\t1", "    1", 5},
        {"\033[200~\tif \001x\033[201~\001y", "y\tif x", 1}, /* pasted text has no keys */
        {UP, "print(x)", 8},
        {UP UP, "x = os.getcwd()", 15},
        {UP UP UP UP, "import os", 9},
        {"new" UP UP DOWN DOWN, "new", 3},
        {UP "y" DOWN UP, "print(x)", 8},
        {"\022os", "x = os.getcwd()", 4},
        {"\022os\022", "import os", 7},
        {"\022os\022\022", "import os", 7},
        {"draft\022os\007", "draft", 5},
        {"\022prit\177nt\001#", "#print(x)", 1},
        {"\022nothing", "print(x)", 3},             /* the last one that had it */
        {"\022getc\033[D!", "x = os!.getcwd()", 7}, /* the search ends where the cursor is */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(history_free) struct history history;
        CLEANUP(line_edit_free) struct line_edit edit;

        three_lines(&history);
        line_edit_init(&edit, &history, KIB);
        assert_int_equal(type(&edit, rows[i].keys), LINE_MORE);
        if (strcmp(buf_text(&edit.line), rows[i].line) != 0 || edit.at != rows[i].at)
            fail_msg("row %zu: '%s' at %zu", i, buf_text(&edit.line), edit.at);
    }
}

static void test_ends_of_a_line(void **state)
{
    struct history history = {.fd = -1};
    CLEANUP(line_edit_free) struct line_edit edit;

    (void)state;
    line_edit_init(&edit, &history, 4);
    assert_int_equal(type(&edit, "\004"), LINE_END);
    assert_int_equal(type(&edit, "a\001\004"), LINE_MORE); /* it deletes */
    assert_string_equal(buf_text(&edit.line), "");
    assert_int_equal(type(&edit, "a\r"), LINE_DONE);
    assert_int_equal(type(&edit, "b\n"), LINE_DONE);
    assert_int_equal(type(&edit, "cd" UP DOWN "\020\016"), LINE_MORE); /* nothing to choose */
    assert_int_equal(type(&edit, "e"), LINE_TOO_LONG);
    assert_string_equal(buf_text(&edit.line), "abcd");
    line_edit_clear(&edit);
    assert_int_equal(type(&edit, "\022q\n"), LINE_DONE); /* out of a search too */
}

static void shown(struct line_edit *edit, size_t columns, const char *expected)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(4 * KIB);

    assert_int_equal(line_edit_show(edit, "> ", "", "", columns, &out), 0);
    assert_string_equal(buf_text(&out), expected);
}

static void test_what_is_shown(void **state)
{
    CLEANUP(history_free) struct history history;
    CLEANUP(line_edit_free) struct line_edit edit;

    (void)state;
    three_lines(&history);
    line_edit_init(&edit, &history, KIB);
    type(&edit, "abc");
    shown(&edit, 80, "\r> abc\033[K");
    type(&edit, LEFT LEFT);
    shown(&edit, 80, "\r> abc\033[K\033[2D");
    type(&edit, "\005defghijklmnop");
    shown(&edit, 12, "\r> hijklmnop\033[K"); /* nine columns and the cursor */
    type(&edit, "\001");
    shown(&edit, 12, "\r> abcdefghi\033[K\033[9D");
    line_edit_clear(&edit);
    type(&edit, "\344\275\240e\314\201" LEFT LEFT); /* two columns, and an accent of none */
    shown(&edit, 80, "\r> \344\275\240e\314\201\033[K\033[1D");
    line_edit_clear(&edit);
    type(&edit, "\022pri");
    shown(&edit, 80, "\r(search 'pri') print(x)\033[K\033[8D");
    assert_int_equal(line_edit_width("a\344\275\240\314\201", 6), 3);
}

static void test_the_file_is_private_and_bounded(void **state)
{
    char folder[] = "/tmp/history-XXXXXX", path[64], long_line[HISTORY_LINE_BYTES + 2];
    struct history history, second;
    struct error err = {0};
    struct stat status;

    (void)state;
    assert_non_null(mkdtemp(folder));
    str_format(path, sizeof(path), "%s/h", folder);
    assert_int_equal(history_open(&history, path, &err), 0);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    memset(long_line, 'x', sizeof(long_line) - 1);
    long_line[sizeof(long_line) - 1] = '\0';
    history_add(&history, "  ", &err);
    history_add(&history, long_line, &err);
    history_add(&history, "one", &err);
    history_add(&history, "one", &err);
    assert_int_equal(history.count, 1);
    assert_int_equal(history_open(&second, path, &err), 0); /* two prompts at a time */
    history_add(&second, "two", &err);
    for (int i = 0; i < HISTORY_LINES + 5; i++) {
        char line[16];

        str_format(line, sizeof(line), "line %d", i);
        assert_int_equal(history_add(&history, line, &err), 0);
    }
    assert_int_equal(history.count, HISTORY_LINES);
    assert_string_equal(history.lines[0], "line 5");
    history_free(&history);
    history_free(&second);
    chmod(path, 0644);
    assert_int_equal(history_open(&history, path, &err), 0);
    assert_int_equal(history.count, HISTORY_LINES);
    assert_string_equal(history.lines[HISTORY_LINES - 1], "line 1004");
    history_free(&history);
    assert_int_equal(stat(path, &status), 0); /* it was cut, and is private again */
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_true(status.st_size < HISTORY_LINES * 10);
    unlink(path);
    rmdir(folder);
}

static void test_a_path_that_is_no_file_is_an_error_and_works_in_memory(void **state)
{
    char folder[] = "/tmp/history-XXXXXX", path[64];
    CLEANUP(history_free) struct history history;
    struct error err = {0};

    (void)state;
    assert_non_null(mkdtemp(folder));
    str_format(path, sizeof(path), "%s/link", folder);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_true(history_open(&history, path, &err) < 0);
    assert_non_null(strstr(err.text, "history of the prompt"));
    assert_int_equal(history_add(&history, "kept", &err), 0);
    assert_string_equal(history.lines[0], "kept");
    history_free(&history);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_true(history_open(&history, path, &err) < 0);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_ends_of_a_line),
        cmocka_unit_test(test_what_is_shown),
        cmocka_unit_test(test_the_file_is_private_and_bounded),
        cmocka_unit_test(test_a_path_that_is_no_file_is_an_error_and_works_in_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
