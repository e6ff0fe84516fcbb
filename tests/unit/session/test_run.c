/* test_run.c - one-shot runs: every ending, and callers who leave. */
#include "workshop.h"

#include <dirent.h>

struct told {
    unsigned done;
    struct result result;
};

static void on_done(void *ctx, struct result *result)
{
    struct told *told = ctx;

    told->done++;
    told->result = *result;
    *result = (struct result){0};
}

static struct run *start(struct shop *shop, struct told *told, const struct run_spec *spec)
{
    struct run_spec own = *spec;
    struct error err = {0};
    struct run *run;

    *told = (struct told){0};
    own.language = spec->language ? spec->language : "bash";
    own.code_length = strlen(spec->code);
    own.input_length = spec->input ? strlen(spec->input) : 0;
    if (engine_run(shop->engine, &own, on_done, told, &run, &err) < 0)
        fail_msg("%s", err.text);
    return run;
}

static void ran(struct shop *shop, struct told *told, const struct run_spec *spec)
{
    start(shop, told, spec);
    UNTIL(shop, told->done);
    UNTIL(shop, engine_is_idle(shop->engine));
    assert_int_equal(told->done, 1);
}

static void check_text(const struct capture *capture, const char *text)
{
    assert_int_equal(capture->kept.length, strlen(text));
    assert_memory_equal(capture->kept.data, text, strlen(text));
}

static unsigned count_artifacts(struct shop *shop)
{
    DIR *folder = opendir(scratch_path(&shop->scratch, "artifacts/executions"));
    struct dirent *entry;
    unsigned count = 0;

    while (folder && (entry = readdir(folder)))
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

static void test_ok(void **state)
{
    struct shop *shop = *state;
    json_t *env = json_pack("{s:s}", "A", "1");
    struct told told;

    ran(shop, &told,
        &(struct run_spec){
            .code = "read x; echo $x $A; echo err >&2", .env = env, .input = "in\n"});
    json_decref(env);
    assert_int_equal(told.result.exit_code, 0);
    assert_null(told.result.error.code);
    check_text(&told.result.out, "in 1\n");
    check_text(&told.result.err, "err\n");
    result_free(&told.result);
    assert_int_equal(count_artifacts(shop), 0); /* on_error */
    assert_null(shop_find(shop, 1));
}

static void test_error(void **state)
{
    struct shop *shop = *state;
    struct told told;

    ran(shop, &told, &(struct run_spec){.code = "echo partly; exit 3"});
    assert_int_equal(told.result.exit_code, 3);
    check_text(&told.result.out, "partly\n");
    result_free(&told.result);
    ran(shop, &told, &(struct run_spec){.code = "kill -15 $$"});
    assert_int_equal(told.result.exit_code, 128 + 15);
    assert_int_equal(told.result.signal, 15);
    result_free(&told.result);
    ran(shop, &told, &(struct run_spec){.language = "none", .code = "x"});
    assert_string_equal(told.result.error.code, ERROR_COMMAND_NOT_FOUND);
    assert_int_equal(told.result.exit_code, 1);
    result_free(&told.result);
    assert_int_equal(count_artifacts(shop), 3);
    shop->config.store_code = STORE_NEVER;
    ran(shop, &told, &(struct run_spec){.code = "exit 4"});
    result_free(&told.result);
    assert_int_equal(count_artifacts(shop), 3);
}

static void test_timeout(void **state)
{
    struct shop *shop = *state;
    struct told told;

    ran(shop, &told, &(struct run_spec){.code = "echo partly; exec sleep 1000", .timeout_ms = 300});
    assert_true(told.result.timed_out);
    assert_int_equal(told.result.exit_code, -1);
    check_text(&told.result.out, "partly\n");
    result_free(&told.result);
}

static void test_facts_of_the_end(void **state)
{
    struct shop *shop = *state;
    struct told told;

    shop->oom_kills = 1;
    ran(shop, &told, &(struct run_spec){.code = "kill -9 $$"});
    assert_true(told.result.oom_killed);
    result_free(&told.result);
}

/* More than any window: code, input and output. */
static void test_large(void **state)
{
    struct shop *shop = *state;
    size_t length = 2 * MIB;
    char *code = malloc(length + 64), *input = malloc(length + 1);
    struct told told;

    assert_true(code && input);
    memset(code, '#', length);
    snprintf(code + length, 64, "\nwc -c; head -c 2000000 /dev/zero");
    memset(input, 'i', length);
    input[length] = 0;
    ran(shop, &told, &(struct run_spec){.code = code, .input = input});
    assert_int_equal(told.result.exit_code, 0);
    assert_memory_equal(told.result.out.kept.data, "2097152\n", 8);
    assert_int_equal(told.result.out.total_bytes, 2000008);
    assert_true(told.result.out.is_truncated);
    result_free(&told.result);
    free(code);
    free(input);
}

static void test_refused(void **state)
{
    struct shop *shop = *state;
    struct told told;

    shop->refuses = true;
    ran(shop, &told, &(struct run_spec){.code = "true"});
    assert_string_equal(told.result.error.code, ERROR_REFUSED);
    assert_int_equal(told.result.missing, 1);
    assert_int_equal(told.result.exit_code, 1);
    result_free(&told.result);
}

static void start_error(struct shop *shop, const struct run_spec *spec, const char *code)
{
    struct told told = {0};
    struct error err = {0};
    struct run *run;

    assert_true(engine_run(shop->engine, spec, on_done, &told, &run, &err) < 0);
    assert_string_equal(err.code, code);
    assert_true(engine_is_idle(shop->engine));
}

static void test_refused_at_once(void **state)
{
    struct shop *shop = *state;
    unsigned stopped = 0;

    start_error(shop, &(struct run_spec){.language = "cobol", .code = ""}, ERROR_BAD_INPUT);
    start_error(shop, &(struct run_spec){.language = "ada", .code = ""}, ERROR_NO_INTERPRETER);
    start_error(
        shop,
        &(struct run_spec){.language = "bash", .code = "", .code_length = LIMIT_CODE_BYTES + 1},
        ERROR_TOO_LARGE);
    shop->refuses_now = true;
    start_error(shop, &(struct run_spec){.language = "bash", .code = ""}, ERROR_ENGINE);
    engine_stop(shop->engine, 0, counted, &stopped);
    start_error(shop, &(struct run_spec){.language = "bash", .code = ""}, ERROR_SHUTTING_DOWN);
    UNTIL(shop, stopped);
}

static void test_cancel(void **state)
{
    struct shop *shop = *state;
    struct told told, other;
    struct run *run;

    /* while its box is being made */
    shop->holds[ASK_MAKE] = true;
    run = start(shop, &told, &(struct run_spec){.code = "true"});
    engine_run_cancel(run);
    engine_run_cancel(run); /* twice, before its turn came */
    UNTIL(shop, engine_is_idle(shop->engine));
    assert_int_equal(shop->cancelled, 1);
    shop_let_go(shop, ASK_MAKE);
    /* the box comes between the cancel and its turn */
    run = start(shop, &told, &(struct run_spec){.code = "true"});
    engine_run_cancel(run);
    shop_work(shop);
    UNTIL(shop, engine_is_idle(shop->engine));
    /* while it runs; another one goes on */
    start(shop, &other, &(struct run_spec){.code = "sleep 0.5; echo other"});
    run = start(shop, &told, &(struct run_spec){.code = "touch mark; exec sleep 1000"});
    UNTIL(shop, shop->made == 3);
    UNTIL(shop, has_file(shop, "box/3/work/mark"));
    engine_run_cancel(run);
    UNTIL(shop, other.done && engine_is_idle(shop->engine));
    check_text(&other.result.out, "other\n");
    result_free(&other.result);
    /* while its box is being taken away */
    shop->holds[ASK_END] = true;
    run = start(shop, &told, &(struct run_spec){.code = "true"});
    UNTIL(shop, shop_asked(shop, ASK_END) == 1);
    engine_run_cancel(run);
    shop_let_go(shop, ASK_END);
    UNTIL(shop, engine_is_idle(shop->engine));
    assert_int_equal(told.done, 0);
}

static void test_box_lost(void **state)
{
    struct shop *shop = *state;
    struct told told;

    start(shop, &told,
          &(struct run_spec){.code = "touch mark; for i in 1 2 3 4; do sleep 1; done"});
    UNTIL(shop, has_file(shop, "box/1/work/mark"));
    kill(shop_find(shop, 1)->pid, SIGKILL);
    engine_box_ended(shop->engine, 1, 0);
    UNTIL(shop, told.done);
    assert_string_equal(told.result.error.code, ERROR_BOX_LOST);
    assert_int_equal(told.result.exit_code, 1);
    result_free(&told.result);
    UNTIL(shop, engine_is_idle(shop->engine));
}

static void test_blocked_imports(void **state)
{
    struct shop *shop = *state;
    struct told told;

    if (access("/usr/bin/python3", X_OK) < 0)
        skip();
    shop->config.block_imports = true;
    ran(shop, &told, &(struct run_spec){.language = "python", .code = "import os\nprint(1)"});
    assert_string_equal(told.result.error.code, ERROR_BLOCKED_IMPORT);
    assert_string_equal(told.result.blocked_imports[0], "os");
    assert_int_equal(told.result.out.total_bytes, 0);
    result_free(&told.result);
    ran(shop, &told, &(struct run_spec){.language = "python", .code = "print(1)"});
    assert_int_equal(told.result.exit_code, 0);
    check_text(&told.result.out, "1\n");
    result_free(&told.result);
}

/* A goodbye waits for a run, and then does not any more. */
static void test_stop(void **state)
{
    struct shop *shop = *state;
    unsigned stopped = 0;
    struct told told;

    start(shop, &told, &(struct run_spec){.code = "touch mark; exec sleep 1000"});
    UNTIL(shop, has_file(shop, "box/1/work/mark"));
    engine_stop(shop->engine, 100, counted, &stopped);
    UNTIL(shop, stopped);
    assert_int_equal(told.done, 1);
    assert_string_equal(told.result.error.code, ERROR_SHUTTING_DOWN);
    result_free(&told.result);
}

struct reader {
    struct told told; /* first: it is what on_done() gets */
    struct run *run;
    unsigned calls;
};

static size_t read_once(void *ctx, int stream, const void *data, size_t length)
{
    struct reader *reader = ctx;

    (void)stream;
    (void)data;
    if (reader->calls++ == 0)
        engine_run_cancel(reader->run);
    return length;
}

/* More output is on its way when the caller leaves, who is gone then: nobody is called. */
static void test_output_behind_a_cancel(void **state)
{
    struct shop *shop = *state;
    struct reader reader = {0};

    reader.run = start(shop, &reader.told,
                       &(struct run_spec){.code = "exec yes abcdefghij", .sink = read_once});
    UNTIL(shop, engine_is_idle(shop->engine));
    assert_int_equal(reader.calls, 1);
    assert_int_equal(reader.told.done, 0);
}

/* An engine is freed with runs in every state. */
static void test_freed(void **state)
{
    struct shop *shop = *state;
    struct told told[3];

    start(shop, &told[0], &(struct run_spec){.code = "exec sleep 1000"});
    UNTIL(shop, shop->made == 1);
    shop->holds[ASK_MAKE] = true;
    start(shop, &told[1], &(struct run_spec){.code = "true"});
    engine_run_cancel(start(shop, &told[2], &(struct run_spec){.code = "true"}));
    shop_crash(shop);
    shop->holds[ASK_MAKE] = false;
    shop_begin(shop); /* the box of the first is ended by the next broker */
    UNTIL(shop, !shop_find(shop, 1));
    for (int i = 0; i < 3; i++)
        assert_int_equal(told[i].done, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        IN_A_WORKSHOP(test_ok),
        IN_A_WORKSHOP(test_error),
        IN_A_WORKSHOP(test_timeout),
        IN_A_WORKSHOP(test_facts_of_the_end),
        IN_A_WORKSHOP(test_large),
        IN_A_WORKSHOP(test_refused),
        IN_A_WORKSHOP(test_refused_at_once),
        IN_A_WORKSHOP(test_cancel),
        IN_A_WORKSHOP(test_output_behind_a_cancel),
        IN_A_WORKSHOP(test_box_lost),
        IN_A_WORKSHOP(test_blocked_imports),
        IN_A_WORKSHOP(test_stop),
        IN_A_WORKSHOP(test_freed),
    };

    return cmocka_run_group_tests(tests, shop_reaper, NULL);
}
