/*
 * test_host.c - the provider host as a broker meets it: of the same version and of another
 * one. There is no Docker here: what would be asked of it is refused.
 */
#include "runtime/host_stage.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"

static const struct config config = {
    .docker = {.image = "image:1", .host = "unix:///nonexistent/docker.sock"}};

static void turn(void)
{
    for (int i = 0; i < 50 && poll_reactor_turn(&loop, 0) > 0; i++)
        ;
}

static void meet(void)
{
    host_meet();
    turn();
}

static void say_number(enum launcher_type type, uint32_t number)
{
    struct launcher_message message = {.type = type, .number = number};

    assert_int_equal(launcher_send(control_fd, &message, -1), 1);
    turn();
}

/* 1: *ret is there; 0: nothing; negative: it hung up. */
static int hear(struct launcher_message *ret)
{
    int fd = -1;
    int r = launcher_receive(control_fd, ret, &fd);

    if (fd >= 0)
        close(fd);
    return r;
}

static int set_up(void **state)
{
    (void)state;
    poll_reactor_init(&loop);
    host_begin((struct host_spec){.state = "/a/state/folder", .pool_size = 3}, &config);
    meet();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    host_end();
    poll_reactor_free(&loop);
    return 0;
}

static void test_hello(void **state)
{
    struct launcher_message message;

    (void)state;
    say_number(LAUNCHER_HELLO, LAUNCHER_VERSION);
    assert_int_equal(hear(&message), 1);
    assert_int_equal(message.type, LAUNCHER_WELCOME);
    say_number(LAUNCHER_LOOK, 0);
    assert_int_equal(hear(&message), 1);
    assert_int_equal(message.type, LAUNCHER_STATE);
    assert_int_equal(message.state.tier, STATE_END);
    assert_int_equal(message.state.pool_size, 3);
    assert_int_equal(message.state.pooled, 0);
    assert_false(has_left || host_is_outdated(host));
}

/* It ends what it has and leaves, so that another can be started. */
static void test_a_broker_of_another_version(void **state)
{
    struct launcher_message message;

    (void)state;
    say_number(LAUNCHER_HELLO, LAUNCHER_VERSION + 1);
    assert_true(hear(&message) < 0);
    assert_true(has_left);
    assert_true(host_is_outdated(host));
}

/* Nonsense is no reason to go: the next broker finds it. */
static void test_a_broker_that_says_no_hello(void **state)
{
    struct launcher_message message;

    (void)state;
    say_number(LAUNCHER_LOOK, 0);
    assert_true(hear(&message) < 0);
    assert_false(has_left || host_is_outdated(host));
    close(control_fd);
    meet();
    say_number(LAUNCHER_HELLO, LAUNCHER_VERSION);
    assert_int_equal(hear(&message), 1);
    assert_int_equal(message.type, LAUNCHER_WELCOME);
}

static void label_with(const char *folder, const char *identity, char label[24])
{
    struct host_spec spec = host->spec;
    struct host *other;

    spec.state = folder;
    spec.identity = identity;
    assert_int_equal(host_open(&loop.reactor, &spec, backend_find("docker"), &config, &other, NULL),
                     0);
    memcpy(label, other->state, sizeof(other->state));
    host_close(other);
}

static void label_of(const char *folder, char label[24])
{
    label_with(folder, "state_1", label);
}

/* Two containers of one image may see the same path, the same inode and the same machine-id. */
static void test_a_folder_has_an_identity(void **state)
{
    char first[24], again[24], other[24], none[24];

    (void)state;
    label_with("/", "state_1", first);
    label_with("/", "state_1", again);
    label_with("/", "state_2", other);
    label_with("/", NULL, none);
    assert_string_equal(first, again);
    assert_string_not_equal(first, other);
    assert_string_not_equal(first, none);
}

/* Two machines with one Docker have the same path, and not the same folder. */
static void test_a_folder_is_not_its_path(void **state)
{
    char above[] = "/tmp/bailey-wall-XXXXXX", folder[64], moved[64];
    char first[24], again[24], other[24];

    (void)state;
    assert_non_null(mkdtemp(above));
    snprintf(folder, sizeof(folder), "%s/state", above);
    snprintf(moved, sizeof(moved), "%s/moved", above);
    assert_int_equal(mkdir(folder, 0700), 0);
    label_of(folder, first);
    label_of(folder, again);
    assert_string_equal(first, again);
    assert_int_equal(rename(folder, moved), 0);
    assert_int_equal(mkdir(folder, 0700), 0);
    label_of(folder, other);
    assert_string_not_equal(first, other);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(rmdir(moved), 0);
    assert_int_equal(rmdir(above), 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_hello),
        TEST(test_a_broker_of_another_version),
        TEST(test_a_broker_that_says_no_hello),
        TEST(test_a_folder_is_not_its_path),
        TEST(test_a_folder_has_an_identity),
    };

    return cmocka_run_group_tests_name("runtime/host", tests, NULL, NULL);
}
