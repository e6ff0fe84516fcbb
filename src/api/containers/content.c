/*
 * content.c - bytes of a file as a reply: from the disk, or from a box as they arrive. With headers
 * that keep browsers from running what a guest made.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/containers/containers.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "http/range.h"
#include "observe/metrics.h"

#define PIECE (256 * KIB)
#define WINDOW (512 * KIB)

static void fill_headers(const char *name, char disposition[HTTP_ATTACHMENT_MAX],
                         const char *headers[5])
{
    http_attachment(name, disposition, HTTP_ATTACHMENT_MAX);
    headers[0] = disposition;
    headers[1] = "X-Content-Type-Options: nosniff";
    headers[2] = "Content-Security-Policy: default-src 'none'; sandbox";
    headers[3] = "Cache-Control: private, no-cache";
    headers[4] = NULL;
}

static void count_out(struct front *front, uint64_t bytes)
{
    const char *out = "out";

    metrics_add(session_manager_metrics(front->manager), METRIC_FILE_BYTES, &out, bytes);
}

/* ---- from the disk ---- */

struct sending {
    struct front_stream stream;
    int fd;
    uint64_t left;
};

static void on_fill(void *ctx)
{
    struct sending *sending = ctx;
    CLEANUP(freep) char *data = malloc(PIECE);
    ssize_t count =
        data ? fd_read_all(sending->fd, data, (size_t)MIN(sending->left, (uint64_t)PIECE)) : -1;

    if (count < 0 || (count == 0 && sending->left > 0) ||
        buf_append(&sending->stream.text, data, (size_t)count) < 0) {
        sending->stream.is_broken = true;
        return;
    }
    sending->left -= (uint64_t)count;
    sending->stream.is_over = sending->left == 0;
}

static void on_freed(void *ctx)
{
    struct sending *sending = ctx;

    fd_closep(&sending->fd);
    free(sending);
}

void content_send_disk(struct http_request *http, struct front *front, int fd, const char *name)
{
    struct sending *sending = calloc(1, sizeof(*sending));
    char disposition[HTTP_ATTACHMENT_MAX];
    const char *headers[5];
    struct stat status;

    if (!sending || fstat(fd, &status) < 0) {
        close(fd);
        free(sending);
        openai_fail_memory(http);
        return;
    }
    *sending = (struct sending){.fd = fd,
                                .left = (uint64_t)status.st_size,
                                .stream = {.http = http,
                                           .text = BUF_INIT(PIECE),
                                           .fill = on_fill,
                                           .freed = on_freed,
                                           .ctx = sending}};
    count_out(front, sending->left);
    fill_headers(name, disposition, headers);
    front_stream_start(&sending->stream, 200, TYPE_BYTES, headers, status.st_size);
}

/* ---- from a box ---- */

/* Until the first bytes (or the end) the status is not known; from then on it is a stream. */
struct fetching {
    struct front *front;
    struct front_stream stream;
    struct session *session;
    struct box *box;
    uint32_t op;
    int64_t length; /* of the reply; -1: not known */
    bool waits_for_box, is_stopped, has_started, is_inside;
    char path[CONTAINER_PATH_MAX];
};

static void fetching_free(void *ctx)
{
    struct fetching *fetching = ctx;

    if (fetching->waits_for_box)
        session_box_cancel(fetching->session, fetching);
    if (fetching->op)
        box_cancel(fetching->box, fetching->op);
    free(fetching);
}

static void on_gone(void *ctx)
{
    struct fetching *fetching = ctx;

    buf_free(&fetching->stream.text);
    fetching_free(fetching);
}

static void on_box_fill(void *ctx)
{
    struct fetching *fetching = ctx;

    if (!fetching->is_stopped || !fetching->op)
        return;
    fetching->is_stopped = false;
    fetching->is_inside = true;
    box_get_resume(fetching->box, fetching->op);
    fetching->is_inside = false;
}

static void begin_reply(struct fetching *fetching)
{
    char disposition[HTTP_ATTACHMENT_MAX];
    const char *headers[5];

    fetching->has_started = true;
    fill_headers(fetching->path, disposition, headers);
    front_stream_start(&fetching->stream, 200, TYPE_BYTES, headers, fetching->length);
}

static void on_size(void *ctx, uint64_t bytes)
{
    ((struct fetching *)ctx)->length = (int64_t)MIN(bytes, (uint64_t)INT64_MAX);
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct fetching *fetching = ctx;
    size_t room = WINDOW - MIN(fetching->stream.text.length, (size_t)WINDOW);
    size_t taken = MIN(length, room);

    if (taken > 0 && buf_append(&fetching->stream.text, data, taken) < 0)
        taken = 0;
    count_out(fetching->front, taken);
    fetching->is_stopped = taken < length;
    if (!fetching->has_started)
        begin_reply(fetching); /* may free everything, if the client left meanwhile */
    else if (!fetching->is_inside)
        http_reply_more(fetching->stream.http);
    return taken;
}

static void on_done(void *ctx, const struct error *err)
{
    struct fetching *fetching = ctx;
    struct error told = *err;

    fetching->op = 0;
    if (!fetching->has_started && err->num < 0) {
        if (err->num == -ENOENT || err->num == -ENOTDIR || err->num == -EISDIR)
            error_set(&told, -ENOENT, ERROR_FILE_NOT_FOUND, "the file is not there any more");
        openai_fail(fetching->front, fetching->stream.http, &told, NULL);
        on_gone(fetching);
        return;
    }
    fetching->stream.is_over = true;
    fetching->stream.is_broken = err->num < 0;
    if (!fetching->has_started)
        begin_reply(fetching);
    else
        http_reply_more(fetching->stream.http);
}

static void on_box(void *ctx, struct box *box, const struct error *failed)
{
    static const struct get_events events = {.size = on_size, .data = on_data, .done = on_done};
    struct fetching *fetching = ctx;
    struct error err = {0};

    fetching->waits_for_box = false;
    fetching->box = box;
    if (!box) {
        openai_fail(fetching->front, fetching->stream.http, failed, NULL);
        on_gone(fetching);
    } else if (box_get(box, fetching->path, 0, 0, &events, fetching, &fetching->op, &err) < 0) {
        openai_fail(fetching->front, fetching->stream.http, &err, NULL);
        fetching->op = 0;
        on_gone(fetching);
    }
}

void content_send_box(struct door_call *call, struct session *session, const char *path)
{
    struct fetching *fetching = calloc(1, sizeof(*fetching));

    if (!fetching) {
        openai_fail_memory(call->http);
        return;
    }
    *fetching = (struct fetching){.front = call->front,
                                  .session = session,
                                  .length = -1,
                                  .stream = {.http = call->http,
                                             .text = BUF_INIT(WINDOW),
                                             .low = WINDOW / 2,
                                             .fill = on_box_fill,
                                             .freed = fetching_free,
                                             .ctx = fetching}};
    str_copy(fetching->path, sizeof(fetching->path), path);
    fetching->waits_for_box = true;
    http_on_gone(call->http, on_gone, fetching);
    session_box(session, on_box, fetching);
}
