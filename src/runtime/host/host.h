/*
 * host.h - a provider host: makes and keeps boxes of one provider, for whoever speaks the
 * launcher's protocol (launcher/protocol.h) over a control channel.
 *
 * Everything that is the same for all such providers is here: the rendezvous socket and the control
 * channel, a box's way from asked for to given and to its end, frames between its channel and its
 * stream, the pool of prewarmed ones, leaving. How a box is really made is a backend's (backend.h),
 * which has sockets and secrets of its own; there may be several hosts, each in its own process.
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
    int rendezvous_fd; /* SOCK_SEQPACKET: control channels, one byte and one descriptor each */
    int program_fd;    /* `bailey`, what becomes the warden in a box */
    uint32_t pool_size;
    const char *engine; /* [a-z0-9_]+: this engine's id; NULL: one is made up */
    /* The state folder that this engine alone holds: what an earlier one left behind is removed.
     * NULL: nobody's; only what was never started, and is old, is. */
    const char *state;
    const char *identity; /* a word that no other state folder has; NULL: none */
    /* What is kept ready, and the most that a box may have; 0: no limit is known. */
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis;
    uint8_t minimum;  /* enum isolation */
    bool has_kernels; /* Python is wanted soon: prewarmed boxes have it running */
    uint64_t wait_ms; /* a box waits so long for the provider to be prepared; 0: to its end */
    /* How far something is that takes long (an image that comes), in words; five times a second.
     * May be NULL. */
    void (*progress)(void *ctx, enum host_progress what, const char *subject, const char *words);
    void (*left)(void *ctx); /* all is removed: the loop may stop */
    void *ctx;
};

/* `config` is the backend's to read, and borrowed as `spec` is. */
int host_open(struct reactor *reactor, const struct host_spec *spec,
              const struct backend_row *backend, const struct config *config, struct host **ret,
              struct error *err);
void host_leave(struct host *host); /* as at the rendezvous socket's end: left() follows */
/* It left because a broker of another version came: another program is wanted. */
bool host_is_outdated(const struct host *host);
void host_close(struct host *host); /* NULL is fine */

#endif
