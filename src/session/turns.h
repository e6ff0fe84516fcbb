/*
 * turns.h - whose box is made next: a bounded queue before the maker, fair between tenants.
 *
 * The maker (the launcher) gets LIMIT_MAKES_AT_ONCE requests at a time; what comes meanwhile waits,
 * each tenant in a line of its own, and the lines take turns. At most config->queue wait, of one
 * tenant seven eighths of that, so that one who floods leaves room for others; over it ERROR_BUSY
 * at once. Whoever has to keep a pace beside others (tenant.h) waits likewise, and nobody behind
 * him but his own. Used by the files of session/ in place of the maker's make(). One thread, never
 * blocks.
 */
#ifndef BAILEY_SESSION_TURNS_H
#define BAILEY_SESSION_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/maker.h"

struct engine;
struct turns;

struct turns *turns_new(struct engine *engine); /* NULL: no memory */
void turns_free(struct turns *turns);           /* nobody is called any more; NULL is fine */

/* As maker_ops.make and make_cancel. -EBUSY (ERROR_BUSY): too many wait. */
int turns_make(struct turns *turns, const char *tenant, const struct make_request *request,
               const struct make_events *events, void *ctx, uint32_t *ret_serial,
               struct error *err);
void turns_cancel(struct turns *turns, uint32_t serial);

/* 0, or what turns_make() would say now. */
int turns_check(const struct turns *turns, const char *tenant, struct error *err);
unsigned turns_waiting(const struct turns *turns);

#endif
