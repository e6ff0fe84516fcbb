/* progress.c - a POST answered by events: lines of progress, then the result; see progress.h. */
#include "cli/client/progress.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/progress_line.h"
#include "cli/signals.h"
#include "http/sse.h"
#include "model/text.h"

struct progress {
    const struct progress_call *call;
    struct client *client;
    struct http_exchange *exchange;
    struct sse_reader reader;
    struct buf body, reply;
    unsigned status;
    json_t *answer;
    struct error err;
    struct progress_line line;
    struct package_count packages;
    char **shown; /* the last lines that were printed to stay; strv */
    int cancel_fd;
};

#define SHOWN_MAX 64
#define PIP_ERROR "ERROR: "

static void progress_free(struct progress *progress)
{
    if (progress->exchange)
        http_call_cancel(progress->exchange);
    sse_reader_free(&progress->reader);
    buf_free(&progress->body);
    buf_free(&progress->reply);
    json_decref(progress->answer);
    strv_freep(&progress->shown);
    fd_closep(&progress->cancel_fd);
}

/* Remembers a line that stays visible, so that the error does not repeat it. */
static void remember(struct progress *progress, const char *line)
{
    size_t count = strv_length(progress->shown);

    if (progress->line.is_silent || progress->line.is_terminal)
        return;
    if (count == SHOWN_MAX) {
        free(progress->shown[0]);
        memmove(progress->shown, progress->shown + 1, count * sizeof(*progress->shown));
    }
    if (str_starts(line, PIP_ERROR)) /* the error has it without its mark */
        line += sizeof(PIP_ERROR) - 1;
    (void)strv_push(&progress->shown, line); /* without memory the line is printed twice */
}

static bool was_shown(const struct progress *progress, const char *line, size_t length)
{
    for (char **at = progress->shown; at && *at; at++)
        if (strlen(*at) == length && memcmp(*at, line, length) == 0)
            return true;
    return false;
}

/* The installer's last lines are both its progress and its error: each is printed once. */
static void drop_shown(const struct progress *progress, struct error *err)
{
    CLEANUP(buf_free) struct buf rest = BUF_INIT(2 * ERROR_TEXT_MAX);

    for (const char *line = err->text; *line;) {
        size_t length = strcspn(line, "\n");

        if (length > 0 && !was_shown(progress, line, length))
            (void)buf_printf(&rest, "%s%.*s", rest.length ? "\n" : "", (int)length, line);
        line += length + (line[length] == '\n');
    }
    str_copy(err->text, sizeof(err->text),
             rest.length || !progress->shown ? buf_text(&rest) : progress->call->failed);
}

/* On a terminal with a count; elsewhere the lines stay, and are the installer's own. */
static void show_line(struct progress *progress, const char *line)
{
    char text[512];

    remember(progress, line);
    package_count_line(&progress->packages, line);
    package_count_text(&progress->packages, line, text, sizeof(text));
    progress_line_show(&progress->line, progress->line.is_terminal ? text : line);
}

static void take_event(void *ctx, const char *id, const char *event, const char *data,
                       size_t length)
{
    struct progress *progress = ctx;
    CLEANUP(json_freep) json_t *json = json_loadb(data, length, 0, NULL);

    (void)id;
    if (str_equal(event, "progress")) {
        show_line(progress, member_text(json, "line"));
    } else if (str_equal(event, progress->call->end) && !progress->answer) {
        progress->answer = json_incref(json);
    } else if (str_equal(event, "error")) {
        client_api_error(500, data, length, &progress->err);
    }
}

static void on_status(void *ctx, unsigned status)
{
    ((struct progress *)ctx)->status = status;
}

static int on_data(void *ctx, const void *data, size_t length)
{
    struct progress *progress = ctx;

    if (progress->status >= 400)
        return buf_append(&progress->reply, data, length) < 0 ? -ECANCELED : 0;
    return sse_read(&progress->reader, data, length, take_event, progress) < 0 ? -ECANCELED : 0;
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct progress *progress = ctx;

    progress->exchange = NULL;
    if (status >= 400)
        client_api_error(status, buf_text(&progress->reply), progress->reply.length,
                         &progress->err);
    else if (!progress->answer && !progress->err.code) {
        if (err->num < 0)
            progress->err = *err;
        else
            error_set(&progress->err, -ECONNRESET, ERROR_ENGINE, "the answer has no end");
        error_prefix(&progress->err, progress->call->hung_up);
    }
}

static int start(struct progress *progress, struct error *err)
{
    static const struct http_call_events events = {
        .status = on_status, .data = on_data, .done = on_done};
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Accept: text/event-stream", NULL};

    if (text_of_json(progress->call->body, JSON_COMPACT, &progress->body) < 0)
        return error_set(err, -EFBIG, ERROR_TOO_LARGE, "the request is too large");
    return http_call_start(progress->client->http,
                           &(struct http_call){.method = "POST",
                                               .path = progress->call->path,
                                               .headers = headers,
                                               .body = buf_text(&progress->body),
                                               .body_length = progress->body.length,
                                               .body_total = -1},
                           &events, progress, &progress->exchange, err);
}

/* 0, or the status of a signal that ended the wait. */
static int wait_end(struct progress *progress)
{
    while (progress->exchange) {
        struct pollfd poller = {.fd = progress->cancel_fd, .events = POLLIN};
        int result = http_client_wait(progress->client->http, &poller, 1, -1);
        int number = poller.revents ? signals_taken(progress->cancel_fd) : 0;

        if (number)
            return 128 + number;
        if (result < 0 && result != -EINTR) {
            error_set(&progress->err, result, ERROR_ENGINE, "waiting: %s", strerror(-result));
            return 0;
        }
    }
    return 0;
}

int progress_post(struct client *client, const struct progress_call *call, json_t **ret,
                  struct error *err)
{
    CLEANUP(progress_free)
    struct progress progress = {.call = call,
                                .client = client,
                                .reader = SSE_READER_INIT(MIB),
                                .body = BUF_INIT(LIMIT_REQUEST_JSON),
                                .reply = BUF_INIT(MIB),
                                .line = progress_line_begin(call->is_silent),
                                .packages = {.total = call->packages},
                                .cancel_fd = -1};
    int r = signals_open(&progress.cancel_fd, err);

    if (r == 0)
        r = start(&progress, err);
    if (r < 0)
        return r;
    r = wait_end(&progress);
    progress_line_clear(&progress.line);
    if (r)
        return r;
    if (!progress.answer) {
        *err = progress.err;
        drop_shown(&progress, err);
        return err->num < 0 ? err->num : -EIO;
    }
    *ret = ptr_take(&progress.answer);
    return 0;
}
