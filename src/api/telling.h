/*
 * telling.h - an execution told as events, to whoever takes them: started, install, stdout, stderr,
 * exit; of a cell also result, display and error. Server-sent events and WebSockets tell the same.
 *
 * The id of an event is "OUT-ERR", the offsets behind it in both streams; of a cell
 * "OUT-ERR-EVENTS": who lost the rest asks for what is behind the last id it has, and gets exactly
 * that. The taker's pace counts: what it has not asked for is not read, and one that is far behind
 * holds the guest back. One thread, never blocks.
 */
#ifndef BAILEY_API_TELLING_H
#define BAILEY_API_TELLING_H

#include <stdbool.h>
#include <stdint.h>

#include "session/session.h"

struct telling;

struct telling_spec {
    struct session *session;
    struct execution *execution;
    uint64_t offset[BOX_STREAMS]; /* output from here on */
    bool is_resumed;              /* `started` was seen */
    bool collects;                /* the outputs are fetched before the end is told */
};

struct telling_events {
    /* The next one, from inside telling_more(); `data` is taken over, NULL: there was no memory. */
    void (*event)(void *ctx, const char *id, const char *name, json_t *data);
    void (*ready)(void *ctx); /* telling_more() may have more; it is not to be called in here */
};

enum telling_state {
    TELLING_MORE,   /* something was told, and there may be more */
    TELLING_WAITS,  /* nothing now: ready() comes */
    TELLING_OVER,   /* `exit` was the last */
    TELLING_BROKEN, /* a hole would be taken for the whole, or there was no memory */
};

/* "OUT-ERR" or "OUT-ERR-EVENTS"; false: it is not such an id. */
bool telling_id_parse(const char *text, uint64_t offset[BOX_STREAMS]);
/*
 * From `last_id` on, or (NULL) from the first byte that is kept. Errors: bad_input (it is no id),
 * offset_gone with *ret_first.
 */
int telling_resume(struct telling_spec *spec, const char *last_id, uint64_t *ret_first,
                   struct error *err);

struct telling *telling_new(const struct telling_spec *spec, const struct telling_events *events,
                            void *ctx); /* NULL: no memory */
/* A few events: at most 32 KiB of each stream, and one of a cell. */
enum telling_state telling_more(struct telling *telling);
void telling_free(struct telling *telling, bool ends_it); /* as execution_unwatch() */

#endif
