/*
 * follow.c - sends an execution's events (api/exec_stream.h) as server-sent events, at the client's
 * pace: output is read only when the client has read the earlier events.
 */
#include <errno.h>

#include "api/exec_stream.h"
#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/str.h"

#define TEXT_MAX (6 * LIMIT_OUTPUT_MAX + MIB)

struct follower {
    struct front_stream stream;
    struct exec_stream *exec_stream;
    bool is_owner;
};

static void on_event(void *ctx, const char *id, const char *name, json_t *data)
{
    struct follower *follower = ctx;

    front_stream_event(&follower->stream, id, name, data);
}

static void on_ready(void *ctx)
{
    struct follower *follower = ctx;

    http_reply_more(follower->stream.http);
}

static void on_fill(void *ctx)
{
    struct follower *follower = ctx;
    enum exec_stream_state state = exec_stream_more(follower->exec_stream);

    follower->stream.is_over |= state == EXEC_STREAM_OVER;
    follower->stream.is_broken |= state == EXEC_STREAM_BROKEN;
}

static void on_freed(void *ctx)
{
    struct follower *follower = ctx;

    exec_stream_free(follower->exec_stream, follower->is_owner);
    free(follower);
}

void rest_follow(struct door_call *call, const struct rest_following *following)
{
    static const struct exec_stream_events events = {.event = on_event, .ready = on_ready};
    struct follower *follower = calloc(1, sizeof(*follower));
    char name[ID_MAX + 64]; /* for a client that loses the connection before the first event */
    const char *headers[] = {front_event_headers[0], name, NULL};

    if (follower) {
        *follower = (struct follower){
            .is_owner = following->is_owner,
            .exec_stream = exec_stream_new(&following->exec_stream, &events, follower),
            .stream = {.http = call->http,
                       .text = BUF_INIT(TEXT_MAX),
                       .fill = on_fill,
                       .freed = on_freed,
                       .ctx = follower},
        };
    }
    if (!follower || !follower->exec_stream) {
        free(follower);
        front_fail_memory(call->http);
        return;
    }
    str_format(name, sizeof(name), "Bailey-Execution: %s.%u",
               session_id(following->exec_stream.session),
               (unsigned)execution_number(following->exec_stream.execution));
    front_stream_start(&follower->stream, 200, TYPE_EVENTS, headers, -1);
}
