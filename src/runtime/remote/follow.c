/*
 * follow.c - the output of a command or cell: server-sent events of the server become frames; see
 * remote_private.h.
 *
 * While the broker does not take what came, nothing more is read, so the program at the other end
 * stands still. After a lost connection the stream is asked for again behind the last event.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/json.h"
#include "runtime/remote/remote_private.h"

#define PAUSE_MS 200 /* between two attempts to connect again */
#define OUT 0
#define ERR 1
#define EVENTS 2

/* ---- what was received ---- */

static void hold(struct remote_run *run, int index, const void *data, size_t length)
{
    if (length > 0 && buf_append(&run->out[index].held, data, length) < 0)
        remote_box_lose(run->box, false, "no memory for its output");
}

/* Bytes at an offset: what was there before is not taken twice, and nothing may be missing. */
static void take_bytes(struct remote_run *run, int index, uint64_t offset, const char *data,
                       size_t length)
{
    struct run_output *out = &run->out[index];
    size_t known = 0;

    if (offset > out->far) {
        remote_box_lose(run->box, false, "output was lost: the server does not keep it any longer");
        return;
    }
    known = (size_t)MIN(out->far - offset, (uint64_t)length);
    hold(run, index, data + known, length - known);
    out->far += length - known;
}

static void on_text(struct remote_run *run, int index, const json_t *json)
{
    const json_t *data = json_object_get(json, "data");
    json_int_t offset = json_integer_value(json_object_get(json, "offset"));
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(64 * MIB);
    const char *text = json_string_value(data);
    size_t length = json_string_length(data);

    if (text && str_equal(json_string_value(json_object_get(json, "encoding")), "base64")) {
        text = base64_decode(text, length, &bytes) < 0 ? NULL : buf_text(&bytes);
        length = bytes.length;
    }
    if (!text || offset < 0) {
        remote_box_lose(run->box, false, "the server sent output that cannot be read");
        return;
    }
    take_bytes(run, index, (uint64_t)offset, text, length);
}

/* As the kernel itself sends it: docs/kernels.md. */
static void on_value(struct remote_run *run, const char *type, json_t *json)
{
    CLEANUP(freep) char *text = NULL;
    size_t length, skip, room;

    if (json_object_set_new(json, "type", json_string(type)) < 0)
        return;
    text = json_dumps(json, JSON_COMPACT);
    length = text ? strlen(text) : 0;
    if (length == 0)
        return;
    text[length++] = '\n'; /* in place of the NUL */
    run->events_total += length;
    skip = (size_t)MIN(run->skip_events, (uint64_t)length);
    run->skip_events -= skip;
    room = LIMIT_CELL_EVENTS - (size_t)MIN(run->out[EVENTS].far, (uint64_t)LIMIT_CELL_EVENTS);
    length = MIN(length - skip, room);
    hold(run, EVENTS, text + skip, length);
    run->out[EVENTS].far += length;
}

void remote_follow_note(struct remote_run *run, const char *text)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT(4 * KIB);
    size_t skip;

    if (buf_printf(&line, "bailey: %.2000s\n", text) < 0)
        return;
    skip = (size_t)MIN(run->skip_note, (uint64_t)line.length);
    run->skip_note -= skip;
    hold(run, ERR, buf_text(&line) + skip, line.length - skip);
}

/* ---- what is sent ---- */

void remote_follow_send(struct remote_run *run)
{
    bool has_rest = false;

    for (int i = 0; i < MESSAGE_STREAMS; i++) {
        struct run_output *out = &run->out[i];
        size_t room = WIRE_STREAM_WINDOW - (size_t)(out->sent - out->acked);
        size_t length = MIN(out->held.length, room);

        if (run->is_forgotten)
            buf_clear(&out->held);
        else if (length > 0 && !run->is_quiet && !remote_box_waits(run->box)) {
            remote_warden_send_bytes(run->box, FRAME_OUTPUT, run->id, (uint8_t)(i + 1), out->sent,
                                     out->held.data, length);
            out->sent += length;
            buf_consume(&out->held, length);
        }
        has_rest = has_rest || out->held.length > 0;
    }
    if (run->stream)
        http_call_pause(run->stream, has_rest);
    remote_run_over(run);
}

/* ---- the stream ---- */

static void on_event(void *ctx, const char *id, const char *event, const char *data, size_t length)
{
    struct remote_run *run = ctx;
    CLEANUP(json_decrefp) json_t *json = NULL;

    if (run->box->is_lost || run->has_end)
        return;
    json = json_parse(data, length, JSON_ALLOW_NUL, NULL); /* "stdout" may have one */
    if (!json_is_object(json)) {
        remote_box_lose(run->box, false, "the server sent an event that is not JSON");
        return;
    }
    str_copy(run->last_id, sizeof(run->last_id), id);
    if (str_equal(event, "started")) {
        if (!run->is_started)
            remote_run_started(run);
        return;
    }
    if (!run->is_started && !str_equal(event, "exit"))
        remote_run_started(run); /* the start itself may have been in a stream that was cut */
    if (str_equal(event, "stdout"))
        on_text(run, OUT, json);
    else if (str_equal(event, "stderr"))
        on_text(run, ERR, json);
    else if (str_equal(event, "result") || str_equal(event, "display") || str_equal(event, "error"))
        on_value(run, event, json);
    else if (str_equal(event, "exit")) {
        run->has_end = true;
        remote_result_read(run, json);
        if (run->is_over && !run->has_failed && !run->is_started)
            remote_run_started(run);
    }
}

static void on_status(void *ctx, unsigned status)
{
    struct remote_run *run = ctx;

    run->stream_status = status;
    if (status == 200) /* it may be silent for long */
        run->cut_since_ms = 0;
}

static int on_data(void *ctx, const void *data, size_t length)
{
    struct remote_run *run = ctx;

    if (run->stream_status != 200)
        return 0;
    if (sse_read(&run->reader, data, length, on_event, run) < 0) {
        remote_box_lose(run->box, false, "the server sent an event that is too large");
        return -1;
    }
    if (run->box->is_lost)
        return -1;
    remote_follow_send(run); /* may free it */
    return 0;
}

static void on_again(void *ctx)
{
    remote_follow_start(ctx);
}

/* The connection is lost, or was not made. */
static void connect_again(struct remote_run *run, const char *why)
{
    const struct reactor_ops *ops = run->box->remote->reactor->ops;
    uint64_t now_ms = clock_now_ms();

    if (!run->cut_since_ms)
        run->cut_since_ms = now_ms;
    if (!run->again)
        run->again = reactor_timer(run->box->remote->reactor, on_again, run);
    if (!run->again || now_ms - run->cut_since_ms >= REMOTE_PATIENCE_MS)
        remote_box_lose(run->box, true, why);
    else
        ops->timer_set(run->again, PAUSE_MS);
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct remote_run *run = ctx;
    char text[64];

    run->stream = NULL;
    if (run->has_end || run->box->is_lost)
        return;
    str_format(text, sizeof(text), "its output: HTTP status %u", status);
    if (err->num == 0 && status == 401 && remote_target_renew_key(run->box->remote))
        connect_again(run, text);
    else if (err->num == 0 && status >= 400 && status < 500 && status != 429)
        remote_box_lose(run->box, false, text);
    else
        connect_again(run, err->num < 0 ? err->text : text);
}

static const struct http_call_events stream_events = {
    .status = on_status, .data = on_data, .done = on_done};

void remote_follow_start(struct remote_run *run)
{
    char path[REMOTE_PATH_MAX], last[128];
    const char *headers[] = {"Accept: text/event-stream", NULL, NULL};
    struct http_call call = {.method = "GET",
                             .path =
                                 remote_box_path(run->box, path, "/processes/%s/events", run->name),
                             .headers = headers,
                             .body_total = -1};
    struct error err = {0};

    if (run->stream || run->box->is_lost)
        return;
    if (run->last_id[0]) {
        str_format(last, sizeof(last), "Last-Event-ID: %s", run->last_id);
        headers[1] = last;
    }
    sse_reader_free(&run->reader);
    run->reader = SSE_READER_INIT(REMOTE_EVENT_MAX);
    run->stream_status = 0;
    if (http_call_start(run->box->target->client, &call, &stream_events, run, &run->stream, &err) <
        0)
        connect_again(run, err.text);
}

void remote_follow_stop(struct remote_run *run)
{
    if (run->stream)
        http_call_cancel(run->stream);
    run->stream = NULL;
    if (run->again)
        run->box->remote->reactor->ops->timer_set(run->again, UINT64_MAX);
}

/* The events of a cell are made again from the first one, and those that were sent are skipped. */
void remote_follow_resume(struct remote_run *run, const struct message_resume *resume)
{
    uint64_t far[2];

    for (int i = 0; i < MESSAGE_STREAMS; i++) {
        buf_clear(&run->out[i].held);
        run->out[i].sent = run->out[i].acked = resume->offset[i];
    }
    for (int i = OUT; i <= ERR; i++) {
        far[i] = MIN(resume->offset[i], run->out[i].far);
        run->out[i].far = far[i];
    }
    run->skip_note = resume->offset[ERR] - far[ERR];
    run->skip_events = run->out[EVENTS].far = resume->offset[EVENTS];
    run->events_total = 0;
    if (!run->name[0] || run->has_failed) {
        remote_run_over(run);
        return;
    }
    str_format(run->last_id, sizeof(run->last_id),
               run->kind == RUN_CELL ? "%llu-%llu-0" : "%llu-%llu", (unsigned long long)far[OUT],
               (unsigned long long)far[ERR]);
    remote_follow_stop(run);
    run->is_over = run->has_end = false;
    remote_follow_start(run);
}
