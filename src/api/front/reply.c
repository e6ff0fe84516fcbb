/* reply.c - replies in JSON, and errors with the members a client needs to go on; see reply.h. */
#include "api/front/reply.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "api/front/front_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

#define REPLY_MAX (6 * LIMIT_OUTPUT_MAX)

void front_reply_json(struct http_request *http, unsigned status, const char *const *headers,
                      json_t *json)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(REPLY_MAX);

    if (!json || text_of_json(json, FRONT_JSON, &text) < 0 || buf_append_text(&text, "\n") < 0)
        front_fail_memory(http);
    else
        http_reply_text(http, status, TYPE_JSON, headers, &text);
    json_decref(json);
}

void front_reply_with(struct http_request *http, unsigned status, const char *const *headers,
                      json_t *json)
{
    const struct front_row *row = http_row(http);

    if (json && row && row->door->ops->reply)
        row->door->ops->reply(http, status, headers, json);
    else
        front_reply_json(http, status, headers, json);
}

void front_reply(struct http_request *http, unsigned status, json_t *json)
{
    front_reply_with(http, status, NULL, json);
}

void front_time(uint64_t ms, char *text, size_t size)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm parts;
    char whole[32];

    gmtime_r(&seconds, &parts);
    strftime(whole, sizeof(whole), "%Y-%m-%dT%H:%M:%S", &parts);
    str_format(text, size, "%s.%03uZ", whole, (unsigned)(ms % 1000));
}

void front_fail_memory(struct http_request *http)
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

static unsigned retry_of(struct front *front, const struct error *err)
{
    return str_equal(err->code, ERROR_TOO_MANY_SESSIONS) ? session_manager_retry_s(front->manager)
                                                         : err->retry_s;
}

json_t *front_error_json(struct front *front, const struct error *err, json_t *extra)
{
    unsigned seconds = retry_of(front, err);

    if (!extra)
        extra = json_object();
    if (extra && err->provider)
        json_object_set_new(extra, "provider", json_string(err->provider));
    if (extra && err->quota)
        json_object_set_new(extra, "quota", json_string(err->quota));
    if (extra && seconds)
        json_object_set_new(extra, "retry_after_s", json_integer(seconds));
    if (extra && err->stage) {
        json_object_set_new(extra, "stage", json_string(err->stage));
        json_object_set_new(extra, "errno", json_string(error_name(-err->num)));
    }
    return error_json(err->code ? err->code : ERROR_ENGINE, err->text, extra);
}

void front_fail(struct front *front, struct http_request *http, const struct error *err,
                json_t *extra)
{
    const char *code = err->code ? err->code : ERROR_ENGINE;
    unsigned seconds = retry_of(front, err);
    const char *headers[3] = {NULL, NULL, NULL};
    char retry[64];

    front_denied(front, http, err);
    str_format(retry, sizeof(retry), "Retry-After: %u", seconds);
    if (str_equal(code, ERROR_UNAUTHORIZED)) {
        headers[0] = "WWW-Authenticate: Bearer realm=\"bailey\"";
    } else if (str_equal(code, ERROR_UPGRADE)) {
        headers[0] = "Upgrade: websocket";
        headers[1] = "Sec-WebSocket-Version: 13";
    } else if (seconds) {
        headers[0] = retry;
    }
    front_reply_with(http, front_error_status(code), headers, front_error_json(front, err, extra));
}

void front_fail_field(struct http_request *http, const char *field, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    va_end(args);
    front_reply(http, front_error_status(ERROR_BAD_INPUT),
                error_json(ERROR_BAD_INPUT, text,
                           json_pack("{s:o}", "field", text_to_json(field, strlen(field)))));
}

/* Why and when a session ended, as members of the error. */
static json_t *ending(const struct door_call *call, const char *word)
{
    CLEANUP(json_decrefp) json_t *json = NULL;
    struct session *session;
    struct error ignored;

    if (auth_session(&call->front->auth, &call->caller.who, word, true, &session, &ignored) < 0)
        return NULL;
    json = session_json(session);
    return json_pack("{s:O?, s:O?}", "ended_at", json_object_get(json, "ended_at"), "reason",
                     json_object_get(json, "end_reason"));
}

bool front_session(const struct door_call *call, bool with_ended, struct session **ret)
{
    const char *word = http_param(call->http, "id");
    struct error err = {0};
    int r = auth_session(&call->front->auth, &call->caller.who, word, with_ended, ret, &err);

    if (r == 0 && !with_ended)
        session_promote(*ret); /* it is used, not only looked at */
    if (r == 0)
        return true;
    front_fail(call->front, call->http, &err,
               str_equal(err.code, ERROR_SESSION_ENDED) ? ending(call, word) : NULL);
    return false;
}

bool front_session_to_use(const struct door_call *call, struct session **ret)
{
    struct error err = {0};

    if (!front_session(call, false, ret))
        return false;
    if (session_check_settings(*ret, &call->caller, &err) == 0)
        return true;
    front_fail(call->front, call->http, &err, NULL);
    return false;
}

bool front_execution(const struct door_call *call, struct session **ret_session,
                     struct execution **ret)
{
    struct error err = {0};

    if (!front_session(call, false, ret_session)) /* its output was deleted with the session */
        return false;
    if (session_find_execution(*ret_session, http_param(call->http, "execution"), ret, &err) == 0)
        return true;
    front_fail(call->front, call->http, &err, NULL);
    return false;
}

void front_refuse(struct http_request *http, const struct door_refusal *refusal)
{
    const char *headers[] = {refusal->header, NULL};
    json_t *extra = NULL;

    if (refusal->nearest)
        extra =
            json_pack("{s:o}", "nearest", text_to_json(refusal->nearest, strlen(refusal->nearest)));
    front_reply_with(http, refusal->status, headers,
                     error_json(refusal->code, refusal->text, extra));
}
