/*
 * job.c - one exchange with a server or with the maker of a box: what is sent, the events that come
 * back, and how it ends.
 *
 * Both answer a run with the same server-sent events, so that all but the transport is here once.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "lib/lib_private.h"

/* ---- events ---- */

static void take_output(struct bailey_job *job, int stream, json_t *event)
{
    json_t *value = json_object_get(event, "data");
    const char *data = json_string_value(value);
    size_t length = json_string_length(value);
    CLEANUP(buf_free) struct buf decoded = BUF_INIT(LIB_REPLY_MAX);

    if (!data || !job->on_output)
        return;
    if (str_equal(json_string_value(json_object_get(event, "encoding")), "base64")) {
        if (base64_decode(data, length, &decoded) < 0)
            return;
        data = buf_text(&decoded);
        length = decoded.length;
    }
    job->on_output(job->ctx, stream, data, length);
}

static void take_result(struct bailey_job *job, json_t *json)
{
    json_t *error = json_object_get(json_object_get(json, "meta"), "error");

    bailey_result_free(job->result);
    job->result = result_take(json_incref(json));
    if (!job->result)
        errors_tell(&job->err, &(struct error){.num = -ENOMEM, .text = "out of memory"});
    else if (json_is_object(error))
        errors_of_json(&job->err, 0, 0, error);
}

static void on_event(void *ctx, const char *id, const char *event, const char *data, size_t length)
{
    struct bailey_job *job = ctx;
    json_t *json = json_loadb(data, length, JSON_ALLOW_NUL, NULL);

    (void)id;
    if (str_equal(event, "stdout") || str_equal(event, "stderr"))
        take_output(job, str_equal(event, "stdout") ? 1 : 2, json);
    else if (str_equal(event, "exit") && json_is_object(json))
        take_result(job, json);
    else if (str_equal(event, "closed") && json_is_object(json))
        errors_of_json(&job->err, job->http_status, 0, json);
    json_decref(json);
}

int job_take(struct bailey_job *job, const void *data, size_t length)
{
    int r = job->is_stream ? sse_read(&job->events, data, length, on_event, job)
                           : buf_append(&job->reply, data, length);

    if (r < 0)
        job->broken = r;
    return r;
}

/* ---- the end ---- */

static void read_reply(struct bailey_job *job)
{
    bool is_refused = job->http_status >= 400;
    json_t *json = NULL;

    if (!is_refused && !job->has_events)
        return;
    json = json_loadb(buf_text(&job->reply), job->reply.length, JSON_ALLOW_NUL, NULL);
    if (is_refused)
        errors_of_json(&job->err, job->http_status, job->retry_s, json_object_get(json, "error"));
    else if (json_is_object(json) && !job->is_stream)
        take_result(job, json);
    json_decref(json);
}

static void end_without_result(struct bailey_job *job)
{
    struct error err = {0};

    if (job->is_stream)
        error_set(&err, -EPIPE, ERROR_BOX_LOST, "the answer ended before the result");
    else
        error_set(&err, -EPROTO, ERROR_ENGINE,
                  "'%.300s' answered %u without a result; is this the address of a Bailey server?",
                  job->engine->server ? job->engine->server : "", job->http_status);
    errors_tell(&job->err, &err);
}

static void unlink_job(struct bailey_job *job)
{
    struct bailey_job **at = &job->engine->jobs;

    while (*at && *at != job)
        at = &(*at)->next;
    if (*at)
        *at = job->next;
}

static void tell_cancelled(struct bailey_job *job)
{
    struct error err = {0};

    error_set(&err, -ECANCELED, ERROR_CANCELLED, "the run was ended by its caller");
    errors_tell(&job->err, &err);
}

void job_end(struct bailey_job *job, const struct error *err)
{
    if (job->is_done)
        return;
    job->is_done = true;
    unlink_job(job);
    if (err->num < 0 && job->broken == -EFBIG)
        errors_tell(&job->err, &(struct error){.num = -EFBIG,
                                               .code = ERROR_TOO_LARGE,
                                               .text = "the reply has more than 256 MB, "
                                                       "which is the most that is kept"});
    else if (err->num < 0 && !job->result && job->engine->server)
        errors_of_connection(&job->err, err, job->engine->server);
    else if (err->num < 0 && !job->result)
        errors_tell(&job->err, err);
    else
        read_reply(job);
    if (job->is_cancelled)
        tell_cancelled(job);
    else if (job->has_events && !job->result && job->err.number == 0)
        end_without_result(job);
    local_drop(job);
}

/* ---- over a server ---- */

static void on_status(void *ctx, unsigned status)
{
    struct bailey_job *job = ctx;
    const char *type = http_call_header(job->exchange, "Content-Type");
    const char *execution = http_call_header(job->exchange, "Bailey-Execution");
    const char *retry = http_call_header(job->exchange, "Retry-After");
    uint64_t seconds;

    job->http_status = status;
    job->is_stream = job->has_events && type && strncasecmp(type, "text/event-stream", 17) == 0;
    if (execution)
        str_copy(job->execution, sizeof(job->execution), execution);
    if (retry && str_to_u64(retry, &seconds) == 0)
        job->retry_s = (unsigned)seconds;
}

static int on_data(void *ctx, const void *data, size_t length)
{
    return job_take(ctx, data, length);
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct bailey_job *job = ctx;

    (void)status;
    job->exchange = NULL; /* the client frees it */
    job_end(job, err);
}

static const struct http_call_events call_events = {
    .status = on_status, .data = on_data, .done = on_done};

static int server_start(struct bailey_job *job, const struct job_spec *spec, struct error *err)
{
    char id[ID_MAX], key[ID_MAX + 32];
    const char *headers[5];
    size_t count = 0;
    bool is_post = str_equal(spec->method, "POST");
    struct http_call call = {
        .method = spec->method,
        .path = spec->path,
        .headers = headers,
        .body = spec->body,
        .body_length = spec->body_length,
        .may_repeat = true, /* a POST because of its key */
    };

    if (is_post && id_make(id, "c") == 0 &&
        str_format(key, sizeof(key), "Idempotency-Key: %s", id) == 0)
        headers[count++] = key;
    else
        call.may_repeat = !is_post;
    if (spec->is_json)
        headers[count++] = "Content-Type: application/json";
    if (spec->has_events && spec->on_output)
        headers[count++] = "Accept: text/event-stream";
    if (job->engine->settings && (is_post || str_equal(spec->method, "PUT")))
        headers[count++] = job->engine->settings;
    headers[count] = NULL;
    return http_call_start(job->engine->client, &call, &call_events, job, &job->exchange, err);
}

/* ---- any job ---- */

int job_start(struct bailey_engine *engine, const struct job_spec *spec, struct bailey_job **ret,
              struct error *err)
{
    struct bailey_job *job = calloc(1, sizeof(*job));
    int r;

    if (!job)
        return error_memory(err);
    *job = (struct bailey_job){.engine = engine,
                               .on_output = spec->on_output,
                               .ctx = spec->ctx,
                               .has_events = spec->has_events,
                               .events = SSE_READER_INIT(LIB_REPLY_MAX),
                               .reply = BUF_INIT(LIB_REPLY_MAX),
                               .request = BUF_INIT(LIB_REPLY_MAX),
                               .fd = -1,
                               .pid_fd = -1};
    if (spec->signal_path && !(job->signal_path = strdup(spec->signal_path))) {
        bailey_job_free(job);
        return error_memory(err);
    }
    job->next = engine->jobs;
    engine->jobs = job;
    r = engine->client ? server_start(job, spec, err) : local_start(job, spec, err);
    if (r < 0) {
        bailey_job_free(job);
        return r;
    }
    *ret = job;
    return 0;
}

int job_wait(struct bailey_job *job)
{
    while (!job->is_done) {
        int r = turner_turn(job->engine->turner, -1);

        if (r < 0)
            return r;
    }
    return 0;
}

int job_call(struct bailey_engine *engine, const struct job_spec *spec, struct bailey_job **ret,
             struct bailey_error *told)
{
    struct error err = {0};
    int r = job_start(engine, spec, ret, &err);

    if (r < 0)
        return errors_tell(told, &err);
    r = job_wait(*ret);
    if (r < 0)
        return job_wait_failed(r, told);
    if ((*ret)->err.number < 0 && told)
        *told = (*ret)->err;
    return (*ret)->err.number;
}

int job_reply(struct bailey_job *job, char **ret_data, size_t *ret_length,
              struct bailey_error *told)
{
    struct error err = {0};
    char *data;

    if (ret_length)
        *ret_length = job->reply.length;
    if (!ret_data)
        return 0;
    data = job->reply.data ? ptr_take(&job->reply.data) : calloc(1, 1);
    if (!data) {
        error_memory(&err);
        return errors_tell(told, &err);
    }
    buf_free(&job->reply);
    *ret_data = data;
    return 0;
}

/* What waiting failed with, in words that say what to do. */
int job_wait_failed(int num, struct bailey_error *told)
{
    struct error err = {0};

    if (num == -EDEADLK)
        error_set(&err, num, ERROR_BAD_INPUT,
                  "a callback of this engine cannot wait; start a job there, or wait after it "
                  "has returned");
    else
        error_set(&err, num, ERROR_ENGINE, "waiting for events: %s", strerror(-num));
    return errors_tell(told, &err);
}

int bailey_job_is_done(const bailey_job *job)
{
    return !job || job->is_done;
}

int bailey_job_wait(bailey_job *job, const bailey_result **ret, struct bailey_error *told)
{
    int r = job ? job_wait(job) : 0;

    if (!job)
        return errors_of_null("the job", told);
    if (r < 0)
        return job_wait_failed(r, told);
    if (job->err.number < 0) {
        if (told)
            *told = job->err;
        return job->err.number;
    }
    if (ret)
        *ret = job->result;
    return 0;
}

const bailey_result *bailey_job_result(const bailey_job *job)
{
    return job ? job->result : NULL;
}

/* Its result still comes, as that of a program that was killed. */
static bool kill_command(struct bailey_job *job)
{
    static const char body[] = "{\"signal\":\"SIGKILL\"}";
    static const struct http_call_events no_events = {0};
    const char *headers[] = {"Content-Type: application/json", NULL};
    char path[256];
    struct http_call call = {.method = "POST",
                             .path = path,
                             .headers = headers,
                             .body = body,
                             .body_length = sizeof(body) - 1};

    return job->signal_path && job->execution[0] &&
           str_format(path, sizeof(path), "%s/processes/%s/signal", job->signal_path,
                      job->execution) == 0 &&
           http_call_start(job->engine->client, &call, &no_events, NULL, NULL, NULL) == 0;
}

/* The server ends what only this connection waits for, so it is closed at once. */
static void end_exchange(struct bailey_job *job)
{
    http_call_cancel(job->exchange);
    job->exchange = NULL;
    http_client_drop(job->engine->client);
}

void bailey_job_cancel(bailey_job *job)
{
    if (!job || job->is_done || job->is_cancelled)
        return;
    job->is_cancelled = true;
    if (!job->engine->client) {
        local_cancel(job);
    } else if (!kill_command(job)) {
        end_exchange(job);
        job_end(job, &(struct error){.num = -ECANCELED});
    }
}

void bailey_job_free(bailey_job *job)
{
    if (!job)
        return;
    if (!job->is_done && job->exchange)
        end_exchange(job);
    unlink_job(job);
    local_drop(job);
    bailey_result_free(job->result);
    sse_reader_free(&job->events);
    buf_free(&job->reply);
    buf_free(&job->request);
    free(job->signal_path);
    free(job);
}
