/* test_fair_queue.c - the queue before the provider: bounded, and fair between tenants. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "reactor.h"
#include "session/session_private.h"

#define ASKED_MAX 512

/* A provider that answers when it is told to. */
struct engine_fixture {
    struct provider provider; /* first */
    struct session_manager manager;
    struct config config;
    struct poll_reactor reactor;
    struct {
        uint32_t serial;
        char key[ID_MAX];
        const struct make_events *events;
        void *ctx;
    } asked[ASKED_MAX];
    unsigned count, answered, cancelled, made, refused;
    bool fails;
    char order[2048]; /* keys in the order they came to the provider */
};

static int fixture_make(struct provider *provider, const struct make_request *request,
                        const struct make_events *events, void *ctx, uint32_t *ret_serial,
                        struct error *err)
{
    struct engine_fixture *fixture = (struct engine_fixture *)provider;
    size_t length = strlen(fixture->order);

    if (fixture->fails)
        return error_set(err, -EPIPE, ERROR_ENGINE, "the launcher is gone");
    assert_true(fixture->count < ASKED_MAX);
    fixture->asked[fixture->count].serial = *ret_serial = 1000 + fixture->count;
    str_copy(fixture->asked[fixture->count].key, ID_MAX, request->key);
    fixture->asked[fixture->count].events = events;
    fixture->asked[fixture->count++].ctx = ctx;
    snprintf(fixture->order + length, sizeof(fixture->order) - length, "%s ", request->key);
    return 0;
}

static void fixture_cancel(struct provider *provider, uint32_t serial)
{
    struct engine_fixture *fixture = (struct engine_fixture *)provider;

    fixture->cancelled++;
    assert_true(serial >= 1000 && serial < 1000 + fixture->count);
    fixture->asked[serial - 1000].events = NULL;
}

static const struct provider_ops fixture_ops = {
    .name = "shop", .make = fixture_make, .make_cancel = fixture_cancel};

/* The oldest request that is not answered. */
static void answer(struct engine_fixture *fixture, bool is_made)
{
    struct made made = {0};
    struct box_facts facts = {0};
    struct error err = {0};
    unsigned at;

    do
        at = fixture->answered++;
    while (!fixture->asked[at].events);
    if (is_made)
        fixture->asked[at].events->made(fixture->asked[at].ctx, &made);
    else
        fixture->asked[at].events->refused(fixture->asked[at].ctx, &err, &facts);
}

static void on_made(void *ctx, const struct made *made)
{
    (void)made;
    ((struct engine_fixture *)ctx)->made++;
}

static void on_refused(void *ctx, const struct error *err, const struct box_facts *facts)
{
    (void)err;
    (void)facts;
    ((struct engine_fixture *)ctx)->refused++;
}

static const struct make_events events = {.made = on_made, .refused = on_refused};

static int set_up(void **state)
{
    struct engine_fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    fixture->provider.ops = &fixture_ops;
    fixture->manager.provider = &fixture->provider;
    fixture->manager.spec.config = &fixture->config;
    fixture->config.queue = 16;
    poll_reactor_init(&fixture->reactor);
    fixture->manager.spec.reactor = &fixture->reactor.reactor;
    fixture->manager.tenants = tenants_new(&fixture->config);
    assert_non_null(fixture->manager.tenants);
    fixture->manager.fair_queue = fair_queue_new(&fixture->manager);
    assert_non_null(fixture->manager.fair_queue);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct engine_fixture *fixture = *state;

    fair_queue_free(fixture->manager.fair_queue);
    tenants_free(fixture->manager.tenants);
    poll_reactor_free(&fixture->reactor);
    free(fixture);
    return 0;
}

static int ask(struct engine_fixture *fixture, const char *tenant, const char *key,
               uint32_t *ret_serial)
{
    char copy[ID_MAX]; /* what is asked with need not live on */
    struct make_request request = {.key = copy};
    struct error err = {0};
    uint32_t serial;
    int r;

    str_copy(copy, sizeof(copy), key);
    r = fair_queue_make(fixture->manager.fair_queue, tenant, &request, &events, fixture,
                        ret_serial ? ret_serial : &serial, &err);
    memset(copy, 'x', sizeof(copy));
    if (r == -EBUSY) {
        assert_ptr_equal(err.code, ERROR_BUSY);
        assert_int_equal(err.retry_s, 1);
        assert_non_null(strstr(err.text, "SANDBOX_QUEUE"));
    }
    return r;
}

/* As many as the provider takes at once. */
static void fill(struct engine_fixture *fixture)
{
    for (int i = 0; i < LIMIT_MAKES_AT_ONCE; i++)
        assert_int_equal(ask(fixture, "flood", "x", NULL), 0);
    assert_int_equal(fixture->count, LIMIT_MAKES_AT_ONCE);
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 0);
    fixture->order[0] = '\0';
}

static void test_at_once(void **state)
{
    struct engine_fixture *fixture = *state;

    fill(fixture);
    assert_int_equal(ask(fixture, "flood", "y", NULL), 0);
    assert_int_equal(fixture->count, LIMIT_MAKES_AT_ONCE); /* it waits */
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 1);
    answer(fixture, true);
    assert_int_equal(fixture->made, 1);
    assert_int_equal(fixture->count, LIMIT_MAKES_AT_ONCE + 1);
    assert_string_equal(fixture->order, "y ");
    answer(fixture, false);
    assert_int_equal(fixture->refused, 1);
}

static void test_tenants_take_turns(void **state)
{
    struct engine_fixture *fixture = *state;

    fill(fixture);
    for (int i = 0; i < 6; i++) {
        char key[8];

        snprintf(key, sizeof(key), "f%d", i);
        assert_int_equal(ask(fixture, "flood", key, NULL), 0);
    }
    assert_int_equal(ask(fixture, "one", "a0", NULL), 0);
    assert_int_equal(ask(fixture, "one", "a1", NULL), 0);
    assert_int_equal(ask(fixture, "two", "b0", NULL), 0);
    for (int i = 0; i < 9; i++)
        answer(fixture, true);
    assert_string_equal(fixture->order, "f0 a0 b0 f1 a1 f2 f3 f4 f5 ");
}

static void test_bound(void **state)
{
    struct engine_fixture *fixture = *state;
    unsigned most = fixture->config.queue - fixture->config.queue / 8;
    struct error err = {0};

    fill(fixture);
    for (unsigned i = 0; i < most; i++)
        assert_int_equal(ask(fixture, "flood", "f", NULL), 0);
    assert_int_equal(ask(fixture, "flood", "f", NULL), -EBUSY);
    assert_int_equal(fair_queue_check(fixture->manager.fair_queue, "flood", &err), -EBUSY);
    /* There is room for another one still. */
    assert_int_equal(fair_queue_check(fixture->manager.fair_queue, "one", &err), 0);
    assert_int_equal(ask(fixture, "one", "a", NULL), 0);
    assert_int_equal(ask(fixture, "one", "a", NULL), 0);
    assert_int_equal(ask(fixture, "two", "b", NULL), -EBUSY);
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), fixture->config.queue);
    answer(fixture, true);
    assert_int_equal(ask(fixture, "two", "b", NULL), 0);
}

static void test_cancel(void **state)
{
    struct engine_fixture *fixture = *state;
    uint32_t serials[4];

    fill(fixture);
    for (int i = 0; i < 4; i++) {
        char key[8];

        snprintf(key, sizeof(key), "w%d", i);
        assert_int_equal(ask(fixture, i % 2 ? "one" : "two", key, &serials[i]), 0);
    }
    fair_queue_cancel(fixture->manager.fair_queue, serials[1]);
    fair_queue_cancel(fixture->manager.fair_queue, serials[2]);
    fair_queue_cancel(fixture->manager.fair_queue, serials[2]); /* nobody any more */
    assert_int_equal(fixture->cancelled, 0); /* the provider never heard of them */
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 2);
    for (int i = 0; i < 2; i++)
        answer(fixture, true);
    assert_string_equal(fixture->order, "w0 w3 ");
    fair_queue_cancel(fixture->manager.fair_queue, serials[0]);
    assert_int_equal(fixture->cancelled, 1);
    assert_int_equal(ask(fixture, "one", "w4", NULL), 0); /* its place is free */
    assert_string_equal(fixture->order, "w0 w3 w4 ");
    assert_int_equal(fixture->made, 2);
}

static void test_last_of_a_line_cancelled(void **state)
{
    struct engine_fixture *fixture = *state;
    uint32_t serial;

    fill(fixture);
    assert_int_equal(ask(fixture, "one", "a", NULL), 0);
    assert_int_equal(ask(fixture, "one", "b", &serial), 0);
    fair_queue_cancel(fixture->manager.fair_queue, serial);
    assert_int_equal(ask(fixture, "one", "c", NULL), 0);
    for (int i = 0; i < 2; i++)
        answer(fixture, true);
    assert_string_equal(fixture->order, "a c ");
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 0);
}

static void test_provider_gone(void **state)
{
    struct engine_fixture *fixture = *state;

    fill(fixture);
    assert_int_equal(ask(fixture, "one", "a", NULL), 0);
    assert_int_equal(ask(fixture, "two", "b", NULL), 0);
    fixture->fails = true;
    answer(fixture, true); /* whoever waits is told */
    assert_int_equal(fixture->refused, 2);
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 0);
    assert_int_equal(ask(fixture, "one", "c", NULL), -EPIPE);
}

/* Beside another tenant: one box in an hour, so that nothing here depends on the time it takes. */
static void share(struct engine_fixture *fixture, uint64_t gap_us)
{
    tenants_set_pace(fixture->manager.tenants, gap_us, 1);
    tenant_works(fixture->manager.tenants, "flood");
    tenant_works(fixture->manager.tenants, "one");
}

static void test_pace(void **state)
{
    struct engine_fixture *fixture = *state;

    share(fixture, 3600000000);
    for (int i = 0; i < 4; i++) {
        char key[8];

        snprintf(key, sizeof(key), "f%d", i);
        assert_int_equal(ask(fixture, "flood", key, NULL), 0);
    }
    assert_string_equal(fixture->order, "f0 ");
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 3);
    /* Nobody else waits behind them. */
    assert_int_equal(ask(fixture, "one", "a0", NULL), 0);
    assert_int_equal(ask(fixture, "one", "a1", NULL), 0);
    assert_int_equal(ask(fixture, "two", "b0", NULL), 0);
    assert_string_equal(fixture->order, "f0 a0 b0 ");
    for (int i = 0; i < 3; i++)
        answer(fixture, true);
    assert_string_equal(fixture->order, "f0 a0 b0 "); /* it is not a matter of places */
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 4);
}

static void test_pace_goes_on_by_itself(void **state)
{
    struct engine_fixture *fixture = *state;

    share(fixture, 2000);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask(fixture, "flood", "f", NULL), 0);
    while (fixture->count < 3)
        poll_reactor_turn(&fixture->reactor, 1000);
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 0);
}

static void test_alone_without_pace(void **state)
{
    struct engine_fixture *fixture = *state;

    tenants_set_pace(fixture->manager.tenants, 3600000000, 1);
    tenant_works(fixture->manager.tenants, "flood");
    for (int i = 0; i < 4; i++)
        assert_int_equal(ask(fixture, "flood", "f", NULL), 0);
    assert_int_equal(fixture->count, 4);
}

/* Those who keep a pace are no more than the others who wait. */
static void test_pace_is_bounded(void **state)
{
    struct engine_fixture *fixture = *state;
    unsigned most = fixture->config.queue - fixture->config.queue / 8;

    share(fixture, 3600000000);
    for (unsigned i = 0; i < most + 1; i++)
        assert_int_equal(ask(fixture, "flood", "f", NULL), 0);
    assert_int_equal(ask(fixture, "flood", "f", NULL), -EBUSY);
    assert_int_equal(ask(fixture, "one", "a", NULL), 0);
    assert_int_equal(fixture->count, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_at_once),
        TEST(test_tenants_take_turns),
        TEST(test_bound),
        TEST(test_cancel),
        TEST(test_last_of_a_line_cancelled),
        TEST(test_provider_gone),
        TEST(test_pace),
        TEST(test_pace_goes_on_by_itself),
        TEST(test_alone_without_pace),
        TEST(test_pace_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
