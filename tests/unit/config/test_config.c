/* test_config.c - keys, defaults, who wins, and what errors say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config.h"

static const char *const no_env[] = {NULL};

static void load(struct config *config, const char *text, const char *const *env)
{
    struct error err = {0};

    if (config_load_text(config, text, strlen(text), "bailey.yaml", (char *const *)env, &err) < 0)
        fail_msg("%s", err.text);
}

static void assert_text_has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in '%s'", part, text);
}

static void load_fails(const char *text, const char *const *env, const char *expected)
{
    struct error err = {0};
    struct config config;

    assert_true(
        config_load_text(&config, text, strlen(text), "bailey.yaml", (char *const *)env, &err) < 0);
    assert_ptr_equal(err.code, ERROR_BAD_CONFIG);
    assert_true(err.num < 0);
    assert_text_has(err.text, expected);
    assert_null(config.values[KEY_MEMORY].text);
}

static void every_key_has_a_row(void **state)
{
    (void)state;
    for (int i = 0; i < _KEY_MAX; i++) {
        const struct config_row *row = &config_table[i];
        char allowed[CONFIG_ALLOWED_MAX];

        assert_non_null(row->yaml);
        assert_non_null(config_allowed((enum config_key)i, allowed));
        assert_non_null(row->help);
        assert_true(row->place > PLACE_NONE && row->place < _PLACE_MAX);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(row->yaml, config_table[j].yaml);
            if (row->env && config_table[j].env)
                assert_string_not_equal(row->env, config_table[j].env);
        }
    }
}

/* sandbox.timeout_sec is SANDBOX_TIMEOUT_SEC: one name to remember. */
static void names_follow_each_other(void **state)
{
    (void)state;
    for (int i = 0; i < _KEY_MAX; i++) {
        char name[128];

        if (!config_table[i].env) {
            assert_true(str_starts(config_table[i].yaml, "providers.code_interpreter."));
            continue;
        }
        if (str_starts(config_table[i].yaml,
                       "providers.")) /* names of others who have such tools */
            continue;
        str_copy(name, sizeof(name), config_table[i].env);
        for (char *c = name; *c; c++)
            *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        *strchr(name, '_') = '.';
        assert_string_equal(name, config_table[i].yaml);
    }
}

static void defaults_are_the_design(void **state)
{
    struct config config;
    struct error err;

    (void)state;
    load(&config, "", no_env);
    assert_int_equal(config_check(&config, &err), 0);
    assert_string_equal(config.type, "local");
    assert_int_equal(config.limits.timeout_ms, 30000);
    assert_int_equal(config.limits.output_bytes, 10240);
    assert_int_equal(config.limits.memory_bytes, GIB);
    assert_int_equal(config.limits.disk_bytes, 512 * MIB);
    assert_int_equal(config.limits.pids, 256);
    assert_int_equal(config.limits.cpu_millis, 0);
    assert_int_equal(config.isolation, ISOLATION_STANDARD);
    assert_int_equal(config.store_code, STORE_ON_ERROR);
    assert_false(config.block_imports);
    assert_false(config.auto_install);
    assert_int_equal(strv_length(config.blocked_imports), 4);
    assert_string_equal(config.blocked_imports[1], "subprocess");
    assert_int_equal(strv_length(config.languages), 3);
    assert_int_equal(config.id_base, 1000000000);
    assert_null(config.root);
    assert_null(config.python);
    assert_null(config.file);
    assert_string_equal(config.values[KEY_DOCKER_MEMORY].text, "256m");
    assert_string_equal(config.values[KEY_PROVIDER_EXECUTION_TIMEOUT].text, "60s");
    assert_null(config.values[KEY_PROVIDER_URL].text);
    assert_int_equal(config.values[KEY_MEMORY].source, FROM_DEFAULT);
    assert_null(config.values[KEY_MEMORY].where);
    config_free(&config);
    config_free(&config);
}

static void who_wins(void **state)
{
    const char *env[] = {"X=1",
                         "SANDBOX_PIDS_LIMIT=30",
                         "SANDBOX_PIDS_LIMIT=31",
                         "SANDBOX_MEMORY_LIMIT=",
                         "SANDBOX_UNKNOWN=x",
                         "SANDBOX_ROOT",
                         NULL};
    struct config config;
    struct error err;

    (void)state;
    load(&config, "sandbox:\n  pids_limit: 20\n  memory_limit: 2g\n  timeout_sec: 0.5\n", env);
    assert_int_equal(config.limits.pids, 30);
    assert_int_equal(config.values[KEY_PIDS].source, FROM_ENVIRONMENT);
    assert_string_equal(config.values[KEY_PIDS].where, "SANDBOX_PIDS_LIMIT");
    assert_int_equal(config.limits.memory_bytes, 2 * GIB);
    assert_int_equal(config.values[KEY_MEMORY].source, FROM_FILE);
    assert_string_equal(config.values[KEY_MEMORY].where, "bailey.yaml:3");
    assert_int_equal(config.limits.timeout_ms, 500);
    assert_string_equal(config.values[KEY_TIMEOUT].text, "0.5");
    assert_int_equal(config_set(&config, KEY_PIDS, "40", "--pids", &err), 0);
    assert_int_equal(config.limits.pids, 40);
    assert_int_equal(config.values[KEY_PIDS].source, FROM_FLAG);
    assert_string_equal(config.values[KEY_PIDS].where, "--pids");
    config_free(&config);
}

static void every_type_from_the_file(void **state)
{
    struct config config;

    (void)state;
    load(&config,
         "sandbox:\n"
         "  type: docker\n  timeout_sec: 5m\n  max_output_kb: 64\n"
         "  block_dangerous_imports: yes\n  blocked_imports: [os, os.path, _x1]\n"
         "  store_code: never\n  fallback: local\n  supported_languages: bash\n"
         "  auto_install: true\n  isolation: strict\n  cpu_limit: 0.5\n  disk_limit: 1m\n"
         "  id_base: 70000\n  root: rootfs\n  python: python3.12\n"
         "docker: {image: 'a/b:c', network_enabled: on, cpu_limit: all, memory_limit: 1GB}\n"
         "providers:\n  code_interpreter:\n    settings:\n"
         "      sandbox_url: http://x:1\n      claim_timeout: 30s\n      max_output_size: 10MB\n",
         no_env);
    assert_string_equal(config.type, "docker");
    assert_int_equal(config.limits.timeout_ms, 300000);
    assert_int_equal(config.limits.output_bytes, 65536);
    assert_true(config.block_imports);
    assert_int_equal(strv_length(config.blocked_imports), 3);
    assert_string_equal(config.blocked_imports[1], "os.path");
    assert_string_equal(config.values[KEY_BLOCKED_IMPORTS].text, "os,os.path,_x1");
    assert_int_equal(config.store_code, STORE_NEVER);
    assert_int_equal(strv_length(config.languages), 1);
    assert_true(config.auto_install);
    assert_int_equal(config.isolation, ISOLATION_STRICT);
    assert_int_equal(config.limits.cpu_millis, 500);
    assert_int_equal(config.limits.disk_bytes, MIB);
    assert_int_equal(config.id_base, 70000);
    assert_string_equal(config.root, "rootfs");
    assert_string_equal(config.python, "python3.12");
    assert_string_equal(config.values[KEY_DOCKER_CPU].text, "all");
    assert_string_equal(config.values[KEY_PROVIDER_URL].where, "bailey.yaml:21");
    config_free(&config);
}

static void null_means_unset(void **state)
{
    struct config config;

    (void)state;
    load(&config, "sandbox:\n  type:\n  root: ~\ndocker:\nproviders:\n", no_env);
    assert_string_equal(config.type, "local");
    assert_int_equal(config.values[KEY_SANDBOX_TYPE].source, FROM_DEFAULT);
    assert_null(config.root);
    config_free(&config);
}

static void bad_values_in_the_environment(void **state)
{
    static const struct {
        const char *variable;
        const char *expected;
    } rows[] = {
        {"SANDBOX_MEMORY_LIMIT=12x",
         "SANDBOX_MEMORY_LIMIT: '12x' is not a size (allowed: 16m to 16t; e.g. 512m, 1g)"},
        {"SANDBOX_MEMORY_LIMIT=1k", "'1k' is out of range (allowed: 16m"},
        {"SANDBOX_MEMORY_LIMIT=17t", "out of range"},
        {"SANDBOX_TIMEOUT_SEC=0", "SANDBOX_TIMEOUT_SEC: '0' is out of range (allowed: more than 0"},
        {"SANDBOX_TIMEOUT_SEC=-1", "'-1' is not a time"},
        {"SANDBOX_TIMEOUT_SEC=1000000000", "out of range"},
        {"SANDBOX_TIMEOUT_SEC=86400.001", "out of range"},
        {"SANDBOX_MAX_OUTPUT_KB=10x", "'10x' is not a number of KB"},
        {"SANDBOX_MAX_OUTPUT_KB=1.5", "not a number of KB"},
        {"SANDBOX_MAX_OUTPUT_KB=0", "out of range"},
        {"SANDBOX_MAX_OUTPUT_KB=262145", "out of range"},
        {"SANDBOX_MAX_OUTPUT_KB=18446744073709551615", "out of range"},
        {"SANDBOX_TYPE=dokcer", "'dokcer' is not known (allowed: local, docker, kubernetes, url, "
                                "e2b; did you mean 'docker'?)"},
        {"SANDBOX_ISOLATION=", NULL},
        {"SANDBOX_ISOLATION=none", "(allowed: process, standard, strict)"},
        {"SANDBOX_CPU_LIMIT=0", "out of range"},
        {"SANDBOX_CPU_LIMIT=5m", "'5m' is not a number of cores"},
        {"SANDBOX_CPU_LIMIT=1025", "out of range"},
        {"SANDBOX_PIDS_LIMIT=3", "out of range"},
        {"SANDBOX_PIDS_LIMIT=4294967552", "out of range"},
        {"SANDBOX_PIDS_LIMIT=2.5", "not a whole number"},
        {"SANDBOX_BLOCK_DANGEROUS_IMPORTS=maybe", "'maybe' is not true or false"},
        {"SANDBOX_BLOCKED_IMPORTS=os,,x", "not a list of modules"},
        {"SANDBOX_BLOCKED_IMPORTS=os x", "not a list of modules"},
        {"SANDBOX_BLOCKED_IMPORTS=1os", "not a list of modules"},
        {"SANDBOX_BLOCKED_IMPORTS=os.", "not a list of modules"},
        {"SANDBOX_BLOCKED_IMPORTS=os,", "not a list of modules"},
        {"SANDBOX_SUPPORTED_LANGUAGES=python,perl", "not a list of known languages"},
        {"SANDBOX_ID_BASE=0", "out of range"},
        {"SANDBOX_ID_BASE=4294967295", "out of range"},
        {"SANDBOX_ROOT=/", "'/' is not a root folder"},
        {"SANDBOX_ROOT=/../.", "not a root folder"},
        {"SANDBOX_PYTHON=bin/python", "'bin/python' is not a program (allowed: an absolute path"},
        {"DOCKER_IMAGE=-v", "not the name of an image"},
        {"DOCKER_IMAGE=a b", "not the name of an image"},
        {"DOCKER_IMAGE=a/../../b?x=1", "not the name of an image"},
        {"DOCKER_IMAGE=localhost:5000/team/image:2", NULL},
        {"SANDBOX_STORE_CODE=\033[31m", "'?[31m'"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const char *env[] = {rows[i].variable, NULL};
        struct config config;

        if (rows[i].expected) {
            load_fails("", env, rows[i].expected);
        } else {
            load(&config, "", env);
            config_free(&config);
        }
    }
}

static void bad_values_in_the_file(void **state)
{
    static const struct {
        const char *text;
        const char *expected;
    } rows[] = {
        {"sandbox:\n  memory_limit: 12x\n",
         "bailey.yaml:2: sandbox.memory_limit: '12x' is not a size (allowed: "},
        {"\n\n\n\n\nsandbox:\n  timeot_sec: 3\n",
         "bailey.yaml:7: unknown key 'sandbox.timeot_sec' (did you mean 'sandbox.timeout_sec'?)"},
        {"sandbx:\n  type: local\n",
         "bailey.yaml:1: unknown key 'sandbx' (did you mean 'sandbox'?)"},
        {"zzzzzzzzzzzzzzzz: 1\n", "unknown key 'zzzzzzzzzzzzzzzz' (`bailey config`"},
        {"sandbox.type: local\n", "bailey.yaml:1: a key has a dot"},
        {"sandbox: local\n", "bailey.yaml:1: 'sandbox' must be a mapping"},
        {"- a\n", "bailey.yaml: must be a mapping"},
        {"just text\n", "bailey.yaml: must be a mapping"},
        {"sandbox:\n  type: [local]\n", "bailey.yaml:2: 'sandbox.type' must be a single value"},
        {"sandbox:\n  type: {a: b}\n", "must be a single value"},
        {"sandbox:\n  blocked_imports: [1]\n", "must be a list of texts"},
        {"sandbox:\n  blocked_imports: {a: b}\n", "must be a list of texts"},
        {"sandbox:\n  blocked_imports: []\n", "'' is not a list of modules"},
        {"sandbox:\n  python: ''\n", "'' is not a program"},
        {"providers:\n  code_interpreter:\n    settings:\n      sandbox_url: ftp://x\n",
         "bailey.yaml:4: providers.code_interpreter.settings.sandbox_url: 'ftp://x' is not an"},
        {"sandbox:\n  type: local\n  type: local\n", "bailey.yaml:3: duplicate key 'type'"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        load_fails(rows[i].text, no_env, rows[i].expected);
}

static void long_values_are_cut_in_errors(void **state)
{
    struct error err = {0};
    struct config config;
    const char *env[] = {NULL, NULL};
    char text[5000];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    memcpy(text, "SANDBOX_TYPE=", strlen("SANDBOX_TYPE="));
    env[0] = text;
    assert_true(config_load_text(&config, "", 0, "f", (char *const *)env, &err) < 0);
    assert_text_has(err.text, "xxx...' is not known (allowed: local");
}

static void flags(void **state)
{
    struct config config;
    struct error err = {0};

    (void)state;
    load(&config, "", no_env);
    assert_int_equal(config_set(&config, KEY_MAX_OUTPUT, "7", "--max-output", &err), 0);
    assert_int_equal(config.limits.output_bytes, 7 * 1024);
    assert_int_equal(config_set(&config, KEY_MAX_OUTPUT, "10b", "--max-output", &err), 0);
    assert_int_equal(config.limits.output_bytes, 10);
    assert_int_equal(config_set(&config, KEY_MAX_OUTPUT, "20k", "--max-output", &err), 0);
    assert_int_equal(config.limits.output_bytes, 20480);
    assert_int_equal(config_set(&config, KEY_MAX_OUTPUT, "0", "--max-output", &err), -ERANGE);
    assert_ptr_equal(err.code, ERROR_BAD_INPUT);
    assert_string_equal(err.text,
                        "--max-output: '0' is out of range (allowed: 1 to 262144 KB, or a size "
                        "with its unit; e.g. 10, 500b, 64k, 1m)");
    assert_int_equal(config.limits.output_bytes, 20480);
    assert_string_equal(config.values[KEY_MAX_OUTPUT].text, "20k");
    assert_int_equal(config_set(&config, KEY_MEMORY, "", "--memory", &err), -EINVAL);
    assert_text_has(err.text, "--memory: '' is not a size");
    assert_int_equal(config_set(&config, KEY_BLOCKED_IMPORTS, "a , b", "--x", &err), 0);
    assert_string_equal(config.blocked_imports[1], "b");
    assert_int_equal(config_set(&config, KEY_BLOCKED_IMPORTS, "a b", "--x", NULL), -EINVAL);
    assert_int_equal(strv_length(config.blocked_imports), 2);
    config_free(&config);
}

static void disk_follows_memory(void **state)
{
    struct config config;
    struct error err = {0};

    (void)state;
    load(&config, "", no_env);
    assert_int_equal(config_set(&config, KEY_MEMORY, "64m", "--memory", &err), 0);
    assert_int_equal(config_check(&config, &err), 0);
    assert_int_equal(config.limits.disk_bytes, 32 * MIB);
    assert_string_equal(config.values[KEY_DISK].text, "32m");
    assert_int_equal(config.values[KEY_DISK].source, FROM_DEFAULT);
    assert_int_equal(config_set(&config, KEY_MEMORY, "4g", "--memory", &err), 0);
    assert_int_equal(config_check(&config, &err), 0);
    assert_int_equal(config.limits.disk_bytes, 2 * GIB);
    config_free(&config);
}

static void disk_must_be_smaller_than_memory(void **state)
{
    const char *env[] = {"SANDBOX_DISK_LIMIT=1g", NULL};
    struct config config;
    struct error err = {0};

    (void)state;
    load(&config, "", env);
    assert_int_equal(config_check(&config, &err), -EINVAL);
    assert_string_equal(
        err.text, "SANDBOX_DISK_LIMIT: 1g is not smaller than the memory limit of 1g, and a "
                  "box's disk is part of its memory; lower it, or raise SANDBOX_MEMORY_LIMIT");
    assert_int_equal(config_set(&config, KEY_MEMORY, "512m", "--memory", &err), 0);
    assert_int_equal(config_check(&config, &err), -EINVAL);
    assert_text_has(err.text, "or raise --memory");
    assert_int_equal(config_set(&config, KEY_DISK, "511m", "--disk", &err), 0);
    assert_int_equal(config_check(&config, &err), 0);
    config_free(&config);
}

/* Flag, then explicit DOCKER_*, then explicit SANDBOX_*, then Docker's default. */
static void docker_limits_are_settled(void **state)
{
    static const struct {
        const char *env[4], *flag;
        uint64_t memory;
        const char *where;
    } rows[] = {
        {{"SANDBOX_TYPE=docker"}, NULL, 256 * MIB, NULL},
        {{"SANDBOX_TYPE=docker", "SANDBOX_MEMORY_LIMIT=512m"},
         NULL,
         512 * MIB,
         "SANDBOX_MEMORY_LIMIT"},
        {{"SANDBOX_TYPE=docker", "SANDBOX_MEMORY_LIMIT=512m", "DOCKER_MEMORY_LIMIT=128m"},
         NULL,
         128 * MIB,
         "DOCKER_MEMORY_LIMIT"},
        {{"SANDBOX_TYPE=docker", "DOCKER_MEMORY_LIMIT=128m"}, "64m", 64 * MIB, "--memory"},
        {{"SANDBOX_TYPE=local", "DOCKER_MEMORY_LIMIT=128m"}, NULL, GIB, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct config config;
        struct error err = {0};

        load(&config, "", rows[i].env);
        if (rows[i].flag)
            assert_int_equal(config_set(&config, KEY_MEMORY, rows[i].flag, "--memory", &err), 0);
        assert_int_equal(config_check(&config, &err), 0);
        assert_int_equal(config.limits.memory_bytes, rows[i].memory);
        assert_int_equal(config.limits.disk_bytes, rows[i].memory / 2);
        if (!rows[i].where)
            assert_null(config.values[KEY_MEMORY].where);
        else
            assert_string_equal(config.values[KEY_MEMORY].where, rows[i].where);
        if (strcmp(config.type, "docker") == 0) {
            assert_string_equal(config.values[KEY_DOCKER_MEMORY].text,
                                config.values[KEY_MEMORY].text);
            assert_int_equal(config.limits.cpu_millis, 500);
        }
        config_free(&config);
    }
}

static void docker_keys(void **state)
{
    const char *env[] = {"SANDBOX_TYPE=docker",
                         "SANDBOX_FALLBACK=local",
                         "DOCKER_HOST=tcp://docker.example:2376",
                         "DOCKER_CERT_PATH=/certs",
                         "DOCKER_TLS_VERIFY=1",
                         "DOCKER_RUNTIME=runsc",
                         "DOCKER_POOL_SIZE=7",
                         "DOCKER_NETWORK_ENABLED=yes",
                         NULL};
    const char *bad[] = {"SANDBOX_FALLBACK=docker", NULL};
    struct config config;

    (void)state;
    load(&config, "", no_env);
    assert_string_equal(config.docker.image, "bailey-sandbox:latest");
    assert_string_equal(config.docker.host, "unix:///var/run/docker.sock");
    assert_int_equal(config.docker.pool_size, 2);
    assert_null(config.docker.runtime);
    assert_false(config.docker.verifies_tls || config.docker.has_network || config.falls_back);
    config_free(&config);
    load(&config, "", env);
    assert_int_equal(config_check(&config, NULL), 0);
    assert_string_equal(config.docker.host, "tcp://docker.example:2376");
    assert_string_equal(config.docker.cert_path, "/certs");
    assert_string_equal(config.docker.runtime, "runsc");
    assert_int_equal(config.docker.pool_size, 7);
    assert_true(config.docker.verifies_tls && config.docker.has_network && config.falls_back);
    config_free(&config);
    load_fails("", bad, "SANDBOX_FALLBACK: 'docker' is not known");
}

/* Variables of Docker's own client: what we cannot use is no error where Docker is not used. */
static void docker_host_is_judged_when_used(void **state)
{
    static const char *const hosts[] = {"DOCKER_HOST=ssh://me@there", "DOCKER_HOST=unix://",
                                        "DOCKER_HOST=tcp://", "DOCKER_HOST=unix:///a b",
                                        "DOCKER_CERT_PATH=certs"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
        const char *env[] = {hosts[i], NULL, NULL};
        struct config config;
        struct error err = {0};

        load(&config, "", env);
        assert_int_equal(config_check(&config, &err), 0);
        config_free(&config);
        env[1] = "SANDBOX_TYPE=docker";
        load(&config, "", env);
        assert_int_equal(config_check(&config, &err), -EINVAL);
        assert_text_has(err.text, "cannot be used (allowed: ");
        config_free(&config);
    }
}

/* Docker's own client would look into a folder of its user's; plain HTTP it would not speak. */
static void who_asks_for_tls_gets_nothing_less(void **state)
{
    static const struct {
        const char *host, *cert, *says; /* NULL: it is fine */
    } rows[] = {
        {"DOCKER_HOST=tcp://there:2376", NULL, "DOCKER_CERT_PATH is not"},
        {"DOCKER_HOST=http://there:2375", "DOCKER_CERT_PATH=/certs", "without TLS"},
        {"DOCKER_HOST=tcp://there:2376", "DOCKER_CERT_PATH=/certs", NULL},
        {"DOCKER_HOST=https://there:2376", NULL, NULL},
        {"DOCKER_HOST=unix:///var/run/docker.sock", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const char *env[] = {"SANDBOX_TYPE=docker", "DOCKER_TLS_VERIFY=1", rows[i].host,
                             rows[i].cert, NULL};
        struct config config;
        struct error err = {0};

        load(&config, "", env);
        assert_int_equal(config_check(&config, &err), rows[i].says ? -EINVAL : 0);
        if (rows[i].says)
            assert_text_has(err.text, rows[i].says);
        config_free(&config);
    }
}

static void url_and_template_exclude_each_other(void **state)
{
    struct config config;
    struct error err = {0};

    (void)state;
    load(&config,
         "providers:\n  code_interpreter:\n    settings:\n      sandbox_url: http://x\n"
         "      sandbox_template: t\n",
         no_env);
    assert_int_equal(config_check(&config, &err), -EINVAL);
    assert_text_has(err.text, "bailey.yaml:4: sandbox_url and sandbox_template (bailey.yaml:5)");
    config_free(&config);
}

static void sources_have_names(void **state)
{
    (void)state;
    assert_string_equal(config_source_name(FROM_DEFAULT), "default");
    assert_string_equal(config_source_name(FROM_FILE), "file");
    assert_string_equal(config_source_name(FROM_ENVIRONMENT), "environment");
    assert_string_equal(config_source_name(FROM_FLAG), "flag");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_has_a_row),
        cmocka_unit_test(names_follow_each_other),
        cmocka_unit_test(defaults_are_the_design),
        cmocka_unit_test(who_wins),
        cmocka_unit_test(every_type_from_the_file),
        cmocka_unit_test(null_means_unset),
        cmocka_unit_test(bad_values_in_the_environment),
        cmocka_unit_test(bad_values_in_the_file),
        cmocka_unit_test(long_values_are_cut_in_errors),
        cmocka_unit_test(flags),
        cmocka_unit_test(disk_follows_memory),
        cmocka_unit_test(disk_must_be_smaller_than_memory),
        cmocka_unit_test(docker_limits_are_settled),
        cmocka_unit_test(docker_keys),
        cmocka_unit_test(docker_host_is_judged_when_used),
        cmocka_unit_test(who_asks_for_tls_gets_nothing_less),
        cmocka_unit_test(url_and_template_exclude_each_other),
        cmocka_unit_test(sources_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
