/* test_print.c - help, completion, man pages and reports hold every row that parses. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/doctor.h"
#include "cli/empty_config.h"
#include "cli/explain.h"
#include "cli/help.h"
#include "cli/show_config.h"

static void expect(const struct buf *text, const char *part)
{
    if (!strstr(buf_text(text), part))
        fail_msg("'%s' is not in:\n%s", part, buf_text(text));
}

/* Takes the escaped dashes out of a page. */
static void undash(struct buf *page)
{
    char *to = page->data;

    for (const char *from = page->data; *from; from++)
        if (from[0] == '\\' && from[1] == '-')
            from++;
        else
            *to++ = *from;
    *to = 0;
    page->length = (size_t)(to - page->data);
}

static void test_help_has_every_option_with_its_default(void **state)
{
    (void)state;
    for (size_t i = 0; i < command_count; i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
        const struct option_row *row;
        char name[64];

        assert_int_equal(help_command_text(command_table[i], &text), 0);
        expect(&text, command_table[i]->usage);
        for (size_t j = 0; (row = help_row_at(command_table[i], j)); j++) {
            str_format(name, sizeof(name), "--%s%s%s", row->name, row->argument ? " " : "",
                       row->argument ? row->argument : "");
            expect(&text, name);
            if (row->is_config && !row->hides_default && config_table[row->key].fallback)
                expect(&text, config_table[row->key].fallback);
        }
    }
}

static void test_help_fits_80_columns(void **state)
{
    (void)state;
    for (size_t i = 0; i < command_count; i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);

        assert_int_equal(help_command_text(command_table[i], &text), 0);
        for (const char *line = buf_text(&text); *line; line += strcspn(line, "\n") + 1)
            assert_in_range(strcspn(line, "\n"), 0, 80);
    }
}

static void test_overview_has_every_command_and_status(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);

    (void)state;
    assert_int_equal(help_overview(&text), 0);
    for (size_t i = 0; i < command_count; i++) {
        expect(&text, command_table[i]->name);
        expect(&text, command_table[i]->summary);
    }
    expect(&text, "124");
    expect(&text, "127");
}

static void test_completions_have_every_option_and_word(void **state)
{
    int (*const printers[])(struct buf *) = {complete_bash, complete_zsh};

    (void)state;
    for (size_t p = 0; p < ARRAY_SIZE(printers); p++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(256 * KIB);
        const struct option_row *row;

        assert_int_equal(printers[p](&text), 0);
        for (size_t i = 0; i < command_count; i++) {
            expect(&text, command_table[i]->name);
            for (size_t j = 0; (row = help_row_at(command_table[i], j)); j++) {
                char name[64];

                str_format(name, sizeof(name), "--%s", row->name);
                expect(&text, name);
            }
        }
        expect(&text, "process standard strict");
        expect(&text, "run_python_code");
        expect(&text, "python javascript bash");
    }
}

static void test_man_pages_have_every_option_and_key(void **state)
{
    CLEANUP(buf_free) struct buf overview = BUF_INIT(256 * KIB);

    (void)state;
    for (size_t i = 0; i < command_count; i++) {
        CLEANUP(buf_free) struct buf page = BUF_INIT(256 * KIB);
        const struct option_row *row;

        assert_int_equal(man_command_page(command_table[i], &page), 0);
        assert_int_equal(strncmp(buf_text(&page), ".TH BAILEY\\-", 12), 0);
        expect(&page, ".SH OPTIONS");
        for (size_t j = 0; (row = help_row_at(command_table[i], j)); j++) {
            CLEANUP(buf_free) struct buf name = BUF_INIT(256);

            buf_append_text(&name, "\\-\\-");
            for (const char *at = row->name; *at; at++)
                buf_printf(&name, "%s%c", *at == '-' ? "\\" : "", *at);
            expect(&page, buf_text(&name));
        }
    }
    assert_int_equal(man_overview(&overview), 0);
    expect(&overview, ".SH NAME\nbailey \\-");
    expect(&overview, ".SH EXIT STATUS");
    for (size_t i = 0; i < _KEY_MAX; i++)
        expect(&overview, config_table[i].env ? config_table[i].env : config_table[i].yaml);
    undash(&overview);
    assert_null(strstr(buf_text(&overview), "-")); /* each dash is escaped */
}

static void test_printers_tell_a_full_buffer(void **state)
{
    int (*const printers[])(struct buf *) = {help_overview, complete_bash, complete_zsh,
                                             man_overview};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(printers); i++) {
        CLEANUP(buf_free) struct buf small = BUF_INIT(100);

        assert_true(printers[i](&small) < 0);
    }
}

static void test_config_shows_value_and_source(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    char *env[] = {empty_config(), (char *)"SANDBOX_PIDS_LIMIT=99", NULL};
    struct config config;
    struct error err = {0};
    json_t *json;

    (void)state;
    assert_int_equal(config_load(&config, NULL, env, &err), 0);
    assert_int_equal(config_set(&config, KEY_TIMEOUT, "7", "--timeout", &err), 0);
    assert_int_equal(show_config_text(&config, &text), 0);
    expect(&text, "environment SANDBOX_PIDS_LIMIT");
    expect(&text, "flag --timeout");
    json = show_config_json(&config);
    assert_string_equal(
        json_string_value(json_object_get(
            json_object_get(json_object_get(json, "values"), "SANDBOX_PIDS_LIMIT"), "value")),
        "99");
    assert_int_equal(json_object_size(json_object_get(json, "values")), _KEY_MAX);
    json_decref(json);
    config_free(&config);
}

static void test_explain_names_each_limit_and_its_holder(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    struct limits limits = {.timeout_ms = 1500,
                            .memory_bytes = GIB,
                            .disk_bytes = 512 * MIB,
                            .output_bytes = 10 * KIB,
                            .pids = 256,
                            .cpu_millis = 500};
    struct oneshot_extra extra = {.timings = {{"clone", 1500000}, {"exec", 500000}},
                                  .timing_count = 2};
    struct result result;

    (void)state;
    result_init(&result, &limits);
    result.runtime = "local";
    result.warm = "pool";
    result.layers = ISOLATION_LAYER_BIT(ISOLATION_LAYER_SECCOMP) |
                    ISOLATION_LAYER_BIT(ISOLATION_LAYER_LANDLOCK);
    result.missing = ISOLATION_LAYER_BIT(ISOLATION_LAYER_CGROUP);
    result.memory_by = LIMIT_BY_WATCHDOG;
    result.pids_by = LIMIT_BY_RLIMIT;
    result.usage.cpu_us = 12300;
    result.usage.by = USAGE_BY_ENGINE;
    assert_int_equal(explain_result(&result, &text), 0);
    expect(&text, "local");
    expect(&text, "started    pool");
    expect(&text, "standard");
    expect(&text, "seccomp, landlock");
    expect(&text, "missing    cgroup");
    expect(&text, "1.5 s");
    expect(&text, limit_by_name(LIMIT_BY_WATCHDOG));
    expect(&text, limit_by_name(LIMIT_BY_RLIMIT));
    expect(&text, "0.5 cores");
    expect(&text, "12.3 ms of cpu");
    buf_clear(&text);
    assert_int_equal(explain_timing(&extra, &text), 0);
    expect(&text, "1.500 ms  clone");
    expect(&text, "2.000 ms  total");
    result_free(&result);
}

/* A machine without Landlock, where strict is asked for. */
static void make_doctor(struct doctor *doctor)
{
    static const struct limits limits = {.output_bytes = 1024};

    *doctor = (struct doctor){.wanted = ISOLATION_STRICT};
    str_copy(doctor->host.kernel, sizeof(doctor->host.kernel), "6.1.0");
    str_copy(doctor->host.cgroup, sizeof(doctor->host.cgroup), "v2");
    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++)
        doctor->rows[i].layer = (enum isolation_layer)i;
    doctor->rows[ISOLATION_LAYER_LANDLOCK].result = -ENOSYS;
    result_init(&doctor->box, &limits);
    doctor->box.layers = ISOLATION_LAYER_ALL & ~ISOLATION_LAYER_BIT(ISOLATION_LAYER_LANDLOCK);
    doctor->interpreters[0] = (struct doctor_interpreter){.language = language_find("python")};
    error_set(&doctor->interpreters[0].err, -ENOENT, ERROR_NO_INTERPRETER, "no Python here");
    doctor->interpreter_count = 1;
}

static void test_doctor_says_what_is_missing_and_the_remedy(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    struct doctor doctor;

    (void)state;
    make_doctor(&doctor);
    assert_false(doctor_is_fine(&doctor));
    assert_string_equal(doctor_level(&doctor), "standard");
    assert_int_equal(doctor_text(&doctor, false, &text), 0);
    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++)
        expect(&text, isolation_layer_table[i].name);
    expect(&text, "- landlock");
    expect(&text, "ENOSYS");
    expect(&text, isolation_layer_table[ISOLATION_LAYER_LANDLOCK].remedy);
    expect(&text, "no Python here");
    expect(&text, "cpu: no limit,");
    expect(&text, "runs are refused");
    assert_null(strstr(buf_text(&text), isolation_layer_table[ISOLATION_LAYER_USERNS].remedy));
    buf_clear(&text);
    doctor.wanted = ISOLATION_STANDARD;
    assert_true(doctor_is_fine(&doctor));
    assert_int_equal(doctor_text(&doctor, true, &text), 0);
    expect(&text, "✗ landlock");
    expect(&text, "✓ userns");
    expect(&text, "runs are allowed");
    doctor_free(&doctor);
}

static void test_doctor_tells_an_interpreter_that_does_not_work(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    struct doctor_interpreter *row;
    struct doctor doctor;
    json_t *json, *found;

    (void)state;
    make_doctor(&doctor);
    row = &doctor.interpreters[0];
    row->found.path = strdup("/opt/python3");
    str_copy(row->reason, sizeof(row->reason), "exit status 3");
    assert_int_equal(doctor_text(&doctor, false, &text), 0);
    expect(&text, "- python        /opt/python3: exit status 3\n");
    json = doctor_json(&doctor);
    found = json_array_get(json_object_get(json, "interpreters"), 0);
    assert_true(json_is_false(json_object_get(found, "works")));
    assert_string_equal(json_string_value(json_object_get(found, "reason")), "exit status 3");
    json_decref(json);
    row->reason[0] = 0;
    row->works = true;
    buf_clear(&text);
    assert_int_equal(doctor_text(&doctor, false, &text), 0);
    expect(&text, "+ python        /opt/python3 (found)\n");
    doctor_free(&doctor);
}

static void test_doctor_json_agrees(void **state)
{
    struct doctor doctor;
    json_t *json, *row;
    size_t index;

    (void)state;
    make_doctor(&doctor);
    json = doctor_json(&doctor);
    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "level")), "standard");
    assert_true(json_is_false(json_object_get(json, "ok")));
    assert_int_equal(json_array_size(json_object_get(json, "layers")), _ISOLATION_LAYER_MAX);
    json_array_foreach(json_object_get(json, "layers"), index, row)
    {
        bool held = index != ISOLATION_LAYER_LANDLOCK;

        assert_string_equal(json_string_value(json_object_get(row, "name")),
                            isolation_layer_table[index].name);
        assert_int_equal(json_is_true(json_object_get(row, "held")), held);
        assert_int_equal(json_is_null(json_object_get(row, "remedy")), held);
    }
    json_decref(json);

    error_set(&doctor.box.error, -EPERM, ERROR_BOX_FAILED, "mount proc: EPERM");
    assert_false(doctor_is_fine(&doctor));
    assert_string_equal(doctor_level(&doctor), "none");
    doctor_free(&doctor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help_has_every_option_with_its_default),
        cmocka_unit_test(test_help_fits_80_columns),
        cmocka_unit_test(test_overview_has_every_command_and_status),
        cmocka_unit_test(test_completions_have_every_option_and_word),
        cmocka_unit_test(test_man_pages_have_every_option_and_key),
        cmocka_unit_test(test_printers_tell_a_full_buffer),
        cmocka_unit_test(test_config_shows_value_and_source),
        cmocka_unit_test(test_explain_names_each_limit_and_its_holder),
        cmocka_unit_test(test_doctor_says_what_is_missing_and_the_remedy),
        cmocka_unit_test(test_doctor_tells_an_interpreter_that_does_not_work),
        cmocka_unit_test(test_doctor_json_agrees),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
