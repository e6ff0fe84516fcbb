/*
 * channel.c - the way to the host, one socket or two byte streams (stream.c): control frames first,
 * then bytes while there is room.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "sys/packet.h"
#include "warden/warden_private.h"
#include "wire/pack.h"

#define FRAMES_PER_TURN 64
#define ROUNDS_PER_TURN 64 /* of all producers, before we listen to the host again */

/* 1 sent, 0 no room; a broken channel ends the box. */
static int send_parts(struct warden *warden, struct iovec *parts, size_t count)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};

    if (warden->stream)
        return stream_send(warden, parts, count);
    for (;;) {
        if (sendmsg(warden->channel.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return 1;
        if (errno == EINTR)
            continue;
        if (errno == EAGAIN || errno == ENOBUFS) {
            warden->is_blocked = true;
            return 0;
        }
        warden_end(warden);
    }
}

static bool send_queue(struct warden *warden)
{
    while (warden->control.length > 0) {
        struct unpack unpack = {.data = (const uint8_t *)warden->control.data, .left = 4};
        size_t whole = unpack_u32(&unpack); /* a header begins with its frame's length */
        struct iovec part = {.iov_base = warden->control.data, .iov_len = whole};

        if (!send_parts(warden, &part, 1))
            return false;
        buf_consume(&warden->control, whole);
    }
    return true;
}

bool channel_frame(struct warden *warden, enum frame_type type, uint32_t id, const void *payload,
                   size_t length)
{
    uint8_t header[FRAME_HEADER];
    struct iovec parts[2] = {
        {.iov_base = header, .iov_len = FRAME_HEADER},
        {.iov_base = (void *)payload, .iov_len = length},
    };

    frame_header(header, type, id, length);
    return send_parts(warden, parts, length > 0 ? 2 : 1);
}

void channel_control(struct warden *warden, enum frame_type type, uint32_t id, const void *payload,
                     size_t length)
{
    uint8_t header[FRAME_HEADER];

    if (warden->control.length == 0 && !warden->is_blocked &&
        channel_frame(warden, type, id, payload, length))
        return;
    frame_header(header, type, id, length);
    if (buf_append(&warden->control, header, FRAME_HEADER) < 0 ||
        buf_append(&warden->control, payload, length) < 0)
        warden_end(warden);
}

void channel_done(struct warden *warden, uint32_t id, int negative_errno)
{
    uint8_t payload[4];
    ssize_t length = message_number_pack((uint32_t)-negative_errno, payload, sizeof(payload));

    channel_control(warden, FRAME_DONE, id, payload, (size_t)length);
}

void channel_ack(struct warden *warden, uint32_t id, uint8_t stream, uint64_t offset)
{
    struct message_ack ack = {.stream = stream, .offset = offset};
    uint8_t payload[9];
    ssize_t length = message_ack_pack(&ack, payload, sizeof(payload));

    channel_control(warden, FRAME_ACK, id, payload, (size_t)length);
}

bool channel_bytes(struct warden *warden, enum frame_type type, uint32_t id, uint8_t stream,
                   uint64_t offset, const void *data, size_t length)
{
    uint8_t header[FRAME_HEADER + MESSAGE_BYTES_HEADER];
    struct iovec parts[2] = {
        {.iov_base = header, .iov_len = sizeof(header)},
        {.iov_base = (void *)data, .iov_len = length},
    };

    if (warden->is_blocked || warden->control.length > 0)
        return false;
    frame_header(header, type, id, MESSAGE_BYTES_HEADER + length);
    message_bytes_header(header + FRAME_HEADER, stream, offset);
    return send_parts(warden, parts, 2);
}

void channel_flush(struct warden *warden)
{
    bool progress = true;

    for (int i = 0; i < ROUNDS_PER_TURN && !warden->is_blocked && progress; i++) {
        if (!send_queue(warden))
            break;
        progress = command_produce(warden);
        progress |= file_produce(warden);
        progress |= port_produce(warden);
    }
    warden->loop.is_busy = (progress && !warden->is_blocked) | file_work(warden);
    if (warden->stream)
        stream_watch(warden);
    else
        loop_change(&warden->loop, &warden->channel,
                    EPOLLIN | (warden->is_blocked ? (uint32_t)EPOLLOUT : 0));
}

bool channel_is_clear(const struct warden *warden)
{
    return warden->control.length == 0 && (!warden->stream || stream_is_clear(warden->stream));
}

/*
 * One frame, with the descriptors that came along in warden->given. Only KERNEL has some, three of
 * them: a host that sends others, or loses one on the way, violates the protocol.
 */
static ssize_t receive(struct warden *warden, uint8_t *data, size_t size, struct frame *ret)
{
    size_t count = ARRAY_SIZE(warden->given);
    ssize_t length =
        packet_receive(warden->channel.fd, data, size, warden->given, &count, MSG_DONTWAIT);

    if (length < 0)
        return length;
    /* The host has gone, or violates the protocol: either way this box ends. */
    if (length == 0 || frame_decode(data, (size_t)length, ret) < 0 ||
        count != (ret->type == FRAME_KERNEL ? ARRAY_SIZE(warden->given) : 0))
        warden_end(warden);
    return length;
}

static void channel_ready(struct loop_source *source, uint32_t events)
{
    struct warden *warden = (struct warden *)((char *)source - offsetof(struct warden, channel));
    static uint8_t data[WIRE_FRAME_MAX]; /* one reader, one thread */

    if (events & EPOLLOUT)
        warden->is_blocked = false;
    for (int i = 0; i < FRAMES_PER_TURN; i++) {
        struct frame frame;
        ssize_t length = receive(warden, data, sizeof(data), &frame);

        if (length == -EAGAIN)
            return;
        if (length < 0)
            warden_end(warden);
        dispatch_frame(warden, &frame);
    }
}

int channel_open(struct warden *warden, int fd)
{
    int r = fd_set_nonblocking(fd, true);

    if (r < 0)
        return r;
    warden->channel.ready = channel_ready;
    return loop_add(&warden->loop, &warden->channel, fd, EPOLLIN);
}
