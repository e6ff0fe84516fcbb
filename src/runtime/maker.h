/*
 * maker.h - boxes made by somebody else while the caller goes on: the broker's way to a wall.
 *
 * The local wall is the launcher behind launcher/protocol.h (runtime/local/launched.c); others make
 * their boxes over HTTP. Never blocks; callbacks come from the reactor. A box that was made is the
 * caller's and goes back through end(), also when it was lost.
 */
#ifndef BAILEY_RUNTIME_MAKER_H
#define BAILEY_RUNTIME_MAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/reactor.h"
#include "model/spec.h"
#include "runtime/runtime.h"

struct box;
struct maker;

struct make_request {
    const char *key; /* [a-z0-9_]+ */
    struct limits limits;
    enum isolation minimum;
    bool has_data;
};

/* A box as its maker knows it. */
struct made {
    uint32_t number; /* the maker's name for it */
    char key[ID_MAX];
    struct box *box; /* owned by the caller now */
    struct limits limits;
    struct box_facts facts;
};

struct make_events {
    void (*made)(void *ctx, const struct made *made);
    void (*refused)(void *ctx, const struct error *err, const struct box_facts *facts);
};

struct maker_ops {
    const char *name; /* "local" */
    /* `serial` names the request until one of the events came; cancel: no event comes any more. */
    int (*make)(struct maker *maker, const struct make_request *request,
                const struct make_events *events, void *ctx, uint32_t *ret_serial,
                struct error *err);
    void (*make_cancel)(struct maker *maker, uint32_t serial);
    /*
     * Frees the box at once; done (may be NULL) once nothing of it is left, with what it used.
     * Also for a box that went by itself, which stays known until then. Nothing is called any more
     * once the launcher is gone.
     */
    void (*end)(struct maker *maker, uint32_t number, struct box *box,
                void (*done)(void *ctx, const struct box_facts *facts), void *ctx);
    /* So far: oom kills and CPU time, which nobody inside can forge. NULL: no memory to ask. */
    void (*usage)(struct maker *maker, uint32_t number,
                  void (*done)(void *ctx, const struct box_facts *facts), void *ctx);
};

struct maker {
    const struct maker_ops *ops;
};

/*
 * The launcher as a maker, over the broker's control descriptor. `found` is called for each box
 * that was already there (an earlier broker's), then `ready` once with the generation (1: the first
 * broker of this daemon); `stopping` when the daemon is to say goodbye; `gone` when the launcher
 * hung up (then the broker ends too).
 */
struct launched_events {
    void (*found)(void *ctx, const struct made *made);
    void (*ready)(void *ctx, uint32_t generation);
    void (*ended)(void *ctx, uint32_t number, const struct box_facts *facts); /* by itself */
    void (*stopping)(void *ctx, uint32_t grace_ms);
    void (*gone)(void *ctx);
};
/* Takes the descriptor on success. */
int launched_open(struct reactor *reactor, int control_fd, const struct launched_events *events,
                  void *ctx, struct maker **ret, struct error *err);
void launched_say_ready(struct maker *maker); /* whoever waits for the start is told */
void launched_quit(struct maker *maker);      /* end everything */
void launched_close(struct maker *maker);     /* NULL is fine; also inside of its callbacks */

#endif
