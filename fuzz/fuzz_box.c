/*
 * fuzz_box.c - any frames from a warden to a box with an exec (id 1), a put, a get, a list (2 to
 * 4), a kernel that was started (5) and one that was given (6), each with a cell (7, 8), pending.
 * It must never crash, and every call ends once or not at all.
 *
 * Input: type (1 byte), id (1), length (2, little endian), payload; again and again. Type 0 sends
 * the payload as it is, without a header. One that begins with 0xff (left out then) is the answer
 * to a HELLO of generation 7: what is found is adopted, but for ids that are divisible by three,
 * and the calls come after the WELCOME.
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
    check(pending->ends == 0 && length > 0 &&
          (stream == BOX_STDOUT || stream == BOX_STDERR || stream == BOX_EVENTS));
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

#define GENERATION 7
#define IDS 256
#define CALLS 8

/* A box and all that waits for something in it. */
struct world {
    struct box *box;
    struct pending pending[CALLS], adopted[IDS];
    uint32_t id[CALLS];
    uint8_t is_adopted[IDS];
    int has_hello, has_calls, is_done;
};

static void start_cells(struct box *box, struct pending pending[CALLS], uint32_t id[CALLS])
{
    static const char *const argv[] = {"python", NULL};
    struct exec_spec spec = {.argv = argv, .keeps = true};
    struct cell_spec cell = {.code = "1", .code_length = 1, .timeout_ms = 60000};
    struct error err = {0};

    check(box_kernel(box, &spec, &exec_events, &pending[4], &id[4], &err) == 0);
    id[5] = box_next_id(box);
    check(box_kernel_given(box, id[5], false, &exec_events, &pending[5], &err) == 0);
    for (int i = 4; i < 6; i++) {
        cell.kernel = id[i];
        check(box_cell(box, &cell, &exec_events, &pending[i + 2], &id[i + 2], &err) == 0);
        cell.is_script = true;
    }
}

static void start_calls(struct box *box, struct pending pending[CALLS], uint32_t id[CALLS])
{
    static const char *const argv[] = {"true", NULL};
    struct exec_spec spec = {.argv = argv, .is_pty = true, .keeps = true};
    struct error err = {0};

    check(box_exec(box, &spec, &exec_events, &pending[0], &id[0], &err) == 0);
    check(box_put(box, &(struct put_spec){.path = "/tmp/a", .mode = 0644}, &put_events, &pending[1],
                  &id[1], &err) == 0);
    check(box_get(box, "/tmp/b", 0, 0, &get_events, &pending[2], &id[2], &err) == 0);
    check(box_list(box, "/tmp/c", 0, &list_events, &pending[3], &id[3], &err) == 0);
    check(box_stdin(box, id[0], "input", 5) == 5);
    check(box_put_data(box, id[1], "bytes", 5) == 5);
    start_cells(box, pending, id);
}

static void saw_found(void *ctx, const struct box_found *found)
{
    struct world *world = ctx;
    struct error err = {0};

    check(!world->is_done && found->id > 0 && found->id < IDS && !world->is_adopted[found->id]);
    for (int i = 0; i < BOX_STREAMS; i++)
        check(found->first[i] <= found->written[i] &&
              found->written[i] - found->first[i] <= WIRE_STREAM_WINDOW);
    if (found->id % 3 == 0)
        return;
    if (found->is_kernel)
        check(box_adopt_kernel(world->box, found->id, &exec_events, &world->adopted[found->id],
                               &err) == 0);
    else
        check(box_adopt(world->box, found->id, found->first, 1000, &exec_events,
                        &world->adopted[found->id], &err) == 0);
    world->is_adopted[found->id] = 1;
}

static void saw_welcome(void *ctx, const struct error *err)
{
    struct world *world = ctx;

    check(!world->is_done);
    world->is_done = 1;
    if (err->num == 0) {
        start_calls(world->box, world->pending, world->id);
        world->has_calls = 1;
    }
}

static const struct adopt_events adopt_events = {.found = saw_found, .done = saw_welcome};

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

static void host_reads(struct world *world)
{
    for (int i = 0; i < CALLS; i++) {
        for (int stream = BOX_STDOUT; stream <= BOX_EVENTS; stream++)
            box_resume(world->box, world->id[i], (enum box_stream)stream);
    }
    for (uint32_t id = 1; world->has_hello && id < IDS; id++) {
        if (!world->is_adopted[id])
            continue;
        for (int stream = BOX_STDOUT; stream <= BOX_EVENTS; stream++)
            box_resume(world->box, id, (enum box_stream)stream);
        box_stdin(world->box, id, "more", 4);
        box_forget(world->box, id); /* which does nothing while it runs */
    }
}

/* What the host would do meanwhile; the warden's end is emptied so that nothing piles up. */
static void host_acts(struct world *world, int fd)
{
    static uint8_t sink[WIRE_FRAME_MAX];

    host_reads(world);
    box_stdin(world->box, world->id[0], "more", 4);
    box_resize(world->box, world->id[0], 24, 80);
    box_put_data(world->box, world->id[1], "more", 4);
    check(box_next_deadline_ms(world->box) > 0);
    while (recv(fd, sink, sizeof(sink), MSG_DONTWAIT) > 0)
        ;
}

static void check_ends(const struct world *world)
{
    for (int i = 0; i < CALLS; i++)
        check(world->pending[i].ends == world->has_calls);
    for (int id = 0; id < IDS; id++)
        check(world->adopted[id].ends == world->is_adopted[id]);
    check(world->is_done == world->has_hello);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world world = {.has_hello = size > 0 && data[0] == 0xff};
    struct error err = {0};
    int pair[2], r = 0;

    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
    check(box_new(pair[0], NULL, &world.box, &err) == 0);
    if (world.has_hello) {
        check(box_hello(world.box, GENERATION, &adopt_events, &world, &err) == 0);
    } else {
        start_calls(world.box, world.pending, world.id);
        world.has_calls = 1;
    }
    for (size_t at = (size_t)world.has_hello, taken = 1; r == 0 && taken > 0; at += taken) {
        taken = send_next(pair[1], data + at, size - at);
        r = box_pump(world.box, &err);
        host_acts(&world, pair[1]);
    }
    close(pair[1]);
    /* An exit that is known waits for its reader, also behind a loss. */
    for (int i = 0; i < CALLS; i++)
        world.pending[i].takes_all = 1;
    for (int id = 0; id < IDS; id++)
        world.adopted[id].takes_all = 1;
    for (int i = 0; i < 100 && r == 0; i++) { /* what is still in the socket, then the hang-up */
        r = box_pump(world.box, &err);
        host_reads(&world);
    }
    check(r < 0 && err.code == ERROR_BOX_LOST);
    check_ends(&world);
    box_free(world.box);
    return 0;
}
