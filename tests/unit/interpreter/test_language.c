/* test_language.c - the rows of the languages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/str.h"
#include "interpreter/language.h"

static void rows_are_found_by_name(void **state)
{
    (void)state;
    assert_int_equal(language_count, 3);
    assert_string_equal(language_find("python")->title, "Python");
    assert_string_equal(language_find("bash")->extension, ".sh");
    assert_string_equal(language_of_path("a/b.cjs")->name, "javascript");
    assert_null(language_of_path("a.pyc"));
    assert_null(language_find("perl"));
    assert_null(language_find(""));
    assert_null(language_find(NULL));
}

static void scripts_have_the_extension(void **state)
{
    (void)state;
    for (size_t i = 0; i < language_count; i++)
        assert_true(str_ends(language_table[i].script, language_table[i].extension));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_found_by_name),
        cmocka_unit_test(scripts_have_the_extension),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
