/*
 * refusal_log.c - records refusals: a line of the audit log and a counter; see refusal_log.h.
 *
 * A refused request costs its sender nothing, with or without a key, and a flood of such lines
 * would push all others out of the audit log. So each tenant, and all clients without a key
 * together, have a number of lines per minute; further refusals become one line, with their number,
 * at the end of the minute.
 */
#include "session/refusal_log.h"

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
#include "session/session_private.h"

bool refusal_is(const struct error *err)
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

/* NULL: this error is not counted as a refusal. */
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

static void count(struct metrics *metrics, const struct refusal *refusal)
{
    const struct error *err = refusal->err;
    const char *reason = refusal->reason ? refusal->reason : reason_of(err);
    const char *const values[] = {err->quota, refusal->caller->who.tenant};

    if (reason)
        metrics_add(metrics, METRIC_REFUSED, &reason, 1);
    if (err->quota)
        metrics_add(metrics, METRIC_QUOTA, values, 1);
}

/* The text comes from a client and may contain anything. */
static void add(json_t *fields, const char *name, const char *text)
{
    if (text && text[0])
        json_object_set_new(fields, name, text_to_json(text, strlen(text)));
}

/* ---- a limited number of lines per minute ---- */

#define WINDOW_MS 60000
#define SLOTS 64 /* further tenants share the last slot */

struct slot {
    char tenant[TENANT_MAX]; /* empty: clients without a key */
    bool is_used;
    uint64_t since_ms;
    unsigned told, untold;
};

struct refusal_log {
    struct session_manager *manager;
    struct reactor_timer *timer;
    bool is_waiting;
    struct slot slots[SLOTS];
};

static void tell_rest(struct refusal_log *refusal_log, struct slot *slot)
{
    json_t *fields = json_object();
    bool is_last = slot == &refusal_log->slots[SLOTS - 1];

    if (!fields)
        return;
    add(fields, "tenant", is_last ? NULL : slot->tenant);
    json_object_set_new(fields, "more", json_integer((json_int_t)slot->untold));
    slot->untold = 0;
    audit_write(session_manager_audit(refusal_log->manager), "denied", fields);
}

static void expect_minute(struct refusal_log *refusal_log)
{
    if (refusal_log->is_waiting)
        return;
    refusal_log->is_waiting = true;
    refusal_log->manager->spec.reactor->ops->timer_set(refusal_log->timer, WINDOW_MS);
}

static void on_minute(void *ctx)
{
    struct refusal_log *refusal_log = ctx;
    uint64_t now = clock_now_ms();

    refusal_log->is_waiting = false;
    for (int i = 0; i < SLOTS; i++) {
        struct slot *slot = &refusal_log->slots[i];

        if (slot->untold == 0)
            continue;
        if (now - slot->since_ms >= WINDOW_MS)
            tell_rest(refusal_log, slot);
        else
            expect_minute(refusal_log);
    }
}

static struct slot *slot_of(struct refusal_log *refusal_log, const char *tenant)
{
    struct slot *slot = refusal_log->slots;

    while (slot < &refusal_log->slots[SLOTS - 1] && slot->is_used &&
           !str_equal(slot->tenant, tenant))
        slot++;
    if (!slot->is_used)
        str_copy(slot->tenant, sizeof(slot->tenant), tenant);
    slot->is_used = true;
    return slot;
}

/* Whether this refusal gets its own line; else it is added to the line at the end of the minute. */
static bool has_line(struct session_manager *manager, const char *tenant)
{
    struct slot *slot = slot_of(manager->refusal_log, tenant);
    uint64_t now = clock_now_ms();

    if (slot->since_ms == 0 || now - slot->since_ms >= WINDOW_MS) {
        if (slot->untold > 0)
            tell_rest(manager->refusal_log, slot);
        slot->since_ms = now;
        slot->told = 0;
    }
    if (slot->told < LIMIT_REFUSAL_LINES) {
        slot->told++;
        return true;
    }
    slot->untold++;
    expect_minute(manager->refusal_log);
    return false;
}

int refusal_log_start(struct session_manager *manager)
{
    struct refusal_log *refusal_log = calloc(1, sizeof(*refusal_log));

    manager->refusal_log = refusal_log;
    if (!refusal_log)
        return -ENOMEM;
    refusal_log->manager = manager;
    refusal_log->timer = reactor_timer(manager->spec.reactor, on_minute, refusal_log);
    return refusal_log->timer ? 0 : -ENOMEM;
}

void refusal_log_stop(struct session_manager *manager)
{
    struct refusal_log *refusal_log = ptr_take(&manager->refusal_log);

    if (!refusal_log)
        return;
    for (int i = 0; i < SLOTS; i++)
        if (refusal_log->slots[i].untold > 0)
            tell_rest(refusal_log, &refusal_log->slots[i]);
    manager->spec.reactor->ops->timer_remove(refusal_log->timer);
    free(refusal_log);
}

void refusal_log_add(struct session_manager *manager, const struct refusal *refusal)
{
    json_t *fields;

    count(session_manager_metrics(manager), refusal);
    if (!has_line(manager, refusal->caller ? refusal->caller->who.tenant : ""))
        return;
    fields = json_object();
    if (!fields)
        return;
    add(fields, "error", refusal->err->code ? refusal->err->code : ERROR_ENGINE);
    add(fields, "quota", refusal->err->quota);
    add(fields, "method", refusal->method);
    add(fields, "path", refusal->path);
    add(fields, "peer", refusal->peer);
    add(fields, "session_id", refusal->session);
    add(fields, "tool", refusal->tool);
    caller_describe(refusal->caller, fields);
    audit_write(session_manager_audit(manager), "denied", fields);
}
