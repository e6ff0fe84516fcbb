/*
 * uv_reactor.h - base/reactor.h over libuv's loop. The broker has one.
 *
 * Runs in: broker
 */
#ifndef BAILEY_BROKER_UV_REACTOR_H
#define BAILEY_BROKER_UV_REACTOR_H

#include "base/error.h"
#include "base/reactor.h"

/* POLLRDHUP may be asked for and is reported. A descriptor may have one watch at a time. */
int uv_reactor_new(struct reactor **ret, struct error *err);
int uv_reactor_run(struct reactor *reactor); /* until uv_reactor_stop() */
/*
 * `turned` is told the CPU time of each turn of the loop: what one turn does is what every other
 * client waits for. Another load of the machine is not in it.
 */
void uv_reactor_measure(struct reactor *reactor, void (*turned)(void *ctx, uint64_t cpu_ns),
                        void *ctx);
void uv_reactor_stop(struct reactor *reactor);
void uv_reactor_free(struct reactor *reactor); /* watches and timers left are dropped */

#endif
