/*
 * run_remote.c - `bailey run` and `bailey exec` on the server of --url; this machine makes no box.
 *
 * Code alone is one call, POST /v1/run. What that call cannot carry (a program, --file, --out,
 * --stdin) is a session of its own: made, filled, used for one command, emptied, and deleted
 * whatever happened.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/commands.h"
#include "cli/client/cp.h"
#include "cli/client/exec.h"
#include "cli/client/remote.h"
#include "cli/client/report.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/run.h"
#include "cli/run_report.h"
#include "cli/signals.h"
#include "http/sse.h"
#include "model/text.h"

#define EVENT_MAX LIMIT_REPLY_JSON /* the last event contains the whole result */
#define WORKSPACE "/workspace"
#define OUTPUT "/tmp/output"
#define WORDS_MAX (LIMIT_ARGV_COUNT + 4)

/* What is measured or chosen on this machine. */
static int check_options(const struct invocation *invocation, struct error *err)
{
    static const char *const here[] = {"no-daemon", "timing", NULL};

    for (size_t i = 0; here[i]; i++)
        if (option_given(&invocation->parsed, here[i], NULL))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "--%s is about this machine, and --url names a server: leave out one "
                             "of them",
                             here[i]);
    return 0;
}

/* ---- code alone ---- */

struct call {
    struct exec_job *job; /* its client, request, output and signals are used */
    struct http_exchange *exchange;
    struct sse_reader reader;
    struct buf text;  /* the body of the request */
    struct buf reply; /* of an error */
    unsigned status;
    char execution[128];
    json_t *result; /* owned */
    bool is_over;
    struct error err;
};

static void call_free(struct call *call)
{
    if (call->exchange)
        http_call_cancel(call->exchange);
    sse_reader_free(&call->reader);
    buf_free(&call->text);
    buf_free(&call->reply);
    json_decref(call->result);
}

static void take_output(struct call *call, int stream, json_t *event)
{
    CLEANUP(buf_free) struct buf decoded = BUF_INIT(EVENT_MAX);
    json_t *value = json_object_get(event, "data");
    const char *data = json_string_value(value);
    size_t length = json_string_length(value);

    if (call->job->request.is_json || !data)
        return;
    if (str_equal(member_text(event, "encoding"), "base64")) {
        if (base64_decode(data, length, &decoded) < 0)
            return;
        data = buf_text(&decoded);
        length = decoded.length;
    }
    if (output_write(&call->job->output, stream, data, length) < 0 && !call->err.code)
        error_set(&call->err, -ECANCELED, ERROR_CANCELLED, "the reader of the output has gone");
}

static void on_event(void *ctx, const char *id, const char *event, const char *data, size_t length)
{
    struct call *call = ctx;
    CLEANUP(json_freep) json_t *json = json_loadb(data, length, JSON_ALLOW_NUL, NULL);

    (void)id;
    if (call->result || call->err.code || !event)
        return;
    if (!json_is_object(json))
        error_set(&call->err, -EPROTO, ERROR_ENGINE, "the server sent an event that is not JSON");
    else if (str_equal(event, "stdout") || str_equal(event, "stderr"))
        take_output(call, str_equal(event, "stdout") ? 1 : 2, json);
    else if (str_equal(event, "exit"))
        call->result = json_incref(json);
}

static void on_status(void *ctx, unsigned status)
{
    struct call *call = ctx;
    const char *name = http_call_header(call->exchange, "Bailey-Execution");

    call->status = status;
    str_copy(call->execution, sizeof(call->execution), name ? name : "");
}

static int on_data(void *ctx, const void *data, size_t length)
{
    struct call *call = ctx;
    int result;

    if (call->status >= 400)
        return buf_append(&call->reply, data, length) == -ENOMEM ? -ENOMEM : 0;
    result = sse_read(&call->reader, data, length, on_event, call);
    return call->err.code ? -ECANCELED : result;
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct call *call = ctx;

    call->exchange = NULL;
    call->is_over = true;
    if (call->result || call->err.code)
        return;
    if (status >= 400)
        client_api_error(status, buf_text(&call->reply), call->reply.length, &call->err);
    else
        error_set(&call->err, err->num ? err->num : -ECONNRESET, ERROR_NO_DAEMON,
                  "the connection to %.200s was lost in the middle of the run (%.200s): run it "
                  "again",
                  call->job->client.url, err->num ? err->text : "it hung up");
}

/* New reference. What the header of the settings has is not repeated. */
static int code_body(const struct run_source *what, const struct request *request, json_t **ret,
                     struct error *err)
{
    const struct buf *code = &what->source.code;
    CLEANUP(json_freep) json_t *words = NULL;
    CLEANUP(json_freep) json_t *env = NULL;
    json_t *text = json_stringn(buf_text(code), code->length);
    int result = report_words(what->argv, &words, err);

    if (result == 0)
        result = report_env(request->env, &env, err);
    if (result == 0 && !text)
        result = error_set(err, -EINVAL, ERROR_BAD_INPUT,
                           "the source is not UTF-8 text; a server takes nothing else");
    if (result == 0)
        *ret =
            json_pack("{s:O, s:s, s:s*, s:O, s:O}", "code", text, "language", what->language->name,
                      "name", what->source.name, "arguments", words, "env", env);
    json_decref(text);
    return result;
}

static int code_start(struct call *call, const struct run_source *what, struct error *err)
{
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Accept: text/event-stream", NULL};
    static const struct http_call_events events = {
        .status = on_status, .data = on_data, .done = on_done};
    CLEANUP(json_freep) json_t *body = NULL;
    int result = code_body(what, &call->job->request, &body, err);

    if (result == 0 && text_of_json(body, JSON_COMPACT, &call->text) < 0)
        result = error_set(err, -EFBIG, ERROR_TOO_LARGE, "the source is larger than %llu MB",
                           LIMIT_REQUEST_JSON / MIB);
    return result < 0 ? result
                      : http_call_start(call->job->client.http,
                                        &(struct http_call){.method = "POST",
                                                            .path = "/v1/run",
                                                            .headers = headers,
                                                            .body = buf_text(&call->text),
                                                            .body_length = call->text.length,
                                                            .body_total = -1},
                                        &events, call, &call->exchange, err);
}

/* The first signal ends the run and waits for its result; the second one does not wait. */
static void code_watch(struct call *call)
{
    struct exec_job *job = call->job;

    while (!call->is_over) {
        struct pollfd poller = {.fd = job->cancel_fd, .events = POLLIN};
        int result = http_client_wait(job->client.http, &poller, 1, -1);
        int number = poller.revents ? signals_taken(job->cancel_fd) : 0;
        CLEANUP(buf_free) struct buf path = PATH_BUF;
        struct error ignored = {0};

        if (result < 0 && result != -EINTR) {
            error_set(&call->err, result, ERROR_ENGINE, "waiting for the server: %s",
                      strerror(-result));
            return;
        }
        if (!number)
            continue;
        if (!job->signal)
            job->signal = number;
        if (job->interrupts++ > 0 || !call->execution[0] ||
            buf_append_text(&path, "/v1/run/") < 0 || http_encode(&path, call->execution) < 0 ||
            client_call(&job->client, "DELETE", buf_text(&path), NULL, NULL, &ignored) < 0)
            return; /* closing the connection ends it, too */
    }
}

/* ---- the report ---- */

/* `json` NULL: it did not come to a result, err says why. */
static int report(struct exec_job *job, json_t *json, const char *out, const struct error *err)
{
    struct run_report report = {
        .request = &job->request, .output = job->output, .signal = job->signal};
    struct oneshot_extra extra = {0};
    struct error bad = {0};
    struct result result;
    int status;

    result_init(&result, &(struct limits){.output_bytes = LIMIT_OUTPUT_MAX});
    if (json && result_from_json(json, &result, &bad) < 0)
        error_prefix(&bad, "the server's result");
    if (bad.code || (!json && err->code && !job->signal)) {
        result_free(&result);
        return run_refuse_with(&job->request, &job->client.config, bad.code ? &bad : err);
    }
    /* Paths of the server mean nothing here. */
    for (size_t i = 0; i < result.file_count; i++) {
        struct output_file *file = &result.files[i];

        free(file->path);
        file->path = NULL;
        if (out && !file->skipped && asprintf(&file->path, "%s/%s", out, file->name) < 0)
            file->path = NULL;
    }
    status = run_report_print(&report, &result, &extra);
    result_free(&result);
    return status;
}

static int run_code(struct exec_job *job, const struct run_source *what)
{
    CLEANUP(call_free)
    struct call call = {.job = job,
                        .reader = SSE_READER_INIT(EVENT_MAX),
                        .text = BUF_INIT(LIMIT_REQUEST_JSON),
                        .reply = BUF_INIT(MIB)};
    struct error err = {0};

    if (signals_open(&job->cancel_fd, &err) < 0)
        return run_refuse_with(&job->request, &job->client.config, &err);
    output_init(&job->output, job->request.is_raw, job->cancel_fd);
    if (code_start(&call, what, &err) < 0)
        return run_refuse_with(&job->request, &job->client.config, &err);
    code_watch(&call);
    output_finish(&job->output);
    return report(job, call.result, NULL, &call.err);
}

/* ---- a session of its own ---- */

static int session_make(struct client *client, json_t **ret, struct error *err)
{
    const struct config_value *template = &client->config.values[KEY_TEMPLATE];

    return client_call(
        client, "POST", "/v1/sessions",
        json_pack("{s:s*}", "template", template->source == FROM_DEFAULT ? NULL : template->text),
        ret, err);
}

static void session_end(struct client *client, const char *id)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    struct error err = {0};

    if (client_session_path(&path, id, "", &err) < 0 ||
        client_call(client, "DELETE", buf_text(&path), NULL, NULL, &err) < 0)
        message_print("the session %s of this run is still on the server (%s); 'bailey session rm "
                      "%s' ends it",
                      id, err.text, id);
}

/* A path as --file writes it: relative ones are below /workspace. */
static int box_path(const char *session, const char *path, struct path_arg *ret, struct error *err)
{
    size_t length = strlen(path);

    *ret = (struct path_arg){.is_in_box = true, .ends_in_slash = path[length - 1] == '/'};
    str_copy(ret->session, sizeof(ret->session), session);
    if (str_format(ret->path, sizeof(ret->path), "%s%s", path[0] == '/' ? "" : WORKSPACE "/",
                   path) < 0)
        return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT,
                         "--file '%.100s': the path is too "
                         "long",
                         path);
    return 0;
}

static int send_files(struct exec_job *job, const char *session, struct error *err)
{
    struct copy copy = {.client = &job->client, .session = session, .is_quiet = true};
    int result = 0;

    for (size_t i = 0; i < job->request.file_count && result == 0; i++) {
        const struct oneshot_file *file = &job->request.files[i];
        struct path_arg from = {0}, to;

        result = box_path(session, file->box ? file->box : WORKSPACE "/", &to, err);
        if (result == 0 && !str_copy(from.path, sizeof(from.path), file->host))
            result = error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "--file: a path is too long");
        if (result == 0)
            result = copy_up(&copy, &from, &to, err);
    }
    if (result == 0 && copy.skipped > 0)
        message_print("%llu links or special files of --file were not copied",
                      (unsigned long long)copy.skipped);
    return result;
}

/* The source as a file of the session's folder. */
static int send_source(struct exec_job *job, const char *session, const struct run_source *what,
                       const char *name, struct error *err)
{
    CLEANUP(fd_closep) int fd = memfd_create("source", MFD_CLOEXEC);
    CLEANUP(buf_free) struct buf address = PATH_BUF;
    const struct buf *code = &what->source.code;
    char path[LIMIT_PATH_BYTES + 1];
    int result = path_arg_join(path, WORKSPACE, name, err);

    if (result == 0 && (fd < 0 || fd_write_all(fd, buf_text(code), code->length) < 0 ||
                        lseek(fd, 0, SEEK_SET) < 0))
        result = error_errno(err, "keeping the source");
    if (result == 0)
        result = remote_path(&address, session, "", path, err);
    return result < 0 ? result
                      : transfer_send(&job->client, buf_text(&address), fd, (int64_t)code->length,
                                      NULL, NULL, NULL, err);
}

static int fetch_outputs(struct exec_job *job, const char *session, struct error *err)
{
    struct copy copy = {.client = &job->client, .session = session, .is_quiet = true};
    CLEANUP(fd_closep) int fd = -1;
    const char *out = job->request.out;
    struct path_arg from;

    if (mkdir(out, 0777) < 0 && errno != EEXIST)
        return error_set(err, -errno, ERROR_BAD_INPUT, "--out '%.200s': %s", out, strerror(errno));
    fd = open(out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_set(err, -errno, ERROR_BAD_INPUT, "--out '%.200s': %s", out, strerror(errno));
    if (box_path(session, OUTPUT, &from, err) < 0)
        return err->num;
    return copy_folder(&copy, &from, fd, err);
}

static int command_body(const struct exec_job *job, const struct invocation *invocation,
                        const struct run_source *what, const char *name, json_t **ret,
                        struct error *err)
{
    const char *words[WORDS_MAX] = {what->language ? what->language->program : NULL, name};
    size_t count = 2;
    int result;

    for (size_t i = 0; what->language && what->argv[i] && count < WORDS_MAX - 1; i++)
        words[count++] = what->argv[i];
    result = exec_body(invocation, &job->request, what->language ? words : what->argv, ret, err);
    if (result == 0 && !json_object_get(*ret, "timeout"))
        json_object_set_new(*ret, "timeout",
                            json_real((double)job->client.config.limits.timeout_ms / 1000));
    return result;
}

/* Everything between the session's beginning and its end. */
static int run_in(struct exec_job *job, const struct invocation *invocation, const char *session,
                  const struct run_source *what)
{
    const char *name = what->source.name ? what->source.name
                       : what->language  ? what->language->script
                                         : NULL;
    struct error err = {0};
    json_t *body = NULL;
    int ended;

    if (send_files(job, session, &err) < 0 ||
        (what->language && send_source(job, session, what, name, &err) < 0) ||
        command_body(job, invocation, what, name, &body, &err) < 0 ||
        exec_begin(job, session, body, &err) < 0)
        return run_refuse_with(&job->request, &job->client.config, &err);
    ended = exec_watch(job);
    exec_leave(job);
    if (ended == 1 && job->request.out && fetch_outputs(job, session, &err) < 0)
        return run_refuse_with(&job->request, &job->client.config, &err);
    return report(job, ended == 1 ? job->follow.result : NULL, job->request.out, &job->follow.err);
}

static int run_in_session(struct exec_job *job, const struct invocation *invocation,
                          const struct run_source *what)
{
    CLEANUP(json_freep) json_t *session = NULL;
    struct error err = {0};
    int status;

    if (session_make(&job->client, &session, &err) < 0)
        return run_refuse_with(&job->request, &job->client.config, &err);
    status = run_in(job, invocation, member_text(session, "id"), what);
    session_end(&job->client, member_text(session, "id"));
    return status;
}

/* ---- the commands ---- */

/* Bad input is found before the server is asked. */
static int open_job(struct exec_job *job, const struct invocation *invocation, struct error *err)
{
    int result =
        client_open(&job->client, job->request.config_file, invocation->env, CLIENT_STARTS, err);

    if (result == 0)
        result = client_bring_settings(&job->client, invocation, err);
    if (result == 0)
        result = options_configure(&invocation->parsed, &job->client.config, err);
    return result;
}

int run_remote(const struct invocation *invocation)
{
    CLEANUP(exec_job_free) struct exec_job job = {.cancel_fd = -1};
    CLEANUP(config_free) struct config config = {0};
    struct run_source what = {0};
    struct error err = {0};
    int status;

    if (request_load(invocation, &job.request, &config, &err) < 0 ||
        check_options(invocation, &err) < 0 ||
        run_find_source(invocation, &job.request, &config, &what, &err) < 0 ||
        open_job(&job, invocation, &err) < 0)
        status = run_refuse_with(&job.request, &config, &err);
    else if (job.request.file_count > 0 || job.request.out || job.request.has_stdin)
        status = run_in_session(&job, invocation, &what);
    else
        status = run_code(&job, &what);
    source_free(&what.source);
    return status;
}

int exec_remote(const struct invocation *invocation)
{
    CLEANUP(exec_job_free) struct exec_job job = {.cancel_fd = -1};
    CLEANUP(config_free) struct config config = {0};
    struct run_source what = {.argv = invocation->parsed.rest};
    struct error err = {0};

    if (request_load(invocation, &job.request, &config, &err) < 0 ||
        check_options(invocation, &err) < 0 ||
        run_check_program(&job.request, what.argv, &err) < 0 ||
        open_job(&job, invocation, &err) < 0)
        return run_refuse_with(&job.request, &config, &err);
    return run_in_session(&job, invocation, &what);
}
