/*
 * fuzz_box_files.c - any frames from a warden to a box with every kind of file call pending, and
 * connections to ports, some of them cancelled. It must never crash, every call ends once, and a
 * cancelled one is silent.
 *
 * Input: type (1 byte), id (1), length (2, little endian), payload; again and again. Type 0 cancels
 * the call with that id.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "runtime/box/box.h"
#include "runtime/box/files.h"
#include "runtime/box/ports.h"
#include "wire/file_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PUT = 1, GET, LIST, STAT, CHANGE, WATCH, SLOW_GET, PORT, SLOW_PORT, PORTS, CALLS };

static void check(int is_true)
{
    if (!is_true)
        abort();
}

struct pending {
    int ends, entries, is_ready, is_cancelled, is_slow;
    size_t taken;
};

static void saw_end(void *ctx, const struct error *err)
{
    struct pending *pending = ctx;

    check(++pending->ends == 1 && !pending->is_cancelled && err->num <= 0);
}

static void saw_more(void *ctx)
{
    check(((struct pending *)ctx)->ends == 0 && !((struct pending *)ctx)->is_cancelled);
}

static size_t saw_data(void *ctx, const void *data, size_t length)
{
    volatile uint8_t last = ((const uint8_t *)data)[length - 1];
    struct pending *pending = ctx;

    (void)last;
    saw_more(ctx);
    length = pending->is_slow ? length / 2 : length;
    pending->taken += length;
    return length;
}

static void saw_entry(void *ctx, const struct box_entry *entry)
{
    saw_more(ctx);
    ((struct pending *)ctx)->entries++;
    check(strlen(entry->name) <= LIMIT_PATH_BYTES);
}

static void saw_ready(void *ctx)
{
    saw_more(ctx);
    check(++((struct pending *)ctx)->is_ready == 1);
}

static void saw_change(void *ctx, const struct box_change *change)
{
    saw_more(ctx);
    check(((struct pending *)ctx)->is_ready && change->kind < _CHANGE_KIND_MAX);
    check((change->kind == CHANGE_OVERFLOW) == (change->name[0] == 0));
}

static void saw_listed(void *ctx, const uint16_t *ports, size_t count, bool is_cut)
{
    (void)is_cut;
    saw_more(ctx);
    check(++((struct pending *)ctx)->is_ready == 1 && count <= LIMIT_LISTED_PORTS);
    for (size_t i = 1; i < count; i++)
        check(ports[i - 1] > 0 && ports[i - 1] < ports[i]);
}

static void start_ports(struct box *box, struct pending *pending)
{
    static const struct port_events port = {
        .opened = saw_ready, .data = saw_data, .room = saw_more, .done = saw_end};
    static const struct ports_events ports = {.listed = saw_listed, .done = saw_end};
    struct error err = {0};
    uint32_t id = 0;

    check(box_port_open(box, 80, &port, &pending[PORT], &id, &err) == 0 && id == PORT);
    check(box_port_open(box, 81, &port, &pending[SLOW_PORT], &id, &err) == 0 && id == SLOW_PORT);
    check(box_ports(box, &ports, &pending[PORTS], &id, &err) == 0 && id == PORTS);
}

static void start_calls(struct box *box, struct pending *pending)
{
    static const struct put_events put = {.done = saw_end, .more = saw_more};
    static const struct get_events get = {.data = saw_data, .done = saw_end};
    static const struct list_events list = {.entry = saw_entry, .done = saw_end};
    static const struct done_events done = {.done = saw_end};
    static const struct watch_events watch = {
        .ready = saw_ready, .changed = saw_change, .done = saw_end};
    struct put_spec spec = {.path = "/tmp/a", .is_in_place = true, .offset = 7};
    struct error err = {0};
    uint32_t id = 0;

    check(box_put(box, &spec, &put, &pending[PUT], &id, &err) == 0 && id == PUT);
    check(box_get(box, "/tmp/b", 1, 100, &get, &pending[GET], &id, &err) == 0 && id == GET);
    check(box_list(box, "/tmp", 2, &list, &pending[LIST], &id, &err) == 0 && id == LIST);
    check(box_stat(box, "/tmp", &list, &pending[STAT], &id, &err) == 0 && id == STAT);
    check(box_move(box, "/tmp/a", "/tmp/b", &done, &pending[CHANGE], &id, &err) == 0);
    check(box_watch(box, "/tmp", true, &watch, &pending[WATCH], &id, &err) == 0 && id == WATCH);
    check(box_get(box, "/tmp/c", 0, 0, &get, &pending[SLOW_GET], &id, &err) == 0);
    check(id == SLOW_GET && box_put_data(box, PUT, "bytes", 5) == 5);
    start_ports(box, pending);
}

static void cancel(struct box *box, struct pending *pending, uint32_t id)
{
    if (id > 0 && id < CALLS)
        pending[id].is_cancelled = pending[id].ends == 0;
    box_cancel(box, id);
}

/* Does the next thing of the input; the bytes it took, or 0 at the end. */
static size_t next(struct box *box, struct pending *pending, int fd, const uint8_t *data,
                   size_t size)
{
    static uint8_t frame[WIRE_FRAME_MAX + 16];
    size_t length;

    if (size < 4)
        return 0;
    length = (size_t)data[2] | (size_t)data[3] << 8;
    length = length < size - 4 ? length : size - 4;
    frame_header(frame, (enum frame_type)data[0], data[1], length);
    memcpy(frame + FRAME_HEADER, data + 4, length);
    if (data[0] == 0)
        cancel(box, pending, data[1]);
    else if (send(fd, frame, FRAME_HEADER + length, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return 0;
    return 4 + length;
}

static void empty(int fd)
{
    static uint8_t sink[WIRE_FRAME_MAX];

    while (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
        ;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pending pending[CALLS] = {[SLOW_GET].is_slow = 1, [SLOW_PORT].is_slow = 1};
    struct box *box = NULL;
    struct error err = {0};
    int pair[2], r = 0;

    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    check(box_new(pair[0], NULL, &box, &err) == 0);
    start_calls(box, pending);
    for (size_t at = 0, taken = 1; r == 0 && taken > 0; at += taken) {
        taken = next(box, pending, pair[1], data + at, size - at);
        r = box_pump(box, &err);
        box_get_resume(box, SLOW_GET);
        box_port_resume(box, SLOW_PORT);
        box_put_data(box, PUT, "more", 4);
        box_port_write(box, PORT, "more", 4);
        empty(pair[1]);
    }
    close(pair[1]);
    /* An end that is known waits for its reader, also behind a loss. */
    pending[SLOW_GET].is_slow = pending[SLOW_PORT].is_slow = 0;
    for (int i = 0; i < 100 && r == 0; i++) {
        r = box_pump(box, &err);
        box_get_resume(box, SLOW_GET);
        box_port_resume(box, SLOW_PORT);
    }
    check(r < 0 && err.code == ERROR_BOX_LOST);
    for (int i = PUT; i < CALLS; i++)
        check(pending[i].ends == !pending[i].is_cancelled);
    box_free(box);
    return 0;
}
