/* link.c - calls of the model server, from the broker; see link.h. */
#include "upstream/link.h"

#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "upstream/channel.h"

struct upstream_call {
    struct upstream_call *next;
    struct upstream_link *link;
    uint32_t number;
    const struct upstream_call_events *events;
    void *ctx;
    struct buf body;  /* until it is sent */
    struct buf event; /* pieces of an event that goes on */
    bool is_sent, is_over;
};

struct upstream_link {
    struct reactor *reactor;
    struct reactor_timer *patience;
    struct upstream_channel *channel; /* NULL: there is none at the moment */
    struct upstream_call *calls;
    uint32_t next_number;
    bool has_greeted;
};

static void fail(struct upstream_call *call, unsigned status, const char *text)
{
    if (call->is_over)
        return;
    call->is_over = true;
    call->events->failed(call->ctx, status, text);
}

/* Callbacks may end any call: the list is searched again after each. */
static void fail_each(struct upstream_link *link, bool was_sent, const char *text)
{
    for (;;) {
        struct upstream_call *call = link->calls;

        while (call && (call->is_over || call->is_sent != was_sent))
            call = call->next;
        if (!call)
            return;
        fail(call, 0, text);
    }
}

static void on_patience(void *ctx)
{
    struct upstream_link *link = ctx;

    if (!link->channel)
        fail_each(link, false, "the process that speaks to the model server does not start");
}

/* ---- messages ---- */

static struct upstream_call *find(struct upstream_link *link, uint32_t number)
{
    for (struct upstream_call *call = link->calls; call; call = call->next)
        if (call->number == number && !call->is_over)
            return call;
    return NULL;
}

static void on_part(struct upstream_call *call, const struct upstream_message *message)
{
    bool is_whole = message->type == CHANNEL_EVENT;

    if (is_whole && call->event.length == 0) {
        call->events->event(call->ctx, message->data, message->length);
        return;
    }
    if (buf_append(&call->event, message->data, message->length) < 0) {
        upstream_channel_send(call->link->channel, CHANNEL_CANCEL, CHANNEL_CANCEL, call->number,
                              NULL, 0);
        fail(call, 0, "an event of the model server is too large");
        return;
    }
    if (!is_whole)
        return;

    CLEANUP(buf_free) struct buf event = call->event;

    call->event = BUF_INIT(LIMIT_UPSTREAM_EVENT);
    call->events->event(call->ctx, buf_text(&event), event.length);
}

static void on_failed(struct upstream_call *call, const struct upstream_message *message)
{
    json_t *json = json_loadb(message->data, message->length, 0, NULL);
    const char *text = json_string_value(json_object_get(json, "message"));

    fail(call, (unsigned)json_integer_value(json_object_get(json, "status")),
         text ? text : "the model server failed");
    json_decref(json);
}

static void on_message(void *ctx, const struct upstream_message *message)
{
    struct upstream_link *link = ctx;
    struct upstream_call *call = find(link, message->call);

    if (!call)
        return; /* it was cancelled meanwhile */
    switch (message->type) {
    case CHANNEL_BEGUN:
        call->events->begun(call->ctx);
        break;
    case CHANNEL_PART:
    case CHANNEL_EVENT:
        on_part(call, message);
        break;
    case CHANNEL_DONE:
        call->is_over = true;
        call->events->done(call->ctx,
                           message->length == 1 && ((const char *)message->data)[0] == '1');
        break;
    case CHANNEL_FAILED:
        on_failed(call, message);
        break;
    default:
        break;
    }
}

static void on_closed(void *ctx)
{
    struct upstream_link *link = ctx;

    log_warning("the process that speaks to the model server is gone, and its calls with it");
    upstream_channel_close(link->channel);
    link->channel = NULL;
    fail_each(link, true, "the process that speaks to the model server died; try again");
}

static const struct upstream_events channel_events = {.message = on_message, .closed = on_closed};

/* ---- calls ---- */

static void submit(struct upstream_call *call)
{
    struct upstream_link *link = call->link;
    char version[8];
    int r = 0;

    if (!link->has_greeted) {
        str_format(version, sizeof(version), "%d", CHANNEL_VERSION);
        r = upstream_channel_send(link->channel, CHANNEL_HELLO, CHANNEL_HELLO, 0, version,
                                  strlen(version));
        link->has_greeted = r == 0;
    }
    call->is_sent = true;
    if (r == 0)
        r = upstream_channel_send(link->channel, CHANNEL_BODY, CHANNEL_BODY, call->number,
                                  buf_text(&call->body), call->body.length);
    if (r == 0)
        r = upstream_channel_send(link->channel, CHANNEL_GO, CHANNEL_GO, call->number, NULL, 0);
    buf_free(&call->body);
    if (r < 0) /* half a request: it is never answered */
        upstream_channel_send(link->channel, CHANNEL_CANCEL, CHANNEL_CANCEL, call->number, NULL, 0);
}

int upstream_call_start(struct upstream_link *link, struct buf *body,
                        const struct upstream_call_events *events, void *ctx,
                        struct upstream_call **ret)
{
    struct upstream_call *call = calloc(1, sizeof(*call));

    if (!call)
        return -ENOMEM;
    *call = (struct upstream_call){.link = link,
                                   .number = ++link->next_number,
                                   .events = events,
                                   .ctx = ctx,
                                   .body = *body,
                                   .event = BUF_INIT(LIMIT_UPSTREAM_EVENT)};
    *body = BUF_INIT(0);
    LIST_APPEND(link->calls, call);
    if (link->channel)
        submit(call);
    else
        link->reactor->ops->timer_set(link->patience, LINK_PATIENCE_MS);
    *ret = call;
    return 0;
}

void upstream_call_pause(struct upstream_call *call, bool is_paused)
{
    enum channel_type type = is_paused ? CHANNEL_PAUSE : CHANNEL_RESUME;

    if (call && call->is_sent && !call->is_over && call->link->channel)
        upstream_channel_send(call->link->channel, type, type, call->number, NULL, 0);
}

void upstream_call_end(struct upstream_call *call)
{
    struct upstream_link *link;

    if (!call)
        return;
    link = call->link;
    if (call->is_sent && !call->is_over && link->channel)
        upstream_channel_send(link->channel, CHANNEL_CANCEL, CHANNEL_CANCEL, call->number, NULL, 0);
    LIST_UNLINK(link->calls, call);
    buf_free(&call->body);
    buf_free(&call->event);
    free(call);
}

void upstream_link_set(struct upstream_link *link, int fd)
{
    if (link->channel) {
        upstream_channel_close(link->channel);
        link->channel = NULL;
        fail_each(link, true, "the process that speaks to the model server died; try again");
    }
    link->has_greeted = false;
    link->channel = upstream_channel_open(link->reactor, fd, true, &channel_events, link);
    if (!link->channel) {
        log_warning("no memory for the channel to the model server, continuing without it");
        return;
    }
    for (struct upstream_call *call = link->calls; call; call = call->next)
        if (!call->is_sent && !call->is_over)
            submit(call);
}

struct upstream_link *upstream_link_new(struct reactor *reactor)
{
    struct upstream_link *link = calloc(1, sizeof(*link));

    if (!link)
        return NULL;
    link->reactor = reactor;
    link->patience = reactor_timer(reactor, on_patience, link);
    if (link->patience)
        return link;
    free(link);
    return NULL;
}

void upstream_link_free(struct upstream_link *link)
{
    if (!link)
        return;
    upstream_channel_close(link->channel);
    link->reactor->ops->timer_remove(link->patience);
    free(link);
}
