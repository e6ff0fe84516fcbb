/*
 * place.h - where an agent runs code: a container (session/container.h), made when it is first
 * needed.
 *
 * Runs in: broker
 */
#ifndef BAILEY_AGENT_PLACE_H
#define BAILEY_AGENT_PLACE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/id.h"

struct caller;
struct container_row;
struct session_manager;

struct agent_place {
    char container[ID_MAX]; /* empty: one is made at the first call */
    char session[ID_MAX];   /* of it; empty: not looked up yet */
    char used[ID_MAX];      /* the one that the conversation used before, if it still lives */
    const char *memory;     /* "1g", ...; NULL: the server's own limit; static */
    bool has_policy;
    json_t *file_ids; /* uploaded files that go into it; NULL: none. Borrowed. */
    bool is_fresh;    /* each call has one of its own, which ends after it */
    bool needs_files; /* it has not got them yet */
};

/* The container exists from now on, and its session. Costs no time of a box. */
int agent_place_open(struct agent_place *place, struct session_manager *manager,
                     const struct caller *caller, struct error *err);
int agent_place_row(const struct agent_place *place, struct session_manager *manager,
                    const struct caller *caller, struct container_row *ret, struct error *err);
/* After a call: what was made for it alone is ended. */
void agent_place_leave(struct agent_place *place, struct session_manager *manager,
                       const struct caller *caller);

#endif
