/*
 * fair_queue.h - decides whose box is made next: a bounded queue before the provider, fair between
 * tenants.
 *
 * A tenant that is alone gets LIMIT_MAKES_AT_ONCE boxes made at once, and waits only for those.
 * While another tenant works, boxes are in service from their request until they end, at most
 * FAIR_SERVICE_MS after they were made, and fair_window() of them fill the machine: who wants more
 * waits in a queue of its own, and the tenant that has had least is next (fair_share.h). A tenant
 * that has had no more than the others and has fewer boxes in service than its part of them does
 * not wait at all. At most config->queue requests wait, and at most seven eighths of that for one
 * tenant, so that a flood of one tenant leaves room for others; above it the call fails at once
 * with ERROR_BUSY. Called by the files of session/ instead of the provider's make(). One thread,
 * never blocks. docs/scheduler.md explains it to users.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_FAIR_QUEUE_H
#define BAILEY_SESSION_FAIR_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/provider_ops.h"

/* After this time a program that still runs is divided by its control group, not by the queue. */
#define FAIR_SERVICE_MS 25

struct session_manager;
struct fair_queue;

struct fair_queue *fair_queue_new(struct session_manager *manager); /* NULL: no memory */
void fair_queue_free(struct fair_queue *fair_queue); /* no callback comes any more; NULL is fine */

/* As provider_ops.make and make_cancel. -EBUSY (ERROR_BUSY): too many wait. */
int fair_queue_make(struct fair_queue *fair_queue, const char *tenant,
                    const struct make_request *request, const struct make_events *events, void *ctx,
                    uint32_t *ret_serial, struct error *err);
void fair_queue_cancel(struct fair_queue *fair_queue, uint32_t serial);
/* The box of that number ends; one that is in service no more is ignored. */
void fair_queue_over(struct fair_queue *fair_queue, uint32_t number);
/* Programs of the tenant used this much CPU time. */
void fair_queue_used(struct fair_queue *fair_queue, const char *tenant, uint64_t cpu_us);

/* 0, or the error that fair_queue_make() would return now. */
int fair_queue_check(const struct fair_queue *fair_queue, const char *tenant, struct error *err);
unsigned fair_queue_waiting(const struct fair_queue *fair_queue);
/* Boxes in service that fill the machine: one for each core, and one more for the pauses of all. */
unsigned fair_window(void);
/* Another machine: so many boxes fill it, and each is in service for at most `service_ms`. */
void fair_queue_set_window(struct fair_queue *fair_queue, unsigned window, uint64_t service_ms);

#endif
