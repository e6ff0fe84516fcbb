/* test_container.c - containers: how long they live, and the names of their files. */
#include "engine_fixture.h"

#include "session/container.h"

#define MINUTES(count) ((count)*60000ULL)

static const struct caller local = {.who = {.tenant = "local"}};

static struct session *made(struct engine_fixture *fixture, struct container_row *row)
{
    const struct container_spec spec = {.caller = &local, .name = "c"};
    struct session *session = NULL;
    struct error err = {0};

    if (container_create(fixture->manager, &spec, row, &err) < 0 ||
        container_session(fixture->manager, row, &session, &err) < 0)
        fail_msg("%s", err.text);
    return session;
}

/* It was last used so long ago. */
static void make_older(struct session *session, uint64_t ms)
{
    session->used_ms -= ms;
    session_manager_expect(session->manager);
}

static void test_it_ends_20_minutes_after_its_last_use(void **state)
{
    struct engine_fixture *fixture = *state;
    struct container_row kept, gone, ret;
    struct session *used = made(fixture, &kept), *unused = made(fixture, &gone);
    struct error err = {0};

    assert_true(session_deadline_ms(used) == used->used_ms + MINUTES(20));
    make_older(used, MINUTES(19));
    assert_int_equal(container_find(fixture->manager, "local", kept.id, &ret, &err), 0);
    container_touch(fixture->manager, &ret);
    assert_true(ret.used_ms >= kept.used_ms);
    make_older(used, MINUTES(19));
    make_older(unused, MINUTES(20));
    UNTIL(fixture, !container_is_running(fixture->manager, &gone));
    assert_true(container_is_running(fixture->manager, &kept));
    assert_int_equal(container_find(fixture->manager, "local", gone.id, &ret, &err), 0);
    assert_string_equal(ret.name, "c");
    assert_int_equal(container_session(fixture->manager, &ret, &unused, &err), -ESHUTDOWN);
    assert_string_equal(err.code, ERROR_CONTAINER_EXPIRED);
}

static void test_names_of_a_fill(void **state)
{
    static const char *const rows[][2] = {{"a", "a"},   {"b", "b"},       {"a", "2_a"},
                                          {"a", "3_a"}, {"2_a", "2_2_a"}, {"b", "2_b"}};
    json_t *taken = json_object();
    char name[64];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        container_fill_name(taken, rows[i][0], name, sizeof(name));
        assert_string_equal(name, rows[i][1]);
    }
    json_decref(taken);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ENGINE(test_it_ends_20_minutes_after_its_last_use),
        cmocka_unit_test(test_names_of_a_fill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
