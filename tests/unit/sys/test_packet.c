/* test_packet.c - packets with descriptors: both ways, full sockets, peers that are gone, and more
 * than there is room for, of which nothing may be kept. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "open_fds.h"
#include "sys/packet.h"

struct pair {
    int fds[2];
    unsigned before;
};

static int make_pair(void **state)
{
    static struct pair pair;

    pair.before = open_fds();
    *state = &pair;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.fds);
}

static int close_pair(void **state)
{
    struct pair *pair = *state;

    for (int i = 0; i < 2; i++)
        close(pair->fds[i]);
    return open_fds() == pair->before ? 0 : -1;
}

static void hang_up(struct pair *pair, int i)
{
    close(pair->fds[i]);
    pair->fds[i] = -1;
}

static bool is_same(int one, int other)
{
    struct stat a, b;

    assert_int_equal(fstat(one, &a), 0);
    assert_int_equal(fstat(other, &b), 0);
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void all_come_in_their_order(void **state)
{
    struct pair *pair = *state;
    int sent[PACKET_FDS_MAX], came[PACKET_FDS_MAX];
    char data[8];

    for (size_t i = 0; i < ARRAY_SIZE(sent); i++)
        sent[i] = pair->fds[i % 3 == 0];
    for (size_t wanted = 0; wanted <= ARRAY_SIZE(sent); wanted++) {
        size_t count = wanted;

        assert_int_equal(packet_send(pair->fds[0], "word", 4, sent, wanted, 0), 0);
        assert_int_equal(packet_receive(pair->fds[1], data, sizeof(data), came, &count, 0), 4);
        assert_memory_equal(data, "word", 4);
        assert_int_equal(count, wanted);
        for (size_t i = 0; i < count; i++) {
            assert_true(is_same(came[i], sent[i]));
            assert_int_equal(fcntl(came[i], F_GETFD), FD_CLOEXEC);
            close(came[i]);
        }
    }
}

/* Whatever the alignment: not one more than there is room for, and then none at all. */
static void more_than_there_is_room_for(void **state)
{
    struct pair *pair = *state;
    int sent[PACKET_FDS_MAX], came[PACKET_FDS_MAX];
    unsigned before = open_fds();
    char data[8];

    for (size_t i = 0; i < ARRAY_SIZE(sent); i++)
        sent[i] = pair->fds[0];
    for (size_t many = 1; many <= ARRAY_SIZE(sent); many++) {
        for (size_t room = 0; room < many; room++) {
            size_t count = room;

            assert_int_equal(packet_send(pair->fds[0], "word", 4, sent, many, 0), 0);
            assert_int_equal(packet_receive(pair->fds[1], data, sizeof(data), came, &count, 0),
                             -EPROTO);
            assert_int_equal(count, 0);
            assert_int_equal(open_fds(), before);
        }
    }
    assert_int_equal(packet_send(pair->fds[0], "word", 4, sent, PACKET_FDS_MAX + 1, 0), -EINVAL);
}

static void longer_than_there_is_room_for(void **state)
{
    struct pair *pair = *state;
    int fd = -1, came[1];
    size_t count = 1;
    char data[4];

    assert_int_equal(packet_send(pair->fds[0], "words", 5, &pair->fds[0], 1, 0), 0);
    assert_int_equal(packet_receive(pair->fds[1], data, sizeof(data), came, &count, 0), -EPROTO);
    assert_int_equal(count, 0);
    assert_int_equal(packet_offer(pair->fds[0], "words", 5, pair->fds[0]), 1);
    assert_int_equal(packet_take(pair->fds[1], data, sizeof(data), &fd), -EPROTO);
    assert_int_equal(fd, -1);
}

static void offered_and_taken(void **state)
{
    struct pair *pair = *state;
    char data[8];
    int fd = -1;

    assert_int_equal(packet_take(pair->fds[1], data, sizeof(data), &fd), 0);
    assert_int_equal(packet_offer(pair->fds[0], "a", 1, -1), 1);
    assert_int_equal(packet_offer(pair->fds[0], "bc", 2, pair->fds[1]), 1);
    assert_int_equal(packet_take(pair->fds[1], data, sizeof(data), &fd), 1);
    assert_int_equal(fd, -1);
    assert_int_equal(packet_take(pair->fds[1], data, sizeof(data), &fd), 2);
    assert_true(fd >= 0 && is_same(fd, pair->fds[1]));
    close(fd);
}

static void two_where_one_may_be(void **state)
{
    struct pair *pair = *state;
    char data[8];
    int fd = -1;

    assert_int_equal(packet_send(pair->fds[0], "a", 1, pair->fds, 2, 0), 0);
    assert_int_equal(packet_take(pair->fds[1], data, sizeof(data), &fd), -EPROTO);
    assert_int_equal(fd, -1);
}

/* Empty packets look like the peer's end, unless something came along. */
static void empty_packets(void **state)
{
    struct pair *pair = *state;
    char data[8];
    int fd = -1;

    assert_int_equal(packet_offer(pair->fds[0], "", 0, pair->fds[0]), 1);
    assert_int_equal(packet_take(pair->fds[1], data, sizeof(data), &fd), -EPROTO);
    assert_int_equal(packet_offer(pair->fds[0], "", 0, -1), 1);
    assert_int_equal(packet_take(pair->fds[1], data, sizeof(data), &fd), -EPIPE);
    assert_int_equal(fd, -1);
}

static void a_full_socket(void **state)
{
    struct pair *pair = *state;
    char data[512] = {0};
    size_t sent = 0;
    int r, fd = -1;

    while ((r = packet_offer(pair->fds[0], data, sizeof(data), -1)) == 1)
        sent++;
    assert_int_equal(r, 0);
    assert_true(sent > 0);
    assert_int_equal(packet_send(pair->fds[0], data, sizeof(data), NULL, 0, MSG_DONTWAIT), -EAGAIN);
    while (packet_take(pair->fds[1], data, sizeof(data), &fd) == sizeof(data))
        sent--;
    assert_int_equal(sent, 0);
}

static void a_peer_that_is_gone(void **state)
{
    struct pair *pair = *state;
    size_t count = 1;
    char data[8];
    int fd = -1;

    hang_up(pair, 0);
    assert_int_equal(packet_receive(pair->fds[1], data, sizeof(data), &fd, &count, 0), 0);
    assert_int_equal(count, 0);
    assert_int_equal(packet_take(pair->fds[1], data, sizeof(data), &fd), -EPIPE);
    assert_int_equal(packet_offer(pair->fds[1], "a", 1, -1), -EPIPE);
    assert_int_equal(fd, -1);
}

/* Closed with packets unread: the kernel says ECONNRESET once. */
static void a_peer_that_did_not_read(void **state)
{
    struct pair *pair = *state;
    char data[8];
    int fd = -1;

    assert_int_equal(packet_offer(pair->fds[1], "a", 1, pair->fds[1]), 1);
    hang_up(pair, 0);
    assert_int_equal(packet_take(pair->fds[1], data, sizeof(data), &fd), -EPIPE);
    assert_int_equal(fd, -1);
}

#define WITH_PAIR(test) cmocka_unit_test_setup_teardown(test, make_pair, close_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PAIR(all_come_in_their_order),
        WITH_PAIR(more_than_there_is_room_for),
        WITH_PAIR(longer_than_there_is_room_for),
        WITH_PAIR(offered_and_taken),
        WITH_PAIR(two_where_one_may_be),
        WITH_PAIR(empty_packets),
        WITH_PAIR(a_full_socket),
        WITH_PAIR(a_peer_that_is_gone),
        WITH_PAIR(a_peer_that_did_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
