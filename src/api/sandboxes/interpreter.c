/*
 * interpreter.c - the code interpreter: POST /execute as lines of JSON, and /contexts; see e2b.h.
 *
 * Lines have ASCII characters only: clients decode each piece of the reply by itself, and would
 * lose a character that is in two of them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/exec_stream.h"
#include "api/sandboxes/e2b.h"
#include "api/start.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/reactor.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/schema.h"

#define LINES_MAX (6 * LIMIT_CELL_EVENTS + MIB)
#define PING_MS 5000
#define TYPE_TEXT "text/plain; charset=utf-8"

static void fail_text(struct http_request *http, unsigned status, const char *text)
{
    http_reply(http, status, TYPE_TEXT, NULL, text, strlen(text));
}

static void fail_error(struct door_call *call, const struct error *err)
{
    unsigned status = front_error_status(err->code ? err->code : ERROR_ENGINE);

    front_denied(call->front, call->http, err);
    if (str_equal(err->code, ERROR_SESSION_ENDED) || str_equal(err->code, ERROR_SESSION_PAUSED) ||
        str_equal(err->code, ERROR_BOX_LOST))
        status = 502;
    fail_text(call->http, status, err->text);
}

/* ---- languages ---- */

/* The engine's name of a language that a caller writes as `word`; may be in `room`. */
static const char *language_of(const char *word, char *room, size_t size)
{
    static const char *const words[][2] = {
        {"js", "javascript"},   {"ts", "javascript"},     {"typescript", "javascript"},
        {"py", "python"},       {"sh", "bash"},           {"python3", "python"},
        {"node", "javascript"}, {"nodejs", "javascript"},
    };
    size_t length;

    word += strspn(word, " \t\n");
    length = strcspn(word, " \t\n");
    str_format(room, size, "%.*s", (int)MIN(length, size - 1), word);
    for (char *at = room; *at; at++)
        if (*at >= 'A' && *at <= 'Z')
            *at = (char)(*at - 'A' + 'a');
    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (str_equal(words[i][0], room))
            return words[i][1];
    return room;
}

static int default_context(struct session *session, const char *language, struct context **ret,
                           struct error *err)
{
    const struct context_spec spec = {.language = language, .cwd = E2B_HOME, .is_default = true};

    return session_create_context(session, &spec, ret, err);
}

/* ---- /execute ---- */

struct running {
    struct front_stream stream;
    struct session *session;
    struct execution *execution;
    struct exec_stream *events;
    struct reactor *reactor;
    struct reactor_timer *timer;
    const struct e2b_wire *wire; /* of a stream of Connect; NULL: lines */
    json_int_t count;            /* of the execution */
    bool has_error;              /* an error was sent */
};

/* A line as a message of a stream. */
static void message(struct running *running, json_t *json)
{
    const char *type = json_string_value(json_object_get(json, "type"));
    json_t *event;

    if (!type)
        running->stream.is_broken = true;
    else if (str_equal(type, "number_of_executions"))
        running->count = json_integer_value(json_object_get(json, "execution_count"));
    else if (str_equal(type, "end_of_execution"))
        e2b_stream_end(&running->stream, NULL, NULL);
    else if ((event = running->wire->event(json, running->count)))
        e2b_stream_send(&running->stream, event);
    json_decref(json);
}

static void line(struct running *running, json_t *json)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LINES_MAX);

    running->reactor->ops->timer_set(running->timer, PING_MS);
    if (running->wire) {
        message(running, json);
        return;
    }
    if (!json || text_of_json(json, FRONT_JSON | JSON_ENSURE_ASCII, &text) < 0 ||
        buf_append_text(&text, "\n") < 0 ||
        buf_append(&running->stream.text, text.data, text.length) < 0)
        running->stream.is_broken = true;
    json_decref(json);
}

static void output_line(struct running *running, const char *type, json_t *data)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(MIB);
    json_t *text = json_object_get(data, "data");
    char time[40];

    front_time(clock_wall_ms(), time, sizeof(time));
    if (str_equal(json_string_value(json_object_get(data, "encoding")), "base64")) {
        base64_decode(json_string_value(text), json_string_length(text), &bytes);
        text = text_to_json(buf_text(&bytes), bytes.length);
    } else {
        json_incref(text);
    }
    line(running, json_pack("{s:s, s:o, s:s}", "type", type, "text", text, "timestamp", time));
}

/* 'abc' is abc, as E2B's server shows the text of a string. */
static json_t *without_quotes(json_t *text)
{
    const char *at = json_string_value(text);
    size_t length = json_string_length(text);

    if (length >= 2 && (at[0] == '\'' || at[0] == '"') && at[length - 1] == at[0])
        return json_stringn_nocheck(at + 1, length - 2);
    return json_incref(text);
}

/* A MIME bundle as E2B's members; what has none goes to `extra`. */
static json_t *result_line(json_t *bundle, bool is_main)
{
    static const char *const names[][2] = {
        {"text/plain", "text"},
        {"text/html", "html"},
        {"text/markdown", "markdown"},
        {"image/svg+xml", "svg"},
        {"image/png", "png"},
        {"image/jpeg", "jpeg"},
        {"application/pdf", "pdf"},
        {"text/latex", "latex"},
        {"application/json", "json"},
        {"application/javascript", "javascript"},
        {"application/vnd.bailey.data+json", "data"},
        {"application/vnd.bailey.chart+json", "chart"},
        {"e2b/data", "data"},
        {"e2b/chart", "chart"},
    };
    json_t *result = json_pack("{s:s, s:b}", "type", "result", "is_main_result", is_main);
    json_t *extra = json_object(), *value;
    const char *mime;

    json_object_foreach(bundle, mime, value)
    {
        const char *name = NULL;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
            if (str_equal(names[i][0], mime))
                name = names[i][1];
        if (str_equal(name, "text"))
            json_object_set_new(result, name, without_quotes(value));
        else
            json_object_set(name ? result : extra, name ? name : mime, value);
    }
    if (json_object_size(extra) > 0)
        json_object_set(result, "extra", extra);
    json_decref(extra);
    return result;
}

static void start_line(struct running *running)
{
    CLEANUP(json_decrefp) json_t *cell = execution_cell_json(running->execution);
    json_int_t count = json_integer_value(json_object_get(cell, "execution_count"));

    line(running, json_pack("{s:s, s:I}", "type", "number_of_executions", "execution_count",
                            count > 0 ? count : 1));
}

static void error_line(struct running *running, const char *name, const char *value)
{
    running->has_error = true;
    line(running, json_pack("{s:s, s:s, s:o, s:s}", "type", "error", "name", name, "value",
                            text_to_json(value, strlen(value)), "traceback", ""));
}

/* The cell has ended; what it did not say itself is said here. */
static void exit_line(struct running *running, json_t *result)
{
    json_t *meta = json_object_get(result, "meta");
    const char *why = json_string_value(json_object_get(json_object_get(meta, "error"), "message"));

    if (session_state(running->session) >= SESSION_ENDING) {
        running->stream.is_broken = true; /* clients then ask whether the sandbox runs */
        return;
    }
    if (!running->has_error && why)
        error_line(running, "KernelError", why);
    else if (!running->has_error && json_is_true(json_object_get(meta, "kernel_lost")))
        error_line(running, "KernelError", "the kernel ended; its variables are gone");
    else if (!running->has_error && json_is_true(json_object_get(meta, "oom_killed")))
        error_line(running, "MemoryError", "the kernel was ended: out of memory");
    line(running, json_pack("{s:s}", "type", "end_of_execution"));
}

static void on_event(void *ctx, const char *id, const char *name, json_t *data)
{
    struct running *running = ctx;

    (void)id;
    if (!data) {
        running->stream.is_broken = true;
    } else if (str_equal(name, "started")) {
        start_line(running);
    } else if (str_equal(name, "stdout") || str_equal(name, "stderr")) {
        output_line(running, name, data);
    } else if (str_equal(name, "result") || str_equal(name, "display")) {
        line(running, result_line(json_object_get(data, "data"), str_equal(name, "result")));
    } else if (str_equal(name, "error")) {
        running->has_error = true;
        line(running,
             json_pack("{s:s, s:O, s:O, s:O}", "type", "error", "name",
                       json_object_get(data, "name"), "value", json_object_get(data, "value"),
                       "traceback", json_object_get(data, "traceback")));
    } else if (str_equal(name, "closed")) {
        running->stream.is_broken = true; /* as at its end: clients ask whether the sandbox runs */
    } else if (str_equal(name, "exit")) {
        exit_line(running, data);
    }
    json_decref(data);
}

static void on_ready(void *ctx)
{
    struct running *running = ctx;

    http_reply_more(running->stream.http);
}

static void on_fill(void *ctx)
{
    struct running *running = ctx;
    enum exec_stream_state state = exec_stream_more(running->events);

    running->stream.is_over |= state == EXEC_STREAM_OVER;
    running->stream.is_broken |= state == EXEC_STREAM_BROKEN;
}

static void on_ping(void *ctx)
{
    struct running *running = ctx;

    if (!running->stream.is_over)
        line(running, json_pack("{s:s}", "type", "keepalive"));
    http_reply_more(running->stream.http);
}

/* A client that leaves interrupts its cell, so that the next one can run. */
static void on_freed(void *ctx)
{
    struct running *running = ctx;

    exec_stream_free(running->events, true);
    running->reactor->ops->timer_remove(running->timer);
    free(running);
}

/* `wire`: of a stream of Connect; NULL: lines. */
static void follow(struct door_call *call, struct session *session, struct execution *execution,
                   const struct e2b_wire *wire)
{
    static const struct exec_stream_events events = {.event = on_event, .ready = on_ready};
    const struct exec_stream_spec spec = {.session = session, .execution = execution};
    struct running *running = calloc(1, sizeof(*running));

    if (running) {
        *running = (struct running){
            .session = session,
            .execution = execution,
            .wire = wire,
            .reactor = call->front->reactor,
            .timer = reactor_timer(call->front->reactor, on_ping, running),
            .events = exec_stream_new(&spec, &events, running),
            .stream = {.http = call->http,
                       .text = BUF_INIT(LINES_MAX),
                       .fill = on_fill,
                       .freed = on_freed,
                       .ctx = running},
        };
    }
    if (!running || !running->timer || !running->events) {
        if (running && running->timer)
            call->front->reactor->ops->timer_remove(running->timer);
        if (running)
            exec_stream_free(running->events, true);
        free(running);
        front_fail_memory(call->http);
        return;
    }
    running->reactor->ops->timer_set(running->timer, PING_MS);
    front_stream_start(&running->stream, 200, wire ? e2b_stream_type(call->http) : TYPE_LINES,
                       front_event_headers, -1);
}

/* The context that the request means. */
static int context_of(struct session *session, json_t *body, struct context **ret,
                      struct error *err)
{
    const char *word = e2b_text(body, "contextId", "context_id");
    const char *language = e2b_text(body, "language", NULL);
    char room[40];

    if (word && word[0])
        return session_find_context(session, word, NULL, ret, err);
    return default_context(session, language_of(language ? language : "python", room, sizeof(room)),
                           ret, err);
}

/* A body that is an object; NULL: it was answered. */
static json_t *read_body(struct door_call *call)
{
    struct schema_problem problem = {0};
    json_t *body;
    size_t length;

    http_body(call->http, &length);
    if (length == 0 && !http_prepared(call->http))
        return json_object();
    body = front_body_json(call->http, &problem);
    if (json_is_object(body))
        return body;
    json_decref(body);
    fail_text(call->http, 400,
              problem.err.code ? problem.err.text : "the body has to be an object");
    return NULL;
}

static int execute(struct door_call *call, struct session *session, json_t *body,
                   struct execution **ret, struct error *err)
{
    json_t *code = e2b_member(body, "code", NULL), *env = e2b_member(body, "envVars", "env_vars");
    struct schema_problem problem = {0};
    struct cell_request request = {
        .caller = &call->caller,
        .keeper = code, /* the body may have other members, which may be large */
        .code = json_string_value(code),
        .code_length = json_string_length(code),
        .env = env,
    };

    if (!json_is_string(code))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "code is missing");
    if (env && (!json_is_object(env) || !start_env_check(env, &problem)))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "env_vars: %s",
                         problem.err.code ? problem.err.text : "has to be an object of texts");
    if (context_of(session, body, &request.context, err) < 0)
        return err->num;
    return session_cell(session, &request, ret, err);
}

void e2b_execute(struct door_call *call)
{
    struct session *session = e2b_session(call);
    json_t *body = session ? read_body(call) : NULL;
    struct execution *execution;
    struct error err = {0};

    if (!body)
        return;
    if (e2b_text(body, "context_id", NULL) && e2b_text(body, "language", NULL))
        fail_text(call->http, 400, "Only one of context_id or language can be provided");
    else if (execute(call, session, body, &execution, &err) < 0)
        fail_error(call, &err);
    else
        follow(call, session, execution, NULL);
    json_decref(body);
}

void e2b_execute_stream(struct door_call *call)
{
    struct session *session = e2b_session(call);
    json_t *request = session ? e2b_stream_request(call) : NULL;
    struct execution *execution;
    struct error err = {0};
    const char *code;

    if (!request)
        return;
    if (!e2b_user_of(call->http, &code, &err)) {
        e2b_stream_fail(call->http, code, err.text);
    } else if (execute(call, session, request, &execution, &err) < 0) {
        front_denied(call->front, call->http, &err);
        e2b_stream_fail(call->http, e2b_code_of(&err), err.text);
    } else {
        follow(call, session, execution, ((struct e2b *)call->door)->wire);
    }
    json_decref(request);
}

/* ---- /contexts ---- */

json_t *e2b_context_json(const struct context *context)
{
    CLEANUP(json_decrefp) json_t *all = context_json(context);

    return json_pack("{s:O, s:O, s:O}", "id", json_object_get(all, "id"), "language",
                     json_object_get(all, "language"), "cwd", json_object_get(all, "cwd"));
}

struct context_list {
    json_t *defaults, *others;
};

static void add(void *ctx, struct context *context)
{
    CLEANUP(json_decrefp) json_t *all = context_json(context);
    struct context_list *list = ctx;

    json_array_append_new(json_is_true(json_object_get(all, "default")) ? list->defaults
                                                                        : list->others,
                          e2b_context_json(context));
}

/* Those that the sandbox has of itself, then the others, the newest last. */

void e2b_contexts_list(struct door_call *call)
{
    static const char *const defaults[] = {"python", "javascript"};
    struct session *session = e2b_session(call);
    struct context *ignored;
    struct error err = {0};
    struct context_list list;

    if (!session)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(defaults); i++)
        (void)default_context(session, defaults[i], &ignored, &err); /* not each is installed */
    list = (struct context_list){.defaults = json_array(), .others = json_array()};
    session_each_context(session, add, &list);
    json_array_extend(list.defaults, list.others);
    json_decref(list.others);
    front_reply(call->http, 200, list.defaults);
}

int e2b_context_make(struct session *session, const char *language, const char *cwd,
                     struct context **ret, struct error *err)
{
    char room[40], folder[LIMIT_PATH_BYTES + 1];
    int r = e2b_path(cwd && cwd[0] ? cwd : E2B_HOME, folder, err);
    struct context_spec spec = {
        .language = language_of(language && language[0] ? language : "python", room, sizeof(room)),
        .cwd = folder,
    };

    return r < 0 ? r : session_create_context(session, &spec, ret, err);
}

void e2b_contexts_new(struct door_call *call)
{
    struct session *session = e2b_session(call);
    json_t *body = session ? read_body(call) : NULL;
    const char *language = e2b_text(body, "language", NULL);
    const char *folder = e2b_text(body, "cwd", NULL);
    struct context *context;
    struct error err = {0};

    if (!body)
        return;
    if (e2b_context_make(session, language, folder, &context, &err) < 0)
        fail_error(call, &err);
    else
        front_reply(call->http, 200, e2b_context_json(context));
    json_decref(body);
}

static struct context *find_context(struct door_call *call)
{
    struct session *session = e2b_session(call);
    const char *word = http_param(call->http, "context");
    struct context *context;
    struct error err = {0};
    char text[120];

    if (!session)
        return NULL;
    if (session_find_context(session, word, NULL, &context, &err) == 0)
        return context;
    str_format(text, sizeof(text), "Context %.64s not found", word);
    fail_text(call->http, 404, text);
    return NULL;
}

void e2b_context_restart(struct door_call *call)
{
    struct context *context = find_context(call);

    if (!context)
        return;
    context_restart(context);
    front_reply(call->http, 200, e2b_context_json(context));
}

void e2b_context_remove(struct door_call *call)
{
    struct context *context = find_context(call);

    if (!context)
        return;
    context_remove(context);
    front_reply(call->http, 200, json_object());
}
