/* test_host.c - names and addresses, however somebody writes them, and what kind of place they are.
 */
#include "unit.h"

#include <string.h>

#include "base/cleanup.h"
#include "egress/host.h"

static int parse(const char *text, struct host *ret)
{
    return host_parse(text, strlen(text), ret);
}

static void test_names(void **state)
{
    static const char *const good[][2] = {
        {"pypi.org", "pypi.org"},
        {"PyPI.Org.", "pypi.org"},
        {"localhost", "localhost"},
        {"a-b.c1", "a-b.c1"},
        {"xn--bcher-kva.example", "xn--bcher-kva.example"},
        {"0xg.example", "0xg.example"},
        {"1a", "1a"},
        {"0x1.a", "0x1.a"},
    };
    struct host host;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        assert_int_equal(parse(good[i][0], &host), 0);
        assert_false(host.is_address);
        assert_string_equal(host.name, good[i][1]);
    }
}

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "",     ".",   "..",        "a..b",     ".a",           "-a",          "a-",
        "a-.b", "a b", "a@b",       "a%62",     "a_b",          "a/b",         "a:b",
        "a\\b", "*",   "*.a",       "[::1",     "::1",          "[::1]x",      "[::1%lo]",
        "[]",   "[1]", "1.2.3.4.5", "256.1",    "1.256.1.1",    "0x100000000", "4294967296",
        "08",   "0x",  "1..2",      "1.2.3.0x", "b\xc3\xbc.de", "a\tb",        "[::ffff:1.2.3.4.5]",
    };
    char label[65];
    struct host host;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        if (parse(bad[i], &host) == 0)
            fail_msg("'%s' is '%s'", bad[i], host.name);
    }
    assert_int_equal(host_parse("a\0b", 3, &host), -22);
    memset(label, 'a', sizeof(label));
    assert_int_equal(host_parse(label, 63, &host), 0);
    assert_int_equal(host_parse(label, 64, &host), -22);
}

static void test_long_name(void **state)
{
    char text[300];
    struct host host;

    (void)state;
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = i % 2 ? '.' : 'a';
    assert_int_equal(host_parse(text, 253, &host), 0);
    assert_int_equal(host_parse(text, 255, &host), -22);
    assert_int_equal(host_parse(text, 254, &host), 0); /* the last dot does not count */
}

static void test_addresses(void **state)
{
    static const char *const same[][2] = {
        {"127.0.0.1", "127.0.0.1"},
        {"127.1", "127.0.0.1"},
        {"127.0.1", "127.0.0.1"},
        {"2130706433", "127.0.0.1"},
        {"0x7f000001", "127.0.0.1"},
        {"0X7F.0.0.1", "127.0.0.1"},
        {"0177.0.0.01", "127.0.0.1"},
        {"127.0.0.1.", "127.0.0.1"},
        {"[::ffff:127.0.0.1]", "127.0.0.1"},
        {"[::FFFF:7f00:1]", "127.0.0.1"},
        {"0", "0.0.0.0"},
        {"4294967295", "255.255.255.255"},
        {"1.2.3.4", "1.2.3.4"},
        {"1.65535.3", NULL},
        {"1.2.65535", "1.2.255.255"},
        {"[0:0:0:0:0:0:0:1]", "::1"},
    };
    struct host host;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
        assert_int_equal(parse(same[i][0], &host), same[i][1] ? 0 : -22);
        if (!same[i][1])
            continue;
        assert_true(host.is_address);
        assert_string_equal(host.name, same[i][1]);
    }
}

static void test_ports(void **state)
{
    static const char *const bad[] = {"a",    "a:", "a:0",   "a:65536", "a:+1",  "a:1:2",
                                      "a: 1", ":1", "[::1]", "[::1]1",  "a:0x1", "a:000001"};
    struct host host;
    uint16_t port;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(host_parse_port(bad[i], strlen(bad[i]), 0, &host, &port), -22);
    assert_int_equal(host_parse_port("a:65535", 7, 0, &host, &port), 0);
    assert_int_equal(port, 65535);
    assert_int_equal(host_parse_port("[::1]:80", 8, 0, &host, &port), 0);
    assert_int_equal(port, 80);
    assert_int_equal(host_parse_port("a", 1, 443, &host, &port), 0);
    assert_int_equal(port, 443);
}

static void test_kinds(void **state)
{
    static const struct {
        const char *text;
        enum address_kind kind;
    } rows[] = {
        {"8.8.8.8", ADDRESS_PUBLIC},
        {"[2606:4700::1]", ADDRESS_PUBLIC},
        {"10.255.255.255", ADDRESS_PRIVATE},
        {"172.15.255.255", ADDRESS_PUBLIC},
        {"172.16.0.0", ADDRESS_PRIVATE},
        {"172.31.255.255", ADDRESS_PRIVATE},
        {"172.32.0.0", ADDRESS_PUBLIC},
        {"192.168.0.1", ADDRESS_PRIVATE},
        {"100.63.255.255", ADDRESS_PUBLIC},
        {"100.64.0.0", ADDRESS_PRIVATE},
        {"100.127.255.255", ADDRESS_PRIVATE},
        {"100.128.0.0", ADDRESS_PUBLIC},
        {"100.100.100.200", ADDRESS_METADATA},
        {"127.255.255.254", ADDRESS_LOOPBACK},
        {"169.254.0.1", ADDRESS_LINK_LOCAL},
        {"169.254.169.254", ADDRESS_METADATA},
        {"0.1.2.3", ADDRESS_RESERVED},
        {"198.19.255.255", ADDRESS_RESERVED},
        {"198.20.0.0", ADDRESS_PUBLIC},
        {"224.0.0.1", ADDRESS_MULTICAST},
        {"239.255.255.255", ADDRESS_MULTICAST},
        {"240.0.0.1", ADDRESS_RESERVED},
        {"255.255.255.255", ADDRESS_RESERVED},
        {"[::]", ADDRESS_RESERVED},
        {"[::1]", ADDRESS_LOOPBACK},
        {"[::127.0.0.1]", ADDRESS_RESERVED},
        {"[64:ff9b::127.0.0.1]", ADDRESS_LOOPBACK},
        {"[64:ff9b::10.0.0.1]", ADDRESS_PRIVATE},
        {"[64:ff9b::8.8.8.8]", ADDRESS_PUBLIC},
        {"[64:ff9b:1::1]", ADDRESS_RESERVED},
        {"[100::1]", ADDRESS_RESERVED},
        {"[2001::1]", ADDRESS_RESERVED},
        {"[2002:7f00:1::]", ADDRESS_RESERVED},
        {"[fc00::1]", ADDRESS_PRIVATE},
        {"[fdff::1]", ADDRESS_PRIVATE},
        {"[fd00:ec2::254]", ADDRESS_METADATA},
        {"[fe80::1]", ADDRESS_LINK_LOCAL},
        {"[febf::1]", ADDRESS_LINK_LOCAL},
        {"[fec0::1]", ADDRESS_PRIVATE},
        {"[ff02::1]", ADDRESS_MULTICAST},
    };
    struct host host;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_int_equal(parse(rows[i].text, &host), 0);
        if (address_kind(&host.address) != rows[i].kind)
            fail_msg("%s is a %s", rows[i].text, address_kind_word(address_kind(&host.address)));
    }
}

static void test_sockets(void **state)
{
    struct sockaddr_storage socket;
    struct address back;
    struct host host;

    (void)state;
    assert_int_equal(parse("1.2.3.4", &host), 0);
    address_to_socket(&host.address, 80, &socket);
    assert_int_equal(socket.ss_family, AF_INET);
    assert_true(address_from_socket((struct sockaddr *)&socket, &back));
    assert_true(address_equal(&back, &host.address));
    assert_int_equal(parse("[fd00::2]", &host), 0);
    address_to_socket(&host.address, 80, &socket);
    assert_int_equal(socket.ss_family, AF_INET6);
    assert_true(address_from_socket((struct sockaddr *)&socket, &back));
    assert_true(address_equal(&back, &host.address));
    socket.ss_family = AF_UNIX;
    assert_false(address_from_socket((struct sockaddr *)&socket, &back));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_long_name), cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_ports),     cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_sockets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
