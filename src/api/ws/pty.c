/*
 * pty.c - a terminal over a WebSocket: binary messages are its bytes, both ways, text messages
 * control it. `started` comes first, with the execution and the offset of the first byte; `exit` is
 * the last. A client that lost its connection resumes with the execution and the offset after the
 * last byte it has; a client that closes with 1000 ends the program.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "api/start.h"
#include "api/ws/ws_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

#define PIECE (32 * KIB)
#define TURNS 16
#define ROWS 24
#define COLUMNS 80
#define SHELL "command -v bash >/dev/null 2>&1 && exec bash -i; exec sh -i"
#define TERM "xterm-256color"
#define SAID_MAX (64 * KIB) /* largest text message */

struct pty {
    struct front *front;
    const struct ws_schemas *schemas;
    struct websocket *socket;
    struct execution *execution;
    struct execution_watcher *watcher;
    struct reactor_timer *timer; /* fires when there is something to send */
    uint64_t offset[BOX_STREAMS];
    struct buf input; /* bytes that the terminal has not taken */
    bool waits, is_over;
};

/* ---- to the client ---- */

/* Takes it over. These messages are few and small: there is always room for one. */
static void say(struct pty *pty, const char *type, json_t *members)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(SAID_MAX);
    CLEANUP(json_decrefp) json_t *message = json_pack("{s:s}", "type", type);

    if (!members || !message || json_object_update_missing(message, members) < 0 ||
        text_of_json(message, FRONT_JSON, &text) < 0 ||
        websocket_send(pty->socket, true, text.data, text.length) < 0)
        websocket_close(pty->socket, 1011, "a message was lost");
    json_decref(members);
}

/* False: nothing more to send now, or no room. */
static bool send_piece(struct pty *pty)
{
    CLEANUP(freep) char *data = NULL;
    ssize_t length;

    if (!websocket_has_room(pty->socket))
        return false;
    data = malloc(PIECE);
    length = data ? execution_read(pty->execution, 1, pty->offset[0], data, PIECE) : -ENOMEM;
    if (length < 0) {
        pty->is_over = true;
        websocket_close(pty->socket, 1011, "output was lost");
        return false;
    }
    if (length > 0 && websocket_send(pty->socket, false, data, (size_t)length) == 0) {
        pty->offset[0] += (uint64_t)length;
        return true;
    }
    if (length == 0 && execution_has_ended(pty->execution)) {
        pty->is_over = true;
        say(pty, "exit", execution_json(pty->execution));
        websocket_close(pty->socket, 1000, "the program has ended");
    }
    return false;
}

static void pump(void *ctx)
{
    struct pty *pty = ctx;
    bool has_more = true;

    for (int i = 0; i < TURNS && has_more && !pty->is_over; i++)
        has_more = send_piece(pty);
    execution_watch_at(pty->watcher, pty->offset);
    if (has_more && !pty->is_over)
        pty->front->reactor->ops->timer_set(pty->timer, 0); /* lets other connections run first */
}

static void on_paused(void *ctx)
{
    struct pty *pty = ctx;

    if (pty->is_over)
        return;
    pty->is_over = true;
    websocket_close(pty->socket, 1001, "the session was paused; its programs go on later");
}

static void on_more(void *ctx)
{
    struct pty *pty = ctx;

    pty->front->reactor->ops->timer_set(pty->timer, 0);
}

/* ---- from the client ---- */

static void on_input_ready(void *ctx);

static void feed(struct pty *pty)
{
    struct error err = {0};
    long count = 0;

    while (pty->input.length > 0) {
        count = execution_stdin(pty->execution, pty->input.data, pty->input.length, &err);
        if (count <= 0)
            break;
        buf_consume(&pty->input, (size_t)count);
    }
    if (count < 0)
        buf_clear(&pty->input); /* the program has ended or is ending: `exit` reports it */
    pty->waits = pty->input.length > 0;
    if (pty->waits)
        execution_stdin_wait(pty->execution, on_input_ready, pty);
    websocket_hold(pty->socket, pty->waits);
}

static void on_input_ready(void *ctx)
{
    struct pty *pty = ctx;

    pty->waits = false;
    feed(pty);
}

static void control(struct pty *pty, json_t *message, struct schema_problem *problem)
{
    const char *type = json_string_value(json_object_get(message, "type"));
    bool is_resize = str_equal(type, "resize");

    if (!is_resize && !str_equal(type, "signal")) {
        error_set(&problem->err, -EINVAL, ERROR_BAD_INPUT, "'type' has to be resize or signal");
        return;
    }
    json_object_del(message, "type");
    if (!schema_check(is_resize ? pty->schemas->resize : pty->schemas->signal, message, problem))
        return;
    if (is_resize) {
        execution_resize(
            pty->execution, (unsigned)json_integer_value(json_object_get(message, "rows")),
            (unsigned)json_integer_value(json_object_get(message, "columns")), &problem->err);
        return;
    }
    if (start_signal(json_object_get(message, "signal")) == 0)
        error_set(&problem->err, -EINVAL, ERROR_BAD_INPUT,
                  "'signal' has to be a name such as TERM, or its number");
    else
        execution_signal(pty->execution, start_signal(json_object_get(message, "signal")),
                         &problem->err);
}

static void on_text(struct pty *pty, const char *text, size_t length)
{
    struct schema_problem problem = {0};
    CLEANUP(json_decrefp) json_t *message = json_read(text, length, &problem);

    if (message && !json_is_object(message))
        error_set(&problem.err, -EINVAL, ERROR_BAD_INPUT, "a message has to be an object");
    else if (message)
        control(pty, message, &problem);
    if (problem.err.num < 0 && websocket_has_room(pty->socket)) /* else the client does not read */
        say(pty, "error", front_error_json(pty->front, &problem.err, front_problem_json(&problem)));
}

static void on_message(void *ctx, bool is_text, const void *data, size_t length)
{
    struct pty *pty = ctx;

    if (pty->is_over)
        return;
    if (is_text) {
        on_text(pty, data, length);
    } else if (buf_append(&pty->input, data, length) < 0) {
        pty->is_over = true;
        websocket_close(pty->socket, 1011, "input was lost");
    } else if (!pty->waits) {
        feed(pty);
    }
}

/* ---- opening and closing ---- */

static void pty_free(struct pty *pty, bool ends_it)
{
    if (pty->socket) /* the WebSocket was opened */
        ws_count(pty->front, -1);
    if (pty->waits)
        execution_stdin_wait(pty->execution, NULL, pty);
    if (pty->watcher)
        execution_unwatch(pty->watcher, ends_it);
    pty->front->reactor->ops->timer_remove(pty->timer);
    buf_free(&pty->input);
    free(pty);
}

static void on_closed(void *ctx, unsigned status)
{
    pty_free(ctx, status == 1000);
}

/* Starts a new terminal. */
static int start(struct door_call *call, struct session *session, struct execution **ret,
                 struct error *err)
{
    const char *command = front_query_text(call, "command");
    const char *argv[] = {"/bin/sh", "-c", command ? command : SHELL, NULL};
    CLEANUP(json_decrefp) json_t *env = json_pack("{s:s}", "TERM", TERM);

    return session_exec(session,
                        &(struct execution_spec){
                            .caller = &call->caller,
                            .argv = argv,
                            .env = env,
                            .stdin_open = true,
                            .is_pty = true,
                            .rows = (unsigned)front_query_u64(call, "rows", ROWS),
                            .columns = (unsigned)front_query_u64(call, "columns", COLUMNS),
                        },
                        ret, err);
}

/* Attaches to a running terminal, from an offset on. */
static int attach(struct door_call *call, struct session *session, struct execution **ret,
                  struct error *err)
{
    CLEANUP(json_decrefp) json_t *json = NULL;
    int r = session_find_execution(session, front_query_text(call, "execution"), ret, err);

    if (r < 0)
        return r;
    json = execution_json(*ret);
    if (!json_is_true(json_object_get(json, "pty")))
        return error_set(err, -ENOTTY, ERROR_NOT_A_TERMINAL, "that execution has no terminal");
    if (front_query_u64(call, "offset", execution_first(*ret, 1)) < execution_first(*ret, 1))
        return error_set(err, -ERANGE, ERROR_OFFSET_GONE,
                         "output before offset %" PRIu64 " is no longer stored",
                         execution_first(*ret, 1));
    return 0;
}

static struct pty *pty_new(struct door_call *call, struct execution *execution)
{
    static const struct execution_watch_events events = {.more = on_more, .paused = on_paused};
    struct pty *pty = calloc(1, sizeof(*pty));

    if (!pty)
        return NULL;
    *pty = (struct pty){
        .front = call->front,
        .schemas = call->door,
        .execution = execution,
        .watcher = execution_watch(execution, true, &events, pty),
        .timer = reactor_timer(call->front->reactor, pump, pty),
        .offset = {front_query_u64(call, "offset", execution_first(execution, 1))},
        .input = BUF_INIT(2 * LIMIT_WS_PTY),
    };
    if (pty->watcher && pty->timer)
        return pty;
    pty_free(pty, true);
    return NULL;
}

void ws_pty(struct door_call *call)
{
    static const struct websocket_events events = {
        .message = on_message, .drained = pump, .closed = on_closed};
    bool is_new = !front_query_text(call, "execution");
    struct execution *execution;
    CLEANUP(json_decrefp) json_t *json = NULL;
    struct session *session;
    struct error err = {0};
    struct pty *pty;

    if (!front_session(call, false, &session) || !ws_is_asked(call))
        return;
    if ((is_new ? start : attach)(call, session, &execution, &err) < 0) {
        front_fail(call->front, call->http, &err, NULL);
        return;
    }
    pty = pty_new(call, execution);
    if (!pty) {
        front_fail_memory(call->http);
        return;
    }
    if (!ws_open(call, LIMIT_WS_PTY, &events, pty, &pty->socket)) {
        pty_free(pty, is_new);
        return;
    }
    ws_count(pty->front, 1);
    execution_watch_at(pty->watcher, pty->offset);
    json = execution_json(execution);
    say(pty, "started",
        json_pack("{s:O?, s:I}", "execution_id", json_object_get(json, "execution_id"), "offset",
                  (json_int_t)pty->offset[0]));
    on_more(pty);
}
