/* test_protocol.c - what launcher and proxy say: both ways, with descriptors, and nonsense. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "egress/protocol.h"

static const struct egress_message verdict = {
    .type = EGRESS_VERDICT,
    .number = 4000000000,
    .verdict = {.is_allowed = true, .port = 443, .host = "pypi.org", .reason = "listed"}};

static void test_round(void **state)
{
    const struct egress_message all[] = {
        {.type = EGRESS_ADD, .number = 1, .policy = EGRESS_INSTALLER},
        {.type = EGRESS_REMOVE, .number = 2},
        verdict,
    };
    uint8_t data[EGRESS_MESSAGE_MAX];
    struct egress_message came;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        long length = egress_message_pack(&all[i], data, sizeof(data));

        assert_true(length > 0);
        assert_int_equal(egress_message_unpack(data, (size_t)length, &came), 0);
        assert_memory_equal(&came, &all[i], sizeof(came));
        for (long cut = 0; cut < length; cut++)
            assert_int_equal(egress_message_unpack(data, (size_t)cut, &came), -EPROTO);
        data[length] = 0;
        assert_int_equal(egress_message_unpack(data, (size_t)length + 1, &came), -EPROTO);
        assert_int_equal(egress_message_pack(&all[i], data, (size_t)length - 1), -EMSGSIZE);
    }
}

static void test_bad_texts(void **state)
{
    static const char *const hosts[] = {"", "a b", "a\n", "\x7f", "\xc3\xbc"};
    static const char *const reasons[] = {"", "Listed", "a-b", "a1"};
    uint8_t data[EGRESS_MESSAGE_MAX];
    struct egress_message came, bad;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(hosts) + ARRAY_SIZE(reasons); i++) {
        long length;

        bad = verdict;
        if (i < ARRAY_SIZE(hosts))
            strcpy(bad.verdict.host, hosts[i]);
        else
            strcpy(bad.verdict.reason, reasons[i - ARRAY_SIZE(hosts)]);
        length = egress_message_pack(&bad, data, sizeof(data));
        assert_int_equal(egress_message_unpack(data, (size_t)length, &came), -EPROTO);
    }
}

static void test_descriptors(void **state)
{
    const struct egress_message add = {.type = EGRESS_ADD, .number = 1};
    const struct egress_message gone = {.type = EGRESS_REMOVE, .number = 1};
    struct egress_message came;
    int pair[2], fd = -1;

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    assert_int_equal(egress_receive(pair[1], &came, &fd), 0);
    assert_int_equal(egress_send(pair[0], &add, pair[0]), 1);
    assert_int_equal(egress_receive(pair[1], &came, &fd), 1);
    assert_true(fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC);
    close(fd);
    fd = -1;
    assert_int_equal(egress_send(pair[0], &add, -1), 1); /* none where one belongs */
    assert_int_equal(egress_receive(pair[1], &came, &fd), -EPROTO);
    assert_int_equal(egress_send(pair[0], &gone, pair[0]), 1); /* one where none belongs */
    assert_int_equal(egress_receive(pair[1], &came, &fd), -EPROTO);
    assert_int_equal(fd, -1);
    close(pair[0]);
    assert_int_equal(egress_receive(pair[1], &came, &fd), -EPIPE);
    assert_int_equal(egress_send(pair[1], &gone, -1), -EPIPE);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_bad_texts),
        cmocka_unit_test(test_descriptors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
