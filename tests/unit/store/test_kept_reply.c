/* test_kept_reply.c - requests with an Idempotency-Key in the index, and what is kept of them. */
#include "place.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "store/kept_reply.h"

struct seen {
    unsigned count, status;
    size_t length;
    char request[16], data[16];
    bool has_data;
};

static void on_row(void *ctx, const struct kept_reply *row)
{
    struct seen *seen = ctx;

    seen->count++;
    seen->status = row->status;
    seen->has_data = row->data != NULL;
    seen->length = row->length;
    str_copy(seen->request, sizeof(seen->request), row->request);
    str_format(seen->data, sizeof(seen->data), "%.*s", (int)row->length, (const char *)row->data);
}

static struct seen look(struct place *place, const char *owner, const char *key)
{
    struct seen seen = {0};
    struct error err = {0};

    assert_int_equal(kept_reply_find(place->index, owner, key, on_row, &seen, &err), 0);
    return seen;
}

static int begin(struct place *place, const char *owner, const char *key, uint64_t created_ms)
{
    struct kept_reply row = {
        .owner = owner, .key = key, .request = "00ff", .created_ms = created_ms};
    struct error err = {0};

    return kept_reply_begin(place->index, &row, &err);
}

static void end(struct place *place, const char *owner, const char *key, const char *session,
                const char *data)
{
    struct kept_reply row = {.owner = owner,
                             .key = key,
                             .status = 200,
                             .session = session,
                             .type = "application/json",
                             .data = data,
                             .length = data ? strlen(data) : 0};
    struct error err = {0};

    assert_int_equal(kept_reply_end(place->index, &row, &err), 0);
}

static void test_a_reply_is_found_again_after_the_index_was_closed(void **state)
{
    struct place *place = *state;
    struct seen seen;

    assert_int_equal(begin(place, "acme/1", "k", 5), 0);
    assert_int_equal(look(place, "acme/1", "k").status, 0);
    end(place, "acme/1", "k", NULL, "{}");
    index_close(place->index);
    open_index(place);
    seen = look(place, "acme/1", "k");
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.status, 200);
    assert_string_equal(seen.request, "00ff");
    assert_string_equal(seen.data, "{}");
}

static void test_a_key_is_its_owners_and_is_begun_once(void **state)
{
    struct place *place = *state;
    struct error err = {0};

    assert_int_equal(begin(place, "acme/1", "k", 5), 0);
    assert_true(begin(place, "acme/1", "k", 6) < 0);
    assert_int_equal(look(place, "acme/2", "k").count, 0);
    assert_int_equal(begin(place, "acme/2", "k", 6), 0);
    assert_int_equal(kept_reply_drop(place->index, "acme/1", "k", &err), 0);
    assert_int_equal(look(place, "acme/1", "k").count, 0);
    assert_int_equal(look(place, "acme/2", "k").count, 1);
}

static void test_an_empty_reply_is_kept_and_none_is_none(void **state)
{
    struct place *place = *state;

    assert_int_equal(begin(place, "o", "empty", 1), 0);
    end(place, "o", "empty", NULL, "");
    assert_true(look(place, "o", "empty").has_data);
    assert_int_equal(begin(place, "o", "none", 1), 0);
    end(place, "o", "none", NULL, NULL);
    assert_false(look(place, "o", "none").has_data);
    assert_int_equal(look(place, "o", "none").status, 200);
}

static void test_what_is_kept_has_bounds(void **state)
{
    /* Names that lie beside "o/" in the order of texts. */
    static const char *const others[] = {"other/1", "o-o/1", "o0/1", "o1/1"};
    static const char *const keys[] = {"old", "a", "b", "c"};
    struct place *place = *state;
    struct kept_reply_bounds bounds = {.since_ms = 2, .bytes = 8, .rows = 10};
    struct error err = {0};

    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(begin(place, i % 2 ? "o/1" : "o/2", keys[i], 1 + i), 0);
        end(place, i % 2 ? "o/1" : "o/2", keys[i], NULL, "4444");
    }
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        assert_int_equal(begin(place, others[i], "a", 2), 0);
        end(place, others[i], "a", NULL, "4444");
    }
    assert_int_equal(kept_reply_trim(place->index, "o", &bounds, &err), 0);
    assert_int_equal(look(place, "o/2", "old").count, 0);
    assert_false(look(place, "o/1", "a").has_data); /* the oldest over 8 bytes, its row stays */
    assert_int_equal(look(place, "o/1", "a").status, 200);
    assert_true(look(place, "o/2", "b").has_data && look(place, "o/1", "c").has_data);
    bounds.rows = 1;
    assert_int_equal(kept_reply_trim(place->index, "o", &bounds, &err), 0);
    assert_int_equal(look(place, "o/2", "b").count, 0);
    assert_int_equal(look(place, "o/1", "c").count, 1);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        assert_true(look(place, others[i], "a").has_data);
}

static void test_the_reply_about_a_session_goes_with_it(void **state)
{
    struct place *place = *state;
    struct index_session session = {.env = "{}", .created_ms = 1};
    struct error err = {0};

    str_copy(session.id, sizeof(session.id), "s_1");
    assert_int_equal(index_put_session(place->index, &session, &err), 0);
    assert_int_equal(begin(place, "o", "k", 1), 0);
    end(place, "o", "k", "s_1", "secret");
    assert_int_equal(index_forget(place->index, &err), 0);
    assert_true(look(place, "o", "k").has_data);
    session.ended_ms = 2;
    assert_int_equal(index_put_session(place->index, &session, &err), 0);
    assert_int_equal(index_forget(place->index, &err), 0);
    assert_false(look(place, "o", "k").has_data);
    assert_int_equal(look(place, "o", "k").count, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_reply_is_found_again_after_the_index_was_closed,
                                        place_open, place_remove),
        cmocka_unit_test_setup_teardown(test_a_key_is_its_owners_and_is_begun_once, place_open,
                                        place_remove),
        cmocka_unit_test_setup_teardown(test_an_empty_reply_is_kept_and_none_is_none, place_open,
                                        place_remove),
        cmocka_unit_test_setup_teardown(test_what_is_kept_has_bounds, place_open, place_remove),
        cmocka_unit_test_setup_teardown(test_the_reply_about_a_session_goes_with_it, place_open,
                                        place_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
