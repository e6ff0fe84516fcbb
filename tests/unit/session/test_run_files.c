/* test_run_files.c - files that a one-shot run brings along and takes home. */
#include "engine_fixture.h"

#include "base/cleanup.h"

#define FILES_MAX 8

struct told {
    unsigned done;
    struct result result;
    size_t count;
    struct {
        char name[64];
        char data[64];
        size_t length;
    } files[FILES_MAX];
};

static void on_done(void *ctx, struct result *result)
{
    struct told *told = ctx;

    told->done++;
    told->result = *result;
    *result = (struct result){0};
}

static void on_fetched(void *ctx, const char *name, const void *data, size_t length)
{
    struct told *told = ctx;

    assert_int_equal(told->done, 0);
    assert_true(told->count < FILES_MAX);
    snprintf(told->files[told->count].name, sizeof(told->files[0].name), "%s", name);
    memcpy(told->files[told->count].data, data, MIN(length, sizeof(told->files[0].data)));
    told->files[told->count++].length = length;
}

static struct run *start(struct engine_fixture *fixture, struct told *told,
                         const struct run_spec *spec)
{
    struct run_spec own = *spec;
    struct error err = {0};
    struct run *run;

    *told = (struct told){0};
    own.language = "bash";
    own.code_length = strlen(spec->code);
    own.fetched = on_fetched;
    if (session_manager_run(fixture->manager, &own, on_done, told, &run, &err) < 0)
        fail_msg("%s", err.text);
    return run;
}

static void ran(struct engine_fixture *fixture, struct told *told, const struct run_spec *spec)
{
    start(fixture, told, spec);
    UNTIL(fixture, told->done);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
    assert_int_equal(told->done, 1);
}

static void check_home(const struct told *told, const char *name, const char *data)
{
    for (size_t i = 0; i < told->count; i++) {
        if (strcmp(told->files[i].name, name) != 0)
            continue;
        assert_int_equal(told->files[i].length, strlen(data));
        assert_memory_equal(told->files[i].data, data, strlen(data));
        return;
    }
    fail_msg("'%s' did not come home", name);
}

static void test_in_and_out(void **state)
{
    const struct run_file files[] = {
        {.name = "a.txt", .data = "hallo", .length = 5},
        {.name = "empty", .data = "", .length = 0},
    };
    struct engine_fixture *fixture = *state;
    struct told told;

    ran(fixture, &told,
        &(struct run_spec){.code = "here=$PWD; mkdir -p ../tmp/output/sub; cd ../tmp/output\n"
                                   "cat $here/a.txt >b.txt; wc -c <$here/empty\n"
                                   "echo no >sub/deep; ln -s /etc/passwd link; mkfifo pipe\n"
                                   "printf x >.hidden",
                           .files = files,
                           .file_count = ARRAY_SIZE(files),
                           .fetch_bytes = 1000});
    assert_int_equal(told.result.exit_code, 0);
    assert_string_equal(buf_text(&told.result.err.kept), "");
    assert_memory_equal(buf_text(&told.result.out.kept), "0\n", 2);
    assert_int_equal(told.count, 2);
    check_home(&told, "b.txt", "hallo");
    check_home(&told, ".hidden", "x");
    assert_int_equal(told.result.file_count, 0);
    result_free(&told.result);
}

static void test_no_more_than_asked_for(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;

    ran(fixture, &told,
        &(struct run_spec){.code = "mkdir -p ../tmp/output; cd ../tmp/output\n"
                                   "head -c 6 /dev/zero >a; head -c 11 /dev/zero >large",
                           .fetch_bytes = 10});
    assert_int_equal(told.count, 1);
    assert_string_equal(told.files[0].name, "a");
    assert_int_equal(told.result.file_count, 1);
    assert_string_equal(told.result.files[0].name, "large");
    assert_string_equal(told.result.files[0].skipped, RUN_FILE_OVER);
    result_free(&told.result);
    /* Each fits, and all of them do not. */
    ran(fixture, &told,
        &(struct run_spec){.code = "mkdir -p ../tmp/output; cd ../tmp/output\n"
                                   "head -c 6 /dev/zero >a; head -c 6 /dev/zero >b",
                           .fetch_bytes = 10});
    assert_int_equal(told.count, 1);
    assert_int_equal(told.result.file_count, 1);
    result_free(&told.result);
}

static void test_output_of_its_own_size(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;

    ran(fixture, &told, &(struct run_spec){.code = "printf 123456789", .output_bytes = 4});
    assert_int_equal(told.result.out.kept.length, 4);
    assert_true(told.result.out.is_truncated);
    assert_int_equal(told.result.out.total_bytes, 9);
    result_free(&told.result);
}

static void test_a_large_file(void **state)
{
    struct engine_fixture *fixture = *state;
    size_t length = 3 * MIB + 1;
    char *data = calloc(1, length);
    struct run_file file = {.name = "large", .data = data, .length = length};
    struct told told;

    assert_non_null(data);
    ran(fixture, &told,
        &(struct run_spec){.code =
                               "mkdir -p ../tmp/output; cp large ../tmp/output/back; wc -c <large",
                           .files = &file,
                           .file_count = 1,
                           .fetch_bytes = 10 * MIB});
    assert_memory_equal(buf_text(&told.result.out.kept), "3145729\n", 8);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.files[0].length, length);
    result_free(&told.result);
    free(data);
}

static void test_a_caller_who_leaves(void **state)
{
    struct run_file file = {.name = "a", .data = "a", .length = 1};
    struct engine_fixture *fixture = *state;
    struct told told;
    struct run *run =
        start(fixture, &told,
              &(struct run_spec){
                  .code = "sleep 1000", .files = &file, .file_count = 1, .fetch_bytes = 1});

    session_manager_run_cancel(run);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
    assert_int_equal(told.done, 0);
}

static void test_requirements_that_are_none(void **state)
{
    static const char *const bad[] = {"../x", NULL};
    static const char *const good[] = {"x", NULL};
    struct engine_fixture *fixture = *state;
    struct run_spec spec = {.language = "bash", .code = "x", .code_length = 1, .requirements = bad};
    struct error err = {0};
    struct told told = {0};
    struct run *run;

    assert_true(session_manager_run(fixture->manager, &spec, on_done, &told, &run, &err) < 0);
    assert_string_equal(err.code, ERROR_BAD_INPUT);
    spec.requirements = good; /* but not for bash */
    assert_true(session_manager_run(fixture->manager, &spec, on_done, &told, &run, &err) < 0);
    assert_string_equal(err.code, ERROR_BAD_INPUT);
    assert_true(session_manager_is_idle(fixture->manager));
    assert_int_equal(told.done, 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_ENGINE(test_in_and_out),
        WITH_ENGINE(test_no_more_than_asked_for),
        WITH_ENGINE(test_output_of_its_own_size),
        WITH_ENGINE(test_a_large_file),
        WITH_ENGINE(test_a_caller_who_leaves),
        WITH_ENGINE(test_requirements_that_are_none),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
