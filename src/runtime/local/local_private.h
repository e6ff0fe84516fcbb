/*
 * local_private.h - the structs of the launcher's provider, for the files of runtime/local only.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_LOCAL_LOCAL_PRIVATE_H
#define BAILEY_RUNTIME_LOCAL_LOCAL_PRIVATE_H

#include "launcher/protocol.h"
#include "runtime/provider_ops.h"

#define LAUNCHED_BUCKETS 256

typedef void (*facts_done)(void *ctx, const struct box_facts *facts);

struct pending_make {
    struct pending_make *next;
    uint32_t serial;
    const struct make_events *events; /* NULL: cancelled */
    void *ctx;
};

struct pending_usage { /* a usage */
    struct pending_usage *next;
    uint32_t number;
    facts_done done;
    void *ctx;
};

/* A box that has not been ended; the caller that asked for its end waits here. */
struct box_record {
    struct box_record *next;
    uint32_t number;
    struct box_facts facts;
    bool has_gone;   /* ended by itself: the facts are complete */
    bool is_awaited; /* END was sent */
    facts_done done;
    void *ctx;
};

/* A question about something warm: a kernel, a layer, the pool. */
struct warm_ask {
    struct warm_ask *next;
    enum launcher_type type; /* type of the question */
    uint32_t number, kernel; /* KERNEL: which; COMMIT_LAYER: number is the serial */
    void (*kernel_done)(void *ctx, int num);
    void (*commit_done)(void *ctx, const struct layer_committed *layer_committed,
                        const struct error *err);
    void (*each)(void *ctx, const struct warm_state *state);
    void (*look_done)(void *ctx);
    void *ctx;
};

struct outgoing {
    struct outgoing *next;
    struct launcher_message message;
};

struct launched_provider {
    struct provider provider;
    const struct provider_row *row;
    struct reactor *reactor;
    struct reactor_watch *watch;
    int fd;
    struct launched_events events;
    void *ctx;
    struct pending_make *pending_makes;
    struct pending_usage *pending_usages, **pending_usages_end;
    struct warm_ask *warm_asks, **warm_asks_end;
    struct box_record *box_records[LAUNCHED_BUCKETS];
    struct outgoing *queue, **queue_end;
    uint32_t next_serial;
    bool is_gone, is_busy, is_closed;
};

/* launched.c */
void launched_send(struct launched_provider *self, const struct launcher_message *message);
bool launched_is_key(const char *key);

/* launched_warm.c */
int warm_fill_make(const struct make_request *request, struct launcher_make *make,
                   struct error *err);
/* False: another kind of message. */
bool warm_dispatch(struct launched_provider *self, const struct launcher_message *message);
void warm_free(struct launched_provider *self);
void warm_kernel(struct provider *provider, uint32_t number, uint32_t kernel, int tier,
                 void (*done)(void *ctx, int num), void *ctx);
void warm_commit_layer(struct provider *provider, const char *key,
                       void (*done)(void *ctx, const struct layer_committed *layer_committed,
                                    const struct error *err),
                       void *ctx);
void warm_discard(struct provider *provider, const char *key, bool is_packages);
void warm_set_default(struct provider *provider, const char *layer);
void warm_drop_layer(struct provider *provider, const char *layer);
void warm_look(struct provider *provider, void (*each)(void *ctx, const struct warm_state *state),
               void (*done)(void *ctx), void *ctx);
void warm_forget(struct provider *provider, const void *ctx);

#endif
