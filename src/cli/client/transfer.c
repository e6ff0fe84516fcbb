/* transfer.c - uploads and downloads of one file; see transfer.h. */
#include "cli/client/transfer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/format.h"
#include "cli/client/progress_line.h"
#include "cli/output.h"
#include "cli/sanitize.h"

#define PROGRESS_AFTER_MS 300 /* a shorter transfer shows no progress */
#define PROGRESS_EACH_MS 100

struct transfer {
    int fd;
    int (*write)(void *ctx, const void *data, size_t length);
    void *ctx;
    int failure; /* negative errno of reading or writing on the host */
    unsigned status;
    struct buf reply; /* body of an error, or of the reply to a PUT */
    bool is_over;
    struct error err;
    struct http_exchange *exchange;

    const char *label; /* NULL: no progress */
    uint64_t done, started_ms, shown_ms;
    int64_t bytes; /* its size; -1: unknown */
    const struct transfer_total *total;
    bool has_line;
};

void transfer_line(const char *label, uint64_t done, int64_t bytes,
                   const struct transfer_total *total, uint64_t elapsed_ms, char *text, size_t size)
{
    char have[FORMAT_SIZE], all[FORMAT_SIZE], rate[FORMAT_SIZE];
    char bar[PROGRESS_BAR_SIZE], part[64] = "", files[64] = "";
    uint64_t whole = total ? total->bytes_total : bytes > 0 ? (uint64_t)bytes : 0;

    if (strrchr(label, '/') && strrchr(label, '/')[1])
        label = strrchr(label, '/') + 1;
    done += total ? total->bytes : 0;
    format_bytes(done, have);
    format_bytes(whole, all);
    format_bytes(elapsed_ms > 0 ? done * 1000 / elapsed_ms : 0, rate);
    progress_bar(done, whole, bar);
    if (whole > 0)
        str_format(part, sizeof(part), "%s %3d%%  ", bar,
                   (int)(MIN((double)done / (double)whole, 1.0) * 100));
    if (total && total->files_total > 1)
        str_format(files, sizeof(files), "%llu of %llu files  ", (unsigned long long)total->files,
                   (unsigned long long)total->files_total);
    str_format(text, size, "%s%s%s%s%s  %s/s  %.40s", part, files, have, whole > 0 ? " of " : "",
               whole > 0 ? all : "", rate, label);
}

/* Overwrites the same line; `is_last` clears it. */
static void show(struct transfer *transfer, bool is_last)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);
    uint64_t now_ms = clock_now_ms();
    char line[200];

    if (!transfer->label || (is_last && !transfer->has_line) ||
        (!is_last && (now_ms - transfer->started_ms < PROGRESS_AFTER_MS ||
                      now_ms - transfer->shown_ms < PROGRESS_EACH_MS)))
        return;
    transfer->shown_ms = now_ms;
    transfer->has_line = true;
    buf_append_text(&text, "\r\033[K");
    if (!is_last) {
        transfer_line(transfer->label, transfer->done, transfer->bytes, transfer->total,
                      now_ms - transfer->started_ms, line, sizeof(line));
        line[utf8_floor(line, MIN(strlen(line), progress_columns() - 1))] = 0;
        sanitize_line(line, &text);
    }
    stream_write(STDERR_FILENO, buf_text(&text), text.length, -1);
}

static long body_read(void *ctx, void *data, size_t size)
{
    struct transfer *transfer = ctx;
    ssize_t count;

    do
        count = read(transfer->fd, data, size);
    while (count < 0 && errno == EINTR);
    if (count < 0) {
        transfer->failure = -errno;
        return -1;
    }
    transfer->done += (uint64_t)count;
    show(transfer, false);
    return (long)count;
}

static void on_status(void *ctx, unsigned status)
{
    ((struct transfer *)ctx)->status = status;
}

static int on_data(void *ctx, const void *data, size_t length)
{
    struct transfer *transfer = ctx;
    int result;

    if (transfer->status >= 400 || !transfer->write) {
        buf_append(&transfer->reply, data, length); /* text of an error, cut if long */
        return 0;
    }
    result = transfer->write(transfer->ctx, data, length);
    if (result < 0) {
        transfer->failure = result;
        return result;
    }
    transfer->done += length;
    show(transfer, false);
    return 0;
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct transfer *transfer = ctx;

    transfer->exchange = NULL;
    transfer->is_over = true;
    transfer->status = status ? status : transfer->status;
    /* An early refusal may break the upload: its text says more than EPIPE. */
    if (transfer->status >= 400)
        client_api_error(transfer->status, buf_text(&transfer->reply), transfer->reply.length,
                         &transfer->err);
    else if (err->num)
        transfer->err = *err;
}

static int run(struct client *client, struct transfer *transfer, const struct http_call *call,
               struct error *err)
{
    static const struct http_call_events events = {
        .status = on_status, .data = on_data, .done = on_done};
    int result;

    transfer->label = transfer->label && isatty(STDERR_FILENO) ? transfer->label : NULL;
    transfer->started_ms = transfer->total ? transfer->total->started_ms : clock_now_ms();
    transfer->reply = BUF_INIT(64 * KIB);
    result = http_call_start(client->http, call, &events, transfer, &transfer->exchange, err);
    if (result < 0)
        return result;
    while (!transfer->is_over) {
        result = http_client_wait(client->http, NULL, 0, -1);
        if (result < 0 && result != -EINTR) {
            http_call_cancel(transfer->exchange);
            error_set(&transfer->err, result, ERROR_ENGINE, "waiting for the daemon: %s",
                      strerror(-result));
            break;
        }
    }
    show(transfer, true);
    buf_free(&transfer->reply);
    if (transfer->failure < 0)
        return error_set(err, transfer->failure, ERROR_ENGINE, "%s: %s",
                         transfer->write ? "writing" : "reading", strerror(-transfer->failure));
    if (transfer->err.code)
        *err = transfer->err;
    return transfer->err.code ? transfer->err.num : 0;
}

int transfer_send(struct client *client, const char *path, int fd, int64_t bytes, const char *label,
                  const struct transfer_total *total, uint64_t *ret_sent, struct error *err)
{
    static const char *const headers[] = {"Content-Type: application/octet-stream", NULL};
    struct transfer transfer = {.fd = fd, .label = label, .bytes = bytes, .total = total};
    int result = run(client, &transfer,
                     &(struct http_call){.method = "PUT",
                                         .path = path,
                                         .headers = headers,
                                         .body_read = body_read,
                                         .body_ctx = &transfer,
                                         .body_total = bytes},
                     err);

    if (result == 0 && ret_sent)
        *ret_sent = transfer.done;
    return result;
}

int transfer_receive(struct client *client, const char *path, int64_t bytes, const char *label,
                     const struct transfer_total *total,
                     int (*write)(void *ctx, const void *data, size_t length), void *ctx,
                     struct error *err)
{
    struct transfer transfer = {
        .fd = -1, .write = write, .ctx = ctx, .label = label, .bytes = bytes, .total = total};

    return run(client, &transfer,
               &(struct http_call){.method = "GET", .path = path, .body_total = -1}, err);
}
