/* channel.c - messages over a packet socket, with a queue; see channel.h. */
#include "upstream/channel.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "sys/packet.h"

#define HEAD 5
#define MESSAGES_PER_TURN 64

struct packet {
    struct packet *next;
    size_t length;
    uint8_t data[];
};

struct upstream_channel {
    struct reactor *reactor;
    struct reactor_watch *watch;
    int fd;
    bool is_broker, is_closed;
    bool is_inside; /* a callback runs: closing waits for its end */
    const struct upstream_events *events;
    void *ctx;
    struct packet *queue, *last;
    size_t waiting;
};

int upstream_channel_unpack(const void *packet, size_t length, bool is_broker,
                            struct upstream_message *ret)
{
    const uint8_t *bytes = packet;

    if (length < HEAD || length > HEAD + CHANNEL_DATA_MAX || bytes[0] == 0 ||
        bytes[0] >= _CHANNEL_TYPE_MAX || (bytes[0] >= CHANNEL_BEGUN) != is_broker)
        return -EPROTO;
    *ret = (struct upstream_message){
        .type = bytes[0],
        .call = (uint32_t)bytes[1] | (uint32_t)bytes[2] << 8 | (uint32_t)bytes[3] << 16 |
                (uint32_t)bytes[4] << 24,
        .data = bytes + HEAD,
        .length = length - HEAD,
    };
    return 0;
}

static void channel_free(struct upstream_channel *channel)
{
    while (channel->queue) {
        struct packet *packet = channel->queue;

        channel->queue = packet->next;
        free(packet);
    }
    free(channel);
}

void upstream_channel_close(struct upstream_channel *channel)
{
    if (!channel || channel->is_closed)
        return;
    channel->is_closed = true;
    channel->reactor->ops->watch_remove(channel->watch);
    fd_closep(&channel->fd);
    if (!channel->is_inside)
        channel_free(channel);
}

/* ---- sending ---- */

static void want(struct upstream_channel *channel)
{
    channel->reactor->ops->watch_change(channel->watch,
                                        (short)(POLLIN | (channel->queue ? POLLOUT : 0)));
}

/* A socket that is broken is found broken when it is read. */
static void flush(struct upstream_channel *channel)
{
    while (channel->queue) {
        struct packet *packet = channel->queue;

        if (packet_offer(channel->fd, packet->data, packet->length, -1) == 0)
            break;
        channel->queue = packet->next;
        channel->waiting -= packet->length;
        free(packet);
    }
    want(channel);
}

static int send_one(struct upstream_channel *channel, enum channel_type type, uint32_t call,
                    const void *data, size_t length)
{
    struct packet *packet = malloc(sizeof(*packet) + HEAD + length);

    if (!packet)
        return -ENOMEM;
    packet->next = NULL;
    packet->length = HEAD + length;
    packet->data[0] = (uint8_t)type;
    for (int i = 0; i < 4; i++)
        packet->data[1 + i] = (uint8_t)(call >> (8 * i));
    if (length > 0)
        memcpy(packet->data + HEAD, data, length);
    if (!channel->queue && packet_offer(channel->fd, packet->data, packet->length, -1) != 0) {
        free(packet);
        return 0;
    }
    if (channel->queue)
        channel->last->next = packet;
    else
        channel->queue = packet;
    channel->last = packet;
    channel->waiting += packet->length;
    want(channel);
    return 0;
}

int upstream_channel_send(struct upstream_channel *channel, enum channel_type type,
                          enum channel_type more, uint32_t call, const void *data, size_t length)
{
    const uint8_t *at = data;
    int r = 0;

    if (channel->is_closed)
        return 0;
    for (; length > CHANNEL_DATA_MAX && r == 0; length -= CHANNEL_DATA_MAX) {
        r = send_one(channel, more, call, at, CHANNEL_DATA_MAX);
        at += CHANNEL_DATA_MAX;
    }
    return r < 0 ? r : send_one(channel, type, call, at, length);
}

size_t upstream_channel_waiting(const struct upstream_channel *channel)
{
    return channel->waiting;
}

/* ---- receiving ---- */

static void hear(struct upstream_channel *channel)
{
    for (int i = 0; i < MESSAGES_PER_TURN && !channel->is_closed; i++) {
        uint8_t data[HEAD + CHANNEL_DATA_MAX];
        struct upstream_message message;
        CLEANUP(fd_closep) int fd = -1;
        ssize_t length = packet_take(channel->fd, data, sizeof(data), &fd);

        if (length == 0)
            return;
        if (length < 0 || fd >= 0 ||
            upstream_channel_unpack(data, (size_t)length, channel->is_broker, &message) < 0) {
            channel->events->closed(channel->ctx);
            return;
        }
        channel->events->message(channel->ctx, &message);
    }
}

static void on_ready(void *ctx, short events)
{
    struct upstream_channel *channel = ctx;
    bool had_queue = channel->queue;

    channel->is_inside = true;
    if (events & POLLOUT) {
        flush(channel);
        if (had_queue && !channel->queue && channel->events->drained)
            channel->events->drained(channel->ctx);
    }
    if (!channel->is_closed && (events & ~POLLOUT))
        hear(channel);
    channel->is_inside = false;
    if (channel->is_closed)
        channel_free(channel);
}

struct upstream_channel *upstream_channel_open(struct reactor *reactor, int fd, bool is_broker,
                                               const struct upstream_events *events, void *ctx)
{
    CLEANUP(fd_closep) int own = fd;
    struct upstream_channel *channel = calloc(1, sizeof(*channel));

    if (!channel)
        return NULL;
    *channel = (struct upstream_channel){
        .reactor = reactor, .fd = own, .is_broker = is_broker, .events = events, .ctx = ctx};
    if (fd_set_nonblocking(own, true) < 0 ||
        !(channel->watch = reactor_watch(reactor, own, POLLIN, on_ready, channel))) {
        free(channel);
        return NULL;
    }
    fd_take(&own);
    return channel;
}
