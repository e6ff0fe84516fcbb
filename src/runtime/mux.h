/*
 * mux.h - all providers of a daemon as one: each box goes to the provider that its request names.
 *
 * The launcher (the row `local`) is reached over the control descriptor, and passes on the channels
 * of the provider hosts, each with the name of its row, and again when one was restarted. Boxes of
 * a provider host get numbers here, with the highest bit set, because a provider host that was
 * restarted counts from the beginning. If a provider host dies its boxes are lost: each is reported
 * as ended, every pending question about it is answered, and boxes of its row are refused until
 * there is another. `stopping`, `gone` and the generation come from the launcher; `ready` comes
 * when all have listed their boxes, or a provider host has not within MUX_PATIENCE_MS.
 *
 * A row that is not in this build is refused by provider_find(). With a fallback, a box that its
 * provider refused because it is unavailable (ERROR_PROVIDER_UNAVAILABLE) is made by the fallback,
 * and made.fallback says why. Operations that only the launcher has (layers, installer boxes) go
 * there. Never blocks; one thread.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_MUX_H
#define BAILEY_RUNTIME_MUX_H

#include "runtime/provider_ops.h"

#define MUX_NUMBER UINT32_C(0x80000000)
#define MUX_PATIENCE_MS 15000

struct mux_spec {
    const struct provider_row *provider; /* for requests that name none: SANDBOX_TYPE */
    const struct provider_row *fallback; /* SANDBOX_FALLBACK: local; NULL: none */
};

/*
 * Takes the descriptor on success. The events' `provider_host` gets the channels of processes that
 * are no provider's host (HOST_UPSTREAM).
 */
int mux_open(struct reactor *reactor, int control_fd, const struct mux_spec *spec,
             const struct launched_events *events, void *ctx, struct provider **ret,
             struct error *err);
/* As those of launched_open(), but must not be called inside its callbacks. */
void mux_say_ready(struct provider *provider);
void mux_quit(struct provider *provider);
void mux_close(struct provider *provider);

#endif
