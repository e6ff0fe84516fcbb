/* subscribe.c - sends events of the bus and of executions to a client of the WebSocket door. */
#include <errno.h>
#include <inttypes.h>

#include "api/ws/ws_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "observe/bus.h"

#define EVENTS_AT_ONCE 16

/* ---- the bus ---- */

struct listening {
    struct ws_subscription base;
    struct bus_reader *reader;
    bool is_one;    /* of one session: ends with the session */
    bool was_ended; /* that session had ended before: sends the stored events, then ends */
};

static void listening_notify(void *ctx)
{
    struct listening *listening = ctx;

    ws_ready(&listening->base);
}

static enum ws_more listening_more(struct ws_subscription *subscription)
{
    struct listening *listening = (struct listening *)subscription;
    struct bus_event event;

    for (int i = 0; i < EVENTS_AT_ONCE; i++) {
        char id[32];

        if (!bus_next(listening->reader, &event))
            return listening->was_ended ? WS_OVER : WS_WAITS;
        str_format(id, sizeof(id), "%" PRIu64, event.id);
        ws_event(subscription, id, event_name(event.type), bus_event_json(&event));
        if (listening->is_one && event.type == EVENT_SESSION_ENDED)
            return WS_OVER;
    }
    return WS_MORE;
}

static void listening_free(struct ws_subscription *subscription, bool is_clean)
{
    struct listening *listening = (struct listening *)subscription;

    (void)is_clean;
    bus_unsubscribe(listening->reader);
    free(listening);
}

/* False: it was answered. 0: only new events, as for the bus. */
static bool read_last_id(struct ws_request *request, uint64_t *ret)
{
    json_t *last = json_object_get(request->body, "last_id");
    const char *text = json_string_value(last);
    struct error err = {0};

    *ret = 0;
    if (!last)
        return true;
    if (text ? str_to_u64(text, ret) < 0 : json_integer_value(last) < 0) {
        error_set(&err, -EINVAL, ERROR_BAD_INPUT, "'last_id' has to be the id of an event");
        ws_fail(request->peer, request->id, &err, json_pack("{s:s}", "field", "last_id"));
        return false;
    }
    if (!text)
        *ret = (uint64_t)json_integer_value(last);
    if (*ret == 0)
        *ret = 1; /* from the beginning */
    return true;
}

static void listen_to(struct ws_request *request)
{
    struct ws_peer *peer = request->peer;
    struct session *session = NULL;
    struct listening *listening;
    struct error err = {0};
    uint64_t last_id;

    if (!read_last_id(request, &last_id))
        return;
    if ((request->session || peer->session[0]) && !ws_find_session(request, true, &session))
        return;
    listening = calloc(1, sizeof(*listening));
    if (listening)
        *listening = (struct listening){
            .base = {.is_ready = true, .more = listening_more, .free = listening_free},
            .reader = bus_subscribe(
                session_manager_bus(peer->front->manager), auth_tenant(&peer->caller.who),
                session ? session_id(session) : NULL, last_id, listening_notify, listening),
            .is_one = session != NULL,
            .was_ended = session && session_state(session) == SESSION_ENDED,
        };
    if (!listening || !listening->reader)
        error_memory(&err);
    else
        ws_subscribe(peer, &listening->base, &err);
    if (err.num < 0) {
        if (listening)
            bus_unsubscribe(listening->reader);
        free(listening);
        ws_fail(peer, request->id, &err, NULL);
        return;
    }
    ws_reply(peer, request->id,
             json_pack("{s:I}", "subscription", (json_int_t)listening->base.number));
    ws_ready(&listening->base);
}

/* ---- executions ---- */

struct following {
    struct ws_subscription base;
    struct exec_stream *exec_stream;
    bool is_owner;
};

static void following_event(void *ctx, const char *id, const char *name, json_t *data)
{
    struct following *following = ctx;

    ws_event(&following->base, id, name, data);
}

static void following_ready(void *ctx)
{
    struct following *following = ctx;

    ws_ready(&following->base);
}

static enum ws_more following_more(struct ws_subscription *subscription)
{
    static const enum ws_more states[] = {[EXEC_STREAM_MORE] = WS_MORE,
                                          [EXEC_STREAM_WAITS] = WS_WAITS,
                                          [EXEC_STREAM_OVER] = WS_OVER,
                                          [EXEC_STREAM_BROKEN] = WS_BROKEN};

    return states[exec_stream_more(((struct following *)subscription)->exec_stream)];
}

/*
 * A client that lost its connection may come back, so its execution goes on; a client that closes
 * cleanly no longer wants what it started.
 */
static void following_free(struct ws_subscription *subscription, bool is_clean)
{
    struct following *following = (struct following *)subscription;

    exec_stream_free(following->exec_stream, following->is_owner && is_clean);
    free(following);
}

bool ws_follow(struct ws_request *request, const struct exec_stream_spec *spec, bool is_owner,
               uint64_t *ret_number)
{
    static const struct exec_stream_events events = {.event = following_event,
                                                     .ready = following_ready};
    struct following *following = calloc(1, sizeof(*following));
    struct error err = {0};

    if (following)
        *following = (struct following){
            .base = {.more = following_more, .free = following_free},
            .exec_stream = exec_stream_new(spec, &events, following),
            .is_owner = is_owner,
        };
    if (!following || !following->exec_stream)
        error_memory(&err);
    else
        ws_subscribe(request->peer, &following->base, &err);
    if (err.num < 0) {
        if (following)
            exec_stream_free(following->exec_stream, is_owner);
        free(following);
        ws_fail(request->peer, request->id, &err, NULL);
        return false;
    }
    *ret_number = following->base.number;
    ws_ready(&following->base);
    return true;
}

static void follow(struct ws_request *request)
{
    json_t *last = json_object_get(request->body, "last_id");
    struct exec_stream_spec spec = {0};
    struct error err = {0};
    uint64_t first = 0, number;
    json_t *process;
    int r;

    if (!ws_find_execution(request, &spec.session, &spec.execution))
        return;
    r = exec_stream_resume(&spec, last ? json_string_value(last) : NULL, &first, &err);
    if (last && !json_is_string(last))
        r = error_set(&err, -EINVAL, ERROR_BAD_INPUT, "'last_id' has to be the id of an event");
    if (r < 0) {
        ws_fail(request->peer, request->id, &err,
                r == -EINVAL ? json_pack("{s:s}", "field", "last_id")
                             : json_pack("{s:I}", "first", (json_int_t)first));
        return;
    }
    process = execution_json(spec.execution);
    if (ws_follow(request, &spec, false, &number))
        ws_reply(request->peer, request->id,
                 json_pack("{s:I, s:O?}", "subscription", (json_int_t)number, "execution_id",
                           json_object_get(process, "execution_id")));
    json_decref(process);
}

/* ---- messages ---- */

void ws_subscribe_any(struct ws_request *request)
{
    const char *what = json_string_value(json_object_get(request->body, "what"));

    if (str_equal(what, "events"))
        listen_to(request);
    else if (str_equal(what, "execution"))
        follow(request);
    else
        ws_subscribe_files(request);
}

void ws_unsubscribe(struct ws_request *request)
{
    json_int_t number = json_integer_value(json_object_get(request->body, "subscription"));
    struct ws_subscription *at = request->peer->subscriptions;
    struct error err = {0};

    while (at && (json_int_t)at->number != number)
        at = at->next;
    if (at) {
        ws_drop(at, false);
        ws_reply(request->peer, request->id, json_pack("{s:I}", "subscription", number));
    } else {
        error_set(&err, -ENOENT, ERROR_BAD_INPUT, "there is no subscription %lld here",
                  (long long)number);
        ws_fail(request->peer, request->id, &err, json_pack("{s:s}", "field", "subscription"));
    }
}
