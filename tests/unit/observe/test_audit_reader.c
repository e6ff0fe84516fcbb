/* test_audit_reader.c - lines of the audit for who asks: what fits, the last ones, those that come.
 */
#include "audit_place.h"

static unsigned read_all(struct audit_reader *reader, int *numbers)
{
    const char *data;
    size_t length;
    unsigned count = 0;
    int r;

    while ((r = audit_reader_next(reader, &data, &length)) != 0) {
        json_t *json;

        if (r == -EAGAIN)
            continue;
        assert_int_equal(r, 1);
        json = json_loadb(data, length, 0, NULL);
        assert_non_null(json);
        assert_true(count < LINES_MAX);
        numbers[count++] = (int)json_integer_value(json_object_get(json, "n"));
        json_decref(json);
    }
    return count;
}

static struct audit_reader *reader(struct place *place, const struct audit_filter *filter,
                                   uint64_t tail)
{
    struct error err = {0};
    struct audit_reader *made = audit_reader_new(place->folder_fd, filter, tail, &err);

    assert_non_null(made);
    return made;
}

static void test_reading(void **state)
{
    struct place *place = *state;
    const struct audit_filter all = {0}, of_b = {.tenant = "b"},
                              of_both = {.session = "s_1", .action = "run", .tenant = "b"},
                              future = {.since = "2999-01-01T00:00:00.000Z"},
                              past = {.since = "1999-01-01T00:00:00.000Z"},
                              begin = {.action = "ex"};
    struct audit_reader *one;
    int numbers[LINES_MAX];

    three(place); /* 15 lines in several files */
    one = reader(place, &all, UINT64_MAX);
    assert_int_equal(read_all(one, numbers), 15);
    for (int i = 0; i < 15; i++)
        assert_int_equal(numbers[i], i + 1);
    audit_reader_free(one);
    one = reader(place, &of_b, UINT64_MAX);
    assert_int_equal(read_all(one, numbers), 5);
    assert_int_equal(numbers[1], 6);
    audit_reader_free(one);
    one = reader(place, &of_both, UINT64_MAX);
    assert_int_equal(read_all(one, numbers), 3);
    audit_reader_free(one);
    one = reader(place, &future, UINT64_MAX);
    assert_int_equal(read_all(one, numbers), 0);
    audit_reader_free(one);
    one = reader(place, &past, UINT64_MAX);
    assert_int_equal(read_all(one, numbers), 15);
    audit_reader_free(one);
    one = reader(place, &begin, UINT64_MAX);
    assert_int_equal(read_all(one, numbers), 0);
    audit_reader_free(one);
    audit_reader_free(NULL);
}

static void on_written(void *ctx)
{
    (*(int *)ctx)++;
}

/* The last ones, and then what comes, also over new files. */
static void test_following(void **state)
{
    struct place *place = *state;
    const struct audit_filter all = {0};
    struct audit_reader *one;
    int numbers[LINES_MAX], told = 0;

    open_audit(place);
    write_lines(place, 1, 9);
    one = reader(place, &all, 2);
    assert_int_equal(read_all(one, numbers), 2);
    assert_int_equal(numbers[0], 8);
    assert_true(audit_follow(place->audit, on_written, &told));
    audit_configure(place->audit, 600, 100);
    write_lines(place, 10, 20);
    assert_int_equal(told, 11);
    assert_int_equal(read_all(one, numbers), 11);
    for (int i = 0; i < 11; i++)
        assert_int_equal(numbers[i], 10 + i);
    write_lines(place, 21, 21);
    assert_int_equal(read_all(one, numbers), 1);
    audit_unfollow(place->audit, &told);
    write_lines(place, 22, 22);
    assert_int_equal(told, 12);
    audit_reader_free(one);
    audit_unfollow(place->audit, &told);
    audit_unfollow(NULL, &told);
    assert_false(audit_follow(NULL, on_written, &told));
}

static void test_following_from_nothing(void **state)
{
    struct place *place = *state;
    const struct audit_filter all = {0};
    struct audit_reader *one = reader(place, &all, UINT64_MAX);
    int numbers[LINES_MAX];

    assert_int_equal(read_all(one, numbers), 0);
    open_audit(place);
    write_lines(place, 1, 2);
    assert_int_equal(read_all(one, numbers), 2);
    audit_reader_free(one);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_reading),
        TEST(test_following),
        TEST(test_following_from_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
