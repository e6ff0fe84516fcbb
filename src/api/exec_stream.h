/*
 * exec_stream.h - an execution as a sequence of events: started, install, stdout, stderr, exit; of
 * a cell also result, display and error. Server-sent events and WebSockets send the same events.
 *
 * The id of an event is "OUT-ERR", the offsets after it in both streams; of a cell
 * "OUT-ERR-EVENTS": a client that lost its connection resumes after the last id it has, and gets
 * exactly the rest. The reader sets the pace: output it has not asked for is not read, and a reader
 * that is far behind holds the guest back. One thread, never blocks.
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
    bool is_resumed;              /* the reader has seen `started` already */
    bool collects;                /* the outputs are fetched before `exit` is sent */
};

struct exec_stream_events {
    /* The next event, from inside exec_stream_more(); `data` is taken over, NULL: no memory. */
    void (*event)(void *ctx, const char *id, const char *name, json_t *data);
    void (*ready)(void *ctx); /* exec_stream_more() may have more; must not be called in here */
};

enum exec_stream_state {
    EXEC_STREAM_MORE,   /* an event was sent, and there may be more */
    EXEC_STREAM_WAITS,  /* nothing now: ready() will be called */
    EXEC_STREAM_OVER,   /* `exit` was the last, or `closed` */
    EXEC_STREAM_BROKEN, /* output is missing that a client would take for complete, or no memory */
};

/* "OUT-ERR" or "OUT-ERR-EVENTS"; false: not such an id. */
bool exec_stream_id_parse(const char *text, uint64_t offset[BOX_STREAMS]);
/*
 * Resumes after `last_id` or (NULL) at the first byte that is stored. Errors: bad_input (not an
 * id), offset_gone with *ret_first.
 */
int exec_stream_resume(struct exec_stream_spec *spec, const char *last_id, uint64_t *ret_first,
                       struct error *err);

struct exec_stream *exec_stream_new(const struct exec_stream_spec *spec,
                                    const struct exec_stream_events *events,
                                    void *ctx); /* NULL: no memory */
/* Sends a few events: at most 32 KiB of each stream, and one of a cell. */
enum exec_stream_state exec_stream_more(struct exec_stream *exec_stream);
void exec_stream_free(struct exec_stream *exec_stream, bool ends_it); /* as execution_unwatch() */

#endif
