/*
 * tenant.h - what a tenant may use and has used: sessions, runs at once, CPU seconds, memory, disk,
 * requests a second, bytes out; and whose turn it is when all want at once.
 *
 * Counted here and nowhere else; the quotas are the configuration's (SANDBOX_QUOTA_*; 0: no limit),
 * the same for every tenant. The local tenant has none but what the machine has. CPU time (in
 * microseconds) and bytes are those of the last hour, which slides by minutes. Beyond LIMIT_TENANTS
 * all others share one tenant's quotas. One thread, no I/O.
 *
 * The pace. Making a box and removing it is work of the kernel that nobody is let in between, and
 * two boxes at once are enough to fill two cores with it. So a tenant that is not alone, because
 * another one asked for something less than TENANT_RECENT_MS ago, may begin LIMIT_PACED_BOXES a
 * second for each core, once LIMIT_PACED_AT_ONCE for each are worked off: a few at once are
 * nobody's flood. That leaves the others most of the machine. One that is alone has no pace.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_TENANT_H
#define BAILEY_SESSION_TENANT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "model/principal.h"

#define TENANT_RECENT_MS 30000 /* an agent thinks between two calls */

struct config;
struct tenants;

enum quota {
    QUOTA_SESSIONS, /* "sessions": alive */
    QUOTA_RUNS,     /* "runs": programs at once */
    QUOTA_CPU,      /* "cpu": in an hour */
    QUOTA_MEMORY,   /* "memory": bytes of limits of what is alive */
    QUOTA_DISK,     /* "disk": bytes kept: outputs, datasets, packages */
    QUOTA_REQUESTS, /* "requests": a second, with a burst of ten times that */
    QUOTA_BYTES,    /* "bytes": sent in an hour */
    _QUOTA_MAX,
};
const char *quota_name(enum quota quota);

struct tenants *tenants_new(const struct config *config);                     /* NULL: no memory */
void tenants_configure(struct tenants *tenants, const struct config *config); /* anew */
void tenants_free(struct tenants *tenants);

/*
 * Takes `amount` of it: 0, or -EDQUOT (ERROR_QUOTA) with a text that names the quota, its limit and
 * what to do; the error's `quota` and `retry_s` say the same to programs. Of CPU seconds and bytes
 * an amount of 0 asks whether there is anything left.
 */
int tenant_take(struct tenants *tenants, const char *tenant, enum quota quota, uint64_t amount,
                struct error *err);
/* Gives back what is held (sessions, runs, memory, disk). */
void tenant_give(struct tenants *tenants, const char *tenant, enum quota quota, uint64_t amount);
/* Counts what is held already and cannot be refused any more: an earlier broker gave it. */
void tenant_hold(struct tenants *tenants, const char *tenant, enum quota quota, uint64_t amount);
/* Counts what was used already and cannot be refused any more (CPU seconds, bytes). */
void tenant_used(struct tenants *tenants, const char *tenant, enum quota quota, uint64_t amount);
/* What outlives sessions, in place of what was said before; it counts as held (disk). */
void tenant_keep(struct tenants *tenants, const char *tenant, uint64_t bytes);
bool tenant_keeps(const struct tenants *tenants, const char *tenant); /* anything */
uint64_t tenant_held(const struct tenants *tenants, const char *tenant, enum quota quota);

/* It asked for something at `now_us` (monotonic, as all here). */
void tenant_seen(struct tenants *tenants, const char *tenant, uint64_t now_us);
/* 0: a box of it may be begun now; else so long not yet, unless the others become quiet. */
uint64_t tenant_box_wait_us(const struct tenants *tenants, const char *tenant, uint64_t now_us);
/* One is begun. */
void tenant_box_begun(struct tenants *tenants, const char *tenant, uint64_t now_us);
/* Another pace than what follows from the cores: one box every `gap_us`, `burst` (not 0) at once.
 */
void tenants_set_pace(struct tenants *tenants, uint64_t gap_us, unsigned burst);

#endif
