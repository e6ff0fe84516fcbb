/*
 * test_run.c - `run` and `exec` from an invocation to an exit status, with a fake in the place of
 * the engine: what it is asked for, what is said afterwards, and every way a run can end.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/empty_config.h"
#include "cli/options.h"
#include "oneshot/oneshot.h"

/* What the fake does; set by each test. Returns what oneshot_run() returns. */
static int (*act)(const struct oneshot *shot, struct result *result, struct oneshot_extra *extra);
static int calls;

int oneshot_run(const struct oneshot *shot, struct result *result, struct oneshot_extra *extra)
{
    calls++;
    result->runtime = "local";
    return act(shot, result, extra);
}

void oneshot_extra_free(struct oneshot_extra *extra)
{
    free(extra->artifact_path);
    extra->artifact_path = NULL;
}

/* What a command printed and how it ended. */
struct outcome {
    int status;
    char out[16384];
    char err[16384];
};

static int redirect(int fd, int to)
{
    int kept = fcntl(fd, F_DUPFD_CLOEXEC, 10);

    assert_true(kept >= 0);
    assert_int_equal(dup2(to, fd), fd);
    return kept;
}

static void restore(int fd, int kept)
{
    assert_int_equal(dup2(kept, fd), fd);
    close(kept);
}

static void read_back(int fd, char *text, size_t size)
{
    ssize_t length;

    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    length = fd_read_all(fd, text, size - 1);
    text[length > 0 ? length : 0] = 0;
}

/* Runs a command with standard output at `stdout_fd`; -1: kept in outcome->out. */
static void run_at(const struct command *command, const char *const *words, int stdout_fd,
                   struct outcome *outcome)
{
    char *env[] = {empty_config(), NULL};
    struct invocation invocation = {.command = command, .env = env};
    CLEANUP(fd_closep) int out = memfd_create("out", MFD_CLOEXEC);
    CLEANUP(fd_closep) int err = memfd_create("err", MFD_CLOEXEC);
    struct error error = {0};
    int count = 0, kept_out, kept_err;

    while (words[count])
        count++;
    calls = 0;
    assert_int_equal(options_parse(command, count, words, &invocation.parsed, &error), 0);
    kept_out = redirect(STDOUT_FILENO, stdout_fd >= 0 ? stdout_fd : out);
    kept_err = redirect(STDERR_FILENO, err);
    outcome->status = command->run(&invocation);
    restore(STDOUT_FILENO, kept_out);
    restore(STDERR_FILENO, kept_err);
    parsed_free(&invocation.parsed);
    read_back(out, outcome->out, sizeof(outcome->out));
    read_back(err, outcome->err, sizeof(outcome->err));
}
#define RUN(command, outcome, ...) \
    run_at(&(command), (const char *const[]){__VA_ARGS__, NULL}, -1, outcome)

static void expect(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in '%s'", part, text);
}

static int act_check_run(const struct oneshot *shot, struct result *result,
                         struct oneshot_extra *extra)
{
    (void)extra;
    assert_string_equal(shot->language, "python");
    assert_string_equal(shot->code, "print(1)");
    assert_int_equal(shot->code_length, 8);
    assert_string_equal(shot->argv[0], "a");
    assert_string_equal(shot->argv[1], "--json");
    assert_null(shot->argv[2]);
    assert_string_equal(shot->env[0], "A=1");
    assert_int_equal(shot->file_count, 1);
    assert_string_equal(shot->files[0].host, "x");
    assert_string_equal(shot->files[0].box, "y");
    assert_int_equal(shot->stdin_fd, STDIN_FILENO);
    assert_int_equal(shot->config->limits.timeout_ms, 5000);
    assert_true(shot->keep_artifact);
    assert_int_equal(shot->sink->write(shot->sink->ctx, 1, "\x1b[mout\n", 7), 0);
    assert_int_equal(shot->sink->write(shot->sink->ctx, 2, "err\n", 4), 0);
    result->exit_code = 42;
    return 0;
}

static void test_run_asks_for_what_was_typed(void **state)
{
    struct outcome outcome;

    (void)state;
    act = act_check_run;
    RUN(run_command, &outcome, "-t", "5", "--env", "A=1", "--file", "x:y", "--stdin", "-c",
        "print(1)", "--", "a", "--json");
    assert_int_equal(outcome.status, 42);
    assert_string_equal(outcome.out, "\x1b[mout\n"); /* no terminal: byte for byte */
    assert_string_equal(outcome.err, "err\n");
}

static int act_check_exec(const struct oneshot *shot, struct result *result,
                          struct oneshot_extra *extra)
{
    (void)result;
    (void)extra;
    assert_null(shot->language);
    assert_string_equal(shot->argv[0], "ls");
    assert_string_equal(shot->argv[1], "-l");
    assert_null(shot->argv[2]);
    assert_int_equal(shot->stdin_fd, -1);
    return 0;
}

static void test_exec_hands_the_words_over(void **state)
{
    struct outcome outcome;

    (void)state;
    act = act_check_exec;
    RUN(exec_command, &outcome, "ls", "-l");
    assert_int_equal(outcome.status, 0);
    RUN(exec_command, &outcome, "--", "ls", "-l");
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.err, "");
}

static int act_fail(const struct oneshot *shot, struct result *result, struct oneshot_extra *extra)
{
    (void)shot;
    (void)extra;
    result->exit_code = 1;
    return error_set(&result->error, -EPERM, ERROR_REFUSED, "landlock is missing");
}

static void test_json_is_one_document_and_nothing_else(void **state)
{
    struct outcome outcome;
    json_t *json;

    (void)state;
    act = act_fail;
    RUN(run_command, &outcome, "--json", "-c", "x");
    assert_int_equal(outcome.status, 126);
    json = json_loads(outcome.out, 0, NULL);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(
                            json_object_get(json_object_get(json, "meta"), "error"), "message")),
                        "landlock is missing");
    json_decref(json);
    assert_ptr_equal(strchr(outcome.out, '\n'), outcome.out + strlen(outcome.out) - 1);
    assert_string_equal(outcome.err, "");
}

static void test_an_error_says_what_to_do(void **state)
{
    struct outcome outcome;

    (void)state;
    act = act_fail;
    RUN(run_command, &outcome, "-c", "x");
    assert_int_equal(outcome.status, 126);
    assert_string_equal(outcome.out, "");
    expect(outcome.err, "bailey: landlock is missing; or accept less with --isolation");
}

static int act_limits(const struct oneshot *shot, struct result *result,
                      struct oneshot_extra *extra)
{
    (void)shot;
    result->timed_out = true;
    result->oom_killed = true;
    result->disk_full = true;
    result->exit_code = -1;
    error_set(&extra->artifact_error, -ENOSPC, ERROR_ENGINE, "writing artifacts: ENOSPC");
    return 0;
}

static void test_limits_that_were_hit_are_said(void **state)
{
    struct outcome outcome;

    (void)state;
    act = act_limits;
    RUN(run_command, &outcome, "--timeout", "0.5", "--memory", "64m", "--disk", "16m", "-c", "x");
    assert_int_equal(outcome.status, 124);
    expect(outcome.err, "bailey: timed out after 0.5 s");
    expect(outcome.err, "bailey: out of memory (limit 64m)");
    expect(outcome.err, "bailey: disk full (limit 16m)");
    expect(outcome.err, "writing artifacts: ENOSPC, continuing without a stored execution");
}

static int act_files(const struct oneshot *shot, struct result *result, struct oneshot_extra *extra)
{
    (void)extra;
    result->total_output_files = 3;
    if (!shot->out)
        return 0;
    assert_int_equal(result_add_file(result, "a\nbailey: b", "/got/a\nbailey: b", 2048, NULL), 0);
    assert_int_equal(result_add_file(result, "link", NULL, 0, "symlink"), 0);
    return 0;
}

static void test_output_files_are_told(void **state)
{
    struct outcome outcome;

    (void)state;
    act = act_files;
    RUN(run_command, &outcome, "-c", "x");
    assert_string_equal(outcome.err,
                        "bailey: 3 files in /tmp/output were not fetched; use --out DIR\n");
    RUN(run_command, &outcome, "-c", "x", "--quiet");
    assert_string_equal(outcome.err, "");
    RUN(run_command, &outcome, "-c", "x", "--out", "got");
    expect(outcome.err, "bailey: fetched /got/a\\x0abailey: b (2 KB)\n");
    expect(outcome.err, "bailey: not fetched: link (symlink)\n");
    expect(outcome.err, "bailey: 1 more");
}

static int act_segfault(const struct oneshot *shot, struct result *result,
                        struct oneshot_extra *extra)
{
    (void)shot;
    (void)extra;
    result->signal = SIGSEGV;
    result->exit_code = 128 + SIGSEGV;
    return 0;
}

static void test_the_signal_that_ended_it_is_named(void **state)
{
    struct outcome outcome;

    (void)state;
    act = act_segfault;
    RUN(run_command, &outcome, "-c", "x");
    assert_int_equal(outcome.status, 128 + SIGSEGV);
    assert_string_equal(outcome.err, "bailey: killed by signal 11 (Segmentation fault)\n");
}

static int act_signal(const struct oneshot *shot, struct result *result,
                      struct oneshot_extra *extra)
{
    struct pollfd ready = {.fd = shot->cancel_fd, .events = POLLIN};

    (void)extra;
    assert_int_equal(poll(&ready, 1, 0), 0);
    assert_int_equal(raise(SIGTERM), 0);
    assert_int_equal(poll(&ready, 1, 0), 1);
    return error_set(&result->error, -ECANCELED, ERROR_CANCELLED, "cancelled");
}

static void test_a_signal_interrupts(void **state)
{
    struct outcome outcome;

    (void)state;
    act = act_signal;
    RUN(run_command, &outcome, "-c", "x");
    assert_int_equal(outcome.status, 128 + SIGTERM);
    assert_string_equal(outcome.err, "bailey: interrupted\n");
}

static int act_write(const struct oneshot *shot, struct result *result, struct oneshot_extra *extra)
{
    int written = shot->sink->write(shot->sink->ctx, 1, "text", 4);

    (void)extra;
    /* What failed once is not tried again. */
    assert_int_equal(shot->sink->write(shot->sink->ctx, 1, "text", 4), written);
    result->exit_code = 1;
    return error_set(&result->error, -ECANCELED, ERROR_CANCELLED, "reader of the output");
}

static void test_a_reader_that_left_ends_the_run_quietly(void **state)
{
    struct outcome outcome;
    int ends[2];

    (void)state;
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    act = act_write;
    run_at(&run_command, (const char *const[]){"-c", "x", NULL}, ends[1], &outcome);
    assert_int_equal(outcome.status, 128 + SIGPIPE);
    assert_string_equal(outcome.err, "");
    close(ends[1]);
}

static void test_a_full_disk_under_standard_output_is_said(void **state)
{
    CLEANUP(fd_closep) int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    struct outcome outcome;

    (void)state;
    assert_true(full >= 0);
    act = act_write;
    run_at(&run_command, (const char *const[]){"-c", "x", NULL}, full, &outcome);
    assert_int_equal(outcome.status, 125);
    expect(outcome.err, "bailey: writing standard output: No space left on device");
}

static int act_blocked(const struct oneshot *shot, struct result *result,
                       struct oneshot_extra *extra)
{
    char chunk[4096];

    (void)result;
    (void)extra;
    memset(chunk, 'x', sizeof(chunk));
    assert_int_equal(raise(SIGINT), 0);
    /* Nobody reads the pipe: the write comes back once it is full, because of the signal. */
    while (shot->sink->write(shot->sink->ctx, 1, chunk, sizeof(chunk)) == 0)
        ;
    return error_set(&result->error, -ECANCELED, ERROR_CANCELLED, "cancelled");
}

static void test_ctrl_c_is_noticed_while_nobody_reads(void **state)
{
    struct outcome outcome;
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    act = act_blocked;
    run_at(&run_command, (const char *const[]){"-c", "x", NULL}, ends[1], &outcome);
    assert_int_equal(outcome.status, 128 + SIGINT);
    close(ends[0]);
    close(ends[1]);
}

static void expect_bad_input(const struct command *command, const char *const *words,
                             const char *mention)
{
    struct outcome outcome;

    run_at(command, words, -1, &outcome);
    assert_int_equal(outcome.status, 125);
    assert_int_equal(calls, 0); /* nothing was started */
    assert_string_equal(outcome.out, "");
    expect(outcome.err, "bailey: ");
    expect(outcome.err, mention);
}
#define BAD(command, mention, ...) \
    expect_bad_input(&(command), (const char *const[]){__VA_ARGS__, NULL}, mention)

static void test_bad_input_starts_nothing(void **state)
{
    static char large[LIMIT_ARGV_BYTES + 1];

    (void)state;
    memset(large, 'x', sizeof(large) - 1);
    BAD(run_command, "nothing to run", "--quiet");
    BAD(run_command, "only one of them", "-c", "x", "a.py");
    BAD(run_command, "--stdin", "-", "--stdin");
    BAD(run_command, "no file", "/nowhere/a.py");
    BAD(run_command, "nothing to run", "-c", "");
    BAD(run_command, "known are: python", "-c", "x", "--language", "ruby");
    BAD(run_command, "--timeout", "-c", "x", "--timeout", "0");
    BAD(run_command, "--file", "-c", "x", "--", large);
    BAD(exec_command, "nothing to run", "--quiet");
    BAD(exec_command, "nothing to run", "--", "");
}

/* One result with the code, and limits that a reader may rely on. */
static void expect_bad_json(const struct command *command, const char *const *words,
                            const char *code)
{
    struct outcome outcome;
    const char *runtime, *got;
    int exit_code, timeout;
    json_t *json;

    run_at(command, words, -1, &outcome);
    assert_int_equal(outcome.status, 125);
    assert_int_equal(calls, 0);
    assert_string_equal(outcome.err, "");
    json = json_loads(outcome.out, 0, NULL);
    assert_int_equal(json_unpack(json, "{s:i, s:{s:s, s:{s:s}, s:{s:i}}}", "exit_code", &exit_code,
                                 "meta", "runtime", &runtime, "error", "code", &got,
                                 "resource_limits", "timeout_s", &timeout),
                     0);
    assert_string_equal(got, code);
    assert_string_equal(runtime, "local");
    assert_int_equal(exit_code, 1);
    assert_int_equal(timeout, 30);
    json_decref(json);
}
#define BAD_JSON(command, code, ...) \
    expect_bad_json(&(command), (const char *const[]){__VA_ARGS__, NULL}, code)

static void test_bad_input_with_json_is_a_result(void **state)
{
    (void)state;
    BAD_JSON(run_command, "not_found", "--json", "/nowhere/a.py");
    BAD_JSON(run_command, "bad_input", "--json");
    BAD_JSON(run_command, "bad_input", "--timeout", "0", "-c", "x", "-j");
    BAD_JSON(run_command, "bad_input", "--memory", "12x", "-c", "x", "--json");
    BAD_JSON(run_command, "bad_input", "--env", "1x", "-c", "x", "--json");
    BAD_JSON(run_command, "bad_config", "--config", "/nowhere/b.yaml", "-c", "x", "--json");
    BAD_JSON(exec_command, "bad_input", "--json");
}

static int act_nothing(const struct oneshot *shot, struct result *result,
                       struct oneshot_extra *extra)
{
    (void)shot;
    result->layers = ISOLATION_LAYER_BIT(ISOLATION_LAYER_SECCOMP);
    extra->timings[0] = (struct oneshot_timing){"clone", 1000000};
    extra->timing_count = 1;
    return 0;
}

static void test_tables_go_to_standard_error(void **state)
{
    struct outcome outcome;

    (void)state;
    act = act_nothing;
    RUN(run_command, &outcome, "-c", "x", "--explain", "--timing");
    assert_int_equal(outcome.status, 0);
    assert_string_equal(outcome.out, "");
    expect(outcome.err, "isolation and limits of this run");
    expect(outcome.err, "1.000 ms  clone");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run_asks_for_what_was_typed),
        cmocka_unit_test(test_exec_hands_the_words_over),
        cmocka_unit_test(test_json_is_one_document_and_nothing_else),
        cmocka_unit_test(test_an_error_says_what_to_do),
        cmocka_unit_test(test_limits_that_were_hit_are_said),
        cmocka_unit_test(test_output_files_are_told),
        cmocka_unit_test(test_the_signal_that_ended_it_is_named),
        cmocka_unit_test(test_a_signal_interrupts),
        cmocka_unit_test(test_a_reader_that_left_ends_the_run_quietly),
        cmocka_unit_test(test_a_full_disk_under_standard_output_is_said),
        cmocka_unit_test(test_ctrl_c_is_noticed_while_nobody_reads),
        cmocka_unit_test(test_bad_input_starts_nothing),
        cmocka_unit_test(test_bad_input_with_json_is_a_result),
        cmocka_unit_test(test_tables_go_to_standard_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
