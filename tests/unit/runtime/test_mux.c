/* test_mux.c - launcher and provider host behind one provider, both faked by this file over socket
 * pairs. */
#include "runtime/launcher_stage.h"

#include <errno.h>
#include <string.h>

#include "boxes/boxes.h"
#include "runtime/mux.h"

/* A second provider with a host, in place of the build's own more rows. */
static const struct runtime_ops twin_ops;
static const struct provider_row twin = {.name = "twin",
                                         .title = "Twin",
                                         .can = PROVIDER_HOSTED,
                                         .unavailable = "Twin is not there",
                                         .gone = "Twin stopped",
                                         .ops = &twin_ops};
const struct provider_row *const provider_rows_more[] = {&twin, NULL};

static const struct make_request request = {.key = "session_1",
                                            .limits = {.memory_bytes = 64 << 20, .pids = 9}};

static void say_number(struct stage *stage, int fd, enum launcher_type type, uint32_t number)
{
    say(&stage->loop, fd, &(struct launcher_message){.type = type, .number = number}, -1);
}

static void say_box(struct stage *stage, int fd, enum launcher_type type, uint32_t serial,
                    uint32_t number)
{
    struct launcher_message message = {
        .type = type, .box = {.serial = serial, .number = number, .key = "session_1"}};

    say(&stage->loop, fd, &message, channel());
}

static void say_ended(struct stage *stage, int fd, uint32_t number, bool was_asked)
{
    struct launcher_message message = {
        .type = LAUNCHER_ENDED, .usage = {.number = number, .cpu_us = 5, .was_asked = was_asked}};

    say(&stage->loop, fd, &message, -1);
}

/* A provider host, as the launcher gives it; *fd: our end. */
static void give_host_of(struct stage *stage, const char *name, int *fd)
{
    struct launcher_message message = {.type = LAUNCHER_PROVIDER_HOST};
    int pair[2];

    if (*fd >= 0)
        close(*fd);
    pair_of(pair);
    *fd = pair[1];
    str_copy(message.host, sizeof(message.host), name);
    say(&stage->loop, stage->launcher_fd, &message, pair[0]);
}

static void give_host(struct stage *stage)
{
    give_host_of(stage, "docker", &stage->host_fd);
    expect(stage->host_fd, LAUNCHER_HELLO);
}

static int set_up_with(void **state, bool falls_back)
{
    struct stage *stage = calloc(1, sizeof(*stage));
    int pair[2];

    if (!stage)
        return -1;
    pair_of(pair);
    poll_reactor_init(&stage->loop);
    stage->launcher_fd = pair[0];
    stage->host_fd = stage->twin_fd = -1;
    assert_int_equal(
        mux_open(&stage->loop.reactor, pair[1],
                 &(struct mux_spec){.provider = provider_known("docker"),
                                    .fallback = falls_back ? provider_known("local") : NULL},
                 &events, stage, &stage->provider, NULL),
        0);
    expect(stage->launcher_fd, LAUNCHER_HELLO);
    give_host(stage);
    *state = stage;
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, false);
}

static int set_up_fallback(void **state)
{
    return set_up_with(state, true);
}

static int tear_down(void **state)
{
    struct stage *stage = *state;

    mux_close(stage->provider);
    close(stage->launcher_fd);
    close(stage->host_fd);
    if (stage->twin_fd >= 0)
        close(stage->twin_fd);
    poll_reactor_free(&stage->loop);
    free(stage);
    return 0;
}

static void welcome(struct stage *stage)
{
    say_number(stage, stage->launcher_fd, LAUNCHER_WELCOME, 3);
    say_number(stage, stage->host_fd, LAUNCHER_WELCOME, 1);
    assert_int_equal(stage->ready, 1);
}

static uint32_t make(struct stage *stage)
{
    uint32_t serial = 0;

    assert_int_equal(
        stage->provider->ops->make(stage->provider, &request, &make_events, stage, &serial, NULL),
        0);
    return serial;
}

/* A box of the provider host, as the caller has it. */
static void make_one(struct stage *stage, uint32_t number)
{
    struct launcher_message message;

    make(stage);
    message = expect(stage->host_fd, LAUNCHER_MAKE);
    assert_string_equal(message.make.key, "session_1");
    say_box(stage, stage->host_fd, LAUNCHER_MADE, message.make.serial, number);
    assert_ptr_equal(stage->box.provider, provider_known("docker"));
    assert_null(stage->box.wanted);
    assert_true(stage->box.number & MUX_NUMBER);
}

static void end(struct stage *stage)
{
    stage->provider->ops->end(stage->provider, stage->box.number, stage->box.box, on_done, stage);
}

static void test_ready_when_both_are(void **state)
{
    struct stage *stage = *state;

    say_box(stage, stage->launcher_fd, LAUNCHER_BOX, 0, 7);
    assert_int_equal(stage->box.number, 7);
    assert_non_null(stage->box.fallback);
    end(stage);
    expect(stage->launcher_fd, LAUNCHER_END);
    say_number(stage, stage->launcher_fd, LAUNCHER_WELCOME, 3);
    assert_int_equal(stage->ready, 0);
    say_box(stage, stage->host_fd, LAUNCHER_BOX, 0, 7);
    assert_int_equal(stage->found, 2);
    assert_true(stage->box.number & MUX_NUMBER);
    say_number(stage, stage->host_fd, LAUNCHER_WELCOME, 9);
    assert_int_equal(stage->ready, 1);
    assert_int_equal(stage->generation, 3);
    end(stage);
    assert_int_equal(expect(stage->host_fd, LAUNCHER_END).number, 7);
}

static void test_made_used_and_ended(void **state)
{
    struct stage *stage = *state;
    struct launcher_message used = {.type = LAUNCHER_USED, .usage = {.number = 4, .cpu_us = 6}};

    welcome(stage);
    make_one(stage, 4);
    expect_nothing(stage->launcher_fd);
    stage->provider->ops->usage(stage->provider, stage->box.number, on_done, stage);
    assert_int_equal(expect(stage->host_fd, LAUNCHER_USAGE).number, 4);
    say(&stage->loop, stage->host_fd, &used, -1);
    assert_int_equal(stage->done, 1);
    assert_int_equal(stage->facts.usage.cpu_us, 6);
    say_ended(stage, stage->host_fd, 4, false);
    assert_int_equal(stage->ended, 1);
    assert_int_equal(stage->ended_number, stage->box.number);
    end(stage);
    expect(stage->host_fd, LAUNCHER_END);
    say_ended(stage, stage->host_fd, 4, true);
    assert_int_equal(stage->done, 2);
}

static void test_what_docker_refuses(void **state)
{
    struct stage *stage = *state;
    struct launcher_message refused = {.type = LAUNCHER_REFUSED,
                                       .refused = {.error = {.num = -ECONNREFUSED,
                                                             .code = ERROR_PROVIDER_UNAVAILABLE,
                                                             .text = "no daemon"}}};

    welcome(stage);
    make(stage);
    refused.refused.serial = expect(stage->host_fd, LAUNCHER_MAKE).make.serial;
    say(&stage->loop, stage->host_fd, &refused, -1);
    assert_int_equal(stage->refused, 1);
    assert_ptr_equal(stage->error.code, ERROR_PROVIDER_UNAVAILABLE);
    assert_string_equal(stage->error.provider, "docker");
    expect_nothing(stage->launcher_fd);
}

static void test_fallback(void **state)
{
    struct stage *stage = *state;
    struct launcher_message refused = {.type = LAUNCHER_REFUSED,
                                       .refused = {.error = {.num = -ECONNREFUSED,
                                                             .code = ERROR_PROVIDER_UNAVAILABLE,
                                                             .text = "no daemon"}}};
    struct launcher_message message;

    welcome(stage);
    make(stage);
    refused.refused.serial = expect(stage->host_fd, LAUNCHER_MAKE).make.serial;
    say(&stage->loop, stage->host_fd, &refused, -1);
    assert_int_equal(stage->refused, 0);
    message = expect(stage->launcher_fd, LAUNCHER_MAKE);
    assert_string_equal(message.make.key, "session_1");
    assert_int_equal(message.make.memory_bytes, 64 << 20);
    say_box(stage, stage->launcher_fd, LAUNCHER_MADE, message.make.serial, 4);
    assert_int_equal(stage->made, 1);
    assert_ptr_equal(stage->box.provider, provider_known("local"));
    assert_ptr_equal(stage->box.wanted, provider_known("docker"));
    assert_int_equal(stage->box.number, 4);
    assert_string_equal(stage->fallback, "no daemon");
    end(stage);
    assert_int_equal(expect(stage->launcher_fd, LAUNCHER_END).number, 4);
    /* what is wrong with the image is no reason */
    make(stage);
    refused.refused.error.code = ERROR_IMAGE_NOT_FOUND;
    refused.refused.serial = expect(stage->host_fd, LAUNCHER_MAKE).make.serial;
    say(&stage->loop, stage->host_fd, &refused, -1);
    assert_int_equal(stage->refused, 1);
}

static void test_cancelled(void **state)
{
    struct stage *stage = *state;
    uint32_t serial, inner;

    welcome(stage);
    serial = make(stage);
    inner = expect(stage->host_fd, LAUNCHER_MAKE).make.serial;
    stage->provider->ops->make_cancel(stage->provider, serial);
    say_box(stage, stage->host_fd, LAUNCHER_MADE, inner, 4);
    assert_int_equal(stage->made, 0);
    assert_int_equal(expect(stage->host_fd, LAUNCHER_END).number, 4);
}

/* Everybody who waits for it is answered, and the next one starts from nothing. */
static void test_the_host_dies(void **state)
{
    struct stage *stage = *state;
    struct made first;
    uint32_t serial;

    welcome(stage);
    mux_say_ready(stage->provider);
    expect(stage->launcher_fd, LAUNCHER_READY);
    expect(stage->host_fd, LAUNCHER_READY);
    make_one(stage, 1);
    first = stage->box;
    stage->provider->ops->usage(stage->provider, first.number, on_done, stage);
    make(stage);
    shutdown(stage->host_fd, SHUT_RDWR);
    poll_reactor_turn(&stage->loop, 1000);
    assert_int_equal(stage->ended, 1);
    assert_int_equal(stage->ended_number, first.number);
    assert_int_equal(stage->refused, 1);
    for (int i = 0; i < 3 && stage->done == 0; i++)
        poll_reactor_turn(&stage->loop, 1000);
    assert_int_equal(stage->done, 1);
    assert_int_equal(
        stage->provider->ops->make(stage->provider, &request, &make_events, stage, &serial, NULL),
        -EAGAIN);
    give_host(stage);
    say_number(stage, stage->host_fd, LAUNCHER_WELCOME, 1);
    assert_int_equal(stage->ready, 1);
    expect(stage->host_fd, LAUNCHER_READY);
    make_one(stage, 1);
    assert_int_not_equal(stage->box.number, first.number);
    stage->provider->ops->end(stage->provider, first.number, first.box, on_done, stage);
    expect_nothing(stage->host_fd);
    for (int i = 0; i < 3 && stage->done == 1; i++)
        poll_reactor_turn(&stage->loop, 1000);
    assert_int_equal(stage->done, 2);
    end(stage);
    assert_int_equal(expect(stage->host_fd, LAUNCHER_END).number, 1);
}

static void test_a_host_that_dies_before_it_is_ready(void **state)
{
    struct stage *stage = *state;

    say_number(stage, stage->launcher_fd, LAUNCHER_WELCOME, 3);
    assert_int_equal(stage->ready, 0);
    shutdown(stage->host_fd, SHUT_RDWR);
    poll_reactor_turn(&stage->loop, 1000);
    assert_int_equal(stage->ready, 1);
}

static void ask_for(struct stage *stage, const char *name)
{
    struct make_request wanted = request;
    uint32_t serial = 0;

    wanted.provider = provider_known(name);
    assert_int_equal(
        stage->provider->ops->make(stage->provider, &wanted, &make_events, stage, &serial, NULL),
        0);
}

/* One daemon, three providers: each request goes to the one it names, and made.provider is it. */
static void test_boxes_of_several_providers(void **state)
{
    struct stage *stage = *state;
    struct made docker;

    give_host_of(stage, "twin", &stage->twin_fd);
    say_number(stage, stage->launcher_fd, LAUNCHER_WELCOME, 3);
    expect(stage->twin_fd, LAUNCHER_HELLO); /* an earlier broker may have boxes there */
    say_number(stage, stage->host_fd, LAUNCHER_WELCOME, 1);
    assert_int_equal(stage->ready, 0); /* the other one has not said what it has */
    say_number(stage, stage->twin_fd, LAUNCHER_WELCOME, 1);
    assert_int_equal(stage->ready, 1);
    make_one(stage, 1);
    docker = stage->box;
    ask_for(stage, "twin");
    say_box(stage, stage->twin_fd, LAUNCHER_MADE, expect(stage->twin_fd, LAUNCHER_MAKE).make.serial,
            1);
    assert_ptr_equal(stage->box.provider, &twin);
    assert_int_not_equal(stage->box.number, docker.number); /* though both hosts call it 1 */
    end(stage);
    assert_int_equal(expect(stage->twin_fd, LAUNCHER_END).number, 1);
    say_ended(stage, stage->twin_fd, 1, true);
    expect_nothing(stage->host_fd);
    ask_for(stage, "local");
    say_box(stage, stage->launcher_fd, LAUNCHER_MADE,
            expect(stage->launcher_fd, LAUNCHER_MAKE).make.serial, 9);
    assert_ptr_equal(stage->box.provider, provider_known("local"));
    assert_null(stage->box.fallback);
    end(stage);
    expect(stage->launcher_fd, LAUNCHER_END);
    /* one host dies: the boxes of the other stay */
    shutdown(stage->twin_fd, SHUT_RDWR);
    poll_reactor_turn(&stage->loop, 1000);
    assert_int_equal(stage->ended, 0);
    stage->provider->ops->end(stage->provider, docker.number, docker.box, on_done, stage);
    assert_int_equal(expect(stage->host_fd, LAUNCHER_END).number, 1);
}

/* The host of another type than the daemon's is opened by the first request, which waits for it. */
static void test_a_host_that_is_opened_when_it_is_wanted(void **state)
{
    struct stage *stage = *state;
    struct made first;

    give_host_of(stage, "twin", &stage->twin_fd);
    say_number(stage, stage->launcher_fd, LAUNCHER_WELCOME, 1);
    say_number(stage, stage->host_fd, LAUNCHER_WELCOME, 1);
    assert_int_equal(stage->ready, 1); /* nobody waits for it at the start */
    expect_nothing(stage->twin_fd);
    ask_for(stage, "twin");
    expect(stage->twin_fd, LAUNCHER_HELLO);
    expect_nothing(stage->twin_fd);
    say_number(stage, stage->twin_fd, LAUNCHER_WELCOME, 1);
    say_box(stage, stage->twin_fd, LAUNCHER_MADE, expect(stage->twin_fd, LAUNCHER_MAKE).make.serial,
            4);
    assert_ptr_equal(stage->box.provider, &twin);
    first = stage->box;
    stage->provider->ops->end(stage->provider, first.number, first.box, on_done, stage);
    expect(stage->twin_fd, LAUNCHER_END);
    /* Another one takes its place: it is opened at once, it may have boxes. */
    give_host_of(stage, "twin", &stage->twin_fd);
    expect(stage->twin_fd, LAUNCHER_HELLO);
}

/* It ends before it has answered: whoever waits is told. */
static void test_a_wanted_host_that_dies(void **state)
{
    struct stage *stage = *state;

    give_host_of(stage, "twin", &stage->twin_fd);
    say_number(stage, stage->launcher_fd, LAUNCHER_WELCOME, 1);
    say_number(stage, stage->host_fd, LAUNCHER_WELCOME, 1);
    ask_for(stage, "twin");
    expect(stage->twin_fd, LAUNCHER_HELLO);
    shutdown(stage->twin_fd, SHUT_RDWR);
    poll_reactor_turn(&stage->loop, 1000);
    assert_int_equal(stage->refused, 1);
}

static void test_no_host_for_that_type(void **state)
{
    struct stage *stage = *state;
    struct make_request wanted = request;
    struct error err = {0};
    uint32_t serial;

    welcome(stage);
    wanted.provider = &twin;
    assert_true(stage->provider->ops->make(stage->provider, &wanted, &make_events, stage, &serial,
                                           &err) < 0);
    assert_ptr_equal(err.code, ERROR_PROVIDER_UNAVAILABLE);
    assert_non_null(strstr(err.text, "SANDBOX_TYPE=twin"));
    /* The launcher makes it, if the session's settings allow that. */
    wanted.fallback = provider_known("local");
    assert_int_equal(
        stage->provider->ops->make(stage->provider, &wanted, &make_events, stage, &serial, &err),
        0);
    say_box(stage, stage->launcher_fd, LAUNCHER_MADE,
            expect(stage->launcher_fd, LAUNCHER_MAKE).make.serial, 9);
    assert_ptr_equal(stage->box.provider, provider_known("local"));
    assert_ptr_equal(stage->box.wanted, &twin);
    end(stage);
    expect(stage->launcher_fd, LAUNCHER_END);
}

/* A row that is not in this build is refused by the registry's sentence, wherever it comes from. */
static void test_not_in_this_build(void **state)
{
    struct stage *stage = *state;
    struct make_request wanted = request;
    struct error err = {0};
    uint32_t serial;

    welcome(stage);
    wanted.provider = provider_known("kubernetes");
    assert_int_equal(
        stage->provider->ops->make(stage->provider, &wanted, &make_events, stage, &serial, &err),
        -ENOSYS);
    assert_non_null(
        strstr(err.text, "'kubernetes' is not in this build (there are: local, docker"));
    expect_nothing(stage->launcher_fd);
}

static void on_kernel(void *ctx, int num)
{
    struct stage *stage = ctx;

    stage->error.num = num;
}

static void test_kernels_of_containers_are_cold(void **state)
{
    struct stage *stage = *state;

    welcome(stage);
    make_one(stage, 1);
    stage->provider->ops->kernel(stage->provider, stage->box.number, 1, 0, on_kernel, stage);
    assert_int_equal(stage->error.num, -EAGAIN);
    expect_nothing(stage->host_fd);
    expect_nothing(stage->launcher_fd);
    end(stage);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

struct looked {
    unsigned states, done, pooled;
};

static void on_state(void *ctx, const struct warm_state *state)
{
    struct looked *looked = ctx;

    looked->states++;
    if (state->tier < 0)
        looked->pooled = state->pooled;
}

static void on_looked(void *ctx)
{
    ((struct looked *)ctx)->done++;
}

static void say_state(struct stage *stage, int fd, uint8_t tier, uint32_t pooled)
{
    struct launcher_message message = {.type = LAUNCHER_STATE,
                                       .state = {.tier = tier, .pooled = pooled}};

    say(&stage->loop, fd, &message, -1);
}

/* Zygotes are the launcher's, the pool is the provider host's, as long as there is one. */
static void test_what_is_kept_ready(void **state)
{
    struct stage *stage = *state;
    struct looked looked = {0}, forgotten = {0};

    welcome(stage);
    for (int i = 0; i < 3; i++)
        stage->provider->ops->look(stage->provider, on_state, on_looked,
                                   i < 2 ? &looked : &forgotten);
    for (int i = 0; i < 3; i++) {
        expect(stage->launcher_fd, LAUNCHER_LOOK);
        say_state(stage, stage->launcher_fd, 0, 1);
        say_state(stage, stage->launcher_fd, STATE_END, 5);
        expect(stage->host_fd, LAUNCHER_LOOK);
    }
    stage->provider->ops->forget(stage->provider, &forgotten);
    assert_int_equal(looked.done, 0);
    say_state(stage, stage->host_fd, STATE_END, 2);
    assert_int_equal(looked.done, 1);
    assert_int_equal(looked.pooled, 2);
    shutdown(stage->host_fd, SHUT_RDWR);
    poll_reactor_turn(&stage->loop, 1000);
    assert_int_equal(looked.done, 2);
    assert_int_equal(looked.states, 5);
    assert_int_equal(forgotten.done, 0);
    stage->provider->ops->look(stage->provider, on_state, on_looked, &looked);
    expect(stage->launcher_fd, LAUNCHER_LOOK);
    say_state(stage, stage->launcher_fd, STATE_END, 7);
    assert_int_equal(looked.done, 3);
    assert_int_equal(looked.pooled, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_ready_when_both_are),
        TEST(test_made_used_and_ended),
        TEST(test_boxes_of_several_providers),
        TEST(test_a_host_that_is_opened_when_it_is_wanted),
        TEST(test_a_wanted_host_that_dies),
        TEST(test_no_host_for_that_type),
        TEST(test_not_in_this_build),
        TEST(test_what_docker_refuses),
        cmocka_unit_test_setup_teardown(test_fallback, set_up_fallback, tear_down),
        TEST(test_cancelled),
        TEST(test_the_host_dies),
        TEST(test_a_host_that_dies_before_it_is_ready),
        TEST(test_kernels_of_containers_are_cold),
        TEST(test_what_is_kept_ready),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
