/*
 * input.c - bytes for a program's standard input. The reply is sent when all bytes were taken, so
 * that a client that waits for it is no faster than the program; its other messages are handled
 * meanwhile.
 */
#include <errno.h>
#include <string.h>

#include "api/ws/ws_private.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/str.h"

struct ws_input {
    struct ws_peer *peer;
    struct ws_input *next;
    struct execution *execution;
    struct execution_watcher *watcher; /* keeps the execution alive */
    json_t *id;
    struct buf data;
    size_t taken;
    bool ends, waits;
};

static void input_free(struct ws_input *input)
{
    LIST_UNLINK(input->peer->inputs, input);
    input->peer->input_count--;
    if (input->waits)
        execution_stdin_wait(input->execution, NULL, input);
    execution_unwatch(input->watcher, false);
    json_decref(input->id);
    buf_free(&input->data);
    free(input);
}

void ws_inputs_free(struct ws_peer *peer)
{
    while (peer->inputs)
        input_free(peer->inputs);
}

static void on_ready(void *ctx);

static void go_on(struct ws_input *input)
{
    struct error err = {0};
    long count = 0;

    while (input->taken < input->data.length) {
        count = execution_stdin(input->execution, input->data.data + input->taken,
                                input->data.length - input->taken, &err);
        if (count <= 0)
            break;
        input->taken += (size_t)count;
    }
    if (count >= 0 && input->taken < input->data.length) {
        input->waits = true;
        execution_stdin_wait(input->execution, on_ready, input);
        return;
    }
    if (count >= 0 && input->ends)
        execution_stdin_end(input->execution, &err);
    if (err.num < 0)
        ws_fail(input->peer, input->id, &err,
                json_pack("{s:I}", "bytes", (json_int_t)input->taken));
    else
        ws_reply(input->peer, input->id, json_pack("{s:I}", "bytes", (json_int_t)input->taken));
    input_free(input);
}

static void on_ready(void *ctx)
{
    struct ws_input *input = ctx;

    input->waits = false;
    go_on(input);
}

static void on_more(void *ctx)
{
    (void)ctx;
}

/* Reads the bytes of the message into `data`. */
static int read_data(struct ws_request *request, struct buf *data, struct error *err)
{
    const char *encoding = json_string_value(json_object_get(request->body, "encoding"));
    json_t *text = json_object_get(request->body, "data");
    int r = 0;

    if (text && str_equal(encoding, "base64"))
        r = base64_decode(json_string_value(text), json_string_length(text), data);
    else if (text)
        r = buf_append(data, json_string_value(text), json_string_length(text));
    if (r == -EINVAL)
        return error_set(err, r, ERROR_BAD_INPUT, "'data' is not base64");
    return r < 0 ? error_set(err, r, ERROR_ENGINE, "out of memory") : 0;
}

static int check(const struct ws_peer *peer, const struct execution *execution, struct error *err)
{
    if (execution_has_ended(execution))
        return error_set(err, -EPIPE, ERROR_EXECUTION_ENDED,
                         "the process has ended: it takes no input");
    for (const struct ws_input *at = peer->inputs; at; at = at->next)
        if (at->execution == execution)
            return error_set(err, -EBUSY, ERROR_BUSY,
                             "the bytes before were not taken yet: wait for their reply");
    if (peer->input_count >= LIMIT_WS_INPUTS)
        return error_set(err, -EBUSY, ERROR_BUSY, "at most %d programs may have bytes that wait",
                         LIMIT_WS_INPUTS);
    return 0;
}

void ws_stdin(struct ws_request *request)
{
    static const struct execution_watch_events events = {.more = on_more};
    CLEANUP(buf_free) struct buf data = BUF_INIT(LIMIT_REQUEST_JSON);
    struct ws_peer *peer = request->peer;
    struct execution *execution;
    struct ws_input *input = NULL;
    struct session *session;
    struct error err = {0};

    if (!ws_find_execution(request, &session, &execution))
        return;
    if (check(peer, execution, &err) == 0 && read_data(request, &data, &err) == 0) {
        input = calloc(1, sizeof(*input));
        if (input)
            input->watcher = execution_watch(execution, false, &events, input);
        if (!input || !input->watcher)
            error_memory(&err);
    }
    if (err.num < 0) {
        free(input);
        ws_fail(peer, request->id, &err, NULL);
        return;
    }
    input->peer = peer;
    input->execution = execution;
    input->id = json_incref(request->id);
    input->data = data;
    data = BUF_INIT(0);
    input->ends = json_is_true(json_object_get(request->body, "end"));
    input->next = peer->inputs;
    peer->inputs = input;
    peer->input_count++;
    go_on(input);
}
