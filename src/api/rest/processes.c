/* processes.c - executions of a session: lists them, waits for one, signals and resizes it. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/rest/rest_private.h"
#include "api/start.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

/* ---- all of them ---- */

/*
 * Command lines are up to 128 KB each, and there are up to LIMIT_EXECUTIONS of them: the listing is
 * made one execution at a time, as its client reads it.
 */
struct listing {
    struct session_manager *manager;
    char session[ID_MAX];
    uint32_t *numbers;
    size_t count, room, at;
    struct buf text; /* the piece that is being sent */
    size_t sent;     /* of it */
    bool is_begun, has_ended;
};

static void note_number(void *ctx, struct execution *execution)
{
    struct listing *listing = ctx;

    if (listing->count < listing->room)
        listing->numbers[listing->count++] = execution_number(execution);
}

static void count_one(void *ctx, struct execution *execution)
{
    (void)execution;
    ++*(size_t *)ctx;
}

static void listing_free(void *ctx)
{
    struct listing *listing = ctx;

    free(listing->numbers);
    buf_free(&listing->text);
    free(listing);
}

/* One that is forgotten meanwhile is left out. */
static int add_process(struct listing *listing, struct session *session)
{
    uint32_t number = listing->numbers[listing->at];
    struct execution *execution;
    struct error ignored;
    char word[16];
    json_t *json;
    int r;

    str_format(word, sizeof(word), "%u", number);
    if (session_find_execution(session, word, &execution, &ignored) < 0)
        return 0;
    json = execution_json(execution);
    r = buf_append(&listing->text, ",", listing->is_begun);
    if (r == 0)
        r = json ? text_of_json(json, FRONT_JSON, &listing->text) : -ENOMEM;
    listing->is_begun = true;
    json_decref(json);
    return r;
}

static int write_more(struct listing *listing)
{
    struct session *session;
    struct error ignored;
    int r = 0;

    if (session_manager_find_of(listing->manager, NULL, listing->session, true, &session,
                                &ignored) < 0)
        return -ESRCH;
    while (r == 0 && listing->text.length == 0 && listing->at < listing->count) {
        r = add_process(listing, session);
        listing->at++;
    }
    if (r == 0 && listing->at == listing->count && !listing->has_ended) {
        listing->has_ended = true;
        r = buf_append_text(&listing->text, "]}\n");
    }
    return r;
}

static long listing_more(void *ctx, void *data, size_t size)
{
    struct listing *listing = ctx;
    size_t count;

    if (listing->sent == listing->text.length) {
        buf_free(&listing->text);
        listing->sent = 0;
        if (listing->has_ended)
            return HTTP_END;
        if (write_more(listing) < 0)
            return HTTP_ABORT;
    }
    count = MIN(size, listing->text.length - listing->sent);
    memcpy(data, listing->text.data + listing->sent, count);
    listing->sent += count;
    return (long)count;
}

void processes_list(struct door_call *call)
{
    static const struct http_source source = {.more = listing_more, .freed = listing_free};
    struct listing *listing = calloc(1, sizeof(*listing));
    struct session *session;

    if (!listing || !front_session(call, true, &session)) {
        if (!listing)
            front_fail_memory(call->http);
        free(listing);
        return;
    }
    *listing = (struct listing){.manager = call->front->manager, .text = BUF_INIT(MIB)};
    str_copy(listing->session, sizeof(listing->session), session_id(session));
    session_each_execution(session, count_one, &listing->room);
    listing->numbers = calloc(listing->room + 1, sizeof(*listing->numbers));
    if (!listing->numbers || buf_append_text(&listing->text, "{\"processes\":[") < 0) {
        front_fail_memory(call->http);
        listing_free(listing);
        return;
    }
    session_each_execution(session, note_number, listing);
    http_reply_stream(call->http, 200, TYPE_JSON, NULL, -1, &source, listing);
}

/* ---- ?wait=SECONDS ---- */

struct waiting {
    struct front *front;
    struct http_request *http;
    struct execution *execution;
    struct execution_watcher *watcher;
    struct reactor_timer *timer;
};

static void waiting_free(struct waiting *waiting)
{
    waiting->front->reactor->ops->timer_remove(waiting->timer);
    if (waiting->watcher)
        execution_unwatch(waiting->watcher, false);
    free(waiting);
}

static void on_due(void *ctx)
{
    struct waiting *waiting = ctx;

    front_reply(waiting->http, 200, execution_json(waiting->execution));
    waiting_free(waiting);
}

static void on_more(void *ctx)
{
    struct waiting *waiting = ctx;

    if (execution_has_ended(waiting->execution))
        on_due(waiting);
}

static void on_gone(void *ctx)
{
    waiting_free(ctx);
}

static void wait_for(struct door_call *call, struct execution *execution, uint64_t wait_ms)
{
    static const struct execution_watch_events events = {.more = on_more, .paused = on_due};
    struct waiting *waiting = calloc(1, sizeof(*waiting));

    if (!waiting) {
        front_fail_memory(call->http);
        return;
    }
    *waiting = (struct waiting){.front = call->front, .http = call->http, .execution = execution};
    waiting->watcher = execution_watch(execution, false, &events, waiting);
    waiting->timer = reactor_timer(call->front->reactor, on_due, waiting);
    if (!waiting->watcher || !waiting->timer) {
        waiting_free(waiting);
        front_fail_memory(call->http);
        return;
    }
    call->front->reactor->ops->timer_set(waiting->timer, wait_ms);
    http_on_gone(call->http, on_gone, waiting);
}

void processes_get(struct door_call *call)
{
    json_t *wait = json_object_get(call->query, "wait");
    struct execution *execution;
    struct session *session;

    if (!front_execution(call, &session, &execution))
        return;
    if (wait && json_number_value(wait) > 0 && !execution_has_ended(execution))
        wait_for(call, execution, (uint64_t)(json_number_value(wait) * 1000.0 + 0.5));
    else
        front_reply(call->http, 200, execution_json(execution));
}

void processes_events(struct door_call *call)
{
    struct rest_following following = {0};
    struct exec_stream_spec *exec_stream = &following.exec_stream;
    struct error err = {0};
    uint64_t first;
    int r;

    if (!front_execution(call, &exec_stream->session, &exec_stream->execution))
        return;
    r = exec_stream_resume(exec_stream, http_header(call->http, "Last-Event-ID"), &first, &err);
    if (r == -EINVAL)
        front_fail_field(call->http, "Last-Event-ID", "Last-Event-ID: %s", err.text);
    else if (r < 0)
        front_fail(call->front, call->http, &err, json_pack("{s:I}", "first", (json_int_t)first));
    else
        rest_follow(call, &following);
}

/* ---- signal, resize ---- */

void processes_signal(struct door_call *call)
{
    int number = start_signal(json_object_get(call->body, "signal"));
    struct execution *execution;
    struct session *session;
    struct error err = {0};

    if (number == 0) {
        front_fail_field(call->http, "signal",
                         "'signal' has to be a name such as TERM, or a number from 1 to %d",
                         NSIG - 1);
        return;
    }
    if (!front_execution(call, &session, &execution))
        return;
    if (execution_signal(execution, number, &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        front_reply(call->http, 200, execution_json(execution));
}

void processes_resize(struct door_call *call)
{
    struct execution *execution;
    struct session *session;
    struct error err = {0};

    if (!front_execution(call, &session, &execution))
        return;
    if (execution_resize(
            execution, (unsigned)json_number_value(json_object_get(call->body, "rows")),
            (unsigned)json_number_value(json_object_get(call->body, "columns")), &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        front_reply(call->http, 200, execution_json(execution));
}
