/* test_id.c - identifiers: random, hexadecimal, with a prefix that has a ceiling. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "base/limits.h"

static void identifiers_are_random_hex(void **state)
{
    char a[ID_MAX], b[ID_MAX];

    (void)state;
    assert_int_equal(id_make(a, "exec"), 0);
    assert_int_equal(id_make(b, "exec"), 0);
    assert_int_equal(strlen(a), strlen("exec_") + 32);
    assert_memory_equal(a, "exec_", 5);
    assert_int_equal(strspn(a + 5, "0123456789abcdef"), 32);
    assert_string_not_equal(a, b);
}

static void prefixes_have_a_ceiling(void **state)
{
    char text[ID_MAX];

    (void)state;
    assert_int_equal(id_make(text, "12345678901234"), 0);
    assert_int_equal(strlen(text), ID_MAX - 1);
    assert_int_equal(id_make(text, "123456789012345"), -ENAMETOOLONG);
}

static void names_have_few_kinds_of_characters(void **state)
{
    static const char *const good[] = {"a", "work.2_b-C", "s_1"}, *const bad[] = {"", "a b", "a/b",
                                                                                  "\xc3\xa4"};
    char text[LIMIT_NAME + 2] = "";

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_true(id_is_name(good[i]));
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_false(id_is_name(bad[i]));
    memset(text, 'x', LIMIT_NAME);
    assert_true(id_is_name(text));
    text[LIMIT_NAME] = 'x';
    assert_false(id_is_name(text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identifiers_are_random_hex),
        cmocka_unit_test(prefixes_have_a_ceiling),
        cmocka_unit_test(names_have_few_kinds_of_characters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
