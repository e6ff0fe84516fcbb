/*
 * box.c - the channel to a warden: sends and receives frames, keeps deadlines, handles the loss of
 * a box.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "runtime/box/box_private.h"
#include "wire/pack.h"

#define FRAMES_PER_PUMP 64
#define QUEUE_MAX (4 * MIB + LIMIT_CELL_TEXT)

int box_new(int fd, void *provider_data, struct box **ret, struct error *err)
{
    struct box *box = calloc(1, sizeof(*box));

    if (!box)
        return error_memory(err);
    box->fd = fd;
    box->provider_data = provider_data;
    box->queue = BUF_INIT(QUEUE_MAX);
    *ret = box;
    return 0;
}

void *box_provider_data(const struct box *box)
{
    return box->provider_data;
}

void box_free(struct box *box)
{
    if (!box)
        return;
    while (box->calls)
        box_call_free(box, box->calls);
    free(box->adoption);
    buf_free(&box->queue);
    fd_closep(&box->fd);
    free(box);
}

struct call *box_call(struct box *box, uint32_t id, enum call_kind kind)
{
    for (struct call *call = box->calls; call; call = call->next) {
        if (call->id == id && call->kind == kind)
            return call;
    }
    return NULL;
}

struct call *box_call_add(struct box *box, enum call_kind kind, uint32_t id, void *ctx,
                          struct error *err)
{
    struct call *call = calloc(1, sizeof(*call));

    if (!call) {
        error_memory(err);
        return NULL;
    }
    call->kind = kind;
    call->id = id;
    call->ctx = ctx;
    for (int i = 0; i < BOX_STREAMS; i++)
        call->in[i].held = BUF_INIT(WIRE_STREAM_WINDOW);
    call->next = box->calls;
    box->calls = call;
    return call;
}

struct call *box_call_new(struct box *box, enum call_kind kind, void *ctx, struct error *err)
{
    if (box->is_lost) {
        if (err)
            *err = box->lost;
        return NULL;
    }
    if (box->adoption) { /* the free ids are not known yet */
        error_set(err, -EBUSY, ERROR_ENGINE, "the box's warden has not answered yet");
        return NULL;
    }
    return box_call_add(box, kind, ++box->next_id, ctx, err);
}

void box_call_free(struct box *box, struct call *call)
{
    LIST_UNLINK(box->calls, call);
    for (int i = 0; i < BOX_STREAMS; i++)
        buf_free(&call->in[i].held);
    free(call);
}

static void call_failed(struct call *call, const struct error *err)
{
    if (call->kind != CALL_EXEC) {
        file_failed(call, err);
    } else if (call->was_timed_out) {
        /* What the engine itself decided remains true if the warden cannot confirm it. */
        struct exec_end end = {
            .signal = 9, .timed_out = true, .duration_ns = call->timeout_ms * 1000000};

        call->on.exec->ended(call->ctx, &end);
    } else {
        call->on.exec->failed(call->ctx, err);
    }
}

void box_set_provider(struct box *box, const struct provider_row *row)
{
    box->provider = row;
}

static bool is_hosted(const struct box *box)
{
    return provider_can(box->provider, PROVIDER_HOSTED);
}

void box_blame(struct box *box, unsigned why)
{
    if (is_hosted(box) && why < _WHY_MAX && box->why == WHY_UNKNOWN)
        box->why = (enum launcher_why)why;
}

bool box_lost_provider(const struct box *box)
{
    return box->why == WHY_PROVIDER_GONE;
}

/* The provider's reason says more than how the loss was noticed. */
static const char *cause(const struct box *box)
{
    static const char *const texts[_WHY_MAX] = {
        [WHY_NONSENSE] = "its container sent data that is not a warden's",
    };

    if (box->why == WHY_PROVIDER_GONE)
        return box->provider->gone;
    if (texts[box->why])
        return texts[box->why];
    return box->broken ? box->broken : "its warden is gone";
}

int box_lost_error(const struct box *box, struct error *err)
{
    error_set(err, -EPIPE, ERROR_BOX_LOST, "the box was lost: %s", cause(box));
    if (err && box_lost_provider(box))
        err->provider = provider_runtime(box->provider);
    return -EPIPE;
}

void box_break(struct box *box, const char *why)
{
    if (!box->broken)
        box->broken = why;
}

/* Fails every pending call; a known exit stays an exit, only its reader was slow. */
static void lose(struct box *box)
{
    struct call *call;

    if (box->is_lost || !box->broken)
        return;
    box->is_lost = true;
    box_lost_error(box, &box->lost);
    adopt_lose(box);
    call = box->calls;
    while (call) {
        struct call ended = *call;

        if (call->has_exited) {
            call = call->next;
            continue;
        }
        box_call_free(box, call);
        call_failed(&ended, &box->lost);
        call = box->calls; /* a callback may have ended other calls */
    }
}

void box_fail(struct box *box, const struct error *err)
{
    if (!box->is_lost) {
        box->is_lost = true;
        box->lost = *err;
    }
    adopt_lose(box);
    while (box->calls) { /* a callback may end other calls */
        struct call ended = *box->calls;

        box_call_free(box, box->calls);
        if (ended.kind == CALL_EXEC && ended.has_exited)
            ended.on.exec->ended(ended.ctx,
                                 &ended.end); /* the exit is known; only its reader was slow */
        else
            call_failed(&ended, err); /* a get whose last bytes were not taken has failed */
    }
}

void box_on_wake(struct box *box, void (*wake)(void *ctx), void *ctx)
{
    box->wake = wake;
    box->wake_ctx = ctx;
}

void box_reserve(struct box *box, uint32_t id)
{
    box->next_id = MAX(box->next_id, id);
}

uint32_t box_next_id(const struct box *box)
{
    return box->next_id + 1;
}

/*
 * 1: sent, 0: no room, negative: cannot be sent. A warden that has ended takes no more frames, but
 * its last frames may still be readable: its end is learned from the end of the data it sent.
 */
static int send_now(struct box *box, const struct iovec *parts, size_t count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = count};

    while (sendmsg(box->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
        if (errno == EAGAIN || errno == ENOBUFS)
            return 0;
        if (errno == EPIPE || errno == ECONNRESET)
            return 1;
        if (errno != EINTR)
            return -errno;
    }
    return 1;
}

int box_send(struct box *box, enum frame_type type, uint32_t id, const void *payload, size_t length)
{
    uint8_t header[FRAME_HEADER];
    struct iovec parts[2] = {
        {.iov_base = header, .iov_len = FRAME_HEADER},
        {.iov_base = (void *)payload, .iov_len = length},
    };
    int r = 0;

    frame_header(header, type, id, length);
    if (box->queue.length == 0)
        r = send_now(box, parts, length > 0 ? 2 : 1);
    if (r > 0) {
        if (box->wake && type != FRAME_STDIN && type != FRAME_PUT_DATA && type != FRAME_PORT_DATA &&
            type != FRAME_ACK)
            box->wake(box->wake_ctx); /* a deadline may have been set with it */
        return 0;
    }
    /* A frame is queued whole or not at all. */
    if (r == 0 && FRAME_HEADER + length > box->queue.maximum - box->queue.length)
        r = -ENOBUFS;
    if (r == 0)
        r = buf_append(&box->queue, header, FRAME_HEADER);
    if (r == 0)
        r = buf_append(&box->queue, payload, length);
    if (r < 0)
        box_break(box, r == -ENOBUFS ? "it accepts no more frames" : "its warden is gone");
    if (box->wake)
        box->wake(box->wake_ctx);
    return r;
}

int box_send_two(struct box *box, const struct out_frame frames[2])
{
    uint8_t header[2][FRAME_HEADER];
    struct mmsghdr messages[2] = {0};
    struct iovec parts[2][2];
    int sent = 0, r = 0;

    for (int i = 0; i < 2; i++) {
        frame_header(header[i], frames[i].type, frames[i].id, frames[i].length);
        parts[i][0] = (struct iovec){.iov_base = header[i], .iov_len = FRAME_HEADER};
        parts[i][1] =
            (struct iovec){.iov_base = (void *)frames[i].payload, .iov_len = frames[i].length};
        messages[i].msg_hdr.msg_iov = parts[i];
        messages[i].msg_hdr.msg_iovlen = frames[i].length > 0 ? 2 : 1;
    }
    if (box->queue.length == 0)
        sent = MAX(0, sendmmsg(box->fd, messages, 2, MSG_NOSIGNAL | MSG_DONTWAIT));
    if (sent == 2 && box->wake)
        box->wake(box->wake_ctx);
    for (int i = sent; i < 2 && r == 0;
         i++) /* if some were not sent at once, box_send() queues them */
        r = box_send(box, frames[i].type, frames[i].id, frames[i].payload, frames[i].length);
    return r;
}

bool box_has_room(const struct box *box, size_t bytes)
{
    size_t frames = bytes / FRAME_PAYLOAD_MAX + 2;

    return bytes + frames * 2 * FRAME_HEADER <= box->queue.maximum - box->queue.length;
}

static int send_queue(struct box *box)
{
    size_t sent = 0;
    int r = 1;

    while (r > 0 && sent < box->queue.length) {
        char *start = box->queue.data + sent;
        struct unpack unpack = {.data = (const uint8_t *)start, .left = 4};
        size_t whole = unpack_u32(&unpack); /* a header begins with its frame's length */
        struct iovec part = {.iov_base = start, .iov_len = whole};

        r = send_now(box, &part, 1);
        if (r > 0)
            sent += whole;
    }
    buf_consume(&box->queue, sent);
    return MIN(r, 0);
}

long box_send_bytes(struct box *box, struct call *call, enum frame_type type, const void *data,
                    size_t length)
{
    size_t taken = 0;

    if (box->is_lost)
        return -EPIPE;
    while (taken < length) {
        uint8_t payload[FRAME_PAYLOAD_MAX];
        size_t window = call->kind == CALL_PORT ? WIRE_PORT_WINDOW : WIRE_STREAM_WINDOW;
        size_t room = window - (size_t)(call->sent - call->acked);
        size_t part = MIN(length - taken, (size_t)FRAME_DATA_MAX);
        int r;

        part = MIN(part, room);
        if (part == 0)
            break;
        message_bytes_header(payload, 0, call->sent);
        memcpy(payload + MESSAGE_BYTES_HEADER, (const char *)data + taken, part);
        r = box_send(box, type, call->id, payload, MESSAGE_BYTES_HEADER + part);
        if (r < 0)
            return r;
        call->sent += part;
        taken += part;
    }
    return (long)taken;
}

int box_fd(const struct box *box)
{
    return box->is_lost ? -1 : box->fd;
}

short box_poll_events(const struct box *box)
{
    return (short)(POLLIN | (box->queue.length > 0 ? POLLOUT : 0));
}

bool box_is_busy(const struct box *box)
{
    for (const struct call *call = box->calls; call; call = call->next) {
        if (call->kind != CALL_WATCH && !call->is_kernel)
            return true;
    }
    return false;
}

uint64_t box_next_deadline_ms(const struct box *box)
{
    uint64_t next = box->adoption ? box->hello_deadline_ms : UINT64_MAX;

    if (box->broken && !box->is_lost)
        return 0; /* lost by a call outside box_pump(): no event may ever come to wake it */
    if (box->clock_stopped_ms)
        return UINT64_MAX;
    for (const struct call *call = box->calls; call; call = call->next) {
        if (call->deadline_ms && !call->was_timed_out)
            next = MIN(next, call->deadline_ms);
        if (call->grace_deadline_ms)
            next = MIN(next, call->grace_deadline_ms);
        if (call->kill_deadline_ms)
            next = MIN(next, call->kill_deadline_ms);
        if (call->start_deadline_ms)
            next = MIN(next, call->start_deadline_ms);
    }
    return next == UINT64_MAX ? next : next + box->clock_lag_ms;
}

/* The provider host's last frame with the reason; a warden must not send it. */
static bool take_blame(struct box *box, const struct frame *frame)
{
    if (!is_hosted(box) || frame->id >= _WHY_MAX || frame->length > 0)
        return false;
    box_blame(box, frame->id);
    box_break(box, "its warden is gone");
    return true;
}

/* Handles a frame for a pending call of a kind that may get it. */
static bool handle_frame(struct box *box, const struct frame *frame)
{
    if (frame->type == FRAME_LOST)
        return take_blame(box, frame);
    if (box->adoption)
        return adopt_frame(box, frame);
    for (struct call *call = box->calls; call; call = call->next) {
        if (call->id != frame->id)
            continue;
        if (call->kind == CALL_EXEC)
            return exec_frame(box, call, frame);
        if (call->kind == CALL_PORT || call->kind == CALL_PORTS)
            return port_frame(box, call, frame);
        return file_frame(box, call, frame);
    }
    /* Bytes sent before a call failed are still acknowledged. */
    return frame->type == FRAME_ACK && frame->id > 0 && frame->id <= box->next_id;
}

static void receive(struct box *box)
{
    static uint8_t data[WIRE_FRAME_MAX]; /* one thread; callbacks do not pump */

    for (int i = 0; i < FRAMES_PER_PUMP && !box->broken; i++) {
        ssize_t length = recv(box->fd, data, sizeof(data), MSG_DONTWAIT | MSG_TRUNC);
        struct frame frame;

        if (length < 0 && (errno == EINTR || errno == ECONNRESET))
            continue; /* reset: the warden closed with unread frames; its own frames are still
                         readable */
        if (length < 0 && errno == EAGAIN)
            return;
        if (length <= 0)
            box_break(box, "its warden is gone");
        else if ((size_t)length > sizeof(data) || frame_decode(data, (size_t)length, &frame) < 0 ||
                 !handle_frame(box, &frame))
            box_break(box, "its warden broke the protocol");
    }
}

int box_pump(struct box *box, struct error *err)
{
    uint64_t now_ms = box_now_ms(box);
    struct call *next;

    if (!box->is_lost && send_queue(box) < 0)
        box_break(box, "its warden is gone");
    if (!box->is_lost)
        receive(box);
    for (struct call *call = box->calls; call && !box->is_lost; call = next) {
        next = call->next;
        if (call->kind == CALL_EXEC)
            exec_tick(box, call, now_ms);
    }
    adopt_tick(box, now_ms);
    lose(box);
    /* A known exit whose output was not taken yet is still to be reported: box_resume() does. */
    if (!box->is_lost || box->calls)
        return 0;
    if (err)
        *err = box->lost;
    return box->lost.num;
}
