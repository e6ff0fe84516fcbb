/*
 * host.h - a provider host: makes and keeps boxes of one provider, for a process that speaks the
 * launcher's protocol (launcher/protocol.h) over a control channel.
 *
 * It contains everything that is the same for all such providers: the rendezvous socket and the
 * control channel, the steps of a box from its request to its end, frames between its channel and
 * its stream, the pool of prewarmed boxes, stopping. A backend (backend.h), which has its own
 * sockets and secrets, really makes the boxes; there may be several hosts, each in its own process.
 * Never blocks; one thread; callbacks come from the reactor.
 *
 * Runs in: hosts
 */
#ifndef BAILEY_RUNTIME_HOST_HOST_H
#define BAILEY_RUNTIME_HOST_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/reactor.h"
#include "runtime/host/backend.h"

struct host;

enum host_progress { PROGRESS_BEGINS, PROGRESS_GOES_ON, PROGRESS_ENDS, PROGRESS_FAILED };

/* Borrowed until host_close(). */
struct host_spec {
    int rendezvous_fd; /* SOCK_SEQPACKET: receives control channels, one byte and one descriptor
                          each */
    int program_fd;    /* `bailey`, which becomes the warden in a box */
    uint32_t pool_size;
    const char *engine; /* [a-z0-9_]+: this engine's id; NULL: a random one */
    /* The state folder that only this engine uses: boxes that an earlier process left are
     * removed. NULL: none; then only old boxes that were never started are removed. */
    const char *state;
    const char *identity; /* a text that no other state folder has; NULL: none */
    /* Limits of prewarmed boxes, and the maximum for every box; 0: no limit. */
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis;
    uint8_t minimum;     /* enum isolation */
    bool has_no_ceiling; /* they are no maximum */
    bool has_kernels;    /* prewarmed boxes have a running Python */
    const char *python;  /* it; NULL: python3, along the box's PATH */
    uint64_t wait_ms; /* how long a box waits for the provider to be prepared; 0: without limit */
    /* Progress of a slow operation (pulling an image), as text; five times a second. May be
     * NULL. */
    void (*progress)(void *ctx, enum host_progress what, const char *subject, const char *words);
    void (*left)(void *ctx); /* everything is removed: the loop may stop */
    void *ctx;
};

/* `config` is for the backend, and borrowed like `spec`. */
int host_open(struct reactor *reactor, const struct host_spec *spec,
              const struct backend_row *backend, const struct config *config, struct host **ret,
              struct error *err);
void host_leave(struct host *host); /* as if the rendezvous socket was closed: left() follows */
/* It stopped because a broker of another version connected: the new program must be started. */
bool host_is_outdated(const struct host *host);
void host_close(struct host *host); /* NULL is fine */

#endif
