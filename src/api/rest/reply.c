/* reply.c - answers of the REST door: JSON, and errors with what a client needs to go on. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/rest/inside.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

#define REPLY_MAX (6 * LIMIT_OUTPUT_MAX)

static void reply_with(struct http_request *http, unsigned status, const char *const *headers,
                       json_t *json)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(REPLY_MAX);

    if (!json || text_of_json(json, REST_JSON, &text) < 0 || buf_append_text(&text, "\n") < 0)
        rest_fail_memory(http);
    else
        http_reply(http, status, TYPE_JSON, headers, buf_text(&text), text.length);
    json_decref(json);
}

void rest_reply(struct http_request *http, unsigned status, json_t *json)
{
    reply_with(http, status, NULL, json);
}

void rest_time(uint64_t ms, char *text, size_t size)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    char whole[32];

    gmtime_r(&seconds, &parts);
    strftime(whole, sizeof(whole), "%Y-%m-%dT%H:%M:%S", &parts);
    str_format(text, size, "%s.%03uZ", whole, (unsigned)(ms % 1000));
}

void rest_fail_memory(struct http_request *http)
{
    static const char text[] = "{\"error\":{\"code\":\"engine\",\"message\":\"out of memory\"}}\n";

    http_reply(http, 500, TYPE_JSON, NULL, text, sizeof(text) - 1);
}

/* {"error":{code,message,...extra}}; takes over `extra`. */
static json_t *error_json(const char *code, const char *message, json_t *extra)
{
    json_t *inner =
        json_pack("{s:s, s:o}", "code", code, "message", text_to_json(message, strlen(message)));

    if (inner && extra && json_object_update(inner, extra) < 0) {
        json_decref(inner);
        inner = NULL;
    }
    json_decref(extra);
    return inner ? json_pack("{s:o}", "error", inner) : NULL;
}

void rest_fail(struct rest *rest, struct http_request *http, const struct error *err, json_t *extra)
{
    const char *code = err->code ? err->code : ERROR_ENGINE;
    const char *headers[2] = {NULL, NULL};
    char retry[64];

    if (!extra)
        extra = json_object();
    if (extra && str_equal(code, ERROR_TOO_MANY_SESSIONS)) {
        unsigned seconds = engine_retry_s(rest->engine);

        json_object_set_new(extra, "retry_after_s", json_integer(seconds));
        str_format(retry, sizeof(retry), "Retry-After: %u", seconds);
        headers[0] = retry;
    }
    if (extra && err->stage) {
        json_object_set_new(extra, "stage", json_string(err->stage));
        json_object_set_new(extra, "errno", json_string(error_name(-err->num)));
    }
    reply_with(http, rest_error_status(code), headers, error_json(code, err->text, extra));
}

void rest_fail_field(struct http_request *http, const char *field, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    va_end(args);
    rest_reply(http, rest_error_status(ERROR_BAD_INPUT),
               error_json(ERROR_BAD_INPUT, text,
                          json_pack("{s:o}", "field", text_to_json(field, strlen(field)))));
}

bool rest_check_env(struct http_request *http, json_t *env)
{
    const char *name;
    json_t *value;

    json_object_foreach(env, name, value)
    {
        char field[100];

        if (name[0] && !strchr(name, '='))
            continue;
        str_format(field, sizeof(field), "env.%.60s", name);
        rest_fail_field(http, field, "'%s': the name of a variable is empty or has a '=' in it",
                        field);
        return false;
    }
    return true;
}

/* Why and when a session ended, as members of the error. */
static json_t *ending(struct rest *rest, const char *word)
{
    CLEANUP(json_decrefp) json_t *json = NULL;
    struct session *session;
    struct error ignored;

    if (engine_find_any(rest->engine, word, &session, &ignored) < 0)
        return NULL;
    json = session_json(session);
    return json_pack("{s:O?, s:O?}", "ended_at", json_object_get(json, "ended_at"), "reason",
                     json_object_get(json, "end_reason"));
}

bool rest_session(const struct rest_call *call, bool with_ended, struct session **ret)
{
    const char *word = http_param(call->http, "id");
    struct error err = {0};
    int r = with_ended ? engine_find_any(call->rest->engine, word, ret, &err)
                       : engine_find(call->rest->engine, word, ret, &err);

    if (r == 0)
        return true;
    rest_fail(call->rest, call->http, &err,
              str_equal(err.code, ERROR_SESSION_ENDED) ? ending(call->rest, word) : NULL);
    return false;
}

bool rest_execution(const struct rest_call *call, struct session **ret_session,
                    struct execution **ret)
{
    struct error err = {0};

    if (!rest_session(call, false, ret_session)) /* what it wrote is gone with the session */
        return false;
    if (session_find_execution(*ret_session, http_param(call->http, "execution"), ret, &err) == 0)
        return true;
    rest_fail(call->rest, call->http, &err, NULL);
    return false;
}

void rest_no_route(struct http_request *http, bool is_path, const char *allow, void *ctx)
{
    char header[200], text[400];
    const char *headers[] = {header, NULL};

    (void)ctx;
    str_format(header, sizeof(header), "Allow: %s", allow ? allow : "");
    if (is_path)
        str_format(text, sizeof(text), "%.20s is not possible here; allowed: %s", http_method(http),
                   allow ? allow : "");
    else
        str_format(text, sizeof(text), "there is no '%.200s'; 'bailey openapi' lists the addresses",
                   http_path(http));
    reply_with(http, is_path ? 405 : 404, is_path ? headers : NULL,
               error_json(is_path ? ERROR_METHOD : ERROR_NO_ROUTE, text, NULL));
}

void rest_refuse(struct http_request *http, unsigned status, const char *why, void *ctx)
{
    const char *code = status == 400   ? ERROR_BAD_INPUT
                       : status == 403 ? ERROR_FORBIDDEN
                       : status >= 500 ? ERROR_ENGINE
                                       : ERROR_TOO_LARGE;

    (void)ctx;
    rest_reply(http, status, error_json(code, why, NULL));
}
