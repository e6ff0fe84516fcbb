/*
 * reply.c - replies in the shape of POST /execute: JSON, and errors as {"error": TEXT} with a code
 * beside it, which callers of that API ignore.
 */
#include <string.h>

#include "api/execute/execute.h"
#include "api/front/reply.h"
#include "base/cleanup.h"
#include "model/text.h"

#define REPLY_MAX (8 * LIMIT_OUTPUT_MAX)

void execute_reply(struct http_request *http, unsigned status, const char *const *headers,
                   json_t *json)
{
    static const char trouble[] = "{\"error\":\"out of memory\"}\n";
    CLEANUP(buf_free) struct buf text = BUF_INIT(REPLY_MAX);

    if (!json || text_of_json(json, FRONT_JSON, &text) < 0 || buf_append_text(&text, "\n") < 0)
        http_reply(http, 500, TYPE_JSON, NULL, trouble, sizeof(trouble) - 1);
    else
        http_reply_text(http, status, TYPE_JSON, headers, &text);
    json_decref(json);
}

void execute_fail(struct http_request *http, unsigned status, const char *header, const char *code,
                  const char *text)
{
    const char *headers[] = {header, NULL};

    execute_reply(http, status, headers,
                  json_pack("{s:o, s:s}", "error", text_to_json(text, strlen(text)), "code", code));
}
