/* denial.c - who was refused what: a line of the audit and a count; see denial.h. */
#include "session/denial.h"

#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/str.h"
#include "model/caller.h"
#include "model/text.h"
#include "observe/audit.h"
#include "observe/metrics.h"
#include "session/engine.h"

bool denial_is(const struct error *err)
{
    const char *const codes[] = {
        ERROR_REFUSED,      ERROR_BLOCKED_IMPORT,    ERROR_INSTALL_DENIED, ERROR_PATH_REFUSED,
        ERROR_READ_ONLY,    ERROR_TOO_MANY_SESSIONS, ERROR_BUSY,           ERROR_LINK_EXPIRED,
        ERROR_UNAUTHORIZED, ERROR_FORBIDDEN,         ERROR_QUOTA,          ERROR_PATH_INVALID,
    };

    for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
        if (str_equal(codes[i], err->code))
            return true;
    return err->quota != NULL;
}

/* NULL: it is none of those that are counted so. */
static const char *reason_of(const struct error *err)
{
    static const struct {
        const char *code, *reason;
    } rows[] = {{ERROR_UNAUTHORIZED, "unauthorized"},
                {ERROR_FORBIDDEN, "forbidden"},
                {ERROR_LINK_EXPIRED, "forbidden"},
                {ERROR_BUSY, "queue"}};

    if (err->quota)
        return "quota";
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_equal(rows[i].code, err->code))
            return rows[i].reason;
    return NULL;
}

static void count(struct metrics *metrics, const struct denial *denial)
{
    const struct error *err = denial->err;
    const char *reason = denial->reason ? denial->reason : reason_of(err);
    const char *const values[] = {err->quota, denial->caller->who.tenant};

    if (reason)
        metrics_add(metrics, METRIC_REFUSED, &reason, 1);
    if (err->quota)
        metrics_add(metrics, METRIC_QUOTA, values, 1);
}

/* Whatever a client has sent can be in it. */
static void add(json_t *fields, const char *name, const char *text)
{
    if (text && text[0])
        json_object_set_new(fields, name, text_to_json(text, strlen(text)));
}

void engine_denied(struct engine *engine, const struct denial *denial)
{
    json_t *fields = json_object();

    count(engine_metrics(engine), denial);
    if (!fields)
        return;
    add(fields, "error", denial->err->code ? denial->err->code : ERROR_ENGINE);
    add(fields, "quota", denial->err->quota);
    add(fields, "method", denial->method);
    add(fields, "path", denial->path);
    add(fields, "peer", denial->peer);
    add(fields, "session_id", denial->session);
    add(fields, "tool", denial->tool);
    caller_describe(denial->caller, fields);
    audit_write(engine_audit(engine), "denied", fields);
}
