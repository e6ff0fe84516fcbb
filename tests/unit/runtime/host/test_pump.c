/*
 * test_pump.c - frames between a channel and a container's stream: cut anywhere by Docker's
 * packets, a reader that is late, and bytes that are no frames. The other side of the stream is a
 * thread.
 */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "reactor.h"
#include "runtime/docker/docker_private.h"

#define FRAMES 300
#define PAYLOAD 20000 /* far more than any socket takes at once */
#define FLOOD (8 * MIB)
#define FEW 16

static struct sockaddr_un address;
static int listen_fd;
static pthread_t thread;
static struct poll_reactor loop;
static struct http_client *client;
static struct pump pump;
static struct docker_stream attached;
static int host_fd, ended;
static bool has_ended, is_open, thread_is_over;
static bool sends_nonsense, sends_blame, sends_flood, sends_few;
static size_t echoed; /* bytes of frames that came to the container */
static _Atomic size_t flooded;
static size_t early; /* bytes of frames that came before it was given */

static void put(int fd, const void *data, size_t length)
{
    const char *at = data;

    while (length > 0) {
        ssize_t sent = send(fd, at, length, MSG_NOSIGNAL);

        if (sent <= 0)
            return;
        at += sent;
        length -= (size_t)sent;
    }
}

static void put_packet(int fd, uint8_t stream, const void *data, size_t length)
{
    uint8_t head[8] = {stream,         0, 0, 0, 0, (uint8_t)(length >> 16), (uint8_t)(length >> 8),
                       (uint8_t)length};

    put(fd, head, sizeof(head));
    put(fd, data, length);
}

/* Small frames without an end, nearly. */
static void play_flood(int fd)
{
    static uint8_t frames[250 * FRAME_HEADER];

    for (size_t at = 0; at < sizeof(frames); at += FRAME_HEADER)
        frame_header(frames + at, FRAME_DONE, 1, 0);
    while (flooded < FLOOD) {
        put_packet(fd, PACKET_STDOUT, frames, sizeof(frames));
        flooded += sizeof(frames);
    }
}

/* More than the channel takes, and not so much that nobody could send it all at once. */
static void play_few(int fd)
{
    static uint8_t frame[FRAME_HEADER + PAYLOAD];

    for (uint32_t i = 1; i <= FEW; i++) {
        frame_header(frame, FRAME_OUTPUT, i, PAYLOAD);
        put_packet(fd, PACKET_STDOUT, frame, sizeof(frame));
    }
}

/* Frames one behind the other, in packets whose ends are nobody's, with words of stderr between. */
static void play_frames(int fd)
{
    struct buf all = BUF_INIT(16 * MIB);
    uint8_t header[FRAME_HEADER], payload[PAYLOAD];

    for (uint32_t i = 1; i <= FRAMES; i++) {
        memset(payload, (int)i, sizeof(payload));
        frame_header(header, FRAME_OUTPUT, i, sizeof(payload));
        buf_append(&all, header, sizeof(header));
        buf_append(&all, payload, sizeof(payload));
    }
    for (size_t at = 0, size = 1; at < all.length; size = size * 3 % 33001 + 1) {
        size_t part = MIN(size, all.length - at);

        put_packet(fd, PACKET_STDOUT, all.data + at, part);
        put_packet(fd, PACKET_STDERR, "a word", 6);
        at += part;
    }
    buf_free(&all);
}

static void *serve(void *ctx)
{
    static char data[65536];
    int fd = accept(listen_fd, NULL, NULL);
    ssize_t length;

    (void)ctx;
    memset(data, 0, sizeof(data));
    while (!memmem(data, sizeof(data), "\r\n\r\n", 4)) {
        if (recv(fd, data, sizeof(data), 0) <= 0)
            return NULL;
    }
    put(fd, "HTTP/1.1 101 UPGRADED\r\n\r\n", 25);
    frame_header((uint8_t *)data, FRAME_LOST, WHY_PROVIDER_GONE, 0);
    if (sends_blame)
        put_packet(fd, PACKET_STDOUT, data, FRAME_HEADER);
    else if (sends_flood)
        play_flood(fd);
    else if (sends_few)
        play_few(fd);
    else if (sends_nonsense)
        put_packet(fd, PACKET_STDOUT, "this is no frame", 16);
    else
        play_frames(fd);
    shutdown(fd, sends_few ? SHUT_RDWR : SHUT_WR);
    while ((length = recv(fd, data, sizeof(data), 0)) > 0)
        echoed += (size_t)length;
    close(fd);
    return NULL;
}

static void on_opened(void *ctx, unsigned status)
{
    (void)ctx;
    assert_int_equal(status, 101);
    is_open = true;
}

static void on_failed(void *ctx, const struct error *err)
{
    (void)ctx;
    fail_msg("%s", err->text);
}

static void on_ready(void *ctx, short events)
{
    (void)ctx;
    host_pump_ready(&pump, events);
}

static const struct http_stream_events stream_events = {on_opened, on_failed, on_ready};

static void on_ended(void *ctx, int num)
{
    (void)ctx;
    assert_false(has_ended);
    has_ended = true;
    ended = num;
}

/*
 * There is always more to read than was read, until the flood's end. But only a little: whoever
 * writes to a full socket is woken when three quarters of it are free, not sooner.
 */
static int on_early(void *ctx, const struct frame *frame)
{
    (void)ctx;
    (void)frame;
    early += FRAME_HEADER;
    while (flooded < FLOOD && flooded < early + 4 * KIB)
        sched_yield();
    return 0;
}

static void open_all(bool nonsense)
{
    struct http_call call = {.method = "POST", .path = "/attach"};
    struct http_place place = {.reactor = &loop.reactor};
    char url[160];
    int pair[2];

    sends_nonsense = nonsense;
    has_ended = is_open = false;
    echoed = 0;
    poll_reactor_init(&loop);
    address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/bailey-pump-%d.sock", getpid());
    snprintf(url, sizeof(url), "unix://%s", address.sun_path);
    unlink(address.sun_path);
    listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listen_fd, 1), 0);
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
    place.address = url;
    assert_int_equal(http_client_open_at(&place, &client, NULL), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                     0);
    host_fd = pair[1];
    memset(&pump, 0, sizeof(pump));
    memset(&attached, 0, sizeof(attached));
    pump.ops = &docker_stream_ops;
    pump.stream = &attached;
    pump.reactor = &loop.reactor;
    pump.fd = pair[0];
    pump.ended = on_ended;
    pump.early = on_early;
    assert_int_equal(http_stream_open(client, &call, &stream_events, NULL, &attached.http, NULL),
                     0);
    while (!is_open)
        poll_reactor_turn(&loop, -1);
    if (!sends_flood)
        assert_int_equal(host_pump_give(&pump), 0);
    host_pump_start(&pump);
}

static void close_all(void)
{
    host_pump_stop(&pump);
    http_client_close(client);
    if (!thread_is_over)
        pthread_join(thread, NULL);
    close(host_fd);
    close(listen_fd);
    unlink(address.sun_path);
    poll_reactor_free(&loop);
}

static void test_a_late_reader_gets_all(void **state)
{
    static uint8_t data[WIRE_FRAME_MAX];
    uint32_t next = 1;

    (void)state;
    open_all(false);
    while (!pump.has_frame) /* until it is full, and nothing is read any more */
        poll_reactor_turn(&loop, -1);
    assert_int_equal(poll_reactor_turn(&loop, 0), 0);
    while (next <= FRAMES) {
        ssize_t length = recv(host_fd, data, sizeof(data), 0);
        struct frame frame;

        if (length < 0) {
            poll_reactor_turn(&loop, -1);
            continue;
        }
        assert_int_equal(frame_decode(data, (size_t)length, &frame), 0);
        assert_int_equal(frame.id, next);
        assert_int_equal(frame.length, PAYLOAD);
        assert_int_equal(frame.payload[PAYLOAD - 1], (uint8_t)next);
        next++;
    }
    while (!has_ended)
        poll_reactor_turn(&loop, -1);
    assert_int_equal(ended, 0);
    close_all();
}

static void test_no_frames_end_it(void **state)
{
    (void)state;
    open_all(true);
    while (!has_ended)
        poll_reactor_turn(&loop, -1);
    assert_int_equal(ended, -EPROTO);
    close_all();
}

/* Other boxes have their turn: whoever always has something to say is not heard to its end. */
static void test_a_flood_is_not_all(void **state)
{
    size_t most = 0;

    (void)state;
    sends_flood = true;
    flooded = early = 0;
    open_all(false);
    while (!has_ended) {
        size_t before = early;

        poll_reactor_turn(&loop, -1);
        most = MAX(most, early - before);
    }
    assert_int_equal(ended, 0);
    assert_int_equal(early, flooded);
    assert_true(most > 0 && most < 2 * MIB);
    close_all();
    sends_flood = false;
}

/* Nobody takes its last frames yet, and it hung up: that is no reason to turn and turn. */
static void test_the_end_of_one_whose_reader_is_late(void **state)
{
    static uint8_t data[WIRE_FRAME_MAX];
    uint32_t count = 0;

    (void)state;
    sends_few = true;
    open_all(false);
    while (!pump.has_frame)
        poll_reactor_turn(&loop, -1);
    pthread_join(thread, NULL);
    for (int i = 0; i < 10; i++)
        poll_reactor_turn(&loop, 0);
    assert_int_equal(poll_reactor_turn(&loop, 0), 0);
    assert_false(has_ended);
    while (!has_ended) {
        if (recv(host_fd, data, sizeof(data), 0) > 0)
            count++;
        else
            poll_reactor_turn(&loop, -1);
    }
    while (recv(host_fd, data, sizeof(data), 0) > 0)
        count++;
    assert_int_equal(count, FEW);
    assert_int_equal(ended, 0);
    thread_is_over = true;
    close_all();
    sends_few = thread_is_over = false;
}

/* Why a box is lost is the provider host's to say. */
static void test_a_container_that_blames_docker(void **state)
{
    (void)state;
    sends_blame = true;
    open_all(true);
    while (!has_ended)
        poll_reactor_turn(&loop, -1);
    assert_int_equal(ended, -EPROTO);
    close_all();
    sends_blame = false;
}

/* It is read behind everything else, and before the end. */
static void test_farewell(void **state)
{
    uint8_t data[256];
    struct frame frame;

    (void)state;
    open_all(true);
    while (!has_ended)
        poll_reactor_turn(&loop, -1);
    host_pump_halt(&pump);
    assert_int_equal(recv(host_fd, data, sizeof(data), 0), -1);
    host_pump_farewell(&pump, WHY_PROVIDER_GONE);
    assert_int_equal(recv(host_fd, data, sizeof(data), 0), FRAME_HEADER);
    assert_int_equal(frame_decode(data, FRAME_HEADER, &frame), 0);
    assert_int_equal(frame.type, FRAME_LOST);
    assert_int_equal(frame.id, WHY_PROVIDER_GONE);
    assert_int_equal(recv(host_fd, data, sizeof(data), 0), 0);
    close_all();
}

/* What the broker sends goes out as it is; what is no frame ends the box and nobody else's. */
static void test_to_the_container(void **state)
{
    uint8_t packet[FRAME_HEADER + 100] = {0};

    (void)state;
    open_all(false);
    frame_header(packet, FRAME_STDIN, 7, 100);
    for (int i = 0; i < 10; i++)
        assert_int_equal(send(host_fd, packet, sizeof(packet), 0), sizeof(packet));
    while (!pump.has_frame && !has_ended)
        poll_reactor_turn(&loop, -1);
    assert_int_equal(send(host_fd, "nonsense", 8, 0), 8);
    while (!has_ended)
        poll_reactor_turn(&loop, -1);
    assert_int_equal(ended, -EPROTO);
    close_all();
    assert_int_equal(echoed, 10 * sizeof(packet));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_late_reader_gets_all),
        cmocka_unit_test(test_no_frames_end_it),
        cmocka_unit_test(test_a_flood_is_not_all),
        cmocka_unit_test(test_the_end_of_one_whose_reader_is_late),
        cmocka_unit_test(test_a_container_that_blames_docker),
        cmocka_unit_test(test_farewell),
        cmocka_unit_test(test_to_the_container),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
