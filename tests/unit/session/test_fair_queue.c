/* test_fair_queue.c - the queue before the provider: bounded, and fair between tenants. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "reactor.h"
#include "session/fair_share.h"
#include "session/session_private.h"

#define ASKED_MAX 1024

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
    unsigned count, answered, ended, cancelled, made, refused;
    const struct provider_row *row; /* of the requests */
    bool fails;
    char order[4096]; /* keys in the order they came to the provider */
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
    struct made made = {0}; /* its number is the request's serial */
    struct box_facts facts = {0};
    struct error err = {0};
    unsigned at;

    do
        at = fixture->answered++;
    while (!fixture->asked[at].events);
    made.number = 1000 + at;
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
    struct make_request request = {.key = copy, .provider = fixture->row};
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

static void ask_many(struct engine_fixture *fixture, const char *tenant, const char *key, int count)
{
    for (int i = 0; i < count; i++)
        assert_int_equal(ask(fixture, tenant, key, NULL), 0);
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

/* The same, and the others have had their part: each has boxes in service, which are not made. */
static void fill_for_all(struct engine_fixture *fixture)
{
    fair_queue_set_window(fixture->manager.fair_queue, 1, 3600000);
    fill(fixture);
    assert_int_equal(ask(fixture, "one", "x", NULL), 0);
    assert_int_equal(ask(fixture, "two", "x", NULL), 0);
    assert_int_equal(fixture->count, LIMIT_MAKES_AT_ONCE + 2);
    fixture->order[0] = '\0';
}

/* The oldest box that is made and has not ended, or the oldest that is not made, ends. */
static void end_one(struct engine_fixture *fixture)
{
    while (fixture->ended < fixture->answered && !fixture->asked[fixture->ended].events)
        fixture->ended++; /* cancelled */
    if (fixture->ended == fixture->answered)
        answer(fixture, true);
    fair_queue_over(fixture->manager.fair_queue, 1000 + fixture->ended++);
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

    fill_for_all(fixture);
    for (int i = 0; i < 6; i++) {
        char key[8];

        snprintf(key, sizeof(key), "f%d", i);
        assert_int_equal(ask(fixture, "flood", key, NULL), 0);
    }
    assert_int_equal(ask(fixture, "one", "a0", NULL), 0);
    assert_int_equal(ask(fixture, "one", "a1", NULL), 0);
    assert_int_equal(ask(fixture, "two", "b0", NULL), 0);
    while (fair_queue_waiting(fixture->manager.fair_queue))
        end_one(fixture);
    assert_string_equal(fixture->order, "f0 a0 b0 f1 a1 f2 f3 f4 f5 ");
}

static void test_bound(void **state)
{
    struct engine_fixture *fixture = *state;
    unsigned most = fixture->config.queue - fixture->config.queue / 8;
    struct error err = {0};

    fill_for_all(fixture);
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
    while (fair_queue_waiting(fixture->manager.fair_queue) == fixture->config.queue)
        end_one(fixture);
    assert_int_equal(ask(fixture, "two", "b", NULL), 0);
}

static void test_cancel(void **state)
{
    struct engine_fixture *fixture = *state;
    uint32_t serials[4];

    fill_for_all(fixture);
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
    while (fair_queue_waiting(fixture->manager.fair_queue))
        end_one(fixture);
    assert_string_equal(fixture->order, "w3 w0 "); /* in the order in which their boxes ended */
    fair_queue_cancel(fixture->manager.fair_queue, serials[0]);
    assert_int_equal(fixture->cancelled, 1);
}

static void test_cancelled_leaves_its_place(void **state)
{
    struct engine_fixture *fixture = *state;
    uint32_t serial;

    assert_int_equal(ask(fixture, "flood", "x", &serial), 0);
    ask_many(fixture, "flood", "x", LIMIT_MAKES_AT_ONCE - 1);
    assert_int_equal(ask(fixture, "flood", "y", NULL), 0);
    assert_int_equal(fixture->count, LIMIT_MAKES_AT_ONCE);
    fair_queue_cancel(fixture->manager.fair_queue, serial);
    assert_int_equal(fixture->cancelled, 1);
    assert_int_equal(fixture->count, LIMIT_MAKES_AT_ONCE + 1);
    assert_int_equal(fixture->made, 0);
}

static void test_last_of_a_line_cancelled(void **state)
{
    struct engine_fixture *fixture = *state;
    uint32_t serial;

    fill_for_all(fixture);
    assert_int_equal(ask(fixture, "one", "a", NULL), 0);
    assert_int_equal(ask(fixture, "one", "b", &serial), 0);
    fair_queue_cancel(fixture->manager.fair_queue, serial);
    assert_int_equal(ask(fixture, "one", "c", NULL), 0);
    while (fair_queue_waiting(fixture->manager.fair_queue))
        end_one(fixture);
    assert_string_equal(fixture->order, "a c ");
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 0);
}

static void test_provider_gone(void **state)
{
    struct engine_fixture *fixture = *state;

    fill_for_all(fixture);
    assert_int_equal(ask(fixture, "one", "a", NULL), 0);
    assert_int_equal(ask(fixture, "two", "b", NULL), 0);
    fixture->fails = true;
    while (fair_queue_waiting(fixture->manager.fair_queue))
        end_one(fixture); /* whoever waits is told */
    assert_int_equal(fixture->refused, 2);
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 0);
    assert_int_equal(ask(fixture, "one", "c", NULL), -EPIPE);
}

/* ---- beside others ---- */

/* Three boxes fill the machine, and each is in service until it ends. */
static void compete(struct engine_fixture *fixture)
{
    fair_queue_set_window(fixture->manager.fair_queue, 3, 3600000);
}

static unsigned count_of(const struct engine_fixture *fixture, char key)
{
    unsigned count = 0;

    for (const char *at = fixture->order; *at; at++)
        count += *at == key;
    return count;
}

static void test_alone_has_no_window(void **state)
{
    struct engine_fixture *fixture = *state;

    compete(fixture);
    tenant_works(fixture->manager.tenants, "flood"); /* however much it does itself */
    ask_many(fixture, "flood", "f", LIMIT_MAKES_AT_ONCE);
    assert_int_equal(fixture->count, LIMIT_MAKES_AT_ONCE);
    for (int i = 0; i < 100; i++) { /* none of them has ended, and it does not matter */
        answer(fixture, true);
        ask_many(fixture, "flood", "f", 1);
    }
    assert_int_equal(fixture->count, LIMIT_MAKES_AT_ONCE + 100);
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 0);
}

static void test_waits_only_while_another_works(void **state)
{
    struct engine_fixture *fixture = *state;

    compete(fixture);
    tenant_works(fixture->manager.tenants, "one"); /* a cell, say: it has no box in service */
    ask_many(fixture, "flood", "f", 5);
    assert_int_equal(fixture->count, 3); /* the machine is full */
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 2);
    tenant_rests(fixture->manager.tenants, "one");
    end_one(fixture);
    assert_int_equal(fixture->count, 5);
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 0);
}

static void test_below_its_share_does_not_wait(void **state)
{
    struct engine_fixture *fixture = *state;

    compete(fixture);
    ask_many(fixture, "flood", "f", 14);
    assert_int_equal(fixture->count, LIMIT_MAKES_AT_ONCE); /* it was alone */
    fixture->order[0] = '\0';
    ask_many(fixture, "one", "a", 1);
    assert_string_equal(fixture->order, "a ");
    ask_many(fixture, "two", "b", 1);
    assert_string_equal(fixture->order, "a b ");
    ask_many(fixture, "one", "a", 1); /* a second one of the same is beyond its part */
    assert_string_equal(fixture->order, "a b ");
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 7);
    /* Until there is room, nobody gets more; then they take turns. */
    for (int i = 0; i < 7; i++)
        end_one(fixture);
    assert_string_equal(fixture->order, "a b ");
    end_one(fixture);
    assert_string_equal(fixture->order, "a b f "); /* equal, and it has waited longer */
    end_one(fixture);
    assert_string_equal(fixture->order, "a b f a ");
}

#define CORES 2
#define COST 5000

/*
 * A machine of two cores, on which the boxes in service compute: a tenant's boxes have its share of
 * it together, as control groups divide it, and one box has no more than one core. Each connection
 * asks for the next box when its last one has ended. Advances until the next one ends.
 */
static void compute(struct engine_fixture *fixture, double *left, const char *tenants)
{
    unsigned counts[2] = {0}, first = 0;
    double speed[ASKED_MAX] = {0}, soonest = 1e9;

    while (fixture->answered < fixture->count)
        answer(fixture, true);
    for (unsigned i = 0; i < fixture->count; i++) {
        if (left[i] > 0)
            counts[fixture->asked[i].key[0] == tenants[1]]++;
    }
    for (unsigned i = 0; i < fixture->count; i++) {
        unsigned who = fixture->asked[i].key[0] == tenants[1], others = counts[!who];
        /* What the other one cannot use is this one's. */
        double mine = CORES - (others ? others < CORES / 2 ? others : CORES / 2 : 0);

        if (left[i] <= 0)
            continue;
        speed[i] = mine / counts[who] < 1 ? mine / counts[who] : 1;
        if (left[i] / speed[i] < soonest) {
            soonest = left[i] / speed[i];
            first = i;
        }
    }
    for (unsigned i = 0; i < fixture->count; i++) {
        if (speed[i] > 0) /* those that end at the same time are next */
            left[i] = left[i] > speed[i] * soonest ? left[i] - speed[i] * soonest : 1e-9;
    }
    left[first] = 0;
    fair_queue_over(fixture->manager.fair_queue, 1000 + first);
    ask_many(fixture, fixture->asked[first].key[0] == 'f' ? "flood" : "one",
             fixture->asked[first].key, 1);
}

/* The percentage of boxes that "one" gets, with so many connections of both. */
static unsigned share_of_one(struct engine_fixture *fixture, int flood, int one)
{
    static double left[ASKED_MAX];

    for (int i = 0; i < ASKED_MAX; i++)
        left[i] = COST;
    compete(fixture);
    fixture->config.queue = 64;
    ask_many(fixture, "flood", "f", flood);
    ask_many(fixture, "one", "a", one);
    while (fixture->count < ASKED_MAX - 16)
        compute(fixture, left, "fa");
    return count_of(fixture, 'a') * 100 / (count_of(fixture, 'a') + count_of(fixture, 'f'));
}

static void test_three_connections_against_one(void **state)
{
    assert_in_range(share_of_one(*state, 3, 1), 40, 55);
}

static void test_two_floods(void **state)
{
    assert_in_range(share_of_one(*state, 20, 8), 45, 55);
}

/* Boxes of one cost ten times as much: it gets about a tenth of them. */
static void test_cost_decides(void **state)
{
    struct engine_fixture *fixture = *state;

    compete(fixture);
    ask_many(fixture, "flood", "f", 8);
    ask_many(fixture, "one", "a", 8);
    for (int i = 0; i < 400; i++) {
        bool is_dear = fixture->asked[fixture->ended].key[0] == 'f';

        fair_queue_used(fixture->manager.fair_queue, is_dear ? "flood" : "one",
                        is_dear ? 9 * FAIR_BOX_US : 0);
        ask_many(fixture, is_dear ? "flood" : "one", is_dear ? "f" : "a", 1);
        end_one(fixture);
    }
    assert_in_range(count_of(fixture, 'f'), 15, 40);
}

/* Who was away has no credit: the two take turns from its first request on. */
static void test_no_hoard(void **state)
{
    struct engine_fixture *fixture = *state;

    compete(fixture);
    ask_many(fixture, "one", "a", 1);
    end_one(fixture);
    for (int i = 0; i < 100; i++) {
        ask_many(fixture, "flood", "f", 1);
        end_one(fixture);
    }
    fair_queue_set_window(fixture->manager.fair_queue, 1, 3600000);
    ask_many(fixture, "flood", "f", 7); /* it has been alone, and goes on */
    fixture->order[0] = '\0';
    ask_many(fixture, "flood", "f", 3);
    ask_many(fixture, "one", "a", 5);
    while (fixture->ended < fixture->count)
        end_one(fixture);
    assert_true(strncmp(fixture->order, "f a ", 4) == 0 || strncmp(fixture->order, "a f ", 4) == 0);
    assert_non_null(strstr(fixture->order, "a f a f"));
}

/* After its time in service a box that still runs holds nobody back. */
static void test_service_ends_by_itself(void **state)
{
    struct engine_fixture *fixture = *state;

    fair_queue_set_window(fixture->manager.fair_queue, 1, 1);
    tenant_works(fixture->manager.tenants, "one");
    ask_many(fixture, "flood", "f", 3);
    assert_int_equal(fixture->count, 1);
    for (unsigned i = 1; i < 3; i++) {
        answer(fixture, true);
        while (fixture->count == i)
            poll_reactor_turn(&fixture->reactor, 1000);
    }
    assert_int_equal(fair_queue_waiting(fixture->manager.fair_queue), 0);
}

/* Boxes that another engine makes are no work of this machine. */
static void test_elsewhere_has_no_window(void **state)
{
    static const struct provider_row row = {.name = "far", .can = PROVIDER_HOSTED};
    struct engine_fixture *fixture = *state;

    compete(fixture);
    fixture->row = &row;
    tenant_works(fixture->manager.tenants, "one");
    ask_many(fixture, "flood", "f", LIMIT_MAKES_AT_ONCE + 1);
    assert_int_equal(fixture->count, LIMIT_MAKES_AT_ONCE);
    ask_many(fixture, "one", "a", 1);
    answer(fixture, true);
    answer(fixture, true);
    assert_int_equal(fixture->count, LIMIT_MAKES_AT_ONCE + 2);
}

/* Tenants come and go: what is kept of them is bounded by those that want or owe something. */
static void test_many_tenants(void **state)
{
    struct engine_fixture *fixture = *state;
    char name[TENANT_MAX];

    compete(fixture);
    for (unsigned i = 0; i < 2 * LIMIT_TENANTS; i++) {
        snprintf(name, sizeof(name), "t%u", i);
        fair_queue_used(fixture->manager.fair_queue, name, 1000);
    }
    ask_many(fixture, "one", "a", 1);
    answer(fixture, true);
    assert_string_equal(fixture->order, "a ");
}

/* Those who wait for their turn are no more than the others who wait. */
static void test_turns_are_bounded(void **state)
{
    struct engine_fixture *fixture = *state;
    unsigned most = fixture->config.queue - fixture->config.queue / 8;

    compete(fixture);
    tenant_works(fixture->manager.tenants, "one");
    ask_many(fixture, "flood", "f", (int)most + 3);
    assert_int_equal(ask(fixture, "flood", "f", NULL), -EBUSY);
    assert_int_equal(ask(fixture, "one", "a", NULL), 0);
    assert_int_equal(fixture->count, 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_at_once),
        TEST(test_tenants_take_turns),
        TEST(test_bound),
        TEST(test_cancel),
        TEST(test_cancelled_leaves_its_place),
        TEST(test_last_of_a_line_cancelled),
        TEST(test_provider_gone),
        TEST(test_alone_has_no_window),
        TEST(test_waits_only_while_another_works),
        TEST(test_below_its_share_does_not_wait),
        TEST(test_three_connections_against_one),
        TEST(test_two_floods),
        TEST(test_cost_decides),
        TEST(test_no_hoard),
        TEST(test_service_ends_by_itself),
        TEST(test_elsewhere_has_no_window),
        TEST(test_many_tenants),
        TEST(test_turns_are_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
