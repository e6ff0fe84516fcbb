/* test_strv.c - NULL-terminated vectors of owned strings. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

static void grows_from_nothing(void **state)
{
    CLEANUP(strv_freep) char **list = NULL;

    (void)state;
    assert_int_equal(strv_length(list), 0);
    assert_int_equal(strv_push(&list, "a"), 0);
    assert_int_equal(strv_push(&list, ""), 0);
    assert_int_equal(strv_push_n(&list, "bcd", 2), 0);
    assert_int_equal(strv_push_n(&list, NULL, 0), 0);
    assert_int_equal(strv_length(list), 4);
    assert_string_equal(list[0], "a");
    assert_string_equal(list[1], "");
    assert_string_equal(list[2], "bc");
    assert_string_equal(list[3], "");
    assert_null(list[4]);
}

static void new_is_an_empty_list(void **state)
{
    CLEANUP(strv_freep) char **list = strv_new();

    (void)state;
    assert_non_null(list);
    assert_int_equal(strv_length(list), 0);
    assert_int_equal(strv_push(&list, "x"), 0);
    assert_int_equal(strv_length(list), 1);
}

static void strings_are_copies(void **state)
{
    CLEANUP(strv_freep) char **list = NULL;
    char text[] = "abc";

    (void)state;
    assert_int_equal(strv_push(&list, text), 0);
    text[0] = 'z';
    assert_string_equal(list[0], "abc");
}

static void copies_a_list(void **state)
{
    static const char *const words[] = {"one", "two", NULL};
    CLEANUP(strv_freep) char **copy = strv_copy(words);
    CLEANUP(strv_freep) char **none = strv_copy(NULL);

    (void)state;
    assert_int_equal(strv_length(copy), 2);
    assert_string_equal(copy[0], "one");
    assert_ptr_not_equal(copy[0], words[0]);
    assert_string_equal(copy[1], "two");
    assert_non_null(none);
    assert_null(none[0]);
}

static void impossible_lengths_are_refused(void **state)
{
    CLEANUP(strv_freep) char **list = NULL;

    (void)state;
    assert_int_equal(strv_push_n(&list, "x", SIZE_MAX), -ENOMEM);
    assert_null(list);
}

static void freeing_nothing_is_fine(void **state)
{
    char **list = NULL;

    (void)state;
    strv_free(NULL);
    strv_freep(&list);
    assert_int_equal(strv_push(&list, "x"), 0);
    strv_freep(&list);
    assert_null(list);
    strv_freep(&list);
}

static void variables_are_found_by_their_whole_name(void **state)
{
    char *env[] = {"HOMEWARD=1", "HOME=/home/ada", "EMPTY=", "HOME=/second", NULL};

    (void)state;
    assert_string_equal(env_value(env, "HOME"), "/home/ada");
    assert_string_equal(env_value(env, "EMPTY"), "");
    assert_null(env_value(env, "HOM"));
    assert_null(env_value(NULL, "HOME"));
    assert_string_equal(env_text(env, "HOMEWARD"), "1");
    assert_null(env_text(env, "EMPTY"));
    assert_null(env_text(env, "MISSING"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows_from_nothing),
        cmocka_unit_test(new_is_an_empty_list),
        cmocka_unit_test(strings_are_copies),
        cmocka_unit_test(copies_a_list),
        cmocka_unit_test(impossible_lengths_are_refused),
        cmocka_unit_test(freeing_nothing_is_fine),
        cmocka_unit_test(variables_are_found_by_their_whole_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
