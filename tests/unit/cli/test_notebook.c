/* test_notebook.c - the code cells of notebooks, and what is refused with its cell's number. */
#include <errno.h>
#include <string.h>

#include "unit.h"

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/notebook.h"

#define CODE(source) "{\"cell_type\": \"code\", \"source\": " source "}"
#define BOOK(cells) "{\"nbformat\": 4, \"metadata\": {}, \"cells\": [" cells "]}"
#define BOOK_OF(metadata) "{\"metadata\": {" metadata "}, \"cells\": [" CODE("\"x\"") "]}"

/* The program of a notebook; NULL with err. */
static char *join(const char *book, struct error *err)
{
    CLEANUP(buf_free) struct buf file = BUF_INIT(MIB);
    CLEANUP(buf_free) struct buf program = BUF_INIT(MIB);
    CLEANUP(strv_freep) char **cells = NULL;

    *err = (struct error){0};
    assert_int_equal(buf_append_text(&file, book), 0);
    if (notebook_cells(&file, "n.ipynb", &cells, err) < 0 ||
        notebook_join(cells, "n.ipynb", &program, err) < 0)
        return NULL;
    return strdup(buf_text(&program));
}

static void expect_program(const char *book, const char *program)
{
    struct error err;
    CLEANUP(freep) char *joined = join(book, &err);

    if (!joined)
        fail_msg("%s", err.text);
    assert_string_equal(joined, program);
}

static void expect_refused(const char *book, const char *mention)
{
    struct error err;
    CLEANUP(freep) char *joined = join(book, &err);

    if (joined)
        fail_msg("not refused: %s", joined);
    assert_string_equal(err.code, ERROR_BAD_INPUT);
    if (!strstr(err.text, mention))
        fail_msg("'%s' does not mention '%s'", err.text, mention);
}

static void test_code_cells_are_joined_in_their_order(void **state)
{
    (void)state;
    expect_program(
        BOOK(CODE("\"x = 1\"") ", {\"cell_type\": \"markdown\", \"source\": \"!\"}, " CODE(
            "[\"y = 2\\n\", \"print(x + y)\"]")),
        "# code cell 1\nx = 1\n\n# code cell 2\ny = 2\nprint(x + y)\n");
}

static void test_what_is_no_notebook(void **state)
{
    (void)state;
    expect_refused("print(1)", "not JSON");
    expect_refused("[]", "not a notebook");
    expect_refused("{\"nbformat\": 3, \"worksheets\": []}", "format before 4");
    expect_refused(BOOK(""), "no code cell");
    expect_refused(BOOK(CODE("\" \"")), "no code");
    expect_refused(BOOK(CODE("7")), "cell 1 has no source");
}

static void test_other_languages_are_refused(void **state)
{
    (void)state;
    expect_refused(BOOK_OF("\"kernelspec\": {\"language\": \"R\"}"), "language 'R'");
    expect_refused(BOOK_OF("\"language_info\": {\"name\": \"julia\"}"), "language 'julia'");
    expect_program(BOOK_OF("\"kernelspec\": {\"language\": \"python\"}"), "# code cell 1\nx\n");
    expect_program(BOOK_OF(""), "# code cell 1\nx\n");
}

static void test_lines_of_ipython_are_refused_with_their_cell(void **state)
{
    (void)state;
    expect_refused(BOOK(CODE("\"x = 1\"") "," CODE("\"y = 1\\n!ls\"")),
                   "line 2 of code cell 2 is for IPython, not Python: !ls");
    expect_refused(BOOK(CODE("\"%pip install x\"")), "line 1 of code cell 1");
    expect_refused(BOOK(CODE("\"%%bash\\nls\"")), "%%bash");
    expect_refused(BOOK(CODE("\"files = !ls\"")), "files = !ls");
    expect_program(BOOK(CODE("\"if x:\\n  %matplotlib inline\"")),
                   "# code cell 1\nif x:\n  pass\n");
}

/* '%' and '!' at the beginning of a line inside of a string, brackets or a continued line. */
static void test_python_is_never_taken_for_ipython(void **state)
{
    (void)state;
    expect_program(BOOK(CODE("\"a = '''\\n!no\\n%no'''\\nb = (5\\n% 2)\\nc = 5 \\\\\\n% 2\"")),
                   "# code cell 1\na = '''\n!no\n%no'''\nb = (5\n% 2)\nc = 5 \\\n% 2\n");
    expect_program(BOOK(CODE("\"x != 1 # !\\nf'{x!r}' + \\\"!\\\"\"")),
                   "# code cell 1\nx != 1 # !\nf'{x!r}' + \"!\"\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_code_cells_are_joined_in_their_order),
        cmocka_unit_test(test_what_is_no_notebook),
        cmocka_unit_test(test_other_languages_are_refused),
        cmocka_unit_test(test_lines_of_ipython_are_refused_with_their_cell),
        cmocka_unit_test(test_python_is_never_taken_for_ipython),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
