/* test_options.c - the option parser: both spellings, clusters, "--", operands, what is wrong. */
#include <errno.h>
#include <string.h>

#include "unit.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/client_request.h"
#include "cli/empty_config.h"
#include "cli/options.h"
#include "cli/request.h"

/* Parses NULL-terminated words by a command's rows. */
static int parse(const struct command *command, const char *const *words, struct parsed *parsed,
                 struct error *err)
{
    int count = 0;

    while (words[count])
        count++;
    *err = (struct error){0};
    return options_parse(command, count, words, parsed, err);
}

#define PARSE(command, parsed, err, ...) \
    parse(&(command), (const char *const[]){__VA_ARGS__, NULL}, parsed, err)

static void expect_refused(const struct command *command, const char *const *words,
                           const char *mention)
{
    struct parsed parsed;
    struct error err;

    assert_int_equal(parse(command, words, &parsed, &err), -EINVAL);
    assert_ptr_equal(err.code, ERROR_BAD_INPUT);
    if (!strstr(err.text, mention))
        fail_msg("'%s' does not mention '%s'", err.text, mention);
    parsed_free(&parsed);
}
#define REFUSED(command, mention, ...) \
    expect_refused(&(command), (const char *const[]){__VA_ARGS__, NULL}, mention)

static void test_both_spellings(void **state)
{
    struct parsed parsed;
    struct error err;

    (void)state;
    assert_int_equal(PARSE(run_command, &parsed, &err, "--timeout", "5", "--memory=1=g", "-c", "x"),
                     0);
    assert_int_equal(parsed.use_count, 3);
    assert_string_equal(parsed.uses[0].row->name, "timeout");
    assert_string_equal(parsed.uses[0].value, "5");
    assert_string_equal(parsed.uses[1].row->name, "memory");
    assert_string_equal(parsed.uses[1].value, "1=g");
    assert_string_equal(parsed.uses[2].row->name, "code");
    assert_string_equal(parsed.uses[2].value, "x");
    assert_int_equal(parsed.operand_count, 0);
    assert_false(parsed.has_rest);
    assert_null(parsed.rest[0]);
    parsed_free(&parsed);
}

static void test_values_may_look_like_options(void **state)
{
    struct parsed parsed;
    struct error err;

    (void)state;
    assert_int_equal(PARSE(run_command, &parsed, &err, "--timeout", "-5", "-c", "--", "--env="), 0);
    assert_int_equal(parsed.use_count, 3);
    assert_string_equal(parsed.uses[0].value, "-5");
    assert_string_equal(parsed.uses[1].value, "--");
    assert_string_equal(parsed.uses[2].value, "");
    parsed_free(&parsed);
}

static void test_letters(void **state)
{
    struct parsed parsed;
    struct error err;

    (void)state;
    assert_int_equal(PARSE(run_command, &parsed, &err, "-qjt5", "-cprint(1)", "-e", "A=1"), 0);
    assert_int_equal(parsed.use_count, 5);
    assert_string_equal(parsed.uses[0].row->name, "quiet");
    assert_null(parsed.uses[0].value);
    assert_string_equal(parsed.uses[1].row->name, "json");
    assert_string_equal(parsed.uses[2].row->name, "timeout");
    assert_string_equal(parsed.uses[2].value, "5");
    assert_string_equal(parsed.uses[3].value, "print(1)");
    assert_string_equal(parsed.uses[4].value, "A=1");
    parsed_free(&parsed);
}

static void test_a_cluster_of_switches_stays_in_its_bounds(void **state)
{
    char many[5000] = "-";
    struct parsed parsed;
    struct error err;

    (void)state;
    memset(many + 1, 'q', sizeof(many) - 2);
    many[sizeof(many) - 1] = 0;
    assert_int_equal(PARSE(run_command, &parsed, &err, many, "--json", many), 0);
    assert_int_equal(parsed.use_count, 2);
    parsed_free(&parsed);
}

static void test_options_may_follow_the_file(void **state)
{
    struct parsed parsed;
    struct error err;

    (void)state;
    assert_int_equal(PARSE(run_command, &parsed, &err, "a.py", "--json", "--", "--json", "b"), 0);
    assert_int_equal(parsed.operand_count, 1);
    assert_string_equal(parsed.operands[0], "a.py");
    assert_null(parsed.operands[1]);
    assert_int_equal(parsed.use_count, 1);
    assert_int_equal(parsed.rest_count, 2);
    assert_string_equal(parsed.rest[0], "--json");
    assert_string_equal(parsed.rest[1], "b");
    assert_null(parsed.rest[2]);
    parsed_free(&parsed);
}

static void test_a_single_dash_is_an_operand(void **state)
{
    struct parsed parsed;
    struct error err;

    (void)state;
    assert_int_equal(PARSE(run_command, &parsed, &err, "-"), 0);
    assert_string_equal(parsed.operands[0], "-");
    parsed_free(&parsed);
}

static void test_exec_stops_at_the_program(void **state)
{
    struct parsed parsed;
    struct error err;

    (void)state;
    assert_int_equal(PARSE(exec_command, &parsed, &err, "--json", "ls", "--json", "--", "x"), 0);
    assert_int_equal(parsed.use_count, 1);
    assert_int_equal(parsed.rest_count, 4);
    assert_string_equal(parsed.rest[0], "ls");
    assert_string_equal(parsed.rest[2], "--");
    parsed_free(&parsed);

    assert_int_equal(PARSE(exec_command, &parsed, &err, "--", "--odd", "x"), 0);
    assert_string_equal(parsed.rest[0], "--odd");
    parsed_free(&parsed);

    assert_int_equal(PARSE(exec_command, &parsed, &err, "--"), 0);
    assert_int_equal(parsed.rest_count, 0);
    parsed_free(&parsed);
}

static void test_two_dashes_before_plain_operands(void **state)
{
    struct parsed parsed;
    struct error err;

    (void)state;
    assert_int_equal(PARSE(help_command, &parsed, &err, "--", "run"), 0);
    assert_string_equal(parsed.operands[0], "run");
    assert_int_equal(parsed.rest_count, 0);
    parsed_free(&parsed);
    REFUSED(help_command, "unexpected argument 'b'", "--", "a", "b");
}

static void test_help_is_seen_everywhere(void **state)
{
    struct parsed parsed;
    struct error err;

    (void)state;
    for (size_t i = 0; i < command_count; i++) {
        assert_int_equal(PARSE(*command_table[i], &parsed, &err, "--help"), 0);
        assert_true(parsed.wants_help);
        assert_int_equal(parsed.use_count, 0);
        parsed_free(&parsed);
        assert_int_equal(PARSE(*command_table[i], &parsed, &err, "-h"), 0);
        assert_true(parsed.wants_help);
        parsed_free(&parsed);
    }
    assert_int_equal(PARSE(exec_command, &parsed, &err, "--", "--help"), 0);
    assert_false(parsed.wants_help);
    parsed_free(&parsed);
}

static void test_what_is_wrong_is_named(void **state)
{
    char long_name[300] = "--";

    (void)state;
    REFUSED(run_command, "did you mean '--timeout'?", "--tiemout", "5");
    REFUSED(run_command, "did you mean '--memory'?", "--memroy=5");
    REFUSED(run_command, "unknown option '--zzzzzzzz'", "--zzzzzzzz");
    REFUSED(run_command, "unknown option '-z'", "-qz");
    REFUSED(run_command, "unknown option '--'", "--=x");
    REFUSED(run_command, "--timeout TIME", "--timeout");
    REFUSED(run_command, "--timeout TIME", "-qt");
    REFUSED(run_command, "takes no value", "--json=1");
    REFUSED(run_command, "follow '--'", "a.py", "b");
    REFUSED(version_command, "unexpected argument 'stray'", "stray");
    REFUSED(exec_command, "unknown option '--language'", "--language", "python");
    memset(long_name + 2, 'x', sizeof(long_name) - 3);
    long_name[sizeof(long_name) - 1] = 0;
    REFUSED(run_command, "unknown option '--xxx", long_name);
}

static void test_an_unknown_command_is_told_the_nearest(void **state)
{
    struct error err = {0};

    (void)state;
    assert_null(command_find("rum"));
    assert_int_equal(command_unknown("rum", &err), -EINVAL);
    assert_non_null(strstr(err.text, "did you mean 'run'?"));
    assert_int_equal(command_unknown("qqqqqqqqqqqq", &err), -EINVAL);
    assert_non_null(strstr(err.text, "'bailey help'"));
}

/* Loads `run` with options as if typed, in an environment of its own. */
static int load(const char *const *words, struct request *request, struct config *config,
                struct error *err)
{
    char *env[] = {(char *)"GIVEN=a=b", empty_config(), NULL};
    struct invocation invocation = {.command = &run_command, .env = env};
    int result = parse(&run_command, words, &invocation.parsed, err);

    if (result == 0)
        result = request_load(&invocation, request, config, err);
    parsed_free(&invocation.parsed);
    return result;
}
#define LOAD(request, config, err, ...) \
    load((const char *const[]){__VA_ARGS__, NULL}, request, config, err)

static void test_options_reach_request_and_config(void **state)
{
    struct request request;
    struct config config;
    struct error err;

    (void)state;
    assert_int_equal(LOAD(&request, &config, &err, "--timeout", "1.5", "--env", "A=1", "--env",
                          "GIVEN", "--file", "x", "--file", "a:b:in/c", "--out", "o", "--json"),
                     0);
    assert_int_equal(config.limits.timeout_ms, 1500);
    assert_int_equal(config.values[KEY_TIMEOUT].source, FROM_FLAG);
    assert_string_equal(config.values[KEY_TIMEOUT].where, "--timeout");
    assert_string_equal(request.env[0], "A=1");
    assert_string_equal(request.env[1], "GIVEN=a=b");
    assert_null(request.env[2]);
    assert_int_equal(request.file_count, 2);
    assert_string_equal(request.files[0].host, "x");
    assert_null(request.files[0].box);
    assert_string_equal(request.files[1].host, "a:b");
    assert_string_equal(request.files[1].box, "in/c");
    assert_string_equal(request.out, "o");
    assert_true(request.is_json);
    assert_false(request.is_raw);
    request_free(&request);
    config_free(&config);
}

static void expect_bad_value(const char *option, const char *value, const char *mention)
{
    struct request request = {0};
    struct config config = {0};
    struct error err;

    assert_true(LOAD(&request, &config, &err, option, value) < 0);
    if (!strstr(err.text, option) || !strstr(err.text, mention))
        fail_msg("%s '%s': '%s' does not mention '%s'", option, value, err.text, mention);
    request_free(&request);
    config_free(&config);
}

static void test_bad_values_name_option_and_value(void **state)
{
    (void)state;
    expect_bad_value("--timeout", "0", "86400");
    expect_bad_value("--timeout", "-1", "-1");
    expect_bad_value("--timeout", "1000000000", "1000000000");
    expect_bad_value("--memory", "12x", "12x");
    expect_bad_value("--isolation", "strictest", "standard");
    expect_bad_value("--env", "1A=2", "1A=2");
    expect_bad_value("--env", "A-B=2", "A-B=2");
    expect_bad_value("--env", "=x", "=x");
    expect_bad_value("--env", "", "NAME=VALUE");
    expect_bad_value("--env", "ABSENT", "ABSENT");
    expect_bad_value("--file", ":x", ":x");
    expect_bad_value("--file", "x:", "x:");
    expect_bad_value("--file", "", "HOST");
    expect_bad_value("--out", "", "DIR");
}

static bool is_handed_over(const struct command *command, const char *const *words)
{
    struct parsed parsed;
    struct error err;
    bool result;

    assert_int_equal(parse(command, words, &parsed, &err), 0);
    result = command->hands_over(&parsed);
    parsed_free(&parsed);
    return result;
}
#define HANDED_OVER(command, ...) \
    is_handed_over(&(command), (const char *const[]){__VA_ARGS__, NULL})

static void test_what_needs_the_daemon_is_handed_over(void **state)
{
    (void)state;
    assert_true(HANDED_OVER(exec_command, "-s", "ab12", "--", "ls"));
    assert_true(HANDED_OVER(exec_command, "--session=ab12", "ls"));
    assert_false(HANDED_OVER(exec_command, "--", "ls", "-s", "x"));
    assert_false(HANDED_OVER(exec_command, "-d", "ls")); /* is told what is missing */
    assert_false(HANDED_OVER(tool_command, "run_python_code", "{}"));
    assert_true(HANDED_OVER(tool_command, "run_python_code", "{}", "-s", "ab12"));
    assert_true(HANDED_OVER(tool_command, "sandbox_exec", "{}"));
    assert_false(HANDED_OVER(tool_command, "no_such_tool", "-s", "ab12"));
    assert_false(HANDED_OVER(tool_command, "--list"));
}

static void expect_client_refused(const struct command *command, const char *const *words,
                                  const char *mention)
{
    struct client_request request;
    struct invocation invocation = {.command = command};
    struct error err;

    assert_int_equal(parse(command, words, &invocation.parsed, &err), 0);
    assert_true(client_request_load(&invocation, &request, &err) < 0);
    if (!strstr(err.text, mention))
        fail_msg("'%s' does not mention '%s'", err.text, mention);
    client_request_free(&request);
    parsed_free(&invocation.parsed);
}
#define CLIENT_REFUSED(command, mention, ...) \
    expect_client_refused(&(command), (const char *const[]){__VA_ARGS__, NULL}, mention)

static void test_options_of_the_daemons_clients(void **state)
{
    struct client_request request;
    struct invocation invocation = {.command = &session_command};
    struct error err;

    (void)state;
    assert_int_equal(PARSE(session_command, &invocation.parsed, &err, "new", "--name", "n",
                           "--data", "a=b=c", "--env", "K=V", "--idle", "2m", "--max-age=1h", "-j"),
                     0);
    assert_int_equal(client_request_load(&invocation, &request, &err), 0);
    assert_string_equal(request.name, "n");
    assert_string_equal(request.data[0], "a=b=c");
    assert_string_equal(request.env[0], "K=V");
    assert_int_equal(request.idle_ms, 120000);
    assert_int_equal(request.max_age_ms, 3600000);
    assert_true(request.is_json);
    client_request_free(&request);
    parsed_free(&invocation.parsed);
    CLIENT_REFUSED(session_command, "NAME=FILE", "new", "--data", "sales.csv");
    CLIENT_REFUSED(session_command, "NAME=FILE", "new", "--data", "=sales.csv");
    CLIENT_REFUSED(session_command, "NAME=FILE", "new", "--data", "sales=");
    CLIENT_REFUSED(session_command, "--idle '0'", "new", "--idle", "0");
    CLIENT_REFUSED(session_command, "--max-age 'soon'", "new", "--max-age", "soon");
    CLIENT_REFUSED(shell_command, "--env '1A=b'", "--env", "1A=b");
}

static void test_rows_are_sound(void **state)
{
    (void)state;
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = command_table[i];

        assert_ptr_equal(command_find(command->name), command);
        /* Either it runs here or bailey-engine has it; one that is in both may hand over. */
        assert_true(command->in_engine == !command->run);
        assert_true(!command->hands_over || command->run);
        assert_true(command->summary[0] && command->description[0]);
        for (size_t j = 0; j < command->option_count; j++) {
            const struct option_row *row = &command->options[j];

            /* A key needs a value, and the command may read it as well; an engine's command may
             * look up an option by its name. */
            assert_true(row->is_config || row->take || command->in_engine);
            assert_true(row->argument || !row->is_config);
            assert_true(row->help && row->help[0]);
            for (size_t k = 0; k < j; k++) {
                assert_string_not_equal(row->name, command->options[k].name);
                assert_true(!row->letter || row->letter != command->options[k].letter);
            }
        }
    }
}

/* Every command that works in a session takes it as -s NAME, in the same words. */
static void test_a_session_is_named_in_one_way(void **state)
{
    static const struct command *const of_sessions[] = {
        &session_command, &code_command,   &context_command, &install_command, &shell_command,
        &cp_command,      &ls_command,     &cat_command,     &rm_command,      &outputs_command,
        &logs_command,    &events_command, &ps_command,      &exec_command,    &tool_command,
        &mcp_command,     &audit_command,  &ask_command,     &port_command,
    };

    (void)state;
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = command_table[i];
        bool is_expected = false;

        for (size_t at = 0; at < ARRAY_SIZE(of_sessions); at++)
            is_expected |= of_sessions[at] == command;
        for (size_t at = 0; at < command->option_count; at++) {
            const struct option_row *row = &command->options[at];

            if (!str_equal(row->name, "session") && row->letter != 's')
                continue;
            if (!is_expected || !str_equal(row->name, "session") || row->letter != 's' ||
                !str_equal(row->argument, "NAME"))
                fail_msg("%s: -%c, --%s", command->name, row->letter, row->name);
            is_expected = false;
        }
        if (is_expected)
            fail_msg("'%s' has no -s NAME", command->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_spellings),
        cmocka_unit_test(test_values_may_look_like_options),
        cmocka_unit_test(test_letters),
        cmocka_unit_test(test_a_cluster_of_switches_stays_in_its_bounds),
        cmocka_unit_test(test_options_may_follow_the_file),
        cmocka_unit_test(test_a_single_dash_is_an_operand),
        cmocka_unit_test(test_exec_stops_at_the_program),
        cmocka_unit_test(test_two_dashes_before_plain_operands),
        cmocka_unit_test(test_help_is_seen_everywhere),
        cmocka_unit_test(test_what_is_wrong_is_named),
        cmocka_unit_test(test_an_unknown_command_is_told_the_nearest),
        cmocka_unit_test(test_options_reach_request_and_config),
        cmocka_unit_test(test_bad_values_name_option_and_value),
        cmocka_unit_test(test_what_needs_the_daemon_is_handed_over),
        cmocka_unit_test(test_options_of_the_daemons_clients),
        cmocka_unit_test(test_rows_are_sound),
        cmocka_unit_test(test_a_session_is_named_in_one_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
