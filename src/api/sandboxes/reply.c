/* reply.c - replies and errors in the shape of E2B's API; see e2b.h. */
#include <string.h>

#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

void e2b_fail_text(struct http_request *http, unsigned status, const char *text)
{
    front_reply(
        http, status,
        json_pack("{s:i, s:o}", "code", (int)status, "message", text_to_json(text, strlen(text))));
}

/* What E2B's proxy answers for a sandbox that does not run: clients compare the text. */
void e2b_not_found(struct http_request *http, const char *id)
{
    front_reply(http, 502,
                json_pack("{s:o, s:s, s:i}", "sandboxId",
                          text_to_json(id, MIN(strlen(id), (size_t)100)), "message",
                          "The sandbox was not found", "code", 502));
}

/* Statuses of E2B's API where they differ from those of the front hall. */
static unsigned status_of(const struct error *err)
{
    static const struct {
        const char *code;
        unsigned status;
    } rows[] = {
        {ERROR_TEMPLATE_NOT_FOUND, 404},
        {ERROR_TEMPLATE_NOT_BUILT, 404},
        {ERROR_TOO_MANY_SESSIONS, 429},
        {ERROR_QUOTA, 429},
        {ERROR_BUSY, 503},
        {ERROR_DISK_FULL, 507},
        {ERROR_PATH_INVALID, 400},
        {ERROR_PATH_IS_FOLDER, 400},
        {ERROR_PATH_NOT_FOLDER, 400},
        {ERROR_PATH_REFUSED, 400},
        {ERROR_READ_ONLY, 400},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_equal(rows[i].code, err->code))
            return rows[i].status;
    return front_error_status(err->code ? err->code : ERROR_ENGINE);
}

void e2b_fail_error(struct door_call *call, const struct error *err)
{
    struct e2b_target target;
    const char *headers[2] = {NULL, NULL};
    unsigned status = status_of(err);
    char retry[64];

    front_denied(call->front, call->http, err);
    if (call->route->is_open &&
        (str_equal(err->code, ERROR_SESSION_NOT_FOUND) ||
         str_equal(err->code, ERROR_SESSION_PAUSED) || str_equal(err->code, ERROR_SESSION_ENDED))) {
        e2b_not_found(call->http, e2b_target_of(call->http, &target) ? target.id : "");
        return;
    }
    if (status == 429) {
        str_format(retry, sizeof(retry), "Retry-After: %u", err->retry_s > 0 ? err->retry_s : 1);
        headers[0] = retry;
    }
    front_reply_with(call->http, status, headers,
                     json_pack("{s:i, s:o}", "code", (int)status, "message",
                               text_to_json(err->text, strlen(err->text))));
}

void e2b_refuse(struct http_request *http, const struct door_refusal *refusal)
{
    const char *const headers[] = {refusal->header, NULL};

    front_reply_with(http, refusal->status, headers,
                     json_pack("{s:i, s:o}", "code", (int)refusal->status, "message",
                               text_to_json(refusal->text, strlen(refusal->text))));
}

json_t *e2b_time(uint64_t ms)
{
    char text[40];

    front_time(ms, text, sizeof(text));
    return json_string(text);
}

const char *e2b_id(const struct session *session)
{
    return session_id(session) + strlen("s_");
}
