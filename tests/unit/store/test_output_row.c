/* test_output_row.c - outputs by id in the index, and the daemon's own secrets. */
#include "place.h"

#include "base/str.h"
#include "store/output_row.h"

static void put(struct place *place, const char *id, const char *session, uint64_t expires_ms,
                bool is_kept)
{
    struct output_row row = {
        .bytes = 5, .created_ms = 1, .expires_ms = expires_ms, .is_kept = is_kept};
    struct error err = {0};

    str_copy(row.id, sizeof(row.id), id);
    str_copy(row.session, sizeof(row.session), session);
    str_copy(row.tenant, sizeof(row.tenant), "acme");
    str_copy(row.name, sizeof(row.name), "x/y.csv");
    str_copy(row.type, sizeof(row.type), "text/csv");
    str_copy(row.sha256, sizeof(row.sha256), "00ff");
    assert_int_equal(output_row_put(place->index, &row, &err), 0);
}

static void count(void *ctx, const struct output_row *row)
{
    assert_true(row->id[0]);
    ++*(int *)ctx;
}

static void test_in_and_out(void **state)
{
    struct place *place = *state;
    struct output_row row = {0};
    struct error err = {0};
    int found = 0;

    put(place, "a_1", "s_1", 100, false);
    put(place, "a_2", "s_1", 200, false);
    put(place, "a_3", "s_2", 100, true);
    index_close(place->index);
    open_index(place);
    assert_int_equal(output_row_get(place->index, "a_1", &row, &err), 1);
    assert_string_equal(row.session, "s_1");
    assert_string_equal(row.tenant, "acme");
    assert_string_equal(row.name, "x/y.csv");
    assert_string_equal(row.type, "text/csv");
    assert_string_equal(row.sha256, "00ff");
    assert_int_equal(row.bytes, 5);
    assert_int_equal(row.expires_ms, 100);
    assert_false(row.is_kept);
    assert_int_equal(output_row_get(place->index, "a_9", &row, &err), 0);
    assert_int_equal(output_row_each(place->index, "s_1", count, &found, &err), 0);
    assert_int_equal(found, 2);
    assert_int_equal(output_row_drop(place->index, "a_1", &err), 0);
    assert_int_equal(output_row_get(place->index, "a_1", &row, &err), 0);
}

static void test_only_what_is_not_kept_is_due(void **state)
{
    struct place *place = *state;
    struct error err = {0};
    uint64_t next_ms = 0;
    int found = 0;

    assert_int_equal(output_row_next(place->index, &next_ms, &err), 0);
    assert_true(next_ms == UINT64_MAX);
    put(place, "a_2", "s_1", 101, false);
    put(place, "a_1", "s_1", 100, false);
    put(place, "a_3", "s_1", 50, true);
    assert_int_equal(output_row_next(place->index, &next_ms, &err), 0);
    assert_int_equal(next_ms, 100);
    assert_int_equal(output_row_due(place->index, 100, count, &found, &err), 0);
    assert_int_equal(found, 1);
    found = 0;
    assert_int_equal(output_row_kept(place->index, NULL, count, &found, &err), 0);
    assert_int_equal(output_row_kept(place->index, "acme", count, &found, &err), 0);
    assert_int_equal(output_row_kept(place->index, "other", count, &found, &err), 0);
    assert_int_equal(found, 2);
    put(place, "a_1", "s_1", 100, true); /* kept after all */
    found = 0;
    assert_int_equal(output_row_due(place->index, 100, count, &found, &err), 0);
    assert_int_equal(found, 0);
    assert_int_equal(output_row_next(place->index, &next_ms, &err), 0);
    assert_int_equal(next_ms, 101);
}

static void test_whose_they_are(void **state)
{
    struct place *place = *state;
    struct output_filter filter = {.now_ms = 100, .maximum = 2};
    struct error err = {0};
    int found = 0;

    put(place, "a_1", "s_1", 100, false); /* its time is over */
    put(place, "a_2", "s_1", 101, false);
    put(place, "a_3", "s_2", 50, true);
    assert_int_equal(output_row_list(place->index, &filter, count, &found, &err), 0);
    assert_int_equal(found, 2);
    filter.tenant = "acme";
    filter.only_kept = true;
    assert_int_equal(output_row_list(place->index, &filter, count, &found, &err), 0);
    assert_int_equal(found, 3);
    filter.tenant = "evil";
    assert_int_equal(output_row_list(place->index, &filter, count, &found, &err), 0);
    assert_int_equal(found, 3);
    put(place, "a_4", "s_2", 200, false);
    filter = (struct output_filter){.tenant = "acme", .now_ms = 100, .maximum = 2};
    assert_int_equal(output_row_list(place->index, &filter, count, &found, &err), 0);
    assert_int_equal(found, 5);
}

static void test_a_secret_is_made_once(void **state)
{
    struct place *place = *state;
    uint8_t first[SHA256_BYTES], again[SHA256_BYTES], other[SHA256_BYTES];
    struct error err = {0};

    assert_int_equal(index_secret(place->index, "links", first, &err), 0);
    assert_int_equal(index_secret(place->index, "more", other, &err), 0);
    index_close(place->index);
    open_index(place);
    assert_int_equal(index_secret(place->index, "links", again, &err), 0);
    assert_memory_equal(first, again, sizeof(first));
    assert_memory_not_equal(first, other, sizeof(first));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_in_and_out, place_open, place_remove),
        cmocka_unit_test_setup_teardown(test_only_what_is_not_kept_is_due, place_open,
                                        place_remove),
        cmocka_unit_test_setup_teardown(test_whose_they_are, place_open, place_remove),
        cmocka_unit_test_setup_teardown(test_a_secret_is_made_once, place_open, place_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
