/*
 * test_tool.c - tool calls: JSON, envelope and parameters, and the reply for every ending, with a
 * fake in the place of the engine.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "unit.h"

#include "base/cleanup.h"
#include "oneshot/oneshot.h"
#include "tool/tool.h"

static int calls;
static uint64_t asked_timeout_ms;

int oneshot_run(const struct oneshot *shot, struct result *result, struct oneshot_extra *extra)
{
    (void)extra;
    calls++;
    asked_timeout_ms = shot->config->limits.timeout_ms;
    assert_string_equal(shot->language, "python");
    assert_int_equal(shot->code_length, strlen(shot->code));
    capture_add(&result->out, shot->code, shot->code_length, shot->config->limits.output_bytes);
    return 0;
}

void oneshot_extra_free(struct oneshot_extra *extra)
{
    (void)extra;
}

static const struct limits limits = {
    .timeout_ms = 30000, .memory_bytes = GIB, .disk_bytes = 512 * MIB, .output_bytes = 10 * KIB};

/* The reply to a call, in memory that the next call reuses. */
static const char *reply_to(const char *json)
{
    static char *languages[] = {(char *)"python", NULL};
    static char text[4096];
    CLEANUP(buf_free) struct buf reply = BUF_INIT(TOOL_REPLY_MAX);
    struct config config = {.limits = limits, .languages = languages};
    struct tool_context context = {.config = &config, .cancel_fd = -1};

    calls = 0;
    assert_int_equal(tool_call(tool_find("run_python_code"), json, strlen(json), &context, &reply),
                     0);
    snprintf(text, sizeof(text), "%s", buf_text(&reply));
    return text;
}

static void expect(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in '%s'", part, text);
}

static void test_bare_parameters_and_the_envelope(void **state)
{
    (void)state;
    assert_string_equal(reply_to("{\"code\":\"a\"}"), "a");
    assert_int_equal(asked_timeout_ms, 30000);
    assert_string_equal(reply_to("{\"code\":\"b\",\"timeout\":0.25}"), "b");
    assert_int_equal(asked_timeout_ms, 250);
    assert_string_equal(reply_to("{\"tool\":\"run_python_code\",\"parameters\":{\"code\":\"c\","
                                 "\"timeout\":86400},\"reasoning_trace\":\"because\"}"),
                        "c");
    assert_int_equal(asked_timeout_ms, 86400000);
    assert_int_equal(calls, 1);
}

static void test_what_is_wrong_is_a_reply(void **state)
{
    static const struct {
        const char *json;
        const char *mention;
    } rows[] = {
        {"", "JSON"},
        {"{", "JSON"},
        {"nul", "JSON"},
        {"{\"code\":\"a\"} x", "JSON"},
        {"{\"code\":\"a\",\"code\":\"b\"}", "JSON"},
        {"{\"code\":\"a\\u0000b\"}", "JSON"},
        {"[]", "object"},
        {"5", "object"},
        {"{}", "'code' is missing"},
        {"{\"code\":5}", "code has to be a string"},
        {"{\"code\":\" \\n\"}", "code is empty"},
        {"{\"cod\":\"a\"}", "did you mean 'code'?"},
        {"{\"code\":\"a\",\"zzz\":1}",
         "unknown parameter 'zzz'. Known: code, timeout, reasoning_trace."},
        {"{\"code\":\"a\",\"timeout\":0}", "timeout"},
        {"{\"code\":\"a\",\"timeout\":-1}", "at most 86400"},
        {"{\"code\":\"a\",\"timeout\":1000000000}", "at most 86400"},
        {"{\"code\":\"a\",\"timeout\":\"soon\"}", "timeout"},
        {"{\"code\":\"a\",\"timeout\":null}", "timeout"},
        {"{\"tool\":\"other\",\"parameters\":{}}", "another tool"},
        {"{\"tool\":\"run_python_code\",\"parameters\":[]}", "'parameters'"},
        {"{\"tool\":\"run_python_code\",\"parameters\":{},\"x\":1}", "member 'x'"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const char *reply = reply_to(rows[i].json);

        assert_int_equal(strncmp(reply, "Error: ", 7), 0);
        expect(reply, rows[i].mention);
        assert_int_equal(calls, 0);
    }
}

static void test_depth_is_limited(void **state)
{
    char deep[256];

    (void)state;
    memset(deep, '[', sizeof(deep));
    deep[65] = 0;
    expect(reply_to(deep), "deeper than 64");
    deep[65] = '[';
    deep[64] = 0;
    expect(reply_to(deep), "not valid JSON");
    /* brackets in a string are text */
    assert_string_equal(reply_to("{\"code\":\"\\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
                                 "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"}"),
                        "\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
                        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[");
}

/* The reply for a result with these streams; `result` may be changed before by `set`. */
static const char *reply_for(void (*set)(struct result *), const char *out, const char *err)
{
    static char text[4096];
    CLEANUP(buf_free) struct buf reply = BUF_INIT(TOOL_REPLY_MAX);
    struct result result;

    result_init(&result, &limits);
    capture_add(&result.out, out, strlen(out), result.limits.output_bytes);
    capture_add(&result.err, err, strlen(err), result.limits.output_bytes);
    if (set)
        set(&result);
    assert_int_equal(run_python_code_reply(&result, &reply), 0);
    snprintf(text, sizeof(text), "%s", buf_text(&reply));
    result_free(&result);
    return text;
}

static void set_exit_1(struct result *result)
{
    result->exit_code = 1;
}

static void set_signal(struct result *result)
{
    result->exit_code = 139;
    result->signal = 11;
}

static void set_timeout(struct result *result)
{
    result->timed_out = true;
    result->exit_code = -1;
}

static void set_oom(struct result *result)
{
    result->oom_killed = true;
    result->exit_code = 137;
    result->signal = 9;
}

static void set_disk_full(struct result *result)
{
    result->disk_full = true;
    result->exit_code = 1;
}

static void set_blocked(struct result *result)
{
    result->exit_code = 1;
    error_set(&result->error, -EPERM, ERROR_BLOCKED_IMPORT, "import of 'subprocess' is blocked");
}

static void set_refused(struct result *result)
{
    result->exit_code = 1;
    error_set(&result->error, -EPERM, ERROR_REFUSED, "missing: userns");
}

static void set_bad_config(struct result *result)
{
    result->exit_code = 1;
    error_set(&result->error, -EINVAL, ERROR_BAD_CONFIG, "no such root");
}

static void set_no_interpreter(struct result *result)
{
    result->exit_code = 1;
    error_set(&result->error, -ENOENT, ERROR_NO_INTERPRETER, "no Python");
}

static void set_files(struct result *result)
{
    result->total_output_files = 2;
}

static void test_success(void **state)
{
    (void)state;
    assert_string_equal(reply_for(NULL, "Hello\n", ""), "Hello\n");
    assert_string_equal(reply_for(NULL, "Hello", "careful\n"), "Hello\n[stderr]\ncareful\n");
    assert_string_equal(reply_for(NULL, "", "careful\n"), "[stderr]\ncareful\n");
    expect(reply_for(NULL, "", ""), "no output; print()");
    expect(reply_for(set_files, "", ""), "2 files were written to /tmp/output and are gone");
    assert_string_equal(reply_for(set_files, "Hello\n", ""), "Hello\n");
}

static void test_an_exception_leads_the_reply(void **state)
{
    static const char traceback[] = "Traceback (most recent call last):\n"
                                    "  File \"main.py\", line 2, in <module>\n"
                                    "    raise ValueError('Something went wrong')\n"
                                    "ValueError: Something went wrong\n";

    (void)state;
    assert_string_equal(reply_for(set_exit_1, "part\n", traceback),
                        "Error: ValueError: Something went wrong (exit code 1)\n"
                        "[stdout]\npart\n[stderr]\n"
                        "Traceback (most recent call last):\n"
                        "  File \"main.py\", line 2, in <module>\n"
                        "    raise ValueError('Something went wrong')\n"
                        "ValueError: Something went wrong\n");
    /* of a chain the last one counts; a message may have several lines */
    expect(reply_for(set_exit_1, "",
                     "Traceback (most recent call last):\n  File \"a\"\nKeyError: 'x'\n\n"
                     "During handling of the above exception, another exception occurred:\n\n"
                     "Traceback (most recent call last):\n  File \"a\"\nOSError: one\ntwo\n"),
           "Error: OSError: one (exit code 1)\n");
    expect(
        reply_for(set_exit_1, "",
                  "  File \"main.py\", line 1\n    for\n       ^\nSyntaxError: invalid syntax\n"),
        "Error: SyntaxError: invalid syntax (exit code 1)\n");
    expect(reply_for(set_exit_1, "", "plain words\n"),
           "Error: the program ended with exit code 1\n[stderr]\nplain words\n");
    /* a traceback that was cut has no such line */
    expect(reply_for(set_exit_1, "", "Traceback (most recent call last):\n  File \"a\""),
           "Error: the program ended with exit code 1\n");
}

static void test_other_endings_say_what_to_do(void **state)
{
    const char *reply;

    (void)state;
    expect(reply_for(set_signal, "", ""), "Error: killed by signal 11");
    reply = reply_for(set_timeout, "part\n", "");
    expect(reply, "Error: timed out after 30 s\n");
    expect(reply, "larger timeout");
    expect(reply, "[stdout]\npart\n");
    expect(reply_for(set_oom, "", ""), "Error: out of memory (limit 1g)\n");
    reply = reply_for(set_disk_full, "",
                      "Traceback (most recent call last):\n  File \"a\"\nOSError: [Errno 28] No\n");
    expect(reply, "Error: OSError: [Errno 28] No (exit code 1)\nThe disk was full (limit 512m)");
    reply = reply_for(set_blocked, "", "");
    expect(reply, "Error: import of 'subprocess' is blocked\n");
    expect(reply, "without that module");
    expect(reply_for(set_bad_config, "", ""), "calling again does not help");
    expect(reply_for(set_no_interpreter, "", ""), "set SANDBOX_PYTHON");
    reply = reply_for(set_refused, "", "");
    expect(reply, "Error: missing: userns\n");
    expect(reply, "bailey doctor");
}

static void set_flood(struct result *result)
{
    static const char line[1024];

    for (int i = 0; i < 20; i++)
        capture_add(&result->out, line, sizeof(line), result->limits.output_bytes);
}

static void test_truncation_is_said(void **state)
{
    CLEANUP(buf_free) struct buf reply = BUF_INIT(TOOL_REPLY_MAX);
    struct result result;

    (void)state;
    result_init(&result, &limits);
    set_flood(&result);
    assert_int_equal(run_python_code_reply(&result, &reply), 0);
    assert_true(reply.length > 10 * KIB);
    expect(reply.data + 10 * KIB, RESULT_TRUNCATED "\n[20480 bytes were printed, 10240 are kept");
    result_free(&result);
}

static void test_rows_have_valid_schemas(void **state)
{
    (void)state;
    assert_null(tool_find("nothing"));
    for (size_t i = 0; i < tool_count; i++) {
        json_t *schema = json_loads(tool_table[i].schema, JSON_REJECT_DUPLICATES, NULL);

        assert_non_null(schema);
        assert_true(json_is_object(json_object_get(schema, "properties")));
        assert_ptr_equal(tool_find(tool_table[i].name), &tool_table[i]);
        json_decref(schema);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bare_parameters_and_the_envelope),
        cmocka_unit_test(test_what_is_wrong_is_a_reply),
        cmocka_unit_test(test_depth_is_limited),
        cmocka_unit_test(test_success),
        cmocka_unit_test(test_an_exception_leads_the_reply),
        cmocka_unit_test(test_other_endings_say_what_to_do),
        cmocka_unit_test(test_truncation_is_said),
        cmocka_unit_test(test_rows_have_valid_schemas),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
