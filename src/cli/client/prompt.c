/*
 * prompt.c - `bailey prompt` with --url: the prompt of the server, which knows its own limits and
 * templates. It is MCP's prompt "sandbox", asked for without a conversation.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client_request.h"
#include "cli/message.h"

#define VERSION "2026-07-28"
#define BODY                                                                              \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"prompts/get\",\"params\":{\"name\":"      \
    "\"sandbox\",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" VERSION "\"," \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}}}"

static int ask(struct client *client, struct buf *reply, struct error *err)
{
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Accept: application/json, text/event-stream",
                                          "MCP-Protocol-Version: " VERSION,
                                          "Mcp-Method: prompts/get",
                                          "Mcp-Name: sandbox",
                                          NULL};
    const struct http_call call = {.method = "POST",
                                   .path = "/mcp",
                                   .headers = headers,
                                   .body = BODY,
                                   .body_length = strlen(BODY),
                                   .body_total = -1};
    unsigned status = 0;
    int result = http_call(client->http, &call, &status, reply, err);

    if (result < 0 || status < 400)
        return result;
    return status == 401
               ? client_api_error(status, "{\"error\":{\"code\":\"unauthorized\"}}", 35, err)
               : client_api_error(status, buf_text(reply), reply->length, err);
}

int prompt_remote(const struct invocation *invocation)
{
    CLEANUP(client_close) struct client client = {0};
    CLEANUP(buf_free) struct buf reply = BUF_INIT(MIB);
    CLEANUP(json_freep) json_t *json = NULL;
    const char *config_file = NULL, *text;
    struct error err = {0};
    json_t *messages;

    option_given(&invocation->parsed, "config", &config_file);
    if (client_open(&client, config_file, invocation->env, CLIENT_LOOKS, &err) < 0 ||
        ask(&client, &reply, &err) < 0)
        return client_fail(false, &err);
    json = json_loadb(buf_text(&reply), reply.length, 0, NULL);
    messages = json_object_get(json_object_get(json, "result"), "messages");
    text = member_text(json_object_get(json_array_get(messages, 0), "content"), "text");
    if (!text[0]) {
        error_set(&err, -EPROTO, ERROR_ENGINE,
                  "the server has no prompt: it may be of another "
                  "version");
        return client_fail(false, &err);
    }
    buf_clear(&reply);
    buf_append_text(&reply, text);
    return print_guest_text(&reply);
}
