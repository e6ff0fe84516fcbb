/* openai_error.c - errors in OpenAI's shape; see openai_error.h. */
#include "api/openai_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/front/openapi.h"
#include "api/front/reply.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/schema.h"

static const char *type_of(unsigned status)
{
    return status == 429   ? "too_many_requests"
           : status >= 500 ? "server_error"
                           : "invalid_request_error";
}

static json_t *body(unsigned status, const char *code, const char *text, const char *param)
{
    return json_pack("{s:{s:o, s:s, s:o, s:s}}", "error", "message",
                     text_to_json(text, strlen(text)), "type", type_of(status), "param",
                     param ? text_to_json(param, strlen(param)) : json_null(), "code", code);
}

json_t *openai_error_json(const struct error *err, const char *param)
{
    const char *code = err->code ? err->code : ERROR_ENGINE;

    return body(front_error_status(code), code, err->text, param);
}

void openai_fail(struct front *front, struct http_request *http, const struct error *err,
                 const char *param)
{
    const char *code = err->code ? err->code : ERROR_ENGINE;
    unsigned seconds = str_equal(code, ERROR_TOO_MANY_SESSIONS)
                           ? session_manager_retry_s(front->manager)
                           : err->retry_s;
    const char *headers[] = {NULL, NULL};
    char retry[64];

    front_denied(front, http, err);
    str_format(retry, sizeof(retry), "Retry-After: %u", seconds);
    if (str_equal(code, ERROR_UNAUTHORIZED))
        headers[0] = "WWW-Authenticate: Bearer realm=\"bailey\"";
    else if (seconds)
        headers[0] = retry;
    front_reply_with(http, front_error_status(code), headers, openai_error_json(err, param));
}

void openai_fail_param(struct front *front, struct http_request *http, const char *param,
                       const char *format, ...)
{
    struct error err = {0};
    char text[ERROR_TEXT_MAX];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    va_end(args);
    error_set(&err, -EINVAL, ERROR_BAD_INPUT, "%s", text);
    openai_fail(front, http, &err, param);
}

void openai_fail_memory(struct http_request *http)
{
    static const char text[] = "{\"error\":{\"message\":\"out of memory\",\"type\":"
                               "\"server_error\",\"param\":null,\"code\":\"engine\"}}\n";

    http_reply(http, 500, TYPE_JSON, NULL, text, sizeof(text) - 1);
}

void openai_door_fail(struct door_call *call, const struct error *err)
{
    const char *param = call->problem && call->problem->field[0] ? call->problem->field : NULL;

    openai_fail(call->front, call->http, err, param);
}

void openai_door_refuse(struct http_request *http, const struct door_refusal *refusal)
{
    const char *headers[] = {refusal->header, NULL};

    front_reply_with(http, refusal->status, headers,
                     body(refusal->status, refusal->code, refusal->text, NULL));
}

json_t *openai_responses(const struct door_route *route)
{
    char status[16];

    str_format(status, sizeof(status), "%u", route->status);
    return json_pack("{s:{s:s, s:o*}, s:{s:s, s:{s:{s:{s:s}}}}}", status, "description",
                     route->summary, "content", route->type ? openapi_content(route) : NULL,
                     "default", "description", "an error in OpenAI's shape", "content", TYPE_JSON,
                     "schema", "$ref", "#/components/schemas/OpenAIError");
}
