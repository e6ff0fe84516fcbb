/* input.c - sends standard input to a command, piece by piece; see input.h. */
#include "cli/client/input.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/limits.h"

void input_init(struct input *input, struct client *client)
{
    *input = (struct input){
        .client = client,
        .queue = {.maximum = INPUT_QUEUE_MAX},
        .sending = {.maximum = INPUT_QUEUE_MAX},
        .reply = {.maximum = 64 * KIB},
    };
}

void input_free(struct input *input)
{
    if (input->exchange)
        http_call_cancel(input->exchange);
    buf_free(&input->queue);
    buf_free(&input->sending);
    buf_free(&input->reply);
    input->exchange = NULL;
}

bool input_has_room(const struct input *input)
{
    return !input->is_over && !input->wants_end &&
           input->queue.length <= INPUT_QUEUE_MAX - INPUT_CHUNK;
}

int input_put(struct input *input, const void *data, size_t length)
{
    return input->is_over ? 0 : buf_append(&input->queue, data, length);
}

void input_end(struct input *input)
{
    input->wants_end = true;
}

static int on_data(void *ctx, const void *data, size_t length)
{
    struct input *input = ctx;

    buf_append(&input->reply, data, length); /* only the text of an error, cut if long */
    return 0;
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct input *input = ctx;

    input->exchange = NULL;
    if (!err->num && status < 400) {
        buf_clear(&input->sending);
        return;
    }
    input->is_over = true;
    if (err->num)
        input->err = *err;
    else
        client_api_error(status, buf_text(&input->reply), input->reply.length, &input->err);
    if (input->err.code == ERROR_EXECUTION_ENDED)
        input->err =
            (struct error){0}; /* the command did not read everything, which is not an error */
}

void input_turn(struct input *input)
{
    static const struct http_call_events events = {.data = on_data, .done = on_done};
    static const char *const headers[] = {"Content-Type: application/octet-stream", NULL};
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    bool is_last = input->wants_end;
    struct buf taken;

    if (input->exchange || input->is_over || input->has_ended || !input->path ||
        (input->queue.length == 0 && !input->wants_end))
        return;
    taken = input->queue;
    input->queue = input->sending;
    input->sending = taken;
    buf_clear(&input->queue);
    buf_clear(&input->reply);
    if (buf_printf(&path, "%s/stdin%s", input->path, is_last ? "?end=true" : "") < 0 ||
        http_call_start(input->client->http,
                        &(struct http_call){.method = "POST",
                                            .path = buf_text(&path),
                                            .headers = headers,
                                            .body = buf_text(&input->sending),
                                            .body_length = input->sending.length,
                                            .body_total = -1},
                        &events, input, &input->exchange, &input->err) < 0)
        input->is_over = true;
    input->has_ended |= is_last;
}
