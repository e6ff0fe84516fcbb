/*
 * test_port.c - connections of the host to servers on the loopback, and the list of ports. The
 * server is this test, on the loopback of this machine: the warden believes that it is its own.
 */
#include "warden_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>

struct server {
    int fd;
    uint16_t port;
};

static struct server listen_at(int family)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name;
    socklen_t length = sizeof(name);
    struct server server = {.fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr *address = family == AF_INET ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;

    if (server.fd < 0 || bind(server.fd, address, family == AF_INET ? sizeof(v4) : sizeof(v6)) < 0)
        return (struct server){.fd = -1};
    assert_int_equal(listen(server.fd, 8), 0);
    assert_int_equal(getsockname(server.fd, &name.any, &length), 0);
    server.port = ntohs(family == AF_INET ? name.v4.sin_port : name.v6.sin6_port);
    return server;
}

static void say_connect(struct warden_fixture *fixture, uint32_t id, uint16_t port)
{
    uint8_t payload[2];

    give(fixture, FRAME_CONNECT, id, payload, (size_t)message_port_pack(port, payload, 2));
}

static uint32_t done(struct warden_fixture *fixture, uint32_t id)
{
    struct frame frame = take(fixture, FRAME_DONE, id);
    uint32_t number = 0;

    assert_int_equal(message_number_unpack(&frame, &number), 0);
    return number;
}

/* A connection with this id: the server's end. */
static int connect_one(struct warden_fixture *fixture, const struct server *server, uint32_t id)
{
    int fd;

    say_connect(fixture, id, server->port);
    fd = accept4(server->fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    take(fixture, FRAME_CONNECTED, id);
    return fd;
}

static struct message_bytes bytes_of(struct warden_fixture *fixture, uint32_t id)
{
    struct frame frame = take(fixture, FRAME_PORT_DATA, id);
    struct message_bytes bytes;

    assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
    return bytes;
}

static void test_both_ways(void **state)
{
    struct warden_fixture *fixture = *state;
    struct server server = listen_at(AF_INET);
    int fd = connect_one(fixture, &server, 1);
    struct message_bytes bytes;
    struct frame frame;
    struct message_ack ack;
    char text[16];

    give_bytes(fixture, FRAME_PORT_DATA, 1, 0, "hello");
    frame = take(fixture, FRAME_ACK, 1);
    assert_int_equal(message_ack_unpack(&frame, &ack), 0);
    assert_int_equal(ack.offset, 5);
    assert_int_equal(recv(fd, text, sizeof(text), 0), 5);
    assert_memory_equal(text, "hello", 5);
    assert_int_equal(send(fd, "back", 4, 0), 4);
    bytes = bytes_of(fixture, 1);
    assert_true(bytes.offset == 0 && bytes.length == 4);
    assert_memory_equal(bytes.data, "back", 4);
    give(fixture, FRAME_PORT_END, 1, NULL, 0);
    assert_int_equal(recv(fd, text, sizeof(text), 0), 0);
    assert_int_equal(send(fd, "last", 4, 0), 4);
    close(fd);
    bytes = bytes_of(fixture, 1);
    assert_int_equal(bytes.offset, 4);
    assert_int_equal(done(fixture, 1), 0);
    give_bytes(fixture, FRAME_PORT_DATA, 1, 5, "late"); /* was on its way */
    close(server.fd);
}

/* No more than a window is sent ahead of the host, and the server is not read further. */
static void test_window(void **state)
{
    struct warden_fixture *fixture = *state;
    struct server server = listen_at(AF_INET);
    int fd = connect_one(fixture, &server, 1);
    static char block[3 * WIRE_PORT_WINDOW];
    uint64_t put = 0, got = 0, acked = 0;

    while (got < sizeof(block)) {
        struct message_bytes bytes;
        ssize_t sent = send(fd, block, sizeof(block) - put, MSG_DONTWAIT);

        put += sent > 0 ? (uint64_t)sent : 0;

        if (got - acked == WIRE_PORT_WINDOW) {
            struct pollfd more = {.fd = fixture->fd, .events = POLLIN};

            assert_int_equal(poll(&more, 1, 0), 0);
            acked = got;
            give_ack(fixture, 1, 0, acked);
        }
        bytes = bytes_of(fixture, 1);
        assert_int_equal(bytes.offset, got);
        got += bytes.length;
        assert_true(got - acked <= WIRE_PORT_WINDOW);
    }
    close(fd);
    give_ack(fixture, 1, 0, got); /* without room the end is not looked for either */
    assert_int_equal(done(fixture, 1), 0);
    close(server.fd);
}

static void test_nothing_listens(void **state)
{
    struct warden_fixture *fixture = *state;
    struct server server = listen_at(AF_INET);

    close(server.fd);
    say_connect(fixture, 1, server.port);
    assert_int_equal(done(fixture, 1), ECONNREFUSED);
}

static void test_ipv6_only(void **state)
{
    struct warden_fixture *fixture = *state;
    struct server server = listen_at(AF_INET6);

    if (server.fd < 0)
        skip(); /* a machine without IPv6 */
    close(connect_one(fixture, &server, 1));
    assert_int_equal(done(fixture, 1), 0);
    close(server.fd);
}

static void test_cancelling(void **state)
{
    struct warden_fixture *fixture = *state;
    struct server server = listen_at(AF_INET);
    int fd = connect_one(fixture, &server, 1);
    char text[4];

    give(fixture, FRAME_CANCEL, 1, NULL, 0);
    assert_int_equal(done(fixture, 1), ECANCELED);
    assert_int_equal(recv(fd, text, sizeof(text), 0), 0);
    close(fd);
    fd = connect_one(fixture, &server, 2);
    give(fixture, FRAME_HELLO, 7, NULL, 0); /* a new host: what the old one had is closed */
    take(fixture, FRAME_WELCOME, 7);
    assert_int_equal(recv(fd, text, sizeof(text), 0), 0);
    close(fd);
    close(server.fd);
}

static void test_a_limit_of_connections(void **state)
{
    struct warden_fixture *fixture = *state;
    struct server server = listen_at(AF_INET);
    int fds[LIMIT_PORT_STREAMS];

    for (uint32_t i = 0; i < LIMIT_PORT_STREAMS; i++)
        fds[i] = connect_one(fixture, &server, i + 1);
    say_connect(fixture, LIMIT_PORT_STREAMS + 1, server.port);
    assert_int_equal(done(fixture, LIMIT_PORT_STREAMS + 1), EAGAIN);
    for (uint32_t i = 0; i < LIMIT_PORT_STREAMS; i++)
        close(fds[i]);
    for (uint32_t i = 0; i < LIMIT_PORT_STREAMS; i++) {
        struct frame frame;

        assert_true(take_any(fixture, &frame));
        assert_int_equal(frame.type, FRAME_DONE);
    }
    close(server.fd);
}

static void test_the_list(void **state)
{
    struct warden_fixture *fixture = *state;
    struct server server = listen_at(AF_INET);
    static struct message_listening listening;
    struct frame frame;
    bool is_there = false;

    give(fixture, FRAME_PORTS, 1, NULL, 0);
    assert_true(take_any(fixture, &frame));
    if (frame.type == FRAME_LISTENING) { /* the fixture has no /proc of its own */
        assert_int_equal(message_listening_unpack(&frame, &listening), 0);
        for (unsigned i = 0; i < listening.count; i++)
            is_there |= listening.ports[i] == server.port;
        assert_true(is_there);
        assert_int_equal(done(fixture, 1), 0);
    } else {
        uint32_t number = 0;

        assert_int_equal(frame.type, FRAME_DONE);
        assert_int_equal(message_number_unpack(&frame, &number), 0);
        assert_int_equal(number, ENOTSUP);
    }
    close(server.fd);
}

/* Without a network of its own the loopback would be the host's. */
static void test_no_network_of_its_own(void **state)
{
    struct warden_fixture *fixture = *state;
    struct server server = listen_at(AF_INET);

    say_connect(fixture, 1, server.port);
    assert_int_equal(done(fixture, 1), EPERM);
    give(fixture, FRAME_PORTS, 2, NULL, 0);
    assert_int_equal(done(fixture, 2), EPERM);
    close(server.fd);
}

static void say_port_zero(struct warden_fixture *fixture)
{
    say_connect(fixture, 1, 0);
}

static void say_bad_offset(struct warden_fixture *fixture)
{
    struct server server = listen_at(AF_INET);

    connect_one(fixture, &server, 1);
    give_bytes(fixture, FRAME_PORT_DATA, 1, 1, "x");
}

static void say_after_the_end(struct warden_fixture *fixture)
{
    struct server server = listen_at(AF_INET);

    connect_one(fixture, &server, 1);
    give(fixture, FRAME_PORT_END, 1, NULL, 0);
    give_bytes(fixture, FRAME_PORT_DATA, 1, 0, "x");
}

static void say_wrong_ack(struct warden_fixture *fixture)
{
    struct server server = listen_at(AF_INET);

    connect_one(fixture, &server, 1);
    give_ack(fixture, 1, 0, 1);
}

static void test_nonsense(void **state)
{
    (void)state;
    check_breaks(say_port_zero);
    check_breaks(say_bad_offset);
    check_breaks(say_after_the_end);
    check_breaks(say_wrong_ack);
}

static int set_up_with_network(void **state)
{
    fixture_layers = ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS);
    return set_up(state);
}

static int set_up_without(void **state)
{
    fixture_layers = 0;
    return set_up(state);
}

static int claim_network(void **state)
{
    (void)state;
    fixture_layers = ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_both_ways, set_up_with_network, tear_down),
        cmocka_unit_test_setup_teardown(test_window, set_up_with_network, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_listens, set_up_with_network, tear_down),
        cmocka_unit_test_setup_teardown(test_ipv6_only, set_up_with_network, tear_down),
        cmocka_unit_test_setup_teardown(test_cancelling, set_up_with_network, tear_down),
        cmocka_unit_test_setup_teardown(test_a_limit_of_connections, set_up_with_network,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_the_list, set_up_with_network, tear_down),
        cmocka_unit_test_setup_teardown(test_no_network_of_its_own, set_up_without, tear_down),
        cmocka_unit_test_setup(test_nonsense, claim_network),
    };

    return cmocka_run_group_tests(tests, become_reaper, NULL);
}
