/*
 * fixtures.c - tools, prompts and resources of the conformance suite, as rows of JSON; see
 * fixtures.h.
 */
#include "api/mcp/fixtures.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

#define PNG                                                                                   \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5" \
    "ErkJggg=="
#define WAV "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
#define IMAGE "{\"type\":\"image\",\"data\":\"" PNG "\",\"mimeType\":\"image/png\"}"
#define RESOURCE(uri, text)                                                                 \
    "{\"type\":\"resource\",\"resource\":{\"uri\":\"" uri "\",\"mimeType\":\"text/plain\"," \
    "\"text\":\"" text "\"}}"
#define TEXT(text) "{\"type\":\"text\",\"text\":\"" text "\"}"
#define CONTENT(blocks) "{\"content\":[" blocks "]}"
#define MESSAGE(block) "{\"role\":\"user\",\"content\":" block "}"

#define NO_ARGUMENTS "{\"type\":\"object\",\"properties\":{}}"
#define ONE_STRING(name)                                                                          \
    "{\"type\":\"object\",\"properties\":{\"" name "\":{\"type\":\"string\",\"description\":\"a " \
    "text\"}},\"required\":[\"" name "\"]}"

/* JSON Schema 2020-12, with keywords that servers tend to drop. */
#define WHOLE_SCHEMA                                                                               \
    "{\"$schema\":\"https://json-schema.org/draft/2020-12/"                                        \
    "schema\",\"type\":\"object\",\"$defs\":{"                                                     \
    "\"address\":{\"$anchor\":\"addressDef\",\"type\":\"object\",\"properties\":{\"street\":{"     \
    "\"type\":\"string\"},\"city\":{\"type\":\"string\"}}}},\"properties\":{\"name\":{\"type\":"   \
    "\"string\"},\"address\":{\"$ref\":\"#/$defs/address\"},\"contactMethod\":{\"type\":"          \
    "\"string\",\"enum\":[\"phone\",\"email\"]},\"phone\":{\"type\":\"string\"},\"email\":{"       \
    "\"type\":\"string\"}},\"allOf\":[{\"anyOf\":[{\"required\":[\"phone\"]},{\"required\":["      \
    "\"email\"]}]}],\"if\":{\"properties\":{\"contactMethod\":{\"const\":\"phone\"}},"             \
    "\"required\":["                                                                               \
    "\"contactMethod\"]},\"then\":{\"required\":[\"phone\"]},\"else\":{\"required\":[\"email\"]}," \
    "\"additionalProperties\":false}"

static const struct tool_fixture {
    const char *name;
    const char *schema;
    const char *result; /* NULL: produced by code */
} tools[] = {
    {"test_simple_text", NO_ARGUMENTS, CONTENT(TEXT("This is a simple text response."))},
    {"test_image_content", NO_ARGUMENTS, CONTENT(IMAGE)},
    {"test_audio_content", NO_ARGUMENTS,
     CONTENT("{\"type\":\"audio\",\"data\":\"" WAV "\",\"mimeType\":\"audio/wav\"}")},
    {"test_embedded_resource", NO_ARGUMENTS,
     CONTENT(RESOURCE("test://embedded-resource", "This is an embedded resource content."))},
    {"test_multiple_content_types", NO_ARGUMENTS,
     CONTENT(TEXT("Multiple content types test:") "," IMAGE "," RESOURCE(
         "test://mixed-content-resource", "mixed"))},
    {"test_error_handling", NO_ARGUMENTS,
     "{\"isError\":true,\"content\":[" TEXT("This tool intentionally returns an error") "]}"},
    {"test_tool_with_progress", NO_ARGUMENTS, NULL},
    {"test_tool_with_logging", NO_ARGUMENTS, NULL},
    {"test_logging_tool", NO_ARGUMENTS, NULL},
    {"test_sampling", ONE_STRING("prompt"), NULL},
    {"test_elicitation", ONE_STRING("message"), NULL},
    {"test_elicitation_sep1034_defaults", NO_ARGUMENTS, NULL},
    {"test_elicitation_sep1330_enums", NO_ARGUMENTS, NULL},
    {"test_missing_capability", NO_ARGUMENTS, NULL},
    {"json_schema_2020_12_tool", WHOLE_SCHEMA, CONTENT(TEXT("ok"))},
    {"test_streaming_elicitation", NO_ARGUMENTS, CONTENT(TEXT("Nothing was asked."))},
    {"test_input_required_result_elicitation", NO_ARGUMENTS, NULL},
    {"test_input_required_result_sampling", NO_ARGUMENTS, NULL},
    {"test_input_required_result_list_roots", NO_ARGUMENTS, NULL},
    {"test_input_required_result_request_state", NO_ARGUMENTS, NULL},
    {"test_input_required_result_multiple_inputs", NO_ARGUMENTS, NULL},
    {"test_input_required_result_multi_round", NO_ARGUMENTS, NULL},
    {"test_input_required_result_tampered_state", NO_ARGUMENTS, NULL},
    {"test_input_required_result_capabilities", NO_ARGUMENTS, NULL},
};

static const struct {
    const char *name;
    const char *arguments; /* JSON, or NULL */
} prompts[] = {
    {"test_simple_prompt", NULL},
    {"test_prompt_with_arguments",
     "[{\"name\":\"arg1\",\"description\":\"first\",\"required\":true},{\"name\":\"arg2\","
     "\"description\":\"second\",\"required\":true}]"},
    {"test_prompt_with_embedded_resource",
     "[{\"name\":\"resourceUri\",\"description\":\"of the resource\",\"required\":true}]"},
    {"test_prompt_with_image", NULL},
    {"test_input_required_result_prompt", NULL},
};

static const struct {
    const char *uri;
    const char *mime;
    const char *member; /* "text" or "blob" */
    const char *value;
} resources[] = {
    {"test://static-text", "text/plain", "text",
     "This is the content of the static text resource."},
    {"test://static-binary", "image/png", "blob", PNG},
    {"test://watched-resource", "text/plain", "text", "Watched resource content"},
};

/* ---- lists ---- */

static json_t *prompt_json(size_t i)
{
    json_t *arguments =
        prompts[i].arguments ? json_loads(prompts[i].arguments, 0, NULL) : json_array();

    return json_pack("{s:s,s:s,s:o}", "name", prompts[i].name, "description",
                     "a prompt of the conformance suite", "arguments", arguments);
}

void mcp_fixtures_list(const char *what, json_t *list)
{
    if (str_equal(what, "tools"))
        for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
            json_array_append_new(list,
                                  json_pack("{s:s,s:s,s:o}", "name", tools[i].name, "description",
                                            "a tool of the conformance suite", "inputSchema",
                                            json_loads(tools[i].schema, 0, NULL)));
    if (str_equal(what, "prompts"))
        for (size_t i = 0; i < ARRAY_SIZE(prompts); i++)
            json_array_append_new(list, prompt_json(i));
    if (str_equal(what, "resources"))
        for (size_t i = 0; i < ARRAY_SIZE(resources); i++)
            json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s}", "uri", resources[i].uri,
                                                  "name", resources[i].uri + strlen("test://"),
                                                  "mimeType", resources[i].mime, "description",
                                                  "of the conformance suite"));
    if (str_equal(what, "resourceTemplates"))
        json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:s}", "uriTemplate",
                                              "test://template/{id}/data", "name", "template",
                                              "description", "of the conformance suite", "mimeType",
                                              "application/json"));
}

void mcp_fixtures_capabilities(json_t *capabilities)
{
    json_object_set_new(json_object_get(capabilities, "resources"), "subscribe", json_true());
}

/* ---- tools ---- */

json_t *mcp_fixture_text(const char *text)
{
    return json_pack("{s:[{s:s,s:s}]}", "content", "type", "text", "text", text);
}

static void tell_progress(struct mcp_request *request)
{
    json_t *token = json_object_get(json_object_get(request->params, "_meta"), "progressToken");

    for (int progress = 0; token && progress <= 100; progress += 50)
        mcp_send_notice(request->peer, "notifications/progress",
                        json_pack("{s:O,s:i,s:i,s:s}", "progressToken", token, "progress", progress,
                                  "total", 100, "message", "going on"));
}

static void tell_log(struct mcp_request *request, int count)
{
    for (int i = 0; i < count; i++)
        mcp_send_notice(request->peer, "notifications/message",
                        json_pack("{s:s,s:s,s:s}", "level", "info", "logger", "fixture", "data",
                                  i == 0   ? "Tool execution started"
                                  : i == 1 ? "Tool processing data"
                                           : "Tool execution completed"));
}

static void need_sampling(struct mcp_request *request)
{
    json_t *meta = json_object_get(request->params, "_meta");

    if (json_object_get(json_object_get(meta, MCP_META_CAPABILITIES), "sampling"))
        mcp_send_result(request->peer, &request->origin, mcp_fixture_text("It has sampling."));
    else
        mcp_send_error(request->peer, &request->origin, MCP_NO_CAPABILITY,
                       json_pack("{s:{s:{}}}", "requiredCapabilities", "sampling"),
                       "this needs the client's capability 'sampling'");
}

static bool call_tool(struct mcp_request *request)
{
    const char *name = mcp_text(request->params, "name");
    json_t *meta = json_object_get(request->params, "_meta");
    const struct tool_fixture *row = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(tools); i++)
        if (str_equal(tools[i].name, name))
            row = &tools[i];
    if (!row)
        return false;
    if (row->result) {
        mcp_send_result(request->peer, &request->origin, json_loads(row->result, 0, NULL));
        return true;
    }
    if (str_equal(name, "test_missing_capability")) {
        need_sampling(request);
        return true;
    }
    if (mcp_fixtures_input(request, name))
        return true;
    if (str_equal(name, "test_tool_with_progress"))
        tell_progress(request);
    if (str_equal(name, "test_tool_with_logging") && !request->origin.is_modern)
        tell_log(request, 3);
    if (str_equal(name, "test_logging_tool") &&
        json_object_get(meta, "io.modelcontextprotocol/logLevel"))
        tell_log(request, 1);
    mcp_send_result(request->peer, &request->origin, mcp_fixture_text("It was done."));
    return true;
}

/* ---- prompts and resources ---- */

static json_t *prompt_messages(const char *name, json_t *arguments)
{
    if (str_equal(name, "test_simple_prompt"))
        return json_loads("[" MESSAGE(TEXT("This is a simple prompt for testing.")) "]", 0, NULL);
    if (str_equal(name, "test_prompt_with_image"))
        return json_loads(
            "[" MESSAGE(IMAGE) "," MESSAGE(TEXT("Please analyze the image above.")) "]", 0, NULL);
    if (str_equal(name, "test_prompt_with_arguments"))
        return json_pack("[{s:s,s:{s:s,s:o}}]", "role", "user", "content", "type", "text", "text",
                         json_sprintf("Prompt with arguments: arg1='%s', arg2='%s'",
                                      json_string_value(json_object_get(arguments, "arg1")),
                                      json_string_value(json_object_get(arguments, "arg2"))));
    if (str_equal(name, "test_prompt_with_embedded_resource"))
        return json_pack("[{s:s,s:{s:s,s:{s:s?,s:s,s:s}}}]", "role", "user", "content", "type",
                         "resource", "resource", "uri",
                         json_string_value(json_object_get(arguments, "resourceUri")), "mimeType",
                         "text/plain", "text", "Embedded resource content for testing.");
    return NULL;
}

static bool get_prompt(struct mcp_request *request)
{
    const char *name = mcp_text(request->params, "name");
    json_t *messages = prompt_messages(name, json_object_get(request->params, "arguments"));

    if (!messages)
        return str_equal(name, "test_input_required_result_prompt") &&
               mcp_fixtures_input(request, name);
    mcp_send_result(request->peer, &request->origin, json_pack("{s:o}", "messages", messages));
    return true;
}

static bool read_resource(struct mcp_request *request)
{
    static const char head[] = "test://template/", tail[] = "/data";
    const char *uri = mcp_text(request->params, "uri");
    json_t *contents = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(resources); i++)
        if (str_equal(resources[i].uri, uri))
            contents = json_pack("{s:s,s:s,s:s}", "uri", uri, "mimeType", resources[i].mime,
                                 resources[i].member, resources[i].value);
    if (!contents && uri && str_starts(uri, head) && str_ends(uri, tail) &&
        strlen(uri) > strlen(head) + strlen(tail))
        contents = json_pack("{s:s,s:s,s:o}", "uri", uri, "mimeType", "application/json", "text",
                             json_sprintf("{\"id\":\"%.*s\",\"templateTest\":true}",
                                          (int)(strlen(uri) - strlen(head) - strlen(tail)),
                                          uri + strlen(head)));
    if (!contents)
        return false;
    mcp_send_cached(request->peer, &request->origin, json_pack("{s:[o]}", "contents", contents), 0);
    return true;
}

bool mcp_fixtures_handle(struct mcp_request *request)
{
    if (str_equal(request->method, "tools/call"))
        return call_tool(request);
    if (str_equal(request->method, "prompts/get"))
        return get_prompt(request);
    if (str_equal(request->method, "resources/read"))
        return read_resource(request);
    if (!request->origin.is_modern && (str_equal(request->method, "resources/subscribe") ||
                                       str_equal(request->method, "resources/unsubscribe"))) {
        mcp_send_result(request->peer, &request->origin, json_object());
        return true;
    }
    return false;
}
