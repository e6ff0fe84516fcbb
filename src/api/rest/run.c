/* run.c - POST /v1/run: code in a box of its own, the one result. */
#include <errno.h>
#include <string.h>

#include "api/rest/inside.h"
#include "base/str.h"

struct waiting {
    struct http_request *http;
    struct run *run;
    json_t *body; /* the run may point into it */
};

static void waiting_free(struct waiting *waiting)
{
    json_decref(waiting->body);
    free(waiting);
}

static void on_done(void *ctx, struct result *result)
{
    struct waiting *waiting = ctx;

    rest_reply(waiting->http, 200, result_to_json(result));
    result_free(result);
    waiting_free(waiting);
}

static void on_gone(void *ctx)
{
    struct waiting *waiting = ctx;

    engine_run_cancel(waiting->run);
    waiting_free(waiting);
}

static bool is_enabled(const struct config *config, const char *language)
{
    for (size_t i = 0; i < strv_length(config->languages); i++)
        if (str_equal(config->languages[i], language))
            return true;
    return false;
}

/* What the schema cannot say; false: it was answered. */
static bool check(struct rest_call *call, const char *language)
{
    json_t *code = json_object_get(call->body, "code");
    const char *text = json_string_value(code);
    struct error err = {0};

    if (text[strspn(text, " \t\r\n\f\v")] == '\0') {
        rest_fail_field(call->http, "code", "'code' is empty: there is nothing to run");
        return false;
    }
    if (json_string_length(code) > LIMIT_CODE_BYTES)
        error_set(&err, -EFBIG, ERROR_TOO_LARGE, "'code' is larger than %llu MB",
                  LIMIT_CODE_BYTES / MIB);
    else if (!is_enabled(engine_config(call->rest->engine), language))
        error_set(&err, -EPERM, ERROR_NO_INTERPRETER,
                  "%s is switched off here: it is not among SANDBOX_SUPPORTED_LANGUAGES", language);
    if (err.num < 0)
        rest_fail(call->rest, call->http, &err, NULL);
    return err.num == 0;
}

void run_start(struct rest_call *call)
{
    json_t *code = json_object_get(call->body, "code");
    json_t *input = json_object_get(call->body, "stdin");
    json_t *language = json_object_get(call->body, "language");
    json_t *timeout = json_object_get(call->body, "timeout");
    struct run_spec spec = {
        .template_name = json_string_value(json_object_get(call->body, "template")),
        .language = language ? json_string_value(language) : "python",
        .code = json_string_value(code),
        .code_length = json_string_length(code),
        .env = json_object_get(call->body, "env"),
        .input = json_string_value(input),
        .input_length = input ? json_string_length(input) : 0,
        .timeout_ms = (uint64_t)(json_number_value(timeout) * 1000.0 + 0.5),
    };
    struct waiting *waiting;
    struct error err = {0};

    if (!check(call, spec.language) || !rest_check_env(call->http, spec.env))
        return;
    if (timeout && spec.timeout_ms == 0)
        spec.timeout_ms = 1; /* 0 would mean: as configured */
    waiting = malloc(sizeof(*waiting));
    if (!waiting) {
        rest_fail_memory(call->http);
        return;
    }
    *waiting = (struct waiting){.http = call->http, .body = json_incref(call->body)};
    if (engine_run(call->rest->engine, &spec, on_done, waiting, &waiting->run, &err) < 0) {
        rest_fail(call->rest, call->http, &err, NULL);
        waiting_free(waiting);
        return;
    }
    http_on_gone(call->http, on_gone, waiting);
}
