/*
 * inside.h - what the files of the launcher's maker share and nobody else sees.
 */
#ifndef BAILEY_RUNTIME_LOCAL_INSIDE_H
#define BAILEY_RUNTIME_LOCAL_INSIDE_H

#include "launcher/protocol.h"
#include "runtime/maker.h"

#define LAUNCHED_BUCKETS 256

typedef void (*facts_done)(void *ctx, const struct box_facts *facts);

struct making {
    struct making *next;
    uint32_t serial;
    const struct make_events *events; /* NULL: cancelled */
    void *ctx;
};

struct asking { /* a usage */
    struct asking *next;
    uint32_t number;
    facts_done done;
    void *ctx;
};

/* A box that has not been ended; the one who asked for its end waits here. */
struct known {
    struct known *next;
    uint32_t number;
    struct box_facts facts;
    bool has_gone;   /* by itself: the facts are whole */
    bool is_awaited; /* END was sent */
    facts_done done;
    void *ctx;
};

/* Something warm that was asked for: a kernel, a layer, a look. */
struct warm_ask {
    struct warm_ask *next;
    enum launcher_type type; /* of the question */
    uint32_t number, kernel; /* KERNEL: which; SEAL: number is the serial */
    void (*kernel_done)(void *ctx, int num);
    void (*seal_done)(void *ctx, const struct sealed *sealed, const struct error *err);
    void (*each)(void *ctx, const struct warm_state *state);
    void (*look_done)(void *ctx);
    void *ctx;
};

struct outgoing {
    struct outgoing *next;
    struct launcher_message message;
};

struct launched_maker {
    struct maker maker;
    struct reactor *reactor;
    struct reactor_watch *watch;
    int fd;
    struct launched_events events;
    void *ctx;
    struct making *makings;
    struct asking *askings, **askings_end;
    struct warm_ask *warm_asks, **warm_asks_end;
    struct known *known[LAUNCHED_BUCKETS];
    struct outgoing *queue, **queue_end;
    uint32_t next_serial;
    bool is_gone, is_busy, is_closed;
};

/* launched.c */
void launched_send(struct launched_maker *self, const struct launcher_message *message);
bool launched_is_key(const char *key);

/* launched_warm.c */
int warm_fill_make(const struct make_request *request, struct launcher_make *make,
                   struct error *err);
/* False: this is nothing of that kind. */
bool warm_dispatch(struct launched_maker *self, const struct launcher_message *message);
void warm_free(struct launched_maker *self);
void warm_kernel(struct maker *maker, uint32_t number, uint32_t kernel, int tier,
                 void (*done)(void *ctx, int num), void *ctx);
void warm_seal(struct maker *maker, const char *key,
               void (*done)(void *ctx, const struct sealed *sealed, const struct error *err),
               void *ctx);
void warm_discard(struct maker *maker, const char *key, bool is_packages);
void warm_set_default(struct maker *maker, const char *layer);
void warm_drop_layer(struct maker *maker, const char *layer);
void warm_look(struct maker *maker, void (*each)(void *ctx, const struct warm_state *state),
               void (*done)(void *ctx), void *ctx);
void warm_forget(struct maker *maker, const void *ctx);

#endif
