/* test_result_json.c - the one result as JSON, both ways, member by member. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "model/result.h"

static const struct limits LIMITS = {
    .timeout_ms = 30000,
    .memory_bytes = 256 * MIB,
    .disk_bytes = 128 * MIB,
    .output_bytes = 10240,
    .pids = 64,
};

static char *dump(const struct result *result)
{
    json_t *json = result_to_json(result);
    char *text;

    assert_non_null(json);
    text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(15));
    assert_non_null(text);
    json_decref(json);
    return text;
}

static void assert_dump(const struct result *result, const char *expected)
{
    char *text = dump(result);

    assert_string_equal(text, expected);
    free(text);
}

/* What dump() of a result gives is what dump() of its reading gives. */
static void assert_comes_back(const struct result *result)
{
    json_t *json = result_to_json(result);
    struct error err = {0};
    struct result back;
    char *text = dump(result);

    result_init(&back, &(struct limits){0});
    if (result_from_json(json, &back, &err) < 0)
        fail_msg("%s", err.text);
    assert_dump(&back, text);
    assert_int_equal(result_exit_status(&back), result_exit_status(result));
    result_free(&back);
    json_decref(json);
    free(text);
}

static void test_the_contract(void **state)
{
    struct result result;

    (void)state;
    result_init(&result, &LIMITS);
    result.runtime = "local";
    str_copy(result.execution_id, ID_MAX, "exec_1");
    capture_add(&result.out, "Hello\n", 6, LIMITS.output_bytes);
    result.duration_ns = 2100000;
    result.usage = (struct usage){.cpu_us = 1234, .max_rss_bytes = 9000000, .by = USAGE_BY_ENGINE};
    result.memory_by = LIMIT_BY_CGROUP_V2;
    result.pids_by = LIMIT_BY_CGROUP_V2;
    result.disk_by = LIMIT_BY_TMPFS;
    result.layers = ISOLATION_LAYER_ALL;
    assert_dump(
        &result,
        "{\"stdout\":\"Hello\\n\",\"stderr\":\"\",\"exit_code\":0,\"duration\":0.0021,"
        "\"meta\":{\"runtime\":\"local\",\"execution_id\":\"exec_1\",\"session_id\":null,"
        "\"truncated\":false,\"stdout_truncated\":false,\"stderr_truncated\":false,"
        "\"stdout_bytes\":6,\"stderr_bytes\":0,"
        "\"stdout_invalid_bytes\":0,\"stderr_invalid_bytes\":0,"
        "\"timed_out\":false,\"oom_killed\":false,\"disk_full\":false,\"signal\":null,"
        "\"blocked_imports\":[],\"output_files\":[],\"files\":[],\"total_output_files\":0,"
        "\"skipped_files\":[],"
        "\"usage\":{\"cpu_ms\":1,\"max_rss_bytes\":9000000,\"by\":\"engine\"},"
        "\"resource_limits\":{\"timeout_s\":30,\"timeout_by\":\"engine\",\"memory_bytes\":"
        "268435456,"
        "\"memory_by\":\"cgroup-v2\",\"pids\":64,\"pids_by\":\"cgroup-v2\",\"cpus\":null,"
        "\"cpu_by\":\"none\",\"disk_bytes\":134217728,\"disk_inodes\":32768,\"disk_by\":\"tmpfs\","
        "\"output_bytes\":10240,\"output_by\":\"engine\"},"
        "\"isolation\":{\"level\":\"strict\",\"layers\":[\"userns\",\"mountns\",\"pidns\","
        "\"netns\","
        "\"ipcns\",\"utsns\",\"cgroupns\",\"seccomp\",\"landlock\",\"cgroup\",\"no_new_privs\","
        "\"caps\",\"uid_split\",\"proc\",\"overlay\"],\"missing\":[]}}}");
    assert_comes_back(&result);
    result_free(&result);
}

/* What nobody knows is null, each for itself, and comes back so. */
static void test_usage_that_is_not_known(void **state)
{
    static const struct {
        struct usage usage;
        const char *text;
    } rows[] = {
        {{0}, "{\"cpu_ms\":null,\"max_rss_bytes\":null,\"by\":null}"},
        {{.cpu_us = 5000, .max_rss_bytes = 5},
         "{\"cpu_ms\":null,\"max_rss_bytes\":null,\"by\":null}"},
        {{.by = USAGE_BY_WARDEN}, "{\"cpu_ms\":0,\"max_rss_bytes\":null,\"by\":\"warden\"}"},
        {{.cpu_us = 2000, .max_rss_bytes = 7, .by = USAGE_BY_PROVIDER},
         "{\"cpu_ms\":2,\"max_rss_bytes\":7,\"by\":\"docker\"}"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct result result, back;
        json_t *json;
        char *text;

        result_init(&result, &LIMITS);
        result_init(&back, &LIMITS);
        result.usage = rows[i].usage;
        result.runtime = "docker";
        json = result_to_json(&result);
        text = json_dumps(json_object_get(json_object_get(json, "meta"), "usage"), JSON_COMPACT);
        assert_string_equal(text, rows[i].text);
        assert_int_equal(result_from_json(json, &back, NULL), 0);
        assert_int_equal(back.usage.by, rows[i].usage.by);
        free(text);
        json_decref(json);
        result_free(&result);
        result_free(&back);
    }
}

/* Every member different from its beginning. */
static void fill(struct result *result)
{
    result_init(result, &LIMITS);
    result->runtime = "docker";
    result->warm = "pool";
    result->install = json_pack("{s:[{s:s, s:s}], s:{s:s, s:s}, s:s}", "installed", "name", "moat",
                                "version", "1.0", "install_error", "code", "no_network", "message",
                                "no index", "install_note", "installed moat 1.0");
    str_copy(result->execution_id, ID_MAX, "exec_2");
    str_copy(result->session_id, ID_MAX, "s_3");
    result->limits.output_bytes = 4;
    result->limits.timeout_ms = 500;
    result->limits.cpu_millis = 1500;
    capture_add(&result->out, "a\0\xff", 3, 4);
    capture_add(&result->err, "12345", 5, 4);
    result_note(result, "timed out after 0.5 s");
    result->exit_code = -1;
    result->signal = 9;
    result->duration_ns = 500123456;
    result->timed_out = result->oom_killed = result->disk_full = true;
    strv_push(&result->blocked_imports, "os");
    strv_push(&result->blocked_imports, "socket");
    result_add_file(result, "a.csv", "/out/a.csv", 12, NULL);
    result_add_file(result, "l\xff", NULL, 0, "symlink");
    result_add_file(result, "model.bin", NULL, 99, NULL);
    result->total_output_files = 3;
    result->usage = (struct usage){.cpu_us = 499501, .max_rss_bytes = 5, .by = USAGE_BY_WARDEN};
    result->memory_by = LIMIT_BY_WATCHDOG;
    result->pids_by = LIMIT_BY_RLIMIT;
    result->cpu_by = LIMIT_BY_AFFINITY;
    result->disk_by = LIMIT_BY_ENGINE;
    result->layers = ISOLATION_LAYER_BIT(ISOLATION_LAYER_SECCOMP) |
                     ISOLATION_LAYER_BIT(ISOLATION_LAYER_LANDLOCK);
    result->missing =
        ISOLATION_LAYER_BIT(ISOLATION_LAYER_USERNS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_CGROUP);
    error_stage(&result->error, "mount proc", -EPERM);
}

static void test_every_member(void **state)
{
    struct result result;

    (void)state;
    fill(&result);
    assert_dump(
        &result,
        "{\"stdout\":\"a\\u0000\xef\xbf\xbd\","
        "\"stderr\":\"12\\n... (output truncated)\\n45\\ntimed out after 0.5 s\\n"
        "out of memory: the box has 256m for everything, its files in /tmp and /workspace "
        "included. Hold less at once: read in pieces, fewer columns, smaller types\\n"
        "mount proc: EPERM (Operation not permitted)\\n\","
        "\"exit_code\":-1,\"duration\":0.500123456,"
        "\"meta\":{\"runtime\":\"docker\",\"execution_id\":\"exec_2\",\"session_id\":\"s_3\","
        "\"truncated\":true,\"stdout_truncated\":false,\"stderr_truncated\":true,"
        "\"stdout_bytes\":3,\"stderr_bytes\":5,"
        "\"stdout_invalid_bytes\":1,\"stderr_invalid_bytes\":0,"
        "\"timed_out\":true,\"oom_killed\":true,\"disk_full\":true,\"signal\":9,"
        "\"blocked_imports\":[\"os\",\"socket\"],"
        "\"output_files\":[\"a.csv\"],"
        "\"files\":[{\"name\":\"a.csv\",\"path\":\"/out/a.csv\",\"bytes\":12}],"
        "\"total_output_files\":3,"
        "\"skipped_files\":[{\"name\":\"l\xef\xbf\xbd\",\"reason\":\"symlink\",\"bytes\":0},"
        "{\"name\":\"model.bin\",\"reason\":\"stayed in the box\",\"bytes\":99}],"
        "\"usage\":{\"cpu_ms\":500,\"max_rss_bytes\":5,\"by\":\"warden\"},"
        "\"resource_limits\":{\"timeout_s\":0.5,\"timeout_by\":\"engine\",\"memory_bytes\":"
        "268435456,"
        "\"memory_by\":\"watchdog (approximate)\",\"pids\":64,\"pids_by\":\"rlimit\",\"cpus\":1.5,"
        "\"cpu_by\":\"affinity "
        "(approximate)\",\"disk_bytes\":134217728,\"disk_inodes\":null,\"disk_by\":\"engine\","
        "\"output_bytes\":4,\"output_by\":\"engine\"},"
        "\"isolation\":{\"level\":\"standard\",\"layers\":[\"seccomp\",\"landlock\"],"
        "\"missing\":[\"userns\",\"cgroup\"]},"
        "\"error\":{\"code\":\"box_failed\","
        "\"message\":\"mount proc: EPERM (Operation not permitted)\",\"stage\":\"mount proc\","
        "\"errno\":\"EPERM\"},\"warm\":\"pool\","
        "\"installed\":[{\"name\":\"moat\",\"version\":\"1.0\"}],"
        "\"install_error\":{\"code\":\"no_network\",\"message\":\"no index\"},"
        "\"install_note\":\"installed moat 1.0\"}}");
    assert_comes_back(&result);
    result_free(&result);
}

static void test_notes_stand_behind_stderr(void **state)
{
    static const struct {
        const char *written, *stderr_text;
    } rows[] = {
        {"", "timed out after 5 s\n"},
        {"abc", "abc\ntimed out after 5 s\n"},
        {"abc\n", "abc\ntimed out after 5 s\n"},
        {"abcdefg", "ab\n... (output truncated)\nfg\ntimed out after 5 s\n"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct result result;
        json_t *json;

        result_init(&result, &LIMITS);
        capture_add(&result.err, rows[i].written, strlen(rows[i].written), 4);
        result_note(&result, "timed out after 5 s");
        json = result_to_json(&result);
        assert_string_equal(json_string_value(json_object_get(json, "stderr")),
                            rows[i].stderr_text);
        assert_int_equal(result.err.total_bytes, strlen(rows[i].written));
        json_decref(json);
        assert_comes_back(&result);
        result_free(&result);
    }
}

/* Who reads only stderr learns why nothing ran; a note that says the same is not repeated. */
static void test_the_error_is_the_last_line_of_stderr(void **state)
{
    static const struct {
        const char *written, *note, *stderr_text;
    } rows[] = {
        {"", NULL, "no docker\n"},
        {"abc", NULL, "abc\nno docker\n"},
        {"abc", "a note", "abc\na note\nno docker\n"},
        {"", "no docker", "no docker\n"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct result result;
        json_t *json;

        result_init(&result, &LIMITS);
        capture_add(&result.err, rows[i].written, strlen(rows[i].written), LIMITS.output_bytes);
        if (rows[i].note)
            result_note(&result, "%s", rows[i].note);
        error_set(&result.error, -ENOENT, ERROR_REFUSED, "no docker");
        json = result_to_json(&result);
        assert_string_equal(json_string_value(json_object_get(json, "stderr")),
                            rows[i].stderr_text);
        json_decref(json);
        assert_comes_back(&result);
        result_free(&result);
    }
}

static void test_an_error_with_only_a_code(void **state)
{
    struct result result;
    json_t *json, *error;

    (void)state;
    result_init(&result, &LIMITS);
    result.error.code = ERROR_REFUSED;
    memcpy(result.error.text, "cut \xe2\x82", 7);
    json = result_to_json(&result);
    error = json_object_get(json_object_get(json, "meta"), "error");
    assert_int_equal(json_object_size(error), 2);
    assert_string_equal(json_string_value(json_object_get(error, "message")), "cut \xef\xbf\xbd");
    json_decref(json);
    assert_comes_back(&result);
    result_free(&result);
}

static int read_text(const char *text, struct result *result, struct error *err)
{
    json_error_t why;
    json_t *json = json_loads(text, 0, &why);
    int r;

    if (!json)
        fail_msg("%s: %s", text, why.text);
    result_init(result, &LIMITS);
    r = result_from_json(json, result, err);
    json_decref(json);
    return r;
}

static void test_reading_the_least(void **state)
{
    struct result result;
    struct error err = {0};

    (void)state;
    assert_int_equal(read_text("{\"stdout\":\"a\",\"stderr\":\"b\",\"exit_code\":3,\"duration\":2,"
                               "\"meta\":{\"new\":[1]},\"new\":{}}",
                               &result, &err),
                     0);
    assert_int_equal(result.exit_code, 3);
    assert_int_equal(result.duration_ns, 2000000000);
    assert_string_equal(buf_text(&result.out.kept), "a");
    assert_string_equal(buf_text(&result.err.kept), "b");
    assert_null(result.runtime);
    assert_null(result.warm);
    assert_null(result.error.code);
    result_free(&result);
}

static void test_known_codes_are_the_constants(void **state)
{
    struct result result;
    struct error err = {0};

    (void)state;
    assert_int_equal(read_text("{\"stdout\":\"\",\"stderr\":\"\",\"exit_code\":1,\"duration\":0,"
                               "\"meta\":{\"error\":{\"code\":\"refused\",\"message\":\"m\","
                               "\"stage\":\"s\",\"errno\":\"ENOSPC\"}}}",
                               &result, &err),
                     0);
    assert_ptr_equal(result.error.code, ERROR_REFUSED);
    assert_int_equal(result.error.num, -ENOSPC);
    assert_string_equal(result.error.stage, "s");
    assert_string_equal(result.error.text, "m");
    result_free(&result);
}

static void test_unknown_words_claim_nothing(void **state)
{
    struct result result;
    struct error err = {0};

    (void)state;
    assert_int_equal(
        read_text("{\"stdout\":\"\",\"stderr\":\"\",\"exit_code\":1,\"duration\":0,\"meta\":{"
                  "\"resource_limits\":{\"memory_by\":\"magic\"},"
                  "\"isolation\":{\"level\":\"strict\",\"layers\":[\"seccomp\",\"moat\"]},"
                  "\"error\":{\"code\":\"tomorrow\",\"message\":\"\",\"errno\":\"ENEVER\"}}}",
                  &result, &err),
        0);
    assert_int_equal(result.memory_by, LIMIT_BY_NONE);
    assert_int_equal(result.layers, ISOLATION_LAYER_BIT(ISOLATION_LAYER_SECCOMP));
    assert_string_equal(result.error.code, "tomorrow");
    assert_int_equal(result.error.num, 0);
    result_free(&result);
}

/* Members of the result, of meta and of the objects in it, and what they may not be. */
static const struct {
    const char *object, *name, *value;
} wrong_members[] = {
    {NULL, "stdout", "null"},
    {NULL, "stderr", "[]"},
    {NULL, "exit_code", "\"0\""},
    {NULL, "exit_code", "4294967296"},
    {NULL, "duration", "-1"},
    {NULL, "duration", "1e300"},
    {NULL, "duration", "\"1\""},
    {NULL, "meta", "[]"},
    {"meta", "runtime", "1"},
    {"meta", "warm", "true"},
    {"meta", "execution_id", "null"},
    {"meta", "execution_id", "\"0123456789012345678901234567890123456789012345678\""},
    {"meta", "session_id", "7"},
    {"meta", "stdout_truncated", "0"},
    {"meta", "stdout_bytes", "-1"},
    {"meta", "stdout_bytes", "1.5"},
    {"meta", "stderr_invalid_bytes", "\"\""},
    {"meta", "timed_out", "null"},
    {"meta", "signal", "-9"},
    {"meta", "signal", "128"},
    {"meta", "blocked_imports", "\"os\""},
    {"meta", "blocked_imports", "[\"os\", 1]"},
    {"meta", "blocked_imports", "[\"o\\u0000s\"]"},
    {"meta", "files", "{}"},
    {"meta", "files", "[\"a\"]"},
    {"meta", "files", "[{\"name\":\"a\",\"bytes\":1}]"},
    {"meta", "files", "[{\"path\":\"/a\",\"bytes\":1}]"},
    {"meta", "skipped_files", "[{\"name\":\"a\",\"reason\":\"b\",\"bytes\":-1}]"},
    {"meta", "usage", "[]"},
    {"meta", "resource_limits", "null"},
    {"meta", "isolation", "\"strict\""},
    {"meta", "error", "{}"},
    {"meta", "error", "{\"code\":\"x\",\"message\":1}"},
    {"meta", "error", "{\"code\":\"x\",\"message\":\"\",\"stage\":1}"},
    {"meta", "error", "{\"code\":\"x\",\"message\":\"\",\"errno\":1}"},
    {"meta", "installed", "{}"},
    {"meta", "installed", "[\"moat\"]"},
    {"meta", "installed", "[{\"name\":\"moat\",\"version\":1}]"},
    {"meta", "install_error", "{\"code\":\"x\"}"},
    {"meta", "install_note", "[\"installed\"]"},
    {"usage", "cpu_ms", "9223372036854775807"},
    {"usage", "cpu_ms", "\"1\""},
    {"usage", "max_rss_bytes", "-1"},
    {"usage", "by", "1"},
    {"resource_limits", "timeout_s", "\"30\""},
    {"resource_limits", "pids", "4294967296"},
    {"resource_limits", "cpus", "0"},
    {"resource_limits", "cpus", "0.0001"},
    {"resource_limits", "cpus", "1e9"},
    {"resource_limits", "memory_by", "null"},
    {"isolation", "layers", "null"},
    {"isolation", "missing", "[1]"},
};

/* A whole result with one of its members replaced. */
static void test_wrong_types_are_errors(void **state)
{
    struct result whole;

    (void)state;
    fill(&whole);
    for (size_t i = 0; i < ARRAY_SIZE(wrong_members); i++) {
        json_t *json = result_to_json(&whole), *object = json;
        struct result result;
        struct error err = {0};

        if (wrong_members[i].object)
            object = json_object_get(json, "meta");
        if (wrong_members[i].object && strcmp(wrong_members[i].object, "meta") != 0)
            object = json_object_get(object, wrong_members[i].object);
        json_object_set_new(
            object, wrong_members[i].name,
            json_loads(wrong_members[i].value, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL));
        result_init(&result, &LIMITS);
        if (result_from_json(json, &result, &err) != -EINVAL)
            fail_msg("%s = %s was taken", wrong_members[i].name, wrong_members[i].value);
        assert_ptr_equal(err.code, ERROR_BAD_INPUT);
        assert_non_null(strstr(err.text, "result: '"));
        result_free(&result);
        json_decref(json);
    }
    result_free(&whole);
}

static void test_missing_parts_are_errors(void **state)
{
    static const char *const names[] = {"stdout", "stderr", "exit_code", "duration", "meta"};
    struct result whole;

    (void)state;
    fill(&whole);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        json_t *json = result_to_json(&whole);
        struct result result;
        struct error err = {0};

        assert_int_equal(json_object_del(json, names[i]), 0);
        result_init(&result, &LIMITS);
        assert_int_equal(result_from_json(json, &result, &err), -EINVAL);
        assert_non_null(strstr(err.text, names[i]));
        result_free(&result);
        json_decref(json);
    }
    result_free(&whole);
}

static void test_not_an_object(void **state)
{
    struct result result;
    struct error err = {0};

    (void)state;
    assert_int_equal(read_text("[]", &result, &err), -EINVAL);
    result_free(&result);
    result_init(&result, &LIMITS);
    assert_int_equal(result_from_json(NULL, &result, NULL), -EINVAL);
    result_free(&result);
}

/* The program may write the line itself: only the last one is the engine's. */
static void test_the_mark_in_the_programs_own_words(void **state)
{
    static const char own[] = "x\n... (output truncated)\ny";

    (void)state;
    for (size_t limit = sizeof(own) - 2; limit <= sizeof(own); limit++) {
        struct result result;

        result_init(&result, &LIMITS);
        capture_add(&result.out, own, sizeof(own) - 1, limit);
        capture_add(&result.err, own, sizeof(own) - 1, limit);
        assert_comes_back(&result);
        result_free(&result);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_contract),
        cmocka_unit_test(test_usage_that_is_not_known),
        cmocka_unit_test(test_every_member),
        cmocka_unit_test(test_notes_stand_behind_stderr),
        cmocka_unit_test(test_the_error_is_the_last_line_of_stderr),
        cmocka_unit_test(test_an_error_with_only_a_code),
        cmocka_unit_test(test_reading_the_least),
        cmocka_unit_test(test_known_codes_are_the_constants),
        cmocka_unit_test(test_unknown_words_claim_nothing),
        cmocka_unit_test(test_wrong_types_are_errors),
        cmocka_unit_test(test_missing_parts_are_errors),
        cmocka_unit_test(test_not_an_object),
        cmocka_unit_test(test_the_mark_in_the_programs_own_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
