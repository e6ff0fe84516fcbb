/* test_server.c - the server with real connections: routing, bodies and replies of every kind. */
#include "serving.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"

#define CLOSE "Host: x\r\nConnection: close\r\n"
#define BIG (64 * MIB)

/* A byte that says where it belongs. */
static unsigned char byte_at(uint64_t position)
{
    return (unsigned char)(position * 2654435761u >> 13);
}

static void handle_hello(struct http_request *request, void *ctx)
{
    static const char *const headers[] = {"X-One: 1", "X-Two:2", NULL};

    (void)ctx;
    seen.handled++;
    http_reply(request, 200, "text/plain", headers, "hello", 5);
}

static void add_argument(void *ctx, const char *name, const char *value)
{
    buf_printf(ctx, " %s=%s", name, value);
}

static void handle_show(struct http_request *request, void *ctx)
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

static void handle_echo(struct http_request *request, void *ctx)
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

static void sink_due(void *ctx)
{
    (void)ctx;
    http_body_resume(sink_request);
}

static size_t sink_data(void *ctx, const void *data, size_t length)
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

static void sink_end(void *ctx)
{
    char text[32];
    int length = snprintf(text, sizeof(text), "%llu bytes", (unsigned long long)seen.body_bytes);

    (void)ctx;
    seen.end++;
    reactor->ops->timer_remove(sink_timer);
    http_reply(sink_request, 200, NULL, NULL, text, (size_t)length);
}

static const struct http_body_events sink_events = {sink_data, sink_end};

static void sink_begin(void *ctx)
{
    (void)ctx;
    http_body_read(sink_request, &sink_events, NULL);
}

static void handle_sink(struct http_request *request, void *ctx)
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

static void handle_refuse(struct http_request *request, void *ctx)
{
    (void)ctx;
    seen.handled++;
    http_reply(request, 409, NULL, NULL, "not now", 7);
}

/* A source of `left` bytes that has nothing every other time. */
struct spring {
    struct http_request *request;
    struct reactor_timer *timer;
    uint64_t position, left;
    unsigned turn;
    bool is_slow;
    long last; /* HTTP_END, HTTP_ABORT, or 0: it never ends */
};

static void spring_due(void *ctx)
{
    http_reply_more(((struct spring *)ctx)->request);
}

static long spring_more(void *ctx, void *data, size_t size)
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
        return spring->last;
    }
    for (size_t i = 0; i < count; i++)
        ((unsigned char *)data)[i] = byte_at(spring->position + i);
    spring->position += count;
    spring->left -= count;
    return (long)count;
}

static void spring_freed(void *ctx)
{
    struct spring *spring = ctx;

    reactor->ops->timer_remove(spring->timer);
    free(spring);
    seen.freed++;
    stop_when_all_came();
}

static void handle_spring(struct http_request *request, void *ctx)
{
    static const struct http_source source = {spring_more, spring_freed};
    struct spring *spring = calloc(1, sizeof(*spring));
    const char *last = http_query(request, "last");

    (void)ctx;
    spring->request = request;
    spring->left = strtoull(http_query(request, "size"), NULL, 10);
    spring->is_slow = http_query(request, "slow");
    spring->last = !last ? HTTP_END : last[0] == 'a' ? HTTP_ABORT : 0;
    spring->timer = reactor_timer(reactor, spring_due, spring);
    http_reply_stream(request, 200, "application/octet-stream", NULL,
                      http_query(request, "chunked") ? -1 : (int64_t)spring->left, &source, spring);
}

static void waiter_gone(void *ctx)
{
    assert_ptr_equal(ctx, &seen);
    seen.gone++;
    stop_when_all_came();
}

static void handle_wait(struct http_request *request, void *ctx)
{
    (void)ctx;
    seen.handled++;
    http_on_gone(request, waiter_gone, &seen);
    sem_post(&reached);
}

static void no_route(struct http_request *request, bool is_path, const char *allow, void *ctx)
{
    char text[160];
    int length = snprintf(text, sizeof(text), "no route; allow=%s", allow);

    (void)ctx;
    http_reply(request, is_path ? 405 : 404, NULL, NULL, text, (size_t)length);
}

static void count_done(void *ctx, const char *method, const char *path, unsigned status,
                       uint64_t bytes, uint64_t duration_ms)
{
    (void)ctx;
    (void)bytes;
    (void)duration_ms;
    assert_true(method[0] && path);
    seen.done++;
    seen.last_status = status;
}

static const struct http_route routes[] = {
    {"GET", "/hello", HTTP_NO_BODY, 0, handle_hello, NULL},
    {"GET", "/items/{id}/{name*}", HTTP_NO_BODY, 0, handle_show, "the row"},
    {"POST", "/echo", HTTP_WHOLE_BODY, 1000, handle_echo, NULL},
    {"POST", "/big", HTTP_WHOLE_BODY, BIG, handle_echo, NULL},
    {"POST", "/nobody", HTTP_NO_BODY, 0, handle_hello, NULL},
    {"PUT", "/sink", HTTP_STREAM_BODY, 0, handle_sink, NULL},
    {"PUT", "/small-sink", HTTP_STREAM_BODY, 1000, handle_sink, NULL},
    {"PUT", "/refuse", HTTP_STREAM_BODY, 0, handle_refuse, NULL},
    {"GET", "/spring", HTTP_NO_BODY, 0, handle_spring, NULL},
    {"GET", "/wait", HTTP_NO_BODY, 0, handle_wait, NULL},
    {"PUT", "/wait", HTTP_STREAM_BODY, 0, handle_wait, NULL},
};

static const struct http_server_spec spec = {
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .client_max = 20,
    .no_route = no_route,
    .done = count_done,
};

static int set_up(void **state)
{
    (void)state;
    sink_piece = 10000;
    serving_start(&spec);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (server)
        serving_stop();
    return 0;
}

static void client_routes(void)
{
    client_expect("GET /hello HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\nhello");
    must(strstr(client_ask("GET /hello HTTP/1.1\r\n" CLOSE "\r\n"), "\r\nX-Two: 2\r\n"), "X-Two");
    client_expect("HEAD /hello HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\n");
    client_expect("HEAD /spring?size=10&chunked=1 HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 OK\r\n",
                  "\r\n\r\n");
    client_expect("GET /items/a%2Fb/c/d%20e?q=1+2&r HTTP/1.1\r\nX-Thing: t\r\n" CLOSE "\r\n",
                  "HTTP/1.1 200",
                  "GET /items/a%2Fb/c/d%20e id=a/b name=c/d e row=the row header=t q=1 2 r=");
    client_expect("GET /nothing HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 404", "no route; allow=");
    client_expect("GET //hello HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 404", "no route; allow=");
    client_expect("DELETE /wait HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 405",
                  "no route; allow=GET, HEAD, PUT");
    client_expect("POST /nowhere HTTP/1.1\r\nContent-Length: 3\r\n" CLOSE "\r\nabc", "HTTP/1.1 404",
                  "allow=");
}

static void test_routes(void **state)
{
    (void)state;
    serve(client_routes);
    assert_int_equal(seen.freed, 1); /* HEAD of a stream */
    assert_int_equal(seen.done, 9);
}

static void client_bad(void)
{
    static char long_path[3 * LIMIT_HTTP_TARGET];
    static char headers[LIMIT_HTTP_HEADERS + 8192];
    size_t used;

    client_expect("GET /hello%00 HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 400", "malformed");
    client_expect("GET /hello%4 HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 400", "malformed");
    client_expect("GET hello HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 400", "malformed");
    client_expect("GET /hello HTTP/1.1\r\n\r\n", "HTTP/1.1 400", ""); /* no Host */
    client_expect("POST /echo HTTP/1.1\r\nContent-Length: -1\r\n" CLOSE "\r\n", "HTTP/1.1 4", "");
    client_expect("POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n" CLOSE "\r\n",
                  "HTTP/1.1 4", "");
    client_ask("\r\n\r\nnonsense\r\n\r\n");
    client_ask("GET\r\n\r\n");
    used = (size_t)snprintf(long_path, sizeof(long_path), "GET /");
    memset(long_path + used, 'a', LIMIT_HTTP_TARGET);
    snprintf(long_path + used + LIMIT_HTTP_TARGET, 100, " HTTP/1.1\r\n" CLOSE "\r\n");
    client_expect(long_path, "HTTP/1.1 414", "too long");
    used = (size_t)snprintf(headers, sizeof(headers), "GET /hello HTTP/1.1\r\n" CLOSE);
    while (used < LIMIT_HTTP_HEADERS)
        used += (size_t)snprintf(headers + used, 1100, "X-%zu: %01000d\r\n", used, 0);
    snprintf(headers + used, 3, "\r\n");
    client_expect(headers, "HTTP/1.1 431", "too large");
}

static void test_bad_requests(void **state)
{
    (void)state;
    serve(client_bad);
    assert_int_equal(seen.handled, 0);
}

static void client_limits(void)
{
    static char request[LIMIT_HTTP_DROP + 1000];
    int used;

    client_expect("POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" CLOSE "\r\nabc", "HTTP/1.1 201",
                  "\r\n\r\nabc");
    client_expect("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" CLOSE
                  "\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
                  "HTTP/1.1 201", "\r\n\r\nabcde");
    client_expect("POST /echo HTTP/1.1\r\nContent-Length: 0\r\n" CLOSE "\r\n", "HTTP/1.1 201",
                  "\r\n\r\n");
    client_expect("POST /echo HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 201", "\r\n\r\n");
    used = snprintf(request, sizeof(request),
                    "POST /echo HTTP/1.1\r\nContent-Length: 1001\r\n" CLOSE "\r\n%01001d", 0);
    client_expect(request, "HTTP/1.1 413", "too large");
    snprintf(request, sizeof(request),
             "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" CLOSE
             "\r\n3e8\r\n%01000d\r\n1\r\nx\r\n0\r\n\r\n",
             0);
    client_expect(request, "HTTP/1.1 413", "too large");
    client_expect("POST /nobody HTTP/1.1\r\nContent-Length: 3\r\n" CLOSE "\r\nabc", "HTTP/1.1 200",
                  "hello");
    used = snprintf(request, sizeof(request),
                    "POST /nobody HTTP/1.1\r\nContent-Length: %d\r\n" CLOSE "\r\n",
                    (int)LIMIT_HTTP_DROP + 1);
    memset(request + used, 'x', LIMIT_HTTP_DROP + 1);
    request[used + (int)LIMIT_HTTP_DROP + 1] = '\0';
    client_expect(request, "HTTP/1.1 413", "too large");
    snprintf(request, sizeof(request),
             "PUT /small-sink HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" CLOSE
             "\r\n3e9\r\n%01001d\r\n0\r\n\r\n",
             0);
    client_expect(request, "HTTP/1.1 413", "too large");
}

static void test_body_limits(void **state)
{
    (void)state;
    serve(client_limits);
    assert_int_equal(seen.handled, 6); /* four echoes, one body dropped, the small sink's begin */
    reactor->ops->timer_remove(sink_timer);
}

static void client_continue(void)
{
    char reply[4096];
    int fd = client_connect();

    /* wanted: the client waits for the word before it sends */
    client_say(
        fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    client_read_until(fd, reply, sizeof(reply), "100 Continue\r\n\r\n", 1);
    client_say(fd, "abcde");
    client_read_until(fd, reply, sizeof(reply), "\r\n\r\nabcde", 1);
    close(fd);
    /* not wanted: it hears that without having sent anything */
    client_expect(
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n",
        "HTTP/1.1 413", "too large");
    client_expect(
        "PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n",
        "HTTP/1.1 409", "not now");
    /* a body that it would take long to send is not waited for */
    client_expect("PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
                  "HTTP/1.1 409", "not now");
}

static void test_continue(void **state)
{
    (void)state;
    serve(client_continue);
    assert_int_equal(seen.handled, 3);
}

static void client_keep_alive(void)
{
    char reply[16384];
    int fd = client_connect();

    for (int i = 0; i < 5; i++) {
        client_say(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        client_read_until(fd, reply, sizeof(reply), "\r\n\r\nhello", 1);
        client_say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz");
        client_read_until(fd, reply, sizeof(reply), "\r\n\r\nxyz", 1);
        client_say(fd, "PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz");
        client_read_until(fd, reply, sizeof(reply), "\r\n\r\nnot now", 1);
    }
    /* all at once, answered in order */
    for (int i = 0; i < 20; i++)
        client_say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n(hello)"
                       "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    client_read_until(fd, reply, sizeof(reply), "hello", 40);
    close(fd);
}

static void test_keep_alive_and_pipeline(void **state)
{
    (void)state;
    serve(client_keep_alive);
    assert_int_equal(seen.handled, 55);
    assert_int_equal(seen.gone, 0);
}

static void client_half_close(void)
{
    char reply[4096];
    int fd = client_connect();

    client_say(fd, "PUT /sink?late=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    shutdown(fd, SHUT_WR);
    client_read_all(fd, reply, sizeof(reply));
    must(strstr(reply, "0 bytes"), "a reply after half a close");
    close(fd);
}

static void test_half_close(void **state)
{
    (void)state;
    serve(client_half_close);
    assert_int_equal(seen.end, 1);
}

static void client_upload(void)
{
    static unsigned char data[3000001];
    char reply[4096];
    int fd = client_connect();

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = byte_at(i);
    client_say(fd, "PUT /sink HTTP/1.1\r\n" CLOSE "Content-Length: 3000001\r\n\r\n");
    client_send(fd, data, sizeof(data));
    client_read_all(fd, reply, sizeof(reply));
    must(strstr(reply, "3000001 bytes"), "the count");
    close(fd);
    fd = client_connect();
    client_say(fd, "PUT /sink?late=1 HTTP/1.1\r\n" CLOSE "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < 100; at++) {
        client_say(fd, "64\r\n");
        client_send(fd, data + at * 100 + 0, 100);
        client_say(fd, "\r\n");
    }
    client_say(fd, "0\r\n\r\n");
    client_read_all(fd, reply, sizeof(reply));
    close(fd);
}

static void test_upload_to_slow_taker(void **state)
{
    (void)state;
    serve(client_upload);
    assert_int_equal(seen.end, 2);
    assert_int_equal(seen.body_bytes, 3000001 + 10000);
    assert_true(seen.data > 300);
}

/* Reads a reply of `size` bytes of byte_at() behind its headers, a little at a time. */
static void read_spring(const char *request, uint64_t size)
{
    static unsigned char data[40000];
    uint64_t position = 0;
    size_t have = 0;
    unsigned char *body = NULL;
    int fd = client_connect();

    client_say(fd, request);
    while (!body) {
        ssize_t count = read(fd, data + have, 1);

        must(count == 1, "headers");
        have++;
        if (have >= 4 && memcmp(data + have - 4, "\r\n\r\n", 4) == 0)
            body = data;
    }
    while (position < size) {
        ssize_t count = read(fd, data, sizeof(data));

        must(count > 0, "body");
        for (ssize_t i = 0; i < count; i++)
            must(data[i] == byte_at(position + (uint64_t)i), "byte");
        position += (uint64_t)count;
    }
    must(read(fd, data, 1) == 0, "the end");
    close(fd);
}

static void client_download(void)
{
    read_spring("GET /spring?size=5000000 HTTP/1.1\r\n" CLOSE "\r\n", 5000000);
    read_spring("GET /spring?size=5000000&slow=1 HTTP/1.1\r\n" CLOSE "\r\n", 5000000);
    /* HTTP/1.0 knows no chunks: the end of the connection is the end */
    read_spring("GET /spring?size=5000000&slow=1&chunked=1 HTTP/1.0\r\n\r\n", 5000000);
    client_expect("GET /spring?size=0&chunked=1 HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200",
                  "\r\n\r\n0\r\n\r\n");
    must(!strstr(client_ask("GET /spring?size=3&chunked=1&last=abort HTTP/1.1\r\n" CLOSE "\r\n"),
                 "0\r\n\r\n"),
         "half is not taken for the whole");
}

static void test_streamed_replies(void **state)
{
    (void)state;
    serve(client_download);
    assert_int_equal(seen.freed, 5);
    assert_int_equal(seen.done, 5);
}

static void client_big_echo(void)
{
    unsigned char *data = malloc(BIG + 1);
    int fd = client_connect();
    size_t have = 0;
    char header[256];

    for (size_t i = 0; i < BIG; i++)
        data[i] = byte_at(i);
    snprintf(header, sizeof(header), "POST /big HTTP/1.1\r\n" CLOSE "Content-Length: %llu\r\n\r\n",
             (unsigned long long)BIG);
    client_say(fd, header);
    client_send(fd, data, BIG);
    memset(data, 0, BIG);
    do {
        must(read(fd, header + have, 1) == 1, "header");
        have++;
    } while (have < 4 || memcmp(header + have - 4, "\r\n\r\n", 4) != 0);
    must(client_read_all(fd, (char *)data, BIG + 1) == BIG, "length");
    for (size_t i = 0; i < BIG; i++)
        must(data[i] == byte_at(i), "byte");
    close(fd);
    free(data);
}

static void test_big_echo(void **state)
{
    (void)state;
    serve(client_big_echo);
    assert_int_equal(seen.last_status, 201);
}

static void client_leaves(void)
{
    int fd = client_connect();

    client_say(fd, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
    sem_wait(&reached);
    close(fd);
    /* in the middle of a body that nobody takes */
    fd = client_connect();
    client_say(fd, "PUT /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nabc");
    sem_wait(&reached);
    close(fd);
}

static void test_client_leaves(void **state)
{
    (void)state;
    wanted_gone = 2;
    serve(client_leaves);
    assert_int_equal(seen.gone, 2);
    assert_int_equal(seen.handled, 2);
    serving_stop();
    assert_int_equal(seen.gone, 2);
    assert_int_equal(seen.done, 2);
}

static void client_leaves_stream(void)
{
    char reply[4096];
    int fd = client_connect();

    /* suspended: nothing more comes */
    client_say(fd, "GET /spring?size=100&chunked=1&last=never HTTP/1.1\r\nHost: x\r\n\r\n");
    sem_wait(&reached);
    close(fd);
    /* in the middle of sending */
    fd = client_connect();
    client_say(fd, "GET /spring?size=1000000000 HTTP/1.1\r\nHost: x\r\n\r\n");
    must(read(fd, reply, sizeof(reply)) > 0, "a beginning");
    close(fd);
}

static void test_client_leaves_stream(void **state)
{
    (void)state;
    wanted_freed = 2;
    serve(client_leaves_stream);
    assert_int_equal(seen.freed, 2);
    serving_stop();
    assert_int_equal(seen.freed, 2);
    assert_int_equal(seen.gone, 0);
}

static int open_fds[4];

static void client_pending(void)
{
    static const char *const requests[] = {
        "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n",
        "PUT /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
        "GET /spring?size=100&chunked=1&last=never HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /hel",
    };

    for (int i = 0; i < 4; i++) {
        open_fds[i] = client_connect();
        client_say(open_fds[i], requests[i]);
        if (i < 3)
            sem_wait(&reached);
    }
}

static void test_stop_with_pending(void **state)
{
    (void)state;
    serve(client_pending);
    assert_int_equal(http_server_clients(server) >= 3, 1);
    serving_stop();
    assert_int_equal(seen.gone, 2);
    assert_int_equal(seen.freed, 1);
    for (int i = 0; i < 4; i++)
        close(open_fds[i]);
}

static void client_many(void)
{
    int fds[20], over;
    char reply[4096];

    for (int i = 0; i < 20; i++) {
        fds[i] = client_connect();
        client_say(fds[i], "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        client_read_until(fds[i], reply, sizeof(reply), "hello", 1);
    }
    over = client_connect();
    must(read(over, reply, sizeof(reply)) <= 0, "one too many is refused");
    close(over);
    for (int i = 0; i < 20; i++)
        close(fds[i]);
}

static void client_hello(void)
{
    client_expect("GET /hello HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200", "hello");
}

static void client_refused(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0, "nobody listens");
    close(fd);
}

static void test_client_max_and_quiesce(void **state)
{
    (void)state;
    serve(client_many);
    assert_int_equal(seen.handled, 20);
    while (http_server_clients(server) > 0) { /* the loop has yet to see that they left */
        eventfd_write(finished_fd, 1);
        uv_reactor_run(reactor);
    }
    is_finished = false;
    serve(client_hello);
    http_server_quiesce(server);
    http_server_quiesce(server);
    close(listen_fd);
    listen_fd = -1;
    serve(client_refused);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_routes),
        TEST(test_bad_requests),
        TEST(test_body_limits),
        TEST(test_continue),
        TEST(test_keep_alive_and_pipeline),
        TEST(test_half_close),
        TEST(test_upload_to_slow_taker),
        TEST(test_streamed_replies),
        TEST(test_big_echo),
        TEST(test_client_leaves),
        TEST(test_client_leaves_stream),
        TEST(test_stop_with_pending),
        TEST(test_client_max_and_quiesce),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
