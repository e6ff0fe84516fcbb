/*
 * exec_stream.c - see exec_stream.h. Events are made from the execution's stored output
 * (execution_read()), so that a reader may begin at any offset that is still stored.
 */
#include "api/exec_stream.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "session/await.h"

#define PIECE (32 * KIB) /* of one stream in one event */

struct exec_stream {
    struct exec_stream_spec spec;
    const struct exec_stream_events *events;
    void *ctx;
    struct execution_watcher *watcher;
    bool was_started;             /* `started` was sent */
    bool is_paused;               /* its session is: `closed` is the last event */
    char install_told[16];        /* the state in the last event `install`; empty: none */
    struct execution_await await; /* begun when all its output was sent */
    bool has_result, is_broken;
    struct result result;
    size_t looked; /* bytes of a cell's unfinished line of events, from spec.offset[2] on */
};

bool exec_stream_id_parse(const char *text, uint64_t offset[BOX_STREAMS])
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

static void event(struct exec_stream *exec_stream, const char *name, json_t *data)
{
    const uint64_t *offset = exec_stream->spec.offset;
    char id[80], last[32] = "";

    if (execution_is_cell(exec_stream->spec.execution))
        str_format(last, sizeof(last), "-%" PRIu64, offset[2]);
    str_format(id, sizeof(id), "%" PRIu64 "-%" PRIu64 "%s", offset[0], offset[1], last);
    exec_stream->is_broken |= !data;
    exec_stream->events->event(exec_stream->ctx, id, name, data);
}

/*
 * How many bytes of the piece are sent as text: all up to a UTF-8 sequence that the end cuts, to an
 * invalid byte or to a NUL (as text it would be six bytes). 0: none.
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

/* Sends one piece of one stream as an event; returns its bytes. */
static size_t tell_piece(struct exec_stream *exec_stream, int stream, const char *data,
                         size_t length)
{
    CLEANUP(buf_free) struct buf encoded = BUF_INIT(2 * PIECE);
    uint64_t *offset = &exec_stream->spec.offset[stream - 1];
    bool is_cut, is_text = true;
    size_t count = text_length(data, length, &is_cut);
    json_int_t from = (json_int_t)*offset;
    json_t *json;

    if (count == 0 && is_cut && !execution_has_ended(exec_stream->spec.execution))
        return 0; /* the rest of the sequence may follow */
    if (count == 0) {
        is_text = false;
        count = length;
        if (base64_encode(data, length, &encoded) < 0) {
            exec_stream->is_broken = true;
            return 0;
        }
    }
    json =
        json_pack("{s:I, s:s%, s:s}", "offset", from, "data", is_text ? data : buf_text(&encoded),
                  is_text ? count : encoded.length, "encoding", is_text ? "utf8" : "base64");
    *offset += count;
    event(exec_stream, stream == 1 ? "stdout" : "stderr", json);
    return count;
}

/* True: an event was sent. */
static bool tell_stream(struct exec_stream *exec_stream, int stream)
{
    CLEANUP(freep) char *data = malloc(PIECE);
    ssize_t length = data ? execution_read(exec_stream->spec.execution, stream,
                                           exec_stream->spec.offset[stream - 1], data, PIECE)
                          : -ENOMEM;

    if (length < 0) {
        exec_stream->is_broken = true; /* a client would take output with a gap for complete */
        return false;
    }
    return length > 0 && tell_piece(exec_stream, stream, data, (size_t)length) > 0;
}

/* The line of events that begins at the stream's offset. */
static bool read_line(const struct exec_stream *exec_stream, char *line, size_t length)
{
    size_t have = 0;

    while (have < length) {
        ssize_t count =
            execution_read(exec_stream->spec.execution, 3, exec_stream->spec.offset[2] + have,
                           line + have, length - have);

        if (count <= 0)
            return false;
        have += (size_t)count;
    }
    return true;
}

/* Sends a line of a cell's events; its newline is at `length`. */
static void tell_line(struct exec_stream *exec_stream, size_t length)
{
    CLEANUP(freep) char *type = NULL;
    CLEANUP(freep) char *line = malloc(length + 1);
    json_t *json;

    if (!line || !read_line(exec_stream, line, length)) {
        exec_stream->is_broken = true;
        return;
    }
    json = cell_event_parse(line, length);
    exec_stream->spec.offset[2] += length + 1;
    exec_stream->looked = 0;
    if (!json)
        return; /* not a valid event of a kernel */
    type = strdup(json_string_value(json_object_get(json, "type")));
    json_object_del(json, "type");
    event(exec_stream, type ? type : "display", json);
}

/*
 * Sends at most one event of a cell. True: one was sent. A line without its end stays on disk: a
 * guest may write megabytes of it, and there may be many readers.
 */
static bool tell_values(struct exec_stream *exec_stream)
{
    CLEANUP(freep) char *data = malloc(PIECE);
    const char *end = NULL;

    while (data && !end) {
        ssize_t length =
            execution_read(exec_stream->spec.execution, 3,
                           exec_stream->spec.offset[2] + exec_stream->looked, data, PIECE);

        if (length == 0)
            return false;
        if (length < 0)
            break;
        end = memchr(data, '\n', (size_t)length);
        exec_stream->looked += end ? (size_t)(end - data) : (size_t)length;
    }
    if (!end) {
        exec_stream->is_broken = true;
        return false;
    }
    tell_line(exec_stream, exec_stream->looked);
    return true;
}

/* True: `started` was sent now. */
static bool tell_start(struct exec_stream *exec_stream)
{
    json_t *process;
    const char *state;

    if (exec_stream->was_started || exec_stream->spec.is_resumed)
        return false;
    process = execution_json(exec_stream->spec.execution);
    state = json_string_value(json_object_get(process, "state"));
    if (str_equal(state, "waiting") || str_equal(state, "failed")) {
        json_decref(process);
        return false;
    }
    exec_stream->was_started = true;
    event(exec_stream, "started", process);
    return true;
}

/* Sends `install` when the installation of a missing module has a new state. */
static bool tell_install(struct exec_stream *exec_stream)
{
    json_t *install = execution_install_json(exec_stream->spec.execution);
    const char *state = json_string_value(json_object_get(install, "state"));

    if (!state || str_equal(state, exec_stream->install_told)) {
        json_decref(install);
        return false;
    }
    str_copy(exec_stream->install_told, sizeof(exec_stream->install_told), state);
    event(exec_stream, "install", install);
    return true;
}

static void on_result(void *ctx, struct execution_outcome *outcome)
{
    struct exec_stream *exec_stream = ctx;

    exec_stream->result = outcome->result;
    outcome->is_taken = true;
    exec_stream->has_result = true;
    exec_stream->events->ready(exec_stream->ctx);
}

/* The execution has ended and all its output was sent. */
static enum exec_stream_state tell_end(struct exec_stream *exec_stream)
{
    struct exec_stream_spec *spec = &exec_stream->spec;
    const struct execution_await_spec await = {.collects = spec->collects,
                                               .timeout_ms = UINT64_MAX,
                                               .done = on_result,
                                               .ctx = exec_stream};

    if (!exec_stream->has_result && !exec_stream->await.execution &&
        execution_await(&exec_stream->await, spec->execution, &await, NULL) < 0)
        return EXEC_STREAM_BROKEN;
    if (!exec_stream->has_result)
        return EXEC_STREAM_WAITS;
    event(exec_stream, "exit", execution_reply(spec->execution, &exec_stream->result));
    return exec_stream->is_broken ? EXEC_STREAM_BROKEN : EXEC_STREAM_OVER;
}

/* All output so far was sent; the rest comes when the session was resumed. */
static enum exec_stream_state tell_paused(struct exec_stream *exec_stream)
{
    struct session *session = execution_session(exec_stream->spec.execution);

    event(exec_stream, "closed",
          json_pack("{s:s, s:s+}", "code", "session_paused", "message",
                    "the session is paused; the command goes on when it is resumed: ",
                    session_id(session)));
    return exec_stream->is_broken ? EXEC_STREAM_BROKEN : EXEC_STREAM_OVER;
}

enum exec_stream_state exec_stream_more(struct exec_stream *exec_stream)
{
    struct exec_stream_spec *spec = &exec_stream->spec;
    bool has_more = tell_start(exec_stream);

    has_more |= tell_install(exec_stream);
    has_more |= tell_stream(exec_stream, 1);
    has_more |= tell_stream(exec_stream, 2);
    if (execution_is_cell(spec->execution))
        has_more |= tell_values(exec_stream);
    execution_watch_at(exec_stream->watcher, spec->offset);
    if (exec_stream->is_broken)
        return EXEC_STREAM_BROKEN;
    if (has_more)
        return EXEC_STREAM_MORE;
    if (exec_stream->is_paused && !execution_has_ended(spec->execution))
        return tell_paused(exec_stream);
    return execution_has_ended(spec->execution) ? tell_end(exec_stream) : EXEC_STREAM_WAITS;
}

/* ---- creation and end ---- */

int exec_stream_resume(struct exec_stream_spec *spec, const char *last_id, uint64_t *ret_first,
                       struct error *err)
{
    spec->is_resumed = last_id != NULL;
    if (last_id && !exec_stream_id_parse(last_id, spec->offset))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "the last id has to be the id of an event of this stream");
    for (int stream = 1; stream <= BOX_STREAMS; stream++) {
        uint64_t first = execution_first(spec->execution, stream);

        if (!last_id)
            spec->offset[stream - 1] = first;
        if (spec->offset[stream - 1] >= first)
            continue;
        *ret_first = first;
        return error_set(err, -ERANGE, ERROR_OFFSET_GONE,
                         "output before offset %llu is no longer stored",
                         (unsigned long long)first);
    }
    return 0;
}

static void on_paused(void *ctx)
{
    struct exec_stream *exec_stream = ctx;

    exec_stream->is_paused = true;
    exec_stream->events->ready(exec_stream->ctx);
}

static void on_change(void *ctx)
{
    struct exec_stream *exec_stream = ctx;

    exec_stream->events->ready(exec_stream->ctx);
}

struct exec_stream *exec_stream_new(const struct exec_stream_spec *spec,
                                    const struct exec_stream_events *events, void *ctx)
{
    static const struct execution_watch_events watch = {
        .started = on_change, .more = on_change, .paused = on_paused};
    struct exec_stream *exec_stream = calloc(1, sizeof(*exec_stream));

    if (!exec_stream)
        return NULL;
    *exec_stream = (struct exec_stream){.spec = *spec, .events = events, .ctx = ctx};
    exec_stream->is_paused = session_state(execution_session(spec->execution)) == SESSION_PAUSED;
    exec_stream->watcher = execution_watch(spec->execution, true, &watch, exec_stream);
    if (!exec_stream->watcher) {
        free(exec_stream);
        return NULL;
    }
    execution_watch_at(exec_stream->watcher, spec->offset);
    return exec_stream;
}

void exec_stream_free(struct exec_stream *exec_stream, bool ends_it)
{
    if (!exec_stream)
        return;
    execution_await_end(&exec_stream->await);
    execution_unwatch(exec_stream->watcher, ends_it);
    if (exec_stream->has_result)
        result_free(&exec_stream->result);
    free(exec_stream);
}
