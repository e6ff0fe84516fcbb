/*
 * fixtures_input.c - fixtures that ask the client something: in the legacy era by a request that is
 * sent on its stream, in the modern era by a result that says what is missing; see fixtures.h.
 */
#include <string.h>

#include "api/mcp/fixtures.h"
#include "base/cleanup.h"
#include "base/hmac.h"
#include "base/str.h"
#include "model/text.h"

#define ELICIT "elicitation/create"
#define SAMPLE "sampling/createMessage"
#define ROOTS "roots/list"

#define NAME_SCHEMA                                                                           \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"description\":\"a " \
    "name\"}},\"required\":[\"name\"]}"
#define DEFAULTS_SCHEMA                                                                           \
    "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"description\":\"name\"" \
    ",\"default\":\"John Doe\"},\"age\":{\"type\":\"integer\",\"description\":\"age\","           \
    "\"default\":30},\"score\":{\"type\":\"number\",\"description\":\"score\",\"default\":95.5}," \
    "\"status\":{\"type\":\"string\",\"description\":\"status\",\"enum\":[\"active\","            \
    "\"inactive\",\"pending\"],\"default\":\"active\"},\"verified\":{\"type\":\"boolean\","       \
    "\"description\":\"verified\",\"default\":true}},\"required\":[]}"
#define TITLED                                                                                 \
    "[{\"const\":\"value1\",\"title\":\"First\"},{\"const\":\"value2\",\"title\":\"Second\"}," \
    "{\"const\":\"value3\",\"title\":\"Third\"}]"
#define ENUMS_SCHEMA                                                                          \
    "{\"type\":\"object\",\"properties\":{\"untitledSingle\":{\"type\":\"string\",\"enum\":[" \
    "\"option1\",\"option2\",\"option3\"]},\"titledSingle\":{\"type\":\"string\","            \
    "\"oneOf\":" TITLED                                                                       \
    "},\"legacyEnum\":{\"type\":\"string\",\"enum\":[\"opt1\",\"opt2\",\"opt3\"],"            \
    "\"enumNames\":[\"Option One\",\"Option Two\",\"Option Three\"]},\"untitledMulti\":{"     \
    "\"type\":\"array\",\"items\":{\"type\":\"string\",\"enum\":[\"option1\",\"option2\","    \
    "\"option3\"]}},\"titledMulti\":{\"type\":\"array\",\"items\":{\"anyOf\":" TITLED "}}},"  \
    "\"required\":[]}"

/* ---- questions ---- */

static json_t *elicit(const char *message, const char *schema)
{
    return json_pack("{s:s,s:s,s:o}", "mode", "form", "message", message, "requestedSchema",
                     json_loads(schema, 0, NULL));
}

static json_t *sample(const char *prompt)
{
    return json_pack("{s:[{s:s,s:{s:s,s:s}}],s:i}", "messages", "role", "user", "content", "type",
                     "text", "text", prompt, "maxTokens", 100);
}

static json_t *question(const char *method)
{
    if (str_equal(method, ELICIT))
        return json_pack("{s:s,s:o}", "method", ELICIT, "params",
                         elicit("What is your name?", NAME_SCHEMA));
    if (str_equal(method, SAMPLE))
        return json_pack("{s:s,s:o}", "method", SAMPLE, "params",
                         sample("What is the capital of France?"));
    return json_pack("{s:s,s:{}}", "method", ROOTS, "params");
}

/* ---- legacy ---- */

/* The question's id is made from the id of the request that asks it. */
static json_t *question_id(json_t *id)
{
    CLEANUP(freep) char *text = json_dumps(id, JSON_COMPACT | JSON_ENCODE_ANY);

    return json_sprintf("ask-%s", text ? text : "");
}

static void ask(struct mcp_request *request, const char *method, json_t *params)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    CLEANUP(json_decrefp)
    json_t *message =
        json_pack("{s:s,s:o,s:s,s:o}", "jsonrpc", "2.0", "id", question_id(request->origin.id),
                  "method", method, "params", params);

    if (mcp_work_new(request, WORK_CALL) && message &&
        text_of_json(message, JSON_COMPACT, &text) == 0)
        request->peer->ops->send(request->peer->ctx, buf_text(&text), text.length, MCP_NOTICE);
}

void mcp_fixtures_answered(struct mcp_peer *peer, json_t *message)
{
    json_t *result = json_object_get(message, "result");
    json_t *content = json_object_get(json_object_get(result, "content"), "text");
    CLEANUP(freep) char *text = json_dumps(result, JSON_COMPACT | JSON_ENCODE_ANY);
    struct mcp_work *work = peer->works;
    CLEANUP(json_decrefp) json_t *id = work ? question_id(work->origin.id) : NULL;
    CLEANUP(json_decrefp) json_t *words = NULL;

    if (!id || !json_equal(id, json_object_get(message, "id")))
        return;
    words =
        json_is_string(content)
            ? json_sprintf("LLM response: %s", json_string_value(content))
            : json_sprintf("User response: action=%s, content=%s",
                           json_string_value(json_object_get(result, "action")), text ? text : "");
    mcp_send_result(peer, &work->origin, mcp_fixture_text(json_string_value(words)));
    mcp_work_free(work);
}

static const char *argument(struct mcp_request *request, const char *name)
{
    const char *text = mcp_text(json_object_get(request->params, "arguments"), name);

    return text ? text : "";
}

static bool ask_legacy(struct mcp_request *request, const char *name)
{
    if (str_equal(name, "test_sampling"))
        ask(request, SAMPLE, sample(argument(request, "prompt")));
    else if (str_equal(name, "test_elicitation"))
        ask(request, ELICIT,
            elicit(argument(request, "message"),
                   "{\"type\":\"object\",\"properties\":{\"response\":{\"type\":\"string\","
                   "\"description\":\"the answer\"}},\"required\":[\"response\"]}"));
    else if (str_equal(name, "test_elicitation_sep1034_defaults"))
        ask(request, ELICIT, elicit("Please review", DEFAULTS_SCHEMA));
    else if (str_equal(name, "test_elicitation_sep1330_enums"))
        ask(request, ELICIT, elicit("Please choose", ENUMS_SCHEMA));
    else
        return false;
    return true;
}

/* ---- modern ---- */

/* "ROUND.HASH": bound to the fixture; the key is not a secret, because nothing depends on it. */
static void state_write(const char *name, int round, char *text, size_t size)
{
    static const char key[] = "conformance fixtures";
    char signed_text[128];
    uint8_t digest[SHA256_BYTES];
    size_t used;

    str_format(signed_text, sizeof(signed_text), "%s %d", name, round);
    hmac_sha256(key, sizeof(key), signed_text, strlen(signed_text), digest);
    str_format(text, size, "%d.", round);
    used = strlen(text);
    for (size_t i = 0; i < 16 && used + 3 <= size; i++, used += 2)
        str_format(text + used, size - used, "%02x", digest[i]);
}

/* The client's round: 0 without a state, -1 for a state that this server did not make. */
static int state_round(struct mcp_request *request, const char *name)
{
    json_t *state = json_object_get(request->params, "requestState");
    char text[80];

    if (!state)
        return 0;
    for (int round = 1; round <= 2; round++) {
        state_write(name, round, text, sizeof(text));
        if (str_equal(mcp_text(request->params, "requestState"), text))
            return round;
    }
    return -1;
}

static const struct input_row {
    const char *name;
    const char *keys[3], *methods[3];
    bool has_state;
    int rounds;
    bool is_careful; /* asks only for capabilities that the client declared */
} rows[] = {
    {"test_input_required_result_elicitation", {"user_name"}, {ELICIT}, false, 1, false},
    {"test_input_required_result_sampling", {"capital_question"}, {SAMPLE}, false, 1, false},
    {"test_input_required_result_list_roots", {"client_roots"}, {ROOTS}, false, 1, false},
    {"test_input_required_result_request_state", {"confirm"}, {ELICIT}, true, 1, false},
    {"test_input_required_result_multiple_inputs",
     {"user_name", "greeting", "client_roots"},
     {ELICIT, SAMPLE, ROOTS},
     true,
     1,
     false},
    {"test_input_required_result_multi_round", {"step"}, {ELICIT}, true, 2, false},
    {"test_input_required_result_tampered_state", {"confirm"}, {ELICIT}, true, 1, false},
    {"test_input_required_result_capabilities",
     {"user_name", "greeting", "client_roots"},
     {ELICIT, SAMPLE, ROOTS},
     false,
     1,
     true},
    {"test_input_required_result_prompt", {"user_context"}, {ELICIT}, false, 1, false},
};

static bool is_declared(struct mcp_request *request, const char *method)
{
    json_t *meta = json_object_get(request->params, "_meta");
    json_t *declared = json_object_get(meta, MCP_META_CAPABILITIES);

    return json_object_get(declared, str_equal(method, ELICIT)   ? "elicitation"
                                     : str_equal(method, SAMPLE) ? "sampling"
                                                                 : "roots");
}

/* The questions that are still open; an empty object: none. */
static json_t *missing(struct mcp_request *request, const struct input_row *row, bool is_all)
{
    json_t *given = json_object_get(request->params, "inputResponses");
    json_t *wanted = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(row->keys) && row->keys[i]; i++) {
        if (!is_all && json_is_object(json_object_get(given, row->keys[i])))
            continue;
        if (!row->is_careful || is_declared(request, row->methods[i]))
            json_object_set_new(wanted, row->keys[i], question(row->methods[i]));
    }
    return wanted;
}

static void ask_modern(struct mcp_request *request, const struct input_row *row)
{
    int round = state_round(request, row->name);
    bool is_next =
        row->rounds == 2 && round == 1 && json_object_get(request->params, "inputResponses");
    json_t *wanted, *result;
    char state[80];

    if (round < 0) {
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL,
                       "'requestState' is not one that was given");
        return;
    }
    wanted = missing(request, row, is_next);
    if (json_object_size(wanted) == 0) {
        json_decref(wanted);
        result = str_equal(request->method, "prompts/get")
                     ? json_pack("{s:[{s:s,s:{s:s,s:s}}]}", "messages", "role", "user", "content",
                                 "type", "text", "text", "With what was asked for.")
                     : mcp_fixture_text("All is there; state-ok.");
        mcp_send_result(request->peer, &request->origin, result);
        return;
    }
    result = json_pack("{s:s,s:o}", "resultType", "input_required", "inputRequests", wanted);
    if (row->has_state) {
        state_write(row->name, is_next || round == 2 ? 2 : 1, state, sizeof(state));
        json_object_set_new(result, "requestState", json_string(state));
    }
    mcp_send_result(request->peer, &request->origin, result);
}

bool mcp_fixtures_input(struct mcp_request *request, const char *name)
{
    if (!request->origin.is_modern)
        return ask_legacy(request, name);
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (str_equal(rows[i].name, name)) {
            ask_modern(request, &rows[i]);
            return true;
        }
    }
    return false;
}
