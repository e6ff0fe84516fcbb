/* bailey.c - where code runs: opening, closing, turning, and one-shot runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "lib/lib_private.h"

const char *bailey_version(void)
{
    return BAILEY_VERSION;
}

void bailey_free(void *data)
{
    free(data);
}

static int open_with(struct bailey_engine **ret, struct error *err,
                     int (*open)(struct bailey_engine *, const void *, struct error *),
                     const void *ctx)
{
    struct bailey_engine *engine = calloc(1, sizeof(*engine));
    int r;

    if (!engine)
        return error_memory(err);
    engine->program_fd = -1;
    r = turner_new(&engine->turner, err);
    if (r == 0)
        r = open(engine, ctx, err);
    if (r < 0) {
        bailey_close(engine);
        return r;
    }
    *ret = engine;
    return 0;
}

struct server {
    const char *url, *key;
};

static int open_server(struct bailey_engine *engine, const void *ctx, struct error *err)
{
    const struct server *server = ctx;
    CLEANUP(freep) char *found = NULL;
    struct http_place place = {
        .address = server->url, .key = server->key, .reactor = turner_reactor(engine->turner)};

    if (!place.address) {
        place.address = env_text(environ, "BAILEY_URL");
        if (!place.key)
            place.key = env_text(environ, "BAILEY_API_KEY");
    }
    if (!place.address) {
        int r = place_find(&found, err);

        if (r < 0)
            return r;
        place.address = found;
    }
    engine->server = strdup(place.address);
    if (!engine->server)
        return error_memory(err);
    if (settings_line(!found, str_starts(place.address, "unix://"), &engine->settings, err) < 0)
        return err->num;
    return http_client_open_at(&place, &engine->client, err);
}

int bailey_open(bailey_engine **ret, const char *url, const char *key, struct bailey_error *told)
{
    struct error err = {0};
    int r = 0;

    if (!ret)
        return errors_of_null("ret", told);
    r = open_with(ret, &err, open_server, &(struct server){url, key});
    return r < 0 ? errors_tell(told, &err) : 0;
}

static int open_here(struct bailey_engine *engine, const void *ctx, struct error *err)
{
    (void)ctx;
    return local_program(&engine->program_fd, err);
}

int bailey_open_local(bailey_engine **ret, struct bailey_error *told)
{
    struct error err = {0};
    int r = 0;

    if (!ret)
        return errors_of_null("ret", told);
    r = open_with(ret, &err, open_here, NULL);
    return r < 0 ? errors_tell(told, &err) : 0;
}

void bailey_close(bailey_engine *engine)
{
    if (!engine)
        return;
    while (engine->jobs)
        bailey_job_free(engine->jobs);
    http_client_close(engine->client);
    turner_free(engine->turner);
    fd_closep(&engine->program_fd);
    free(engine->server);
    free(engine->settings);
    free(engine);
}

int bailey_fd(const bailey_engine *engine)
{
    if (!engine)
        return -EINVAL;
    return turner_fd(engine->turner);
}

int bailey_step(bailey_engine *engine, int timeout_ms, struct bailey_error *told)
{
    int count = 0, r;

    if (!engine)
        return errors_of_null("the engine", told);
    r = turner_turn(engine->turner, engine->jobs ? timeout_ms : 0); /* else there is no end */
    if (r < 0)
        return job_wait_failed(r, told);
    for (const struct bailey_job *job = engine->jobs; job; job = job->next)
        count++;
    return count;
}

/* What one of both ways cannot do is said here, by the name of the function that asked for it. */
static int check(const struct bailey_engine *engine, const struct bailey_spec *spec,
                 struct error *err)
{
    bool is_local = !engine->client;
    const char *what = NULL;

    if (is_local && (spec_has(spec, "cwd") || spec_has(spec, "context")))
        what = "'cwd' and 'context' are settings for a sandbox of a server";
    else if (is_local && (spec_has(spec, "idle_timeout_s") || spec_has(spec, "max_age_s")))
        what = "'idle_timeout' and 'max_age' are settings of a sandbox";
    else if (!is_local && (spec_has(spec, "files") || spec_has(spec, "out")))
        what = "bailey_spec_file() and bailey_spec_out() are for boxes made here; in a sandbox use "
               "bailey_sandbox_write() and bailey_sandbox_read()";
    else if (!is_local && spec_has(spec, "argv"))
        what = "a server runs programs in sandboxes only: bailey_sandbox_run()";
    return what ? error_set(err, -ENOTSUP, ERROR_BAD_INPUT, "%s", what) : 0;
}

static int start(struct bailey_engine *engine, const struct bailey_spec *spec,
                 struct bailey_job **ret, struct error *err)
{
    CLEANUP(freep) char *text = NULL;
    int r = spec_text(spec, &text, err);

    if (r == 0)
        r = check(engine, spec, err);
    if (r < 0)
        return r;
    return job_start(engine,
                     &(struct job_spec){.method = "POST",
                                        .path = "/v1/run",
                                        .body = text,
                                        .body_length = strlen(text),
                                        .is_json = true,
                                        .has_events = true,
                                        .on_output = spec->on_output,
                                        .ctx = spec->ctx},
                     ret, err);
}

int bailey_start(bailey_engine *engine, const bailey_spec *spec, bailey_job **ret,
                 struct bailey_error *told)
{
    struct error err = {0};

    if (!engine || !spec || !ret)
        return errors_of_null(!engine ? "the engine" : !spec ? "the description" : "ret", told);
    return start(engine, spec, ret, &err) < 0 ? errors_tell(told, &err) : 0;
}

int bailey_run(bailey_engine *engine, const bailey_spec *spec, bailey_result **ret,
               struct bailey_error *err)
{
    bailey_job *job = NULL;
    int r = bailey_start(engine, spec, &job, err);

    if (r == 0)
        r = bailey_job_wait(job, NULL, err);
    if (r == 0 && ret)
        *ret = ptr_take(&job->result);
    bailey_job_free(job);
    return r;
}

int bailey_run_code(bailey_engine *engine, const char *language, const char *code,
                    bailey_result **ret, struct bailey_error *err)
{
    bailey_spec *spec = bailey_spec_new();
    int r;

    if (!spec)
        return errors_tell(err, &(struct error){.num = -ENOMEM, .text = "out of memory"});
    bailey_spec_code(spec, language, code, code ? strlen(code) : 0);
    r = bailey_run(engine, spec, ret, err);
    bailey_spec_free(spec);
    return r;
}

int bailey_call(bailey_engine *engine, const char *method, const char *path, const char *json,
                char **ret_data, size_t *ret_length, struct bailey_error *told)
{
    bailey_job *job = NULL;
    struct error err = {0};
    int r;

    if (!engine || !method || !path)
        return errors_of_null(!engine ? "the engine" : !method ? "the method" : "the path", told);
    if (!engine->client) {
        error_set(&err, -ENOTSUP, ERROR_BAD_INPUT,
                  "sandboxes and calls need a server, and this engine makes boxes here: "
                  "bailey_open()");
        return errors_tell(told, &err);
    }
    r = job_call(engine,
                 &(struct job_spec){.method = method,
                                    .path = path,
                                    .body = json,
                                    .body_length = json ? strlen(json) : 0,
                                    .is_json = json},
                 &job, told);
    if (r == 0)
        r = job_reply(job, ret_data, ret_length, told);
    bailey_job_free(job);
    return r;
}
