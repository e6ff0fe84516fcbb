/*
 * provider_ops.h - the broker's interface to a provider: boxes are made by another process while
 * the caller goes on.
 *
 * The local provider is the launcher behind launcher/protocol.h (runtime/local/launched.c); others
 * make their boxes over HTTP. Never blocks; callbacks come from the reactor. A box that was made
 * belongs to the caller and is returned through end(), also if it was lost.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_PROVIDER_OPS_H
#define BAILEY_RUNTIME_PROVIDER_OPS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/reactor.h"
#include "model/spec.h"
#include "runtime/provider.h"
#include "runtime/runtime.h"

struct box;
struct provider;

/* Boxes of an installation: two kinds that fetch, and two that finish what was fetched. */
enum make_staging {
    MAKE_ORDINARY,
    MAKE_INSTALLER_TEMPLATE,
    MAKE_INSTALLER_PACKAGES,
    MAKE_FINISH_TEMPLATE,
    MAKE_FINISH_PACKAGES,
};

#define PROVIDER_PROGRAM_MAX 512 /* of an interpreter's path, with its NUL */

struct make_request {
    const struct provider_row *provider; /* the provider to make it; NULL: the configured one */
    const struct provider_row *fallback; /* with `provider`: if that one is unavailable; or NULL */
    const char *key;                     /* [a-z0-9_]+ */
    struct limits limits;
    enum isolation minimum;
    bool has_data, has_packages;
    const char *layer;  /* layer of the template; NULL: none */
    const char *tenant; /* the tenant whose warm interpreters it shares; NULL: the local tenant's */
    bool is_warm;       /* a kernel is wanted in it, if one is available at once */
    unsigned tier;      /* tier of its zygote */
    enum make_staging staging;
    /* Interpreters of the host besides the daemon's own; empty: none. Copied with the struct. */
    char python[PROVIDER_PROGRAM_MAX], node[PROVIDER_PROGRAM_MAX];
};

/* A box as its provider knows it. */
struct made {
    uint32_t number; /* the provider's number for it */
    char key[ID_MAX];
    struct box *box; /* owned by the caller now */
    struct limits limits;
    struct box_facts facts;
    char layer[65];          /* layer of its template; empty: none */
    uint32_t kernel;         /* an id for box_cell() in a new box; 0: none */
    bool warden_owns_kernel; /* the kernel was started inside the box: box_kernel_given() */
    bool is_pooled;
    const struct provider_row
        *provider; /* the provider that made it, as given when that connection was opened */
    /* Why another provider than `wanted` made it. Borrowed for the call; NULL: `wanted` made it. */
    const char *fallback;
    const struct provider_row *wanted; /* NULL without `fallback` */
};

/* Exit status of a zygote-forked interpreter, reported by the Linux kernel, not by the warden. */
struct kernel_end {
    uint32_t number, kernel; /* box, and its id there */
    int status;              /* as wait(2) */
    struct usage usage;
};

/* The content of LAYER_COMMITTED. */
struct layer_committed {
    char layer[65];
    uint64_t bytes, files;
    bool was_there;
};

/* State of a zygote, or (tier -1) of the pool. */
struct warm_state {
    char layer[65];
    int tier;
    bool is_ready;
    uint32_t pid, forks, pooled, pool_size;
    uint64_t memory_bytes, start_ms; /* start_ms: from its start until it was ready */
};

struct make_events {
    void (*made)(void *ctx, const struct made *made);
    void (*refused)(void *ctx, const struct error *err, const struct box_facts *facts);
};

struct provider_ops {
    const char *name; /* "local" */
    /* `serial` names the request until one of the events came; after cancel no event comes. */
    int (*make)(struct provider *provider, const struct make_request *request,
                const struct make_events *events, void *ctx, uint32_t *ret_serial,
                struct error *err);
    void (*make_cancel)(struct provider *provider, uint32_t serial);
    /* Frees the box at once; done (may be NULL) once all of it is removed, with its usage. Also
     * for a box that ended by itself, which stays known until then. No callback comes after the
     * launcher is gone. */
    void (*end)(struct provider *provider, uint32_t number, struct box *box,
                void (*done)(void *ctx, const struct box_facts *facts), void *ctx);
    /* Usage so far: OOM kills, CPU time and peak memory, which the guest cannot forge. A
     * question before end() is answered before it. NULL: no memory to ask. */
    void (*usage)(struct provider *provider, uint32_t number,
                  void (*done)(void *ctx, const struct box_facts *facts), void *ctx);

    /* Operations that only providers with zygotes have; NULL: none, start kernels cold. */
    /* One more kernel, from a zygote, with the id that box_next_id() returns (box_kernel_given()
     * takes it). done: 0, or a negative errno: start it cold. */
    void (*kernel)(struct provider *provider, uint32_t number, uint32_t kernel, int tier,
                   void (*done)(void *ctx, int num), void *ctx);
    /* An installer box of this key has ended: makes a layer of its folder; err->num 0: done. */
    void (*commit_layer)(struct provider *provider, const char *key,
                         void (*done)(void *ctx, const struct layer_committed *layer_committed,
                                      const struct error *err),
                         void *ctx);
    void (*discard)(struct provider *provider, const char *key, bool is_packages);
    /* Sets the default template's layer (NULL: none), which is kept warm. Repeating it has no
     * effect. */
    void (*set_default)(struct provider *provider, const char *layer);
    void (*drop_layer)(struct provider *provider,
                       const char *layer); /* no template or session uses it any more */
    void (*look)(struct provider *provider, void (*each)(void *ctx, const struct warm_state *state),
                 void (*done)(void *ctx), void *ctx);
    void (*forget)(struct provider *provider,
                   const void *ctx); /* no callback to this ctx any more */
};

struct provider {
    const struct provider_ops *ops;
};

/*
 * The launcher as a provider, over the broker's control descriptor. `found` is called for each box
 * that existed already (of an earlier broker), then `ready` once with the generation (1: the first
 * broker of this daemon); `stopping` when the daemon is to stop; `gone` when the launcher closed
 * the connection (then the broker ends too).
 */
struct launched_events {
    void (*found)(void *ctx, const struct made *made);
    void (*ready)(void *ctx, uint32_t generation);
    void (*ended)(void *ctx, uint32_t number,
                  const struct box_facts *facts); /* a box ended by itself */
    void (*stopping)(void *ctx, uint32_t grace_ms);
    void (*gone)(void *ctx);
    void (*kernel_ended)(void *ctx, const struct kernel_end *end); /* may be NULL */
    void (*verdict)(void *ctx, uint32_t number, bool is_allowed, const char *host, unsigned port,
                    const char *reason); /* may be NULL */
    /* CPU time that belongs to a tenant and to no box. May be NULL. */
    void (*spent)(void *ctx, const char *tenant, uint64_t cpu_us);
    /* A channel to the provider host of a row, replacing an earlier one; the callee owns it. May
     * be NULL. */
    void (*provider_host)(void *ctx, const char *name, int fd);
};
/* Takes the descriptor on success. `row`: the provider of its boxes, for made.provider. */
int launched_open(struct reactor *reactor, int control_fd, const struct provider_row *row,
                  const struct launched_events *events, void *ctx, struct provider **ret,
                  struct error *err);
void launched_say_ready(struct provider *provider); /* reports that the daemon has started */
void launched_quit(struct provider *provider);      /* ends everything */
void launched_close(
    struct provider *provider); /* NULL is fine; may be called inside its callbacks */

#endif
