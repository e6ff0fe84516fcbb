/*
 * fair_queue.h - whose box is made next: a bounded queue before the provider, fair between tenants.
 *
 * The provider (the launcher) gets LIMIT_MAKES_AT_ONCE requests at a time; what comes meanwhile
 * waits, each tenant in a queue of its own, and the queues take turns. At most config->queue wait,
 * of one tenant seven eighths of that, so that one who floods leaves room for others; over it
 * ERROR_BUSY at once. Whoever has to keep a pace beside others (tenant.h) waits likewise, and
 * nobody behind him but his own. Used by the files of session/ in place of the provider's make().
 * One thread, never blocks.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_FAIR_QUEUE_H
#define BAILEY_SESSION_FAIR_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/provider_ops.h"

struct session_manager;
struct fair_queue;

struct fair_queue *fair_queue_new(struct session_manager *manager); /* NULL: no memory */
void fair_queue_free(struct fair_queue *fair_queue); /* nobody is called any more; NULL is fine */

/* As provider_ops.make and make_cancel. -EBUSY (ERROR_BUSY): too many wait. */
int fair_queue_make(struct fair_queue *fair_queue, const char *tenant,
                    const struct make_request *request, const struct make_events *events, void *ctx,
                    uint32_t *ret_serial, struct error *err);
void fair_queue_cancel(struct fair_queue *fair_queue, uint32_t serial);

/* 0, or what fair_queue_make() would say now. */
int fair_queue_check(const struct fair_queue *fair_queue, const char *tenant, struct error *err);
unsigned fair_queue_waiting(const struct fair_queue *fair_queue);

#endif
