/*
 * tenant.h - what a tenant may use and has used: sessions, runs at once, CPU seconds, memory, disk,
 * requests per second, bytes sent; and which tenants are at work now.
 *
 * This is the only place that counts them; the quotas come from the configuration (SANDBOX_QUOTA_*;
 * 0: no limit) and are the same for every tenant. The local tenant is limited only by the machine.
 * CPU time (in microseconds) and bytes are those of the last hour, which slides by minutes. Tenants
 * beyond LIMIT_TENANTS share one tenant's quotas. One thread, no I/O.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_TENANT_H
#define BAILEY_SESSION_TENANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "model/principal.h"

struct config;
struct tenants;

enum quota {
    QUOTA_SESSIONS, /* "sessions": live sessions */
    QUOTA_RUNS,     /* "runs": programs at once */
    QUOTA_CPU,      /* "cpu": seconds per hour */
    QUOTA_MEMORY,   /* "memory": sum of the memory limits of live boxes, in bytes */
    QUOTA_DISK,     /* "disk": bytes stored: outputs, datasets, packages */
    QUOTA_REQUESTS, /* "requests": per second, with a burst of ten times that */
    QUOTA_BYTES,    /* "bytes": sent per hour */
    _QUOTA_MAX,
};
const char *quota_name(enum quota quota);

struct tenants *tenants_new(const struct config *config);                     /* NULL: no memory */
void tenants_configure(struct tenants *tenants, const struct config *config); /* new settings */
void tenants_free(struct tenants *tenants);

/*
 * Takes `amount`: 0, or -EDQUOT (ERROR_QUOTA) with a text that names the quota, its limit and what
 * to do; the error's `quota` and `retry_s` say the same to programs. For CPU seconds and bytes an
 * amount of 0 asks whether anything is left.
 */
int tenant_take(struct tenants *tenants, const char *tenant, enum quota quota, uint64_t amount,
                struct error *err);
/* Gives back what was taken (sessions, runs, memory, disk). */
void tenant_give(struct tenants *tenants, const char *tenant, enum quota quota, uint64_t amount);
/* Counts without a check what is held already: an earlier broker allowed it. */
void tenant_hold(struct tenants *tenants, const char *tenant, enum quota quota, uint64_t amount);
/* Counts without a check what was used already (CPU seconds, bytes). */
void tenant_used(struct tenants *tenants, const char *tenant, enum quota quota, uint64_t amount);
/*
 * Sets the disk bytes that outlive sessions, replacing the earlier value; they count as held
 * (disk).
 */
void tenant_keep(struct tenants *tenants, const char *tenant, uint64_t bytes);
bool tenant_keeps(const struct tenants *tenants,
                  const char *tenant); /* whether that value is above 0 */
uint64_t tenant_held(const struct tenants *tenants, const char *tenant, enum quota quota);

/*
 * A request of the tenant with a waiting client begins, and has ended: a run, a command, a cell.
 * Background commands and terminals do not count: they may do nothing for hours.
 */
void tenant_works(struct tenants *tenants, const char *tenant);
void tenant_rests(struct tenants *tenants, const char *tenant);
/* Whether a request of another tenant waits or runs. */
bool tenants_others_work(const struct tenants *tenants, const char *tenant);

#endif
