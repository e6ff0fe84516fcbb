/* test_bus.c - events: order, sessions, gaps, resuming, and readers that come and go meanwhile. */
#include "unit.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/limits.h"
#include "observe/bus.h"

static int set_up(void **state)
{
    *state = bus_new();
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    bus_free(*state);
    return 0;
}

static void publish(struct bus *bus, const char *session, int number)
{
    bus_publish(bus, EVENT_OUTPUT, NULL, session, json_pack("{s:i}", "n", number));
}

/* The next event has this number; returns its id. */
static uint64_t assert_next(struct bus_reader *reader, int number)
{
    struct bus_event event;

    assert_true(bus_next(reader, &event));
    assert_int_equal(event.type, EVENT_OUTPUT);
    assert_int_equal(json_integer_value(json_object_get(event.data, "n")), number);
    return event.id;
}

static void assert_none(struct bus_reader *reader)
{
    struct bus_event event;

    assert_false(bus_next(reader, &event));
}

static struct bus_event assert_gap(struct bus_reader *reader, json_int_t missed)
{
    struct bus_event event;

    assert_true(bus_next(reader, &event));
    assert_int_equal(event.type, EVENT_GAP);
    if (missed < 0)
        assert_null(event.data);
    else
        assert_int_equal(json_integer_value(json_object_get(event.data, "missed")), missed);
    return event;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(event_name(EVENT_SESSION_CREATED), "session.created");
    assert_string_equal(event_name(EVENT_GAP), "gap");
    for (int type = 0; type < _EVENT_TYPE_MAX; type++)
        assert_non_null(event_name((enum event_type)type));
    assert_string_equal(event_name(_EVENT_TYPE_MAX), "unknown");
}

static void test_new_events_in_order(void **state)
{
    struct bus *bus = *state;
    struct bus_reader *reader;
    uint64_t id;

    publish(bus, "a", 1);
    reader = bus_subscribe(bus, NULL, NULL, 0, NULL, NULL);
    assert_none(reader);
    publish(bus, "a", 2);
    publish(bus, NULL, 3);
    id = assert_next(reader, 2);
    assert_true(assert_next(reader, 3) > id);
    assert_none(reader);
    publish(bus, "b", 4);
    assert_next(reader, 4);
    bus_unsubscribe(reader);
    bus_unsubscribe(NULL);
}

static void test_one_session(void **state)
{
    struct bus *bus = *state;
    struct bus_reader *reader = bus_subscribe(bus, NULL, "a", 0, NULL, NULL);

    publish(bus, "a", 1);
    publish(bus, "ab", 2);
    publish(bus, NULL, 3);
    publish(bus, "a", 4);
    assert_next(reader, 1);
    assert_next(reader, 4);
    assert_none(reader);
    bus_unsubscribe(reader);
}

static void test_resuming(void **state)
{
    struct bus *bus = *state;
    struct bus_reader *reader = bus_subscribe(bus, NULL, NULL, 0, NULL, NULL);
    uint64_t id, newest;

    for (int i = 1; i <= 4; i++)
        publish(bus, i % 2 ? "a" : "b", i);
    id = assert_next(reader, 1);
    assert_next(reader, 2);
    assert_next(reader, 3);
    newest = assert_next(reader, 4);
    bus_unsubscribe(reader);
    reader = bus_subscribe(bus, NULL, NULL, id, NULL, NULL);
    assert_next(reader, 2);
    bus_unsubscribe(reader);
    reader = bus_subscribe(bus, NULL, "a", id, NULL, NULL);
    assert_next(reader, 3);
    assert_none(reader);
    bus_unsubscribe(reader);
    /* The newest of all: nothing is missing. */
    reader = bus_subscribe(bus, NULL, NULL, newest, NULL, NULL);
    assert_none(reader);
    publish(bus, "a", 5);
    assert_next(reader, 5);
    bus_unsubscribe(reader);
}

static void test_ids_of_other_lives_begin_with_a_gap(void **state)
{
    struct bus *bus = *state;
    struct bus_reader *reader = bus_subscribe(bus, NULL, NULL, 0, NULL, NULL);
    uint64_t first, ids[] = {1, UINT64_MAX, 0, UINT64_MAX - 1};

    publish(bus, "a", 1);
    publish(bus, "a", 2);
    first = assert_next(reader, 1);
    ids[2] = assert_next(reader, 2) + 1; /* not given out yet */
    bus_unsubscribe(reader);
    for (size_t i = 0; i < 4; i++) {
        reader = bus_subscribe(bus, NULL, "a", ids[i], NULL, NULL);
        assert_true(assert_gap(reader, -1).id < first);
        assert_int_equal(assert_next(reader, 1), first);
        assert_next(reader, 2);
        assert_none(reader);
        bus_unsubscribe(reader);
    }
    /* Who saw what was just before the first has missed nothing. */
    reader = bus_subscribe(bus, NULL, "a", first - 1, NULL, NULL);
    assert_next(reader, 1);
    bus_unsubscribe(reader);
}

static void test_ids_grow_over_a_restart(void **state)
{
    struct bus *bus = *state, *next;
    struct bus_reader *reader = bus_subscribe(bus, NULL, NULL, 0, NULL, NULL);
    struct timespec now;
    uint64_t id, us;

    publish(bus, "a", 1);
    id = assert_next(reader, 1);
    bus_unsubscribe(reader);
    do {
        clock_gettime(CLOCK_REALTIME, &now);
        us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    } while (us <= id);
    next = bus_new();
    assert_non_null(next);
    reader = bus_subscribe(next, NULL, NULL, 0, NULL, NULL);
    publish(next, "a", 1);
    assert_true(assert_next(reader, 1) > id);
    bus_unsubscribe(reader);
    bus_free(next);
}

/* ---- tenants ----------------------------------------------------------------------------------
 */

static void test_tenants_see_their_own(void **state)
{
    struct bus *bus = *state;
    struct bus_reader *one = bus_subscribe(bus, "one", NULL, 0, NULL, NULL);
    struct bus_reader *other = bus_subscribe(bus, "two", "a", 0, NULL, NULL);
    struct bus_reader *all = bus_subscribe(bus, NULL, NULL, 0, NULL, NULL);
    struct bus_reader *local = bus_subscribe(bus, TENANT_LOCAL, NULL, 0, NULL, NULL);

    bus_publish(bus, EVENT_OUTPUT, "one", "a", json_pack("{s:i}", "n", 1));
    bus_publish(bus, EVENT_OUTPUT, "two", "b", json_pack("{s:i}", "n", 2));
    bus_publish(bus, EVENT_OUTPUT, NULL, "c", json_pack("{s:i}", "n", 3));
    assert_next(one, 1);
    assert_none(one);
    assert_none(other); /* a session of another tenant, by its id */
    for (int i = 1; i <= 3; i++)
        assert_next(all, i);
    assert_next(local, 3);
    assert_none(local);
    /* What others lose is no gap of theirs. */
    for (int i = 0; i < 2 * LIMIT_EVENTS; i++)
        bus_publish(bus, EVENT_OUTPUT, "two", "b", NULL);
    assert_none(one);
    bus_unsubscribe(one);
    bus_unsubscribe(other);
    bus_unsubscribe(all);
    bus_unsubscribe(local);
}

static uint64_t wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* An id says when, not how many there were before it. */
static void test_ids_do_not_count(void **state)
{
    struct bus *bus = *state;
    struct bus_reader *reader = bus_subscribe(bus, NULL, NULL, 0, NULL, NULL);
    uint64_t before, id, start = wall_us();

    while (wall_us() < start + 50)
        ;
    before = wall_us();
    publish(bus, "a", 1);
    id = assert_next(reader, 1);
    assert_true(id >= before && id <= wall_us());
    bus_unsubscribe(reader);
}

/* ---- slow readers -----------------------------------------------------------------------------
 */

static void test_a_slow_reader_is_told_one_gap(void **state)
{
    struct bus *bus = *state;
    struct bus_reader *slow = bus_subscribe(bus, NULL, NULL, 0, NULL, NULL);
    struct bus_reader *even = bus_subscribe(bus, NULL, "even", 0, NULL, NULL);
    struct bus_event gap;

    for (int i = 0; i < LIMIT_EVENTS + 10; i++)
        publish(bus, i % 2 ? "odd" : "even", i);
    gap = assert_gap(slow, 10);
    assert_string_equal(gap.session, "");
    assert_true(assert_next(slow, 10) > gap.id);
    for (int i = 11; i < LIMIT_EVENTS + 10; i++)
        assert_next(slow, i);
    assert_none(slow);
    gap = assert_gap(even, 5);
    assert_string_equal(gap.session, "even");
    for (int i = 10; i < LIMIT_EVENTS + 10; i += 2)
        assert_next(even, i);
    assert_none(even);
    bus_unsubscribe(slow);
    bus_unsubscribe(even);
}

static void test_exactly_as_many_as_are_kept(void **state)
{
    struct bus *bus = *state;
    struct bus_reader *reader = bus_subscribe(bus, NULL, NULL, 0, NULL, NULL);

    for (int i = 0; i < LIMIT_EVENTS; i++)
        publish(bus, "a", i);
    for (int i = 0; i < LIMIT_EVENTS; i++)
        assert_next(reader, i);
    assert_none(reader);
    bus_unsubscribe(reader);
}

/* A bound in bytes too: who is given long command lines does not hold all of them. */
static void test_few_long_ones_are_kept(void **state)
{
    const int fit = 16, more = 4;
    const size_t size = (LIMIT_EVENTS_BYTES - 1024) / (size_t)fit; /* with what is around it */
    struct bus *bus = *state;
    struct bus_reader *reader = bus_subscribe(bus, NULL, NULL, 0, NULL, NULL);
    char *text = calloc(2, LIMIT_EVENTS_BYTES);

    assert_non_null(text);
    memset(text, 'x', size);
    for (int i = 1; i <= fit + more; i++)
        bus_publish(bus, EVENT_OUTPUT, NULL, "a", json_pack("{s:i, s:s}", "n", i, "t", text));
    assert_gap(reader, more);
    for (int i = more + 1; i <= fit + more; i++)
        assert_next(reader, i);
    assert_none(reader);
    /* One that is longer than all of it pushes the others out, and is there itself. */
    memset(text, 'x', LIMIT_EVENTS_BYTES + 1);
    publish(bus, "a", 98);
    bus_publish(bus, EVENT_OUTPUT, NULL, "a", json_pack("{s:i, s:s}", "n", 99, "t", text));
    assert_gap(reader, 1);
    assert_next(reader, 99);
    publish(bus, "a", 100);
    assert_next(reader, 100);
    bus_unsubscribe(reader);
    free(text);
}

static void test_others_make_no_gap(void **state)
{
    struct bus *bus = *state;
    struct bus_reader *quiet = bus_subscribe(bus, NULL, "quiet", 0, NULL, NULL);

    for (int i = 0; i < 3 * LIMIT_EVENTS; i++)
        publish(bus, "loud", i);
    publish(bus, "quiet", 1);
    for (int i = 0; i < LIMIT_EVENTS / 2; i++)
        publish(bus, "loud", i);
    assert_next(quiet, 1);
    assert_none(quiet);
    bus_unsubscribe(quiet);
}

static void test_gaps_add_up_until_told(void **state)
{
    struct bus *bus = *state;
    struct bus_reader *reader = bus_subscribe(bus, NULL, NULL, 0, NULL, NULL);

    for (int i = 0; i < 3 * LIMIT_EVENTS; i++)
        publish(bus, "a", i);
    assert_gap(reader, 2 * LIMIT_EVENTS);
    assert_next(reader, 2 * LIMIT_EVENTS);
    publish(bus, "a", 3 * LIMIT_EVENTS);
    publish(bus, "a", 3 * LIMIT_EVENTS + 1);
    assert_gap(reader, 1);
    assert_next(reader, 2 * LIMIT_EVENTS + 2);
    bus_unsubscribe(reader);
}

/* ---- notify -----------------------------------------------------------------------------------
 */

struct watcher {
    struct bus *bus;
    struct bus_reader *reader;
    struct watcher *ends; /* unsubscribed when this one is told */
    struct watcher *begins;
    unsigned told;
    bool is_loud; /* publishes, which it may not */
    bool is_over; /* was unsubscribed */
};

static void told(void *ctx)
{
    struct watcher *watcher = ctx;

    assert_false(watcher->is_over);
    watcher->told++;
    if (watcher->is_loud)
        publish(watcher->bus, "a", 99);
    if (watcher->ends) {
        bus_unsubscribe(watcher->ends->reader);
        watcher->ends->reader = NULL;
        watcher->ends->is_over = true;
        watcher->ends = NULL;
    }
    if (watcher->begins) {
        watcher->begins->reader = bus_subscribe(watcher->bus, NULL, NULL, 0, told, watcher->begins);
        watcher->begins = NULL;
    }
}

static void test_told_of_what_concerns_it(void **state)
{
    struct watcher watcher = {0};

    watcher.reader = bus_subscribe(*state, NULL, "a", 0, told, &watcher);
    publish(*state, "b", 1);
    assert_int_equal(watcher.told, 0);
    publish(*state, "a", 2);
    publish(*state, "a", 3);
    assert_int_equal(watcher.told, 2);
    bus_unsubscribe(watcher.reader);
    publish(*state, "a", 4);
    assert_int_equal(watcher.told, 2);
}

/* Each of three may end each of them while all are being told. */
static void test_unsubscribing_while_being_told(void **state)
{
    for (int who = 0; who < 3; who++) {
        for (int whom = 0; whom < 3; whom++) {
            struct watcher watchers[3] = {0};
            unsigned told_last;

            for (int i = 0; i < 3; i++)
                watchers[i].reader = bus_subscribe(*state, NULL, NULL, 0, told, &watchers[i]);
            watchers[who].ends = &watchers[whom];
            publish(*state, "a", 1);
            told_last = watchers[whom].told;
            assert_true(told_last == 1 || who != whom);
            publish(*state, "a", 2);
            for (int i = 0; i < 3; i++)
                assert_int_equal(watchers[i].told, i == whom ? told_last : 2);
            for (int i = 0; i < 3; i++)
                bus_unsubscribe(watchers[i].reader);
        }
    }
}

static void test_subscribing_while_being_told(void **state)
{
    struct watcher late = {0}, early = {.bus = *state, .begins = &late};

    early.reader = bus_subscribe(*state, NULL, NULL, 0, told, &early);
    publish(*state, "a", 1);
    assert_non_null(late.reader);
    assert_int_equal(late.told, 0);
    assert_none(late.reader);
    publish(*state, "a", 2);
    assert_int_equal(late.told, 1);
    assert_next(late.reader, 2);
    bus_unsubscribe(early.reader);
    bus_unsubscribe(late.reader);
}

static void test_publishing_while_being_told_does_not_go_round(void **state)
{
    struct watcher watcher = {.bus = *state, .is_loud = true};

    watcher.reader = bus_subscribe(*state, NULL, NULL, 0, told, &watcher);
    publish(*state, "a", 1);
    assert_int_equal(watcher.told, 1);
    assert_next(watcher.reader, 1);
    assert_next(watcher.reader, 99);
    bus_unsubscribe(watcher.reader);
}

static void test_readers_outlive_the_bus(void **state)
{
    struct bus *bus = bus_new();
    struct bus_reader *reader;

    (void)state;
    assert_non_null(bus);
    reader = bus_subscribe(bus, NULL, NULL, 0, NULL, NULL);
    publish(bus, "a", 1);
    bus_free(bus);
    assert_none(reader);
    bus_unsubscribe(reader);
    bus_free(NULL);
}

/* ---- JSON -------------------------------------------------------------------------------------
 */

static void assert_json(const struct bus_event *event, const char *expected)
{
    json_t *json = bus_event_json(event);
    char *text = json_dumps(json, JSON_COMPACT);

    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
    json_decref(json);
}

static void test_json(void **state)
{
    struct bus_event event = {
        .id = 1763194504123456, .time_ms = 1794730504123, .type = EVENT_EXEC_EXITED};

    (void)state;
    assert_json(&event, "{\"id\":1763194504123456,\"time\":\"2026-11-15T08:15:04.123Z\","
                        "\"type\":\"exec.exited\",\"session_id\":null}");
    event.data = json_pack("{s:i, s:s, s:i}", "exit_code", 3, "type", "forged", "id", 1);
    memcpy(event.session, "ses_1", 6);
    assert_json(&event, "{\"id\":1763194504123456,\"time\":\"2026-11-15T08:15:04.123Z\","
                        "\"type\":\"exec.exited\",\"session_id\":\"ses_1\",\"exit_code\":3}");
    json_decref(event.data);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_names),
        TEST(test_new_events_in_order),
        TEST(test_one_session),
        TEST(test_resuming),
        TEST(test_ids_of_other_lives_begin_with_a_gap),
        TEST(test_ids_grow_over_a_restart),
        TEST(test_tenants_see_their_own),
        TEST(test_ids_do_not_count),
        TEST(test_a_slow_reader_is_told_one_gap),
        TEST(test_exactly_as_many_as_are_kept),
        TEST(test_few_long_ones_are_kept),
        TEST(test_others_make_no_gap),
        TEST(test_gaps_add_up_until_told),
        TEST(test_told_of_what_concerns_it),
        TEST(test_unsubscribing_while_being_told),
        TEST(test_subscribing_while_being_told),
        TEST(test_publishing_while_being_told_does_not_go_round),
        TEST(test_readers_outlive_the_bus),
        TEST(test_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
