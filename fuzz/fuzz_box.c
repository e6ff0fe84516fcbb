/*
 * fuzz_box.c - any frames from a warden to a box with an exec, a put, a get and a list pending. It
 * must never crash, and every call ends once or not at all.
 *
 * Input: type (1 byte), id (1), length (2, little endian), payload; again and again. Type 0 sends
 * the payload as it is, without a header.
 */
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "runtime/box/box.h"
#include "runtime/box/files.h"
#include "wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

/* One pending call. */
struct pending {
    int ends;
    size_t taken;
    int takes_all; /* else a part at a time */
};

static void saw_started(void *ctx)
{
    check(((struct pending *)ctx)->ends == 0);
}

/* A reader that takes a part at a time. */
static size_t saw_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct pending *pending = ctx;
    volatile uint8_t last = ((const uint8_t *)data)[length - 1];

    (void)last;
    check(pending->ends == 0 && length > 0 && (stream == BOX_STDOUT || stream == BOX_STDERR));
    pending->taken += pending->takes_all ? length : length / 2;
    return pending->takes_all ? length : length / 2;
}

static void saw_ended(void *ctx, const struct exec_end *end)
{
    check(++((struct pending *)ctx)->ends == 1);
    check(end->exit_code >= 0 && end->exit_code <= 255 && end->signal >= 0 && end->signal <= 64);
}

static void saw_end(void *ctx, const struct error *err)
{
    check(++((struct pending *)ctx)->ends == 1);
    check(err->num <= 0);
}

static size_t saw_data(void *ctx, const void *data, size_t length)
{
    volatile uint8_t last = ((const uint8_t *)data)[length - 1];

    (void)last;
    check(((struct pending *)ctx)->ends == 0);
    return length;
}

static void saw_entry(void *ctx, const struct box_entry *entry)
{
    size_t length = strlen(entry->name);

    check(((struct pending *)ctx)->ends == 0 && length > 0 && length <= LIMIT_PATH_BYTES);
}

static const struct exec_events exec_events = {
    .started = saw_started, .output = saw_output, .ended = saw_ended, .failed = saw_end};
static const struct put_events put_events = {.done = saw_end};
static const struct get_events get_events = {.data = saw_data, .done = saw_end};
static const struct list_events list_events = {.entry = saw_entry, .done = saw_end};

static void start_calls(struct box *box, struct pending pending[4], uint32_t id[4])
{
    static const char *const argv[] = {"true", NULL};
    struct exec_spec spec = {.argv = argv, .stdin_open = true};
    struct error err = {0};

    check(box_exec(box, &spec, &exec_events, &pending[0], &id[0], &err) == 0);
    check(box_put(box, &(struct put_spec){.path = "/tmp/a", .mode = 0644}, &put_events, &pending[1],
                  &id[1], &err) == 0);
    check(box_get(box, "/tmp/b", 0, 0, &get_events, &pending[2], &id[2], &err) == 0);
    check(box_list(box, "/tmp/c", 0, &list_events, &pending[3], &id[3], &err) == 0);
    check(box_stdin(box, id[0], "input", 5) == 5);
    check(box_put_data(box, id[1], "bytes", 5) == 5);
}

/* Sends the next frame of the input; the bytes it took, or 0 at the end. */
static size_t send_next(int fd, const uint8_t *data, size_t size)
{
    static uint8_t frame[WIRE_FRAME_MAX + 16];
    size_t length, head;

    if (size < 4)
        return 0;
    length = (size_t)data[2] | (size_t)data[3] << 8;
    length = length < size - 4 ? length : size - 4;
    head = data[0] ? FRAME_HEADER : 0;
    if (head > 0)
        frame_header(frame, (enum frame_type)data[0], data[1], length);
    memcpy(frame + head, data + 4, length);
    if (head + length > 0 && send(fd, frame, head + length, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return 0;
    return 4 + length;
}

/* What the host would do meanwhile; the warden's end is emptied so that nothing piles up. */
static void host_acts(struct box *box, const uint32_t id[4], int fd)
{
    static uint8_t sink[WIRE_FRAME_MAX];

    box_resume(box, id[0], BOX_STDOUT);
    box_resume(box, id[0], BOX_STDERR);
    box_stdin(box, id[0], "more", 4);
    box_put_data(box, id[1], "more", 4);
    check(box_next_deadline_ms(box) > 0);
    while (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
        ;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pending pending[4] = {0};
    struct box *box = NULL;
    struct error err = {0};
    uint32_t id[4];
    int pair[2], r = 0;

    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    check(box_new(pair[0], NULL, &box, &err) == 0);
    start_calls(box, pending, id);
    for (size_t at = 0, taken = 1; r == 0 && taken > 0; at += taken) {
        taken = send_next(pair[1], data + at, size - at);
        r = box_pump(box, &err);
        host_acts(box, id, pair[1]);
    }
    close(pair[1]);
    pending[0].takes_all = 1; /* an exit that is known waits for its reader, also behind a loss */
    for (int i = 0; i < 100 && r == 0; i++) { /* what is still in the socket, then the hang-up */
        r = box_pump(box, &err);
        box_resume(box, id[0], BOX_STDOUT);
        box_resume(box, id[0], BOX_STDERR);
    }
    check(r < 0 && err.code == ERROR_BOX_LOST);
    for (int i = 0; i < 4; i++)
        check(pending[i].ends == 1);
    box_free(box);
    return 0;
}
