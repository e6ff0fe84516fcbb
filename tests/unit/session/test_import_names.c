/* test_import_names.c - modules whose distribution has another name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/cleanup.h"
#include "session/import_names.h"

static void test_names_that_differ(void **state)
{
    static const struct import_name samples[] = {
        {"cv2", "opencv-python-headless"}, {"sklearn.cluster", "scikit-learn"},
        {"PIL.Image", "pillow"},           {"yaml", "PyYAML"},
        {"bs4", "beautifulsoup4"},         {"google.protobuf.message", "protobuf"},
    };
    char text[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++)
        assert_string_equal(import_distribution(samples[i].module, text, sizeof(text)),
                            samples[i].distribution);
}

static void test_others_are_their_own_top_name(void **state)
{
    char text[16];

    (void)state;
    assert_string_equal(import_distribution("requests", text, sizeof(text)), "requests");
    assert_string_equal(import_distribution("a.b.c", text, sizeof(text)), "a");
    assert_string_equal(import_distribution("google.cloud", text, sizeof(text)), "google");
    assert_null(import_distribution("a_name_that_is_too_long", text, sizeof(text)));
}

static void test_the_table_is_sorted_and_says_something(void **state)
{
    size_t count;
    const struct import_name *rows = import_names(&count);

    (void)state;
    assert_true(count > 20);
    for (size_t i = 0; i < count; i++) {
        assert_string_not_equal(rows[i].module, rows[i].distribution);
        assert_true(i == 0 || strcmp(rows[i - 1].module, rows[i].module) < 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_that_differ),
        cmocka_unit_test(test_others_are_their_own_top_name),
        cmocka_unit_test(test_the_table_is_sorted_and_says_something),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
