/*
 * dial.c - from a listed name to a connection: resolved once, every address judged, the judged ones
 * tried in turn; or through the operator's upstream proxy. See egress.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "egress/egress_private.h"

static void try_next(struct caller *caller);

/*
 * Is it an address of this host? Connecting a datagram socket sends nothing, and gives it the
 * address that packets would leave from: for an own address, that one.
 */
static bool is_own(const struct address *address)
{
    CLEANUP(fd_closep) int fd = -1;
    struct sockaddr_storage to, from = {0};
    socklen_t size = sizeof(from);
    struct address own;

    address_to_socket(address, 9, &to);
    fd = socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ||
        getsockname(fd, (struct sockaddr *)&from, &size) < 0)
        return false; /* then it cannot be reached either */
    return address_from_socket((struct sockaddr *)&from, &own) && address_equal(&own, address);
}

/* ---- connecting ---- */

static void give_up(struct caller *caller, int status, const char *why)
{
    log_info("egress: box %u: %s:%u could not be reached: %s", (unsigned)caller->box->number,
             caller->request.host.name, caller->request.port, why);
    caller_refuse(caller, status, SOCKS_UNREACHABLE, "%s:%u could not be reached: %s",
                  caller->request.host.name, caller->request.port, why);
}

static void on_far_closed(uv_handle_t *handle)
{
    struct caller *caller = handle->data;

    if (caller->state == CALLER_DIALING)
        try_next(caller);
    caller_release(caller);
}

/* The handle cannot be used again before it has closed. */
static void drop_far(struct caller *caller)
{
    if (!caller->has_far)
        return;
    caller->has_far = false;
    uv_close((uv_handle_t *)&caller->far, on_far_closed);
}

static void on_upstream_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *chunk)
{
    struct caller *caller = stream->data;
    size_t head_bytes = 0;
    int status = 0, r;

    if (length == 0 || caller->state != CALLER_DIALING)
        return;
    r = length < 0 ? -EPROTO : buf_append(&caller->out, chunk->base, (size_t)length);
    if (r == 0)
        r = answer_parse(caller->out.data, caller->out.length, &status, &head_bytes);
    if (r == -EAGAIN)
        return;
    uv_read_stop(stream);
    if (r < 0 || status < 200 || status > 299) {
        log_warning("egress: the upstream proxy answered %d for %s:%u", status,
                    caller->request.host.name, caller->request.port);
        caller_refuse(caller, 502, SOCKS_UNREACHABLE, "the upstream proxy answered %d", status);
        return;
    }
    buf_consume(&caller->out, head_bytes); /* bytes after its answer come from the server already */
    caller->has_asked_upstream = true;
    caller_connected(caller);
}

static void on_upstream_asked(uv_write_t *write, int status)
{
    struct caller *caller = write->data;

    if (caller->state != CALLER_DIALING)
        return;
    buf_clear(&caller->out);
    if (status < 0 ||
        uv_read_start((uv_stream_t *)&caller->far, caller_allocate, on_upstream_read) < 0)
        give_up(caller, 502, "the upstream proxy hung up");
}

/* A tunnel through a proxy is asked for as our callers ask for one. */
static void ask_upstream(struct caller *caller)
{
    uv_buf_t part;

    buf_clear(&caller->out);
    if (request_write(&caller->request, &caller->box->proxy->settings.upstream, &caller->out) < 0) {
        caller_close(caller);
        return;
    }
    part = uv_buf_init(caller->out.data, (unsigned)caller->out.length);
    caller->write.data = caller;
    if (uv_write(&caller->write, (uv_stream_t *)&caller->far, &part, 1, on_upstream_asked) < 0)
        give_up(caller, 502, "the upstream proxy hung up");
}

static void on_connect(uv_connect_t *connect, int status)
{
    struct caller *caller = connect->data;

    if (caller->state != CALLER_DIALING || status == UV_ECANCELED)
        return;
    if (status < 0) {
        drop_far(caller);
        return;
    }
    uv_tcp_nodelay(&caller->far, 1);
    if (caller->is_upstream && caller->request.is_connect)
        ask_upstream(caller);
    else
        caller_connected(caller);
}

static void try_next(struct caller *caller)
{
    struct sockaddr_storage to;

    if (caller->address_next == caller->address_count) {
        give_up(caller, 502, "no address answered");
        return;
    }
    address_to_socket(&caller->addresses[caller->address_next++], caller->dial_port, &to);
    uv_tcp_init(&caller->box->proxy->loop, &caller->far);
    caller->far.data = caller;
    caller->open_handles++;
    caller->has_far = true;
    caller->connect.data = caller;
    caller_set_deadline(caller, caller->box->proxy->settings.patience.dial_ms);
    if (uv_tcp_connect(&caller->connect, &caller->far, (struct sockaddr *)&to, on_connect) < 0)
        drop_far(caller);
}

void dial_timed_out(struct caller *caller)
{
    if (caller->is_resolving) {
        give_up(caller, 504, "its name was not resolved in time");
    } else if (caller->has_far) {
        drop_far(caller);
    }
}

/* ---- resolving ---- */

static void add_address(struct caller *caller, const struct address *address)
{
    for (size_t i = 0; i < caller->address_count; i++)
        if (address_equal(&caller->addresses[i], address))
            return;
    if (caller->address_count < LIMIT_EGRESS_ADDRESSES)
        caller->addresses[caller->address_count++] = *address;
}

/* All of them or none: a name that also has a forbidden address is not trusted. */
static void judge(struct caller *caller)
{
    for (size_t i = 0; i < caller->address_count && !caller->is_upstream; i++) {
        const struct address *address = &caller->addresses[i];
        const char *reason = policy_refuses(caller->box->policy, caller->entry, address,
                                            caller->request.port, is_own(address));

        if (reason) {
            caller_deny(caller, reason);
            return;
        }
    }
    proxy_verdict(caller->box, true, caller->request.host.name, caller->request.port, "listed");
    try_next(caller);
}

static void on_resolved(uv_getaddrinfo_t *resolve, int status, struct addrinfo *list)
{
    struct caller *caller = resolve->data;

    caller->is_resolving = false;
    if (caller->state == CALLER_DIALING) {
        for (struct addrinfo *at = list; at; at = at->ai_next) {
            struct address address;

            if (address_from_socket(at->ai_addr, &address))
                add_address(caller, &address);
        }
        if (caller->address_count > 0)
            judge(caller);
        else
            give_up(caller, 502,
                    caller->is_upstream ? "the upstream proxy's name cannot be resolved"
                    : status < 0        ? uv_strerror(status)
                                        : "the name has no address");
    }
    uv_freeaddrinfo(list);
    caller_release(caller);
}

static void resolve(struct caller *caller, const struct host *host)
{
    static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

    caller->resolve.data = caller;
    caller->open_handles++;
    caller->is_resolving = true;
    caller_set_deadline(caller, caller->box->proxy->settings.patience.dial_ms);
    if (uv_getaddrinfo(&caller->box->proxy->loop, &caller->resolve, on_resolved, host->name, NULL,
                       &hints) < 0) {
        caller->is_resolving = false;
        caller->open_handles--;
        give_up(caller, 502, "its name could not be resolved");
    }
}

void dial_start(struct caller *caller)
{
    const struct upstream *upstream = &caller->box->proxy->settings.upstream;
    const struct host *host = &caller->request.host;

    caller->is_upstream = upstream->is_set && !caller->entry->is_direct;
    caller->dial_port = caller->request.port;
    if (caller->is_upstream) {
        host = &upstream->host;
        caller->dial_port = upstream->port;
    }
    if (!host->is_address) {
        resolve(caller, host);
        return;
    }
    caller->addresses[caller->address_count++] = host->address;
    judge(caller);
}
