/*
 * daemon_run.c - `bailey run` in a warm box of the daemon; see daemon_run.h.
 *
 * The static program has no HTTP library, and executing bailey-engine for one costs more than a
 * warm run does: so the one call is made by http/plain.h. The request carries the caller's settings
 * (config/settings.h) and what they have to result in (config/shape.h): a daemon that would run it
 * in another way refuses. Until the status "200" arrives
 * nothing was promised and the run can be made here; a run has no effect outside its box, so one
 * that was begun there after all does no harm, and it is ended with its connection.
 *
 * Output arrives as events and goes to the sink, which waits for its reader: what we do not read
 * stops the program. A caller that cancels ends the run by a second call, and still gets the output
 * so far, and the result.
 */
#include "cli/daemon_run.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/program_settings.h"
#include "config/settings.h"
#include "config/shape.h"
#include "http/plain.h"
#include "http/sse.h"
#include "model/text.h"

#define SHAPE_MAX (64 * KIB)
#define ARGUMENTS_MAX 256
#define ARGUMENTS_BYTES (32 * KIB) /* they share one message with the environment */
#define PIECE (64 * KIB)
#define EVENT_MAX (6 * LIMIT_OUTPUT_MAX + MIB)

struct call {
    const struct oneshot *shot;
    const struct paths *paths;
    struct result *result;
    int fd;
    struct buf request; /* what is not sent yet */
    struct buf head;    /* of the reply, until it is whole */
    struct plain_head reply;
    struct sse_reader events;
    bool has_head, has_result, is_broken;
    bool is_stopped, is_sink_dead; /* by the caller; because the output has no reader */
};

static int stay(char why[ONESHOT_WHY_MAX], const char *reason)
{
    log_debug("the daemon is not used: %s", reason);
    str_format(why, ONESHOT_WHY_MAX, "%.*s", ONESHOT_WHY_MAX - 1, reason);
    return 1;
}

/* The daemon's own words, of its error. */
static int stay_refused(const struct call *call, char why[ONESHOT_WHY_MAX])
{
    json_t *reply = json_loadb(buf_text(&call->head), call->head.length, 0, NULL);
    const char *message =
        json_string_value(json_object_get(json_object_get(reply, "error"), "message"));
    char reason[ONESHOT_WHY_MAX + 64];

    str_format(reason, sizeof(reason), "it answered %u: %.250s", call->reply.status,
               message ? message : buf_text(&call->head));
    json_decref(reply);
    return stay(why, reason);
}

const char *daemon_run_unfit(const struct oneshot *shot)
{
    const struct config *config = shot->config;
    size_t count = 0, bytes = 0;

    for (; shot->argv && shot->argv[count]; count++)
        bytes += strlen(shot->argv[count]) + 1;
    if (!shot->language || !str_equal(shot->language, "python"))
        return "only Python is kept warm";
    if (!config->is_warm && !config->auto_install)
        return "SANDBOX_WARM is off";
    if (shot->stdin_fd >= 0)
        return "standard input is passed on";
    if (shot->file_count > 0)
        return "files are copied in";
    if (shot->out)
        return "files are fetched";
    if (shot->env && shot->env[0])
        return "variables are read when an interpreter starts";
    if (count > ARGUMENTS_MAX || bytes > ARGUMENTS_BYTES)
        return "too many arguments";
    if (shot->name && shot->name[0] == '-')
        return "the file's name begins with '-'";
    return NULL;
}

/* ---- the request ---- */

static json_t *words_json(const char *const *words)
{
    json_t *array = json_array();

    for (; words && *words; words++) {
        if (json_array_append_new(array, json_string(*words)) < 0) { /* it is not UTF-8 */
            json_decref(array);
            return NULL;
        }
    }
    return array;
}

/* New reference; NULL: it cannot be said in JSON. */
static json_t *body_json(const struct call *call, const struct oneshot_found *found)
{
    CLEANUP(buf_free) struct buf like = BUF_INIT(SHAPE_MAX);
    const struct oneshot *shot = call->shot;
    const char *slash = found->layer ? strrchr(found->layer, '/') : NULL;
    struct shape shape = {.state = call->paths->state,
                          .fingerprint = found->fingerprint,
                          .layer = slash ? slash + 1 : found->layer};

    if (shape_text(&shape, shot->config, &like) < 0 || memchr(shot->code, 0, shot->code_length))
        return NULL;
    return json_pack("{s:s%, s:s, s:s, s:s, s:f, s:o, s:s, s:b}", "code", shot->code,
                     shot->code_length, "language", shot->language, "name", found->name, "template",
                     shot->config->template_name, "timeout",
                     (double)shot->config->limits.timeout_ms / 1000.0, "arguments",
                     words_json(shot->argv), "like", buf_text(&like), "store", 0);
}

static int write_request(struct call *call, const struct oneshot_found *found)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(LIMIT_REQUEST_JSON);
    CLEANUP(buf_free) struct buf settings = BUF_INIT(SETTINGS_MAX + KIB);
    CLEANUP(config_free) struct config config = {0};
    struct error ignored = {0};
    json_t *json = body_json(call, found);
    int r = json ? text_of_json(json, JSON_COMPACT | JSON_REAL_PRECISION(15), &body) : -EINVAL;

    json_decref(json);
    if (r == 0)
        r = config_clone(call->shot->config, &config, &ignored);
    if (r == 0)
        r = program_settings(&config, &ignored);
    if (r == 0)
        r = settings_header(&config, false, &settings, &ignored);
    if (r == 0)
        r = plain_head_write(&call->request, "POST", "/v1/run", "text/event-stream",
                             buf_text(&settings), body.length);
    return r < 0 ? r : buf_append(&call->request, buf_text(&body), body.length);
}

/* ---- the reply ---- */

static void take_output(struct call *call, int stream, json_t *event)
{
    CLEANUP(buf_free) struct buf decoded = BUF_INIT(MIB);
    json_t *value = json_object_get(event, "data");
    const struct oneshot_sink *sink = call->shot->sink;
    struct result *result = call->result;
    const char *data = json_string_value(value);
    size_t length = json_string_length(value);

    if (str_equal(json_string_value(json_object_get(event, "encoding")), "base64")) {
        call->is_broken |= !data || base64_decode(data, length, &decoded) < 0;
        data = buf_text(&decoded);
        length = decoded.length;
    }
    if (!data || call->is_broken) {
        call->is_broken = true;
        return;
    }
    capture_add(stream == 1 ? &result->out : &result->err, data, length,
                result->limits.output_bytes);
    if (sink && !call->is_sink_dead && sink->write(sink->ctx, stream, data, length) < 0)
        call->is_sink_dead = true;
}

static void take_result(struct call *call, json_t *json)
{
    struct error err = {0};
    struct result told;

    result_init(&told, &call->result->limits);
    if (result_from_json(json, &told, &err) < 0) {
        log_debug("the daemon's result: %s", err.text);
        call->is_broken = true;
        result_free(&told);
        return;
    }
    result_free(call->result);
    *call->result = told;
    call->has_result = true;
}

static void on_event(void *ctx, const char *id, const char *event, const char *data, size_t length)
{
    struct call *call = ctx;
    json_t *json = json_loadb(data, length, JSON_ALLOW_NUL, NULL);

    (void)id;
    if (call->has_result || call->is_broken)
        ; /* nothing is expected any more */
    else if (!json_is_object(json))
        call->is_broken = true;
    else if (str_equal(event, "stdout") || str_equal(event, "stderr"))
        take_output(call, str_equal(event, "stdout") ? 1 : 2, json);
    else if (str_equal(event, "exit"))
        take_result(call, json);
    json_decref(json);
}

/* Into the head until it is complete, then into events. Negative: it is not a reply of ours. */
static int take_bytes(struct call *call, const char *data, size_t length)
{
    ssize_t end;

    if (call->has_head && call->reply.status != 200)
        return buf_append(&call->head, data, length);
    if (call->has_head)
        return sse_read(&call->events, data, length, on_event, call);
    if (buf_append(&call->head, data, length) < 0)
        return -EPROTO;
    end = plain_head_read(call->head.data, call->head.length, &call->reply);
    if (end <= 0)
        return (int)end;
    call->has_head = true;
    buf_consume(&call->head, (size_t)end);
    if (call->reply.status != 200)
        return 0;
    return sse_read(&call->events, buf_text(&call->head), call->head.length, on_event, call);
}

/* ---- turns ---- */

/* The bytes received; 0 at the end, -EAGAIN. */
static ssize_t receive(struct call *call)
{
    char data[PIECE];
    ssize_t length = recv(call->fd, data, sizeof(data), 0);
    int r;

    if (length <= 0)
        return length < 0 && errno != EAGAIN && errno != EINTR ? 0 : length < 0 ? -EAGAIN : 0;
    r = take_bytes(call, data, (size_t)length);
    if (r < 0)
        call->is_broken = true;
    return length;
}

static int send_some(int fd, struct buf *text)
{
    ssize_t length = send(fd, buf_text(text), text->length, MSG_NOSIGNAL);

    if (length < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    buf_consume(text, (size_t)length);
    return 0;
}

/* Tells the daemon to end the run; its last events are still read. */
static void stop(struct call *call)
{
    CLEANUP(fd_closep) int fd = -1;
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);
    struct error ignored = {0};
    char path[128];

    call->is_stopped = true;
    str_format(path, sizeof(path), "/v1/run/%s", call->reply.execution);
    if (plain_connect(call->paths->socket, &fd, &ignored) == 0 &&
        plain_head_write(&text, "DELETE", path, NULL, NULL, 0) == 0 && send_some(fd, &text) == 0) {
        struct pollfd answer = {.fd = fd, .events = POLLIN};

        poll(&answer, 1, RUN_PATIENCE_MS); /* else it may not have been read when we close */
    }
}

enum { WATCH_DAEMON, WATCH_CANCEL, _WATCH_MAX };

/* 1: continue; 0: the connection has ended; negative: nothing came in time, or cancelled. */
static int turn(struct call *call, uint64_t patience_ms)
{
    struct pollfd polls[_WATCH_MAX] = {
        {.fd = call->fd, .events = call->request.length ? POLLIN | POLLOUT : POLLIN},
        {.fd = call->is_stopped ? -1 : call->shot->cancel_fd, .events = POLLIN},
    };
    int ready = poll(polls, _WATCH_MAX, (int)MIN(patience_ms, (uint64_t)INT32_MAX));

    if (ready < 0)
        return errno == EINTR ? 1 : -errno;
    if (ready == 0)
        return -ETIMEDOUT;
    if (polls[WATCH_CANCEL].revents)
        return -ECANCELED;
    if (polls[WATCH_DAEMON].revents & POLLOUT && send_some(call->fd, &call->request) < 0)
        buf_clear(&call->request); /* it may have refused without reading all of it */
    if (polls[WATCH_DAEMON].revents & ~POLLOUT && receive(call) == 0)
        return 0;
    return 1;
}

/* Until the daemon has taken it. 1: it has not. */
static int begin(struct call *call, char why[ONESHOT_WHY_MAX])
{
    uint64_t give_up_ms = clock_now_ms() + RUN_PATIENCE_MS;

    while (!call->has_head) {
        uint64_t now_ms = clock_now_ms();
        int r = now_ms < give_up_ms ? turn(call, give_up_ms - now_ms) : -ETIMEDOUT;

        if (r == -ECANCELED)
            return r;
        if (r <= 0 || call->is_broken)
            return stay(why, r == -ETIMEDOUT ? "it does not answer" : "it broke the connection");
    }
    if (call->reply.status == 200)
        return 0;
    while (turn(call, RUN_PATIENCE_MS) > 0 && !call->is_broken)
        ; /* the reason; the body is small */
    return stay_refused(call, why);
}

static int cancelled(struct call *call)
{
    return error_set(&call->result->error, -ECANCELED, ERROR_CANCELLED, "%s",
                     call->is_sink_dead ? "the reader of the output has gone"
                                        : "the run was ended by its caller");
}

static int finish(struct call *call)
{
    uint64_t patience_ms = call->shot->config->limits.timeout_ms + BRINGUP_PATIENCE_MS;
    int r = 1;

    while (r > 0 && !call->has_result && !call->is_broken) {
        r = turn(call, call->is_stopped ? KILL_PATIENCE_MS : patience_ms);
        if (!call->is_stopped && (r == -ECANCELED || call->is_sink_dead)) {
            stop(call);
            r = 1;
        }
    }
    if (call->is_stopped)
        return cancelled(call);
    if (call->has_result)
        return call->result->error.code ? MIN(call->result->error.num, -1) : 0;
    return error_set(&call->result->error, -EPIPE, ERROR_NO_DAEMON,
                     "the daemon %s in the middle of the run; run it again, or with --no-daemon",
                     r == -ETIMEDOUT ? "fell silent" : "went away");
}

int run_in_daemon(void *ctx, const struct oneshot *shot, const struct oneshot_found *found,
                  struct result *result, char why[ONESHOT_WHY_MAX])
{
    struct call call = {.shot = shot,
                        .paths = ctx,
                        .result = result,
                        .fd = -1,
                        .request = BUF_INIT(LIMIT_REQUEST_JSON + LIMIT_HTTP_HEAD),
                        .head = BUF_INIT(LIMIT_HTTP_HEAD + 2 * PIECE),
                        .events = SSE_READER_INIT(EVENT_MAX)};
    const char *unfit = daemon_run_unfit(shot);
    struct error err = {0};
    int r;

    if (unfit)
        return stay(why, unfit);
    if (paths_adopt(ctx, &err) < 0 || plain_connect(call.paths->socket, &call.fd, &err) < 0)
        return stay(why, err.text);
    if (write_request(&call, found) < 0)
        r = stay(why, "the code or an argument is not UTF-8");
    else
        r = begin(&call, why);
    if (r == 0)
        r = finish(&call);
    else if (r == -ECANCELED)
        r = cancelled(&call);
    fd_closep(&call.fd);
    buf_free(&call.request);
    buf_free(&call.head);
    sse_reader_free(&call.events);
    return r;
}
