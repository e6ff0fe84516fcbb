/* test_plan_builder.c - a plan being written: what fits is there, what does not is noticed. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "boxes/plan_builder.h"

static int set_up(void **state)
{
    *state = calloc(1, sizeof(struct plan_builder));
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

static void test_text(void **state)
{
    struct plan_builder *builder = *state;
    const char *first = plan_builder_text(builder, "%s/%d", "a", 1);
    const char *second = plan_builder_text(builder, "%s", "");
    const char *third = plan_builder_text(builder, "b");

    assert_string_equal(first, "a/1");
    assert_string_equal(second, "");
    assert_string_equal(third, "b");
    assert_int_equal(builder->text_used, 4 + 1 + 2);
    assert_false(builder->is_full);
}

static void test_text_overflow(void **state)
{
    struct plan_builder *builder = *state;
    const char *kept = plan_builder_text(builder, "kept");
    const char *last;

    last = plan_builder_text(builder, "%*s", PLAN_BUILDER_TEXT_MAX - 5 - 1,
                             "x"); /* to the last byte */
    assert_false(builder->is_full);
    assert_int_equal(strlen(last), PLAN_BUILDER_TEXT_MAX - 6);
    assert_int_equal(builder->text_used, PLAN_BUILDER_TEXT_MAX);
    assert_string_equal(plan_builder_text(builder, "%s", ""), ""); /* not even a NUL has room */
    assert_true(builder->is_full);
    assert_string_equal(kept, "kept");

    memset(builder, 0, sizeof(*builder));
    assert_string_equal(plan_builder_text(builder, "%*s", PLAN_BUILDER_TEXT_MAX, "x"), "");
    assert_true(builder->is_full);
    assert_int_equal(builder->text_used, 0);
}

static void test_steps_overflow(void **state)
{
    struct plan_builder *builder = *state;
    struct plan_step *step = NULL;

    for (int i = 0; i < PLAN_BUILDER_STEPS_MAX; i++) {
        step = plan_builder_step(builder, STEP_DIR, "target", "source", 0755);
        assert_ptr_equal(step, &builder->steps[i]);
        assert_int_equal(step->source_fd, -1);
    }
    assert_false(builder->is_full);
    step = plan_builder_step(builder, STEP_DIR, "target", "source", 0755);
    assert_true(builder->is_full);
    assert_non_null(step); /* may be written to, and leads nowhere */
    step->mode = 0700;
    assert_int_equal(builder->plan.step_count, PLAN_BUILDER_STEPS_MAX);
    assert_int_equal(builder->rules[0].kind, 0);
    assert_null(builder->rules[0].path);
}

static void test_rules_and_env_overflow(void **state)
{
    struct plan_builder *builder = *state;
    char last[16];

    str_format(last, sizeof(last), "K%d=V", PLAN_BUILDER_ENV_MAX - 1);
    for (int i = 0; i < PLAN_BUILDER_RULES_MAX; i++)
        plan_builder_rule(builder, RULE_WRITE_DIR, "/tmp");
    assert_false(builder->is_full);
    plan_builder_rule(builder, RULE_WRITE_DIR, "/tmp");
    assert_true(builder->is_full);
    assert_int_equal(builder->plan.rule_count, PLAN_BUILDER_RULES_MAX);
    builder->is_full = false;
    for (int i = 0; i < PLAN_BUILDER_ENV_MAX; i++)
        plan_builder_env(builder, "K%d=V", i);
    assert_false(builder->is_full);
    plan_builder_env(builder, "ONE=more");
    assert_true(builder->is_full);
    assert_int_equal(builder->env_count, PLAN_BUILDER_ENV_MAX);
    assert_string_equal(builder->env[PLAN_BUILDER_ENV_MAX - 1], last);
    assert_null(builder->env[PLAN_BUILDER_ENV_MAX]); /* the vector keeps its end */
}

static void test_close(void **state)
{
    struct plan_builder *builder = *state;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    plan_builder_step(builder, STEP_BIND_DIR, "a", "/", 0);
    plan_builder_step(builder, STEP_BIND_DIR, "b", "/", 0)->source_fd = fd;
    plan_builder_close(builder);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(builder->steps[1].source_fd, -1);
    plan_builder_close(builder); /* twice is fine */
}

static bool has_env(const struct plan_builder *builder, const char *entry)
{
    for (size_t i = 0; builder->env[i]; i++) {
        if (strcmp(builder->env[i], entry) == 0)
            return true;
    }
    return false;
}

/* Who holds which limit depends on what there is. */
static void test_holders(void **state)
{
    struct launch_spec spec = {
        .memory_bytes = 64 * MIB, .disk_bytes = 8 * MIB, .pids = 10, .cpu_millis = 1500};
    struct plan_builder *builder = *state;
    struct launched launched = {0};

    builder->plan.has_namespaces = true;
    builder->plan.share_path[SHARE_HOME] = "/home/user";
    builder->plan.share_path[SHARE_TMP] = "/tmp";
    plan_builder_common(builder, &spec, &launched); /* no control group */
    assert_int_equal(launched.memory, HELD_BY_WARDEN);
    assert_int_equal(launched.pids, HELD_BY_RLIMIT);
    assert_int_equal(launched.cpu, HELD_BY_AFFINITY);
    assert_int_equal(launched.disk, HELD_BY_TMPFS);
    assert_true(builder->plan.watch_memory_bytes == 64 * MIB);
    assert_true(builder->plan.watch_disk_bytes == 0);
    assert_int_equal(builder->plan.cpu_count, 2); /* a core and a half */
    assert_null(builder->plan.group);
    assert_true(has_env(builder, "HOME=/home/user") && has_env(builder, "OUTPUT_DIR=/tmp/output"));
    assert_false(builder->is_full);

    /* A group takes over what it can hold, and only that. */
    cgroup_init(&launched.group);
    launched.group.flavour = CGROUP_V2;
    plan_builder_grouped(&builder->plan, &launched.group);
    plan_builder_holders(&launched);
    assert_int_equal(launched.memory, HELD_BY_GROUP);
    assert_int_equal(launched.pids, HELD_BY_GROUP);
    assert_int_equal(launched.cpu, HELD_BY_AFFINITY);
    assert_int_equal(builder->plan.cpu_count, 2);
    assert_true(builder->plan.watch_memory_bytes == 0);
    assert_ptr_equal(builder->plan.group, &launched.group);
    assert_true(snprintf(launched.group.path[CONTROLLER_CPU], CGROUP_PATH_MAX, "/x") > 0);
    plan_builder_grouped(&builder->plan, &launched.group);
    plan_builder_holders(&launched);
    assert_int_equal(launched.cpu, HELD_BY_GROUP);
    assert_int_equal(builder->plan.cpu_count, 0);
}

#define WITH_A_BUILDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_BUILDER(test_text),           WITH_A_BUILDER(test_text_overflow),
        WITH_A_BUILDER(test_steps_overflow), WITH_A_BUILDER(test_rules_and_env_overflow),
        WITH_A_BUILDER(test_close),          WITH_A_BUILDER(test_holders),
    };

    return cmocka_run_group_tests_name("boxes/plan_builder", tests, NULL, NULL);
}
