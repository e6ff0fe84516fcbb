/*
 * serving.h - a server on a unix socket, or on loopback (is_tcp), in this process: the reactor runs
 * here, blocking clients run in a thread beside it. What handlers saw is counted in `seen`.
 */
#ifndef BAILEY_TESTS_HTTP_SERVING_H
#define BAILEY_TESTS_HTTP_SERVING_H

#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <malloc.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "broker/uv_reactor.h"
#include "http/server.h"

static struct {
    int gone, freed, done, handled, data, end;
    unsigned last_status;
    uint64_t body_bytes;
    bool is_body_right;
    size_t allocated; /* while a stream waited */
} seen;

/* Bytes that malloc has given out; 0 under sanitizers, which have their own. */
static inline size_t allocated_now(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static struct reactor *reactor;
static struct http_server *server;
static int listen_fd = -1;
static struct sockaddr_un address;
static bool is_tcp; /* for the next serving_start() */
static struct sockaddr_in tcp_address;
static int (*client_wrap)(int fd); /* what a client has in place of its connection; NULL: that */
static int finished_fd = -1;
static sem_t reached; /* a handler got there */
static bool is_finished;
static int wanted_gone, wanted_freed; /* the reactor runs until the client ended and these came */

static inline void stop_when_all_came(void)
{
    if (is_finished && seen.gone >= wanted_gone && seen.freed >= wanted_freed)
        uv_reactor_stop(reactor);
}

static inline void on_finished(void *ctx, short events)
{
    uint64_t count;

    (void)ctx;
    (void)events;
    if (read(finished_fd, &count, sizeof(count)) == sizeof(count))
        is_finished = true;
    stop_when_all_came();
}

static inline void listen_local(void)
{
    address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/bailey-http-%d.sock", getpid());
    unlink(address.sun_path);
    listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

static inline void listen_tcp(void)
{
    socklen_t length = sizeof(tcp_address);

    tcp_address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listen_fd, (struct sockaddr *)&tcp_address, length), 0);
    assert_int_equal(getsockname(listen_fd, (struct sockaddr *)&tcp_address, &length), 0);
}

static inline void serving_start(const struct http_server_spec *wanted)
{
    struct http_server_spec spec = *wanted;
    struct error err = {0};

    memset(&seen, 0, sizeof(seen));
    is_finished = false;
    wanted_gone = wanted_freed = 0;
    sem_init(&reached, 0, 0);
    assert_int_equal(uv_reactor_new(&reactor, &err), 0);
    finished_fd = eventfd(0, EFD_CLOEXEC);
    assert_true(finished_fd >= 0);
    assert_non_null(reactor_watch(reactor, finished_fd, POLLIN, on_finished, NULL));
    if (is_tcp)
        listen_tcp();
    else
        listen_local();
    assert_int_equal(listen(listen_fd, 128), 0);
    spec.listen_fd = listen_fd;
    assert_int_equal(http_server_start(reactor, &spec, &server, &err), 0);
}

static inline void serving_stop(void)
{
    http_server_stop(server);
    server = NULL;
    uv_reactor_free(reactor);
    reactor = NULL;
    if (!is_tcp)
        unlink(address.sun_path);
    close(listen_fd);
    close(finished_fd);
    sem_destroy(&reached);
}

static inline void *run_client(void *ctx)
{
    void (*client)(void) = *(void (**)(void))ctx;

    client();
    eventfd_write(finished_fd, 1);
    return NULL;
}

/* Runs the client beside the reactor until it returned and what it causes was seen. */
static inline void serve(void (*client)(void))
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run_client, &client), 0);
    assert_int_equal(uv_reactor_run(reactor), 0);
    pthread_join(thread, NULL);
    is_finished = false;
}

/* ---- for clients; they have no assertions, those are not for threads: what fails aborts ---------
 */

static inline void must(bool is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "client: %s (errno %d)\n", what, errno);
        abort();
    }
}

static inline int client_connect(void)
{
    int fd = socket(is_tcp ? AF_INET : AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const void *to = is_tcp ? (void *)&tcp_address : (void *)&address;

    must(connect(fd, to, is_tcp ? sizeof(tcp_address) : sizeof(address)) == 0, "connect");
    return client_wrap ? client_wrap(fd) : fd;
}

static inline void client_send(int fd, const void *data, size_t length)
{
    const char *at = data;

    while (length > 0) {
        ssize_t sent = send(fd, at, length, MSG_NOSIGNAL);

        must(sent > 0, "send");
        at += sent;
        length -= (size_t)sent;
    }
}

static inline void client_say(int fd, const char *text)
{
    client_send(fd, text, strlen(text));
}

/* Reads until the end of the stream; for replies with "Connection: close". */
static inline size_t client_read_all(int fd, char *data, size_t size)
{
    size_t length = 0;
    ssize_t count;

    while (length < size - 1 && (count = read(fd, data + length, size - 1 - length)) > 0)
        length += (size_t)count;
    data[length] = '\0';
    return length;
}

/* Reads until `text` has come `times` times. */
static inline void client_read_until(int fd, char *data, size_t size, const char *text, int times)
{
    size_t length = 0;

    for (;;) {
        ssize_t count = read(fd, data + length, size - 1 - length);
        int found = 0;

        must(count > 0, text);
        length += (size_t)count;
        data[length] = '\0';
        for (const char *at = data; (at = strstr(at, text)); at += strlen(text))
            found++;
        if (found >= times)
            return;
    }
}

/* One request on its own connection; the reply as text in memory that the next one reuses. */
static inline const char *client_ask(const char *request)
{
    static char reply[1 << 18];
    int fd = client_connect();

    client_say(fd, request);
    client_read_all(fd, reply, sizeof(reply));
    close(fd);
    return reply;
}

static inline void client_expect(const char *request, const char *start, const char *end)
{
    const char *reply = client_ask(request);
    size_t length = strlen(reply);

    if (strncmp(reply, start, strlen(start)) != 0 || length < strlen(end) ||
        strcmp(reply + length - strlen(end), end) != 0) {
        fprintf(stderr, "client: for\n%.300s\ngot\n%.300s\n", request, reply);
        abort();
    }
}

#endif
