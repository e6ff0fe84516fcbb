/*
 * follow.c - an execution as events: started, stdout, stderr, exit, and of a cell result, display
 * and error; and from any place again.
 *
 * The id of an event is "OUT-ERR", the offsets behind it in both streams; of a cell
 * "OUT-ERR-EVENTS". The reader's pace is the client's: what it has not taken is not read, and one
 * that is far behind holds the guest back.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "api/rest/inside.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "tool/outputs.h"

#define PIECE (32 * KIB) /* of one stream in one event */
#define TEXT_MAX (6 * LIMIT_OUTPUT_MAX + MIB)

struct follower {
    struct rest_stream stream;
    struct rest *rest;
    struct rest_following following;
    struct execution_watcher *watcher;
    bool was_started;      /* `started` is told */
    char install_told[16]; /* the state in the last event `install`; empty: none */
    bool is_collecting, has_result;
    struct result result;
    struct buf line; /* of a cell's events: from following.offset[2] on, without an end so far */
};

bool rest_event_id_parse(const char *text, uint64_t offset[BOX_STREAMS])
{
    int count = 0;

    for (const char *dash; count < BOX_STREAMS; text = dash + 1) {
        char number[32];

        dash = strchrnul(text, '-');
        if ((size_t)(dash - text) >= sizeof(number) ||
            str_format(number, sizeof(number), "%.*s", (int)(dash - text), text) < 0 ||
            str_to_u64(number, &offset[count++]) < 0)
            return false;
        if (*dash == '\0')
            return count >= 2;
    }
    return false;
}

static void event(struct follower *follower, const char *name, json_t *data)
{
    const uint64_t *offset = follower->following.offset;
    char id[80], last[32] = "";

    if (execution_is_cell(follower->following.execution))
        str_format(last, sizeof(last), "-%" PRIu64, offset[2]);
    str_format(id, sizeof(id), "%" PRIu64 "-%" PRIu64 "%s", offset[0], offset[1], last);
    rest_stream_event(&follower->stream, id, name, data);
}

/*
 * How much of the piece goes as text: all of it up to a sequence that the end cuts off, to an
 * invalid byte or to a NUL (as text it would be six bytes). 0: none of it can.
 */
static size_t text_length(const char *data, size_t length, bool *ret_is_cut)
{
    size_t at = 0;

    *ret_is_cut = false;
    while (at < length && data[at] != '\0') {
        int count = utf8_length(data + at, length - at);

        *ret_is_cut = count < 0;
        if (count <= 0)
            break;
        at += (size_t)count;
    }
    return at;
}

/* One piece of one stream as an event; the bytes that were told. */
static size_t tell_piece(struct follower *follower, int stream, const char *data, size_t length)
{
    CLEANUP(buf_free) struct buf encoded = BUF_INIT(2 * PIECE);
    uint64_t *offset = &follower->following.offset[stream - 1];
    bool is_cut, is_text = true;
    size_t count = text_length(data, length, &is_cut);
    json_int_t from = (json_int_t)*offset;
    json_t *json;

    if (count == 0 && is_cut && !execution_has_ended(follower->following.execution))
        return 0; /* the rest of the sequence may still come */
    if (count == 0) {
        is_text = false;
        count = length;
        if (base64_encode(data, length, &encoded) < 0) {
            follower->stream.is_broken = true;
            return 0;
        }
    }
    json =
        json_pack("{s:I, s:s%, s:s}", "offset", from, "data", is_text ? data : buf_text(&encoded),
                  is_text ? count : encoded.length, "encoding", is_text ? "utf8" : "base64");
    *offset += count;
    event(follower, stream == 1 ? "stdout" : "stderr", json);
    return count;
}

/* True: there was something. */
static bool tell_stream(struct follower *follower, int stream)
{
    CLEANUP(freep) char *data = malloc(PIECE);
    ssize_t length = data ? execution_read(follower->following.execution, stream,
                                           follower->following.offset[stream - 1], data, PIECE)
                          : -ENOMEM;

    if (length < 0) {
        follower->stream.is_broken = true; /* a hole would be taken for the whole */
        return false;
    }
    return length > 0 && tell_piece(follower, stream, data, (size_t)length) > 0;
}

/* A line of a cell's events, with its end at `length`. */
static void tell_line(struct follower *follower, size_t length)
{
    json_t *json = cell_event_parse(follower->line.data, length);
    CLEANUP(freep) char *type = NULL;

    follower->following.offset[2] += length + 1;
    buf_consume(&follower->line, length + 1);
    if (!json)
        return; /* not what a kernel of ours says */
    type = strdup(json_string_value(json_object_get(json, "type")));
    json_object_del(json, "type");
    event(follower, type ? type : "display", json);
}

/* Up to one event of a cell. True: there was something. */
static bool tell_values(struct follower *follower)
{
    CLEANUP(freep) char *data = malloc(PIECE);
    struct buf *line = &follower->line;
    const char *end = line->length ? memchr(line->data, '\n', line->length) : NULL;

    while (data && !end) {
        size_t looked = line->length;
        ssize_t length = execution_read(follower->following.execution, 3,
                                        follower->following.offset[2] + looked, data, PIECE);

        if (length == 0)
            return false;
        if (length < 0 || buf_append(line, data, (size_t)length) < 0)
            break;
        end = memchr(line->data + looked, '\n', line->length - looked);
    }
    if (!end) {
        follower->stream.is_broken = true;
        return false;
    }
    tell_line(follower, (size_t)(end - line->data));
    return true;
}

static void tell_start(struct follower *follower)
{
    json_t *process;
    const char *state;

    if (follower->was_started || follower->following.is_resumed)
        return;
    process = execution_json(follower->following.execution);
    state = json_string_value(json_object_get(process, "state"));
    if (str_equal(state, "waiting") || str_equal(state, "failed")) {
        json_decref(process);
        return;
    }
    follower->was_started = true;
    event(follower, "started", process);
}

/* A missing module is fetched, or was. */
static void tell_install(struct follower *follower)
{
    json_t *install = execution_install_json(follower->following.execution);
    const char *state = json_string_value(json_object_get(install, "state"));

    if (!state || str_equal(state, follower->install_told)) {
        json_decref(install);
        return;
    }
    str_copy(follower->install_told, sizeof(follower->install_told), state);
    event(follower, "install", install);
}

static void on_collected(void *ctx, const struct session_output *changed, size_t count,
                         uint64_t total, const struct error *err)
{
    struct follower *follower = ctx;

    follower->is_collecting = false;
    execution_result(follower->following.execution,
                     engine_config(follower->rest->engine)->limits.output_bytes, &follower->result);
    str_copy(follower->result.session_id, sizeof(follower->result.session_id),
             session_id(follower->following.session));
    outputs_to_result(follower->following.session, changed, count, total, err, &follower->result);
    follower->has_result = true;
    http_reply_more(follower->stream.http);
}

static void on_fill(void *ctx)
{
    struct follower *follower = ctx;
    struct rest_following *following = &follower->following;
    bool has_more;

    tell_start(follower);
    tell_install(follower);
    has_more = tell_stream(follower, 1);
    has_more |= tell_stream(follower, 2);
    if (execution_is_cell(following->execution))
        has_more |= tell_values(follower);
    execution_watch_at(follower->watcher, following->offset);
    if (has_more || follower->stream.is_broken || !execution_has_ended(following->execution))
        return;
    if (!follower->has_result && !follower->is_collecting) {
        follower->is_collecting = following->collects &&
                                  session_state(following->session) == SESSION_READY &&
                                  session_has_output(following->session, following->execution);
        if (follower->is_collecting)
            session_collect(following->session, on_collected, follower);
        else
            on_collected(follower, NULL, 0, 0, NULL);
    }
    if (follower->has_result) {
        event(follower, "exit", execution_reply(following->execution, &follower->result));
        follower->stream.is_over = true;
    }
}

static void on_change(void *ctx)
{
    struct follower *follower = ctx;

    http_reply_more(follower->stream.http);
}

static void on_freed(void *ctx)
{
    struct follower *follower = ctx;

    if (follower->is_collecting)
        session_collect_cancel(follower->following.session, follower);
    if (follower->watcher)
        execution_unwatch(follower->watcher, follower->following.is_owner);
    if (follower->has_result)
        result_free(&follower->result);
    buf_free(&follower->line);
    free(follower);
}

void rest_follow(struct rest_call *call, const struct rest_following *following)
{
    static const struct execution_watch_events events = {.started = on_change, .more = on_change};
    struct follower *follower = calloc(1, sizeof(*follower));
    char name[ID_MAX + 64]; /* for a client that loses us before the first event */
    const char *headers[] = {rest_event_headers[0], name, NULL};

    if (follower) {
        *follower = (struct follower){
            .rest = call->rest,
            .following = *following,
            .line = BUF_INIT(LIMIT_CELL_EVENTS),
            .stream = {.http = call->http,
                       .text = BUF_INIT(TEXT_MAX),
                       .fill = on_fill,
                       .freed = on_freed,
                       .ctx = follower},
        };
        follower->watcher = execution_watch(following->execution, true, &events, follower);
        if (follower->watcher)
            execution_watch_at(follower->watcher, following->offset);
    }
    if (!follower || !follower->watcher) {
        free(follower);
        rest_fail_memory(call->http);
        return;
    }
    str_format(name, sizeof(name), "Bailey-Execution: %s.%u", session_id(following->session),
               (unsigned)execution_number(following->execution));
    rest_stream_start(&follower->stream, 200, TYPE_EVENTS, headers, -1);
}
