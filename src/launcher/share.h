/*
 * share.h - divides CPU time between tenants: the shares of their boxes' control groups. Private to
 * launcher/.
 *
 * All boxes of an engine are in one folder of control groups, because a pooled box is made before
 * its tenant is known and cannot be moved cheaply. So a tenant's share is divided between those of
 * its boxes that compute: each gets CGROUP_SHARE_TENANT / their number. Which ones compute is
 * measured, at most every SHARE_LOOK_MS, and only while boxes of two tenants exist: a tenant that
 * is alone costs nothing. Docs: docs/scheduler.md, docs/design/2026-11-18-fair-without-a-brake.md.
 *
 * A tenant's name is only compared. The functions of the first part are pure.
 *
 * Runs in: launcher
 */
#ifndef BAILEY_LAUNCHER_SHARE_H
#define BAILEY_LAUNCHER_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/pool.h"
#include "launcher/protocol.h"

#define SHARE_LOOK_MS 50        /* between two looks while boxes of two tenants compute */
#define SHARE_REST_MS 2000      /* the longest pause between looks while none does */
#define SHARE_FORGET_MS 600000  /* a tenant that made no box for so long does not count any more */
#define SHARE_BUSY_PER_MILLE 20 /* of one core: a box that used less is idle */

/* The share of each of a tenant's `active` boxes; 0 counts as 1. */
uint32_t share_each(uint32_t active);
/* Whether the difference is worth writing a file: an eighth of the present share. */
bool share_differs(uint32_t present, uint32_t wanted);
/* Whether a box that used this much CPU time in this time competes for more. */
bool share_is_busy(uint64_t used_us, uint64_t elapsed_ms);
/* The time to the next look. */
uint64_t share_pause_ms(uint64_t last_ms, uint32_t boxes, bool is_anything_busy);

/* What a tenant has in this engine; it exists while it has boxes, and SHARE_FORGET_MS longer. */
struct share_account {
    struct share_account *next;
    char name[LAUNCHER_TENANT_MAX];
    uint32_t boxes;            /* given to it, or being made for it */
    uint32_t active;           /* of these: new since the last look, or busy */
    uint64_t asked_ms;         /* its last request for a box */
    struct pool_demand demand; /* its requests for boxes */
};

/*
 * How many of a bucket's prewarmed boxes a tenant leaves to others: a quarter, at least one, if the
 * tenant asks for more than half of them within a second, and for more than tenants do on average
 * (by an eighth); else none.
 */
uint32_t share_pool_kept(uint32_t target, uint32_t demand_milli, uint32_t average_milli);

/* ---- state in the launcher (share.c) ---- */

struct launcher;
struct managed_box;
struct shares {
    struct share_account *accounts;
    uint32_t count;
    uint64_t looked_ms, pause_ms, at_ms; /* at_ms: of the next look; 0: none */
};

/* Notes a request; NULL: no memory, or LIMIT_TENANTS are known: the box has the default share. */
struct share_account *share_asked(struct launcher *launcher, const char *tenant);
/* The box is the tenant's from now on. NULL is fine. */
void share_give_box(struct managed_box *box, struct share_account *account);
/* The same for a box of a handover; its group has a share of the earlier launcher. */
void share_take_box(struct managed_box *box, const char *tenant);
void share_box_gone(struct managed_box *box);
/* The share with which its group is made. */
uint32_t share_of_new(const struct managed_box *box);
void share_tick(struct launcher *launcher, uint64_t now_ms);
/* The average demand of the tenants that asked for a box within the last SHARE_FORGET_MS. */
uint32_t share_average_milli(const struct launcher *launcher, uint64_t now_ms);
void share_end(struct launcher *launcher);

#endif
