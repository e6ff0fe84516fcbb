/*
 * handlers.h - a server with a handler of every kind: plain, waiting, takers and sources that are
 * slow, for the tests of server and client.
 */
#ifndef BAILEY_TESTS_HTTP_HANDLERS_H
#define BAILEY_TESTS_HTTP_HANDLERS_H

#include "serving.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"

#define CLOSE "Host: x\r\nConnection: close\r\n"
#define BIG (64 * MIB)

/* A byte that says where it belongs. */
static inline unsigned char byte_at(uint64_t position)
{
    return (unsigned char)(position * 2654435761u >> 13);
}

static inline void handle_hello(struct http_request *request, void *ctx)
{
    static const char *const headers[] = {"X-One: 1", "X-Two:2", NULL};

    (void)ctx;
    seen.handled++;
    http_reply(request, 200, "text/plain", headers, "hello", 5);
}

static inline void add_argument(void *ctx, const char *name, const char *value)
{
    buf_printf(ctx, " %s=%s", name, value);
}

static inline void handle_show(struct http_request *request, void *ctx)
{
    struct buf text = BUF_INIT(4096);

    (void)ctx;
    buf_printf(&text, "%s %s id=%s name=%s row=%s header=%s", http_method(request),
               http_path(request), http_param(request, "id"), http_param(request, "name"),
               (const char *)http_row(request), http_header(request, "x-thing"));
    http_query_each(request, add_argument, &text);
    http_reply(request, 200, NULL, NULL, text.data, text.length);
    buf_free(&text);
}

static inline void handle_echo(struct http_request *request, void *ctx)
{
    size_t length;
    const void *body = http_body(request, &length);

    (void)ctx;
    seen.handled++;
    http_reply(request, 201, "application/octet-stream", NULL, body, length);
}

/* A taker of at most 10000 bytes at a time, which goes on a moment later. */
static struct http_request *sink_request;
static struct reactor_timer *sink_timer;
static size_t sink_piece;

static inline void sink_due(void *ctx)
{
    (void)ctx;
    http_body_resume(sink_request);
}

static inline size_t sink_data(void *ctx, const void *data, size_t length)
{
    const unsigned char *bytes = data;
    size_t count = MIN(length, sink_piece);

    (void)ctx;
    seen.data++;
    for (size_t i = 0; i < count; i++)
        seen.is_body_right = seen.is_body_right && bytes[i] == byte_at(seen.body_bytes + i);
    seen.body_bytes += count;
    if (count == length)
        return count;
    if (seen.data % 3 == 0)
        http_body_resume(sink_request); /* at once, from inside */
    else
        reactor->ops->timer_set(sink_timer, 0);
    return count;
}

static inline void sink_end(void *ctx)
{
    char text[32];
    int length = snprintf(text, sizeof(text), "%llu bytes", (unsigned long long)seen.body_bytes);

    (void)ctx;
    seen.end++;
    reactor->ops->timer_remove(sink_timer);
    http_reply(sink_request, 200, NULL, NULL, text, (size_t)length);
}

static const struct http_body_events sink_events = {sink_data, sink_end};

static inline void sink_begin(void *ctx)
{
    (void)ctx;
    http_body_read(sink_request, &sink_events, NULL);
}

static inline void handle_sink(struct http_request *request, void *ctx)
{
    (void)ctx;
    seen.handled++;
    seen.is_body_right = true;
    sink_request = request;
    sink_timer = reactor_timer(reactor, http_query(request, "late") ? sink_begin : sink_due, NULL);
    if (http_query(request, "late"))
        reactor->ops->timer_set(sink_timer, 1);
    else
        http_body_read(request, &sink_events, NULL);
}

static inline void handle_refuse(struct http_request *request, void *ctx)
{
    (void)ctx;
    seen.handled++;
    http_reply(request, 409, NULL, NULL, "not now", 7);
}

/* Takes one piece and answers, while more of the body is still to come. */
static inline size_t quit_data(void *ctx, const void *data, size_t length)
{
    (void)data;
    seen.data++;
    http_reply(ctx, 507, NULL, NULL, "enough", 6);
    http_reply(ctx, 200, NULL, NULL, "a second word", 13); /* not heard */
    return length / 2;
}

static inline void quit_end(void *ctx)
{
    (void)ctx;
    seen.end++;
}

static inline void handle_quit(struct http_request *request, void *ctx)
{
    static const struct http_body_events events = {quit_data, quit_end};

    (void)ctx;
    http_body_read(request, &events, request);
}

static inline void handle_nothing(struct http_request *request, void *ctx)
{
    (void)ctx;
    http_reply(request, 204, NULL, NULL, NULL, 0);
}

/* A source of `left` bytes that has nothing every other time. */
struct spring {
    struct http_request *request;
    struct reactor_timer *timer;
    uint64_t position, left;
    unsigned turn;
    bool is_slow, is_last; /* at its end it stops the server */
    long last;             /* HTTP_END, HTTP_ABORT, or 0: it never ends */
};

static inline void spring_due(void *ctx)
{
    http_reply_more(((struct spring *)ctx)->request);
}

static inline long spring_more(void *ctx, void *data, size_t size)
{
    struct spring *spring = ctx;
    size_t count = (size_t)MIN((uint64_t)size, spring->left);

    if (spring->is_slow && spring->turn++ % 2 == 0) {
        if (spring->turn % 3 == 0)
            http_reply_more(spring->request);
        else
            reactor->ops->timer_set(spring->timer, 0);
        return 0;
    }
    if (count == 0) {
        sem_post(&reached);
        if (spring->is_last) {
            http_reply_more(spring->request);
            http_server_stop(server);
            server = NULL;
            return 0;
        }
        return spring->last;
    }
    for (size_t i = 0; i < count; i++)
        ((unsigned char *)data)[i] = byte_at(spring->position + i);
    spring->position += count;
    spring->left -= count;
    return (long)count;
}

static inline void spring_freed(void *ctx)
{
    struct spring *spring = ctx;

    reactor->ops->timer_remove(spring->timer);
    free(spring);
    seen.freed++;
    stop_when_all_came();
}

static inline void handle_spring(struct http_request *request, void *ctx)
{
    static const struct http_source source = {spring_more, spring_freed, NULL};
    struct spring *spring = calloc(1, sizeof(*spring));
    const char *last = http_query(request, "last");

    (void)ctx;
    spring->request = request;
    spring->left = strtoull(http_query(request, "size"), NULL, 10);
    spring->is_slow = http_query(request, "slow");
    spring->last = !last ? HTTP_END : last[0] == 'a' ? HTTP_ABORT : 0;
    spring->is_last = last && last[0] == 's';
    spring->timer = reactor_timer(reactor, spring_due, spring);
    http_reply_stream(request, 200, "application/octet-stream", NULL,
                      http_query(request, "chunked") ? -1 : (int64_t)spring->left, &source, spring);
}

static inline void waiter_gone(void *ctx)
{
    assert_ptr_equal(ctx, &seen);
    seen.gone++;
    stop_when_all_came();
}

static inline void handle_wait(struct http_request *request, void *ctx)
{
    (void)ctx;
    seen.handled++;
    http_on_gone(request, waiter_gone, &seen);
    sem_post(&reached);
}

/* Stops the server that it serves. */
static inline void handle_stop(struct http_request *request, void *ctx)
{
    (void)ctx;
    seen.handled++;
    http_on_gone(request, waiter_gone, &seen);
    http_server_stop(server);
    http_server_stop(server);
    server = NULL;
}

static inline size_t stop_data(void *ctx, const void *data, size_t length)
{
    (void)ctx;
    (void)data;
    (void)length;
    seen.data++;
    http_server_stop(server);
    server = NULL;
    return 0;
}

static inline void handle_stop_body(struct http_request *request, void *ctx)
{
    static const struct http_body_events events = {stop_data, quit_end};

    (void)ctx;
    http_on_gone(request, waiter_gone, &seen);
    http_body_read(request, &events, NULL);
}

/* Who is let in: before there is anything of a body. */
static inline bool has_word(struct http_request *request, void *ctx)
{
    size_t length;

    (void)ctx;
    http_body(request, &length);
    assert_int_equal(length, 0);
    if (http_header(request, "X-Word"))
        return true;
    http_reply(request, 401, NULL, NULL, "who?", 4);
    return false;
}

/* A stream that ends when it is stopped: before it begins (?early), or while it waits. */
struct endless {
    struct http_request *request;
    struct reactor_timer *timer;
    const struct error *stopped;
    bool has_said, has_ended;
};

static inline long endless_more(void *ctx, void *data, size_t size)
{
    struct endless *endless = ctx;

    if (!endless->has_said) {
        endless->has_said = true;
        reactor->ops->timer_set(endless->timer, 0);
        assert_true(size >= 2);
        memcpy(data, "hi", 2);
        return 2;
    }
    if (!endless->stopped)
        return 0;
    if (endless->has_ended)
        return HTTP_END;
    endless->has_ended = true;
    memcpy(data, "bye", 3);
    return 3;
}

static inline void endless_freed(void *ctx)
{
    struct endless *endless = ctx;

    reactor->ops->timer_remove(endless->timer);
    free(endless);
    seen.freed++;
}

static inline void endless_stop(void *ctx, const struct error *why)
{
    struct endless *endless = ctx;

    assert_null(endless->stopped);
    endless->stopped = why;
    http_reply_more(endless->request);
}

static inline void endless_due(void *ctx)
{
    static const struct error why = {.num = -1, .text = "enough"};
    struct endless *endless = ctx;

    seen.allocated = MAX(seen.allocated, allocated_now());
    http_stop(endless->request, &why);
    http_stop(endless->request, &why);
}

static inline void handle_endless(struct http_request *request, void *ctx)
{
    static const struct http_source source = {endless_more, endless_freed, endless_stop};
    struct endless *endless = calloc(1, sizeof(*endless));

    (void)ctx;
    *endless = (struct endless){.request = request};
    endless->timer = reactor_timer(reactor, endless_due, endless);
    if (http_query(request, "early"))
        endless_due(endless);
    http_reply_stream(request, 200, NULL, NULL, -1, &source, endless);
}

static inline void no_route(struct http_request *request, bool is_path, const char *allow,
                            void *ctx)
{
    char text[160];
    int length = snprintf(text, sizeof(text), "no route; allow=%s", allow);

    (void)ctx;
    http_reply(request, is_path ? 405 : 404, NULL, NULL, text, (size_t)length);
}

static inline void count_done(void *ctx, const struct http_done *done)
{
    (void)ctx;
    assert_true(done->method[0] && done->path && done->id[0]);
    seen.done++;
    seen.last_status = done->status;
}

static const struct http_route routes[] = {
    {"GET", "/hello", HTTP_NO_BODY, 0, handle_hello, NULL, NULL},
    {"GET", "/items/{id}/{name*}", HTTP_NO_BODY, 0, handle_show, "the row", NULL},
    {"POST", "/echo", HTTP_WHOLE_BODY, 1000, handle_echo, NULL, NULL},
    {"POST", "/big", HTTP_WHOLE_BODY, BIG, handle_echo, NULL, NULL},
    {"POST", "/nobody", HTTP_NO_BODY, 0, handle_hello, NULL, NULL},
    {"PUT", "/sink", HTTP_STREAM_BODY, 0, handle_sink, NULL, NULL},
    {"PUT", "/small-sink", HTTP_STREAM_BODY, 1000, handle_sink, NULL, NULL},
    {"PUT", "/refuse", HTTP_STREAM_BODY, 0, handle_refuse, NULL, NULL},
    {"PUT", "/quit", HTTP_STREAM_BODY, 0, handle_quit, NULL, NULL},
    {"DELETE", "/nothing", HTTP_NO_BODY, 0, handle_nothing, NULL, NULL},
    {"GET", "/spring", HTTP_NO_BODY, 0, handle_spring, NULL, NULL},
    {"GET", "/stop", HTTP_NO_BODY, 0, handle_stop, NULL, NULL},
    {"PUT", "/stop", HTTP_STREAM_BODY, 0, handle_stop_body, NULL, NULL},
    {"GET", "/wait", HTTP_NO_BODY, 0, handle_wait, NULL, NULL},
    {"PUT", "/wait", HTTP_STREAM_BODY, 0, handle_wait, NULL, NULL},
    {"POST", "/guarded", HTTP_WHOLE_BODY, BIG, handle_echo, NULL, has_word},
    {"PUT", "/guarded", HTTP_STREAM_BODY, 0, handle_refuse, NULL, has_word},
    {"GET", "/endless", HTTP_NO_BODY, 0, handle_endless, NULL, NULL},
};

static const struct http_server_spec spec = {
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .client_max = 20,
    .no_route = no_route,
    .done = count_done,
};

static inline int set_up(void **state)
{
    (void)state;
    sink_piece = 10000;
    serving_start(&spec);
    return 0;
}

static inline int tear_down(void **state)
{
    (void)state;
    if (reactor)
        serving_stop();
    return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
