/* proxy.c - the proxy's main loop: settings, boxes that are added and removed, verdicts. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "egress/egress.h"
#include "egress/egress_private.h"

#define SETTINGS_MAX (1 * MIB)
#define BACKLOG 64
#define OTHER_DESCRIPTORS 32 /* the loop's, the launcher's, those of getaddrinfo(3) */

static void on_control(uv_poll_t *poll, int status, int events);

/* ---- verdicts ---- */

static void watch_control(struct proxy *proxy)
{
    uv_poll_start(&proxy->control, UV_READABLE | (proxy->queue_count > 0 ? UV_WRITABLE : 0),
                  on_control);
}

static void flush(struct proxy *proxy)
{
    while (proxy->queue_count > 0) {
        int r = egress_send(EGRESS_CONTROL_FD, &proxy->queue[proxy->queue_first], -1);

        if (r == 0)
            break;
        proxy->queue_first = (proxy->queue_first + 1) % LIMIT_EGRESS_QUEUE;
        proxy->queue_count--;
    }
    watch_control(proxy);
}

static void tell(struct box *box, const struct egress_verdict *verdict)
{
    struct proxy *proxy = box->proxy;

    if (proxy->queue_count == LIMIT_EGRESS_QUEUE) {
        log_warning("egress: the launcher does not read, continuing without telling it");
        return;
    }
    proxy->queue[(proxy->queue_first + proxy->queue_count++) % LIMIT_EGRESS_QUEUE] =
        (struct egress_message){.type = EGRESS_VERDICT, .number = box->number, .verdict = *verdict};
    flush(proxy);
}

void proxy_verdict(struct box *box, bool is_allowed, const char *host, uint16_t port,
                   const char *reason)
{
    struct egress_verdict verdict = {.is_allowed = is_allowed, .port = port};

    if (box->verdict_count > LIMIT_EGRESS_VERDICTS)
        return;
    if (box->verdict_count++ == LIMIT_EGRESS_VERDICTS) {
        host = "-";
        reason = "too_many_to_tell";
        verdict.is_allowed = false;
        verdict.port = 0;
    }
    str_copy(verdict.host, sizeof(verdict.host), host);
    str_copy(verdict.reason, sizeof(verdict.reason), reason);
    log_write(verdict.is_allowed ? LOG_INFO : LOG_WARNING, "egress: box %u: %s %s:%u (%s)",
              (unsigned)box->number, verdict.is_allowed ? "allowed" : "refused", host,
              (unsigned)verdict.port, reason);
    tell(box, &verdict);
}

/* ---- boxes ---- */

static void box_free(struct box *box)
{
    struct proxy *proxy = box->proxy;

    for (size_t i = 0; i < LIMIT_EGRESS_BOXES; i++)
        if (proxy->boxes[i] == box)
            proxy->boxes[i] = NULL;
    log_info("egress: box %u is gone: %llu connections, %llu bytes out, %llu bytes in",
             (unsigned)box->number, (unsigned long long)box->connections,
             (unsigned long long)box->up_bytes, (unsigned long long)box->down_bytes);
    free(box);
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct box *box = handle->data;

    handle->data = NULL;
    if (box->caller_count == 0)
        box_free(box);
}

static bool has_place(const struct box *box)
{
    return box->caller_count < LIMIT_EGRESS_CALLERS &&
           box->proxy->caller_count < box->proxy->caller_max;
}

/* Another box's connection may wait for the slot that this box has released. */
static void let_in(struct proxy *proxy)
{
    for (size_t i = 0; i < LIMIT_EGRESS_BOXES; i++) {
        struct box *box = proxy->boxes[i];

        if (box && !box->is_closing && box->has_waiting && has_place(box)) {
            box->has_waiting = false;
            caller_accept(box);
        }
    }
}

void proxy_has_room(struct box *box)
{
    struct proxy *proxy = box->proxy;

    box->caller_count--;
    proxy->caller_count--;
    if (box->is_closing && box->caller_count == 0 && !box->listener.data)
        box_free(box);
    let_in(proxy);
}

static void box_close(struct box *box)
{
    if (box->is_closing)
        return;
    box->is_closing = true;
    for (struct caller *caller = box->callers; caller; caller = caller->next)
        caller_close(caller);
    uv_close((uv_handle_t *)&box->listener, on_listener_closed);
}

/* A connection without a free slot stays where it is: libuv takes no other until it is accepted. */
static void on_connection(uv_stream_t *listener, int status)
{
    struct box *box = listener->data;

    if (status < 0)
        log_warning("egress: box %u: %s", (unsigned)box->number, uv_strerror(status));
    else if (!has_place(box))
        box->has_waiting = true;
    else
        caller_accept(box);
}

static bool is_listening(int fd)
{
    int value = 0, domain = 0;
    socklen_t size = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &value, &size) == 0 && value == 1 &&
           getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 &&
           (domain == AF_INET || domain == AF_INET6);
}

static struct box **find_box(struct proxy *proxy, uint32_t number, bool wants_free)
{
    for (size_t i = 0; i < LIMIT_EGRESS_BOXES; i++) {
        struct box *box = proxy->boxes[i];

        if (wants_free ? !box : box && !box->is_closing && box->number == number)
            return &proxy->boxes[i];
    }
    return NULL;
}

static void box_add(struct proxy *proxy, const struct egress_message *message, int fd)
{
    CLEANUP(fd_closep) int own = fd;
    struct box **place = find_box(proxy, 0, true), *box;

    if (!place || !is_listening(fd) || find_box(proxy, message->number, false)) {
        log_warning("egress: box %u gets no network: %s", (unsigned)message->number,
                    place ? "its socket is not one that listens" : "too many boxes have one");
        return;
    }
    box = calloc(1, sizeof(*box));
    if (!box)
        return;
    box->proxy = proxy;
    box->number = message->number;
    box->policy = &proxy->settings.policies[message->policy];
    uv_tcp_init(&proxy->loop, &box->listener);
    box->listener.data = box;
    *place = box;
    if (fd_set_nonblocking(own, true) < 0 || uv_tcp_open(&box->listener, own) < 0) {
        box_close(box);
        return;
    }
    fd_take(&own);
    if (uv_listen((uv_stream_t *)&box->listener, BACKLOG, on_connection) < 0)
        box_close(box);
}

/* ---- the launcher ---- */

static void on_control(uv_poll_t *poll, int status, int events)
{
    struct proxy *proxy = poll->data;
    struct egress_message message;
    struct box **box;
    int fd = -1, r;

    (void)status;
    if (events & UV_WRITABLE)
        flush(proxy);
    while ((r = egress_receive(EGRESS_CONTROL_FD, &message, &fd)) > 0) {
        if (message.type == EGRESS_ADD) {
            box_add(proxy, &message, fd);
        } else if (message.type == EGRESS_REMOVE) {
            box = find_box(proxy, message.number, false);
            if (box)
                box_close(*box);
        }
        fd = -1;
    }
    if (r < 0)
        uv_stop(&proxy->loop); /* the launcher has gone */
}

static int read_settings(struct proxy *proxy, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(SETTINGS_MAX);
    int r;

    lseek(EGRESS_SETTINGS_FD, 0, SEEK_SET); /* one before us has read it */
    r = buf_read_fd(&text, EGRESS_SETTINGS_FD);
    close(EGRESS_SETTINGS_FD);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "reading the egress proxy's settings: %s",
                         strerror(-r));
    return egress_settings_read(buf_text(&text), text.length, &proxy->settings, err);
}

/*
 * As many as the process has descriptors for: one for each side of a caller, two for each box (its
 * listening socket, and the connection that waits), some for the loop and for getaddrinfo(3).
 * Without descriptors libuv would loop forever: its own spare for that is opened by its path, which
 * Landlock refuses.
 */
static unsigned most_callers(void)
{
    const rlim_t kept = 2 * LIMIT_EGRESS_BOXES + OTHER_DESCRIPTORS;
    const rlim_t most = LIMIT_EGRESS_BOXES * LIMIT_EGRESS_CALLERS;
    struct rlimit limit = {0};

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur < kept + 2)
        return 1;
    return (unsigned)MIN((limit.rlim_cur - kept) / 2, most);
}

static int open_all(struct proxy *proxy, struct error *err)
{
    int r = read_settings(proxy, err);

    if (r < 0)
        return r;
    proxy->queue = calloc(LIMIT_EGRESS_QUEUE, sizeof(*proxy->queue));
    if (!proxy->queue || uv_loop_init(&proxy->loop) < 0)
        return error_memory(err);
    proxy->control.data = proxy;
    r = fd_set_nonblocking(EGRESS_CONTROL_FD, true);
    if (r == 0)
        r = uv_poll_init(&proxy->loop, &proxy->control, EGRESS_CONTROL_FD);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "the egress proxy needs a socket at descriptor %d",
                         EGRESS_CONTROL_FD);
    fcntl(EGRESS_CONTROL_FD, F_SETFD, FD_CLOEXEC);
    proxy->caller_max = most_callers();
    return 0;
}

int egress_main(void)
{
    CLEANUP(freep) struct proxy *proxy = calloc(1, sizeof(*proxy));
    struct error err = {0};
    int r;

    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NAME, "egress");
    prctl(PR_SET_DUMPABLE, 0);
    if (!proxy)
        return 1;
    r = egress_confine_calls("the egress proxy", false, &err);
    if (r == 0)
        r = open_all(proxy, &err);
    if (r == 0)
        r = egress_confine_files("the egress proxy", &err);
    if (r < 0) {
        log_error("%s", err.text);
        return 1;
    }
    watch_control(proxy);
    uv_run(&proxy->loop, UV_RUN_DEFAULT);
    /*
     * The kernel closes what is open; freeing it one by one would be useless. So are handlers of
     * exit(3), which the filter may block (a leak check traces its own process).
     */
    _exit(0);
}
