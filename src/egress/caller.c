/*
 * caller.c - one connection from a box: its request and the reply; see egress.h.
 *
 * Reads only while something is expected: the head, the ClientHello, the relay. What is read into
 * `head` is limited, and each state has a deadline that bytes do not move (a caller that sends one
 * byte at a time gains nothing by it).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "egress/egress_private.h"
#include "egress/hello.h"

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *chunk);

void caller_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    struct caller *caller = handle->data;

    (void)suggested;
    *ret = uv_buf_init(caller->box->proxy->scratch, SCRATCH_BYTES);
}

/* ---- the end ---- */

static void caller_free(struct caller *caller)
{
    struct box *box = caller->box;

    DLIST_UNLINK(box->callers, caller);
    buf_free(&caller->head);
    buf_free(&caller->out);
    buf_free(&caller->up.rest);
    buf_free(&caller->down.rest);
    free(caller);
    proxy_has_room(box);
}

void caller_release(struct caller *caller)
{
    if (--caller->open_handles == 0)
        caller_free(caller);
}

static void on_closed(uv_handle_t *handle)
{
    caller_release(handle->data);
}

void caller_close(struct caller *caller)
{
    if (caller->state == CALLER_CLOSED)
        return;
    caller->state = CALLER_CLOSED;
    uv_close((uv_handle_t *)&caller->near, on_closed);
    uv_close((uv_handle_t *)&caller->timer, on_closed);
    if (caller->has_far) {
        caller->has_far = false;
        uv_close((uv_handle_t *)&caller->far, on_closed);
    }
    if (caller->is_resolving)
        uv_cancel((uv_req_t *)&caller->resolve); /* its callback counts as a handle */
}

/* ---- deadlines ---- */

static void on_timer(uv_timer_t *timer)
{
    struct caller *caller = timer->data;
    uint64_t now = uv_now(&caller->box->proxy->loop);

    if (now < caller->deadline_ms) { /* it was moved while we slept */
        uv_timer_start(timer, on_timer, caller->deadline_ms - now, 0);
        return;
    }
    if (caller->state == CALLER_DIALING)
        dial_timed_out(caller);
    else if (caller->state == CALLER_HEAD)
        caller_refuse(caller, 408, SOCKS_FAILED, "the request did not arrive in time");
    else
        caller_close(caller);
}

void caller_set_deadline(struct caller *caller, uint64_t ms)
{
    uint64_t now = uv_now(&caller->box->proxy->loop);
    bool is_sooner = !uv_is_active((uv_handle_t *)&caller->timer) || now + ms < caller->deadline_ms;

    caller->deadline_ms = now + ms;
    if (is_sooner && caller->state != CALLER_CLOSED)
        uv_timer_start(&caller->timer, on_timer, ms, 0);
}

/* ---- answers ---- */

static void on_shut(uv_shutdown_t *request, int status)
{
    if (status < 0)
        caller_close(request->data);
}

/* We send nothing more; the caller has a moment to read it and to close. */
static void on_answered(uv_write_t *write, int status)
{
    struct caller *caller = write->data;

    if (caller->state == CALLER_CLOSED)
        return;
    caller->shutdown.data = caller;
    if (status < 0 || uv_shutdown(&caller->shutdown, (uv_stream_t *)&caller->near, on_shut) < 0)
        caller_close(caller);
}

static void send_answer(struct caller *caller)
{
    uv_buf_t part = uv_buf_init(caller->out.data, (unsigned)caller->out.length);

    caller->state = CALLER_LEAVING;
    caller_set_deadline(caller, caller->box->proxy->settings.patience.leave_ms);
    caller->write.data = caller;
    /* Closing while bytes lie unread would be a reset, and the answer lost with it. */
    uv_read_start((uv_stream_t *)&caller->near, caller_allocate, on_read);
    if (uv_write(&caller->write, (uv_stream_t *)&caller->near, &part, 1, on_answered) < 0)
        caller_close(caller);
}

static const char *status_word(int status)
{
    return status == 403   ? "Forbidden"
           : status == 408 ? "Request Timeout"
           : status == 431 ? "Request Header Fields Too Large"
           : status == 501 ? "Not Implemented"
           : status == 502 ? "Bad Gateway"
           : status == 504 ? "Gateway Timeout"
                           : "Bad Request";
}

/* The text follows the status, too: that is all that pip shows of a tunnel's refusal. */
void caller_refuse(struct caller *caller, int status, enum socks_reply reply, const char *format,
                   ...)
{
    char text[512];
    va_list arguments;

    if (caller->state == CALLER_CLOSED || caller->state == CALLER_LEAVING)
        return;
    va_start(arguments, format);
    if (vsnprintf(text, sizeof(text), format, arguments) < 0)
        text[0] = 0;
    va_end(arguments);
    log_debug("egress: box %u: %d %s", (unsigned)caller->box->number, status, text);
    buf_clear(&caller->out);
    if (caller->is_socks) {
        uint8_t data[SOCKS_REPLY_BYTES];

        socks_reply(reply, data);
        if (buf_append(&caller->out, data, caller->has_greeted ? sizeof(data) : 2) == 0 &&
            !caller->has_greeted)
            caller->out.data[1] = (char)0xff; /* no method that both know */
    } else {
        buf_printf(&caller->out,
                   "HTTP/1.1 %d %s: %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                   "Connection: close\r\n\r\n%s\n",
                   status, status_word(status), text, strlen(text) + 1, text);
    }
    if (caller->out.length == 0)
        caller_close(caller);
    else
        send_answer(caller);
}

void caller_deny(struct caller *caller, const char *reason)
{
    const char *host = caller->request.host.name;
    unsigned port = caller->request.port;

    proxy_verdict(caller->box, false, host, caller->request.port, reason);
    if (str_equal(reason, "not_listed") || str_equal(reason, "port_not_listed"))
        caller_refuse(caller, 403, SOCKS_NOT_ALLOWED,
                      "%s:%u is not listed; the operator may add it to SANDBOX_INDEX_HOSTS", host,
                      port);
    else
        caller_refuse(caller, 403, SOCKS_NOT_ALLOWED,
                      "%s has a %s, which is not listed; the operator can add the address to "
                      "SANDBOX_INDEX_HOSTS",
                      host, reason);
}

/* ---- what it asks for ---- */

static void decide(struct caller *caller)
{
    const char *reason;

    caller->entry =
        policy_match(caller->box->policy, &caller->request.host, caller->request.port, &reason);
    if (!caller->entry) {
        caller_deny(caller, reason);
        return;
    }
    caller->state = CALLER_DIALING;
    dial_start(caller);
}

static void read_http(struct caller *caller)
{
    int status = 400;
    int r = request_parse(caller->head.data, caller->head.length, &caller->request, &status);

    if (r == -EAGAIN)
        return;
    uv_read_stop((uv_stream_t *)&caller->near);
    if (r < 0) {
        proxy_verdict(caller->box, false, "-", 0, "bad_request");
        caller_refuse(caller, status, SOCKS_FAILED, "this proxy cannot read that request");
        return;
    }
    decide(caller);
}

/* Few bytes, on a socket that has sent nothing yet: they fit, or the caller is not worth it. */
static bool say_greeting(struct caller *caller)
{
    static char greeting[] = {SOCKS_VERSION, 0};
    uv_buf_t part = uv_buf_init(greeting, sizeof(greeting));

    return uv_try_write((uv_stream_t *)&caller->near, &part, 1) == sizeof(greeting);
}

static void read_socks(struct caller *caller)
{
    const uint8_t *data = (const uint8_t *)caller->head.data;
    enum socks_reply reply = SOCKS_FAILED;
    int used;

    if (!caller->has_greeted) {
        used = socks_greeting(data, caller->head.length);
        if (used == -EAGAIN)
            return;
        if (used < 0 || !say_greeting(caller)) {
            caller_refuse(caller, 400, SOCKS_FAILED, "no such way to log in");
            return;
        }
        caller->has_greeted = true;
        buf_consume(&caller->head, (size_t)used);
    }
    used = socks_request((const uint8_t *)caller->head.data, caller->head.length,
                         &caller->request.host, &caller->request.port, &reply);
    if (used == -EAGAIN)
        return;
    uv_read_stop((uv_stream_t *)&caller->near);
    if (used < 0) {
        proxy_verdict(caller->box, false, "-", 0, "bad_request");
        caller_refuse(caller, 400, reply, "this proxy cannot read that request");
        return;
    }
    caller->request.is_connect = true;
    caller->request.head_bytes = (size_t)used;
    decide(caller);
}

/* ---- connected ---- */

/* True: the tunnel carries TLS for the requested name, or need not. */
static bool read_hello(struct caller *caller)
{
    const char *reason = NULL;
    int r = hello_check(caller->head.data, caller->head.length, &caller->request.host, &reason);

    if (r == -EAGAIN)
        return false;
    uv_read_stop((uv_stream_t *)&caller->near);
    if (r < 0) {
        proxy_verdict(caller->box, false, caller->request.host.name, caller->request.port, reason);
        caller_close(caller); /* inside a tunnel no error can be sent */
        return false;
    }
    return true;
}

static int say_connected(struct caller *caller)
{
    if (!caller->request.is_connect)
        return 0;
    if (caller->is_socks) {
        uint8_t data[SOCKS_REPLY_BYTES];

        socks_reply(SOCKS_DONE, data);
        return buf_append(&caller->down.rest, data, sizeof(data));
    }
    return buf_append_text(&caller->down.rest, "HTTP/1.1 200 Connection established\r\n\r\n");
}

/* The tunnel's answer has to be out before its first bytes can come. */
static int answer_tunnel(struct caller *caller)
{
    struct buf *rest = &caller->down.rest;
    int r = say_connected(caller);

    while (r == 0 && rest->length > 0) {
        uv_buf_t part = uv_buf_init(rest->data, (unsigned)rest->length);

        r = uv_try_write((uv_stream_t *)&caller->near, &part, 1);
        if (r > 0) {
            buf_consume(rest, (size_t)r);
            r = 0;
        }
    }
    return r;
}

/*
 * `head` now has what the far side gets first: for a tunnel the bytes after the caller's head, else
 * the rewritten request.
 */
void caller_connected(struct caller *caller)
{
    bool is_tls = caller->entry->is_tls || caller->request.port == 443;
    const struct upstream *upstream =
        caller->is_upstream ? &caller->box->proxy->settings.upstream : NULL;
    int r = answer_tunnel(caller);

    if (r == 0 && caller->request.is_connect) {
        buf_consume(&caller->head, caller->request.head_bytes);
    } else if (r == 0) {
        buf_clear(&caller->out);
        r = request_write(&caller->request, upstream, &caller->out);
        buf_consume(&caller->head, caller->request.head_bytes);
    }
    if (r < 0) {
        caller_close(caller);
        return;
    }
    if (!caller->request.is_connect || !is_tls) {
        relay_start(caller);
        return;
    }
    caller->state = CALLER_HELLO;
    caller_set_deadline(caller, caller->box->proxy->settings.patience.head_ms);
    if (read_hello(caller))
        relay_start(caller);
    else if (caller->state == CALLER_HELLO)
        uv_read_start((uv_stream_t *)&caller->near, caller_allocate, on_read);
}

/* ---- reading ---- */

static void more(struct caller *caller)
{
    if (caller->state == CALLER_HELLO) {
        if (read_hello(caller))
            relay_start(caller);
        return;
    }
    caller->is_socks = caller->has_greeted || caller->head.data[0] == SOCKS_VERSION;
    if (caller->is_socks)
        read_socks(caller);
    else
        read_http(caller);
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *chunk)
{
    struct caller *caller = stream->data;

    if (length == 0 || caller->state == CALLER_CLOSED)
        return;
    if (length < 0) {
        caller_close(caller);
        return;
    }
    if (caller->state == CALLER_LEAVING) {
        caller->up.dropped += (uint64_t)length;
        if (caller->up.dropped > LIMIT_EGRESS_DROP)
            caller_close(caller);
        return;
    }
    if (buf_append(&caller->head, chunk->base, (size_t)length) < 0)
        caller_close(caller);
    else
        more(caller);
}

/* ---- the beginning ---- */

static struct caller *caller_new(struct box *box)
{
    struct caller *caller = calloc(1, sizeof(*caller));

    if (!caller)
        return NULL;
    caller->box = box;
    /* After a head there may be as many bytes as one read takes. */
    caller->head = BUF_INIT(LIMIT_EGRESS_HEAD + SCRATCH_BYTES);
    caller->out = BUF_INIT(2 * LIMIT_EGRESS_HEAD + SCRATCH_BYTES);
    caller->up.rest = BUF_INIT(2 * LIMIT_EGRESS_HEAD + 2 * SCRATCH_BYTES);
    caller->down.rest = caller->up.rest;
    caller->near.data = caller->far.data = caller->timer.data = caller;
    uv_tcp_init(&box->proxy->loop, &caller->near);
    uv_timer_init(&box->proxy->loop, &caller->timer);
    caller->open_handles = 2;
    DLIST_PUSH(box->callers, caller);
    box->caller_count++;
    box->proxy->caller_count++;
    box->connections++;
    return caller;
}

void caller_accept(struct box *box)
{
    struct caller *caller = caller_new(box);

    if (!caller) {
        log_warning("egress: out of memory, box %u waits", (unsigned)box->number);
        return;
    }
    if (uv_accept((uv_stream_t *)&box->listener, (uv_stream_t *)&caller->near) < 0 ||
        uv_read_start((uv_stream_t *)&caller->near, caller_allocate, on_read) < 0) {
        caller_close(caller);
        return;
    }
    uv_tcp_nodelay(&caller->near, 1);
    caller_set_deadline(caller, box->proxy->settings.patience.head_ms);
}
