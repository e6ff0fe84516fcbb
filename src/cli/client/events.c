/*
 * events.c - `bailey events [-f] [-s NAME]`: shows events of sessions, one per line.
 *
 * The daemon's stream has no mark between past and new events: without -f the command ends when the
 * stream was quiet for a moment. With -f a broken connection is resumed after the last event.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client/format.h"
#include "cli/client/report.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/sanitize.h"
#include "cli/signals.h"
#include "http/sse.h"
#include "model/text.h"

#define QUIET_MS 250
#define RETRY_MS 100
#define EVENT_MAX (8 * MIB)
#define OLDEST "1" /* ids begin at the clock's microseconds: all are above 1 */

struct events_job {
    struct client_request request;
    struct client client;
    struct sse_reader reader;
    struct buf reply;
    char last_id[96];
    unsigned status;
    struct http_exchange *exchange;
    struct error err;
    int write_status; /* status of printing; not 0: the reader has left */
    int cancel_fd;
    uint64_t lost_ms; /* when the connection broke; 0: connected */
    bool has_seen;    /* an event arrived in this turn */
};

static void job_free(struct events_job *job)
{
    if (job->exchange)
        http_call_cancel(job->exchange);
    sse_reader_free(&job->reader);
    buf_free(&job->reply);
    client_close(&job->client);
    client_request_free(&job->request);
    fd_closep(&job->cancel_fd);
}

/* The remaining data, for events without their own text. */
static void plain_words(json_t *json, struct buf *to)
{
    static const char *const said[] = {"id", "time", "type", "session_id"};
    CLEANUP(json_freep) json_t *others = json_copy(json);

    for (size_t i = 0; i < ARRAY_SIZE(said); i++)
        json_object_del(others, said[i]);
    if (json_object_size(others) > 0)
        text_of_json(others, 0, to);
}

static void event_words(json_t *json, struct buf *to)
{
    const char *type = member_text(json, "type"), *id = member_text(json, "execution_id");
    const char *number = strrchr(id, '.') ? strrchr(id, '.') + 1 : id;
    char out[FORMAT_SIZE], err[FORMAT_SIZE];

    if (str_equal(type, "exec.started")) {
        buf_printf(to, "%s: ", number);
        report_command(json_object_get(json, "argv"), to);
    } else if (str_equal(type, "exec.exited")) {
        report_process_state(json, out);
        buf_printf(to, "%s: %s", number, out);
    } else if (str_equal(type, "output")) {
        format_bytes((uint64_t)json_integer_value(json_object_get(json, "stdout_bytes")), out);
        format_bytes((uint64_t)json_integer_value(json_object_get(json, "stderr_bytes")), err);
        buf_printf(to, "%s: stdout %s, stderr %s", number, out, err);
    } else if (str_equal(type, "session.created")) {
        buf_append_text(to, member_text(json, "name"));
    } else {
        plain_words(json, to);
    }
}

/* "08:15:04  s_ab12cd34  exec.started     3: ls -l" */
static int event_line(json_t *json, struct buf *to)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT(EVENT_MAX);
    const char *time = strchr(member_text(json, "time"), 'T');
    char id[FORMAT_SIZE];
    int failed;

    format_id(member_text(json, "session_id"), FORMAT_ID, id);
    failed = buf_printf(&line, "%.8s  %-*s  %-16s ", time ? time + 1 : "--------", FORMAT_ID, id,
                        member_text(json, "type"));
    event_words(json, &line);
    while (line.length > 0 && line.data[line.length - 1] == ' ')
        line.data[--line.length] = 0;
    failed |= sanitize_line(buf_text(&line), to);
    return failed | buf_append_text(to, "\n");
}

static void take_event(void *ctx, const char *id, const char *event, const char *data,
                       size_t length)
{
    struct events_job *job = ctx;
    CLEANUP(json_freep) json_t *json = json_loadb(data, length, 0, NULL);
    CLEANUP(buf_free) struct buf text = BUF_INIT(SANITIZE_GROWTH * EVENT_MAX);
    bool is_first_gap = str_equal(event, "gap") && str_equal(job->last_id, OLDEST);

    if (id && id[0])
        str_copy(job->last_id, sizeof(job->last_id), id);
    if (!json_is_object(json) || job->write_status || is_first_gap)
        return;
    if (job->request.is_json) {
        job->write_status = print_json(json_incref(json));
        return;
    }
    if (event_line(json, &text) < 0)
        return;
    job->write_status = print_text(&text);
}

static void on_status(void *ctx, unsigned status)
{
    struct events_job *job = ctx;

    job->status = status;
    job->lost_ms = 0;
}

static int on_data(void *ctx, const void *data, size_t length)
{
    struct events_job *job = ctx;

    job->has_seen = true;
    if (job->status >= 400) {
        buf_append(&job->reply, data, length);
        return 0;
    }
    if (sse_read(&job->reader, data, length, take_event, job) < 0)
        error_set(&job->err, -EFBIG, ERROR_ENGINE, "the daemon sent an event that is too large");
    return job->err.code || job->write_status ? -ECANCELED : 0;
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct events_job *job = ctx;

    (void)err;
    job->exchange = NULL;
    if (status >= 400 && !job->err.code)
        client_api_error(status, buf_text(&job->reply), job->reply.length, &job->err);
}

static int connect_events(struct events_job *job, struct error *err)
{
    static const struct http_call_events events = {
        .status = on_status, .data = on_data, .done = on_done};
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    char last[128];
    const char *headers[] = {"Accept: text/event-stream", last, NULL};
    int result = 0;

    str_format(last, sizeof(last), "Last-Event-ID: %s", job->last_id);
    if (job->request.session)
        result = client_session_path(&path, job->request.session, "/events", err);
    else if (buf_append_text(&path, "/v1/events") < 0)
        result = error_memory(err);
    if (result < 0)
        return result;
    sse_reader_free(&job->reader);
    job->reader = SSE_READER_INIT(EVENT_MAX);
    job->status = 0;
    return http_call_start(
        job->client.http,
        &(struct http_call){
            .method = "GET", .path = buf_text(&path), .headers = headers, .body_total = -1},
        &events, job, &job->exchange, err);
}

/* The connection broke: with -f connects again while the daemon lives. 0: continues. */
static int take_up(struct events_job *job)
{
    uint64_t now_ms = clock_now_ms();

    if (job->lost_ms == 0)
        job->lost_ms = now_ms;
    if (!job->request.follows || !client_is_alive(&job->client) ||
        (job->client.url && now_ms - job->lost_ms > RECONNECT_PATIENCE_MS))
        return error_set(&job->err, -ECONNRESET, ERROR_NO_DAEMON, "the %s hung up",
                         job->client.url ? "server" : "daemon");
    http_client_wait(job->client.http, NULL, 0, RETRY_MS);
    return connect_events(job, &job->err);
}

static int watch(struct events_job *job)
{
    uint64_t quiet_at_ms = clock_now_ms() + QUIET_MS;

    while (!job->err.code && !job->write_status) {
        struct pollfd poller = {.fd = job->cancel_fd, .events = POLLIN};
        int result, number;

        if (!job->exchange && take_up(job) < 0)
            break;
        job->has_seen = false;
        result = http_client_wait(job->client.http, &poller, 1,
                                  job->request.follows ? -1 : QUIET_MS / 5);
        if (result < 0 && result != -EINTR)
            error_set(&job->err, result, ERROR_ENGINE, "waiting: %s", strerror(-result));
        number = poller.revents ? signals_taken(job->cancel_fd) : 0;
        if (number)
            return 128 + number;
        if (job->has_seen || job->status == 0)
            quiet_at_ms = clock_now_ms() + QUIET_MS; /* also counts until the reply begins */
        if (!job->request.follows && clock_now_ms() >= quiet_at_ms)
            return 0;
    }
    if (job->write_status)
        return job->write_status;
    return client_fail(job->request.is_json, &job->err);
}

int events_run(const struct invocation *invocation)
{
    CLEANUP(job_free)
    struct events_job job = {.reader = SSE_READER_INIT(EVENT_MAX),
                             .reply = {.maximum = 64 * KIB},
                             .last_id = OLDEST,
                             .cancel_fd = -1};
    struct error err = {0};

    if (client_request_load(invocation, &job.request, &err) < 0 ||
        client_open(&job.client, job.request.config_file, invocation->env, CLIENT_STARTS, &err) <
            0 ||
        signals_open(&job.cancel_fd, &err) < 0 || connect_events(&job, &err) < 0)
        return client_fail(job.request.is_json, &err);
    return watch(&job);
}
