/* test_mask.c - secrets of keys in texts of every kind: gone, and nothing else is. */
#include "unit.h"

#include <string.h>

#include "base/mask.h"

static void check(const char *text, const char *wanted)
{
    char got[200];
    size_t length = strlen(text);

    memcpy(got, text, length + 1);
    mask_keys(got, length);
    assert_string_equal(got, wanted);
}

static void test_masked(void **state)
{
    (void)state;
    check("bly_3f9a.abcDEF_-0", "bly_3f9a.*********");
    check("path=/v1/keys/bly_3f9a.abc status=404", "path=/v1/keys/bly_3f9a.*** status=404");
    check("{\"a\":\"bly_1.x\",\"b\":\"bly_2.yy\"}", "{\"a\":\"bly_1.*\",\"b\":\"bly_2.**\"}");
    check("bly_bly_1.x", "bly_bly_1.*");
    check("bly_1.a\nb", "bly_1.*\nb");
}

static void test_left_alone(void **state)
{
    (void)state;
    check("", "");
    check("bly", "bly");
    check("bly_", "bly_");
    check("bly_3f9a", "bly_3f9a");
    check("bly_3f9a.", "bly_3f9a.");
    check("assembly_line.py bly-1.x bly_.x", "assembly_line.py bly-1.x bly_.x");
    check("bly_3f9a x.y", "bly_3f9a x.y");
}

/* What is behind the length belongs to somebody else. */
static void test_not_behind_the_end(void **state)
{
    char text[] = "bly_1.abcdef";

    (void)state;
    mask_keys(text, 8);
    assert_string_equal(text, "bly_1.**cdef");
    mask_keys(text, 3);
    mask_keys(text, 0);
    assert_string_equal(text, "bly_1.**cdef");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_masked),
        cmocka_unit_test(test_left_alone),
        cmocka_unit_test(test_not_behind_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
