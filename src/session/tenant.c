/* tenant.c - counts what tenants use and compares it with their quotas; see tenant.h. */
#include "session/tenant.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config.h"

#define MINUTES 60
#define MINUTE_MS 60000
#define BURST_SECONDS 10 /* requests: a burst of this many seconds' worth is allowed */

/* Use within the last hour, by minutes: a ring that drops its oldest minute. */
struct hour {
    uint64_t used[MINUTES];
    uint64_t minute; /* the newest minute */
};

struct tenant {
    struct tenant *next;
    char name[TENANT_MAX];
    uint64_t held[_QUOTA_MAX];
    uint64_t kept; /* disk bytes that outlive sessions (tenant_keep()) */
    bool keeps;
    struct hour hours[_QUOTA_MAX]; /* for QUOTA_CPU and QUOTA_BYTES */
    double tokens;                 /* requests that are allowed now */
    uint64_t tokens_ms;            /* when `tokens` was computed */
    unsigned working;              /* requests of it that wait or run */
};

struct tenants {
    uint64_t limits[_QUOTA_MAX];
    struct tenant *list;
    unsigned count;
    struct tenant crowd; /* all tenants above LIMIT_TENANTS together */
    unsigned working;    /* requests of all that wait or run */
};

static const struct {
    const char *name;
    const char *key; /* the setting that raises it */
    bool is_hourly;
} rows[_QUOTA_MAX] = {
    [QUOTA_SESSIONS] = {"sessions", "SANDBOX_QUOTA_SESSIONS", false},
    [QUOTA_RUNS] = {"runs", "SANDBOX_QUOTA_RUNS", false},
    [QUOTA_CPU] = {"cpu", "SANDBOX_QUOTA_CPU", true},
    [QUOTA_MEMORY] = {"memory", "SANDBOX_QUOTA_MEMORY", false},
    [QUOTA_DISK] = {"disk", "SANDBOX_QUOTA_DISK", false},
    [QUOTA_REQUESTS] = {"requests", "SANDBOX_QUOTA_REQUESTS", false},
    [QUOTA_BYTES] = {"bytes", "SANDBOX_QUOTA_BYTES", true},
};

const char *quota_name(enum quota quota)
{
    return quota < _QUOTA_MAX ? rows[quota].name : "unknown";
}

struct tenants *tenants_new(const struct config *config)
{
    struct tenants *tenants = calloc(1, sizeof(*tenants));

    if (!tenants)
        return NULL;
    tenants_configure(tenants, config);
    return tenants;
}

void tenants_configure(struct tenants *tenants, const struct config *config)
{
    tenants->limits[QUOTA_SESSIONS] = config->quota.sessions;
    tenants->limits[QUOTA_RUNS] = config->quota.runs;
    tenants->limits[QUOTA_CPU] = config->quota.cpu_seconds * 1000000; /* counted in microseconds */
    tenants->limits[QUOTA_MEMORY] = config->quota.memory_bytes;
    tenants->limits[QUOTA_DISK] = config->quota.disk_bytes;
    tenants->limits[QUOTA_REQUESTS] = config->quota.requests;
    tenants->limits[QUOTA_BYTES] = config->quota.bytes;
}

void tenants_free(struct tenants *tenants)
{
    while (tenants && tenants->list) {
        struct tenant *next = tenants->list->next;

        free(tenants->list);
        tenants->list = next;
    }
    free(tenants);
}

static struct tenant *find(const struct tenants *tenants, const char *name)
{
    struct tenant *tenant = tenants->list;

    while (tenant && !str_equal(tenant->name, name))
        tenant = tenant->next;
    return tenant;
}

/*
 * A new tenant has used nothing. Tenants above the limit share one entry, so that new names do not
 * add quotas.
 */
static struct tenant *get(struct tenants *tenants, const char *name)
{
    struct tenant *tenant = find(tenants, name);

    if (tenant)
        return tenant;
    tenant = tenants->count < LIMIT_TENANTS ? calloc(1, sizeof(*tenant)) : NULL;
    if (!tenant)
        return &tenants->crowd;
    str_copy(tenant->name, sizeof(tenant->name), name);
    tenant->tokens = (double)tenants->limits[QUOTA_REQUESTS] * BURST_SECONDS;
    tenant->tokens_ms = clock_now_ms();
    tenant->next = tenants->list;
    tenants->list = tenant;
    tenants->count++;
    return tenant;
}

/* ---- use within the last hour ---- */

static void turn(struct hour *hour, uint64_t minute)
{
    uint64_t passed = minute > hour->minute ? minute - hour->minute : 0;

    for (uint64_t i = 1; i <= MIN(passed, (uint64_t)MINUTES); i++)
        hour->used[(hour->minute + i) % MINUTES] = 0;
    hour->minute = MAX(minute, hour->minute);
}

static uint64_t sum(const struct hour *hour)
{
    uint64_t all = 0;

    for (int i = 0; i < MINUTES; i++)
        all += hour->used[i];
    return all;
}

/* Seconds until enough of the hour is dropped to be below the limit. */
static unsigned wait_s(const struct hour *hour, uint64_t limit)
{
    uint64_t left = sum(hour);

    for (uint64_t i = 1; i <= MINUTES; i++) {
        left -= hour->used[(hour->minute + i) % MINUTES];
        if (left < limit)
            return (unsigned)(i * MINUTE_MS / 1000);
    }
    return MINUTES * MINUTE_MS / 1000;
}

/* ---- taking and giving ---- */

static int refuse(enum quota quota, uint64_t limit, unsigned retry_s, struct error *err)
{
    uint64_t shown = quota == QUOTA_CPU ? limit / 1000000 : limit;
    unsigned wait = MAX(retry_s, 1u);

    error_set(err, -EDQUOT, ERROR_QUOTA,
              "the quota '%s' is used up (%llu%s): try again in %u s, end what is not needed, or "
              "let the operator raise %s",
              rows[quota].name, (unsigned long long)shown,
              rows[quota].is_hourly ? " in an hour" : "", wait, rows[quota].key);
    if (err) {
        err->quota = rows[quota].name;
        err->retry_s = wait;
    }
    return -EDQUOT;
}

static int take_request(const struct tenants *tenants, struct tenant *tenant, struct error *err)
{
    double rate = (double)tenants->limits[QUOTA_REQUESTS];
    uint64_t now = clock_now_ms();

    tenant->tokens += rate * (double)(now - tenant->tokens_ms) / 1000;
    tenant->tokens = MIN(tenant->tokens, rate * BURST_SECONDS);
    tenant->tokens_ms = now;
    if (tenant->tokens < 1)
        return refuse(QUOTA_REQUESTS, tenants->limits[QUOTA_REQUESTS], 1, err);
    tenant->tokens -= 1;
    return 0;
}

int tenant_take(struct tenants *tenants, const char *name, enum quota quota, uint64_t amount,
                struct error *err)
{
    struct tenant *tenant = get(tenants, name);
    struct hour *hour = &tenant->hours[quota];
    uint64_t limit = str_equal(name, TENANT_LOCAL) ? 0 : tenants->limits[quota];

    if (quota == QUOTA_REQUESTS)
        return limit ? take_request(tenants, tenant, err) : 0;
    if (rows[quota].is_hourly) { /* refused once the quota is used up; the use of this call is not
                                    known yet */
        turn(hour, clock_now_ms() / MINUTE_MS);
        if (limit && sum(hour) >= limit)
            return refuse(quota, limit, wait_s(hour, limit), err);
        hour->used[hour->minute % MINUTES] += amount;
        return 0;
    }
    if (limit && (amount > limit || tenant->held[quota] > limit - amount))
        return refuse(quota, limit, 1, err);
    tenant->held[quota] += amount;
    return 0;
}

void tenant_give(struct tenants *tenants, const char *name, enum quota quota, uint64_t amount)
{
    struct tenant *tenant = get(tenants, name);

    tenant->held[quota] -= MIN(amount, tenant->held[quota]);
}

void tenant_hold(struct tenants *tenants, const char *name, enum quota quota, uint64_t amount)
{
    struct tenant *tenant = get(tenants, name);

    tenant->held[quota] += MIN(amount, UINT64_MAX - tenant->held[quota]);
}

void tenant_used(struct tenants *tenants, const char *name, enum quota quota, uint64_t amount)
{
    struct hour *hour = &get(tenants, name)->hours[quota];

    turn(hour, clock_now_ms() / MINUTE_MS);
    hour->used[hour->minute % MINUTES] += amount;
}

void tenant_keep(struct tenants *tenants, const char *name, uint64_t bytes)
{
    struct tenant *tenant = get(tenants, name);

    if (tenant == &tenants->crowd)
        return; /* tenants that share an entry cannot be told apart */
    tenant_give(tenants, name, QUOTA_DISK, tenant->kept);
    tenant_hold(tenants, name, QUOTA_DISK, bytes);
    tenant->kept = bytes;
    tenant->keeps = true;
}

bool tenant_keeps(const struct tenants *tenants, const char *name)
{
    const struct tenant *tenant = find(tenants, name);

    return tenant && tenant->keeps;
}

uint64_t tenant_held(const struct tenants *tenants, const char *name, enum quota quota)
{
    const struct tenant *tenant = find(tenants, name);

    return tenant ? tenant->held[quota] : 0;
}

/* ---- who works now ---- */

void tenant_works(struct tenants *tenants, const char *name)
{
    get(tenants, name)->working++;
    tenants->working++;
}

void tenant_rests(struct tenants *tenants, const char *name)
{
    struct tenant *tenant = get(tenants, name);

    if (tenant->working == 0)
        return;
    tenant->working--;
    tenants->working--;
}

bool tenants_others_work(const struct tenants *tenants, const char *name)
{
    const struct tenant *tenant = find(tenants, name);

    return tenants->working > (tenant ? tenant->working : tenants->crowd.working);
}
