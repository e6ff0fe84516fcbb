/*
 * test_scalebox.c - Scalebox's words for E2B's: bodies, envelopes, key case, and events of code.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "api/scalebox/scalebox.h"
#include "base/cleanup.h"

#define ID "0123456789abcdef0123456789abcdef"

static json_t *read(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    return json;
}

/* Takes `json` over. */
static void must_be(json_t *json, const char *expected)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);

    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
    json_decref(json);
}

static void a_body_is_put_into_words_of_e2b(void **state)
{
    struct error err = {0};
    json_t *body;

    (void)state;
    body = scalebox_body(
        read("{\"template\":\"data\",\"env_vars\":{\"aB_c\":\"1\"},\"auto_pause\":true,"
             "\"secure\":false,\"object_storage\":null,\"locality\":{},\"timeout\":60}"),
        true, &err);
    assert_string_equal(json_string_value(json_object_get(body, "templateID")), "data");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(body, "envVars"), "aB_c")), "1");
    assert_true(json_is_true(json_object_get(body, "autoPause")));
    assert_true(json_is_true(json_object_get(body, "secure"))); /* the token names the sandbox */
    assert_int_equal(json_integer_value(json_object_get(body, "timeout")), 60);
    json_decref(body);
    body = scalebox_body(read("{}"), true, &err);
    assert_string_equal(json_string_value(json_object_get(body, "templateID")), "base");
    json_decref(body);
    must_be(scalebox_body(read("{\"timeout\":1}"), false, &err), "{\"timeout\":1}");
}

static void what_is_not_here_is_named(void **state)
{
    static const char *const bodies[] = {
        "{\"object_storage\":{\"uri\":\"s3://b\"}}",
        "{\"cpu_count\":4}",
        "{\"memory_mb\":1}",
        "{\"locality\":{\"region\":\"x\"}}",
        "{\"custom_ports\":[{\"port\":1}]}",
        "{\"net_proxy_country\":\"de\"}",
        "{\"project_id\":\"p\"}",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
        struct error err = {0};
        char name[64];

        assert_null(scalebox_body(read(bodies[i]), true, &err));
        assert_string_equal(err.code, ERROR_BAD_INPUT);
        sscanf(bodies[i], "{\"%63[a-z_]", name);
        assert_true(strncmp(err.text, name, strlen(name)) == 0);
    }
}

#define SANDBOX                                                                                \
    "{\"sandboxID\":\"" ID "\",\"templateID\":\"base\",\"alias\":\"base\",\"clientID\":\"x\"," \
    "\"startedAt\":\"2026-01-02T03:04:05.000Z\",\"endAt\":\"2026-01-02T03:09:05.000Z\","       \
    "\"cpuCount\":2,"                                                                          \
    "\"memoryMB\":512,\"diskSizeMB\":1025,\"state\":\"running\",\"metadata\":{\"aB\":\"c\"},"  \
    "\"envdAccessToken\":\"t\"}"
#define AS_SCALEBOX                                                                               \
    "{\"cpu_count\":2,\"created_at\":\"2026-01-02T03:04:05.000Z\",\"envd_access_token\":\"t\","   \
    "\"memory_mb\":512,\"metadata\":{\"aB\":\"c\"},\"name\":\"base\",\"sandbox_domain\":\"127.0." \
    "0.1:1\","                                                                                    \
    "\"sandbox_id\":\"" ID                                                                        \
    "\",\"started_at\":\"2026-01-02T03:04:05.000Z\",\"status\":\"running\","                      \
    "\"storage_gb\":2,\"template_id\":\"base\",\"template_name\":\"base\",\"timeout\":300,"       \
    "\"timeout_at\":\"2026-01-02T03:09:05.000Z\",\"updated_at\":\"2026-01-02T03:04:05.000Z\","    \
    "\"uptime\":60}"

static void replies_are_in_an_envelope_and_in_snake_case(void **state)
{
    uint64_t now_ms = e2b_time_read("2026-01-02T03:05:05.000Z");

    (void)state;
    must_be(scalebox_reply_json(201, "127.0.0.1:1", now_ms, read(SANDBOX)),
            "{\"data\":" AS_SCALEBOX ",\"success\":true}");
    must_be(scalebox_reply_json(200, "127.0.0.1:1", now_ms, read("[" SANDBOX "]")),
            "{\"data\":{\"sandboxes\":[" AS_SCALEBOX "],\"total\":1},\"success\":true}");
    must_be(scalebox_reply_json(200, "h", 0, read("[]")),
            "{\"data\":{\"sandboxes\":[],\"total\":0},\"success\":true}");
    must_be(scalebox_reply_json(404, "h", 0, read("{\"code\":404,\"message\":\"gone\"}")),
            "{\"code\":404,\"error\":\"gone\",\"message\":\"gone\",\"success\":false}");
}

static void a_sample_is_told_to_both_packages(void **state)
{
    (void)state;
    must_be(
        scalebox_reply_json(200, "h", 0,
                            read("[{\"timestamp\":\"t\",\"timestampUnix\":1,\"cpuCount\":2,"
                                 "\"cpuUsedPct\":0.5,\"memUsed\":3,\"memTotal\":4,\"memCache\":0,"
                                 "\"diskUsed\":5,\"diskTotal\":6}]")),
        "{\"data\":{\"cpu_count\":2,\"cpu_used_pct\":0.5,\"disk_total\":6,\"disk_used\":5,\"mem_"
        "total\":4,"
        "\"mem_used\":3,\"metrics\":[{\"cpu_count\":2,\"cpu_used_pct\":0.5,\"disk_total\":6,"
        "\"disk_used\":5,\"mem_total\":4,\"mem_used\":3,\"timestamp\":\"t\"}],\"timestamp\":\"t\"},"
        "\"success\":true}");
}

static void a_sandbox_is_where_its_client_came_from(void **state)
{
    static const char *const rows[][2] = {
        {"127.0.0.1:7070", "127.0.0.1:7070"},
        {"api.sandbox.test:7070", ID ".sandbox.test:7070"},
        {"host.example", "host.example"},
        {"", "localhost"},
    };
    char text[200];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        scalebox_domain(rows[i][0], ID, text, sizeof(text));
        assert_string_equal(text, rows[i][1]);
    }
    scalebox_domain(NULL, ID, text, sizeof(text));
    assert_string_equal(text, "localhost");
}

static void event_is(const char *line, const char *expected)
{
    json_t *json = read(line);

    must_be(scalebox_event(json, 7), expected);
    json_decref(json);
}

static void lines_of_code_are_events(void **state)
{
    json_t *line = read("{\"type\":\"something\"}");

    (void)state;
    event_is("{\"type\":\"stdout\",\"text\":\"a\",\"timestamp\":\"x\"}",
             "{\"stdout\":{\"content\":\"a\"}}");
    event_is("{\"type\":\"stderr\",\"text\":\"a\"}", "{\"stderr\":{\"content\":\"a\"}}");
    event_is("{\"type\":\"error\",\"name\":\"N\",\"value\":\"v\",\"traceback\":\"t\"}",
             "{\"error\":{\"name\":\"N\",\"traceback\":\"t\",\"value\":\"v\"}}");
    event_is("{\"type\":\"keepalive\"}", "{}");
    event_is("{\"type\":\"result\",\"is_main_result\":true,\"text\":\"2\",\"json\":{\"a\":[1]},"
             "\"extra\":{\"x/y\":{\"b\":1},\"z\":\"w\"}}",
             "{\"result\":{\"executionCount\":7,\"exitCode\":0,\"extra\":{\"x/"
             "y\":\"{\\\"b\\\":1}\",\"z\":\"w\"},"
             "\"isMainResult\":true,\"json\":\"{\\\"a\\\":[1]}\",\"text\":\"2\"}}");
    assert_null(scalebox_event(line, 1));
    json_decref(line);
}

static void charts_have_the_shapes_of_their_messages(void **state)
{
    (void)state;
    event_is(
        "{\"type\":\"result\",\"is_main_result\":false,\"chart\":{\"type\":\"line\",\"title\":"
        "\"t\","
        "\"x_label\":\"x\",\"y_label\":null,\"x_ticks\":[1],\"elements\":[{\"label\":\"l\","
        "\"points\":[[1,\"b\"]]}]}}",
        "{\"result\":{\"chart\":{\"elements\":[{\"pointData\":{\"label\":\"l\",\"points\":[{"
        "\"xNum\":1,"
        "\"yStr\":\"b\"}]}}],\"extra\":{\"x_label\":\"x\",\"x_ticks\":\"[1]\"},\"title\":\"t\","
        "\"type\":\"line\"},\"executionCount\":7,\"exitCode\":0,\"isMainResult\":false}}");
    event_is(
        "{\"type\":\"result\",\"is_main_result\":false,\"chart\":{\"type\":\"superchart\","
        "\"title\":null,"
        "\"elements\":[{\"type\":\"bar\",\"title\":\"b\",\"elements\":[{\"label\":\"l\",\"group\":"
        "\"g\","
        "\"value\":3}]}]}}",
        "{\"result\":{\"chart\":{\"elements\":[{\"nestedChart\":{\"elements\":[{\"barData\":{"
        "\"group\":\"g\","
        "\"label\":\"l\",\"value\":\"3\"}}],\"extra\":{},\"title\":\"b\",\"type\":\"bar\"}}],"
        "\"extra\":{},"
        "\"type\":\"superchart\"},\"executionCount\":7,\"exitCode\":0,\"isMainResult\":false}}");
}

static void what_is_missing_is_said_in_the_words_that_clients_look_for(void **state)
{
    json_t *error = read("{\"code\":\"not_found\",\"message\":\"x\"}");

    (void)state;
    scalebox_error_words("/sandboxagent.Filesystem/Stat", error);
    must_be(error,
            "{\"code\":\"not_found\",\"message\":\"not found: no such file or directory: x\"}");
    error = read("{\"code\":\"not_found\",\"message\":\"x\"}");
    scalebox_error_words("/sandboxagent.Process/SendSignal", error);
    must_be(error, "{\"code\":\"not_found\",\"message\":\"not found: x\"}");
    error = read("{\"code\":\"internal\",\"message\":\"x\"}");
    scalebox_error_words("/sandboxagent.Process/SendSignal", error);
    must_be(error, "{\"code\":\"internal\",\"message\":\"x\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_put_into_words_of_e2b),
        cmocka_unit_test(what_is_not_here_is_named),
        cmocka_unit_test(replies_are_in_an_envelope_and_in_snake_case),
        cmocka_unit_test(a_sample_is_told_to_both_packages),
        cmocka_unit_test(a_sandbox_is_where_its_client_came_from),
        cmocka_unit_test(lines_of_code_are_events),
        cmocka_unit_test(charts_have_the_shapes_of_their_messages),
        cmocka_unit_test(what_is_missing_is_said_in_the_words_that_clients_look_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
