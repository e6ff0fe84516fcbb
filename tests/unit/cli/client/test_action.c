/* test_action.c - which action of a command runs, with what, and what is told when none does. */
#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "cli/client/action.h"
#include "cli/options.h"

static struct {
    const char *name;
    size_t operand_count;
    char last[16];
    bool is_quiet;
} ran;

static int ran_as(const char *name, struct action_job *job, int status)
{
    ran.name = name;
    ran.operand_count = job->operand_count;
    ran.is_quiet = job->request.is_quiet;
    if (job->operand_count > 0)
        strncpy(ran.last, job->operands[job->operand_count - 1], sizeof(ran.last) - 1);
    assert_null(job->operands[job->operand_count]);
    return status;
}

static int run_ls(struct action_job *job)
{
    return ran_as("ls", job, 7);
}

static int run_rm(struct action_job *job)
{
    return ran_as("rm", job, 0);
}

static int run_show(struct action_job *job)
{
    assert_string_equal(job->operands[0], "work");
    return ran_as("show", job, 0);
}

static const struct action rows[] = {
    {"ls", 0, 0, "ls [-a]", "all quiet", .run = run_ls},
    {"rm", 1, 3, NULL, NULL, .run = run_rm},
    {"show", 1, 2, "show -s NAME", "session", .run = run_show},
};

/* The exit status; what was said on standard error in `said`. */
static int run(const char *const *argv, char *said, size_t size)
{
    struct invocation invocation = {.command = &session_command, .env = (char *[]){NULL}};
    CLEANUP(fd_closep) int heard = memfd_create("said", MFD_CLOEXEC);
    CLEANUP(fd_closep) int before = fcntl(2, F_DUPFD_CLOEXEC, 3);
    struct error err = {0};
    int argc = 0, status;
    ssize_t length;

    memset(&ran, 0, sizeof(ran));
    while (argv[argc])
        argc++;
    assert_int_equal(options_parse(&session_command, argc, argv, &invocation.parsed, &err), 0);
    assert_true(heard >= 0 && before >= 0 && dup2(heard, 2) == 2);
    status = action_run(&invocation, rows, ARRAY_SIZE(rows));
    assert_int_equal(dup2(before, 2), 2);
    length = pread(heard, said, size - 1, 0);
    said[length > 0 ? length : 0] = '\0';
    parsed_free(&invocation.parsed);
    return status;
}

#define RUN(...) run((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL}, said, sizeof(said))

static void expect_refused(int status, const char *said, const char *words)
{
    assert_int_equal(status, STATUS_BAD_INPUT);
    assert_null(ran.name);
    if (!strstr(said, words))
        fail_msg("'%s' is not in: %s", words, said);
}

static void the_row_runs(void **state)
{
    char said[2048];

    (void)state;
    assert_int_equal(RUN("ls", "-q"), 7);
    assert_string_equal(ran.name, "ls");
    assert_true(ran.is_quiet);
    assert_int_equal(RUN("rm", "a", "b", "c"), 0);
    assert_string_equal(ran.name, "rm");
    assert_int_equal(ran.operand_count, 3);
    assert_string_equal(ran.last, "c");
    assert_false(ran.is_quiet);
    assert_string_equal(said, "");
}

static void other_names_of_actions(void **state)
{
    char said[2048];

    (void)state;
    assert_int_equal(RUN("list", "-q"), 7);
    assert_string_equal(ran.name, "ls");
    assert_int_equal(RUN("delete", "a"), 0);
    assert_string_equal(ran.name, "rm");
    expect_refused(RUN("create"), said, "unknown action 'create'"); /* has no "new" */
}

static void no_such_row(void **state)
{
    char said[2048];

    (void)state;
    expect_refused(RUN("lss"), said, "unknown action 'lss'; did you mean 'bailey session ls'?");
    expect_refused(RUN("zzzzzz"), said,
                   "unknown action 'zzzzzz'; usage: bailey session new [options] | ls");
    expect_refused(RUN("lisst"), said, "unknown action 'lisst'");
    expect_refused(RUN(), said, "usage: bailey session new [options] | ls");
    expect_refused(RUN(""), said, "usage: bailey session");
}

static void operands_are_counted(void **state)
{
    char said[2048];

    (void)state;
    expect_refused(RUN("ls", "a"), said, "usage: bailey session ls [-a]");
    expect_refused(RUN("rm"), said, "usage: bailey session new [options] | ls"); /* has none */
    expect_refused(RUN("rm", "a", "b", "c", "d"), said, "usage: bailey session");
}

static void a_session_option_is_the_first_operand(void **state)
{
    char said[2048];

    (void)state;
    assert_int_equal(RUN("show", "-s", "work"), 0);
    assert_int_equal(ran.operand_count, 1);
    assert_int_equal(RUN("show", "last", "-s", "work"), 0);
    assert_int_equal(ran.operand_count, 2);
    assert_string_equal(ran.last, "last");
    assert_int_equal(RUN("show", "work"), 0);
    expect_refused(RUN("show"), said, "usage: bailey session show -s NAME");
    expect_refused(RUN("ls", "-s", "work"), said, "--session is not for 'session ls'");
}

static void options_are_the_rows(void **state)
{
    char said[2048];

    (void)state;
    expect_refused(RUN("ls", "--name", "a"), said,
                   "--name is not for 'session ls'; usage: bailey session ls [-a]");
    assert_int_equal(RUN("ls", "-a", "--config", "none"), 7);
    assert_int_equal(RUN("rm", "a", "--name", "b"), 0); /* takes all */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_row_runs),
        cmocka_unit_test(other_names_of_actions),
        cmocka_unit_test(no_such_row),
        cmocka_unit_test(operands_are_counted),
        cmocka_unit_test(options_are_the_rows),
        cmocka_unit_test(a_session_option_is_the_first_operand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
