/*
 * exec_stream.h - an execution told as events, to whoever takes them: started, install, stdout,
 * stderr, exit; of a cell also result, display and error. Server-sent events and WebSockets tell
 * the same.
 *
 * The id of an event is "OUT-ERR", the offsets behind it in both streams; of a cell
 * "OUT-ERR-EVENTS": who lost the rest asks for what is behind the last id it has, and gets exactly
 * that. The taker's pace counts: what it has not asked for is not read, and one that is far behind
 * holds the guest back. One thread, never blocks.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_EXEC_STREAM_H
#define BAILEY_API_EXEC_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "session/session.h"

struct exec_stream;

struct exec_stream_spec {
    struct session *session;
    struct execution *execution;
    uint64_t offset[BOX_STREAMS]; /* output from here on */
    bool is_resumed;              /* `started` was seen */
    bool collects;                /* the outputs are fetched before the end is told */
};

struct exec_stream_events {
    /* The next one, from inside exec_stream_more(); `data` is taken over, NULL: there was no
     * memory. */
    void (*event)(void *ctx, const char *id, const char *name, json_t *data);
    void (*ready)(void *ctx); /* exec_stream_more() may have more; it is not to be called in here */
};

enum exec_stream_state {
    EXEC_STREAM_MORE,   /* something was told, and there may be more */
    EXEC_STREAM_WAITS,  /* nothing now: ready() comes */
    EXEC_STREAM_OVER,   /* `exit` was the last */
    EXEC_STREAM_BROKEN, /* a hole would be taken for the whole, or there was no memory */
};

/* "OUT-ERR" or "OUT-ERR-EVENTS"; false: it is not such an id. */
bool exec_stream_id_parse(const char *text, uint64_t offset[BOX_STREAMS]);
/*
 * From `last_id` on, or (NULL) from the first byte that is kept. Errors: bad_input (it is no id),
 * offset_gone with *ret_first.
 */
int exec_stream_resume(struct exec_stream_spec *spec, const char *last_id, uint64_t *ret_first,
                       struct error *err);

struct exec_stream *exec_stream_new(const struct exec_stream_spec *spec,
                                    const struct exec_stream_events *events,
                                    void *ctx); /* NULL: no memory */
/* A few events: at most 32 KiB of each stream, and one of a cell. */
enum exec_stream_state exec_stream_more(struct exec_stream *exec_stream);
void exec_stream_free(struct exec_stream *exec_stream, bool ends_it); /* as execution_unwatch() */

#endif
