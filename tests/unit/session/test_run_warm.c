/*
 * test_run_warm.c - one-shot runs in a box that came with a kernel: who says how it ended, what its
 * script is told, whoever reads along, and an end that was asked for.
 */
#include "kernel_fixture.h"

#include "session/run_private.h"

struct told {
    unsigned done;
    struct result result;
    struct buf seen[2];
    bool is_full; /* nothing is taken */
    bool was_held[2];
};

static void on_done(void *ctx, struct result *result)
{
    struct told *told = ctx;

    told->done++;
    told->result = *result;
    *result = (struct result){0};
}

static size_t on_output(void *ctx, int stream, const void *data, size_t length)
{
    struct told *told = ctx;

    if (told->is_full) {
        told->was_held[stream - 1] = true;
        return 0;
    }
    assert_int_equal(buf_append(&told->seen[stream - 1], data, length), 0);
    return length;
}

static struct run *start(struct engine_fixture *fixture, struct told *told, struct run_spec spec)
{
    struct error err = {0};
    struct run *run;

    *told = (struct told){.seen = {BUF_INIT(64 * MIB), BUF_INIT(64 * MIB)}};
    fixture->fill_made = fixture_fill_made;
    fixture->config.is_warm = true;
    spec.language = spec.language ? spec.language : "python";
    spec.code_length = strlen(spec.code);
    spec.input_length = spec.input ? strlen(spec.input) : 0;
    if (session_manager_run(fixture->manager, &spec, on_done, told, &run, &err) < 0)
        fail_msg("%s", err.text);
    return run;
}

static void ended(struct engine_fixture *fixture, struct told *told)
{
    UNTIL(fixture, told->done);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
    assert_int_equal(told->done, 1);
}

static void told_free(struct told *told)
{
    result_free(&told->result);
    buf_free(&told->seen[0]);
    buf_free(&told->seen[1]);
}

static void check_text(const struct capture *capture, const char *text)
{
    assert_string_equal(buf_text(&capture->kept), text);
    assert_int_equal(capture->total_bytes, strlen(text));
}

/* Its status is told after the box has told of its end. */
static void test_status_comes_last(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;
    struct run *run = start(fixture, &told,
                            (struct run_spec){.code = "print(given); import sys; "
                                                      "print('err', file=sys.stderr); sys.exit(3)",
                                              .input = "in"});

    UNTIL(fixture, run->has_ended);
    assert_int_equal(told.done, 0);
    fixture_reap(fixture, true);
    ended(fixture, &told);
    assert_int_equal(told.result.exit_code, 3);
    assert_null(told.result.error.code);
    assert_string_equal(told.result.warm, "pool");
    check_text(&told.result.out, "in\n");
    check_text(&told.result.err, "err\n");
    told_free(&told);
    assert_null(fixture_find(fixture, 1));
}

/* ... or before, and then all of its output is still waited for. */
static void test_status_comes_first(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;
    struct run *run = start(fixture, &told,
                            (struct run_spec){.code = "print('x' * 100000); import os, sys; "
                                                      "sys.stdout.flush(); os.kill(os.getpid(), "
                                                      "11)"});

    UNTIL(fixture, run->is_running);
    /* The pipe takes all of it only while the box is read: so that is done by turns. */
    UNTIL(fixture, run->result.out.total_bytes > 100000);
    fixture_reap(fixture, true);
    ended(fixture, &told);
    assert_int_equal(told.result.signal, SIGSEGV);
    assert_int_equal(told.result.exit_code, 128 + SIGSEGV);
    assert_int_equal(told.result.out.total_bytes, 100001);
    told_free(&told);
}

static void test_status_is_never_told(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;
    struct run *run = start(fixture, &told, (struct run_spec){.code = "print('fine')"});

    UNTIL(fixture, run->has_ended);
    fixture_reap(fixture, false);
    ended(fixture, &told);
    assert_int_equal(told.result.exit_code, 1); /* nobody says that it was well */
    assert_non_null(strstr(buf_text(&told.result.note), "its status is unknown"));
    check_text(&told.result.out, "fine\n");
    told_free(&told);
}

static void test_timeout(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;

    start(fixture, &told,
          (struct run_spec){.code = "print('part', flush=True)\nwhile True: pass",
                            .timeout_ms = 500});
    ended(fixture, &told);
    fixture_reap(fixture, true); /* nobody is left who wants to know */
    assert_true(told.result.timed_out);
    assert_int_equal(told.result.exit_code, -1);
    assert_int_equal(told.result.signal, 0);
    check_text(&told.result.out, "part\n");
    told_free(&told);
}

/* Another language does not get the kernel of Python. */
static void test_other_languages(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;

    start(fixture, &told, (struct run_spec){.language = "bash", .code = "echo $0"});
    ended(fixture, &told);
    assert_string_equal(told.result.warm, "cold");
    check_text(&told.result.out, "main.sh\n");
    told_free(&told);
    kill(fixture_zygote.kernels[0].pid, SIGKILL);
    fixture_reap(fixture, false);
}

/* The words are strings of the environment that no variable can be. */
static void test_words(void **state)
{
    struct engine_fixture *fixture = *state;
    json_t *words = json_pack("[s, s]", "a b", "--x");
    json_t *env = json_pack("{s:s}", "K", "v");
    struct told told;
    struct run *run = start(
        fixture, &told,
        (struct run_spec){.code = "print(env)", .name = "t.py", .arguments = words, .env = env});

    UNTIL(fixture, run->has_ended);
    fixture_reap(fixture, true);
    ended(fixture, &told);
    check_text(&told.result.out, "['K=v', '=t.py', '=a b', '=--x', '']\n");
    told_free(&told);
    start(fixture, &told,
          (struct run_spec){
              .language = "bash", .code = "echo \"$0|$1|$2\"", .name = "t.sh", .arguments = words});
    ended(fixture, &told);
    check_text(&told.result.out, "t.sh|a b|--x\n");
    told_free(&told);
    json_decref(words);
    json_decref(env);
    kill(fixture_zygote.kernels[1].pid, SIGKILL);
    fixture_reap(fixture, false);
}

/* Whoever reads along gets everything, at his pace, and the result has its beginning. */
static void test_reader(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;
    struct run *run =
        start(fixture, &told,
              (struct run_spec){.code = "import sys\nfor n in range(200000): print('%9d' % n)\n"
                                        "print('err', file=sys.stderr)",
                                .sink = on_output});

    told.is_full = true;
    UNTIL(fixture, told.was_held[0]);
    assert_int_equal(run->result.out.total_bytes, 0);
    told.is_full = false;
    for (int i = 0; i < 2; i++)
        session_manager_run_resume(run, i + 1);
    UNTIL(fixture, run->has_ended);
    fixture_reap(fixture, true);
    ended(fixture, &told);
    assert_int_equal(told.seen[0].length, 2000000);
    assert_memory_equal(told.seen[0].data + 1999980, "   199998\n   199999\n", 20);
    assert_string_equal(buf_text(&told.seen[1]), "err\n");
    assert_int_equal(told.result.out.total_bytes, 2000000);
    assert_true(told.result.out.is_truncated);
    told_free(&told);
}

static void test_stopped(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;
    struct run *run = start(fixture, &told,
                            (struct run_spec){.code = "print('part', flush=True)\n"
                                                      "import time; time.sleep(600)"});
    char id[ID_MAX];

    str_copy(id, sizeof(id), session_manager_run_id(run));
    assert_ptr_equal(session_manager_run_find(fixture->manager, id), run);
    assert_null(session_manager_run_find(fixture->manager, "exec_0"));
    UNTIL(fixture, run->result.out.total_bytes == 5);
    session_manager_run_stop(run);
    session_manager_run_stop(run);
    fixture_reap(fixture, true);
    ended(fixture, &told);
    assert_ptr_equal(told.result.error.code, ERROR_CANCELLED);
    assert_int_equal(told.result.signal, SIGKILL);
    check_text(&told.result.out, "part\n");
    told_free(&told);
    assert_null(session_manager_run_find(fixture->manager, id));
    /* before there is a program */
    fixture->holds[ASK_MAKE] = true;
    session_manager_run_stop(start(fixture, &told, (struct run_spec){.code = "print(1)"}));
    ended(fixture, &told);
    assert_ptr_equal(told.result.error.code, ERROR_CANCELLED);
    told_free(&told);
    fixture_let_go(fixture, ASK_MAKE);
}

/* What it left is counted, and what would not have been fetched is named. */
static void test_left(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;

    start(fixture, &told,
          (struct run_spec){
              .language = "bash",
              .code = "mkdir -p ../tmp/output/d; cd ../tmp/output; touch d/a b; ln -s /etc l"});
    ended(fixture, &told);
    assert_null(told.result.error.code);
    assert_int_equal(told.result.total_output_files, 3);
    assert_int_equal(told.result.file_count, 1);
    assert_string_equal(told.result.files[0].name, "l");
    assert_null(told.result.files[0].path);
    told_free(&told);
    kill(fixture_zygote.kernels[0].pid, SIGKILL);
    fixture_reap(fixture, false);
}

/* The CPU time of its kernel is told by who waited for it: in time, or behind a run that was left.
 */
static void test_cpu_time(void **state)
{
    struct engine_fixture *fixture = *state;
    struct tenants *tenants = session_manager_tenants(fixture->manager);
    struct kernel_end end = {.kernel = 1, .usage = {.cpu_us = 600000}};
    struct told told;
    struct run *run;

    fixture->config.quota.cpu_seconds = 1;
    tenants_configure(tenants, &fixture->config);
    run = start(fixture, &told, (struct run_spec){.tenant = "one", .code = "print(1)"});
    UNTIL(fixture, run->has_ended);
    end.number = run->number;
    end.kernel = run->kernel;
    fixture_reap(fixture, false);
    session_manager_kernel_ended(fixture->manager, &end);
    ended(fixture, &told);
    assert_true(told.result.usage.cpu_us >= 600000);
    told_free(&told);
    assert_int_equal(tenant_take(tenants, "one", QUOTA_CPU, 0, NULL), 0);

    run = start(fixture, &told, (struct run_spec){.tenant = "one", .code = "while True: pass"});
    UNTIL(fixture, run->is_running);
    end.number = run->number;
    end.kernel = run->kernel;
    session_manager_run_cancel(run);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
    assert_int_equal(tenant_take(tenants, "one", QUOTA_CPU, 0, NULL), 0);
    kill(fixture_zygote.kernels[fixture_zygote.count - 1].pid, SIGKILL);
    fixture_reap(fixture, false);
    session_manager_kernel_ended(fixture->manager, &end);
    assert_int_equal(tenant_take(tenants, "one", QUOTA_CPU, 0, NULL), -EDQUOT);
    session_manager_kernel_ended(fixture->manager, &end); /* nobody's any more */
    told_free(&told);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_KERNELS(test_status_comes_last),
        WITH_KERNELS(test_status_comes_first),
        WITH_KERNELS(test_status_is_never_told),
        WITH_KERNELS(test_timeout),
        WITH_KERNELS(test_other_languages),
        WITH_KERNELS(test_words),
        WITH_KERNELS(test_reader),
        WITH_KERNELS(test_stopped),
        WITH_KERNELS(test_left),
        WITH_KERNELS(test_cpu_time),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
