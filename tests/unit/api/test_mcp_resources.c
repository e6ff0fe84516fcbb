/* test_mcp_resources.c - resources, the prompt and completion, with a fake host. */
#include "api/mcp_host.h"

static void read_uri(const char *uri, bool is_modern)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);

    buf_printf(&text,
               "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\",\"params\":{\"uri\":"
               "\"%s\"%s}}",
               uri, is_modern ? "," MODERN "}" : "");
    say(buf_text(&text));
}

static void uris_name_files(void **state)
{
    static const char *const rows[][3] = {
        {"sandbox://s_1/plot.png", "s_1", "/tmp/output/plot.png"},
        {"sandbox://s_1/tmp/output/plot.png", "s_1", "/tmp/output/plot.png"},
        {"sandbox://s_1//tmp/a%20b%25.txt", "s_1", "/tmp/a b%.txt"},
        {"sandbox://my-name/workspace", "my-name", "/workspace"},
        {"sandbox://s_1/sub/x..y", "s_1", "/tmp/output/sub/x..y"},
        {"sandbox://s_1/.log/3/stdout", "s_1", "/.log/3/stdout"},
        {"sandbox://s_1/tmpfile", "s_1", "/tmp/output/tmpfile"},
        {"sandbox://s_1/%252e%252e", "s_1", "/tmp/output/%2e%2e"},
        {"sandbox://s_1", "s_1", "/tmp/output/"},
    };
    static const char *const refused[] = {
        "sandbox://s_1/../x",
        "sandbox://s_1/tmp/%2e%2e/etc",
        "sandbox://s_1/a%00b",
        "sandbox://s_1/a%0",
        "sandbox:///tmp/x",
        "sandbox://a%2fb/x",
        "file:///etc/passwd",
        "sandbox://s_1/..",
        "",
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        read_uri(rows[i][0], false);
        assert_string_equal(host.session, rows[i][1]);
        assert_string_equal(host.path, rows[i][2]);
        assert_int_equal(host.maximum, LIMIT_MCP_RESOURCE);
    }
    assert_int_equal(json_array_size(host.sent), 0);
    for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
        read_uri(refused[i], i % 2);
        assert_int_equal(number_at(heard(), "error|code"), i % 2 ? -32602 : -32002);
    }
    assert_int_equal(host.reads, ARRAY_SIZE(rows));
}

static void reading_gives_text_bytes_or_a_listing(void **state)
{
    static const char listing[] = "a\t3\nd/\n";
    json_t *answer;

    (void)state;
    read_uri("sandbox://s/x.csv", true);
    mcp_work_read(host.works[0], MCP_READ_FILE, "a,b\n", 4);
    answer = at(heard(), "result");
    assert_string_equal(text_at(answer, "contents|0|text"), "a,b\n");
    assert_string_equal(text_at(answer, "contents|0|mimeType"), "text/csv");
    assert_string_equal(text_at(answer, "contents|0|uri"), "sandbox://s/x.csv");
    assert_string_equal(text_at(answer, "cacheScope"), "private");
    assert_int_equal(number_at(answer, "ttlMs"), 0);
    read_uri("sandbox://s/x.png", false);
    mcp_work_read(host.works[1], MCP_READ_FILE, "\x89PNG", 4);
    answer = at(heard(), "result");
    assert_string_equal(text_at(answer, "contents|0|blob"), "iVBORw==");
    assert_string_equal(text_at(answer, "contents|0|mimeType"), "image/png");
    read_uri("sandbox://s/empty", false);
    mcp_work_read(host.works[2], MCP_READ_FILE, NULL, 0);
    assert_string_equal(text_at(heard(), "result|contents|0|text"), "");
    read_uri("sandbox://s/tmp", false);
    mcp_work_read(host.works[3], MCP_READ_FOLDER, listing, strlen(listing));
    answer = at(heard(), "result");
    assert_string_equal(text_at(answer, "contents|0|mimeType"), "inode/directory");
    assert_string_equal(text_at(answer, "contents|0|text"), "a\t3\nd/\n");
    read_uri("sandbox://s/huge", true);
    mcp_work_read(host.works[4], MCP_READ_TOO_LARGE, NULL, 0);
    assert_int_equal(number_at(heard(), "error|code"), -32603);
}

static void a_missing_resource_is_an_error(void **state)
{
    json_t *answer;

    (void)state;
    read_uri("sandbox://s/gone", true);
    mcp_work_read(host.works[0], MCP_READ_MISSING, NULL, 0);
    answer = heard();
    assert_int_equal(number_at(answer, "error|code"), -32602);
    assert_string_equal(text_at(answer, "error|data|uri"), "sandbox://s/gone");
    read_uri("sandbox://s/gone", false);
    mcp_work_read(host.works[1], MCP_READ_MISSING, "s ended", 7);
    answer = heard();
    assert_int_equal(number_at(answer, "error|code"), -32002);
    assert_non_null(strstr(text_at(answer, "error|message"), "s ended"));
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/read\"}");
    assert_int_equal(number_at(heard(), "error|code"), -32602);
}

static void outputs_are_listed(void **state)
{
    CLEANUP(json_decrefp)
    json_t *outputs =
        json_loads("[{\"name\":\"a b.png\",\"bytes\":12,\"mime\":\"image/png\",\"skipped\":null},"
                   "{\"name\":\"l\",\"skipped\":\"symlink\"},{\"name\":\"m.json\",\"bytes\":2}]",
                   0, NULL);
    json_t *answer;

    (void)state;
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\",\"params\":{" MODERN "}}}");
    mcp_work_listed(host.works[0], "s_1", outputs);
    answer = at(heard(), "result");
    assert_int_equal(json_array_size(at(answer, "resources")), 2);
    assert_string_equal(text_at(answer, "resources|0|uri"), "sandbox://s_1/tmp/output/a%20b.png");
    assert_int_equal(number_at(answer, "resources|0|size"), 12);
    assert_string_equal(text_at(answer, "resources|1|mimeType"), "application/json");
    assert_string_equal(text_at(answer, "cacheScope"), "private");
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/list\"}");
    mcp_work_listed(host.works[1], NULL, NULL);
    assert_int_equal(json_array_size(at(heard(), "result|resources")), 0);
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"resources/templates/list\"}");
    assert_string_equal(text_at(heard(), "result|resourceTemplates|0|uriTemplate"),
                        "sandbox://{session}/{+path}");
}

static void the_prompt_teaches(void **state)
{
    (void)state;
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/list\"}");
    assert_string_equal(text_at(heard(), "result|prompts|0|name"), "sandbox");
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/get\",\"params\":{\"name\":\"sandbox\"}"
        "}");
    assert_string_equal(text_at(heard(), "result|messages|0|content|text"),
                        "Write, run, read, edit.");
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/get\",\"params\":{\"name\":\"x\"}}");
    assert_int_equal(number_at(heard(), "error|code"), -32602);
}

static void sessions_are_completed(void **state)
{
    static const char ask[] =
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"completion/complete\",\"params\":{\"ref\":{"
        "\"type\":\"ref/resource\",\"uri\":\"sandbox://{session}/{+path}\"},\"argument\":{\"name\":"
        "\"session\",\"value\":\"s_\"}}}";

    (void)state;
    say(ask);
    assert_int_equal(json_array_size(at(heard(), "result|completion|values")), 0);
    mcp_peer_session(peer, "s_1");
    say(ask);
    assert_string_equal(text_at(heard(), "result|completion|values|0"), "s_1");
    say("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"completion/complete\",\"params\":{}}");
    assert_int_equal(number_at(heard(), "error|code"), -32602);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(uris_name_files),
        TEST(reading_gives_text_bytes_or_a_listing),
        TEST(a_missing_resource_is_an_error),
        TEST(outputs_are_listed),
        TEST(the_prompt_teaches),
        TEST(sessions_are_completed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
