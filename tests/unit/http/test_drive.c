/*
 * test_drive.c - a client in a reactor's loop: calls, connections that HTTP lets go of, and who is
 * not there. The server is a thread that knows three requests.
 */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/client.h"
#include "http/stream.h"
#include "reactor.h"

static struct sockaddr_un address;
static char url[160];
static int listen_fd;
static pthread_t thread;
static struct poll_reactor loop;
static struct http_client *client;
static _Atomic unsigned bombs;

static void say(int fd, const char *text)
{
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
        return;
}

/* Whatever comes goes back, until it ends. */
static void echo(int fd)
{
    char data[4096];
    ssize_t length;

    /* The head and the first bytes behind it come as one. */
    say(fd, "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\nearly");
    while ((length = recv(fd, data, sizeof(data), 0)) > 0) {
        if (send(fd, data, (size_t)length, MSG_NOSIGNAL) < 0)
            break;
    }
}

/* Heads without an end, until nobody listens any more. */
static void bomb(int fd, const char *first, const char *again)
{
    say(fd, first);
    for (int i = 0; i < 1000000; i++) {
        if (send(fd, again, strlen(again), MSG_NOSIGNAL) < 0)
            return;
        bombs++;
    }
}

static void *serve_one(void *ctx)
{
    int fd = *(int *)ctx;
    char head[4096] = "";
    size_t have = 0;

    free(ctx);
    while (!strstr(head, "\r\n\r\n")) {
        ssize_t length = recv(fd, head + have, sizeof(head) - 1 - have, 0);

        if (length <= 0)
            break;
        have += (size_t)length;
        head[have] = 0;
    }
    if (strncmp(head, "GET /hello", 10) == 0)
        say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    else if (strncmp(head, "POST /attach", 12) == 0 && strstr(head, "Upgrade: tcp\r\n"))
        echo(fd);
    else if (strncmp(head, "GET /headers", 12) == 0)
        bomb(fd, "HTTP/1.1 200 OK\r\n", "X-Header: again and again\r\n");
    else if (strncmp(head, "GET /continue", 13) == 0)
        bomb(fd, "", "HTTP/1.1 100 Continue\r\n\r\n");
    else if (strncmp(head, "POST /nonsense", 14) == 0)
        say(fd, "what?\r\n\r\n");
    else if (head[0])
        say(fd, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
    close(fd);
    return NULL;
}

static void *serve_all(void *ctx)
{
    int fd;

    (void)ctx;
    while ((fd = accept(listen_fd, NULL, NULL)) >= 0) {
        int *given = malloc(sizeof(*given));
        pthread_t one;

        *given = fd;
        pthread_create(&one, NULL, serve_one, given);
        pthread_detach(one);
    }
    return NULL;
}

static int set_up(void **state)
{
    struct http_place place = {.address = url};

    (void)state;
    poll_reactor_init(&loop);
    address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/bailey-drive-%d.sock", getpid());
    snprintf(url, sizeof(url), "unix://%s", address.sun_path);
    unlink(address.sun_path);
    listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listen_fd, 16), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve_all, NULL), 0);
    place.reactor = &loop.reactor;
    assert_int_equal(http_client_open_at(&place, &client, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    http_client_close(client);
    shutdown(listen_fd, SHUT_RDWR);
    pthread_join(thread, NULL);
    close(listen_fd);
    unlink(address.sun_path);
    poll_reactor_free(&loop);
    return 0;
}

/* ---- calls ---- */

struct told {
    unsigned done, status;
    int num;
    char body[64];
};

static int keep_data(void *ctx, const void *data, size_t length)
{
    struct told *told = ctx;

    if (strlen(told->body) + length >= sizeof(told->body))
        return -1;
    strncat(told->body, data, length);
    return 0;
}

static void keep_done(void *ctx, unsigned status, const struct error *err)
{
    struct told *told = ctx;

    told->done++;
    told->status = status;
    told->num = err->num;
}

static const struct http_call_events keeps = {.data = keep_data, .done = keep_done};

static void test_calls_go_on_at_once(void **state)
{
    struct told told[8] = {0};
    unsigned done = 0;

    (void)state;
    for (int i = 0; i < 8; i++) {
        struct http_call call = {.method = "GET", .path = i % 2 ? "/hello" : "/other"};

        assert_int_equal(http_call_start(client, &call, &keeps, &told[i], NULL, NULL), 0);
    }
    while (done < 8) {
        poll_reactor_turn(&loop, -1);
        done = 0;
        for (int i = 0; i < 8; i++)
            done += told[i].done;
    }
    for (int i = 0; i < 8; i++) {
        assert_int_equal(told[i].done, 1);
        assert_int_equal(told[i].num, 0);
        assert_int_equal(told[i].status, i % 2 ? 200 : 404);
        assert_string_equal(told[i].body, i % 2 ? "hello" : "no");
    }
}

static void test_a_cancelled_call_says_nothing(void **state)
{
    struct told told[2] = {0};
    struct http_call call = {.method = "GET", .path = "/hello"};
    struct http_exchange *exchange;

    (void)state;
    assert_int_equal(http_call_start(client, &call, &keeps, &told[0], &exchange, NULL), 0);
    assert_int_equal(http_call_start(client, &call, &keeps, &told[1], NULL, NULL), 0);
    http_call_cancel(exchange);
    while (!told[1].done)
        poll_reactor_turn(&loop, -1);
    assert_int_equal(told[0].done, 0);
}

/* libcurl keeps every header, whatever we do with it. */
static void test_a_head_without_an_end(void **state)
{
    static const char *const paths[] = {"/headers", "/continue"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct http_call call = {.method = "GET", .path = paths[i]};
        struct told told = {0};

        bombs = 0;
        assert_int_equal(http_call_start(client, &call, &keeps, &told, NULL, NULL), 0);
        while (!told.done)
            poll_reactor_turn(&loop, -1);
        assert_true(told.num < 0);
        assert_true(bombs < 500000);
    }
}

static int number_of(const char *where)
{
    struct http_place place = {.address = where, .reactor = &loop.reactor};
    struct http_call call = {.method = "GET", .path = "/hello"};
    struct told told = {0};
    struct http_client *other;

    assert_int_equal(http_client_open_at(&place, &other, NULL), 0);
    assert_int_equal(http_call_start(other, &call, &keeps, &told, NULL, NULL), 0);
    while (!told.done)
        poll_reactor_turn(&loop, -1);
    http_client_close(other);
    return told.num;
}

static void test_who_is_not_there(void **state)
{
    bool is_root = geteuid() == 0;

    (void)state;
    assert_int_equal(number_of("unix:///nowhere/at/all"), -ENOENT);
    assert_int_equal(number_of("tcp://127.0.0.1:1"), -ECONNREFUSED);
    assert_int_equal(chmod(address.sun_path, 0), 0);
    if (is_root)
        assert_int_equal(seteuid(65534), 0);
    assert_int_equal(number_of(url), -EACCES);
    if (is_root)
        assert_int_equal(seteuid(0), 0);
}

static void test_addresses(void **state)
{
    static const char *const bad[] = {"",           "/a/path",   "unix://relative", "tcp://",
                                      "tcp://a b",  "ftp://a:1", "tcp://a:1/path",  "tcp://u@a:1",
                                      "tcp://a:1?q"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct http_place place = {.address = bad[i]};
        struct http_client *other;
        struct error err = {0};

        assert_int_equal(http_client_open_at(&place, &other, &err), -EINVAL);
        assert_ptr_equal(err.code, ERROR_BAD_CONFIG);
    }
}

/* ---- streams ---- */

struct watched {
    struct http_stream *stream;
    unsigned opened, failed, status;
    int num;
    struct buf got;
    bool has_ended, is_lazy;
};

static void on_opened(void *ctx, unsigned status)
{
    struct watched *watched = ctx;

    watched->opened++;
    watched->status = status;
}

static void on_failed(void *ctx, const struct error *err)
{
    struct watched *watched = ctx;

    watched->failed++;
    watched->num = err->num;
}

static void take_all(struct watched *watched)
{
    char data[1000];
    ssize_t length;

    while ((length = http_stream_read(watched->stream, data, sizeof(data))) > 0)
        assert_int_equal(buf_append(&watched->got, data, (size_t)length), 0);
    watched->has_ended = length != -EAGAIN;
}

static void on_ready(void *ctx, short events)
{
    struct watched *watched = ctx;

    (void)events;
    if (!watched->is_lazy)
        take_all(watched);
}

static const struct http_stream_events stream_events = {on_opened, on_failed, on_ready};

static void open_stream(struct watched *watched, const char *path)
{
    struct http_call call = {.method = "POST", .path = path};

    *watched = (struct watched){.got = BUF_INIT(1000000)};
    assert_int_equal(
        http_stream_open(client, &call, &stream_events, watched, &watched->stream, NULL), 0);
    while (!watched->opened && !watched->failed)
        poll_reactor_turn(&loop, -1);
}

static void test_bytes_both_ways(void **state)
{
    struct watched watched;

    (void)state;
    open_stream(&watched, "/attach");
    assert_int_equal(watched.status, 101);
    take_all(&watched);
    assert_string_equal(buf_text(&watched.got), "early");
    for (int i = 0; i < 100; i++)
        assert_int_equal(http_stream_write(watched.stream, "0123456789", 10), 10);
    while (watched.got.length < 1005)
        poll_reactor_turn(&loop, -1);
    assert_memory_equal(watched.got.data + 995, "0123456789", 10);
    http_stream_close(watched.stream);
    poll_reactor_turn(&loop, 0);
    buf_free(&watched.got);
}

static void test_a_stream_that_is_refused(void **state)
{
    struct watched watched;

    (void)state;
    open_stream(&watched, "/other");
    assert_int_equal(watched.status, 404);
    while (!watched.has_ended)
        poll_reactor_turn(&loop, -1);
    assert_string_equal(buf_text(&watched.got), "no");
    http_stream_close(watched.stream);
    buf_free(&watched.got);
    open_stream(&watched, "/nonsense");
    assert_int_equal(watched.failed, 1);
    assert_int_equal(watched.num, -EPROTO);
    http_stream_close(watched.stream);
}

/* libcurl looks once a second for idle connections whose other side has gone, or that are old, and
 * closes them. A stream is none: its number would then be a socket of somebody else's. */
static void test_a_stream_is_not_libcurls(void **state)
{
    uint64_t until_ns = clock_now_ns() + 1200 * 1000000ull;
    struct watched first, others[3];

    (void)state;
    open_stream(&first, "/other");
    first.is_lazy = true;
    while (clock_now_ns() < until_ns)
        poll_reactor_turn(&loop, 10);
    for (int i = 0; i < 3; i++)
        open_stream(&others[i], "/attach");
    take_all(&first);
    assert_true(first.has_ended);
    assert_string_equal(buf_text(&first.got), "no");
    http_stream_close(first.stream);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(http_stream_write(others[i].stream, "still here", 10), 10);
        while (others[i].got.length < 15 && !others[i].has_ended)
            poll_reactor_turn(&loop, -1);
        assert_string_equal(buf_text(&others[i].got), "earlystill here");
        http_stream_close(others[i].stream);
        buf_free(&others[i].got);
    }
    poll_reactor_turn(&loop, 0);
    buf_free(&first.got);
}

/* A client that is closed takes everything with it. */
static void test_closing_takes_all(void **state)
{
    struct http_place place = {.address = url, .reactor = &loop.reactor};
    struct http_call call = {.method = "POST", .path = "/attach"};
    struct watched watched = {.got = BUF_INIT(1000)};
    struct told told = {0};
    struct http_client *other;

    (void)state;
    assert_int_equal(http_client_open_at(&place, &other, NULL), 0);
    assert_int_equal(
        http_stream_open(other, &call, &stream_events, &watched, &watched.stream, NULL), 0);
    while (!watched.opened)
        poll_reactor_turn(&loop, -1);
    call = (struct http_call){.method = "GET", .path = "/hello"};
    assert_int_equal(http_call_start(other, &call, &keeps, &told, NULL, NULL), 0);
    http_client_close(other);
    assert_int_equal(told.done, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calls_go_on_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_cancelled_call_says_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_head_without_an_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_who_is_not_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_addresses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bytes_both_ways, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_stream_that_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_stream_is_not_libcurls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_closing_takes_all, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
