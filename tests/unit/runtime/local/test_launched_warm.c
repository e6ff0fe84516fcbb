/* test_launched_warm.c - kernels, layers and looks through a launcher that this file fakes. */
#include "runtime/fake_launcher.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "boxes/boxes.h"
#include "runtime/box/box.h"
#include "runtime/provider_ops.h"

#define LAYER "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct stage {
    struct poll_reactor loop;
    struct provider *provider;
    int launcher_fd; /* our end */
    unsigned made, kernels, ends, layer_commits, states, looks, verdicts, used;
    int num;
    struct made box;
    struct kernel_end end;
    struct layer_committed layer_committed;
    struct error error;
    struct warm_state state[4];
    char verdict[400];
    char spent[100];
};

static void on_nothing(void *ctx)
{
    (void)ctx;
}

static void on_made(void *ctx, const struct made *made)
{
    struct stage *stage = ctx;

    stage->made++;
    stage->box = *made;
}

static void on_used(void *ctx, const struct box_facts *facts)
{
    struct stage *stage = ctx;

    (void)facts;
    stage->used++;
}

static void on_kernel(void *ctx, int num)
{
    struct stage *stage = ctx;

    stage->kernels++;
    stage->num = num;
}

static void on_kernel_ended(void *ctx, const struct kernel_end *end)
{
    struct stage *stage = ctx;

    stage->ends++;
    stage->end = *end;
}

static void on_layer_committed(void *ctx, const struct layer_committed *layer_committed,
                               const struct error *err)
{
    struct stage *stage = ctx;

    stage->layer_commits++;
    stage->layer_committed = *layer_committed;
    stage->error = *err;
}

static void on_state(void *ctx, const struct warm_state *state)
{
    struct stage *stage = ctx;

    stage->state[stage->states++ % 4] = *state;
}

static void on_looked(void *ctx)
{
    ((struct stage *)ctx)->looks++;
}

static void on_verdict(void *ctx, uint32_t number, bool is_allowed, const char *host, unsigned port,
                       const char *reason)
{
    struct stage *stage = ctx;

    stage->verdicts++;
    snprintf(stage->verdict, sizeof(stage->verdict), "%u %d %s %u %s", number, is_allowed, host,
             port, reason);
}

static void on_spent(void *ctx, const char *tenant, uint64_t cpu_us)
{
    struct stage *stage = ctx;

    snprintf(stage->spent, sizeof(stage->spent), "%s %llu", tenant, (unsigned long long)cpu_us);
}

static const struct launched_events events = {
    .gone = on_nothing, .kernel_ended = on_kernel_ended, .verdict = on_verdict, .spent = on_spent};
static const struct make_events make_events = {.made = on_made};

static void answer(struct stage *stage, const struct launcher_message *message, int fd)
{
    say(&stage->loop, stage->launcher_fd, message, fd);
}

static int set_up(void **state)
{
    struct stage *stage = calloc(1, sizeof(*stage));
    int pair[2];

    if (!stage)
        return -1;
    pair_of(pair);
    poll_reactor_init(&stage->loop);
    stage->launcher_fd = pair[0];
    assert_int_equal(launched_open(&stage->loop.reactor, pair[1], provider_known("local"), &events,
                                   stage, &stage->provider, NULL),
                     0);
    expect(stage->launcher_fd, LAUNCHER_HELLO);
    *state = stage;
    return 0;
}

static int tear_down(void **state)
{
    struct stage *stage = *state;

    launched_close(stage->provider);
    close(stage->launcher_fd);
    poll_reactor_free(&stage->loop);
    free(stage);
    return 0;
}

static int make(struct stage *stage, const struct make_request *request,
                struct launcher_message *ret)
{
    struct error err = {0};
    uint32_t serial;
    int r =
        stage->provider->ops->make(stage->provider, request, &make_events, stage, &serial, &err);

    if (r == 0)
        *ret = expect(stage->launcher_fd, LAUNCHER_MAKE);
    return r;
}

/* ---- tests ---- */

static void test_what_a_box_is_asked_with(void **state)
{
    struct stage *stage = *state;
    struct launcher_message message;
    struct make_request request = {.key = "s_1"};

    assert_int_equal(make(stage, &request, &message), 0);
    assert_int_equal(message.make.tier, TIER_NONE);
    assert_int_equal(message.make.kernel, 0);
    assert_int_equal(message.make.staging, STAGING_NONE);
    assert_string_equal(message.make.layer, "");

    request.is_warm = request.has_packages = true;
    request.tier = 2;
    request.layer = LAYER;
    request.staging = MAKE_INSTALLER_PACKAGES;
    assert_int_equal(make(stage, &request, &message), 0);
    assert_int_equal(message.make.tier, 2);
    assert_int_equal(message.make.kernel, KERNEL_FIRST);
    assert_int_equal(message.make.staging, STAGING_PACKAGES);
    assert_string_equal(message.make.layer, LAYER);
    assert_true(message.make.has_packages);

    request.tier = TIERS_MAX; /* none has it: cold then */
    assert_int_equal(make(stage, &request, &message), 0);
    assert_int_equal(message.make.tier, TIER_NONE);
    request.layer = "../../etc";
    assert_int_equal(make(stage, &request, &message), -EINVAL);
    request.layer = LAYER "0";
    assert_int_equal(make(stage, &request, &message), -EINVAL);
    expect_nothing(stage->launcher_fd);
}

static void test_a_box_with_a_kernel(void **state)
{
    struct stage *stage = *state;
    struct launcher_message message;
    struct make_request request = {.key = "s_1", .is_warm = true};
    uint32_t serial;
    int pair[2];

    assert_int_equal(make(stage, &request, &message), 0);
    serial = message.make.serial;
    pair_of(pair);
    close(pair[1]);
    message = (struct launcher_message){.type = LAUNCHER_MADE,
                                        .box = {.serial = serial,
                                                .number = 4,
                                                .key = "s_1",
                                                .kernel = KERNEL_FIRST,
                                                .is_pooled = true}};
    answer(stage, &message, pair[0]);
    assert_int_equal(stage->made, 1);
    assert_int_equal(stage->box.kernel, KERNEL_FIRST);
    assert_true(stage->box.is_pooled);
    stage->provider->ops->end(stage->provider, 4, stage->box.box, NULL, NULL);
}

static void test_kernels(void **state)
{
    struct stage *stage = *state;
    struct launcher_message message;

    stage->provider->ops->kernel(stage->provider, 4, 9, 1, on_kernel, stage);
    message = expect(stage->launcher_fd, LAUNCHER_KERNEL);
    assert_int_equal(message.kernel.number, 4);
    assert_int_equal(message.kernel.kernel, 9);
    assert_int_equal(message.kernel.tier, 1);
    message = (struct launcher_message){.type = LAUNCHER_KERNEL_MADE,
                                        .kernel_made = {.number = 4, .kernel = 8, .num = 0}};
    answer(stage, &message, -1); /* nobody asked for that one */
    assert_int_equal(stage->kernels, 0);
    message.kernel_made.kernel = 9;
    message.kernel_made.num = -EAGAIN;
    answer(stage, &message, -1);
    assert_int_equal(stage->kernels, 1);
    assert_int_equal(stage->num, -EAGAIN);
    answer(stage, &message, -1);
    assert_int_equal(stage->kernels, 1);
    stage->provider->ops->kernel(stage->provider, 4, 9, TIERS_MAX, on_kernel, stage);
    assert_int_equal(stage->num, -EINVAL);
    message = (struct launcher_message){
        .type = LAUNCHER_KERNEL_ENDED,
        .kernel_ended = {
            .number = 4, .kernel = 9, .status = 0x8b, .cpu_us = 5, .max_rss_bytes = 6}};
    answer(stage, &message, -1);
    assert_int_equal(stage->ends, 1);
    assert_int_equal(stage->end.kernel, 9);
    assert_int_equal(stage->end.status, 0x8b);
    assert_int_equal(stage->end.usage.cpu_us, 5);
}

static void test_layers(void **state)
{
    struct stage *stage = *state;
    struct launcher_message message;
    uint32_t first;

    stage->provider->ops->commit_layer(stage->provider, "b_1", on_layer_committed, stage);
    stage->provider->ops->commit_layer(stage->provider, "b_2", on_layer_committed, stage);
    message = expect(stage->launcher_fd, LAUNCHER_COMMIT_LAYER);
    assert_string_equal(message.commit_layer.key, "b_1");
    first = message.commit_layer.serial;
    message = expect(stage->launcher_fd, LAUNCHER_COMMIT_LAYER);
    assert_int_not_equal(message.commit_layer.serial, first);
    message = (struct launcher_message){
        .type = LAUNCHER_LAYER_COMMITTED,
        .layer_committed = {
            .serial = message.commit_layer.serial, .layer = LAYER, .files = 3, .was_there = true}};
    answer(stage, &message, -1); /* the second is done first */
    assert_int_equal(stage->layer_commits, 1);
    assert_int_equal(stage->error.num, 0);
    assert_string_equal(stage->layer_committed.layer, LAYER);
    assert_int_equal(stage->layer_committed.files, 3);
    assert_true(stage->layer_committed.was_there);
    message = (struct launcher_message){.type = LAUNCHER_LAYER_COMMITTED,
                                        .layer_committed = {.serial = first}};
    error_set(&message.layer_committed.error, -ELOOP, ERROR_BAD_INPUT, "a link leads out");
    answer(stage, &message, -1);
    assert_int_equal(stage->layer_commits, 2);
    assert_int_equal(stage->error.num, -ELOOP);
    stage->provider->ops->commit_layer(stage->provider, "../x", on_layer_committed, stage);
    assert_int_equal(stage->layer_commits, 3);
    assert_int_equal(stage->error.num, -EINVAL);
    expect_nothing(stage->launcher_fd);
    stage->provider->ops->discard(stage->provider, "s_1", true);
    message = expect(stage->launcher_fd, LAUNCHER_DISCARD);
    assert_true(message.commit_layer.is_packages);
    stage->provider->ops->discard(stage->provider, "S", true);
    expect_nothing(stage->launcher_fd);
    stage->provider->ops->set_default(stage->provider, LAYER);
    message = expect(stage->launcher_fd, LAUNCHER_DEFAULT);
    assert_string_equal(message.layer, LAYER);
    stage->provider->ops->set_default(stage->provider, NULL);
    message = expect(stage->launcher_fd, LAUNCHER_DEFAULT);
    assert_string_equal(message.layer, "");
    stage->provider->ops->drop_layer(stage->provider, LAYER);
    message = expect(stage->launcher_fd, LAUNCHER_FORGET);
    assert_string_equal(message.layer, LAYER);
    stage->provider->ops->drop_layer(stage->provider, "../x");
    stage->provider->ops->set_default(stage->provider, "../x");
    expect_nothing(stage->launcher_fd);
}

static void test_looks(void **state)
{
    struct stage *stage = *state;
    struct launcher_message zygote = {.type = LAUNCHER_STATE,
                                      .state = {.layer = LAYER,
                                                .tier = 1,
                                                .is_ready = true,
                                                .pid = 77,
                                                .pooled = 2,
                                                .started_ns = 1000000,
                                                .ready_ns = 43000000}};
    struct launcher_message last = {.type = LAUNCHER_STATE,
                                    .state = {.tier = STATE_END, .pooled = 2, .pool_size = 4}};

    stage->provider->ops->look(stage->provider, on_state, on_looked, stage);
    expect(stage->launcher_fd, LAUNCHER_LOOK);
    answer(stage, &zygote, -1);
    assert_int_equal(stage->states, 1);
    assert_int_equal(stage->looks, 0);
    assert_int_equal(stage->state[0].tier, 1);
    assert_int_equal(stage->state[0].start_ms, 42);
    assert_string_equal(stage->state[0].layer, LAYER);
    answer(stage, &last, -1);
    assert_int_equal(stage->looks, 1);
    assert_int_equal(stage->state[1].tier, -1);
    assert_int_equal(stage->state[1].pool_size, 4);
    answer(stage, &last, -1); /* nobody asked */
    assert_int_equal(stage->states, 2);
}

static void test_verdicts(void **state)
{
    struct stage *stage = *state;
    struct launcher_message message = {
        .type = LAUNCHER_VERDICT,
        .verdict = {.number = 4, .is_allowed = true, .host = "a.b", .port = 443, .reason = "list"}};

    answer(stage, &message, -1);
    assert_int_equal(stage->verdicts, 1);
    assert_string_equal(stage->verdict, "4 1 a.b 443 list");
}

static void test_spent(void **state)
{
    struct stage *stage = *state;
    struct launcher_message message = {.type = LAUNCHER_SPENT,
                                       .spent = {.tenant = "acme", .cpu_us = 1500}};

    answer(stage, &message, -1);
    assert_string_equal(stage->spent, "acme 1500");
}

/* Answers still come, and nobody is called. */
static void test_forgotten(void **state)
{
    struct stage *stage = *state;
    struct make_request request = {.key = "s_1"};
    struct launcher_message message;
    struct launcher_message answers[] = {
        {.type = LAUNCHER_KERNEL_MADE, .kernel_made = {.number = 4, .kernel = 9}},
        {.type = LAUNCHER_LAYER_COMMITTED, .layer_committed = {.layer = LAYER}},
        {.type = LAUNCHER_STATE, .state = {.tier = STATE_END}},
        {.type = LAUNCHER_USED, .usage = {.number = 4}},
    };
    int pair[2];

    assert_int_equal(make(stage, &request, &message), 0);
    stage->provider->ops->kernel(stage->provider, 4, 9, 1, on_kernel, stage);
    stage->provider->ops->commit_layer(stage->provider, "b_1", on_layer_committed, stage);
    stage->provider->ops->look(stage->provider, on_state, on_looked, stage);
    stage->provider->ops->usage(stage->provider, 4, on_used, stage);
    stage->provider->ops->forget(stage->provider, stage);
    message = expect(stage->launcher_fd, LAUNCHER_KERNEL);
    message = expect(stage->launcher_fd, LAUNCHER_COMMIT_LAYER);
    answers[1].layer_committed.serial = message.commit_layer.serial;
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++)
        answer(stage, &answers[i], -1);
    assert_int_equal(
        stage->kernels + stage->layer_commits + stage->states + stage->looks + stage->used, 0);
    message = expect(stage->launcher_fd, LAUNCHER_LOOK);
    message = expect(stage->launcher_fd, LAUNCHER_USAGE);
    pair_of(pair);
    close(pair[1]);
    message = (struct launcher_message){.type = LAUNCHER_MADE,
                                        .box = {.serial = 1, .number = 5, .key = "s_1"}};
    answer(stage, &message, pair[0]);
    assert_int_equal(stage->made, 0);
    message = expect(stage->launcher_fd, LAUNCHER_END); /* the box that nobody wants any more */
    assert_int_equal(message.number, 5);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_a_box_is_asked_with),
        TEST(test_a_box_with_a_kernel),
        TEST(test_kernels),
        TEST(test_layers),
        TEST(test_looks),
        TEST(test_verdicts),
        TEST(test_spent),
        TEST(test_forgotten),
    };

    return cmocka_run_group_tests_name("runtime/local/launched_warm", tests, NULL, NULL);
}
