/* test_draft.c - a plan being written: what fits is there, what does not is noticed. */
#include "unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "launcher/inside.h"

static int set_up(void **state)
{
    *state = calloc(1, sizeof(struct draft));
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    free(*state);
    return 0;
}

static void test_text(void **state)
{
    struct draft *draft = *state;
    const char *first = draft_text(draft, "%s/%d", "a", 1);
    const char *second = draft_text(draft, "%s", "");
    const char *third = draft_text(draft, "b");

    assert_string_equal(first, "a/1");
    assert_string_equal(second, "");
    assert_string_equal(third, "b");
    assert_int_equal(draft->text_used, 4 + 1 + 2);
    assert_false(draft->is_full);
}

static void test_text_overflow(void **state)
{
    struct draft *draft = *state;
    const char *kept = draft_text(draft, "kept");
    const char *last;

    last = draft_text(draft, "%*s", DRAFT_TEXT_MAX - 5 - 1, "x"); /* to the last byte */
    assert_false(draft->is_full);
    assert_int_equal(strlen(last), DRAFT_TEXT_MAX - 6);
    assert_int_equal(draft->text_used, DRAFT_TEXT_MAX);
    assert_string_equal(draft_text(draft, "%s", ""), ""); /* not even a NUL has room */
    assert_true(draft->is_full);
    assert_string_equal(kept, "kept");

    memset(draft, 0, sizeof(*draft));
    assert_string_equal(draft_text(draft, "%*s", DRAFT_TEXT_MAX, "x"), "");
    assert_true(draft->is_full);
    assert_int_equal(draft->text_used, 0);
}

static void test_steps_overflow(void **state)
{
    struct draft *draft = *state;
    struct plan_step *step = NULL;

    for (int i = 0; i < DRAFT_STEPS_MAX; i++) {
        step = draft_step(draft, STEP_DIR, "target", "source", 0755);
        assert_ptr_equal(step, &draft->steps[i]);
        assert_int_equal(step->source_fd, -1);
    }
    assert_false(draft->is_full);
    step = draft_step(draft, STEP_DIR, "target", "source", 0755);
    assert_true(draft->is_full);
    assert_non_null(step); /* may be written to, and leads nowhere */
    step->mode = 0700;
    assert_int_equal(draft->plan.step_count, DRAFT_STEPS_MAX);
    assert_int_equal(draft->rules[0].kind, 0);
    assert_null(draft->rules[0].path);
}

static void test_rules_and_env_overflow(void **state)
{
    struct draft *draft = *state;
    char last[16];

    str_format(last, sizeof(last), "K%d=V", DRAFT_ENV_MAX - 1);
    for (int i = 0; i < DRAFT_RULES_MAX; i++)
        draft_rule(draft, RULE_WRITE_DIR, "/tmp");
    assert_false(draft->is_full);
    draft_rule(draft, RULE_WRITE_DIR, "/tmp");
    assert_true(draft->is_full);
    assert_int_equal(draft->plan.rule_count, DRAFT_RULES_MAX);
    draft->is_full = false;
    for (int i = 0; i < DRAFT_ENV_MAX; i++)
        draft_env(draft, "K%d=V", i);
    assert_false(draft->is_full);
    draft_env(draft, "ONE=more");
    assert_true(draft->is_full);
    assert_int_equal(draft->env_count, DRAFT_ENV_MAX);
    assert_string_equal(draft->env[DRAFT_ENV_MAX - 1], last);
    assert_null(draft->env[DRAFT_ENV_MAX]); /* the vector keeps its end */
}

static void test_close(void **state)
{
    struct draft *draft = *state;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    draft_step(draft, STEP_BIND_DIR, "a", "/", 0);
    draft_step(draft, STEP_BIND_DIR, "b", "/", 0)->source_fd = fd;
    draft_close(draft);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(draft->steps[1].source_fd, -1);
    draft_close(draft); /* twice is fine */
}

static bool has_env(const struct draft *draft, const char *entry)
{
    for (size_t i = 0; draft->env[i]; i++) {
        if (strcmp(draft->env[i], entry) == 0)
            return true;
    }
    return false;
}

/* Who holds which limit depends on what there is. */
static void test_holders(void **state)
{
    struct launch_spec spec = {
        .memory_bytes = 64 * MIB, .disk_bytes = 8 * MIB, .pids = 10, .cpu_millis = 1500};
    struct draft *draft = *state;
    struct launched launched = {0};

    draft->plan.has_namespaces = true;
    draft->plan.share_path[SHARE_HOME] = "/home/user";
    draft->plan.share_path[SHARE_TMP] = "/tmp";
    draft_common(draft, &spec, &launched); /* no control group */
    assert_int_equal(launched.memory, HELD_BY_WARDEN);
    assert_int_equal(launched.pids, HELD_BY_RLIMIT);
    assert_int_equal(launched.cpu, HELD_BY_AFFINITY);
    assert_int_equal(launched.disk, HELD_BY_TMPFS);
    assert_true(draft->plan.watch_memory_bytes == 64 * MIB);
    assert_true(draft->plan.watch_disk_bytes == 0);
    assert_int_equal(draft->plan.cpu_count, 2); /* a core and a half */
    assert_null(draft->plan.group);
    assert_true(has_env(draft, "HOME=/home/user") && has_env(draft, "OUTPUT_DIR=/tmp/output"));
    assert_false(draft->is_full);

    /* A group takes over what it can hold, and only that. */
    cgroup_init(&launched.group);
    launched.group.flavour = CGROUP_V2;
    draft_grouped(&draft->plan, &launched.group);
    draft_holders(&launched);
    assert_int_equal(launched.memory, HELD_BY_GROUP);
    assert_int_equal(launched.pids, HELD_BY_GROUP);
    assert_int_equal(launched.cpu, HELD_BY_AFFINITY);
    assert_int_equal(draft->plan.cpu_count, 2);
    assert_true(draft->plan.watch_memory_bytes == 0);
    assert_ptr_equal(draft->plan.group, &launched.group);
    assert_true(snprintf(launched.group.path[CONTROLLER_CPU], CGROUP_PATH_MAX, "/x") > 0);
    draft_grouped(&draft->plan, &launched.group);
    draft_holders(&launched);
    assert_int_equal(launched.cpu, HELD_BY_GROUP);
    assert_int_equal(draft->plan.cpu_count, 0);
}

#define WITH_A_DRAFT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_DRAFT(test_text),           WITH_A_DRAFT(test_text_overflow),
        WITH_A_DRAFT(test_steps_overflow), WITH_A_DRAFT(test_rules_and_env_overflow),
        WITH_A_DRAFT(test_close),          WITH_A_DRAFT(test_holders),
    };

    return cmocka_run_group_tests_name("launcher/draft", tests, NULL, NULL);
}
