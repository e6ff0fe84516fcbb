/*
 * test_websocket.c - WebSockets on the server: the handshake, messages both ways, slow readers,
 * closing by either side, clients that vanish, a server that stops. Plain, and behind TLS.
 */
#include "over_tls.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "http/websocket.h"

#define ASK_REST                                                           \
    "Host: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" \
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define ASK(path) "GET " path " HTTP/1.1\r\n" ASK_REST "\r\n"
#define BIG (8 * MIB)
#define PINGS ((size_t)100000)

static struct websocket *socket_now; /* the one that is open */
static struct {
    unsigned messages, drained, closed, status;
    size_t sent; /* by the flood */
    bool was_refused;
} door;
static char flood[32 * KIB];

/* ---- the owner of the sockets ---- */

static void pour(void)
{
    while (door.sent < BIG) {
        int r = websocket_send(socket_now, false, flood, sizeof(flood));

        if (r < 0) {
            door.was_refused |= r == -EAGAIN;
            return;
        }
        door.sent += sizeof(flood);
    }
}

static void on_message(void *ctx, bool is_text, const void *data, size_t length)
{
    char text[100];

    (void)ctx;
    door.messages++;
    if (length == 4 && memcmp(data, "pour", 4) == 0) {
        pour();
    } else if (length == 3 && memcmp(data, "bye", 3) == 0) {
        websocket_send(socket_now, true, "so long", 7);
        websocket_close(socket_now, 4001, "as you wish");
        assert_int_equal(websocket_send(socket_now, true, "x", 1), -EPIPE);
    } else if (length == 4 && memcmp(data, "stop", 4) == 0) {
        http_server_stop(server);
        server = NULL;
    } else if (length == 4 && memcmp(data, "hold", 4) == 0) {
        websocket_hold(socket_now, true);
    } else if (length != 5 || memcmp(data, "noted", 5) != 0) {
        snprintf(text, sizeof(text), "%s %zu", is_text ? "text" : "bytes", length);
        assert_int_equal(websocket_send(socket_now, true, text, strlen(text)), 0);
    }
}

static void on_drained(void *ctx)
{
    (void)ctx;
    door.drained++;
    pour();
}

static void on_closed(void *ctx, unsigned status)
{
    assert_ptr_equal(ctx, &door);
    door.closed++;
    door.status = status;
    socket_now = NULL;
    seen.gone++;
    stop_when_all_came();
}

static void handle_ws(struct http_request *request, void *ctx)
{
    static const struct websocket_events events = {on_message, on_drained, on_closed};
    struct error err = {0};
    int wants = http_wants_websocket(request);

    (void)ctx;
    if (wants <= 0) {
        http_reply(request, wants < 0 ? 400 : 426, NULL, NULL, NULL, 0);
        return;
    }
    assert_int_equal(
        http_upgrade(request,
                     &(struct websocket_spec){.protocol = http_query(request, "protocol"),
                                              .message_max = 128 * KIB,
                                              .events = &events,
                                              .ctx = &door},
                     &socket_now, &err),
        0);
    if (http_query(request, "greet")) /* before the 101 is out */
        assert_int_equal(websocket_send(socket_now, true, "welcome", 7), 0);
}

static void no_route(struct http_request *request, bool is_path, const char *allow, void *ctx)
{
    (void)is_path;
    (void)allow;
    (void)ctx;
    http_reply(request, 404, NULL, NULL, NULL, 0);
}

static const struct http_route routes[] = {
    {"GET", "/ws", HTTP_NO_BODY, 0, handle_ws, NULL, NULL},
    {"POST", "/ws", HTTP_WHOLE_BODY, 100, handle_ws, NULL, NULL},
};
static const struct http_server_spec spec = {
    .routes = routes, .route_count = ARRAY_SIZE(routes), .client_max = 20, .no_route = no_route};

static int set_up(void **state)
{
    (void)state;
    memset(&door, 0, sizeof(door));
    serving_start(&spec);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    serving_stop();
    return 0;
}

static int set_up_tls(void **state)
{
    static struct identity identity;
    struct http_tls tls = {identity.certificate, identity.key};
    struct http_server_spec tls_spec = spec;

    (void)state;
    memset(&door, 0, sizeof(door));
    make_identity(&identity, "here");
    tls_spec.tls = &tls;
    client_wrap = bridge_over;
    serving_start(&tls_spec);
    return 0;
}

static int tear_down_tls(void **state)
{
    tear_down(state);
    bridges_end();
    client_wrap = NULL;
    return 0;
}

/* ---- the client ---- */

static void read_exactly(int fd, void *data, size_t length)
{
    for (size_t at = 0; at < length;) {
        ssize_t count = read(fd, (char *)data + at, length - at);

        must(count > 0, "more of a frame");
        at += (size_t)count;
    }
}

/* The head of a reply, no byte more. */
static void read_head(int fd, char *head, size_t size)
{
    size_t length = 0;

    head[0] = '\0';
    while (!strstr(head, "\r\n\r\n")) {
        must(length < size - 1, "a head");
        read_exactly(fd, head + length++, 1);
        head[length] = '\0';
    }
}

static int open_ws(const char *ask)
{
    char head[1000];
    int fd = client_connect();

    client_say(fd, ask);
    read_head(fd, head, sizeof(head));
    must(strncmp(head, "HTTP/1.1 101 ", 13) == 0, head);
    must(strcasestr(head, "\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), head);
    must(strcasestr(head, "\r\nUpgrade: websocket\r\n"), head);
    must(strcasestr(head, "\r\nConnection: Upgrade\r\n"), head);
    return fd;
}

static void say_frame(int fd, unsigned first, const void *data, size_t length)
{
    unsigned char head[8] = {(unsigned char)first, (unsigned char)(0x80 | length)};
    size_t size = 2;

    must(length < 65536, "a short frame");
    if (length > 125) {
        head[1] = 0xfe;
        head[2] = (unsigned char)(length >> 8);
        head[3] = (unsigned char)length;
        size = 4;
    }
    client_send(fd, head, size + 4); /* the mask is zero */
    client_send(fd, data, length);
}

static void say(int fd, const char *text)
{
    say_frame(fd, 0x81, text, strlen(text));
}

/* A frame of the server; its length. */
static size_t hear(int fd, unsigned first, char *data, size_t size)
{
    unsigned char head[8];
    size_t length;

    read_exactly(fd, head, 2);
    if (head[0] != first)
        fprintf(stderr, "client: frame %02x instead of %02x\n", head[0], first);
    must(head[0] == first, "the kind of frame");
    length = head[1];
    if (length == 126) {
        read_exactly(fd, head, 2);
        length = (size_t)(head[0] << 8 | head[1]);
    }
    must(length < size && length != 127, "a frame that fits");
    read_exactly(fd, data, length);
    data[length] = '\0';
    return length;
}

static void expect(int fd, const char *text)
{
    char data[1000];

    hear(fd, 0x81, data, sizeof(data));
    must(strcmp(data, text) == 0, data);
}

static void expect_close(int fd, unsigned status)
{
    char data[200];

    must(hear(fd, 0x88, data, sizeof(data)) >= 2, "a close code");
    must(((unsigned char)data[0] << 8 | (unsigned char)data[1]) == (int)status, data + 2);
}

static void expect_end(int fd)
{
    char byte;

    must(read(fd, &byte, 1) == 0, "the end");
    close(fd);
}

/* ---- tests ---- */

static void client_echo(void)
{
    static char big[60000];
    int fd = open_ws(ASK("/ws"));
    char data[200];

    say(fd, "hello");
    expect(fd, "text 5");
    say_frame(fd, 0x82, big, sizeof(big));
    expect(fd, "bytes 60000");
    say_frame(fd, 0x01, "a", 1);
    say_frame(fd, 0x89, "ping", 4);
    say_frame(fd, 0x80, "b", 1);
    must(hear(fd, 0x8a, data, sizeof(data)) == 4 && strcmp(data, "ping") == 0, "a pong");
    expect(fd, "text 2");
    say_frame(fd, 0x88, "\x0f\xa0good", 6); /* 4000 */
    expect_close(fd, 4000);
    expect_end(fd);
}

static void test_echo(void **state)
{
    (void)state;
    wanted_gone = 1;
    serve(client_echo);
    assert_int_equal(door.status, 4000);
    assert_int_equal(door.closed, 1);
    assert_int_equal(door.messages, 3);
}

/* Frames right behind the request, and words of the server right behind the 101. */
static void client_hasty(void)
{
    char ask[1000];
    int length = snprintf(ask, sizeof(ask), "%s",
                          "GET /ws?greet=1&protocol=bailey.v1 HTTP/1.1\r\n" ASK_REST
                          "Sec-WebSocket-Protocol: x, bailey.v1\r\n\r\n");
    int fd = client_connect();

    memcpy(ask + length, "\x81\x85\0\0\0\0hello\x81\x82\0\0\0\0hi", 19);
    client_send(fd, ask, (size_t)length + 19);
    read_head(fd, ask, sizeof(ask));
    must(strcasestr(ask, "\r\nSec-WebSocket-Protocol: bailey.v1\r\n"), ask);
    expect(fd, "welcome");
    expect(fd, "text 5");
    expect(fd, "text 2");
    close(fd);
}

static void test_hasty(void **state)
{
    (void)state;
    wanted_gone = 1;
    serve(client_hasty);
    assert_int_equal(door.status, 1006);
}

static void client_asked_to_leave(void)
{
    int fd = open_ws(ASK("/ws"));

    say(fd, "bye");
    say(fd, "more");
    expect(fd, "so long");
    expect_close(fd, 4001);
    say_frame(fd, 0x88, "\x0f\xa1", 2);
    expect_end(fd);
}

static void test_close_by_server(void **state)
{
    (void)state;
    wanted_gone = 1;
    serve(client_asked_to_leave);
    assert_int_equal(door.status, 4001);
    assert_int_equal(door.messages, 1);
}

/* The bytes that follow are not read, and still the close frame arrives. */
static void client_rude(void)
{
    static char rest[60000];
    int fd = open_ws(ASK("/ws"));

    client_send(fd, "\x81\x05hello", 7); /* unmasked */
    client_send(fd, rest, sizeof(rest));
    expect_close(fd, 1002);
    expect_end(fd);
}

static void client_greedy(void)
{
    int fd = open_ws(ASK("/ws"));

    client_send(fd, "\x82\xff\0\0\0\0\0\x02\0\x01\0\0\0\0x", 15); /* 128 KiB and one byte */
    expect_close(fd, 1009);
    close(fd);
}

static void test_rude(void **state)
{
    (void)state;
    wanted_gone = 1;
    serve(client_rude);
    assert_int_equal(door.status, 1002);
    wanted_gone = 2; /* with the first, whose end has been seen */
    serve(client_greedy);
    assert_int_equal(door.status, 1009);
    assert_int_equal(door.messages, 0);
}

/* A reader that does not read stops the source, and gets everything when it does. */
static void client_slow(void)
{
    int fd = open_ws(ASK("/ws"));
    size_t got = 0;

    say(fd, "pour");
    say(fd, "noted");
    while (got < BIG) {
        static char data[64 * KIB];

        got += hear(fd, 0x82, data, sizeof(data));
    }
    close(fd);
}

static void test_slow_reader(void **state)
{
    (void)state;
    wanted_gone = 1;
    serve(client_slow);
    assert_true(door.was_refused);
    assert_true(door.drained > 1);
    assert_true(door.sent == BIG);
    assert_int_equal(door.messages, 2); /* who is slow to read is still heard */
}

/* Pings faster than it reads the answers: the server stops reading, and goes on when it does. */
static void client_pings(void)
{
    static const char ping[] = "\x89\x80\0\0\0\0";
    int fd = open_ws(ASK("/ws"));
    size_t to_send = 6 * PINGS, to_read = 2 * PINGS;

    while (to_read > 0) {
        struct pollfd ready = {.fd = fd};
        char data[60000];
        ssize_t count;

        for (size_t i = 0; i < sizeof(data); i++)
            data[i] = ping[(i + 6 * PINGS - to_send) % 6];
        count = to_send > 0 ? send(fd, data, MIN(sizeof(data), to_send), MSG_DONTWAIT) : -1;
        if (count > 0) {
            to_send -= (size_t)count;
            continue;
        }
        ready.events = to_send > 0 ? POLLIN | POLLOUT : POLLIN;
        must(poll(&ready, 1, 10000) == 1, "an answer");
        count = recv(fd, data, sizeof(data), MSG_DONTWAIT);
        must(count != 0 && (size_t)MAX(count, 0) <= to_read, "no more than was asked for");
        for (ssize_t i = 0; i < count; i++)
            must(data[i] == (to_read-- % 2 ? '\0' : '\x8a'), "a pong");
    }
    say(fd, "hello");
    expect(fd, "text 5");
    close(fd);
}

static void test_pings(void **state)
{
    (void)state;
    wanted_gone = 1;
    serve(client_pings);
    assert_int_equal(door.messages, 1);
}

/* Who is held is not read: its client can fill the socket and no more. */
static void client_held(void)
{
    int fd = open_ws(ASK("/ws"));
    static char block[60008] = "\x82\xfe\xea\x60"; /* a frame of 60000 bytes, as often as it fits */
    size_t sent = 0;

    say(fd, "hold");
    for (;;) {
        struct pollfd ready = {.fd = fd, .events = POLLOUT};
        ssize_t count;

        /* The one wait here that ends because nothing happens; what it tells is not timed. */
        if (poll(&ready, 1, 200) == 0)
            break;
        count = send(fd, block + sent % sizeof(block), sizeof(block) - sent % sizeof(block),
                     MSG_NOSIGNAL | MSG_DONTWAIT);
        must(count > 0 && (sent += (size_t)count) < BIG, "an end of what it takes");
    }
    close(fd);
}

static void test_held(void **state)
{
    (void)state;
    wanted_gone = 1;
    serve(client_held);
    assert_int_equal(door.status, 1006);
    assert_int_equal(door.messages, 1);
}

static void client_stops_server(void)
{
    int fd = open_ws(ASK("/ws"));

    say(fd, "stop");
    expect_close(fd, 1001);
    expect_end(fd);
}

static void test_stop_from_inside(void **state)
{
    (void)state;
    wanted_gone = 1;
    serve(client_stops_server);
    assert_int_equal(door.closed, 1);
}

static int left_fd = -1;

static void client_stays(void)
{
    left_fd = open_ws(ASK("/ws"));
    say(left_fd, "hello");
    expect(left_fd, "text 5");
}

static void test_stop_from_outside(void **state)
{
    (void)state;
    serve(client_stays);
    assert_int_equal(http_server_clients(server), 1);
    assert_int_equal(door.closed, 0);
    http_server_stop(server);
    server = NULL;
    assert_int_equal(door.closed, 1);
    expect_close(left_fd, 1001);
    expect_end(left_fd);
}

static void client_asks_wrongly(void)
{
    char text[600];
    static const struct {
        const char *was, *is;
        const char *status;
    } rows[] = {
        {"Version: 13", "Version: 8", "400"},
        {"Upgrade: WebSocket", "Upgrade: h2c", "426"},
        {"Version: 13", "Versio: 13", "400"},
        {"dGhlIHNhbXBsZSBub25jZQ==", "dGhl", "400"},
        {", Upgrade", ", close", "400"},
        {"GET", "POST", "400"},
        {"Host: x", "Host: x\r\nContent-Length: 5", "400"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const char *ask = ASK("/ws"), *at = strstr(ask, rows[i].was);
        char head[600];
        int fd = client_connect();

        must(at, rows[i].was);
        snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - ask), ask, rows[i].is,
                 at + strlen(rows[i].was));
        client_say(fd, text);
        if (strstr(rows[i].is, "Length"))
            client_say(fd, "12345");
        read_head(fd, head, sizeof(head));
        must(strncmp(head + 9, rows[i].status, 3) == 0, head);
        close(fd);
    }
}

static void test_bad_handshakes(void **state)
{
    (void)state;
    serve(client_asks_wrongly);
    assert_int_equal(door.closed, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_tls, tear_down_tls)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_echo),
        TEST(test_hasty),
        TEST(test_rude),
        TEST(test_close_by_server),
        TEST(test_slow_reader),
        TEST(test_held),
        TEST(test_pings),
        TEST(test_stop_from_inside),
        TEST(test_stop_from_outside),
        TEST(test_bad_handshakes),
        TLS_TEST(test_echo),
        TLS_TEST(test_hasty),
        TLS_TEST(test_rude),
        TLS_TEST(test_close_by_server),
        TLS_TEST(test_slow_reader),
        TLS_TEST(test_pings),
        TLS_TEST(test_stop_from_inside),
        TLS_TEST(test_stop_from_outside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
