/* test_prompt.c - the system prompt: names every tool it teaches, and the limits in force. */
#include <string.h>

#include "unit.h"

#include "base/cleanup.h"
#include "base/limits.h"
#include "tool/prompt.h"
#include "tool/tool.h"

static void expect(const struct buf *text, const char *part)
{
    if (!strstr(buf_text(text), part))
        fail_msg("'%s' is not in the prompt", part);
}

static void test_limits_are_those_in_force(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(PROMPT_MAX);
    struct config config = {
        .limits = {.memory_bytes = 3 * GIB,
                   .disk_bytes = 77 * MIB,
                   .output_bytes = 20 * KIB,
                   .pids = 123,
                   .cpu_millis = 1500},
        .session_idle_ms = 7 * 60000,
        .session_age_ms = 5 * 3600000ULL,
    };

    (void)state;
    assert_int_equal(prompt_write(&(struct prompt_spec){.config = &config}, &text), 0);
    expect(&text, "Memory: 3g. Disk: 77m. Processes and threads: 123. CPU cores: 1.5.");
    expect(&text, "20k of stdout");
    expect(&text, "7 minutes, or after 5 hours");
    expect(&text, "60 s, at most 300");
}

static void test_teaches_the_tools(void **state)
{
    static const char *const parts[] = {
        "sandbox_exec",
        "sandbox_write_file",
        "sandbox_edit_file",
        "/tmp/data/",
        "/tmp/output/",
        "import polars",
        "KMeans",
        "savefig",
        "not unique",
        "No files came back",
    };
    CLEANUP(buf_free) struct buf text = BUF_INIT(PROMPT_MAX);
    struct config config = {0};

    (void)state;
    assert_int_equal(
        prompt_write(&(struct prompt_spec){.config = &config, .has_data = true}, &text), 0);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        expect(&text, parts[i]);
    assert_null(strstr(buf_text(&text), "CPU cores"));
}

/* Only tools that exist are named, and only packages that the template has are used. */
static void test_follows_the_template_and_the_tools(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(PROMPT_MAX);
    CLEANUP(buf_free) struct buf mcp = BUF_INIT(PROMPT_MAX);
    struct config config = {.type = "local"};

    (void)state;
    assert_int_equal(prompt_write(&(struct prompt_spec){.config = &config}, &text), 0);
    assert_null(strstr(buf_text(&text), "import polars"));
    assert_null(strstr(buf_text(&text), "sklearn"));
    assert_null(strstr(buf_text(&text), "complete"));
    expect(&text, "import csv");
    for (size_t i = 0; i < tool_count; i++)
        expect(&text, tool_table[i].name);
    expect(&text, "session_id");
    assert_int_equal(prompt_write(&(struct prompt_spec){.config = &config, .is_mcp = true}, &mcp),
                     0);
    assert_null(strstr(buf_text(&mcp), "session_id"));
    assert_null(strstr(buf_text(&mcp), "\"hint\""));
}

/* A runtime that cannot install packages: the tool for it is not taught. */
static void test_follows_the_runtime(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(PROMPT_MAX);
    struct config config = {.type = "docker"};

    (void)state;
    assert_int_equal(prompt_write(&(struct prompt_spec){.config = &config}, &text), 0);
    assert_null(strstr(buf_text(&text), "sandbox_install"));
    expect(&text, "nothing can be downloaded or installed");
}

static void test_a_ceiling_is_an_error(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(100);
    struct config config = {0};

    (void)state;
    assert_true(prompt_write(&(struct prompt_spec){.config = &config}, &text) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits_are_those_in_force),
        cmocka_unit_test(test_teaches_the_tools),
        cmocka_unit_test(test_follows_the_template_and_the_tools),
        cmocka_unit_test(test_follows_the_runtime),
        cmocka_unit_test(test_a_ceiling_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
