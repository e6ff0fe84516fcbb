/*
 * walls_inside.h - what the files of the two-walled maker share and nobody else sees.
 */
#ifndef BAILEY_RUNTIME_WALLS_INSIDE_H
#define BAILEY_RUNTIME_WALLS_INSIDE_H

#include "runtime/walls.h"

typedef void (*facts_done)(void *ctx, const struct box_facts *facts);

struct walls_box { /* of the wall, until it was given back */
    struct walls_box *next;
    uint32_t number, inner; /* ours, and the wall's */
    struct box_facts facts;
    bool is_lost; /* with its wall */
};

struct walls_ask { /* a usage or an end */
    struct walls_ask *next;
    struct walls *walls;
    uint32_t number;
    bool is_end;
    bool is_due; /* nobody else will answer */
    struct box_facts facts;
    facts_done done; /* NULL: nobody waits any more */
    void *ctx;
};

struct walls_make {
    struct walls_make *next;
    struct walls *walls;
    uint32_t serial, inner; /* inner: of the one who was asked */
    bool is_home;           /* the launcher was */
    struct make_request request;
    char key[ID_MAX], layer[65];
    struct error why; /* of a fallback */
    const struct make_events *events;
    void *ctx;
};

struct walls_look { /* the launcher is asked, then the wall, whose pool is the one that counts */
    struct walls_look *next;
    struct walls *walls;
    bool is_at_wall;
    void (*each)(void *ctx, const struct warm_state *state);
    void (*done)(void *ctx);
    void *ctx;
};

struct walls {
    struct maker maker;
    struct reactor *reactor;
    struct reactor_timer *patience, *later;
    struct launched_events events;
    void *ctx;
    bool falls_back;
    struct maker *home, *wall; /* wall NULL: there is none now */
    bool is_home_ready, is_wall_ready, has_told, serves;
    uint32_t generation, next_number, next_serial;
    struct walls_box *boxes;
    struct walls_ask *asks;
    struct walls_make *makes;
    struct walls_look *looks;
};

/* walls_boxes.c: boxes asked for, had, asked about and given back */
int walls_make(struct maker *maker, const struct make_request *request,
               const struct make_events *events, void *ctx, uint32_t *ret_serial,
               struct error *err);
void walls_make_cancel(struct maker *maker, uint32_t serial);
void walls_end(struct maker *maker, uint32_t number, struct box *box, facts_done done, void *ctx);
void walls_usage(struct maker *maker, uint32_t number, facts_done done, void *ctx);
void walls_forget(struct maker *maker, const void *ctx);
/* The box as the caller knows it; NULL: no memory. */
struct walls_box *walls_keep_box(struct walls *walls, const struct made *from, struct made *ret);
struct walls_box *walls_find_inner(struct walls *walls, uint32_t inner); /* of the wall of now */
void walls_lose_all(struct walls *walls); /* the wall is gone, with all that was asked of it */
void walls_on_later(void *ctx);           /* answers that are ours to give */
void walls_free_all(struct walls *walls); /* without a word */

/* walls_look.c: what is kept ready */
void walls_look(struct maker *maker, void (*each)(void *ctx, const struct warm_state *state),
                void (*done)(void *ctx), void *ctx);
void walls_look_forget(struct walls *walls, const void *ctx);
void walls_look_lost(struct walls *walls); /* the wall is gone: who waits for it waits no more */
void walls_look_free(struct walls *walls);

#endif
