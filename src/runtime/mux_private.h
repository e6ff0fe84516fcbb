/*
 * mux_private.h - the structs of the provider mux, for its files only.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_MUX_PRIVATE_H
#define BAILEY_RUNTIME_MUX_PRIVATE_H

#include "model/principal.h"
#include "runtime/mux.h"

typedef void (*facts_done)(void *ctx, const struct box_facts *facts);

struct mux_host { /* a provider host; the slot of a row stays if the process dies */
    struct mux *mux;
    const struct provider_row *row;
    struct provider *provider; /* NULL: none at the moment */
    bool is_ready;
    int fd;         /* its channel, until a box of it is first wanted; -1: none */
    bool is_wanted; /* it was: a channel to its successor is opened at once */
};

struct mux_box { /* a box of a provider host, until it was returned */
    struct mux_box *next;
    struct mux_host *host;
    uint32_t number, inner; /* the mux's number, and the provider host's */
    struct box_facts facts;
    bool is_lost; /* lost with its provider host */
};

struct mux_ask { /* a question about usage, or an end */
    struct mux_ask *next;
    struct mux *mux;
    struct mux_host *host;
    uint32_t number;
    bool is_end;
    bool is_due; /* the provider host is gone: the mux answers */
    struct box_facts facts;
    facts_done done; /* NULL: cancelled */
    void *ctx;
};

struct mux_make {
    struct mux_make *next;
    struct mux *mux;
    uint32_t serial, inner; /* inner: serial of the provider that was asked */
    struct mux_host *host;  /* the provider host that was asked; NULL: the launcher */
    struct make_request request;
    char key[ID_MAX], layer[65], tenant[TENANT_MAX];
    bool waits;       /* for a provider host that was only now asked for the first time */
    struct error why; /* reason of a fallback */
    const struct make_events *events;
    void *ctx;
};

struct mux_look { /* all are asked, the default provider last: its pool is the one that is shown */
    struct mux_look *next;
    struct mux *mux;
    unsigned step;         /* steps done so far */
    struct mux_host *host; /* the one that is being asked; NULL: the launcher */
    void (*each)(void *ctx, const struct warm_state *state);
    void (*done)(void *ctx);
    void *ctx;
};

struct mux {
    struct provider provider;
    struct reactor *reactor;
    struct reactor_timer *patience, *later;
    struct launched_events events;
    void *ctx;
    struct mux_spec spec;
    struct provider *home; /* the launcher */
    struct mux_host hosts[PROVIDERS_MAX];
    unsigned host_count;
    bool is_home_ready, has_told, serves;
    uint32_t generation, next_number, next_serial;
    struct mux_box *boxes;
    struct mux_ask *asks;
    struct mux_make *makes;
    struct mux_look *looks;
};

/* mux.c: opens the channel that was kept for the first request. */
void mux_want_host(struct mux_host *host);

/* mux_boxes.c: boxes requested, kept, asked about and returned */
int mux_make(struct provider *provider, const struct make_request *request,
             const struct make_events *events, void *ctx, uint32_t *ret_serial, struct error *err);
void mux_make_cancel(struct provider *provider, uint32_t serial);
void mux_end(struct provider *provider, uint32_t number, struct box *box, facts_done done,
             void *ctx);
void mux_usage(struct provider *provider, uint32_t number, facts_done done, void *ctx);
void mux_forget(struct provider *provider, const void *ctx);
struct mux_host *mux_host_of(struct mux *mux, const struct provider_row *row); /* NULL: none */
/* The box with the mux's own number; NULL: no memory. */
struct mux_box *mux_keep_box(struct mux_host *host, const struct made *from, struct made *ret);
struct mux_box *mux_find_inner(struct mux_host *host, uint32_t inner); /* of its current process */
void mux_lose_all(struct mux_host *host); /* the host is gone, with all its boxes and questions */
void mux_send_waiting(struct mux_host *host); /* it is ready */
void mux_on_later(void *ctx);                 /* answers that the mux gives itself */
void mux_free_all(struct mux *mux);           /* without callbacks */

/* mux_look.c: what is kept ready */
void mux_look(struct provider *provider, void (*each)(void *ctx, const struct warm_state *state),
              void (*done)(void *ctx), void *ctx);
void mux_look_forget(struct mux *mux, const void *ctx);
void mux_look_lost(struct mux_host *host); /* the host is gone: no longer waited for */
void mux_look_free(struct mux *mux);

#endif
