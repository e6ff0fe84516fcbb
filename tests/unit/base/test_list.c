/* test_list.c - items that are put into lists and taken out, at both ends and in the middle. */
#include "unit.h"

#include "base/list.h"

struct item {
    struct item *next, *previous;
};

static void items_are_appended_and_taken_out(void **state)
{
    struct item items[3] = {{.next = &items[2]}}, stranger = {0}, *first = NULL;

    (void)state;
    for (int i = 0; i < 3; i++)
        LIST_APPEND(first, &items[i]);
    assert_ptr_equal(first, &items[0]);
    assert_ptr_equal(items[0].next, &items[1]);
    assert_ptr_equal(items[1].next, &items[2]);
    assert_null(items[2].next);
    LIST_UNLINK(first, &stranger);
    LIST_UNLINK(first, &items[1]);
    assert_ptr_equal(items[0].next, &items[2]);
    LIST_UNLINK(first, &items[0]);
    assert_ptr_equal(first, &items[2]);
    LIST_UNLINK(first, &items[2]);
    assert_null(first);
    LIST_UNLINK(first, &items[2]);
}

static void items_know_the_one_before(void **state)
{
    struct item items[3] = {0}, stranger = {0}, *first = NULL;

    (void)state;
    for (int i = 0; i < 3; i++)
        DLIST_PUSH(first, &items[i]);
    assert_ptr_equal(first, &items[2]);
    assert_ptr_equal(items[0].previous, &items[1]);
    DLIST_UNLINK(first, &stranger);
    assert_ptr_equal(first, &items[2]);
    DLIST_UNLINK(first, &items[1]);
    assert_ptr_equal(items[2].next, &items[0]);
    assert_ptr_equal(items[0].previous, &items[2]);
    DLIST_UNLINK(first, &items[2]);
    assert_ptr_equal(first, &items[0]);
    assert_null(items[0].previous);
    DLIST_UNLINK(first, &items[0]);
    assert_null(first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_appended_and_taken_out),
        cmocka_unit_test(items_know_the_one_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
