/*
 * start.c - POST /execute: admits the caller, starts the run, and replies when it has ended.
 *
 * The status is 200 however the code ended. A call that could not begin for a reason of the caller
 * (bad input, no key, too many at once) is an HTTP error.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/execute/execute.h"
#include "api/front/reply.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/schema.h"

#define OPEN_TENANT "open" /* tenant of callers without a key, where they are allowed */
#define RETRY_S 1

struct calling {
    struct execute *execute;
    struct http_request *http;
    struct run *run;
    const char *language; /* static */
    json_t *files;        /* name to base64 */
    bool is_cut;          /* a file could not be returned */
};

static void calling_free(struct calling *calling)
{
    calling->execute->count--;
    json_decref(calling->files);
    free(calling);
}

/* ---- the reply ---- */

/* A name or content that does not fit into JSON is left out, and is_cut is set. */
static void on_fetched(void *ctx, const char *name, const void *data, size_t length)
{
    struct calling *calling = ctx;
    CLEANUP(buf_free) struct buf text = BUF_INIT(2 * LIMIT_OUTPUT_MAX);

    if (base64_encode(data, length, &text) < 0 ||
        json_object_set_new(calling->files, name,
                            json_stringn_nocheck(buf_text(&text), text.length)) < 0)
        calling->is_cut = true;
}

/* The files listed in the result are those that were not fetched. */
static bool is_cut(const struct calling *calling, const struct result *result)
{
    return calling->is_cut || result->out.is_truncated || result->err.is_truncated ||
           result->file_count > 0;
}

/*
 * A program without an exit status has -1, and stderr says why; the note about a timeout is there
 * only if stderr is empty.
 */
static void explain(struct result *result)
{
    if (result->timed_out && result->err.kept.length > 0)
        buf_clear(&result->note);
    if (result->timed_out || result->error.code)
        result->exit_code = -1;
}

static json_t *answer(const struct calling *calling, struct result *result)
{
    CLEANUP(json_decrefp) json_t *whole = NULL;
    json_t *reply;

    explain(result);
    whole = result_to_json(result);
    reply = whole ? json_pack("{s:s, s:O, s:O, s:i, s:I, s:s, s:b, s:O}", "status",
                              result->exit_code == 0 ? "success" : "error", "stdout",
                              json_object_get(whole, "stdout"), "stderr",
                              json_object_get(whole, "stderr"), "exit_code", result->exit_code,
                              "execution_time_ms", (json_int_t)(result->duration_ns / 1000000),
                              "language", calling->language, "truncated", is_cut(calling, result),
                              "meta", json_object_get(whole, "meta"))
                  : NULL;
    if (reply && json_object_size(calling->files) > 0 &&
        json_object_set(reply, "files_produced", calling->files) < 0) {
        json_decref(reply);
        return NULL;
    }
    return reply;
}

static void on_done(void *ctx, struct result *result)
{
    struct calling *calling = ctx;
    struct http_request *http = calling->http;
    json_t *reply = answer(calling, result);

    result_free(result);
    calling_free(calling);
    execute_reply(http, 200, NULL, reply);
}

static void on_gone(void *ctx)
{
    struct calling *calling = ctx;

    session_manager_run_cancel(calling->run);
    calling_free(calling);
}

/* ---- the request ---- */

/* Without a key only where the configuration allows it, and then only for this door. */
int execute_admit(struct door_call *call, struct error *err)
{
    bool has_key = http_header(call->http, "Authorization") || http_header(call->http, "X-API-Key");

    if (call->route->is_open) {
        auth_enter(call->http, &call->caller.who);
        return 0;
    }
    if (http_is_local(call->http) || has_key ||
        !session_manager_config(call->front->manager)->execute_is_open)
        return auth_admit(&call->front->auth, call->http, SCOPE_RUN, &call->caller.who, err);
    call->caller.who = (struct principal){.tenant = OPEN_TENANT, .scopes = SCOPE_BIT(SCOPE_RUN)};
    return auth_admit_as(&call->front->auth, call->http, &call->caller.who, err);
}

void execute_refuse(struct door_call *call, const struct error *err)
{
    static const struct {
        const char *code;
        unsigned status;
    } rows[] = {
        {ERROR_BAD_JSON, 400},           {ERROR_BAD_INPUT, 400},
        {ERROR_NO_INTERPRETER, 400},     {ERROR_SETTING_DIFFERS, 400},
        {ERROR_TEMPLATE_NOT_FOUND, 400}, {ERROR_TEMPLATE_NOT_BUILT, 400},
        {ERROR_TOO_LARGE, 413},          {ERROR_UNAUTHORIZED, 401},
        {ERROR_FORBIDDEN, 403},          {ERROR_QUOTA, 429},
        {ERROR_TOO_MANY_SESSIONS, 429},  {ERROR_BUSY, 429},
        {ERROR_MEDIA_TYPE, 415},
    };
    const char *header = NULL;
    char retry[64];
    unsigned status = 500;

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_equal(rows[i].code, err->code))
            status = rows[i].status;
    front_denied(call->front, call->http, err);
    if (status == 429) {
        str_format(retry, sizeof(retry), "Retry-After: %u",
                   err->retry_s > 0 ? err->retry_s : RETRY_S);
        header = retry;
    } else if (status == 401) {
        header = "WWW-Authenticate: Bearer realm=\"bailey\"";
    }
    execute_fail(call->http, status, header, err->code ? err->code : ERROR_ENGINE, err->text);
}

/*
 * The run did not begin because the installation failed, which is not an error of the request: a
 * normal reply with 200.
 */
static bool is_install_trouble(const struct error *err)
{
    return str_equal(err->code, ERROR_INSTALL_DENIED) ||
           str_equal(err->code, ERROR_INSTALL_FAILED) || str_equal(err->code, ERROR_NO_NETWORK);
}

static int begin(struct calling *calling, const struct door_call *call,
                 const struct execute_order *order, struct error *err)
{
    const struct config *config = session_manager_config(call->front->manager);
    struct run_spec spec = {
        .caller = &call->caller,
        .language = order->language,
        .tenant = call->caller.who.tenant,
        .name = execute_script(order->language),
        .code = order->code,
        .code_length = order->code_length,
        .timeout_ms = order->timeout_ms,
        .files = order->files,
        .file_count = order->file_count,
        .requirements = order->requirements,
        .output_bytes = config->execute_output_bytes,
        .fetched = on_fetched,
        .fetch_bytes = config->execute_output_bytes,
    };
    CLEANUP(json_decrefp) json_t *env = json_pack("{s:s}", "OUTPUT_DIR", "/tmp/output");

    spec.env = env;
    calling->files = json_object();
    if (!env || !calling->files)
        return error_memory(err);
    return session_manager_run(call->front->manager, &spec, on_done, calling, &calling->run, err);
}

static void start(struct door_call *call, const struct execute_order *order)
{
    struct execute *execute = call->door;
    struct calling *calling = calloc(1, sizeof(*calling));
    struct result result;
    struct error err = {0};

    if (!calling) {
        error_memory(&err);
        execute_refuse(call, &err);
        return;
    }
    *calling =
        (struct calling){.execute = execute, .http = call->http, .language = order->language};
    execute->count++;
    if (begin(calling, call, order, &err) == 0) {
        http_on_gone(call->http, on_gone, calling);
        return;
    }
    if (is_install_trouble(&err)) {
        front_denied(call->front, call->http, &err);
        result_init(&result, &session_manager_config(call->front->manager)->limits);
        result.runtime = session_manager_config(call->front->manager)->type;
        result.error = err;
        id_make(result.execution_id, "exec");
        on_done(calling, &result);
        return;
    }
    calling_free(calling);
    execute_refuse(call, &err);
}

static bool is_enabled(const struct config *config, const char *language)
{
    for (size_t i = 0; i < strv_length(config->languages); i++)
        if (str_equal(config->languages[i], language))
            return true;
    return false;
}

/* Accepts text, too: fetch() sends it by default, and the original API ignored the type. */
static int check_type(const struct http_request *http, struct error *err)
{
    const char *type = http_header(http, "Content-Type");

    if (front_is_json_type(type) || strncasecmp(type, "text/plain", strlen("text/plain")) == 0)
        return 0;
    return error_set(err, -EINVAL, ERROR_MEDIA_TYPE,
                     "Content-Type: the body has to be JSON: send it as " TYPE_JSON);
}

void execute_start(struct door_call *call)
{
    const struct execute *execute = call->door;
    const struct config *config = session_manager_config(call->front->manager);
    CLEANUP(execute_order_free) struct execute_order order = {0};
    struct schema_problem problem = {0};
    struct error err = {0};
    int r = check_type(call->http, &err);
    json_t *body = r == 0 ? front_body_json(call->http, &problem) : NULL;

    http_body_drop(call->http);
    if (r == 0)
        r = execute_order_take(body, &problem.err, &order, &err);
    if (r == 0 && !is_enabled(config, order.language))
        r = error_set(&err, -EINVAL, ERROR_BAD_INPUT,
                      "language: %s is switched off here (SANDBOX_SUPPORTED_LANGUAGES)",
                      order.language);
    if (r == 0 && execute->count >= config->max_concurrent)
        r = error_set(&err, -EAGAIN, ERROR_BUSY,
                      "%u calls are under way, which is the most at once here "
                      "(SANDBOX_MAX_CONCURRENT): try again",
                      execute->count);
    if (r < 0)
        execute_refuse(call, &err);
    else
        start(call, &order);
}
