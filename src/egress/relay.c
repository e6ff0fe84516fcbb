/*
 * relay.c - bytes both ways, exactly, with back pressure: what the other side has not accepted yet
 * is kept (one read), and no more is read until it is sent. See egress.h.
 */
#include <string.h>

#include "egress/egress_private.h"

static void flow_read(struct flow *flow);

static void touch(struct flow *flow)
{
    caller_set_deadline(flow->caller, flow->caller->box->proxy->settings.patience.idle_ms);
}

static void on_shut(uv_shutdown_t *request, int status)
{
    struct flow *flow = request->data;
    struct caller *caller = flow->caller;

    if (caller->state != CALLER_RELAY)
        return;
    flow->is_shut = true;
    if (status < 0 || (caller->up.is_shut && caller->down.is_shut)) {
        caller_close(caller);
        return;
    }
    /* One request was answered; the connection ends without waiting for the caller. */
    if (flow == &caller->down && !caller->request.is_connect)
        caller_set_deadline(caller, caller->box->proxy->settings.patience.leave_ms);
}

/* The end of one direction is signalled to the other side, after all that was written. */
static void flow_end(struct flow *flow)
{
    uv_read_stop(flow->from);
    flow->shutdown.data = flow;
    if (uv_shutdown(&flow->shutdown, flow->to, on_shut) < 0)
        caller_close(flow->caller);
}

static void on_written(uv_write_t *write, int status)
{
    struct flow *flow = write->data;

    if (flow->caller->state != CALLER_RELAY)
        return;
    if (status < 0) {
        caller_close(flow->caller);
        return;
    }
    touch(flow);
    buf_free(&flow->rest);
    flow_read(flow);
}

/* Keeps what was not taken and waits until it is. */
static void flow_wait(struct flow *flow)
{
    uv_buf_t part = uv_buf_init(flow->rest.data, (unsigned)flow->rest.length);

    uv_read_stop(flow->from);
    flow->write.data = flow;
    if (uv_write(&flow->write, flow->to, &part, 1, on_written) < 0)
        caller_close(flow->caller);
}

static void flow_pass(struct flow *flow, const char *data, size_t length)
{
    uv_buf_t part = uv_buf_init((char *)data, (unsigned)length);
    int sent = uv_try_write(flow->to, &part, 1);

    if (sent < 0 && sent != UV_EAGAIN) {
        caller_close(flow->caller);
        return;
    }
    sent = sent < 0 ? 0 : sent;
    if ((size_t)sent == length)
        return;
    if (buf_append(&flow->rest, data + sent, length - (size_t)sent) < 0)
        caller_close(flow->caller);
    else
        flow_wait(flow);
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *chunk)
{
    struct caller *caller = stream->data;
    struct flow *flow = stream == caller->up.from ? &caller->up : &caller->down;
    size_t passed;

    if (length == 0 || caller->state != CALLER_RELAY)
        return;
    if (length == UV_EOF) {
        flow_end(flow);
        return;
    }
    if (length < 0) {
        caller_close(caller);
        return;
    }
    touch(flow);
    passed = (uint64_t)length > flow->left ? (size_t)flow->left : (size_t)length;
    if (flow->left != UINT64_MAX)
        flow->left -= passed;
    *flow->counter += passed;
    flow->dropped += (size_t)length - passed; /* after the one request that is allowed */
    if (flow->dropped > LIMIT_EGRESS_DROP)
        caller_close(caller);
    else if (passed > 0)
        flow_pass(flow, chunk->base, passed);
}

static void flow_read(struct flow *flow)
{
    if (uv_read_start(flow->from, caller_allocate, on_read) < 0)
        caller_close(flow->caller);
}

/* `rest` has what is sent first. */
static void flow_start(struct flow *flow)
{
    *flow->counter += flow->rest.length;
    if (flow->rest.length > 0)
        flow_wait(flow);
    else
        flow_read(flow);
}

/*
 * The first bytes to the far side: the rewritten request, and as much of its body as has arrived.
 */
static int gather(struct caller *caller)
{
    size_t body = caller->head.length;
    int r = 0;

    if (!caller->request.is_connect) {
        body = body > caller->request.body_bytes ? (size_t)caller->request.body_bytes : body;
        caller->up.left = caller->request.body_bytes - body;
        r = buf_append(&caller->up.rest, caller->out.data, caller->out.length);
    } else if (caller->has_asked_upstream && caller->out.length > 0) {
        r = buf_append(&caller->down.rest, caller->out.data, caller->out.length);
    }
    if (r == 0 && body > 0)
        r = buf_append(&caller->up.rest, caller->head.data, body);
    buf_free(&caller->head);
    buf_free(&caller->out);
    return r;
}

void relay_start(struct caller *caller)
{
    uv_stream_t *near = (uv_stream_t *)&caller->near, *far = (uv_stream_t *)&caller->far;

    caller->state = CALLER_RELAY;
    caller->up.caller = caller->down.caller = caller;
    caller->up.from = caller->down.to = near;
    caller->up.to = caller->down.from = far;
    caller->up.left = caller->down.left = UINT64_MAX;
    caller->up.counter = &caller->box->up_bytes;
    caller->down.counter = &caller->box->down_bytes;
    if (gather(caller) < 0) {
        caller_close(caller);
        return;
    }
    touch(&caller->up);
    flow_start(&caller->up);
    if (caller->state == CALLER_RELAY)
        flow_start(&caller->down);
}
