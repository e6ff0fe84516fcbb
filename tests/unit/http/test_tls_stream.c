/*
 * test_tls_stream.c - connections that HTTP lets go of, over TLS: what was decoded and not read,
 * and what can be wrong with a certificate. The server is a thread for each connection.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/client.h"
#include "http/stream.h"
#include "identity.h"
#include "reactor.h"

#define RECORD 16000 /* bytes in one record of TLS */
#define LINES 200    /* records of a flood */

static struct identity own, other;
static gnutls_certificate_credentials_t credentials;
static bool wants_certificate;
static int listen_fd;
static char url[64], folder[64];
static pthread_t thread;
static struct poll_reactor loop;
static struct http_client *client;

/* ---- the server ---- */

static void say(gnutls_session_t session, const char *text, size_t length)
{
    while (length > 0) {
        ssize_t sent = gnutls_record_send(session, text, length);

        if (sent <= 0)
            return;
        text += sent;
        length -= (size_t)sent;
    }
}

static void answer(int fd, gnutls_session_t session, const char *head)
{
    static const struct linger at_once = {.l_onoff = 1};
    static const char upgraded[] = "HTTP/1.1 101 UPGRADED\r\n\r\n";
    static const char hello[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    char record[RECORD];
    ssize_t length;

    memset(record, 'x', sizeof(record));
    if (strncmp(head, "GET /hello", 10) == 0) {
        say(session, hello, sizeof(hello) - 1);
        return;
    }
    say(session, upgraded, sizeof(upgraded) - 1);
    if (strncmp(head, "POST /once", 10) == 0) {
        say(session, record, sizeof(record));
        gnutls_record_recv(session, record, 1); /* it has been read from */
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    }
    for (int i = 0; i < LINES && strncmp(head, "POST /flood", 11) == 0; i++)
        say(session, record, sizeof(record));
    while (strncmp(head, "POST /echo", 10) == 0 &&
           (length = gnutls_record_recv(session, record, sizeof(record))) > 0)
        say(session, record, (size_t)length);
}

static void *serve_one(void *ctx)
{
    int fd = *(int *)ctx;
    char head[4096] = "";
    gnutls_session_t session;
    ssize_t length;
    int r;

    free(ctx);
    gnutls_init(&session, GNUTLS_SERVER);
    gnutls_set_default_priority(session);
    gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
    gnutls_certificate_server_set_request(session, wants_certificate ? GNUTLS_CERT_REQUIRE
                                                                     : GNUTLS_CERT_IGNORE);
    gnutls_transport_set_int(session, fd);
    while ((r = gnutls_handshake(session)) < 0 && !gnutls_error_is_fatal(r))
        ;
    if (r < 0)
        gnutls_alert_send_appropriate(session, r);
    else if ((length = gnutls_record_recv(session, head, sizeof(head) - 1)) > 0)
        answer(fd, session, head);
    /* Without a word of TLS at the end, as one that is killed leaves. */
    if (strncmp(head, "POST /once", 10) != 0) {
        shutdown(fd, SHUT_WR);
        while (recv(fd, head, sizeof(head), 0) > 0)
            ;
    }
    gnutls_deinit(session);
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

static void serve(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    gnutls_datum_t certificate = {(void *)own.certificate, (unsigned)strlen(own.certificate)};
    gnutls_datum_t key = {(void *)own.key, (unsigned)strlen(own.key)};

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!credentials) { /* for all tests: a connection's thread may outlive its own */
        gnutls_certificate_allocate_credentials(&credentials);
        assert_int_equal(gnutls_certificate_set_x509_key_mem(credentials, &certificate, &key,
                                                             GNUTLS_X509_FMT_PEM),
                         0);
    }
    listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listen_fd, 16), 0);
    assert_int_equal(getsockname(listen_fd, (struct sockaddr *)&address, &length), 0);
    snprintf(url, sizeof(url), "tcp://127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
    assert_int_equal(pthread_create(&thread, NULL, serve_all, NULL), 0);
}

/* ---- around each test ---- */

static void put(const char *name, const char *text)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void drop(const char *name)
{
    char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    unlink(path);
}

static int set_up(void **state)
{
    struct http_place place = {.address = url, .tls_folder = folder};

    (void)state;
    wants_certificate = false;
    poll_reactor_init(&loop);
    snprintf(folder, sizeof(folder), "/tmp/bailey-tls-%d-XXXXXX", getpid());
    assert_non_null(mkdtemp(folder));
    put("ca.pem", own.certificate);
    serve();
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
    drop("ca.pem");
    drop("cert.pem");
    drop("key.pem");
    rmdir(folder);
    poll_reactor_free(&loop);
    return 0;
}

/* ---- streams ---- */

struct watched {
    struct http_stream *stream;
    unsigned opened, failed;
    uint64_t got;
    bool is_lazy, has_ended;
};

static void on_opened(void *ctx, unsigned status)
{
    assert_int_equal(status, 101);
    ((struct watched *)ctx)->opened++;
}

static void on_failed(void *ctx, const struct error *err)
{
    (void)err;
    ((struct watched *)ctx)->failed++;
}

static ssize_t take(struct watched *watched, size_t most)
{
    char data[1000];
    ssize_t length =
        http_stream_read(watched->stream, data, most < sizeof(data) ? most : sizeof(data));

    for (ssize_t i = 0; i < length; i++)
        assert_int_equal(data[i], 'x');
    watched->got += length > 0 ? (uint64_t)length : 0;
    watched->has_ended = length <= 0 && length != -EAGAIN;
    return length;
}

static void on_ready(void *ctx, short events)
{
    struct watched *watched = ctx;

    (void)events;
    while (!watched->is_lazy && take(watched, SIZE_MAX) > 0)
        ;
}

static const struct http_stream_events stream_events = {on_opened, on_failed, on_ready};

static void open_stream(struct watched *watched, const char *path, bool is_lazy)
{
    struct http_call call = {.method = "POST", .path = path};

    *watched = (struct watched){.is_lazy = is_lazy};
    assert_int_equal(
        http_stream_open(client, &call, &stream_events, watched, &watched->stream, NULL), 0);
    while (!watched->opened && !watched->failed)
        poll_reactor_turn(&loop, -1);
    assert_int_equal(watched->failed, 0);
}

static void test_bytes_both_ways(void **state)
{
    static char line[2 * RECORD];
    struct watched watched;
    size_t sent = 0;

    (void)state;
    memset(line, 'x', sizeof(line));
    open_stream(&watched, "/echo", false);
    while (sent < sizeof(line)) {
        ssize_t part = http_stream_write(watched.stream, line + sent, sizeof(line) - sent);

        assert_true(part > 0 || part == -EAGAIN);
        sent += part > 0 ? (size_t)part : 0;
        poll_reactor_turn(&loop, 0);
    }
    while (watched.got < sizeof(line))
        poll_reactor_turn(&loop, -1);
    assert_int_equal(watched.got, sizeof(line));
    http_stream_close(watched.stream);
    poll_reactor_turn(&loop, 0);
}

static void test_a_flood_is_whole(void **state)
{
    struct watched watched;

    (void)state;
    open_stream(&watched, "/flood", false);
    while (take(&watched, SIZE_MAX) > 0)
        ;
    while (!watched.has_ended)
        poll_reactor_turn(&loop, -1);
    assert_int_equal(watched.got, (uint64_t)LINES * RECORD);
    http_stream_close(watched.stream);
}

/* ---- calls ---- */

struct told {
    unsigned done;
    int num;
    char text[ERROR_TEXT_MAX];
};

static void keep_done(void *ctx, unsigned status, const struct error *err)
{
    struct told *told = ctx;

    (void)status;
    told->done++;
    told->num = err->num;
    snprintf(told->text, sizeof(told->text), "%s", err->text);
}

static const struct http_call_events keeps = {.done = keep_done};

static void call(struct http_client *which, struct told *told)
{
    struct http_call hello = {.method = "GET", .path = "/hello"};

    *told = (struct told){0};
    assert_int_equal(http_call_start(which, &hello, &keeps, told, NULL, NULL), 0);
    while (!told->done)
        poll_reactor_turn(&loop, -1);
}

/* libcurl looks once a second for idle connections whose other side has gone, and closes them. A
 * stream is none of them: what was decoded of it can still be read. */
static void test_a_stream_is_not_looked_through(void **state)
{
    uint64_t until_ns = clock_now_ns() + 1200 * 1000000ull;
    struct watched first, second;
    struct told told;

    (void)state;
    open_stream(&first, "/once", true);
    while (first.got < 100) {
        poll_reactor_turn(&loop, -1);
        take(&first, 100 - first.got);
    }
    http_stream_want(first.stream, 0);
    assert_int_equal(http_stream_write(first.stream, "x", 1), 1);
    while (clock_now_ns() < until_ns)
        poll_reactor_turn(&loop, 10);
    call(client, &told);
    assert_int_equal(told.num, 0);
    open_stream(&second, "/echo", false);
    while (take(&first, SIZE_MAX) > 0)
        ;
    assert_int_equal(first.got, RECORD);
    assert_true(first.has_ended);
    http_stream_close(first.stream);
    http_stream_close(second.stream);
}

static void test_closing_takes_all(void **state)
{
    struct http_call open = {.method = "POST", .path = "/echo"};
    struct watched watched, young = {0};

    (void)state;
    open_stream(&watched, "/echo", false);
    assert_int_equal(http_stream_open(client, &open, &stream_events, &young, &young.stream, NULL),
                     0); /* and tear_down() closes the client */
}

/* ---- what can be wrong ---- */

static void expect(const char *where, int num, const char *says)
{
    struct http_place place = {.address = where, .tls_folder = folder, .reactor = &loop.reactor};
    struct http_client *another;
    struct told told;

    assert_int_equal(http_client_open_at(&place, &another, NULL), 0);
    call(another, &told);
    assert_int_equal(told.num, num);
    if (says)
        assert_non_null(strstr(told.text, says));
    http_client_close(another);
}

static void test_who_the_server_is(void **state)
{
    char named[64];

    (void)state;
    expect(url, 0, NULL);
    snprintf(named, sizeof(named), "tcp://localhost:%s", strrchr(url, ':') + 1);
    expect(named, -EREMCHG, "another name");
    put("ca.pem", other.certificate);
    expect(url, -EKEYREJECTED, "cannot be verified with");
    drop("ca.pem");
    expect(url, -ENOKEY, "cannot be used");
}

static void test_who_we_are(void **state)
{
    (void)state;
    wants_certificate = true;
    expect(url, -ENOKEY, "no cert.pem");
    put("cert.pem", other.certificate);
    put("key.pem", own.key);
    expect(url, -ENOKEY, "cannot be used");
    put("key.pem", other.key);
    expect(url, 0, NULL);
}

/* https without a folder is for those that this machine's authorities vouch for, always. */
static void test_nobody_is_believed_without_a_folder(void **state)
{
    char address[80];
    struct http_place place = {.address = address, .is_unverified = true, .reactor = &loop.reactor};
    struct http_client *another;
    struct told told;

    (void)state;
    snprintf(address, sizeof(address), "https%s", url + 3);
    assert_int_equal(http_client_open_at(&place, &another, NULL), 0);
    call(another, &told);
    assert_true(told.num == -EKEYREJECTED || told.num == -ENOKEY); /* or there are none at all */
    http_client_close(another);
}

static void *refuse_tls(void *ctx)
{
    int fd = accept(*(int *)ctx, NULL, NULL);
    char data[4096];

    if (recv(fd, data, sizeof(data), 0) > 0)
        dprintf(fd, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\nno");
    shutdown(fd, SHUT_WR);
    while (recv(fd, data, sizeof(data), 0) > 0)
        ;
    close(fd);
    return NULL;
}

static void test_who_speaks_no_tls(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof(address);
    char where[64];
    pthread_t plain;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    snprintf(where, sizeof(where), "tcp://127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
    assert_int_equal(pthread_create(&plain, NULL, refuse_tls, &fd), 0);
    expect(where, -EPROTOTYPE, "does not use TLS");
    pthread_join(plain, NULL);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bytes_both_ways, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_flood_is_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_stream_is_not_looked_through, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_closing_takes_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_who_the_server_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_who_we_are, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nobody_is_believed_without_a_folder, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_who_speaks_no_tls, set_up, tear_down),
    };

    signal(SIGPIPE, SIG_IGN);
    make_identity(&own, "own");
    make_identity(&other, "other");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
