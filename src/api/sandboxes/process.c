/*
 * process.c - process.Process/Start and /Connect: a command's life as a stream of events.
 *
 * The first event is `start`, the last one `end`, then the envelope that closes the stream. A
 * client that leaves does not end its command. When the sandbox ends under a stream, the connection
 * is broken: that is how clients know that it was not the command that ended.
 */
#include <errno.h>
#include <string.h>

#include "api/sandboxes/e2b.h"
#include "api/start.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/reactor.h"
#include "base/str.h"

struct process_stream {
    struct front_stream stream;
    struct session *session;
    struct execution *execution;
    struct execution_watcher *watcher;
    struct reactor *reactor;
    struct reactor_timer *timer; /* a sign of life, when nothing else was sent */
    struct reactor_timer *limit; /* of a stream that its client wants to end; NULL: none */
    uint64_t ping_ms;
    uint64_t offset[BOX_STREAMS];
    bool was_started, is_pty, is_paused;
    char cwd[200]; /* for an error about it */
};

/* ---- events ---- */

static void send_event(struct process_stream *process, json_t *event)
{
    e2b_stream_send(&process->stream, event ? json_pack("{s:o}", "event", event) : NULL);
    process->reactor->ops->timer_set(process->timer, process->ping_ms);
}

static uint32_t pid_of(const struct execution *execution)
{
    uint32_t pid = execution_pid(execution);

    return pid ? pid : execution_number(execution); /* a warden of an older version */
}

static void send_start(struct process_stream *process)
{
    process->was_started = true;
    send_event(process,
               json_pack("{s:{s:I}}", "start", "pid", (json_int_t)pid_of(process->execution)));
}

/*
 * Clients of old versions decode each event by itself: a letter that is not there as a whole waits
 * for its rest, unless nothing more can come.
 */
static size_t whole_letters(const struct process_stream *process, const char *data, size_t length,
                            size_t most)
{
    size_t whole = utf8_floor(data, length);

    if (execution_has_ended(process->execution) && (length < most || whole == 0))
        return length;
    return whole;
}

/* True: something was sent. */
static bool send_output(struct process_stream *process, int stream)
{
    static const char *const names[] = {"stdout", "stderr"};
    CLEANUP(buf_free) struct buf text = BUF_INIT(2 * E2B_PIECE);
    size_t most = process->is_pty ? E2B_PIECE / 2 : E2B_PIECE;
    CLEANUP(freep) char *data = malloc(most);
    ssize_t count =
        data ? execution_read(process->execution, stream, process->offset[stream - 1], data, most)
             : -1;

    if (count > 0)
        count = (ssize_t)whole_letters(process, data, (size_t)count, most);
    if (count == 0)
        return false;
    if (count < 0 || base64_encode(data, (size_t)count, &text) < 0) {
        process->stream.is_broken = true; /* a part is missing */
        return false;
    }
    process->offset[stream - 1] += (uint64_t)count;
    send_event(process, json_pack("{s:{s:s%}}", "data", process->is_pty ? "pty" : names[stream - 1],
                                  buf_text(&text), text.length));
    return true;
}

/* As Go describes the end of a process. */
static json_t *end_json(const struct result *result)
{
    char text[64];

    if (result->signal) {
        str_format(text, sizeof(text), "signal: %s", strsignal(result->signal));
        for (char *at = text; *at; at++)
            if (*at >= 'A' && *at <= 'Z')
                *at = (char)(*at - 'A' + 'a');
        return json_pack("{s:{s:i, s:b, s:s, s:s}}", "end", "exitCode", -1, "exited", 0, "status",
                         text, "error", text);
    }
    str_format(text, sizeof(text), "exit status %d", result->exit_code);
    return json_pack("{s:{s:i, s:b, s:s, s:s*}}", "end", "exitCode", result->exit_code, "exited", 1,
                     "status", text, "error", result->exit_code ? text : NULL);
}

static bool has_sandbox_ended(const struct process_stream *process, const struct result *result)
{
    return session_state(process->session) >= SESSION_ENDING ||
           str_equal(result->error.code, ERROR_SESSION_ENDED) ||
           str_equal(result->error.code, ERROR_BOX_LOST);
}

static void fail_start(struct process_stream *process, const struct result *result)
{
    const struct error *err = &result->error;
    char text[ERROR_TEXT_MAX];

    str_copy(text, sizeof(text), err->text);
    if (str_starts(err->text, "the working folder"))
        str_format(text, sizeof(text), "cwd '%s' does not exist", process->cwd);
    e2b_stream_end(&process->stream, e2b_code_of(err), text);
}

static void send_end(struct process_stream *process)
{
    struct result result;

    execution_result(process->execution, 0, &result);
    if (has_sandbox_ended(process, &result) && process->was_started) {
        process->stream.is_broken = true;
    } else if (result.error.code) {
        fail_start(process, &result);
    } else if (result.timed_out) {
        e2b_stream_end(&process->stream, "deadline_exceeded",
                       "the command was ended: its time is over");
    } else {
        if (!process->was_started)
            send_start(process);
        send_event(process, end_json(&result));
        e2b_stream_end(&process->stream, NULL, NULL);
    }
    result_free(&result);
}

static void on_fill(void *ctx)
{
    struct process_stream *process = ctx;
    bool has_ended = execution_has_ended(process->execution);
    bool has_more = false;

    if (!process->was_started && execution_has_started(process->execution))
        send_start(process);
    if (process->was_started) {
        has_more = send_output(process, 1);
        has_more |= send_output(process, 2);
    }
    execution_watch_at(process->watcher, process->offset);
    if (has_ended && !has_more && !process->stream.is_broken)
        send_end(process);
    else if (process->is_paused && !has_ended && !has_more && !process->stream.is_over)
        e2b_stream_end(&process->stream, "unavailable",
                       "the sandbox was paused; its processes go on when it is resumed");
}

static void on_more(void *ctx)
{
    struct process_stream *process = ctx;

    http_reply_more(process->stream.http);
}

static void on_paused(void *ctx)
{
    struct process_stream *process = ctx;

    process->is_paused = true;
    http_reply_more(process->stream.http);
}

static void on_ping(void *ctx)
{
    struct process_stream *process = ctx;

    if (process->was_started && !process->stream.is_over)
        send_event(process, json_pack("{s:{}}", "keepalive"));
    http_reply_more(process->stream.http);
}

/* The command goes on: only this stream of it ends. */
static void on_limit(void *ctx)
{
    struct process_stream *process = ctx;

    if (!process->stream.is_over)
        e2b_stream_end(&process->stream, "deadline_exceeded", "the time of this stream is over");
    http_reply_more(process->stream.http);
}

static void process_free(struct process_stream *process)
{
    if (process->watcher)
        execution_unwatch(process->watcher, false);
    if (process->timer)
        process->reactor->ops->timer_remove(process->timer);
    if (process->limit)
        process->reactor->ops->timer_remove(process->limit);
    free(process);
}

static void on_freed(void *ctx)
{
    process_free(ctx);
}

/* Begins the reply; limit_ms: how long it may take, 0: as long as the command. */
static void follow(struct door_call *call, struct session *session, struct execution *execution,
                   uint64_t limit_ms, const char *cwd)
{
    static const struct execution_watch_events events = {
        .started = on_more, .more = on_more, .paused = on_paused};
    struct process_stream *process = calloc(1, sizeof(*process));
    bool from_end = !cwd; /* only output that comes from now on */

    if (process) {
        *process = (struct process_stream){
            .session = session,
            .execution = execution,
            .reactor = call->front->reactor,
            .ping_ms = e2b_ping_ms(call->http),
            .is_pty = execution_is_pty(execution),
            .timer = reactor_timer(call->front->reactor, on_ping, process),
            .stream = {.http = call->http,
                       .text = BUF_INIT(E2B_PENDING_MAX),
                       .fill = on_fill,
                       .freed = on_freed,
                       .ctx = process},
        };
        str_copy(process->cwd, sizeof(process->cwd), cwd ? cwd : E2B_HOME);
        process->watcher = execution_watch(execution, true, &events, process);
        if (limit_ms > 0)
            process->limit = reactor_timer(call->front->reactor, on_limit, process);
    }
    if (!process || !process->timer || !process->watcher || (limit_ms > 0 && !process->limit)) {
        if (process)
            process_free(process);
        e2b_stream_fail(call->http, "internal", "out of memory");
        return;
    }
    for (int i = 0; i < BOX_STREAMS; i++)
        process->offset[i] =
            from_end ? execution_written(execution, i + 1) : execution_first(execution, i + 1);
    process->reactor->ops->timer_set(process->timer, process->ping_ms);
    if (process->limit)
        process->reactor->ops->timer_set(process->limit, limit_ms);
    front_stream_start(&process->stream, 200, e2b_stream_type(call->http), NULL, -1);
}

/* ---- Start ---- */

/* Command and arguments; NULL: no memory, or one of them is not text. */
static const char **words_of(json_t *process, const char *cmd)
{
    json_t *args = e2b_member(process, "args", NULL), *arg;
    const char **words = calloc(json_array_size(args) + 2, sizeof(*words));
    size_t i;

    if (!words)
        return NULL;
    words[0] = cmd;
    json_array_foreach(args, i, arg)
    {
        words[i + 1] = json_string_value(arg);
        if (!words[i + 1] || strlen(words[i + 1]) != json_string_length(arg)) {
            free(words);
            return NULL;
        }
    }
    return words;
}

static int read_size(json_t *request, struct execution_spec *spec, struct error *err)
{
    json_t *pty = e2b_member(request, "pty", NULL);
    json_t *size = e2b_member(pty, "size", NULL);
    int64_t rows = e2b_number(size, "rows", NULL), columns = e2b_number(size, "cols", NULL);

    if (!pty)
        return 0;
    if (rows > LIMIT_TERMINAL || columns > LIMIT_TERMINAL)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "pty.size: at most %d rows and columns",
                         LIMIT_TERMINAL);
    spec->is_pty = true;
    spec->rows = rows > 0 ? (unsigned)rows : 24;
    spec->columns = columns > 0 ? (unsigned)columns : 80;
    return 0;
}

static int read_start(struct door_call *call, json_t *request, struct execution_spec *spec,
                      char cwd[LIMIT_PATH_BYTES + 1], struct error *err)
{
    json_t *process = e2b_member(request, "process", NULL);
    const char *folder = e2b_text(process, "cwd", NULL);
    struct schema_problem problem = {0};

    *spec = (struct execution_spec){
        .caller = &call->caller,
        .env = e2b_member(process, "envs", NULL),
        .stdin_open = e2b_flag(request, "stdin", NULL, true),
        .timeout_ms = e2b_timeout_ms(call->http),
        .is_background = true,
        .cwd = cwd,
    };
    if (json_string_length(e2b_member(request, "tag", NULL)) > E2B_TAG_MAX)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "tag: at most %d bytes", E2B_TAG_MAX);
    if (!e2b_text(process, "cmd", NULL) || !e2b_text(process, "cmd", NULL)[0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "process.cmd is missing");
    if (spec->env && (!json_is_object(spec->env) || !start_env_check(spec->env, &problem)))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "process.envs: %s",
                         problem.err.code ? problem.err.text : "has to be an object");
    if (e2b_path(folder && folder[0] ? folder : E2B_HOME, cwd, err) < 0)
        return err->num;
    return read_size(request, spec, err);
}

static void start(struct door_call *call, struct session *session, json_t *request)
{
    CLEANUP(freep) const char **words = NULL;
    json_t *process = e2b_member(request, "process", NULL);
    char cwd[LIMIT_PATH_BYTES + 1];
    struct execution *execution;
    struct execution_spec spec;
    struct error err = {0};
    int r = read_start(call, request, &spec, cwd, &err);

    if (r == 0) {
        words = words_of(process, e2b_text(process, "cmd", NULL));
        spec.argv = words;
        if (!words)
            r = error_set(&err, -EINVAL, ERROR_BAD_INPUT, "process.args has to be a list of texts");
    }
    if (r == 0)
        r = session_exec(session, &spec, &execution, &err);
    if (r < 0) {
        e2b_stream_fail(call->http, e2b_code_of(&err), err.text);
        return;
    }
    e2b_process_note(call->door, execution, request);
    follow(call, session, execution, 0, cwd); /* the limit is the command's */
}

void e2b_process_start(struct door_call *call)
{
    struct session *session = e2b_session(call);
    json_t *request = session ? e2b_stream_request(call) : NULL;
    const char *code;
    struct error err = {0};

    if (!request)
        return;
    if (e2b_user_of(call->http, &code, &err))
        start(call, session, request);
    else
        e2b_stream_fail(call->http, code, err.text);
    json_decref(request);
}

/* ---- Connect ---- */

void e2b_process_connect(struct door_call *call)
{
    struct session *session = e2b_session(call);
    json_t *request = session ? e2b_stream_request(call) : NULL;
    struct execution *execution =
        request ? e2b_process_find(call->door, session, request, true) : NULL;

    if (!request)
        return;
    if (execution)
        follow(call, session, execution, e2b_timeout_ms(call->http), NULL);
    else
        e2b_stream_fail(call->http, "not_found", "there is no such process in this sandbox");
    json_decref(request);
}
