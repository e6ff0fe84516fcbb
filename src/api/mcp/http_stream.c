/*
 * http_stream.c - the answer to one POST, or the stream of a GET: JSON or events, stored and
 * resent; see mcp_http_private.h.
 */
#include <errno.h>
#include <string.h>

#include "api/mcp/mcp_http_private.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "http/sse.h"

#define RETRY_MS 1000 /* a client that lost its connection retries after this time */
static const char beat[] = ":\n\n";

/* ---- events ---- */

static void event_drop_first(struct mcp_stream *stream)
{
    struct mcp_event *event = stream->events;

    stream->events = event->next;
    if (!stream->events)
        stream->last = NULL;
    stream->bytes -= event->length;
    stream->door->bytes -= event->length;
    if (stream->dialog)
        stream->dialog->bytes -= event->length;
    free(event);
}

static bool event_add(struct mcp_stream *stream, uint64_t number, const char *text, size_t length)
{
    struct mcp_event *event = malloc(sizeof(*event) + length);

    if (!event)
        return false;
    *event = (struct mcp_event){.number = number, .length = length};
    memcpy(event->text, text, length);
    if (stream->last)
        stream->last->next = event;
    else
        stream->events = event;
    stream->last = event;
    if (!stream->at) {
        stream->at = event;
        stream->offset = 0;
    }
    stream->bytes += length;
    stream->door->bytes += length;
    if (stream->dialog)
        stream->dialog->bytes += length;
    return true;
}

/* The first event of a legacy stream: an id to resume with, and the retry time. */
static bool prime(struct mcp_stream *stream)
{
    char text[96];

    str_format(text, sizeof(text), "id: %llu-0\nretry: %d\ndata: \n\n",
               (unsigned long long)stream->number, RETRY_MS);
    return event_add(stream, 0, text, strlen(text));
}

/* Bytes that the client has not read. */
static size_t backlog(const struct mcp_stream *stream)
{
    size_t bytes = 0;

    for (const struct mcp_event *event = stream->at; event; event = event->next)
        bytes += event->length;
    return bytes;
}

static bool add_message(struct mcp_stream *stream, const char *message, size_t length)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_MCP_ANSWER + KIB);
    uint64_t number = stream->event_count + 1;
    char id[48];

    str_format(id, sizeof(id), "%llu-%llu", (unsigned long long)stream->number,
               (unsigned long long)number);
    if (sse_write(&text, stream->dialog ? id : NULL, "message", message, length) < 0 ||
        !event_add(stream, number, buf_text(&text), text.length))
        return false;
    stream->event_count = number;
    return true;
}

/* ---- readers ---- */

static long on_more(void *ctx, void *data, size_t size)
{
    struct mcp_reader *reader = ctx;
    struct mcp_stream *stream = reader->stream;
    size_t count = 0;

    if (!stream)
        return HTTP_END;
    while (count < size && stream->at) {
        struct mcp_event *event = stream->at;
        size_t part = MIN(size - count, event->length - stream->offset);

        memcpy((char *)data + count, event->text + stream->offset, part);
        count += part;
        stream->offset += part;
        if (stream->offset < event->length)
            break;
        stream->at = event->next;
        stream->offset = 0;
        if (!stream->dialog)
            event_drop_first(stream); /* no client can request it again */
    }
    if (count == 0 && stream->wants_beat && size >= strlen(beat)) {
        count = strlen(beat);
        memcpy(data, beat, count);
    }
    stream->wants_beat = false;
    if (count > 0)
        return (long)count;
    return stream->is_over ? HTTP_END : 0;
}

static void on_freed(void *ctx)
{
    struct mcp_reader *reader = ctx;
    struct mcp_stream *stream = reader->stream;

    if (stream) {
        stream->reader = NULL;
        stream->is_left = !stream->is_over || stream->at;
        mcp_door_wake(stream->door);
    }
    free(reader);
}

/* Treated as if its client had left. */
static void on_stop(void *ctx, const struct error *why)
{
    struct mcp_reader *reader = ctx;
    struct mcp_stream *stream = ptr_take(&reader->stream);

    (void)why;
    if (!stream)
        return;
    stream->reader = NULL;
    stream->is_left = true;
    mcp_door_wake(stream->door);
    http_reply_more(reader->http);
}

/* Ends the reply that currently shows the stream. */
static void reader_leave(struct mcp_stream *stream)
{
    struct mcp_reader *reader = ptr_take(&stream->reader);

    if (!reader)
        return;
    reader->stream = NULL;
    if (!stream->door->is_closing)
        http_reply_more(reader->http);
}

bool mcp_stream_has(const struct mcp_stream *stream, uint64_t after)
{
    if (after > stream->event_count)
        return false;
    for (const struct mcp_event *event = stream->events; event; event = event->next)
        if (event->number == after + 1)
            return true;
    return after == stream->event_count;
}

void mcp_stream_show(struct mcp_stream *stream, struct http_request *http, int64_t after)
{
    static const struct http_source source = {.more = on_more, .freed = on_freed, .stop = on_stop};
    struct mcp_reader *reader = malloc(sizeof(*reader));
    char id[ID_MAX + 32];
    const char *headers[] = {"Cache-Control: no-store", "X-Accel-Buffering: no",
                             stream->opens_dialog ? id : NULL, NULL};

    reader_leave(stream);
    stream->http = NULL;
    if (stream->home != &stream->door->streams) {
        mcp_stream_move(stream, &stream->door->streams);
        mcp_door_wake(stream->door);
    }
    if (!reader) {
        mcp_refuse(http, 500, NULL, MCP_INTERNAL, NULL, "out of memory");
        stream->is_left = true;
        mcp_door_wake(stream->door);
        return;
    }
    stream->at = stream->events;
    stream->offset = 0;
    while (stream->at && (int64_t)stream->at->number <= after)
        stream->at = stream->at->next;
    stream->was_shown = true;
    stream->is_left = false;
    stream->beat_ms = clock_now_ms() + MCP_BEAT_MS;
    if (stream->opens_dialog)
        str_format(id, sizeof(id), "Mcp-Session-Id: %s", stream->dialog->id);
    *reader = (struct mcp_reader){.stream = stream, .http = http};
    stream->reader = reader;
    http_reply_stream(http, 200, "text/event-stream", headers, -1, &source, reader);
}

/* Switches from waiting to events. */
static void open_events(struct mcp_stream *stream)
{
    struct http_request *http = ptr_take(&stream->http);

    if (stream->dialog && strcmp(stream->dialog->version, MCP_LEGACY_NEWEST) >= 0 &&
        !stream->events)
        prime(stream);
    mcp_stream_show(stream, http, -1);
}

static void on_gone(void *ctx)
{
    struct mcp_stream *stream = ctx;

    stream->http = NULL;
    stream->is_left = true;
    mcp_door_wake(stream->door);
}

/* ---- messages of the peer ---- */

static unsigned status_of(const struct mcp_stream *stream, int kind)
{
    switch (kind) {
    case MCP_PARSE_ERROR:
    case MCP_INVALID_REQUEST:
        return 400;
    case MCP_NO_METHOD:
        return stream->dialog ? 200 : 404;
    case MCP_HEADER_MISMATCH:
    case MCP_NO_CAPABILITY:
    case MCP_UNSUPPORTED_VERSION:
        return stream->dialog ? 200 : 400;
    default:
        return 200;
    }
}

static void answer_json(struct mcp_stream *stream, const char *message, size_t length, int kind)
{
    struct http_request *http = ptr_take(&stream->http);
    char id[ID_MAX + 32];
    const char *headers[] = {"Cache-Control: no-store", NULL, NULL};

    if (stream->opens_dialog && kind == 0) {
        str_format(id, sizeof(id), "Mcp-Session-Id: %s", stream->dialog->id);
        headers[1] = id;
    }
    http_reply(http, status_of(stream, kind), "application/json", headers, message, length);
}

static void send_notice(struct mcp_stream *stream, const char *message, size_t length)
{
    if (!stream->takes_events || (!stream->http && !stream->reader && !stream->was_shown) ||
        backlog(stream) > LIMIT_MCP_BACKLOG)
        return; /* no client can or does read it */
    if (stream->http)
        open_events(stream);
    add_message(stream, message, length); /* without memory it is dropped */
}

void mcp_stream_send(void *ctx, const char *message, size_t length, int kind)
{
    struct mcp_stream *stream = ctx;

    if (stream->is_over)
        return;
    if (kind == MCP_NOTICE) {
        send_notice(stream, message, length);
    } else {
        stream->is_over = true;
        stream->has_failed = kind < 0;
        if (stream->http && (stream->takes_json || kind < 0)) {
            answer_json(stream, message, length, kind);
        } else if (stream->http || stream->was_shown) {
            if (stream->http)
                open_events(stream);
            if (!add_message(stream, message, length))
                reader_leave(stream); /* ends without an answer: the client sends it again */
        }
        mcp_door_wake(stream->door);
    }
    if (stream->reader)
        http_reply_more(stream->reader->http);
}

static int on_call(void *ctx, struct mcp_work *work, const struct tool_row *tool,
                   const char *session, json_t *arguments, struct error *err)
{
    struct mcp_stream *stream = ctx;
    const struct mcp_http_spec *spec = &stream->door->spec;

    return spec->ops->call(spec->host, &stream->asker, work, tool, session, arguments, err);
}

static int on_list(void *ctx, struct mcp_work *work, struct error *err)
{
    struct mcp_stream *stream = ctx;
    const struct mcp_http_spec *spec = &stream->door->spec;

    return spec->ops->list(spec->host, &stream->asker, work, err);
}

static int on_read(void *ctx, struct mcp_work *work, const char *session, const char *path,
                   size_t maximum, struct error *err)
{
    struct mcp_stream *stream = ctx;
    const struct mcp_http_spec *spec = &stream->door->spec;

    return spec->ops->read(spec->host, &stream->asker, work, session, path, maximum, err);
}

static void on_cancel(void *ctx, struct mcp_work *work)
{
    struct mcp_stream *stream = ctx;

    /* A broker that stops leaves its sessions alive. */
    stream->door->spec.ops->cancel(stream->door->spec.host, work, !stream->door->is_closing);
}

static void on_about(void *ctx, struct buf *text)
{
    struct mcp_stream *stream = ctx;

    if (stream->door->spec.ops->about)
        stream->door->spec.ops->about(stream->door->spec.host, &stream->asker, text);
}

static void on_prompt(void *ctx, struct buf *text)
{
    struct mcp_stream *stream = ctx;

    if (stream->door->spec.ops->prompt)
        stream->door->spec.ops->prompt(stream->door->spec.host, &stream->asker, text);
}

const struct mcp_ops mcp_stream_ops = {mcp_stream_send, on_call,  on_list,  on_read,
                                       on_cancel,       on_about, on_prompt};

/* ---- creation and end ---- */

void mcp_stream_move(struct mcp_stream *stream, struct mcp_stream **home)
{
    struct mcp_dialog *dialog = stream->dialog;
    struct mcp_stream **at = stream->home;

    while (at && *at != stream)
        at = &(*at)->next;
    if (at)
        *at = stream->next;
    if (dialog && stream->home)
        *(stream->home == &dialog->kept ? &dialog->kept_count : &dialog->live_count) -= 1;
    stream->home = home;
    if (!home)
        return;
    stream->next = *home;
    *home = stream;
    if (dialog)
        *(home == &dialog->kept ? &dialog->kept_count : &dialog->live_count) += 1;
}

struct mcp_stream *mcp_stream_new(struct mcp_http *door, struct mcp_dialog *dialog,
                                  const struct caller *caller, struct http_request *http)
{
    struct mcp_stream *stream = calloc(1, sizeof(*stream));

    if (!stream)
        return NULL;
    stream->door = door;
    stream->dialog = dialog;
    stream->asker.caller = *caller;
    stream->opened_ms = clock_now_ms();
    if (dialog) {
        stream->asker.own = &dialog->own;
        stream->number = ++dialog->stream_count;
    }
    stream->http = http;
    if (http)
        http_on_gone(http, on_gone, stream);
    mcp_stream_move(stream, &door->streams);
    mcp_door_wake(door);
    return stream;
}

void mcp_stream_free(struct mcp_stream *stream)
{
    mcp_stream_move(stream, NULL);
    stream->is_over = true; /* later messages are dropped */
    mcp_peer_freep(&stream->peer);
    reader_leave(stream);
    if (stream->http && !stream->door->is_closing) {
        http_on_gone(stream->http, NULL, NULL);
        mcp_refuse(stream->http, 404, NULL, MCP_INVALID_REQUEST, NULL,
                   "the conversation has ended: send initialize again");
    }
    while (stream->events)
        event_drop_first(stream);
    free(stream);
}

static void look(struct mcp_stream *stream, uint64_t now_ms)
{
    const struct mcp_http_spec *spec = &stream->door->spec;

    for (struct mcp_work *work = stream->peer->works; work; work = work->next)
        if (work->progress_token && now_ms >= work->due_ms)
            spec->ops->look(spec->host, work);
    mcp_peer_tick(stream->peer, now_ms);
}

bool mcp_stream_tick(struct mcp_stream *stream, uint64_t now_ms)
{
    bool is_kept = stream->dialog && stream->was_shown;

    if (stream->is_over && stream->peer && !stream->peer->works)
        mcp_peer_freep(&stream->peer);
    if ((stream->is_left && !stream->dialog) ||
        (stream->is_over && !stream->http && !stream->reader && !is_kept) ||
        (stream->is_left && !stream->peer && !stream->is_over && stream->event_count == 0)) {
        mcp_stream_free(stream);
        return false;
    }
    if (stream->is_over && !stream->http && !stream->reader && !stream->peer) {
        mcp_stream_move(stream, &stream->dialog->kept);
        mcp_dialog_trim(stream->door, stream->dialog);
        return false;
    }
    if (stream->is_over)
        return true;
    if (stream->peer)
        look(stream, now_ms);
    if (stream->http && stream->dialog && stream->takes_events &&
        now_ms - stream->opened_ms >= MCP_STREAM_MS)
        open_events(stream); /* so that its client can resume for the answer */
    if (stream->reader && now_ms >= stream->beat_ms) {
        stream->beat_ms = now_ms + MCP_BEAT_MS;
        stream->wants_beat = true;
        http_reply_more(stream->reader->http);
    }
    return true;
}
