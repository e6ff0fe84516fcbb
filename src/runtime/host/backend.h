/*
 * backend.h - what a provider is inside of bailey-engine, the program with the HTTP client: one row
 * for each provider with PROVIDER_HOSTED, of the same name as its row in runtime/registry.c. They
 * are apart because `bailey` itself has rows, and must not need the libraries of these.
 *
 * A backend is the part of a provider host that knows how boxes are really made. Its operations
 * begin something and return; what came of it is told by the host_box_*() functions that each of
 * them names, from the reactor or at once. host_box.h has the box that both see.
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
    size_t box_size; /* of its own box, which begins with a struct host_box */

    /* The settings of a daemon's host that are this provider's: pool_size, wait_ms. May be NULL. */
    void (*fill)(const struct config *config, struct host_spec *spec);
    /* Its own state, host_backend(); and its end. Boxes are freed before. */
    int (*open)(struct host *host, const struct config *config, void **ret, struct error *err);
    void (*close)(struct host *host);

    /* The host is there: removes what an earlier one left behind. May be NULL. */
    void (*sweep)(struct host *host);
    /* Is the provider there, with all that a box needs? host_box_begin() or host_box_refuse()
     * follows; meanwhile box->is_waiting. */
    void (*prepare)(struct host_box *box);
    /* What was prepared may not be there any more: the next prepare() looks again. May be NULL. */
    void (*again)(struct host *host);
    /* A box waited as long as host_spec.wait_ms says: refuses it, or sets its timer anew. */
    void (*late)(struct host_box *box);
    /* Is something prepared now that may take very long? A new broker does not wait for it. */
    bool (*is_slow)(const struct host *host);

    /* Makes it, not started: host_box_created(). box->is_there says that something may be left. */
    void (*create)(struct host_box *box);
    /* Opens the stream of frames: host_box_attached() with pump_stream_ops. */
    void (*attach)(struct host_box *box);
    void (*start)(struct host_box *box); /* host_box_started() */
    /* Looks what holds it, into box->seen: host_box_inspected(). The warden may be faster. */
    void (*inspect)(struct host_box *box);
    /* Any of these that went wrong: host_box_fail(), which ends in remove(). */

    /* By force, whatever it does: host_box_removed() with 0, -EAGAIN (not yet), -ECONNREFUSED (the
     * provider is not there) or another errno. Negative: it could not be begun, is asked again. */
    int (*remove)(struct host_box *box);
    void (*cancel)(struct host_box *box); /* what was begun for it is not told any more */
    /* It could not be removed, and is forgotten: removes it later if ever. */
    void (*leave_behind)(struct host_box *box);
    void (*free_box)(struct host_box *box); /* what is the backend's in it. May be NULL */

    /* Numbers of what it used into the box, at once; false: they cannot be had so. */
    bool (*usage)(struct host_box *box);
    void (*measure)(struct host_box *box); /* the same, later and cheap enough. May be NULL */
    bool tells_oom; /* host_box_oom() comes a little behind the end of what memory killed */

    /* It did not answer in time while the stream was opened. */
    void (*timed_out)(const struct host *host, struct error *err);
    /* A sentence for a box whose isolation is too little; empty: none. May be NULL. */
    void (*hint)(const struct host *host, char *text, size_t size);

    /* The host leaves: what nobody waits for, or takes long, is ended. */
    void (*leave)(struct host *host);
    bool (*is_busy)(const struct host *host); /* it has something to finish besides boxes */
};

struct backend_row {
    const char *name;
    const struct backend_ops *ops;
    /* The report of `bailey doctor` (cli/doctor_provider.c); blocks; new reference. NULL: none. */
    json_t *(*doctor)(const struct config *config);
};

const struct backend_row *backend_find(const char *name); /* NULL: none of that name */

/* Rows that a build option adds (more_backends.c); NULL behind the last. */
extern const struct backend_row *const backend_rows_more[];

#endif
