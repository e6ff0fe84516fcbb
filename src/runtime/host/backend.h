/*
 * backend.h - the interface of a backend inside bailey-engine, the program with the HTTP client:
 * one row for each provider with PROVIDER_HOSTED, of the same name as its row in
 * runtime/registry.c. The two tables are separate because `bailey` itself has the provider rows,
 * and must not link the libraries of backends.
 *
 * A backend is the part of a provider host that really makes boxes. Its operations begin something
 * and return; the outcome is reported by the host_box_*() functions that each of them names, from
 * the reactor or at once. host_box.h has the box that both see.
 *
 * Runs in: hosts, commands
 */
#ifndef BAILEY_RUNTIME_HOST_BACKEND_H
#define BAILEY_RUNTIME_HOST_BACKEND_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct config;
struct host;
struct host_box;
struct host_spec;

struct backend_ops {
    size_t box_size; /* size of its own box struct, which begins with a struct host_box */

    /* Sets the provider's own values for a daemon's host: pool_size, wait_ms. May be NULL. */
    void (*fill)(const struct config *config, struct host_spec *spec);
    /* Opens its own state, host_backend(); and frees it. Boxes are freed before. */
    int (*open)(struct host *host, const struct config *config, void **ret, struct error *err);
    void (*close)(struct host *host);

    /* The host has started: removes what an earlier one left behind. May be NULL. */
    void (*sweep)(struct host *host);
    /* Checks that the provider and everything a box needs are available. host_box_begin() or
     * host_box_refuse() follows; meanwhile box->is_waiting. */
    void (*prepare)(struct host_box *box);
    /* Something that was prepared may be gone: the next prepare() checks again. May be NULL. */
    void (*again)(struct host *host);
    /* A box waited for host_spec.wait_ms: refuses it, or sets its timer again. */
    void (*late)(struct host_box *box);
    /* Whether a preparation is under way that may take very long. A new broker does not wait for
     * it. */
    bool (*is_slow)(const struct host *host);

    /* Creates it without starting: host_box_created(). Sets box->is_there if something may have
     * to be removed. */
    void (*create)(struct host_box *box);
    /* Opens the stream of frames: host_box_attached() with pump_stream_ops. */
    void (*attach)(struct host_box *box);
    void (*start)(struct host_box *box); /* host_box_started() */
    /* Reads which limits and layers are active into box->seen: host_box_inspected(). The warden
     * may be faster. */
    void (*inspect)(struct host_box *box);
    /* If any of these fails: host_box_fail(), which ends in remove(). */

    /* Removes it by force: host_box_removed() with 0, -EAGAIN (not yet), -ECONNREFUSED (the
     * provider is gone) or another errno. Negative: it could not be begun, and is called again. */
    int (*remove)(struct host_box *box);
    void (*cancel)(struct host_box *box); /* no outcome of its operations is reported any more */
    /* It could not be removed, and the host forgets it: removes it later if possible. */
    void (*leave_behind)(struct host_box *box);
    void (*free_box)(struct host_box *box); /* frees the backend's part of it. May be NULL */

    /* Reads its usage into the box, at once; false: not possible. */
    bool (*usage)(struct host_box *box);
    void (*measure)(struct host_box *box); /* the same, later and at low cost. May be NULL */
    bool tells_oom; /* host_box_oom() comes shortly after the end of a program that memory killed */

    /* The error for a stream that was not opened in time. */
    void (*timed_out)(const struct host *host, struct error *err);
    /* A sentence for a box with too little isolation; empty: none. May be NULL. */
    void (*hint)(const struct host *host, char *text, size_t size);

    /* The host stops: ends operations that no caller waits for or that take long. */
    void (*leave)(struct host *host);
    bool (*is_busy)(const struct host *host); /* it has something to finish other than boxes */
};

struct backend_row {
    const char *name;
    const struct backend_ops *ops;
    /* The report of `bailey doctor` (cli/doctor_provider.c); blocks; new reference. NULL: none. */
    json_t *(*doctor)(const struct config *config);
};

const struct backend_row *backend_find(const char *name); /* NULL: no such name */

/* Rows that a build option adds (more_backends.c); NULL after the last. */
extern const struct backend_row *const backend_rows_more[];

#endif
