/* drive.c - the small loop of a one-shot run; see drive.h. */
#include "oneshot/drive.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "recipe/import_report.h"
#include "recipe/recipe.h"

#define STDIN_CHUNK 65536
#define SMALL_CHUNK 4096 /* pipe(7): so much fits when poll(2) says so */
#define LARGE_CHUNK 65536

/* Files never block; pipes and terminals get small pieces. */
static size_t chunk_for(int fd)
{
    struct stat status;

    if (fd < 0 || fstat(fd, &status) < 0)
        return LARGE_CHUNK;
    return S_ISREG(status.st_mode) ? LARGE_CHUNK : SMALL_CHUNK;
}

static bool is_ready(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};

    return fd < 0 || poll(&poll_fd, 1, 0) != 0;
}

/* The capture takes everything; the sink takes what its reader can. */
static size_t on_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct drive *drive = ctx;
    const struct oneshot_sink *sink = drive->shot->sink;
    int index = (int)stream - 1;
    size_t taken = length;

    if (drive->is_captured_only) {
        if (stream == BOX_STDOUT)
            import_line_add(drive->captured, data, length);
        return length;
    }
    if (sink && !drive->is_sink_dead) {
        if (!is_ready(sink->fd[index])) {
            drive->is_held[index] = true;
            return 0;
        }
        taken = MIN(length, drive->sink_chunk[index]);
        if (sink->write(sink->ctx, (int)stream, data, taken) < 0)
            drive->is_sink_dead = true;
    }
    capture_add(stream == BOX_STDOUT ? &drive->result->out : &drive->result->err, data, taken,
                drive->result->limits.output_bytes);
    return taken;
}

static void on_ended(void *ctx, const struct exec_end *end)
{
    struct drive *drive = ctx;

    drive->end = *end;
    drive->is_running = false;
}

static void on_failed(void *ctx, const struct error *err)
{
    struct drive *drive = ctx;

    drive->failure = *err;
    drive->is_running = false;
}

/* Hands on what was read; the box takes as much as its window allows. */
static void stdin_push(struct drive *drive)
{
    long taken;

    if (drive->stdin_at == drive->stdin_length)
        return;
    taken = box_stdin(drive->box, drive->exec_id, drive->stdin_data + drive->stdin_at,
                      drive->stdin_length - drive->stdin_at);
    if (taken < 0) {
        drive->stdin_fd = -1;
        drive->stdin_at = drive->stdin_length;
        return;
    }
    drive->stdin_at += (size_t)taken;
}

static void on_stdin_ready(void *ctx)
{
    stdin_push(ctx);
}

static void stdin_read(struct drive *drive)
{
    ssize_t length = read(drive->stdin_fd, drive->stdin_data, STDIN_CHUNK);

    if (length < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (length <= 0) {
        drive->stdin_fd = -1;
        box_stdin_end(drive->box, drive->exec_id);
        return;
    }
    drive->stdin_length = (size_t)length;
    drive->stdin_at = 0;
    stdin_push(drive);
}

static const struct exec_events exec_events = {
    .output = on_output,
    .ended = on_ended,
    .failed = on_failed,
    .stdin_ready = on_stdin_ready,
};

static int poll_timeout(const struct drive *drive)
{
    uint64_t deadline = box_next_deadline_ms(drive->box);
    uint64_t now = clock_now_ms();

    if (deadline == UINT64_MAX)
        return -1;
    return deadline <= now ? 0 : (int)MIN(deadline - now, (uint64_t)3600 * 1000);
}

enum { WATCH_BOX, WATCH_CANCEL, WATCH_STDIN, WATCH_OUT, WATCH_ERR, _WATCH_MAX };

static void fill_poll(const struct drive *drive, struct pollfd polls[_WATCH_MAX])
{
    const struct oneshot_sink *sink = drive->shot->sink;
    bool wants_stdin = drive->is_running && drive->stdin_at == drive->stdin_length;

    polls[WATCH_BOX] = (struct pollfd){box_fd(drive->box), box_poll_events(drive->box), 0};
    polls[WATCH_CANCEL] =
        (struct pollfd){drive->is_cancelled ? -1 : drive->shot->cancel_fd, POLLIN, 0};
    polls[WATCH_STDIN] = (struct pollfd){wants_stdin ? drive->stdin_fd : -1, POLLIN, 0};
    for (int i = 0; i < 2; i++)
        polls[WATCH_OUT + i] =
            (struct pollfd){drive->is_held[i] && sink ? sink->fd[i] : -1, POLLOUT, 0};
}

/* The caller wants an end: the guest is killed and what it wrote is still taken. */
static void cancel(struct drive *drive)
{
    drive->is_cancelled = true;
    if (drive->is_running)
        box_signal(drive->box, drive->exec_id, SIGKILL);
}

static int turn(struct drive *drive, struct error *err)
{
    struct pollfd polls[_WATCH_MAX];

    if (drive->is_sink_dead && !drive->is_cancelled)
        cancel(drive);
    fill_poll(drive, polls);
    if (poll(polls, _WATCH_MAX, poll_timeout(drive)) < 0 && errno != EINTR)
        return error_errno(err, "waiting for the box");
    if (polls[WATCH_CANCEL].revents && !drive->is_cancelled)
        cancel(drive);
    if (polls[WATCH_STDIN].revents && drive->stdin_fd >= 0)
        stdin_read(drive);
    for (int i = 0; i < 2; i++) {
        if (!polls[WATCH_OUT + i].revents)
            continue;
        drive->is_held[i] = false;
        box_resume(drive->box, drive->exec_id, (enum box_stream)(i + 1));
    }
    return box_pump(drive->box, err);
}

int drive_turn(struct drive *drive, struct error *err)
{
    int r = turn(drive, err);

    if (r == 0 && drive->is_cancelled)
        r = recipe_cancelled(err);
    return r;
}

int drive_until(struct drive *drive, const bool *done, struct error *err)
{
    int r = 0;

    while (!*done && r == 0)
        r = drive_turn(drive, err);
    return *done ? 0 : r;
}

static int drive_to_end(struct drive *drive)
{
    while (drive->is_running) {
        struct error err = {0};

        if (turn(drive, &err) < 0 && drive->is_running) {
            drive->failure = err;
            drive->is_running = false;
        }
    }
    return drive->failure.code ? drive->failure.num : 0;
}

int drive_exec(struct drive *drive, const struct exec_spec *spec)
{
    const struct oneshot_sink *sink = drive->shot->sink;
    int r;

    drive->failure = (struct error){0};
    if (drive->is_cancelled) /* in the turn in which the step before was done */
        return recipe_cancelled(&drive->failure);
    drive->stdin_fd = spec->stdin_open ? drive->shot->stdin_fd : -1;
    if (drive->stdin_fd >= 0 && !drive->stdin_data) {
        drive->stdin_data = malloc(STDIN_CHUNK);
        if (!drive->stdin_data)
            return error_memory(&drive->failure);
    }
    for (int i = 0; i < 2; i++)
        drive->sink_chunk[i] = sink ? chunk_for(sink->fd[i]) : LARGE_CHUNK;
    r = box_exec(drive->box, spec, &exec_events, drive, &drive->exec_id, &drive->failure);
    if (r < 0)
        return r;
    drive->is_running = true;
    return drive_to_end(drive);
}

void drive_free(struct drive *drive)
{
    free(drive->stdin_data);
    drive->stdin_data = NULL;
}
