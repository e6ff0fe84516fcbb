/*
 * reply.c - answers in the shape of POST /execute: JSON, and errors as {"error": TEXT} with their
 * code beside it, which callers of that contract do not look at.
 */
#include <string.h>

#include "api/execute/execute.h"
#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

#define REPLY_MAX (8 * LIMIT_OUTPUT_MAX)
#define SHOWN 100

void execute_reply(struct http_request *http, unsigned status, const char *const *headers,
                   json_t *json)
{
    static const char trouble[] = "{\"error\":\"out of memory\"}\n";
    CLEANUP(buf_free) struct buf text = BUF_INIT(REPLY_MAX);

    if (!json || text_of_json(json, REST_JSON, &text) < 0 || buf_append_text(&text, "\n") < 0)
        http_reply(http, 500, TYPE_JSON, NULL, trouble, sizeof(trouble) - 1);
    else
        http_reply(http, status, TYPE_JSON, headers, buf_text(&text), text.length);
    json_decref(json);
}

void execute_fail(struct http_request *http, unsigned status, const char *header, const char *code,
                  const char *text)
{
    const char *headers[] = {header, NULL};

    execute_reply(http, status, headers,
                  json_pack("{s:o, s:s}", "error", text_to_json(text, strlen(text)), "code", code));
}

bool execute_has(const char *path)
{
    return str_equal(path, "/execute") || str_equal(path, "/health");
}

void execute_no_route(struct http_request *http, bool is_path, const char *allow)
{
    char header[100], text[300];

    str_format(header, sizeof(header), "Allow: %s", allow ? allow : "");
    if (is_path)
        str_format(text, sizeof(text), "%.20s is not possible here; allowed: %s", http_method(http),
                   allow ? allow : "");
    else
        str_format(text, sizeof(text), "there is no '%.*s'", SHOWN, http_path(http));
    execute_fail(http, is_path ? 405 : 404, is_path ? header : NULL,
                 is_path ? ERROR_METHOD : ERROR_NO_ROUTE, text);
}

void execute_refuse(struct http_request *http, unsigned status, const char *why)
{
    execute_fail(http, status, NULL, rest_refuse_code(status), why);
}

bool execute_is_elsewhere(const struct http_request *http)
{
    return http_header(http, "E2b-Sandbox-Id") != NULL;
}

void execute_elsewhere(struct http_request *http)
{
    static const char why[] =
        "this request names a sandbox of E2B (E2b-Sandbox-Id), and this "
        "server has no door for those yet; without that header it is answered";
    const char *id = http_header(http, "E2b-Sandbox-Id");

    id = id ? id : "";
    execute_reply(http, 404, NULL,
                  json_pack("{s:o, s:s, s:i}", "sandboxId",
                            text_to_json(id, MIN(strlen(id), (size_t)SHOWN)), "message", why,
                            "code", 404));
}
