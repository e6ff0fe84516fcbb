/*
 * run.c - POST /v1/run: runs code in a new box; replies with its result, or with its output as
 * events and then the result. DELETE ends a run.
 *
 * The client sets the pace: output that it has not read holds the program back.
 */
#include <errno.h>
#include <string.h>

#include "api/rest/rest_private.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "config/shape.h"

#define PENDING_MAX (256 * KIB) /* of events that the client has not read */
#define PIECE (32 * KIB)        /* of one stream in one event */
#define TEXT_MAX (6 * LIMIT_OUTPUT_MAX + MIB)
#define SHAPE_MAX (64 * KIB)
#define NAME_MAX_BYTES 255

struct waiting {
    struct http_request *http;
    struct run *run; /* NULL: it has ended */
    json_t *body;    /* the run may point into it */
    struct front_stream stream;
    bool is_held[2]; /* the stream is held back for the client */
};

static void waiting_free(struct waiting *waiting)
{
    json_decref(waiting->body);
    free(waiting);
}

/* ---- the result ---- */

static void on_done(void *ctx, struct result *result)
{
    struct waiting *waiting = ctx;

    front_reply(waiting->http, 200, result_to_json(result));
    result_free(result);
    waiting_free(waiting);
}

static void on_gone(void *ctx)
{
    struct waiting *waiting = ctx;

    session_manager_run_cancel(waiting->run);
    waiting_free(waiting);
}

/* ---- events ---- */

/* As text, unless it contains a byte that JSON cannot represent or that would grow much. */
static json_t *piece_json(const char *data, size_t length)
{
    CLEANUP(buf_free) struct buf encoded = BUF_INIT(2 * PIECE);
    json_t *text = memchr(data, '\0', length) ? NULL : json_stringn(data, length);

    if (text)
        return json_pack("{s:o, s:s}", "data", text, "encoding", "utf8");
    if (base64_encode(data, length, &encoded) < 0)
        return NULL;
    return json_pack("{s:s%, s:s}", "data", buf_text(&encoded), encoded.length, "encoding",
                     "base64");
}

static size_t on_output(void *ctx, int stream, const void *data, size_t length)
{
    struct waiting *waiting = ctx;
    const char *at = data;

    if (waiting->stream.text.length > PENDING_MAX) {
        waiting->is_held[stream - 1] = true;
        return 0;
    }
    for (size_t left = length, count; left > 0; at += count, left -= count) {
        count = MIN(left, (size_t)PIECE);
        front_stream_event(&waiting->stream, NULL, stream == 1 ? "stdout" : "stderr",
                           piece_json(at, count));
    }
    http_reply_more(waiting->stream.http);
    return length;
}

static void on_exit_event(void *ctx, struct result *result)
{
    struct waiting *waiting = ctx;

    waiting->run = NULL;
    front_stream_event(&waiting->stream, NULL, "exit", result_to_json(result));
    result_free(result);
    waiting->stream.is_over = true;
    http_reply_more(waiting->stream.http);
}

static void on_fill(void *ctx)
{
    struct waiting *waiting = ctx;

    for (int i = 0; i < 2; i++) {
        if (waiting->is_held[i] && waiting->run)
            session_manager_run_resume(waiting->run, i + 1);
        waiting->is_held[i] = false;
    }
}

static void on_freed(void *ctx)
{
    struct waiting *waiting = ctx;

    if (waiting->run)
        session_manager_run_cancel(waiting->run);
    waiting_free(waiting);
}

static void start_events(struct waiting *waiting)
{
    char name[ID_MAX + 32]; /* for a client that wants to end it */
    const char *headers[] = {front_event_headers[0], name, NULL};

    str_format(name, sizeof(name), "Bailey-Execution: %s", session_manager_run_id(waiting->run));
    front_stream_start(&waiting->stream, 200, TYPE_EVENTS, headers, -1);
}

/* ---- the request ---- */

static bool is_enabled(const struct config *config, const char *language)
{
    for (size_t i = 0; i < strv_length(config->languages); i++)
        if (str_equal(config->languages[i], language))
            return true;
    return false;
}

/* A file name in /workspace that no interpreter takes for an option. */
static bool is_name(const char *name)
{
    return name[0] && name[0] != '-' && !strchr(name, '/') && !str_equal(name, ".") &&
           !str_equal(name, "..") && strlen(name) <= NAME_MAX_BYTES;
}

/* Whether the run here would have the limits that `like` names. */
static int check_like(struct door_call *call, const struct run_spec *spec, const char *like,
                      struct error *err)
{
    CLEANUP(buf_free) struct buf ours = BUF_INIT(SHAPE_MAX);
    const struct session_language *language =
        session_manager_language(call->front->manager, spec->language);
    struct session_template found_template = {0};
    const struct config *config = NULL;
    const char *differs;
    char name[64];
    int r = session_manager_config_of(call->front->manager, &call->caller, &config, err);
    struct shape shape = {.state = call->front->info.state,
                          .fingerprint = language ? language->fingerprint : NULL};

    if (r == 0)
        r = session_manager_template_of(call->front->manager, config, spec->template_name,
                                        &found_template, err);
    if (r < 0)
        return r;
    shape.layer = found_template.layer;
    if (session_manager_other_python(call->front->manager, config))
        shape.fingerprint = NULL; /* unknown: the run is not one like the caller's own */
    if (shape_text(&shape, config, &ours) < 0)
        return error_memory(err);
    differs = shape_difference(buf_text(&ours), like, name);
    return differs ? error_set(err, -EPERM, ERROR_RUN_DIFFERS,
                               "the run requires another '%s' than this daemon has", differs)
                   : 0;
}

/* Checks that the schema cannot express; false: it was answered. */
static bool check(struct door_call *call, const struct run_spec *spec)
{
    json_t *like = json_object_get(call->body, "like");
    struct error err = {0};

    if (spec->code[strspn(spec->code, " \t\r\n\f\v")] == '\0') {
        front_fail_field(call->http, "code", "'code' is empty: there is nothing to run");
        return false;
    }
    if (spec->name && !is_name(spec->name)) {
        front_fail_field(call->http, "name",
                         "'name' has to be one name of at most %d bytes without '/' that does not "
                         "begin with '-'",
                         NAME_MAX_BYTES);
        return false;
    }
    if (spec->code_length > LIMIT_CODE_BYTES)
        error_set(&err, -EFBIG, ERROR_TOO_LARGE, "'code' is larger than %llu MB",
                  LIMIT_CODE_BYTES / MIB);
    else if (!is_enabled(session_manager_config(call->front->manager), spec->language))
        error_set(&err, -EPERM, ERROR_NO_INTERPRETER,
                  "%s is switched off here: it is not among SANDBOX_SUPPORTED_LANGUAGES",
                  spec->language);
    else if (like)
        check_like(call, spec, json_string_value(like), &err);
    if (err.num < 0)
        front_fail(call->front, call->http, &err, NULL);
    return err.num == 0 && rest_check_env(call->http, spec->env);
}

static void read_spec(json_t *body, struct run_spec *spec)
{
    json_t *code = json_object_get(body, "code");
    json_t *input = json_object_get(body, "stdin");
    json_t *language = json_object_get(body, "language");
    json_t *timeout = json_object_get(body, "timeout");

    *spec = (struct run_spec){
        .keeper = body,
        .template_name = json_string_value(json_object_get(body, "template")),
        .language = language ? json_string_value(language) : "python",
        .code = json_string_value(code),
        .code_length = json_string_length(code),
        .env = json_object_get(body, "env"),
        .input = json_string_value(input),
        .input_length = input ? json_string_length(input) : 0,
        .timeout_ms = (uint64_t)(json_number_value(timeout) * 1000.0 + 0.5),
        .name = json_string_value(json_object_get(body, "name")),
        .arguments = json_object_get(body, "arguments"),
        .keeps_nothing = json_is_false(json_object_get(body, "store")),
    };
    if (timeout && spec->timeout_ms == 0)
        spec->timeout_ms = 1; /* 0 would mean: as configured */
}

void run_start(struct door_call *call)
{
    bool wants_events = rest_wants_events(call->http);
    struct waiting *waiting;
    struct run_spec spec;
    struct error err = {0};

    read_spec(call->body, &spec);
    spec.caller = &call->caller;
    spec.tenant = call->caller.who.tenant;
    if (!check(call, &spec) || !rest_take_settings(call))
        return;
    waiting = malloc(sizeof(*waiting));
    if (!waiting) {
        front_fail_memory(call->http);
        return;
    }
    *waiting = (struct waiting){.http = call->http,
                                .body = json_incref(call->body),
                                .stream = {.http = call->http,
                                           .text = BUF_INIT(TEXT_MAX),
                                           .fill = on_fill,
                                           .freed = on_freed,
                                           .ctx = waiting}};
    spec.sink = wants_events ? on_output : NULL;
    if (session_manager_run(call->front->manager, &spec, wants_events ? on_exit_event : on_done,
                            waiting, &waiting->run, &err) < 0) {
        front_fail(call->front, call->http, &err, NULL);
        waiting_free(waiting);
    } else if (wants_events) {
        start_events(waiting);
    } else {
        http_on_gone(call->http, on_gone, waiting);
    }
}

void run_stop(struct door_call *call)
{
    const char *id = http_param(call->http, "execution");
    struct run *run = session_manager_run_find(call->front->manager, id);
    const char *tenant = auth_tenant(&call->caller.who);
    struct error err = {0};

    if (!run || (tenant && !str_equal(session_manager_run_tenant(run), tenant))) {
        error_set(&err, -ENOENT, ERROR_EXECUTION_NOT_FOUND, "no run '%.60s' is under way", id);
        front_fail(call->front, call->http, &err, NULL);
        return;
    }
    session_manager_run_stop(run);
    front_reply(call->http, 202, json_object());
}
