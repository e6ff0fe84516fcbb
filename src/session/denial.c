/*
 * denial.c - who was refused what: a line of the audit and a count; see denial.h.
 *
 * Whoever is refused costs nothing for being so, with a key or without: a flood of such lines would
 * push all others out of the audit. So a tenant, and all strangers together, have a number of lines
 * for each minute; what is more is one line, with its number, when the minute is over.
 */
#include "session/denial.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/str.h"
#include "model/caller.h"
#include "model/text.h"
#include "observe/audit.h"
#include "observe/metrics.h"
#include "session/inside.h"

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

/* ---- not more lines than so many ---- */

#define WINDOW_MS 60000
#define SLOTS 64 /* further tenants share the last */

struct slot {
    char tenant[TENANT_MAX]; /* empty: strangers */
    bool is_used;
    uint64_t since_ms;
    unsigned told, untold;
};

struct denials {
    struct engine *engine;
    struct reactor_timer *timer;
    bool is_waiting;
    struct slot slots[SLOTS];
};

static void tell_rest(struct denials *denials, struct slot *slot)
{
    json_t *fields = json_object();
    bool is_last = slot == &denials->slots[SLOTS - 1];

    if (!fields)
        return;
    add(fields, "tenant", is_last ? NULL : slot->tenant);
    json_object_set_new(fields, "more", json_integer((json_int_t)slot->untold));
    slot->untold = 0;
    audit_write(engine_audit(denials->engine), "denied", fields);
}

static void expect_minute(struct denials *denials)
{
    if (denials->is_waiting)
        return;
    denials->is_waiting = true;
    denials->engine->spec.reactor->ops->timer_set(denials->timer, WINDOW_MS);
}

static void on_minute(void *ctx)
{
    struct denials *denials = ctx;
    uint64_t now = clock_now_ms();

    denials->is_waiting = false;
    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &denials->slots[i];

        if (slot->untold == 0)
            continue;
        if (now - slot->since_ms >= WINDOW_MS)
            tell_rest(denials, slot);
        else
            expect_minute(denials);
    }
}

static struct slot *slot_of(struct denials *denials, const char *tenant)
{
    struct slot *slot = denials->slots;

    while (slot < &denials->slots[SLOTS - 1] && slot->is_used && !str_equal(slot->tenant, tenant))
        slot++;
    if (!slot->is_used)
        str_copy(slot->tenant, sizeof(slot->tenant), tenant);
    slot->is_used = true;
    return slot;
}

/* Whether there is a line for it; else it is one of those that are told together. */
static bool has_line(struct engine *engine, const char *tenant)
{
    struct slot *slot = slot_of(engine->denials, tenant);
    uint64_t now = clock_now_ms();

    if (slot->since_ms == 0 || now - slot->since_ms >= WINDOW_MS) {
        if (slot->untold > 0)
            tell_rest(engine->denials, slot);
        slot->since_ms = now;
        slot->told = 0;
    }
    if (slot->told < LIMIT_DENIALS) {
        slot->told++;
        return true;
    }
    slot->untold++;
    expect_minute(engine->denials);
    return false;
}

int denials_start(struct engine *engine)
{
    struct denials *denials = calloc(1, sizeof(*denials));

    engine->denials = denials;
    if (!denials)
        return -ENOMEM;
    denials->engine = engine;
    denials->timer = reactor_timer(engine->spec.reactor, on_minute, denials);
    return denials->timer ? 0 : -ENOMEM;
}

void denials_stop(struct engine *engine)
{
    struct denials *denials = ptr_take(&engine->denials);

    if (!denials)
        return;
    for (int i = 0; i < SLOTS; i++)
        if (denials->slots[i].untold > 0)
            tell_rest(denials, &denials->slots[i]);
    engine->spec.reactor->ops->timer_remove(denials->timer);
    free(denials);
}

void engine_denied(struct engine *engine, const struct denial *denial)
{
    json_t *fields;

    count(engine_metrics(engine), denial);
    if (!has_line(engine, denial->caller ? denial->caller->who.tenant : ""))
        return;
    fields = json_object();
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
