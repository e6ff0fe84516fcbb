/*
 * process_list.c - the other calls of process.Process: List, SendInput, CloseStdin, SendSignal,
 * Update, StreamInput; and what running commands were started with.
 *
 * Tag, folder and environment of a command are remembered here while it runs. After a restart of
 * the broker List says only what the session knows.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

struct e2b_process {
    struct e2b_process *next;
    struct e2b *e2b;
    struct execution *execution;
    struct execution_watcher *watcher;
    json_t *request; /* of Start: what of it is told later */
};

/* ---- what commands were started with ---- */

static void process_free(struct e2b_process *process)
{
    struct e2b_process **at = &process->e2b->processes;

    while (*at != process)
        at = &(*at)->next;
    *at = process->next;
    execution_unwatch(process->watcher, false);
    json_decref(process->request);
    free(process);
}

static void on_more(void *ctx)
{
    struct e2b_process *process = ctx;

    if (execution_has_ended(process->execution))
        process_free(process);
}

/* The request without the members that nothing asks for, which may be large. */
static json_t *told_of(json_t *request)
{
    json_t *process = e2b_member(request, "process", NULL);

    return json_pack("{s:O*, s:{s:O*, s:O*}}", "tag", e2b_member(request, "tag", NULL), "process",
                     "envs", e2b_member(process, "envs", NULL), "cwd",
                     e2b_member(process, "cwd", NULL));
}

void e2b_process_note(struct e2b *e2b, struct execution *execution, json_t *request)
{
    static const struct execution_watch_events events = {.more = on_more};
    struct e2b_process *process = calloc(1, sizeof(*process));

    if (!process || execution_has_ended(execution)) {
        free(process);
        return;
    }
    *process = (struct e2b_process){.next = e2b->processes,
                                    .e2b = e2b,
                                    .execution = execution,
                                    .request = told_of(request),
                                    .watcher = execution_watch(execution, false, &events, process)};
    if (!process->watcher || !process->request) {
        if (process->watcher)
            execution_unwatch(process->watcher, false);
        json_decref(process->request);
        free(process);
        return;
    }
    e2b->processes = process;
}

json_t *e2b_process_noted(const struct e2b *e2b, const struct execution *execution)
{
    for (const struct e2b_process *at = e2b->processes; at; at = at->next)
        if (at->execution == execution)
            return at->request;
    return NULL;
}

void e2b_processes_free(struct e2b *e2b)
{
    while (e2b->processes)
        process_free(e2b->processes);
}

/* ---- finding ---- */

struct search {
    struct e2b *e2b;
    int64_t pid;     /* -1: by the tag */
    const char *tag; /* NULL: by the pid */
    bool with_ended;
    struct execution *found;
};

static uint32_t pid_of(const struct execution *execution)
{
    uint32_t pid = execution_pid(execution);

    return pid ? pid : execution_number(execution);
}

static bool is_recent(const struct execution *execution)
{
    return clock_wall_ms() - MIN(clock_wall_ms(), execution_ended_ms(execution)) < E2B_RECENT_MS;
}

static bool fits(const struct search *search, const struct execution *execution)
{
    json_t *noted;

    if (!search->tag)
        return pid_of(execution) == search->pid;
    noted = e2b_process_noted(search->e2b, execution);
    return noted && str_equal(e2b_text(noted, "tag", NULL), search->tag);
}

/* Of two with one pid the newer one is meant. */
static void look_at(void *ctx, struct execution *execution)
{
    struct search *search = ctx;
    bool has_ended = execution_has_ended(execution);

    if (execution_is_cell(execution) || (has_ended && !search->with_ended) ||
        (has_ended && !is_recent(execution)) || !fits(search, execution))
        return;
    if (!search->found || execution_number(execution) > execution_number(search->found))
        search->found = execution;
}

struct execution *e2b_process_find(struct e2b *e2b, struct session *session, json_t *request,
                                   bool with_ended)
{
    json_t *selector = e2b_member(request, "process", NULL);
    struct search search = {
        .e2b = e2b,
        .pid = e2b_number(selector, "pid", NULL),
        .tag = e2b_text(selector, "tag", NULL),
        .with_ended = with_ended,
    };

    if (search.pid >= 0 || search.tag)
        session_each_execution(session, look_at, &search);
    return search.found;
}

/* ---- List ---- */

struct listing {
    struct e2b *e2b;
    json_t *processes;
};

static json_t *config_json(json_t *noted, json_t *argv)
{
    json_t *process = e2b_member(noted, "process", NULL);
    json_t *config = json_object(), *word, *args = json_array();
    size_t i;

    json_array_foreach(argv, i, word)
    {
        if (i == 0)
            json_object_set(config, "cmd", word);
        else
            json_array_append(args, word);
    }
    json_object_set_new(config, "args", args);
    json_object_set_new(config, "envs",
                        json_is_object(json_object_get(process, "envs"))
                            ? json_incref(json_object_get(process, "envs"))
                            : json_object());
    if (e2b_text(process, "cwd", NULL))
        json_object_set(config, "cwd", json_object_get(process, "cwd"));
    return config;
}

static void add(void *ctx, struct execution *execution)
{
    struct listing *listing = ctx;
    CLEANUP(json_decrefp) json_t *about = NULL;
    json_t *noted, *process;

    if (execution_is_cell(execution) || execution_has_ended(execution) ||
        !execution_has_started(execution))
        return;
    about = execution_json(execution);
    noted = e2b_process_noted(listing->e2b, execution);
    process =
        json_pack("{s:o, s:I, s:O*}", "config", config_json(noted, json_object_get(about, "argv")),
                  "pid", (json_int_t)pid_of(execution), "tag", e2b_member(noted, "tag", NULL));
    json_array_append_new(listing->processes, process);
}

static void list(struct door_call *call, struct session *session)
{
    struct listing listing = {.e2b = call->door, .processes = json_array()};

    session_each_execution(session, add, &listing);
    front_reply(call->http, 200, json_pack("{s:o}", "processes", listing.processes));
}

/* ---- input ---- */

static void no_process(struct door_call *call)
{
    e2b_unary_fail(call->http, "not_found", "there is no such process in this sandbox");
}

/* Bytes that wait until the command takes them. */
struct sending {
    struct door_call call; /* of a request that waits: http and front */
    bool is_stream;        /* StreamInput */
    struct execution *execution;
    struct execution_watcher *watcher;
    struct buf bytes;
    bool waits;
};

static void ignore(void *ctx)
{
    (void)ctx;
}
static const struct execution_watch_events no_events = {.more = ignore};

static void sending_free(struct sending *sending)
{
    if (sending->waits)
        execution_stdin_wait(sending->execution, NULL, sending);
    execution_unwatch(sending->watcher, false);
    buf_free(&sending->bytes);
    free(sending);
}

static void sending_gone(void *ctx)
{
    sending_free(ctx);
}

static void send_on(void *ctx)
{
    struct sending *sending = ctx;
    struct error err = {0};
    long taken = 0;

    sending->waits = false;
    while (sending->bytes.length > 0) {
        taken =
            execution_stdin(sending->execution, sending->bytes.data, sending->bytes.length, &err);
        if (taken <= 0)
            break;
        buf_consume(&sending->bytes, (size_t)taken);
    }
    if (taken < 0 && sending->is_stream) {
        e2b_stream_fail(sending->call.http, e2b_code_of(&err), err.text);
    } else if (taken < 0) {
        e2b_unary_error(&sending->call, &err);
    } else if (sending->bytes.length > 0) {
        sending->waits = true;
        execution_stdin_wait(sending->execution, send_on, sending);
        return;
    } else if (sending->is_stream) {
        e2b_stream_reply(sending->call.http, json_object());
    } else {
        front_reply(sending->call.http, 200, json_object());
    }
    sending_free(sending);
}

/* Of {"input":{"stdin"|"pty"}}: appends the bytes. */
static int input_of(json_t *request, const struct execution *execution, struct buf *bytes,
                    struct error *err)
{
    json_t *input = e2b_member(request, "input", NULL);
    json_t *pty = e2b_member(input, "pty", NULL);

    if ((pty != NULL) != execution_is_pty(execution))
        return error_set(err, -EINVAL, ERROR_NOT_A_TERMINAL,
                         pty ? "this process has no terminal"
                             : "this process has a terminal: its "
                               "input is `pty`");
    if (e2b_bytes(pty ? pty : e2b_member(input, "stdin", NULL), bytes) < 0)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "the input has to be base64");
    return 0;
}

static void send_bytes(struct door_call *call, struct execution *execution, struct buf *bytes,
                       bool is_stream)
{
    struct sending *sending = calloc(1, sizeof(*sending));

    if (sending)
        *sending = (struct sending){
            .call = {.front = call->front,
                     .door = call->door,
                     .http = call->http,
                     .route = call->route},
            .execution = execution,
            .watcher = execution_watch(execution, false, &no_events, sending),
            .bytes = *bytes,
            .is_stream = is_stream,
        };
    if (!sending || !sending->watcher) {
        free(sending);
        front_fail_memory(call->http);
        return;
    }
    *bytes = BUF_INIT(0);
    http_on_gone(call->http, sending_gone, sending);
    send_on(sending);
}

static void send_input(struct door_call *call, struct session *session, json_t *request)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(LIMIT_REQUEST_JSON);
    struct execution *execution = e2b_process_find(call->door, session, request, false);
    struct error err = {0};

    if (!execution)
        no_process(call);
    else if (input_of(request, execution, &bytes, &err) < 0)
        e2b_unary_error(call, &err);
    else
        send_bytes(call, execution, &bytes, false);
}

/*
 * StreamInput: a process, then its input piece by piece. The body is collected first, so a client
 * that writes, waits for output and writes again needs SendInput.
 */
static int stream_message(json_t *message, struct door_call *call, struct session *session,
                          struct execution **execution, struct buf *bytes, struct error *err)
{
    json_t *start = e2b_member(message, "start", NULL), *data = e2b_member(message, "data", NULL);

    if (start)
        *execution = e2b_process_find(call->door, session, start, false);
    if (!*execution)
        return error_set(err, -ESRCH, ERROR_EXECUTION_NOT_FOUND,
                         "there is no such process in this sandbox");
    return data ? input_of(data, *execution, bytes, err) : 0;
}

static void stream_input(struct door_call *call, struct session *session)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(LIMIT_REQUEST_JSON);
    struct execution *execution = NULL;
    struct error err = {0};
    const char *at, *text;
    size_t left, length, room = LIMIT_JSON_STRUCTURE;
    int r;

    at = http_body(call->http, &left);
    while ((r = e2b_envelope_next(&at, &left, &text, &length)) > 0) {
        CLEANUP(json_decrefp)
        json_t *message = e2b_stream_message(call->http, text, length, &room);

        r = message ? stream_message(message, call, session, &execution, &bytes, &err) : -EPROTO;
        if (r < 0)
            break;
    }
    if (r < 0 && !err.code)
        error_set(&err, r, ERROR_BAD_INPUT, "the body has to be envelopes with JSON");
    if (r == 0 && !execution)
        r = error_set(&err, -EINVAL, ERROR_BAD_INPUT, "the first message has to be `start`");
    if (r < 0)
        e2b_stream_fail(call->http, e2b_code_of(&err), err.text);
    else
        send_bytes(call, execution, &bytes, true);
}

static void close_stdin(struct door_call *call, struct session *session, json_t *request)
{
    struct execution *execution = e2b_process_find(call->door, session, request, false);
    struct error err = {0};

    if (!execution)
        no_process(call);
    else if (execution_is_pty(execution))
        e2b_unary_fail(call->http, "unknown",
                       "a terminal's input cannot be closed: send Ctrl-D (0x04)");
    else if (execution_stdin_end(execution, &err) < 0)
        e2b_unary_error(call, &err);
    else
        front_reply(call->http, 200, json_object());
}

/* ---- signals, sizes ---- */

static int signal_of(json_t *request)
{
    const char *word = e2b_text(request, "signal", NULL);
    int64_t number = e2b_number(request, "signal", NULL);

    if (str_equal(word, "SIGNAL_SIGKILL") || number == SIGKILL)
        return SIGKILL;
    return str_equal(word, "SIGNAL_SIGTERM") || number == SIGTERM ? SIGTERM : 0;
}

static void send_signal(struct door_call *call, struct session *session, json_t *request)
{
    struct execution *execution = e2b_process_find(call->door, session, request, false);
    int signal = signal_of(request);
    struct error err = {0};

    if (!execution)
        no_process(call);
    else if (!signal)
        e2b_unary_fail(call->http, "unimplemented",
                       "the signal has to be SIGNAL_SIGKILL or SIGNAL_SIGTERM");
    else if (execution_signal(execution, signal, &err) < 0)
        e2b_unary_error(call, &err);
    else
        front_reply(call->http, 200, json_object());
}

static void update(struct door_call *call, struct session *session, json_t *request)
{
    struct execution *execution = e2b_process_find(call->door, session, request, false);
    json_t *size = e2b_member(e2b_member(request, "pty", NULL), "size", NULL);
    int64_t rows = e2b_number(size, "rows", NULL), columns = e2b_number(size, "cols", NULL);
    struct error err = {0};

    if (!execution)
        no_process(call);
    else if (rows < 1 || columns < 1 || rows > LIMIT_TERMINAL || columns > LIMIT_TERMINAL)
        e2b_unary_fail(call->http, "invalid_argument",
                       "pty.size needs rows and cols between 1 and 4096");
    else if (execution_resize(execution, (unsigned)rows, (unsigned)columns, &err) < 0)
        e2b_unary_error(call, &err);
    else
        front_reply(call->http, 200, json_object());
}

static const struct {
    const char *name;
    void (*handle)(struct door_call *call, struct session *session, json_t *request);
} methods[] = {
    {"SendInput", send_input},
    {"CloseStdin", close_stdin},
    {"SendSignal", send_signal},
    {"Update", update},
};

void e2b_process_call(struct door_call *call)
{
    const char *name = http_param(call->http, "method");
    struct session *session;
    json_t *request;

    if (str_equal(name, "Start")) {
        e2b_process_start(call);
        return;
    }
    if (str_equal(name, "Connect")) {
        e2b_process_connect(call);
        return;
    }
    session = e2b_session(call);
    if (!session)
        return;
    if (str_equal(name, "List")) {
        list(call, session);
        return;
    }
    if (str_equal(name, "StreamInput")) {
        stream_input(call, session);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        if (!str_equal(methods[i].name, name))
            continue;
        request = e2b_unary_request(call);
        if (request)
            methods[i].handle(call, session, request);
        json_decref(request);
        return;
    }
    e2b_unary_fail(call->http, "unimplemented", "process.Process has no such method here");
}
