/*
 * fair_queue.h - decides whose box is made next: a bounded queue before the provider, fair between
 * tenants.
 *
 * The provider (the launcher) gets LIMIT_MAKES_AT_ONCE requests at a time; further requests wait in
 * one queue per tenant, and the queues take turns. At most config->queue requests wait, and at most
 * seven eighths of that for one tenant, so that a flood of one tenant leaves room for others; above
 * it the call fails at once with ERROR_BUSY. A tenant that must keep a pace (tenant.h) also waits,
 * and delays only its own requests. Called by the files of session/ instead of the provider's
 * make(). One thread, never blocks.
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
void fair_queue_free(struct fair_queue *fair_queue); /* no callback comes any more; NULL is fine */

/* As provider_ops.make and make_cancel. -EBUSY (ERROR_BUSY): too many wait. */
int fair_queue_make(struct fair_queue *fair_queue, const char *tenant,
                    const struct make_request *request, const struct make_events *events, void *ctx,
                    uint32_t *ret_serial, struct error *err);
void fair_queue_cancel(struct fair_queue *fair_queue, uint32_t serial);

/* 0, or the error that fair_queue_make() would return now. */
int fair_queue_check(const struct fair_queue *fair_queue, const char *tenant, struct error *err);
unsigned fair_queue_waiting(const struct fair_queue *fair_queue);

#endif
