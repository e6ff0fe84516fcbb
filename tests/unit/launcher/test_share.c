/*
 * test_share.c - shares of CPU time: the arithmetic, and which box gets how much. The boxes are
 * made of folders with the files of a control group; what real ones get is in
 * tests/scenario/test_fair.py.
 */
#include "scratch.h"
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "launcher/launcher_private.h"

struct fixture {
    struct scratch scratch;
    struct launcher_plan plan;
    struct launcher launcher;
    struct managed_box boxes[16];
    unsigned count;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    assert_non_null(fixture);
    scratch_make(&fixture->scratch);
    fixture->launcher.plan = &fixture->plan;
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    share_end(&fixture->launcher);
    scratch_remove(&fixture->scratch);
    free(fixture);
    return 0;
}

static void write_file(const struct managed_box *box, enum cgroup_controller controller,
                       const char *name, const char *text)
{
    char path[CGROUP_PATH_MAX + 32];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", box->launched.group.path[controller], name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* A box that stands, as prewarmed ones do: nobody's. */
static struct managed_box *stand(struct fixture *fixture)
{
    struct managed_box *box = &fixture->boxes[fixture->count];
    char name[32];

    *box = (struct managed_box){.launcher = &fixture->launcher, .share = CGROUP_SHARE_TENANT};
    cgroup_init(&box->launched.group);
    box->launched.group.flavour = CGROUP_V1;
    box->launched.pid = 1000;
    box->facts.number = ++fixture->count;
    snprintf(name, sizeof(name), "box-%u", fixture->count);
    scratch_folder(&fixture->scratch, name);
    for (int i = CONTROLLER_CPU; i <= CONTROLLER_CPUACCT; i++)
        str_copy(box->launched.group.path[i], CGROUP_PATH_MAX,
                 scratch_path(&fixture->scratch, name));
    write_file(box, CONTROLLER_CPU, "cpu.shares", "");
    write_file(box, CONTROLLER_CPUACCT, "cpuacct.usage", "0");
    box->next = fixture->launcher.buckets[0];
    fixture->launcher.buckets[0] = box;
    return box;
}

static struct managed_box *give(struct fixture *fixture, const char *tenant)
{
    struct managed_box *box = stand(fixture);

    share_give_box(box, share_asked(&fixture->launcher, tenant));
    return box;
}

static void uses(const struct managed_box *box, unsigned long long ns)
{
    char text[32];

    snprintf(text, sizeof(text), "%llu", ns);
    write_file(box, CONTROLLER_CPUACCT, "cpuacct.usage", text);
}

/* What the kernel was told last; 0: nothing. */
static unsigned told(const struct managed_box *box)
{
    char path[CGROUP_PATH_MAX + 32], text[64];
    unsigned number = 0;

    snprintf(path, sizeof(path), "%s/cpu.shares", box->launched.group.path[CONTROLLER_CPU]);
    assert_true(fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) >= 0);
    sscanf(text, "%u", &number);
    return number;
}

/* A look after so long that all of them are old, and a second one that sees what they used. */
static void look(struct fixture *fixture, uint64_t now)
{
    for (unsigned i = 0; i < fixture->count; i++)
        write_file(&fixture->boxes[i], CONTROLLER_CPU, "cpu.shares", "");
    share_tick(&fixture->launcher, now);
}

static void test_each(void **state)
{
    (void)state;
    assert_int_equal(share_each(0), CGROUP_SHARE_TENANT);
    assert_int_equal(share_each(1), CGROUP_SHARE_TENANT);
    for (uint32_t n = 1; n < 200; n++) { /* together they have what one alone has */
        assert_true(share_each(n) * n <= CGROUP_SHARE_TENANT);
        assert_true(share_each(n) * n > CGROUP_SHARE_TENANT * 9 / 10);
    }
    assert_int_equal(share_each(UINT32_MAX), 1);
}

static void test_differs(void **state)
{
    (void)state;
    assert_false(share_differs(1000, 1000));
    assert_false(share_differs(1000, 1100));
    assert_true(share_differs(1000, 1125));
    assert_true(share_differs(1000, 875));
    assert_true(share_differs(0, 1));
    for (uint32_t n = 1; n < 8; n++) /* few boxes are told apart exactly */
        assert_true(share_differs(share_each(n), share_each(n + 1)));
}

static void test_pause(void **state)
{
    uint64_t pause = 0;

    (void)state;
    assert_int_equal(share_pause_ms(0, 4, true), SHARE_LOOK_MS);
    assert_int_equal(share_pause_ms(SHARE_REST_MS, 4, true), SHARE_LOOK_MS);
    assert_int_equal(share_pause_ms(0, 900, true), 900); /* looking at many costs more */
    for (int i = 0; i < 20; i++)
        pause = share_pause_ms(pause, 4, false);
    assert_int_equal(pause, SHARE_REST_MS);
}

static void test_busy(void **state)
{
    (void)state;
    assert_false(share_is_busy(0, 0));
    assert_true(share_is_busy(50000, 50)); /* a whole core */
    assert_true(share_is_busy(1001, 50));  /* above two per cent */
    assert_false(share_is_busy(1000, 50));
}

static void test_pool_kept(void **state)
{
    (void)state;
    assert_int_equal(share_pool_kept(8, 100000, 100000), 0); /* alone, or as much as the others */
    assert_int_equal(share_pool_kept(8, 100000, 89000), 0);
    assert_int_equal(share_pool_kept(8, 100000, 50000), 2); /* above its share */
    assert_int_equal(share_pool_kept(8, 4000, 2000), 0);    /* half of them in a second */
    assert_int_equal(share_pool_kept(8, 4001, 2000), 2);    /* more */
    assert_int_equal(share_pool_kept(2, 100000, 50000), 1);
    assert_int_equal(share_pool_kept(1, 100000, 50000), 0); /* one is for whoever comes */
    assert_int_equal(share_pool_kept(0, 100000, 50000), 0);
}

static void test_alone_nothing_is_written(void **state)
{
    struct fixture *fixture = *state;

    for (int i = 0; i < 5; i++)
        assert_int_equal(told(give(fixture, "one")), 0);
    assert_int_equal(fixture->launcher.shares.at_ms, 0); /* and nothing is looked at */
}

static void test_divided_between_those_that_compute(void **state)
{
    struct fixture *fixture = *state;
    struct managed_box *own[4], *other = give(fixture, "two");
    uint64_t now = clock_now_ms() + 1000;

    for (int i = 0; i < 4; i++)
        own[i] = give(fixture, "one");
    assert_true(fixture->launcher.shares.at_ms > 0);
    look(fixture, now); /* none of them has used anything */
    for (int i = 0; i < 4; i++)
        uses(own[i], 40000000);
    uses(other, 40000000);
    look(fixture, now + 50);
    for (int i = 0; i < 4; i++)
        assert_int_equal(own[i]->share, CGROUP_SHARE_TENANT / 4);
    assert_int_equal(other->share, CGROUP_SHARE_TENANT);
    /* One that goes on gets all of it; those that rest are not counted. */
    uses(own[0], 80000000);
    uses(other, 80000000);
    look(fixture, now + 100);
    assert_int_equal(own[0]->share, CGROUP_SHARE_TENANT);
    assert_int_equal(told(own[0]), 8192);
    assert_int_equal(told(other), 0); /* unchanged, so not written */
    /* The other is gone: everything is as if it had never been there. */
    share_box_gone(other);
    look(fixture, now + 150);
    assert_int_equal(fixture->launcher.shares.at_ms, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(own[i]->share, CGROUP_SHARE_TENANT);
}

/* New ones count at once: a flood of short programs is divided before they are seen computing. */
static void test_new_ones_count(void **state)
{
    struct fixture *fixture = *state;
    struct managed_box *box = NULL;

    give(fixture, "two");
    for (int i = 0; i < 5; i++)
        box = give(fixture, "one");
    assert_int_equal(box->share, CGROUP_SHARE_TENANT / 5);
    assert_int_equal(told(box), 8192 / 5);
}

static void test_gone_are_given_back(void **state)
{
    struct fixture *fixture = *state;
    struct share_account *account = share_asked(&fixture->launcher, "one");
    struct managed_box *box = give(fixture, "one");

    assert_int_equal(account->boxes, 1);
    assert_int_equal(account->active, 1);
    share_box_gone(box);
    share_box_gone(box); /* twice is fine */
    assert_int_equal(account->boxes, 0);
    assert_int_equal(account->active, 0);
    assert_ptr_equal(share_asked(&fixture->launcher, "one"), account);
    assert_ptr_not_equal(share_asked(&fixture->launcher, ""), account); /* the local tenant */
    share_give_box(stand(fixture), NULL); /* no account: nothing is done */
}

static void test_average_demand(void **state)
{
    struct fixture *fixture = *state;
    struct launcher *launcher = &fixture->launcher;
    struct share_account *one;
    uint64_t now;

    assert_int_equal(share_average_milli(launcher, clock_now_ms()), 0);
    for (int i = 0; i < 30; i++)
        one = share_asked(launcher, "one");
    now = one->asked_ms;
    assert_int_equal(share_average_milli(launcher, now), pool_demand_milli(&one->demand, now));
    share_asked(launcher, "two");
    assert_in_range(share_average_milli(launcher, now), 10000, 16000);
    assert_int_equal(share_average_milli(launcher, now + 2 * SHARE_FORGET_MS), 0);
}

/* A number of tenants that comes and goes does not grow without end. */
static void test_bounded(void **state)
{
    struct fixture *fixture = *state;
    char name[LAUNCHER_TENANT_MAX];

    for (unsigned i = 0; i < LIMIT_TENANTS; i++) {
        snprintf(name, sizeof(name), "t%u", i);
        assert_non_null(share_asked(&fixture->launcher, name));
    }
    assert_null(share_asked(&fixture->launcher, "one-more"));
    fixture->launcher.shares.accounts->asked_ms -= 2 * SHARE_FORGET_MS;
    assert_non_null(share_asked(&fixture->launcher, "one-more"));
    assert_int_equal(fixture->launcher.shares.count, LIMIT_TENANTS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each),
        TEST(test_differs),
        TEST(test_pause),
        TEST(test_busy),
        TEST(test_pool_kept),
        TEST(test_alone_nothing_is_written),
        TEST(test_divided_between_those_that_compute),
        TEST(test_new_ones_count),
        TEST(test_gone_are_given_back),
        TEST(test_average_demand),
        TEST(test_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
