/* test_code_store.c - which code a command runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "session/session_private.h"

static void test_the_code_of_a_command(void **state)
{
    static const struct {
        const char *words[6];
        const char *language, *code, *path; /* NULL: no code is found */
    } rows[] = {
        {{"python3", "a.py"}, "python", NULL, "a.py"},
        {{"/usr/bin/python3.11", "-u", "a.py", "-c"}, "python", NULL, "a.py"},
        {{"python", "-X", "dev", "a.py"}, "python", NULL, "a.py"},
        {{"python", "-c", "print(1)"}, "python", "print(1)", NULL},
        {{"python", "-m", "pytest"}, NULL, NULL, NULL},
        {{"python", "-c"}, NULL, NULL, NULL},
        {{"python"}, NULL, NULL, NULL},
        {{"python", "-"}, NULL, NULL, NULL},
        {{"python-config", "a.py"}, NULL, NULL, NULL},
        {{"bash", "-lc", "echo"}, "bash", "echo", NULL},
        {{"sh", "/tmp/x.sh"}, "bash", NULL, "/tmp/x.sh"},
        {{"node", "--no-warnings", "x.js"}, "javascript", NULL, "x.js"},
        {{"node", "-e", "1"}, "javascript", "1", NULL},
        {{"ls", "a.py"}, NULL, NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct command_code code;
        bool has_code = code_of_command(rows[i].words, &code);

        assert_int_equal(has_code, rows[i].language != NULL);
        if (!has_code)
            continue;
        assert_string_equal(code.language, rows[i].language);
        assert_true(str_equal(code.code, rows[i].code));
        assert_true(str_equal(code.path, rows[i].path));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_code_of_a_command)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
