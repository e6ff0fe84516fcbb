/* streams.c - an execution's output as bytes from an offset, and bytes for its standard input. */
#include <errno.h>
#include <inttypes.h>

#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/str.h"

#define PIECE (256 * KIB)

static void ignore(void *ctx)
{
    (void)ctx;
}
static const struct execution_watch_events no_events = {.more = ignore};

/* ---- output ---- */

struct output {
    struct front_stream stream;
    struct execution *execution;
    struct execution_watcher *watcher;
    int number; /* 1 or 2 */
    uint64_t offset, end;
};

static void output_fill(void *ctx)
{
    struct output *output = ctx;
    size_t length = (size_t)MIN(output->end - output->offset, (uint64_t)PIECE);
    CLEANUP(freep) char *data = malloc(PIECE);
    ssize_t count = 0;

    if (length > 0 && data)
        count = execution_read(output->execution, output->number, output->offset, data, length);
    /* The length was promised in the header: fewer bytes would be taken for complete. */
    if (!data || (length > 0 && count <= 0) ||
        buf_append(&output->stream.text, data, (size_t)count) < 0) {
        output->stream.is_broken = true;
        return;
    }
    output->offset += (uint64_t)count;
    output->stream.is_over = output->offset == output->end;
}

static void output_freed(void *ctx)
{
    struct output *output = ctx;

    execution_unwatch(output->watcher, false);
    free(output);
}

static void output_send(struct door_call *call, struct execution *execution, int number,
                        uint64_t offset, uint64_t end)
{
    struct output *output = calloc(1, sizeof(*output));
    char lines[4][64];
    const char *headers[] = {lines[0], lines[1], lines[2], lines[3], NULL};

    str_format(lines[0], sizeof(lines[0]), "Bailey-Offset: %" PRIu64, offset);
    str_format(lines[1], sizeof(lines[1]), "Bailey-Next-Offset: %" PRIu64, end);
    str_format(lines[2], sizeof(lines[2]), "Bailey-Total: %" PRIu64,
               execution_written(execution, number));
    str_format(lines[3], sizeof(lines[3]), "Bailey-Running: %s",
               execution_has_ended(execution) ? "false" : "true");
    if (output) {
        *output = (struct output){
            .execution = execution,
            .number = number,
            .offset = offset,
            .end = end,
            .watcher = execution_watch(execution, false, &no_events, output),
            .stream = {.http = call->http,
                       .text = BUF_INIT(PIECE),
                       .fill = output_fill,
                       .freed = output_freed,
                       .ctx = output},
        };
    }
    if (!output || !output->watcher) {
        free(output);
        front_fail_memory(call->http);
        return;
    }
    front_stream_start(&output->stream, 200, TYPE_BYTES, headers, (int64_t)(end - offset));
}

void processes_output(struct door_call *call)
{
    const char *stream = front_query_text(call, "stream");
    uint64_t offset = front_query_u64(call, "offset", 0);
    uint64_t length = front_query_u64(call, "length", INT64_MAX);
    int number = str_equal(stream, "stderr") ? 2 : 1;
    struct execution *execution;
    struct session *session;
    struct error err = {0};
    uint64_t first, written;

    if (!front_execution(call, &session, &execution))
        return;
    first = execution_first(execution, number);
    written = execution_written(execution, number);
    if (offset < first) {
        error_set(&err, -ERANGE, ERROR_OFFSET_GONE,
                  "output before offset %" PRIu64 " is no longer stored", first);
        front_fail(call->front, call->http, &err, json_pack("{s:I}", "first", (json_int_t)first));
        return;
    }
    length = offset < written ? MIN(length, written - offset) : 0;
    output_send(call, execution, number, offset, offset + length);
}

/* ---- input ---- */

struct input {
    struct front *front;
    struct http_request *http;
    struct execution *execution;
    struct execution_watcher *watcher;
    uint64_t bytes;
    bool ends, waits;
};

static void input_free(struct input *input)
{
    if (input->waits)
        execution_stdin_wait(input->execution, NULL, input);
    execution_unwatch(input->watcher, false);
    free(input);
}

static void input_fail(struct input *input, const struct error *err)
{
    front_fail(input->front, input->http, err,
               json_pack("{s:I}", "bytes", (json_int_t)input->bytes));
    input_free(input);
}

static void input_ready(void *ctx)
{
    struct input *input = ctx;

    input->waits = false;
    http_body_resume(input->http);
}

static size_t input_data(void *ctx, const void *data, size_t length)
{
    struct input *input = ctx;
    struct error err = {0};
    long taken = execution_stdin(input->execution, data, length, &err);

    if (taken < 0) {
        input_fail(input, &err);
        return length;
    }
    input->bytes += (uint64_t)taken;
    if ((size_t)taken < length) {
        input->waits = true;
        execution_stdin_wait(input->execution, input_ready, input);
    }
    return (size_t)taken;
}

static void input_end(void *ctx)
{
    struct input *input = ctx;
    struct error err = {0};

    if (input->ends && execution_stdin_end(input->execution, &err) < 0) {
        input_fail(input, &err);
        return;
    }
    front_reply(input->http, 200, json_pack("{s:I}", "bytes", (json_int_t)input->bytes));
    input_free(input);
}

static void input_gone(void *ctx)
{
    input_free(ctx);
}

void processes_stdin(struct door_call *call)
{
    static const struct http_body_events events = {.data = input_data, .end = input_end};
    struct execution *execution;
    struct session *session;
    struct error err = {0};
    struct input *input;

    if (!front_execution(call, &session, &execution))
        return;
    /* An empty body, too, must get the error that the command has ended. */
    if (execution_has_ended(execution)) {
        error_set(&err, -EPIPE, ERROR_EXECUTION_ENDED, "the process has ended: it takes no input");
        front_fail(call->front, call->http, &err, NULL);
        return;
    }
    input = calloc(1, sizeof(*input));
    if (input)
        *input = (struct input){.front = call->front,
                                .http = call->http,
                                .execution = execution,
                                .ends = front_query_bool(call, "end"),
                                .watcher = execution_watch(execution, false, &no_events, input)};
    if (!input || !input->watcher) {
        free(input);
        front_fail_memory(call->http);
        return;
    }
    http_on_gone(call->http, input_gone, input);
    http_body_read(call->http, &events, input);
}
