/*
 * test_tcp.c - the server over TCP, with raw bytes: smuggling, Hosts and Origins, preflights,
 * clients that are slow or go halfway.
 */
#include "handlers.h"

static const char *hosts[] = {"localhost", NULL};
static const char *origins[] = {"https://app.example", NULL};
static struct http_browsers browsers = {hosts, origins};

static void handle_peer(struct http_request *request, void *ctx)
{
    const char *peer = http_peer(request);

    (void)ctx;
    seen.handled++;
    seen.is_body_right = !http_is_local(request) && strncmp(peer, "127.0.0.1:", 10) == 0;
    http_reply(request, 200, NULL, NULL, "peer", 4);
}

static void handle_full(struct http_request *request, void *ctx)
{
    static const char *const headers[] = {"Retry-After: 1", NULL};

    (void)ctx;
    seen.handled++;
    http_reply(request, 429, NULL, headers, "full", 4);
}

static const struct http_route tcp_routes[] = {
    {"GET", "/hello", HTTP_NO_BODY, 0, handle_hello, NULL, NULL},
    {"GET", "/peer", HTTP_NO_BODY, 0, handle_peer, NULL, NULL},
    {"POST", "/echo", HTTP_WHOLE_BODY, 1000, handle_echo, NULL, NULL},
    {"PUT", "/sink", HTTP_STREAM_BODY, 0, handle_sink, NULL, NULL},
    {"GET", "/wait", HTTP_NO_BODY, 0, handle_wait, NULL, NULL},
    {"GET", "/full", HTTP_NO_BODY, 0, handle_full, NULL, NULL},
    {"POST", "/full", HTTP_WHOLE_BODY, 1000, handle_full, NULL, NULL},
};

static int begin(bool tcp, unsigned head_ms)
{
    struct http_server_spec tcp_spec = {
        .routes = tcp_routes,
        .route_count = ARRAY_SIZE(tcp_routes),
        .client_max = 20,
        .no_route = no_route,
        .browsers = tcp ? &browsers : NULL,
        .head_ms = head_ms,
    };

    is_tcp = tcp;
    sink_piece = 10000;
    serving_start(&tcp_spec);
    return 0;
}

static int set_up_tcp(void **state)
{
    (void)state;
    return begin(true, 0);
}

static int set_up_hasty(void **state)
{
    (void)state;
    return begin(true, 20);
}

static int set_up_hasty_local(void **state)
{
    (void)state;
    return begin(false, 20);
}

#define LOCAL "Host: localhost\r\n"
#define OVER "Connection: close\r\n"

static void ask_who(void)
{
    client_expect("GET /peer HTTP/1.1\r\n" LOCAL OVER "\r\n", "HTTP/1.1 200", "peer");
}

static void a_peer_has_its_address(void **state)
{
    (void)state;
    serve(ask_who);
    assert_true(seen.is_body_right);
}

/* Each has a second request behind it, which must not be heard. */
#define SECOND "GET /hello HTTP/1.1\r\n" LOCAL "\r\n"
static const char *const smuggled[] = {
    "POST /echo HTTP/1.1\r\n" LOCAL
    "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SECOND,
    "POST /echo HTTP/1.1\r\n" LOCAL
    "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" SECOND,
    "POST /echo HTTP/1.1\r\n" LOCAL "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd" SECOND,
    "POST /echo HTTP/1.1\r\n" LOCAL "Content-Length: 0\r\nContent-Length: 44\r\n\r\n" SECOND,
    "POST /echo HTTP/1.1\r\n" LOCAL "Content-Length: +4\r\n\r\nabcd" SECOND,
    "POST /echo HTTP/1.1\r\n" LOCAL "Content-Length: 4,4\r\n\r\nabcd" SECOND,
    "POST /echo HTTP/1.1\r\n" LOCAL "Content-Length: 0x4\r\n\r\nabcd" SECOND,
    "POST /echo HTTP/1.1\r\n" LOCAL "Transfer-Encoding: gzip\r\n\r\n" SECOND,
    "POST /echo HTTP/1.1\r\n" LOCAL "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" SECOND,
    "POST /echo HTTP/1.1\r\n" LOCAL "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" SECOND,
    "POST /echo HTTP/1.1\r\n" LOCAL "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n" SECOND,
    "POST /echo HTTP/1.1\r\n" LOCAL "Transfer-Encoding:\vchunked\r\n\r\n0\r\n\r\n" SECOND,
    "POST /echo HTTP/1.0\r\n" LOCAL "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" SECOND,
    "GET /hello HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n" SECOND,
    "GET /hello HTTP/1.1\r\nHost: localhost\r\nhOST: evil\r\n\r\n" SECOND,
    "GET /hello HTTP/1.1\r\nHost: local/host\r\n\r\n" SECOND,
    "GET /hello HTTP/1.1\r\n\r\n" SECOND,
    "GET http://localhost/hello HTTP/1.1\r\n" LOCAL OVER "\r\n",
};

/* Also with one byte at a time. */
static const char *send_bytes(const char *request)
{
    static char reply[1 << 16];
    int fd = client_connect();

    for (const char *at = request; *at; at++) {
        if (send(fd, at, 1, MSG_NOSIGNAL) != 1)
            break; /* it was refused before its end */
    }
    client_read_all(fd, reply, sizeof(reply));
    close(fd);
    return reply;
}

/* Some are refused by libmicrohttpd itself, by 0.9.75 with its head twice. */
static void expect_refusal(const char *request, const char *reply)
{
    if (strncmp(reply, "HTTP/1.1 400", 12) != 0 || strstr(reply, "HTTP/1.1 200") ||
        strstr(reply, "hello")) {
        fprintf(stderr, "client: for\n%.300s\ngot\n%.500s\n", request, reply);
        abort();
    }
}

static void smuggle(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(smuggled); i++) {
        expect_refusal(smuggled[i], client_ask(smuggled[i]));
        expect_refusal(smuggled[i], send_bytes(smuggled[i]));
    }
}

static void what_two_servers_read_differently_is_refused(void **state)
{
    (void)state;
    serve(smuggle);
    assert_int_equal(seen.handled, 0);
}

#define CHUNKED "POST /echo HTTP/1.1\r\n" LOCAL OVER "Transfer-Encoding: chunked\r\n\r\n"

static void play_with_chunks(void)
{
    static const char *const bad[] = {
        CHUNKED "0x3\r\nabc\r\n0\r\n\r\n", CHUNKED "-3\r\nabc\r\n0\r\n\r\n",
        CHUNKED "3 3\r\nabc\r\n0\r\n\r\n", CHUNKED "\r\nabc\r\n0\r\n\r\n",
        CHUNKED "3\r\nabcXX0\r\n\r\n",     CHUNKED "fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    };

    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        const char *reply = i % 2 ? client_ask(bad[i]) : send_bytes(bad[i]);

        must(strncmp(reply, "HTTP/1.1 4", 10) == 0 || reply[0] == '\0', "a bad chunk is refused");
    }
    client_expect(CHUNKED "3\r\nabc\r\n0\r\nHost: evil\r\n\r\n", "HTTP/1.1 201", "abc");
    client_expect(CHUNKED "000000003\r\nabc\r\n1\r\nd\r\n0\r\n\r\n", "HTTP/1.1 201", "abcd");
}

static void chunks_are_what_they_say(void **state)
{
    (void)state;
    serve(play_with_chunks);
    assert_int_equal(seen.handled, 2);
}

static const char *const extended[] = {
    CHUNKED "3;a=b\r\nabc\r\n0\r\n\r\n",
    CHUNKED "3\r\nabc\r\n0;a=b\r\n\r\n",
    CHUNKED "3\r\nabc\r\n0;a=b\r\nX: y\r\n\r\n",
};

static void extend_chunks(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(extended); i++)
        client_expect(extended[i], "HTTP/1.1 201", "abc");
}

static void refuse_extensions(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(extended); i++)
        client_expect(extended[i], "HTTP/1.1 400", "</html>");
}

/* 0.9.75 drops them, 1.0.1 reads their line wrongly and refuses it by itself. */
static void extensions_of_chunks_mean_nothing_or_are_refused(void **state)
{
    bool is_old = http_library_version()[0] == '0';

    (void)state;
    serve(is_old ? extend_chunks : refuse_extensions);
    assert_int_equal(seen.handled, is_old ? (int)ARRAY_SIZE(extended) : 0);
}

/* More than libmicrohttpd has room for; the client goes on reading until the server ends it. */
static void extend_without_end(void)
{
    static char line[600000];
    char reply[4096];
    int fd = client_connect();

    memset(line, 'x', sizeof(line));
    client_say(fd, CHUNKED "3;");
    for (size_t at = 0; at < sizeof(line);) {
        ssize_t sent = send(fd, line + at, sizeof(line) - at, MSG_NOSIGNAL);

        if (sent <= 0)
            break; /* it was ended before */
        at += (size_t)sent;
    }
    must(client_read_all(fd, reply, sizeof(reply)) == 0, "the end, without an answer");
    close(fd);
}

static void an_extension_without_end_is_cut_off(void **state)
{
    (void)state;
    serve(extend_without_end);
    assert_int_equal(seen.handled, 0);
}

static void reply_has(const char *request, const char *start, const char *part, bool is_there)
{
    const char *reply = client_ask(request);

    if (strncmp(reply, start, strlen(start)) != 0 || !strstr(reply, part) == is_there) {
        fprintf(stderr, "client: for\n%.300s\ngot\n%.500s\n", request, reply);
        abort();
    }
}

#define ALLOWED "Access-Control-Allow-Origin: https://app.example\r\n"

static void browse(void)
{
    reply_has("GET /hello HTTP/1.1\r\nHost: evil.example\r\n\r\n", "HTTP/1.1 403", "Host", true);
    reply_has("GET /hello HTTP/1.1\r\nHost: localhost:7\r\n" OVER "\r\n", "HTTP/1.1 200",
              "Access-Control-Allow", false);
    reply_has("GET /hello HTTP/1.1\r\n" LOCAL "Origin: https://evil.example\r\n\r\n",
              "HTTP/1.1 403", "Access-Control-Allow", false);
    reply_has("GET /hello HTTP/1.1\r\n" LOCAL "Origin: null\r\n\r\n", "HTTP/1.1 403", "Origin",
              true);
    reply_has("GET /hello HTTP/1.1\r\n" LOCAL "Origin: http://localhost\r\n" OVER "\r\n",
              "HTTP/1.1 200", "Access-Control-Allow", false);
    reply_has("GET /hello HTTP/1.1\r\n" LOCAL "Origin: https://app.example\r\n" OVER "\r\n",
              "HTTP/1.1 200", ALLOWED, true);
    reply_has("GET /none HTTP/1.1\r\n" LOCAL "Origin: https://app.example\r\n" OVER "\r\n",
              "HTTP/1.1 404", ALLOWED, true);
    reply_has("OPTIONS /echo HTTP/1.1\r\n" LOCAL "Origin: https://app.example\r\n"
              "Access-Control-Request-Method: POST\r\n" OVER "\r\n",
              "HTTP/1.1 204", ALLOWED, true);
    reply_has("OPTIONS /echo HTTP/1.1\r\n" LOCAL "Origin: https://evil.example\r\n"
              "Access-Control-Request-Method: POST\r\n" OVER "\r\n",
              "HTTP/1.1 403", "Access-Control-Allow", false);
    reply_has("OPTIONS /echo HTTP/1.1\r\n" LOCAL OVER "\r\n", "HTTP/1.1 405", "allow=POST", true);
}

static void only_known_hosts_and_pages_are_heard(void **state)
{
    (void)state;
    serve(browse);
    assert_int_equal(seen.handled, 3);
}

static void call_from_a_page(void)
{
    reply_has("GET /hello HTTP/1.1\r\n" LOCAL "Origin: https://app.example\r\n" OVER "\r\n",
              "HTTP/1.1 403", "Access-Control-Allow", false);
    reply_has("GET /hello HTTP/1.1\r\nHost: any.example\r\n" OVER "\r\n", "HTTP/1.1 200", "Vary",
              false);
}

static void lists_are_read_for_each_request(void **state)
{
    struct http_browsers before = browsers;

    (void)state;
    browsers = (struct http_browsers){0};
    serve(call_from_a_page);
    browsers = before;
}

/* Reads to the end, which has to come although nothing more is sent. */
static void linger(const char *beginning, bool is_half)
{
    char reply[4096];
    int fd = client_connect();

    client_say(fd, beginning);
    if (is_half)
        shutdown(fd, SHUT_WR);
    client_read_all(fd, reply, sizeof(reply));
    must(!strstr(reply, "hello") && !strstr(reply, " 200 "), "no reply");
    close(fd);
}

static void be_slow(void)
{
    linger("", false);
    linger("G", false);
    linger("GET /hello HTTP/1.1\r\nHost: loc", false);
    linger("GET /hello HTTP/1.1\r\nHost: localhost\r\nX: 1\r\n", false);
}

/* One header at a time: each is new, and none is the last. */
static void drip(void)
{
    int fd = client_connect();

    client_say(fd, "GET /hello HTTP/1.1\r\n" LOCAL);
    while (send(fd, "X: 1\r\n", 6, MSG_NOSIGNAL) == 6)
        usleep(1000);
    close(fd);
}

static void a_head_that_never_ends_is_cut_off(void **state)
{
    (void)state;
    serve(be_slow);
    serve(drip);
    assert_int_equal(seen.handled, 0);
}

static void wait_long(void)
{
    int fd = client_connect();
    char reply[64];
    struct pollfd poller = {.fd = fd, .events = POLLIN};

    client_say(fd, "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
    must(poll(&poller, 1, 300) == 0, "who waits for us is not cut off");
    (void)reply;
    close(fd);
}

static void who_waits_for_an_answer_is_not_cut_off(void **state)
{
    (void)state;
    wanted_gone = 1;
    serve(wait_long);
    assert_int_equal(seen.gone, 1);
}

static void go_halfway(void)
{
    linger("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", true);
    linger("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
           true);
    linger("GET /hello HTTP/1.1\r\nHost: x\r\n", true);
    linger("PUT /sink HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc", true);
}

static void half_a_request_does_not_stay(void **state)
{
    (void)state;
    serve(go_halfway);
    assert_int_equal(seen.end, 0);
    reactor->ops->timer_remove(sink_timer);
}

static void send_all_and_end(void)
{
    char reply[4096];
    int fd = client_connect();

    client_say(fd, "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    shutdown(fd, SHUT_WR);
    client_read_all(fd, reply, sizeof(reply));
    must(strstr(reply, "hello"), "a whole request is answered");
    close(fd);
}

static void a_whole_request_is_answered_behind_the_end_of_sending(void **state)
{
    (void)state;
    serve(send_all_and_end);
}

#define FULL "GET /full HTTP/1.1\r\n" LOCAL

/* Two in a row, one with a body, and some who do not wait for it: what comes next is served. */
static void flood(void)
{
    char reply[4096];
    int fd = client_connect();
    const char *second;

    for (int i = 0; i < 5; i++) {
        int left = client_connect();

        client_say(left, FULL "\r\n");
        close(left);
    }
    client_say(fd, FULL "\r\n" FULL OVER "\r\n");
    client_read_all(fd, reply, sizeof(reply));
    second = strstr(reply + 1, "HTTP/1.1 429");
    must(strncmp(reply, "HTTP/1.1 429", 12) == 0 && second, "both are refused");
    must(strstr(second, "Retry-After: 1\r\n") && strstr(second, "full"), "the whole reply");
    close(fd);
    client_expect("POST /full HTTP/1.1\r\n" LOCAL OVER "Content-Length: 4\r\n\r\nabcd",
                  "HTTP/1.1 429", "full");
    client_expect("GET /hello HTTP/1.1\r\n" LOCAL OVER "\r\n", "HTTP/1.1 200", "hello");
}

static void a_quotas_refusal_is_held_back_and_whole(void **state)
{
    (void)state;
    serve(flood);
}

#define TCP_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_tcp, tear_down)
#define HASTY_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_hasty, tear_down)
#define LOCAL_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_hasty_local, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TCP_TEST(a_peer_has_its_address),
        TCP_TEST(what_two_servers_read_differently_is_refused),
        TCP_TEST(chunks_are_what_they_say),
        TCP_TEST(extensions_of_chunks_mean_nothing_or_are_refused),
        TCP_TEST(only_known_hosts_and_pages_are_heard),
        TCP_TEST(lists_are_read_for_each_request),
        TCP_TEST(a_quotas_refusal_is_held_back_and_whole),
        HASTY_TEST(a_head_that_never_ends_is_cut_off),
        HASTY_TEST(an_extension_without_end_is_cut_off),
        HASTY_TEST(who_waits_for_an_answer_is_not_cut_off),
        LOCAL_TEST(half_a_request_does_not_stay),
        LOCAL_TEST(a_whole_request_is_answered_behind_the_end_of_sending),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
