/* methods.c - the handshakes of both eras, and the methods that need no host. */
#include <string.h>

#include "api/mcp/fixtures.h"
#include "api/mcp/mcp_private.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "tool/prompt.h"

#define STATIC_TTL_MS (5 * 60 * 1000L)
#define ABOUT_MAX 600 /* bytes about packages */
#define PROMPT_NAME "sandbox"
#define PROMPT_TITLE "Work in the sandbox"
#define PROMPT_TEXT "How to write, run and fix code with these tools"

/* When to use the server: clients put this into the model's prompt and cut it at 2 KB. */
static const char instructions[] =
    "Bailey runs code and commands in a walled-off Linux sandbox without network. Use it whenever "
    "code has to be executed: calculations, data analysis, plots, tests of a script, shell tools.\n"
    "Write a script with sandbox_write_file (/tmp or /workspace), run it with sandbox_exec "
    "(command is an argv array, such as [\"python3\", \"/tmp/job.py\"]), read the error, correct "
    "it "
    "with sandbox_edit_file, run it again. Files stay between calls of one "
    "session; datasets are in /tmp/data, results belong into /tmp/output: new pictures there come "
    "back as images, and each reply says where the user finds the files.\n"
    "A command that fails is a normal result with its exit code and stderr. For work of more than "
    "50 seconds call sandbox_exec with background true, then sandbox_wait, which also reads on in "
    "output that was cut.";

/* For calls that need not belong to a conversation. */
static const char http_instructions[] = "\nEvery result names its session: pass it as 'session' in "
                                        "later calls to work on with the same "
                                        "files.";

const char *const mcp_legacy_versions[] = {"2024-11-05", "2025-03-26", "2025-06-18",
                                           MCP_LEGACY_NEWEST, NULL};

bool mcp_is_legacy(const char *version)
{
    for (size_t i = 0; mcp_legacy_versions[i]; i++)
        if (str_equal(mcp_legacy_versions[i], version))
            return true;
    return false;
}

/* New reference. */
static json_t *instructions_for(const struct mcp_peer *peer, bool is_stateless)
{
    CLEANUP(buf_free) struct buf about = BUF_INIT(ABOUT_MAX);

    if (peer->ops->about)
        peer->ops->about(peer->ctx, &about);
    return json_sprintf("%s%s%s", instructions, buf_text(&about),
                        is_stateless ? http_instructions : "");
}

static json_t *capabilities(const struct mcp_request *request)
{
    /* The lists never change: no listChanged, no subscribe. */
    json_t *all = json_pack("{s:{},s:{},s:{},s:{},s:{}}", "tools", "resources", "prompts",
                            "completions", "logging");

    if (request->peer->server->has_fixtures && !request->origin.is_modern)
        mcp_fixtures_capabilities(all);
    return all;
}

void mcp_discover(struct mcp_request *request)
{
    mcp_send_cached(request->peer, &request->origin,
                    json_pack("{s:[s],s:o,s:o}", "supportedVersions", MCP_MODERN, "capabilities",
                              capabilities(request), "instructions",
                              instructions_for(request->peer, request->peer->server->is_http)),
                    STATIC_TTL_MS);
}

void mcp_initialize(struct mcp_request *request)
{
    const char *asked = mcp_text(request->params, "protocolVersion");
    const char *version;

    if (!asked) {
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL,
                       "'protocolVersion' has to be a string");
        return;
    }
    version = mcp_is_legacy(asked) ? asked : MCP_LEGACY_NEWEST;
    str_copy(request->peer->version, sizeof(request->peer->version), version);
    mcp_send_result(request->peer, &request->origin,
                    json_pack("{s:s,s:o,s:{s:s,s:s,s:s},s:o}", "protocolVersion", version,
                              "capabilities", capabilities(request), "serverInfo", "name", "bailey",
                              "title", "Bailey sandbox", "version", BAILEY_VERSION, "instructions",
                              instructions_for(request->peer, false)));
}

void mcp_ping(struct mcp_request *request)
{
    mcp_send_result(request->peer, &request->origin, json_object());
}

/* Accepted without effect: the log goes to standard error. */
void mcp_set_level(struct mcp_request *request)
{
    static const char *const levels[] = {"debug", "info",     "notice", "warning",
                                         "error", "critical", "alert",  "emergency"};
    const char *level = mcp_text(request->params, "level");

    for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
        if (str_equal(levels[i], level)) {
            mcp_send_result(request->peer, &request->origin, json_object());
            return;
        }
    }
    mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL,
                   "'level' has to be one of debug, info, notice, warning, error, critical, "
                   "alert, emergency");
}

void mcp_prompts_list(struct mcp_request *request)
{
    json_t *list = json_array();

    if (json_object_get(request->params, "cursor")) {
        json_decref(list);
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL, "unknown cursor");
        return;
    }
    if (request->peer->server->prompt)
        json_array_append_new(list, json_pack("{s:s,s:s,s:s}", "name", PROMPT_NAME, "title",
                                              PROMPT_TITLE, "description", PROMPT_TEXT));
    if (request->peer->server->has_fixtures)
        mcp_fixtures_list("prompts", list);
    mcp_send_cached(request->peer, &request->origin, json_pack("{s:o}", "prompts", list),
                    STATIC_TTL_MS);
}

void mcp_prompts_get(struct mcp_request *request)
{
    CLEANUP(buf_free) struct buf own = BUF_INIT(PROMPT_MAX);
    const struct mcp_peer *peer = request->peer;
    const char *name = mcp_text(request->params, "name");
    const char *prompt = peer->server->prompt;

    if (prompt && peer->ops->prompt)
        peer->ops->prompt(peer->ctx, &own);
    if (own.length > 0)
        prompt = buf_text(&own);
    if (!prompt || !str_equal(name, PROMPT_NAME))
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL,
                       "unknown prompt '%.60s'", name ? name : "");
    else
        mcp_send_result(request->peer, &request->origin,
                        json_pack("{s:s,s:[{s:s,s:{s:s,s:s}}]}", "description", PROMPT_TEXT,
                                  "messages", "role", "user", "content", "type", "text", "text",
                                  prompt));
}

/* Only the session of the resource template can be completed. */
void mcp_complete(struct mcp_request *request)
{
    json_t *ref = json_object_get(request->params, "ref");
    json_t *argument = json_object_get(request->params, "argument");
    const char *type = mcp_text(ref, "type");
    const char *name = mcp_text(argument, "name");
    const char *value = mcp_text(argument, "value");
    const char *session = request->peer->session;
    bool is_resource = str_equal(type, "ref/resource") && mcp_text(ref, "uri");
    bool is_prompt = str_equal(type, "ref/prompt") && mcp_text(ref, "name");
    json_t *values;

    if ((!is_resource && !is_prompt) || !name || !value) {
        mcp_send_error(request->peer, &request->origin, MCP_INVALID_PARAMS, NULL,
                       "completion needs 'ref' (ref/prompt with name, or ref/resource with uri) "
                       "and 'argument' with name and value");
        return;
    }
    values = json_array();
    if (is_resource && session[0] && str_equal(name, "session") && str_starts(session, value))
        json_array_append_new(values, json_string(session));
    mcp_send_result(request->peer, &request->origin,
                    json_pack("{s:{s:o,s:b}}", "completion", "values", values, "hasMore", 0));
}
