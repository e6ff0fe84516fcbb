/* sandbox.c - a session of a server: its life, what runs in it, its files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "lib/lib_private.h"

#define TARGET_MAX 16384

static int out_of_memory(struct bailey_error *told)
{
    struct error err = {0};

    error_memory(&err);
    return errors_tell(told, &err);
}

void bailey_sandbox_free(bailey_sandbox *sandbox)
{
    if (!sandbox)
        return;
    free(sandbox->id);
    free(sandbox->path);
    free(sandbox);
}

const char *bailey_sandbox_id(const bailey_sandbox *sandbox)
{
    return sandbox ? sandbox->id : NULL;
}

static int make_handle(struct bailey_engine *engine, const char *reply, bailey_sandbox **ret,
                       struct bailey_error *told)
{
    json_t *json = json_loads(reply, 0, NULL);
    const char *id = json_string_value(json_object_get(json, "id"));
    struct bailey_sandbox *sandbox = id ? calloc(1, sizeof(*sandbox)) : NULL;
    struct error err = {0};

    if (sandbox) {
        sandbox->engine = engine;
        sandbox->id = strdup(id);
        if (asprintf(&sandbox->path, "/v1/sessions/%s", id) < 0)
            sandbox->path = NULL;
    }
    json_decref(json);
    if (sandbox && sandbox->id && sandbox->path) {
        *ret = sandbox;
        return 0;
    }
    bailey_sandbox_free(sandbox);
    if (id)
        return out_of_memory(told);
    error_set(&err, -EPROTO, ERROR_ENGINE, "the server's answer has no id of a session");
    return errors_tell(told, &err);
}

/* As a request has it: the time of each execution is one of the limits there. */
static char *settings_text(const bailey_spec *settings)
{
    json_t *json = json_deep_copy(settings->json);
    json_t *timeout = json_object_get(json, "timeout"), *limits;
    char *text;

    if (timeout) {
        limits = json_object_get(json, "limits");
        if (!limits) {
            json_object_set_new(json, "limits", json_object());
            limits = json_object_get(json, "limits");
        }
        json_object_set(limits, "timeout", timeout);
        json_object_del(json, "timeout");
    }
    text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(json);
    return text;
}

int bailey_sandbox_new(bailey_engine *engine, const bailey_spec *settings, bailey_sandbox **ret,
                       struct bailey_error *err)
{
    CLEANUP(freep) char *body = NULL;
    CLEANUP(freep) char *reply = NULL;
    int r;

    if (!ret)
        return errors_of_null("ret", err);
    if (settings && settings->err.num < 0)
        return errors_tell(err, &settings->err);
    body = settings ? settings_text(settings) : strdup("{}");
    if (!body)
        return out_of_memory(err);
    r = bailey_call(engine, "POST", "/v1/sessions", body, &reply, NULL, err);
    return r < 0 ? r : make_handle(engine, reply, ret, err);
}

/* "PATH?path=FILE", or "PATH/ID". */
static int target(struct buf *to, const char *path, const char *between, const char *value)
{
    int r = buf_printf(to, "%s%s", path, between);

    return r < 0 ? r : http_encode(to, value);
}

int bailey_sandbox_connect(bailey_engine *engine, const char *id, bailey_sandbox **ret,
                           struct bailey_error *err)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(TARGET_MAX);
    CLEANUP(freep) char *reply = NULL;
    int r;

    if (!id || !id[0] || !ret)
        return errors_of_null(!ret ? "ret" : "the sandbox's id or name", err);
    if (target(&path, "/v1/sessions", "/", id) < 0)
        return out_of_memory(err);
    r = bailey_call(engine, "GET", buf_text(&path), NULL, &reply, NULL, err);
    return r < 0 ? r : make_handle(engine, reply, ret, err);
}

int bailey_sandbox_end(bailey_sandbox *sandbox, struct bailey_error *err)
{
    int r;

    if (!sandbox)
        return 0;
    r = bailey_call(sandbox->engine, "DELETE", sandbox->path, NULL, NULL, NULL, err);
    bailey_sandbox_free(sandbox);
    return r;
}

/* ---- running ---- */

static int start(struct bailey_sandbox *sandbox, const struct bailey_spec *spec,
                 struct bailey_job **ret, struct error *err)
{
    CLEANUP(freep) char *text = NULL;
    CLEANUP(freep) char *path = NULL;
    bool is_program = spec_has(spec, "argv");
    int r = spec_text(spec, &text, err);

    if (r < 0)
        return r;
    if (spec_has(spec, "files") || spec_has(spec, "out"))
        return error_set(err, -ENOTSUP, ERROR_BAD_INPUT,
                         "bailey_spec_file() and bailey_spec_out() are for boxes made here; in a "
                         "sandbox use bailey_sandbox_write() and bailey_sandbox_read()");
    if (asprintf(&path, "%s/%s", sandbox->path, is_program ? "exec" : "code") < 0) {
        path = NULL;
        return error_memory(err);
    }
    return job_start(sandbox->engine,
                     &(struct job_spec){.method = "POST",
                                        .path = path,
                                        .body = text,
                                        .body_length = strlen(text),
                                        .is_json = true,
                                        .has_events = true,
                                        .signal_path = is_program ? sandbox->path : NULL,
                                        .on_output = spec->on_output,
                                        .ctx = spec->ctx},
                     ret, err);
}

int bailey_sandbox_start(bailey_sandbox *sandbox, const bailey_spec *spec, bailey_job **ret,
                         struct bailey_error *told)
{
    struct error err = {0};

    if (!sandbox || !spec || !ret)
        return errors_of_null(!sandbox ? "the sandbox" : !spec ? "the description" : "ret", told);
    return start(sandbox, spec, ret, &err) < 0 ? errors_tell(told, &err) : 0;
}

int bailey_sandbox_run(bailey_sandbox *sandbox, const bailey_spec *spec, bailey_result **ret,
                       struct bailey_error *err)
{
    bailey_job *job = NULL;
    int r = bailey_sandbox_start(sandbox, spec, &job, err);

    if (r == 0)
        r = bailey_job_wait(job, NULL, err);
    if (r == 0 && ret)
        *ret = ptr_take(&job->result);
    bailey_job_free(job);
    return r;
}

int bailey_sandbox_run_code(bailey_sandbox *sandbox, const char *language, const char *code,
                            bailey_result **ret, struct bailey_error *err)
{
    bailey_spec *spec = bailey_spec_new();
    int r;

    if (!spec)
        return out_of_memory(err);
    bailey_spec_code(spec, language, code, code ? strlen(code) : 0);
    r = bailey_sandbox_run(sandbox, spec, ret, err);
    bailey_spec_free(spec);
    return r;
}

/* ---- files ---- */

static int file_call(struct bailey_sandbox *sandbox, const char *method, const char *file,
                     const void *data, size_t length, struct bailey_job **ret,
                     struct bailey_error *err)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(TARGET_MAX);
    CLEANUP(buf_free) struct buf whole = BUF_INIT(TARGET_MAX);

    if (!sandbox || !file)
        return errors_of_null(!sandbox ? "the sandbox" : "the path", err);
    if (buf_printf(&whole, "%s%s", file[0] == '/' ? "" : "/workspace/", file) < 0 ||
        target(&path, sandbox->path, "/files?path=", buf_text(&whole)) < 0)
        return out_of_memory(err);
    return job_call(
        sandbox->engine,
        &(struct job_spec){
            .method = method, .path = buf_text(&path), .body = data, .body_length = length},
        ret, err);
}

int bailey_sandbox_write(bailey_sandbox *sandbox, const char *path, const void *data, size_t length,
                         struct bailey_error *err)
{
    bailey_job *job = NULL;
    int r = file_call(sandbox, "PUT", path, data ? data : "", length, &job, err);

    bailey_job_free(job);
    return r;
}

int bailey_sandbox_read(bailey_sandbox *sandbox, const char *path, char **ret_data,
                        size_t *ret_length, struct bailey_error *err)
{
    bailey_job *job = NULL;
    int r = file_call(sandbox, "GET", path, NULL, 0, &job, err);

    if (r == 0)
        r = job_reply(job, ret_data, ret_length, err);
    bailey_job_free(job);
    return r;
}
