/* events.c - the bus as server-sent events, of all sessions or of one; resumable by id. */
#include "observe/bus.h"

#include <inttypes.h>

#include "api/rest/rest_private.h"
#include "base/str.h"

#define PIECE_MAX (256 * KIB) /* events produced at once for a client */

struct listener {
    struct front_stream stream;
    struct bus_reader *reader;
    bool is_one;    /* of one session: ends with the session */
    bool was_ended; /* that session had ended before: sends the stored events, then ends */
};

static void on_notify(void *ctx)
{
    struct listener *listener = ctx;

    http_reply_more(listener->stream.http);
}

static void on_fill(void *ctx)
{
    struct listener *listener = ctx;
    struct bus_event event;

    while (listener->stream.text.length < PIECE_MAX && !listener->stream.is_over &&
           bus_next(listener->reader, &event)) {
        char id[32];

        str_format(id, sizeof(id), "%" PRIu64, event.id);
        front_stream_event(&listener->stream, id, event_name(event.type), bus_event_json(&event));
        listener->stream.is_over = listener->is_one && event.type == EVENT_SESSION_ENDED;
    }
    if (listener->was_ended && listener->stream.text.length == 0)
        listener->stream.is_over = true;
}

static void on_freed(void *ctx)
{
    struct listener *listener = ctx;

    bus_unsubscribe(listener->reader);
    free(listener);
}

static void listen_to(struct door_call *call, struct session *session)
{
    const char *last = http_header(call->http, "Last-Event-ID");
    struct listener *listener;
    uint64_t last_id = 0;

    if (last && str_to_u64(last, &last_id) < 0) {
        front_fail_field(call->http, "Last-Event-ID",
                         "the header Last-Event-ID has to be a number");
        return;
    }
    if (last && last_id == 0)
        last_id = 1; /* from the beginning; for the bus 0 means a reader without an earlier id */
    listener = calloc(1, sizeof(*listener));
    if (listener)
        listener->reader =
            bus_subscribe(session_manager_bus(call->front->manager), auth_tenant(&call->caller.who),
                          session ? session_id(session) : NULL, last_id, on_notify, listener);
    if (!listener || !listener->reader) {
        free(listener);
        front_fail_memory(call->http);
        return;
    }
    listener->is_one = session != NULL;
    listener->was_ended = session && session_state(session) == SESSION_ENDED;
    listener->stream = (struct front_stream){.http = call->http,
                                             .text = BUF_INIT(64 * MIB),
                                             .fill = on_fill,
                                             .freed = on_freed,
                                             .ctx = listener};
    front_stream_start(&listener->stream, 200, TYPE_EVENTS, front_event_headers, -1);
}

void events_all(struct door_call *call)
{
    listen_to(call, NULL);
}

void events_session(struct door_call *call)
{
    struct session *session;

    if (front_session(call, true, &session))
        listen_to(call, session);
}
