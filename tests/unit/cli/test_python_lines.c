/* test_python_lines.c - when typed lines are a whole statement of Python. */
#include "unit.h"

#include "base/cleanup.h"
#include "cli/python_lines.h"

static void test_what_is_complete(void **state)
{
    static const struct {
        const char *text;
        bool is_complete;
    } rows[] = {
        {"x = 1\n", true},
        {"x = (1,\n", false},
        {"x = (1,\n2)\n", true},
        {"x = '''\n", false},
        {"x = '''\n\n", false},
        {"x = '''\n'''\n", true},
        {"x = 1 + \\\n", false},
        {"x = 1 + \\\n2\n", true},
        {"def f():\n", false},
        {"def f():\n    return 1\n", false},
        {"def f():\n    return 1\n\n", true},
        {"def f(): # why:\n", false},
        {"def f():\n    '''\n\n", false},
        {"@decorated\n", false},
        {"@decorated\ndef f():\n    pass\n\n", true},
        {"x = {1:\n", false},
        {"x = {1:\n2}\n", true},
        {"x = ':'\n", true},
        {"x # why:\n", true},
        {"!ls (\n", true},
        {"%matplotlib inline\n", true},
        {"x = 'not closed\n", true}, /* the interpreter says what is wrong */
        {"x = )\n", true},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (python_is_complete(rows[i].text) != rows[i].is_complete)
            fail_msg("'%s' is %scomplete", rows[i].text, rows[i].is_complete ? "" : "not ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_complete),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
