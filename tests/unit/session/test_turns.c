/* test_turns.c - the queue before the maker: bounded, and fair between tenants. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "reactor.h"
#include "session/inside.h"

#define ASKED_MAX 512

/* A maker that answers when it is told to. */
struct shop {
    struct maker maker; /* first */
    struct engine engine;
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
    char order[2048]; /* keys in the order they came to the maker */
};

static int shop_make(struct maker *maker, const struct make_request *request,
                     const struct make_events *events, void *ctx, uint32_t *ret_serial,
                     struct error *err)
{
    struct shop *shop = (struct shop *)maker;
    size_t length = strlen(shop->order);

    if (shop->fails)
        return error_set(err, -EPIPE, ERROR_ENGINE, "the launcher is gone");
    assert_true(shop->count < ASKED_MAX);
    shop->asked[shop->count].serial = *ret_serial = 1000 + shop->count;
    str_copy(shop->asked[shop->count].key, ID_MAX, request->key);
    shop->asked[shop->count].events = events;
    shop->asked[shop->count++].ctx = ctx;
    snprintf(shop->order + length, sizeof(shop->order) - length, "%s ", request->key);
    return 0;
}

static void shop_cancel(struct maker *maker, uint32_t serial)
{
    struct shop *shop = (struct shop *)maker;

    shop->cancelled++;
    assert_true(serial >= 1000 && serial < 1000 + shop->count);
    shop->asked[serial - 1000].events = NULL;
}

static const struct maker_ops shop_ops = {
    .name = "shop", .make = shop_make, .make_cancel = shop_cancel};

/* The oldest request that is not answered. */
static void answer(struct shop *shop, bool is_made)
{
    struct made made = {0};
    struct box_facts facts = {0};
    struct error err = {0};
    unsigned at;

    do
        at = shop->answered++;
    while (!shop->asked[at].events);
    if (is_made)
        shop->asked[at].events->made(shop->asked[at].ctx, &made);
    else
        shop->asked[at].events->refused(shop->asked[at].ctx, &err, &facts);
}

static void on_made(void *ctx, const struct made *made)
{
    (void)made;
    ((struct shop *)ctx)->made++;
}

static void on_refused(void *ctx, const struct error *err, const struct box_facts *facts)
{
    (void)err;
    (void)facts;
    ((struct shop *)ctx)->refused++;
}

static const struct make_events events = {.made = on_made, .refused = on_refused};

static int set_up(void **state)
{
    struct shop *shop = calloc(1, sizeof(*shop));

    assert_non_null(shop);
    shop->maker.ops = &shop_ops;
    shop->engine.maker = &shop->maker;
    shop->engine.spec.config = &shop->config;
    shop->config.queue = 16;
    poll_reactor_init(&shop->reactor);
    shop->engine.spec.reactor = &shop->reactor.reactor;
    shop->engine.tenants = tenants_new(&shop->config);
    assert_non_null(shop->engine.tenants);
    shop->engine.turns = turns_new(&shop->engine);
    assert_non_null(shop->engine.turns);
    *state = shop;
    return 0;
}

static int tear_down(void **state)
{
    struct shop *shop = *state;

    turns_free(shop->engine.turns);
    tenants_free(shop->engine.tenants);
    poll_reactor_free(&shop->reactor);
    free(shop);
    return 0;
}

static int ask(struct shop *shop, const char *tenant, const char *key, uint32_t *ret_serial)
{
    char copy[ID_MAX]; /* what is asked with need not live on */
    struct make_request request = {.key = copy};
    struct error err = {0};
    uint32_t serial;
    int r;

    str_copy(copy, sizeof(copy), key);
    r = turns_make(shop->engine.turns, tenant, &request, &events, shop,
                   ret_serial ? ret_serial : &serial, &err);
    memset(copy, 'x', sizeof(copy));
    if (r == -EBUSY) {
        assert_ptr_equal(err.code, ERROR_BUSY);
        assert_int_equal(err.retry_s, 1);
        assert_non_null(strstr(err.text, "SANDBOX_QUEUE"));
    }
    return r;
}

/* As many as the maker takes at once. */
static void fill(struct shop *shop)
{
    for (int i = 0; i < LIMIT_MAKES_AT_ONCE; i++)
        assert_int_equal(ask(shop, "flood", "x", NULL), 0);
    assert_int_equal(shop->count, LIMIT_MAKES_AT_ONCE);
    assert_int_equal(turns_waiting(shop->engine.turns), 0);
    shop->order[0] = '\0';
}

static void test_at_once(void **state)
{
    struct shop *shop = *state;

    fill(shop);
    assert_int_equal(ask(shop, "flood", "y", NULL), 0);
    assert_int_equal(shop->count, LIMIT_MAKES_AT_ONCE); /* it waits */
    assert_int_equal(turns_waiting(shop->engine.turns), 1);
    answer(shop, true);
    assert_int_equal(shop->made, 1);
    assert_int_equal(shop->count, LIMIT_MAKES_AT_ONCE + 1);
    assert_string_equal(shop->order, "y ");
    answer(shop, false);
    assert_int_equal(shop->refused, 1);
}

static void test_tenants_take_turns(void **state)
{
    struct shop *shop = *state;

    fill(shop);
    for (int i = 0; i < 6; i++) {
        char key[8];

        snprintf(key, sizeof(key), "f%d", i);
        assert_int_equal(ask(shop, "flood", key, NULL), 0);
    }
    assert_int_equal(ask(shop, "one", "a0", NULL), 0);
    assert_int_equal(ask(shop, "one", "a1", NULL), 0);
    assert_int_equal(ask(shop, "two", "b0", NULL), 0);
    for (int i = 0; i < 9; i++)
        answer(shop, true);
    assert_string_equal(shop->order, "f0 a0 b0 f1 a1 f2 f3 f4 f5 ");
}

static void test_bound(void **state)
{
    struct shop *shop = *state;
    unsigned most = shop->config.queue - shop->config.queue / 8;
    struct error err = {0};

    fill(shop);
    for (unsigned i = 0; i < most; i++)
        assert_int_equal(ask(shop, "flood", "f", NULL), 0);
    assert_int_equal(ask(shop, "flood", "f", NULL), -EBUSY);
    assert_int_equal(turns_check(shop->engine.turns, "flood", &err), -EBUSY);
    /* There is room for another one still. */
    assert_int_equal(turns_check(shop->engine.turns, "one", &err), 0);
    assert_int_equal(ask(shop, "one", "a", NULL), 0);
    assert_int_equal(ask(shop, "one", "a", NULL), 0);
    assert_int_equal(ask(shop, "two", "b", NULL), -EBUSY);
    assert_int_equal(turns_waiting(shop->engine.turns), shop->config.queue);
    answer(shop, true);
    assert_int_equal(ask(shop, "two", "b", NULL), 0);
}

static void test_cancel(void **state)
{
    struct shop *shop = *state;
    uint32_t serials[4];

    fill(shop);
    for (int i = 0; i < 4; i++) {
        char key[8];

        snprintf(key, sizeof(key), "w%d", i);
        assert_int_equal(ask(shop, i % 2 ? "one" : "two", key, &serials[i]), 0);
    }
    turns_cancel(shop->engine.turns, serials[1]);
    turns_cancel(shop->engine.turns, serials[2]);
    turns_cancel(shop->engine.turns, serials[2]); /* nobody any more */
    assert_int_equal(shop->cancelled, 0);         /* the maker never heard of them */
    assert_int_equal(turns_waiting(shop->engine.turns), 2);
    for (int i = 0; i < 2; i++)
        answer(shop, true);
    assert_string_equal(shop->order, "w0 w3 ");
    turns_cancel(shop->engine.turns, serials[0]);
    assert_int_equal(shop->cancelled, 1);
    assert_int_equal(ask(shop, "one", "w4", NULL), 0); /* its place is free */
    assert_string_equal(shop->order, "w0 w3 w4 ");
    assert_int_equal(shop->made, 2);
}

static void test_last_of_a_line_cancelled(void **state)
{
    struct shop *shop = *state;
    uint32_t serial;

    fill(shop);
    assert_int_equal(ask(shop, "one", "a", NULL), 0);
    assert_int_equal(ask(shop, "one", "b", &serial), 0);
    turns_cancel(shop->engine.turns, serial);
    assert_int_equal(ask(shop, "one", "c", NULL), 0);
    for (int i = 0; i < 2; i++)
        answer(shop, true);
    assert_string_equal(shop->order, "a c ");
    assert_int_equal(turns_waiting(shop->engine.turns), 0);
}

static void test_maker_gone(void **state)
{
    struct shop *shop = *state;

    fill(shop);
    assert_int_equal(ask(shop, "one", "a", NULL), 0);
    assert_int_equal(ask(shop, "two", "b", NULL), 0);
    shop->fails = true;
    answer(shop, true); /* whoever waits is told */
    assert_int_equal(shop->refused, 2);
    assert_int_equal(turns_waiting(shop->engine.turns), 0);
    assert_int_equal(ask(shop, "one", "c", NULL), -EPIPE);
}

/* Beside another tenant: one box in an hour, so that nothing here depends on the time it takes. */
static void share(struct shop *shop, uint64_t gap_us)
{
    tenants_set_pace(shop->engine.tenants, gap_us, 1);
    tenant_seen(shop->engine.tenants, "flood", clock_now_ns() / 1000);
    tenant_seen(shop->engine.tenants, "one", clock_now_ns() / 1000);
}

static void test_pace(void **state)
{
    struct shop *shop = *state;

    share(shop, 3600000000);
    for (int i = 0; i < 4; i++) {
        char key[8];

        snprintf(key, sizeof(key), "f%d", i);
        assert_int_equal(ask(shop, "flood", key, NULL), 0);
    }
    assert_string_equal(shop->order, "f0 ");
    assert_int_equal(turns_waiting(shop->engine.turns), 3);
    /* Nobody else waits behind them. */
    assert_int_equal(ask(shop, "one", "a0", NULL), 0);
    assert_int_equal(ask(shop, "one", "a1", NULL), 0);
    assert_int_equal(ask(shop, "two", "b0", NULL), 0);
    assert_string_equal(shop->order, "f0 a0 b0 ");
    for (int i = 0; i < 3; i++)
        answer(shop, true);
    assert_string_equal(shop->order, "f0 a0 b0 "); /* it is not a matter of places */
    assert_int_equal(turns_waiting(shop->engine.turns), 4);
}

static void test_pace_goes_on_by_itself(void **state)
{
    struct shop *shop = *state;

    share(shop, 2000);
    for (int i = 0; i < 3; i++)
        assert_int_equal(ask(shop, "flood", "f", NULL), 0);
    while (shop->count < 3)
        poll_reactor_turn(&shop->reactor, 1000);
    assert_int_equal(turns_waiting(shop->engine.turns), 0);
}

static void test_alone_without_pace(void **state)
{
    struct shop *shop = *state;

    tenants_set_pace(shop->engine.tenants, 3600000000, 1);
    tenant_seen(shop->engine.tenants, "flood", clock_now_ns() / 1000);
    for (int i = 0; i < 4; i++)
        assert_int_equal(ask(shop, "flood", "f", NULL), 0);
    assert_int_equal(shop->count, 4);
}

/* Those who keep a pace are no more than the others who wait. */
static void test_pace_is_bounded(void **state)
{
    struct shop *shop = *state;
    unsigned most = shop->config.queue - shop->config.queue / 8;

    share(shop, 3600000000);
    for (unsigned i = 0; i < most + 1; i++)
        assert_int_equal(ask(shop, "flood", "f", NULL), 0);
    assert_int_equal(ask(shop, "flood", "f", NULL), -EBUSY);
    assert_int_equal(ask(shop, "one", "a", NULL), 0);
    assert_int_equal(shop->count, 2);
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
        TEST(test_maker_gone),
        TEST(test_pace),
        TEST(test_pace_goes_on_by_itself),
        TEST(test_alone_without_pace),
        TEST(test_pace_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
