/* test_settings.c - a caller's settings on top of a daemon's configuration. */
#include "config/settings.h"

#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "unit.h"

static void assert_text_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in: %s", part, text);
}

static void decrefp(json_t **json)
{
    json_decref(*json);
}

/* As `bailey serve` passes it to its broker: every value is a variable. */
static void load(struct config *config, const char *const *env)
{
    struct error err = {0};

    if (config_load_text(config, "", 0, "", (char *const *)env, &err) < 0 ||
        config_check(config, &err) < 0)
        fail_msg("%s", err.text);
}

static void load_daemon(struct config *config, const char *const *env)
{
    CLEANUP(config_free) struct config first = {0};
    struct error err = {0};

    load(&first, env);
    load(config, env);
    for (int key = 0; key < _KEY_MAX; key++) {
        if (first.values[key].text && config_table[key].env &&
            config_set(config, (enum config_key)key, first.values[key].text, "x", &err) < 0)
            fail_msg("%s", err.text);
        config->values[key].source = FROM_ENVIRONMENT;
    }
}

static const char *const nothing[] = {NULL};

/* The error's code; NULL: it was applied. */
static const char *apply(bool only_tightens, const char *key, const char *value, struct config *ret,
                         struct error *err)
{
    CLEANUP(config_free) struct config daemon = {0};
    CLEANUP(decrefp) json_t *settings = json_pack("{s:s}", key, value);
    struct settings_server server = {
        .config = &daemon, .state = "/state", .only_tightens = only_tightens};

    *err = (struct error){0};
    load_daemon(&daemon, nothing);
    return settings_apply(&server, settings, ret, err) < 0 ? err->code : NULL;
}

static void test_what_a_caller_sends(void **state)
{
    static const char *const env[] = {"SANDBOX_MEMORY_LIMIT=64m", "BAILEY_LOG=debug",
                                      "SANDBOX_MAX_SESSIONS=3", NULL};
    CLEANUP(config_free) struct config config = {0};
    CLEANUP(decrefp) json_t *settings = NULL;
    CLEANUP(buf_free) struct buf line = BUF_INIT(SETTINGS_MAX + 64);
    struct error err = {0};

    (void)state;
    load(&config, env);
    assert_int_equal(config_set(&config, KEY_PIDS, "100", "--pids", &err), 0);
    settings = settings_of(&config);
    assert_int_equal(json_object_size(settings), 3); /* no default, and not the program's own */
    assert_string_equal(settings_get(settings, KEY_MEMORY), "64m");
    assert_string_equal(settings_get(settings, KEY_PIDS), "100");
    assert_string_equal(settings_get(settings, KEY_MAX_SESSIONS), "3");
    assert_int_equal(settings_header(&config, false, &line, &err), 0);
    assert_string_equal(buf_text(&line),
                        "Bailey-Settings: {\"SANDBOX_MAX_SESSIONS\":\"3\","
                        "\"SANDBOX_MEMORY_LIMIT\":\"64m\",\"SANDBOX_PIDS_LIMIT\":\"100\"}");
    /* What this machine's daemon has is nothing to a server on another one. */
    buf_clear(&line);
    assert_int_equal(config_set(&config, KEY_PYTHON, "/opt/python", "SANDBOX_PYTHON", &err), 0);
    config.values[KEY_PYTHON].source = FROM_ENVIRONMENT;
    assert_int_equal(settings_header(&config, true, &line, &err), 0);
    assert_string_equal(buf_text(&line), "Bailey-Settings: {\"SANDBOX_MEMORY_LIMIT\":\"64m\","
                                         "\"SANDBOX_PIDS_LIMIT\":\"100\"}");
}

static void test_nothing_set_is_no_header(void **state)
{
    CLEANUP(config_free) struct config config = {0};
    CLEANUP(buf_free) struct buf line = BUF_INIT(SETTINGS_MAX);
    struct error err = {0};

    (void)state;
    load(&config, nothing);
    assert_int_equal(settings_header(&config, false, &line, &err), 0);
    assert_int_equal(line.length, 0);
}

static void test_memory_alone_halves_the_disk(void **state)
{
    CLEANUP(config_free) struct config config = {0};
    struct error err;

    (void)state;
    assert_null(apply(false, "SANDBOX_MEMORY_LIMIT", "64m", &config, &err));
    assert_int_equal(config.limits.memory_bytes, 64 << 20);
    assert_int_equal(config.limits.disk_bytes, 32 << 20);
    assert_int_equal(config.limits.pids, 256);
}

/* Every key is honoured or refused by name, none is dropped. */
static void test_every_key(void **state)
{
    static const struct {
        enum config_key key;
        const char *value;
    } others[] = {
        {KEY_SANDBOX_TYPE, "docker"},
        {KEY_TIMEOUT, "7"},
        {KEY_MAX_OUTPUT, "3"},
        {KEY_BLOCK_IMPORTS, "true"},
        {KEY_BLOCKED_IMPORTS, "os"},
        {KEY_STORE_CODE, "never"},
        {KEY_AUTO_INSTALL, "true"},
        {KEY_FALLBACK, "local"},
        {KEY_ISOLATION, "strict"},
        {KEY_MEMORY, "128m"},
        {KEY_CPUS, "0.5"},
        {KEY_PIDS, "77"},
        {KEY_DISK, "64m"},
        {KEY_SESSION_IDLE, "9m"},
        {KEY_SESSION_AGE, "1h"},
        {KEY_TEMPLATE, "data"},
        {KEY_PYTHON, "/opt/other/bin/python3"},
        {KEY_NODE, "/opt/other/bin/node"},
    };
    bool is_seen[_KEY_MAX] = {false};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
        CLEANUP(config_free) struct config config = {0};
        CLEANUP(config_free) struct config daemon = {0};
        struct error err;

        load_daemon(&daemon, nothing);
        is_seen[others[i].key] = true;
        if (apply(false, config_key_name(others[i].key), others[i].value, &config, &err))
            fail_msg("%s", err.text);
        assert_string_equal(config.values[others[i].key].text, others[i].value);
        assert_false(config_is_same(&config, &daemon, others[i].key));
    }
    for (int key = 0; key < _KEY_MAX; key++) {
        enum config_place place = config_table[key].place;

        if ((place == PLACE_CALL || place == PLACE_SESSION) && !is_seen[key] &&
            key != KEY_DOCKER_CPU && key != KEY_DOCKER_MEMORY)
            fail_msg("%s: no other value of it is tried here", config_key_name(key));
    }
}

static void test_keys_of_the_daemon(void **state)
{
    CLEANUP(config_free) struct config config = {0};
    struct error err;

    (void)state;
    assert_ptr_equal(apply(false, "SANDBOX_MAX_SESSIONS", "3", &config, &err),
                     ERROR_SETTING_DIFFERS);
    assert_text_has(err.text, "SANDBOX_MAX_SESSIONS");
    assert_text_has(err.text, "'3'");
    assert_text_has(err.text, "'64'");
    assert_text_has(err.text, "start the daemon again");
    assert_ptr_equal(apply(false, "BAILEY_STATE_DIR", "/other", &config, &err),
                     ERROR_SETTING_DIFFERS);
    assert_ptr_equal(apply(false, "SANDBOX_INTERPRETERS", "/opt/python", &config, &err),
                     ERROR_SETTING_DIFFERS);
    assert_text_has(err.text, "nothing set");
    /* The same value, written in another way; and a runtime that is not used. */
    assert_null(apply(false, "SANDBOX_STOP_GRACE", "5000ms", &config, &err));
    config_free(&config);
    assert_null(apply(false, "BAILEY_STATE_DIR", "/state", &config, &err));
    config_free(&config);
    assert_null(apply(false, "DOCKER_HOST", "tcp://other:2375", &config, &err));
}

static void test_bad_settings(void **state)
{
    CLEANUP(config_free) struct config config = {0};
    struct error err;

    (void)state;
    assert_ptr_equal(apply(false, "SANDBOX_MEMORY_LIMT", "64m", &config, &err), ERROR_BAD_INPUT);
    assert_text_has(err.text, "did you mean 'SANDBOX_MEMORY_LIMIT'?");
    assert_ptr_equal(apply(false, "SANDBOX_MEMORY_LIMIT", "lots", &config, &err), ERROR_BAD_INPUT);
    assert_text_has(err.text, "SANDBOX_MEMORY_LIMIT");
    assert_ptr_equal(apply(false, "BAILEY_LOG", "debug", &config, &err), ERROR_BAD_INPUT);
    assert_ptr_equal(apply(false, "SANDBOX_TYPE", "kubernetes", &config, &err), ERROR_BAD_INPUT);
}

/* No box exceeds what the daemon was started with. */
static void test_not_more_than_the_daemon(void **state)
{
    static const char *const more[][2] = {{"SANDBOX_MEMORY_LIMIT", "2g"},
                                          {"SANDBOX_PIDS_LIMIT", "300"},
                                          {"SANDBOX_DISK_LIMIT", "600m"},
                                          {"SANDBOX_ISOLATION", "process"}};
    CLEANUP(config_free) struct config config = {0};
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(more); i++) {
        assert_ptr_equal(apply(false, more[i][0], more[i][1], &config, &err),
                         ERROR_SETTING_DIFFERS);
        assert_text_has(err.text, more[i][0]);
        assert_text_has(err.text, more[i][1]);
    }
}

static void test_more_where_there_is_no_ceiling(void **state)
{
    CLEANUP(config_free) struct config daemon = {0};
    CLEANUP(config_free) struct config config = {0};
    CLEANUP(decrefp)
    json_t *settings =
        json_pack("{s:s, s:s}", "SANDBOX_MEMORY_LIMIT", "4g", "SANDBOX_ISOLATION", "process");
    const struct settings_server server = {.config = &daemon, .has_no_ceiling = true};
    struct error err = {0};

    (void)state;
    load_daemon(&daemon, nothing);
    if (settings_apply(&server, settings, &config, &err) < 0)
        fail_msg("%s", err.text);
    assert_true(config.limits.memory_bytes == 4 * GIB && config.limits.disk_bytes == 2 * GIB);
    assert_int_equal(config.isolation, ISOLATION_PROCESS);
}

static void test_a_daemon_keeps_only_its_own_keys(void **state)
{
    static const char *const env[] = {"SANDBOX_MEMORY_LIMIT=96m",  "SANDBOX_TYPE=docker",
                                      "SANDBOX_STORE_CODE=always", "SANDBOX_MAX_SESSIONS=3",
                                      "BAILEY_LOG=debug",          NULL};
    CLEANUP(config_free) struct config config = {0};
    CLEANUP(config_free) struct config defaults = {0};
    struct error err = {0};

    (void)state;
    load(&config, env);
    load(&defaults, nothing);
    assert_int_equal(config_check(&config, &err), 0);
    assert_int_equal(settings_keep_daemon(&config, &err), 0);
    for (int key = 0; key < _KEY_MAX; key++) {
        bool is_own = key == KEY_MAX_SESSIONS || key == KEY_LOG;

        assert_int_equal(config_is_same(&config, &defaults, (enum config_key)key), !is_own);
        assert_int_equal(config.values[key].source, is_own ? FROM_ENVIRONMENT : FROM_DEFAULT);
    }
}

static void test_over_the_network(void **state)
{
    static const char *const tighter[][2] = {
        {"SANDBOX_MEMORY_LIMIT", "64m"},   {"SANDBOX_CPU_LIMIT", "0.5"},
        {"SANDBOX_PIDS_LIMIT", "10"},      {"SANDBOX_MAX_OUTPUT_KB", "1"},
        {"SANDBOX_ISOLATION", "strict"},   {"SANDBOX_BLOCK_DANGEROUS_IMPORTS", "true"},
        {"SANDBOX_TIMEOUT_SEC", "300"},    {"SANDBOX_SESSION_IDLE", "1m"},
        {"SANDBOX_STORE_CODE", "on_error"}};
    static const char *const weaker[][2] = {
        {"SANDBOX_MEMORY_LIMIT", "2g"},    {"SANDBOX_PIDS_LIMIT", "1000"},
        {"SANDBOX_MAX_OUTPUT_KB", "100"},  {"SANDBOX_ISOLATION", "process"},
        {"SANDBOX_BLOCKED_IMPORTS", "os"}, {"SANDBOX_AUTO_INSTALL", "true"},
        {"SANDBOX_STORE_CODE", "never"},   {"SANDBOX_SESSION_MAX_AGE", "9h"},
        {"SANDBOX_TYPE", "docker"}};
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(tighter); i++) {
        CLEANUP(config_free) struct config config = {0};

        if (apply(true, tighter[i][0], tighter[i][1], &config, &err))
            fail_msg("%s", err.text);
    }
    for (size_t i = 0; i < ARRAY_SIZE(weaker); i++) {
        CLEANUP(config_free) struct config config = {0};

        if (!apply(true, weaker[i][0], weaker[i][1], &config, &err))
            fail_msg("%s=%s was taken", weaker[i][0], weaker[i][1]);
        assert_text_has(err.text, weaker[i][0]);
    }
}

static void test_a_session_that_exists(void **state)
{
    CLEANUP(config_free) struct config have = {0};
    CLEANUP(decrefp)
    json_t *same = json_pack("{s:s, s:s, s:s}", "SANDBOX_MEMORY_LIMIT", "65536k",
                             "SANDBOX_TIMEOUT_SEC", "1", "SANDBOX_MAX_SESSIONS", "64");
    CLEANUP(decrefp) json_t *other = json_pack("{s:s}", "SANDBOX_MEMORY_LIMIT", "128m");
    struct error err = {0};

    (void)state;
    assert_null(apply(false, "SANDBOX_MEMORY_LIMIT", "64m", &have, &err));
    assert_int_equal(settings_check_session(&have, same, "s_1", &err), 0);
    assert_true(settings_check_session(&have, other, "s_1", &err) < 0);
    assert_ptr_equal(err.code, ERROR_SETTING_DIFFERS);
    assert_text_has(err.text,
                    "SANDBOX_MEMORY_LIMIT: you set '128m', and the session s_1 has '64m'");
}

static void test_fixed_for_a_session(void **state)
{
    CLEANUP(config_free) struct config config = {0};
    CLEANUP(decrefp) json_t *settings = json_object();

    (void)state;
    load(&config, nothing);
    assert_int_equal(settings_fix(settings, &config), 0);
    assert_string_equal(settings_get(settings, KEY_SANDBOX_TYPE), "local");
    assert_string_equal(settings_get(settings, KEY_MEMORY), "1g");
    assert_null(settings_get(settings, KEY_TIMEOUT)); /* a call's */
    assert_null(settings_get(settings, KEY_MAX_SESSIONS));
    assert_null(settings_get(settings, KEY_DOCKER_MEMORY)); /* of another type */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_caller_sends),
        cmocka_unit_test(test_nothing_set_is_no_header),
        cmocka_unit_test(test_memory_alone_halves_the_disk),
        cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_keys_of_the_daemon),
        cmocka_unit_test(test_bad_settings),
        cmocka_unit_test(test_not_more_than_the_daemon),
        cmocka_unit_test(test_more_where_there_is_no_ceiling),
        cmocka_unit_test(test_a_daemon_keeps_only_its_own_keys),
        cmocka_unit_test(test_over_the_network),
        cmocka_unit_test(test_a_session_that_exists),
        cmocka_unit_test(test_fixed_for_a_session),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
