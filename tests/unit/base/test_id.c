/* test_id.c - identifiers: random, hexadecimal, with a prefix that has a ceiling. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/id.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identifiers_are_random_hex),
        cmocka_unit_test(prefixes_have_a_ceiling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
