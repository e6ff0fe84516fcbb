/*
 * test_mcp_content.c - what a model gets to read: replies of every kind as content blocks, pictures
 * and links, and the tools of the real table as this door shows them.
 */
#include "api/mcp_host.h"
#include "api/mcp_reply.h"

/* Calls sandbox_exec and answers with `reply`; pictures are left to the caller. */
static void call_and_reply(const char *reply)
{
    call_with("1", "\"name\":\"sandbox_exec\"");
    answer_with(host.works[(host.work_count - 1) % ARRAY_SIZE(host.works)], "s_1", reply);
}

static void output_is_readable(void **state)
{
    json_t *result;

    (void)state;
    call_and_reply("{\"exit_code\":3,\"stdout\":\"out\\n\",\"stderr\":\"bad\\n\","
                   "\"stdout_truncated\":true,\"stdout_bytes\":99999,\"execution_time\":0.0124,"
                   "\"output_files\":[],\"total_output_files\":0,\"hint\":\"Fix it.\"}");
    result = at(heard(), "result");
    assert_string_equal(text_at(result, "content|0|text"),
                        "[exit code 3, 12 ms, stdout was cut (99999 bytes in all)]\n"
                        "out\n... (output truncated)\n[stderr]\nbad\n");
    assert_true(json_is_false(at(result, "isError")));
    assert_int_equal(json_array_size(at(result, "content")), 1);
    assert_null(at(result, "structuredContent"));
}

static void endings_are_named(void **state)
{
    static const struct {
        const char *reply, *has;
        bool is_error;
    } rows[] = {
        {"{\"exit_code\":-1,\"stdout\":\"part\",\"stderr\":\"\",\"timed_out\":true}",
         "[timed out, 0 ms]\npart", true},
        {"{\"exit_code\":137,\"stdout\":\"\",\"stderr\":\"\",\"meta\":{\"signal\":9}}",
         "[signal 9, exit code 137, 0 ms]", false},
        {"{\"exit_code\":137,\"stdout\":\"\",\"stderr\":\"\",\"meta\":{\"oom_killed\":true}}",
         "[out of memory, killed, 0 ms]\n[stderr]\nout of memory: the box has", false},
        {"{\"running\":true,\"stdout\":\"so far\",\"execution_id\":\"s_1.4\"}",
         "[still running, execution_id 4]\nso far", false},
        {"{\"exit_code\":1,\"stdout\":\"\",\"stderr\":\"\",\"meta\":{\"error\":{\"code\":"
         "\"box_failed\",\"message\":\"mount proc: EPERM\"}}}",
         "mount proc: EPERM", true},
        {"{\"success\":false,\"error\":\"Invalid path\",\"hint\":\"Use /tmp.\"}",
         "Error: Invalid path\n[hint] Use /tmp.", true},
        {"{\"success\":true,\"file_path\":\"/tmp/a\",\"bytes_written\":3,\"hint\":\"Run it.\"}",
         "3 bytes written to /tmp/a\n", false},
        {"{\"error\":{\"code\":\"bad_input\",\"message\":\"not a number\",\"field\":\"timeout\"}}",
         "Error: not a number\nfield: timeout\n", true},
        {"{\"execution_id\":\"s_1.7\",\"hint\":\"Wait.\"}", "execution_id: 7\n[hint] Wait.", false},
        {"{\"success\":false,\"output\":\"Error: NameError (exit code 1)\",\"exit_code\":1,"
         "\"timed_out\":false,\"execution_time\":0.02,\"hint\":\"Correct it.\"}",
         "[exit code 1, 20 ms]\nError: NameError (exit code 1)", false},
        {"{\"success\":false,\"exit_code\":1,\"stdout\":\"\",\"stderr\":\"\",\"error\":\"no "
         "program "
         "x\",\"code\":\"command_not_found\"}",
         "[stderr]\nno program x\n", true},
        {"{\"exit_code\":0,\"stdout\":\"\",\"session_note\":\"a new one\",\"state\":\"kept\"}",
         "[note] a new one", false},
        {"{\"exit_code\":0,\"stdout\":\"cut\",\"stdout_truncated\":true,"
         "\"stdout_bytes\":99,\"execution_id\":\"s_1.7\",\"session_id\":\"s_1\"}",
         "cut\n... (output truncated)\n[more] stdout has 99 bytes: sandbox_wait "
         "{\"execution_id\": \"7\", \"offset\": 3} shows more",
         false},
        {"plain words", "plain words", false},
        {"\"a string\"", "a string", false},
        {"{\"exit_code\":0,\"stdout\":\"a\\u0000b\",\"stderr\":\"\"}", "ab", false},
        {"caf\xff", "caf\xef\xbf\xbd", false},
        {"", "", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        json_t *result;

        call_and_reply(rows[i].reply);
        result = at(heard(), "result");
        assert_non_null(strstr(text_at(result, "content|0|text"), rows[i].has));
        assert_int_equal(json_is_true(at(result, "isError")), rows[i].is_error);
    }
}

static void pictures_come_back(void **state)
{
    json_t *result;

    (void)state;
    call_and_reply("{\"exit_code\":0,\"stdout\":\"\",\"stderr\":\"\",\"output_files\":["
                   "{\"name\":\"a.csv\",\"bytes\":3,\"mime\":\"text/csv\",\"skipped\":null},"
                   "{\"name\":\"p.png\",\"bytes\":4,\"mime\":\"image/png\",\"skipped\":null},"
                   "{\"name\":\"q.svg\",\"bytes\":9,\"mime\":\"image/svg+xml\"},"
                   "{\"name\":\"big.jpg\",\"bytes\":900000,\"mime\":\"image/jpeg\"},"
                   "{\"name\":\"gone.png\",\"bytes\":5,\"mime\":\"image/png\"},"
                   "{\"name\":\"l\",\"skipped\":\"symlink\"}]}");
    assert_string_equal(host.path, "/tmp/output/p.png");
    assert_string_equal(host.session, "s_1");
    assert_true(host.maximum <= 700 * 1000);
    mcp_work_read(host.works[1], MCP_READ_FILE, "\x89PNG", 4);
    assert_string_equal(host.path, "/tmp/output/gone.png");
    mcp_work_read(host.works[2], MCP_READ_MISSING, NULL, 0);
    assert_int_equal(host.reads, 2);
    result = at(heard(), "result|content");
    assert_int_equal(json_array_size(result), 1 + 1 + 5);
    assert_string_equal(text_at(result, "1|type"), "image");
    assert_string_equal(text_at(result, "1|data"), "iVBORw==");
    assert_string_equal(text_at(result, "1|mimeType"), "image/png");
    assert_string_equal(text_at(result, "2|type"), "resource_link");
    assert_string_equal(text_at(result, "2|uri"), "sandbox://s_1/tmp/output/a.csv");
    assert_string_equal(text_at(result, "2|name"), "a.csv");
    assert_int_equal(number_at(result, "2|size"), 3);
    assert_string_equal(text_at(result, "4|mimeType"), "image/svg+xml");
}

static void pictures_are_bounded(void **state)
{
    CLEANUP(buf_free) struct buf reply = BUF_INIT(MIB);
    static char data[200 * 1000];
    json_t *content, *block;
    size_t index, pictures = 0, size = 0;

    (void)state;
    memset(data, 7, sizeof(data));
    buf_append_text(&reply, "{\"exit_code\":0,\"stdout\":\"\",\"output_files\":[");
    for (int i = 0; i < 20; i++)
        buf_printf(&reply, "%s{\"name\":\"%d.png\"}", i ? "," : "", i);
    buf_append_text(&reply, "]}");
    call_and_reply(buf_text(&reply));
    while (json_array_size(host.sent) == 0)
        mcp_work_read(host.works[(host.work_count - 1) % 8], MCP_READ_FILE, data, sizeof(data));
    content = at(heard(), "result|content");
    json_array_foreach(content, index, block)
    {
        if (str_equal(text_at(block, "type"), "image")) {
            pictures++;
            size += json_string_length(at(block, "data"));
        }
    }
    assert_int_equal(pictures, 2);
    assert_true(size <= LIMIT_MCP_PICTURE_TEXT);
    assert_int_equal(json_array_size(content), 1 + 2 + 20);
}

static void at_most_four_pictures(void **state)
{
    (void)state;
    call_and_reply("{\"exit_code\":0,\"stdout\":\"\",\"output_files\":[\"1.png\",\"2.png\","
                   "\"3.png\",\"4.png\",\"5.png\"]}");
    while (json_array_size(host.sent) == 0)
        mcp_work_read(host.works[(host.work_count - 1) % 8], MCP_READ_FILE, "x", 1);
    assert_int_equal(host.reads, 4);
    assert_int_equal(json_array_size(at(heard(), "result|content")), 1 + 4 + 5);
}

/* Revisions before 2025-06-18 know no links: the same is said in the text. */
static void old_revisions_get_words(void **state)
{
    json_t *result;

    (void)state;
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
        "\"2024-11-05\"}}");
    heard();
    call_and_reply("{\"exit_code\":0,\"stdout\":\"\",\"output_files\":[\"a b.csv\"]}");
    result = at(heard(), "result|content");
    assert_int_equal(json_array_size(result), 1);
    assert_non_null(strstr(text_at(result, "0|text"), "sandbox://s_1/tmp/output/a%20b.csv"));
}

static void structured_content_repeats_the_text(void **state)
{
    json_t *result;

    (void)state;
    end(NULL);
    begin_with(true);
    call_and_reply("{\"exit_code\":0,\"stdout\":\"hi\",\"stderr\":\"\"}");
    result = at(heard(), "result");
    assert_string_equal(text_at(result, "structuredContent|text"),
                        text_at(result, "content|0|text"));
    assert_string_equal(text_at(result, "structuredContent|stdout"), "hi");
    assert_string_equal(text_at(result, "structuredContent|session"), "s_1");
}

static void a_cancelled_call_wants_no_picture(void **state)
{
    (void)state;
    call_and_reply("{\"exit_code\":0,\"stdout\":\"\",\"output_files\":[\"1.png\"]}");
    say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
        "cancelled\",\"params\":{\"requestId\":1}}");
    assert_int_equal(host.cancelled, 1);
    assert_int_equal(json_array_size(host.sent), 0);
}

/* What models' doors refuse: one bad schema loses the whole list. */
static void check_property(const char *tool, const char *name, json_t *property)
{
    static const char *const refused[] = {"$ref", "anyOf", "oneOf", "allOf", "contentMediaType"};

    if (!json_is_string(json_object_get(property, "type")))
        fail_msg("%s.%s has no plain type", tool, name);
    if (!json_is_string(json_object_get(property, "description")))
        fail_msg("%s.%s has no description", tool, name);
    if (str_equal(text_at(property, "type"), "array") &&
        !json_is_object(json_object_get(property, "items")))
        fail_msg("%s.%s is an array without items", tool, name);
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
        if (json_object_get(property, refused[i]))
            fail_msg("%s.%s has %s", tool, name, refused[i]);
}

static void the_real_tools_are_portable(void **state)
{
    json_t *list, *tool, *property;
    const char *name;
    size_t index;

    (void)state;
    end(NULL);
    host = (struct host){.sent = json_array()};
    assert_int_equal(mcp_server_new(&(struct mcp_settings){.tools = tool_table,
                                                           .tool_count = tool_count,
                                                           .can_install = true},
                                    &server, NULL),
                     0);
    assert_int_equal(mcp_peer_new(server, &ops, NULL, &peer, NULL), 0);
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
    list = at(heard(), "result|tools");
    assert_int_equal(json_array_size(list), tool_count);
    json_array_foreach(list, index, tool)
    {
        assert_string_equal(text_at(tool, "inputSchema|type"), "object");
        assert_true(strlen(text_at(tool, "name")) <= 40);
        assert_true(strlen(text_at(tool, "description")) < 2048);
        json_object_foreach(at(tool, "inputSchema|properties"), name, property)
        {
            check_property(text_at(tool, "name"), name, property);
        }
    }
}

/* Of tools that install packages only where that can be. */
static void a_tool_that_is_not_offered_is_not_listed(void **state)
{
    json_t *list, *tool;
    size_t index;

    (void)state;
    end(NULL);
    host = (struct host){.sent = json_array()};
    assert_int_equal(
        mcp_server_new(&(struct mcp_settings){.tools = tool_table, .tool_count = tool_count},
                       &server, NULL),
        0);
    assert_int_equal(mcp_peer_new(server, &ops, NULL, &peer, NULL), 0);
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
    list = at(heard(), "result|tools");
    assert_int_equal(json_array_size(list), tool_count - 1);
    json_array_foreach(list, index, tool)
        assert_string_not_equal(text_at(tool, "name"), "sandbox_install");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(output_is_readable),
        TEST(endings_are_named),
        TEST(pictures_come_back),
        TEST(pictures_are_bounded),
        TEST(at_most_four_pictures),
        TEST(old_revisions_get_words),
        TEST(structured_content_repeats_the_text),
        TEST(a_cancelled_call_wants_no_picture),
        TEST(the_real_tools_are_portable),
        TEST(a_tool_that_is_not_offered_is_not_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
