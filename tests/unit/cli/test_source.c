/* test_source.c - where code comes from, and every way it can be wrong. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/source.h"
#include "config/config.h"

static char folder[64];

static int enter_folder(void **state)
{
    (void)state;
    str_copy(folder, sizeof(folder), "/tmp/test_source_XXXXXX");
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    static const char *const names[] = {"a.py", "empty.py", "nul.py", "large.py"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        unlink(names[i]);
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

static void write_file(const char *name, const char *data, size_t length)
{
    CLEANUP(fd_closep) int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, length), 0);
}

static void expect_refused(const char *path, const char *code, const char *mention)
{
    struct source source = {0};
    struct error err = {0};

    assert_true(source_read(&source, path, &err) < 0);
    assert_string_equal(err.code, code);
    if (!strstr(err.text, mention))
        fail_msg("'%s' does not mention '%s'", err.text, mention);
    source_free(&source);
}

static void test_a_file(void **state)
{
    struct source source;
    struct error err = {0};

    (void)state;
    write_file("a.py", "print(1)\n", 9);
    assert_int_equal(source_read(&source, "./a.py", &err), 0);
    assert_int_equal(source.code.length, 9);
    assert_string_equal(buf_text(&source.code), "print(1)\n");
    assert_string_equal(source.name, "a.py");
    source_free(&source);
}

static void test_a_pipe_has_no_name(void **state)
{
    struct source source;
    struct error err = {0};
    char path[64];
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fd_write_all(ends[1], "print(2)", 8), 0);
    close(ends[1]);
    str_format(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
    assert_int_equal(source_read(&source, path, &err), 0);
    assert_string_equal(buf_text(&source.code), "print(2)");
    assert_null(source.name);
    source_free(&source);
    close(ends[0]);
}

static void test_what_is_no_source(void **state)
{
    CLEANUP(freep) char *large = malloc(LIMIT_CODE_BYTES + 1);

    (void)state;
    assert_non_null(large);
    memset(large, 'x', LIMIT_CODE_BYTES + 1);
    write_file("empty.py", " \n\t\n", 4);
    write_file("nul.py", "a\0b", 3);
    write_file("large.py", large, LIMIT_CODE_BYTES + 1);
    expect_refused("absent.py", "not_found", "absent.py");
    expect_refused("", "not_found", "no file");
    expect_refused("a.py/x", "not_found", "a.py/x");
    expect_refused(".", "bad_input", "folder");
    expect_refused("/dev/null", "bad_input", "neither a file nor a pipe");
    expect_refused("empty.py", "bad_input", "nothing to run");
    expect_refused("nul.py", "bad_input", "NUL byte at offset 1");
    expect_refused("large.py", "too_large", "5 MB");
}

static void test_exactly_the_limit_is_allowed(void **state)
{
    CLEANUP(freep) char *large = malloc(LIMIT_CODE_BYTES);
    struct source source;
    struct error err = {0};

    (void)state;
    assert_non_null(large);
    memset(large, 'x', LIMIT_CODE_BYTES);
    write_file("large.py", large, LIMIT_CODE_BYTES);
    assert_int_equal(source_read(&source, "large.py", &err), 0);
    assert_int_equal(source.code.length, LIMIT_CODE_BYTES);
    source_free(&source);
}

static void test_an_unreadable_file(void **state)
{
    bool is_root = geteuid() == 0;

    (void)state;
    write_file("a.py", "x", 1);
    assert_int_equal(chmod("a.py", 0), 0);
    /* Root reads every file: be somebody else for a moment. */
    assert_int_equal(chmod(folder, 0711), 0);
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    expect_refused("a.py", "bad_input", "this user may not read");
    if (is_root)
        assert_int_equal(seteuid(0), 0);
}

static void test_code_from_an_argument(void **state)
{
    struct source source;
    struct error err = {0};

    (void)state;
    assert_int_equal(source_from_text(&source, "print(1)", &err), 0);
    assert_string_equal(buf_text(&source.code), "print(1)");
    assert_null(source.name);
    source_free(&source);
    assert_true(source_from_text(&source, "", &err) < 0);
    assert_non_null(strstr(err.text, "nothing to run"));
    source_free(&source);
}

static void test_the_language(void **state)
{
    char *languages[] = {(char *)"python", NULL};
    struct config config = {.languages = languages};
    const struct language_row *row = NULL;
    struct error err = {0};

    (void)state;
    assert_int_equal(source_language(NULL, NULL, &config, &row, &err), 0);
    assert_string_equal(row->name, "python");
    assert_int_equal(source_language(NULL, "x.unknown", &config, &row, &err), 0);
    assert_string_equal(row->name, "python");
    assert_true(source_language("ruby", NULL, &config, &row, &err) < 0);
    assert_non_null(strstr(err.text, "python, javascript, bash"));
    assert_true(source_language("typescript", NULL, &config, &row, &err) < 0);
    assert_non_null(strstr(err.text, "TypeScript is not in this version"));
    assert_true(source_language(NULL, "a.ts", &config, &row, &err) < 0);
    assert_non_null(strstr(err.text, "not in this version"));
    assert_true(source_language(NULL, "a.mjs", &config, &row, &err) < 0);
    assert_non_null(strstr(err.text, "'javascript' is not among SANDBOX_SUPPORTED_LANGUAGES"));
    assert_int_equal(source_language("python", "a.js", &config, &row, &err), 0);
    /* known, by name or extension, and switched off */
    assert_true(source_language("bash", NULL, &config, &row, &err) < 0);
    assert_non_null(strstr(err.text, "SANDBOX_SUPPORTED_LANGUAGES"));
    assert_true(source_language(NULL, "x.sh", &config, &row, &err) < 0);
    languages[0] = (char *)"bash";
    assert_int_equal(source_language(NULL, "x.sh", &config, &row, &err), 0);
    assert_string_equal(row->name, "bash");
    languages[0] = (char *)"javascript";
    assert_int_equal(source_language(NULL, "x.cjs", &config, &row, &err), 0);
    assert_string_equal(row->name, "javascript");
    assert_int_equal(source_language("js", NULL, &config, &row, &err), 0);
    assert_string_equal(row->name, "javascript");
}

/* By its extension alone; "a.R" is not "a.r" to the file system, but the same language. */
static void test_files_of_other_kinds_are_refused(void **state)
{
    static const char *const refused[][2] = {
        {"a.R", "is R"},          {"a.r", "is R"},        {"dir.py/q.sql", "is SQL"},
        {"page.html", "is HTML"}, {"x.HTM", "is HTML"},   {"a.rb", "is Ruby"},
        {"a.cpp", "is C++"},      {"data.csv", "is CSV"}, {"a.json", "is JSON"},
    };
    char *languages[] = {(char *)"python", (char *)"bash", NULL};
    struct config config = {.languages = languages};
    const struct language_row *row = NULL;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        assert_int_equal(source_language(NULL, refused[i][0], &config, &row, &err), -EINVAL);
        if (!strstr(err.text, refused[i][1]) || !strstr(err.text, refused[i][0]))
            fail_msg("'%s' does not say that '%s' %s", err.text, refused[i][0], refused[i][1]);
        assert_int_equal(source_language("python", refused[i][0], &config, &row, &err), 0);
    }
    assert_int_equal(source_language(NULL, "script", &config, &row, &err), 0);
    assert_int_equal(source_language(NULL, "a.r/script", &config, &row, &err), 0);
    assert_int_equal(source_language(NULL, "n.ipynb", &config, &row, &err), 0);
    assert_string_equal(row->name, "python");
    assert_int_equal(source_language("bash", "n.ipynb", &config, &row, &err), -EINVAL);
    assert_non_null(strstr(err.text, "is a notebook"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file),
        cmocka_unit_test(test_a_pipe_has_no_name),
        cmocka_unit_test(test_what_is_no_source),
        cmocka_unit_test(test_exactly_the_limit_is_allowed),
        cmocka_unit_test(test_an_unreadable_file),
        cmocka_unit_test(test_code_from_an_argument),
        cmocka_unit_test(test_the_language),
        cmocka_unit_test(test_files_of_other_kinds_are_refused),
    };

    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
