/*
 * files.c - the list of file operations in progress: scheduling them and ending them.
 *
 * What an operation does is in the file of its kind (put.c, get.c, list.c, change.c, tree.c,
 * notify.c). Those that send bytes are producers; those that work through what a guest has made do
 * it in small steps, a bounded number for each turn of the loop, so that a frame from the host
 * never waits for them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "warden/file_op.h"

#define STEPS_PER_TURN 512 /* of all operations together; a step is a system call or three */
#define STEPS_LEAST 4

/*
 * A put that failed early waits for the end of what the host was sending. A host that leaves more
 * of them than this violates the protocol.
 */
#define LEFTOVERS_MAX (4 * LIMIT_FILE_OPS)

struct count {
    unsigned running, ended;
};

static struct count count_ops(const struct warden *warden)
{
    struct count count = {0};

    for (const struct file_op *op = warden->files; op; op = op->next) {
        if (op->has_ended)
            count.ended++;
        else
            count.running++;
    }
    return count;
}

void *file_op_new(struct warden *warden, uint32_t id, const struct file_kind *kind, size_t size)
{
    struct count count = count_ops(warden);
    struct file_op *op;

    if (id == 0 || file_op_find(warden, id, NULL) || count.ended > LEFTOVERS_MAX)
        warden_end(warden);
    op = calloc(1, size);
    if (!op)
        warden_end(warden);
    op->kind = kind;
    op->id = id;
    op->has_ended = count.running >= LIMIT_FILE_OPS;
    if (op->has_ended)
        channel_done(warden, id, -EAGAIN);
    if (op->has_ended && !kind->is_fed) {
        free(op);
        return NULL;
    }
    op->next = warden->files;
    warden->files = op;
    return op;
}

void *file_op_find(struct warden *warden, uint32_t id, const struct file_kind *kind)
{
    for (struct file_op *op = warden->files; op; op = op->next) {
        if (op->id == id)
            return !kind || op->kind == kind ? op : NULL;
    }
    return NULL;
}

void file_op_free(struct warden *warden, struct file_op *op)
{
    LIST_UNLINK(warden->files, op);
    op->kind->release(warden, op);
    free(op);
}

void file_op_end(struct warden *warden, struct file_op *op, int negative_errno)
{
    channel_done(warden, op->id, negative_errno);
    file_op_free(warden, op);
}

void file_cancel(struct warden *warden, uint32_t id)
{
    struct file_op *op = file_op_find(warden, id, NULL);

    if (!op)
        return; /* it has ended meanwhile, and said so */
    if (op->has_ended)
        file_op_free(warden, op);
    else
        file_op_end(warden, op, -ECANCELED);
}

void file_forget_all(struct warden *warden)
{
    while (warden->files)
        file_op_free(warden, warden->files);
}

bool file_produce(struct warden *warden)
{
    struct file_op *next;
    bool progress = false;

    for (struct file_op *op = warden->files; op; op = next) {
        next = op->next;
        if (op->kind->produce && !op->has_ended)
            progress |= op->kind->produce(warden, op);
    }
    return progress;
}

bool file_work(struct warden *warden)
{
    struct file_op *next;
    unsigned workers = 0;
    bool has_more = false;

    for (const struct file_op *op = warden->files; op; op = op->next)
        workers += op->kind->work != NULL;
    for (struct file_op *op = warden->files; op; op = next) {
        next = op->next;
        if (op->kind->work)
            has_more |=
                op->kind->work(warden, op, MAX(STEPS_PER_TURN / workers, (unsigned)STEPS_LEAST));
    }
    return has_more;
}

bool file_has_room(const struct warden *warden)
{
    return !warden->is_blocked && warden->control.length == 0;
}

int file_place(struct warden *warden, const struct frame *frame, struct message_path *ret_message,
               struct place *ret_place)
{
    if (message_path_unpack(frame, ret_message) < 0 || frame->id == 0)
        warden_end(warden);
    return place_find(warden->sandbox, ret_message->path, ret_message->path_length, ret_place);
}

/* A guest may give its files any time: what has no number in the frame is the nearest that has. */
uint64_t file_time_ns(const struct timespec *time)
{
    const uint64_t second = 1000000000;

    if (time->tv_sec < 0)
        return 0;
    if ((uint64_t)time->tv_sec >= UINT64_MAX / second)
        return UINT64_MAX;
    return (uint64_t)time->tv_sec * second + (uint64_t)time->tv_nsec;
}
