/*
 * mux.h - two providers as one: boxes come from the provider host, everything that only the local
 * provider has from the launcher.
 *
 * The launcher is heard over the control descriptor, and gives the channel to the provider host
 * (again, when that was started anew). Numbers of boxes of the provider host have their highest bit
 * set and are given here: a provider host that was started anew counts from the beginning. A
 * provider host that died takes its boxes with it: each is told as ended, whoever waits for an
 * answer of it gets one, and boxes are refused until there is another. `stopping`, `gone` and the
 * generation are the launcher's; `ready` comes when both have said what they have, or the provider
 * host has not for MUX_PATIENCE_MS.
 *
 * With `falls_back` a box that the provider host refused because Docker is not there
 * (ERROR_DOCKER_UNAVAILABLE) is made by the launcher, and made.fallback says why. Never blocks; one
 * thread.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_MUX_H
#define BAILEY_RUNTIME_MUX_H

#include "runtime/provider.h"

#define MUX_NUMBER UINT32_C(0x80000000)
#define MUX_PATIENCE_MS 15000

/* Takes the descriptor on success. The events' `provider_host` is not used. */
int mux_open(struct reactor *reactor, int control_fd, bool falls_back,
             const struct launched_events *events, void *ctx, struct provider **ret,
             struct error *err);
/* As those of launched_open(), but: not inside of its callbacks. */
void mux_say_ready(struct provider *provider);
void mux_quit(struct provider *provider);
void mux_close(struct provider *provider);

#endif
