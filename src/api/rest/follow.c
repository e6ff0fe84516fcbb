/*
 * follow.c - an execution's events (api/telling.h) as server-sent ones. Its pace is the client's:
 * what that has not taken is not read.
 */
#include <errno.h>

#include "api/rest/inside.h"
#include "api/telling.h"
#include "base/cleanup.h"
#include "base/str.h"

#define TEXT_MAX (6 * LIMIT_OUTPUT_MAX + MIB)

struct follower {
    struct rest_stream stream;
    struct telling *telling;
    bool is_owner;
};

static void on_event(void *ctx, const char *id, const char *name, json_t *data)
{
    struct follower *follower = ctx;

    rest_stream_event(&follower->stream, id, name, data);
}

static void on_ready(void *ctx)
{
    struct follower *follower = ctx;

    http_reply_more(follower->stream.http);
}

static void on_fill(void *ctx)
{
    struct follower *follower = ctx;
    enum telling_state state = telling_more(follower->telling);

    follower->stream.is_over |= state == TELLING_OVER;
    follower->stream.is_broken |= state == TELLING_BROKEN;
}

static void on_freed(void *ctx)
{
    struct follower *follower = ctx;

    telling_free(follower->telling, follower->is_owner);
    free(follower);
}

void rest_follow(struct rest_call *call, const struct rest_following *following)
{
    static const struct telling_events events = {.event = on_event, .ready = on_ready};
    struct follower *follower = calloc(1, sizeof(*follower));
    char name[ID_MAX + 64]; /* for a client that loses us before the first event */
    const char *headers[] = {rest_event_headers[0], name, NULL};

    if (follower) {
        *follower = (struct follower){
            .is_owner = following->is_owner,
            .telling = telling_new(&following->telling, &events, follower),
            .stream = {.http = call->http,
                       .text = BUF_INIT(TEXT_MAX),
                       .fill = on_fill,
                       .freed = on_freed,
                       .ctx = follower},
        };
    }
    if (!follower || !follower->telling) {
        free(follower);
        rest_fail_memory(call->http);
        return;
    }
    str_format(name, sizeof(name), "Bailey-Execution: %s.%u",
               session_id(following->telling.session),
               (unsigned)execution_number(following->telling.execution));
    rest_stream_start(&follower->stream, 200, TYPE_EVENTS, headers, -1);
}
