/* first_byte.c - HTTPS and plain HTTP on one address; see first_byte.h. */
#include "http/first_byte.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"

#define TLS_HANDSHAKE 0x16
#define ACCEPTS 64  /* in one turn of the loop */
#define REST_MS 100 /* when there is no descriptor or no memory for another connection */

/* A connection that has said nothing yet. */
struct silent {
    struct silent *next, *previous; /* the newest first */
    struct first_byte *first_byte;
    struct reactor_watch *watch;
    int fd;
    uint64_t until_ms;
    struct sockaddr_storage from;
    socklen_t length;
};

struct first_byte {
    struct first_byte_spec spec;
    struct reactor_watch *watch;
    struct reactor_timer *timer; /* the oldest one's time is over, or the rest is */
    struct silent *silent;
    unsigned count;
    bool rests;
};

bool first_byte_is_tls(uint8_t byte)
{
    return byte == TLS_HANDSHAKE;
}

/* Does not close the descriptor. */
static void silent_free(struct silent *silent)
{
    struct first_byte *first_byte = silent->first_byte;

    first_byte->spec.reactor->ops->watch_remove(silent->watch);
    DLIST_UNLINK(first_byte->silent, silent);
    first_byte->count--;
    free(silent);
}

static struct silent *oldest_of(const struct first_byte *first_byte)
{
    struct silent *silent = first_byte->silent;

    while (silent && silent->next)
        silent = silent->next;
    return silent;
}

static void set_timer(struct first_byte *first_byte)
{
    const struct silent *oldest = oldest_of(first_byte);
    uint64_t now_ms = clock_now_ms(), wait_ms = UINT64_MAX;

    if (oldest)
        wait_ms = oldest->until_ms - MIN(now_ms, oldest->until_ms);
    if (first_byte->rests)
        wait_ms = MIN(wait_ms, (uint64_t)REST_MS);
    first_byte->spec.reactor->ops->timer_set(first_byte->timer, wait_ms);
}

static void drop(struct silent *silent)
{
    close(silent->fd);
    silent_free(silent);
}

static void on_due(void *ctx)
{
    struct first_byte *first_byte = ctx;
    struct silent *oldest;

    while ((oldest = oldest_of(first_byte)) && oldest->until_ms <= clock_now_ms())
        drop(oldest);
    if (first_byte->rests) {
        first_byte->rests = false;
        first_byte->spec.reactor->ops->watch_change(first_byte->watch, POLLIN);
    }
    set_timer(first_byte);
}

/* 1: it is there; 0: not yet; -1: there will be none. */
static int peek(int fd, uint8_t *ret)
{
    ssize_t count = recv(fd, ret, 1, MSG_PEEK | MSG_DONTWAIT);

    if (count == 1)
        return 1;
    return count < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

static void on_said(void *ctx, short events)
{
    struct silent *silent = ctx;
    struct first_byte *first_byte = silent->first_byte;
    struct sockaddr_storage from = silent->from;
    socklen_t length = silent->length;
    uint8_t byte;
    int fd = silent->fd, r = peek(fd, &byte);

    (void)events;
    if (r == 0)
        return;
    silent_free(silent);
    if (r < 0)
        close(fd);
    else
        first_byte->spec.accepted(first_byte->spec.ctx, fd, first_byte_is_tls(byte),
                                  (const struct sockaddr *)&from, length);
}

/* False: it is not kept, and the descriptor is the caller's. */
static bool wait_for(struct first_byte *first_byte, int fd, const struct sockaddr_storage *from,
                     socklen_t length)
{
    struct silent *silent = calloc(1, sizeof(*silent));

    if (!silent)
        return false;
    *silent = (struct silent){.first_byte = first_byte,
                              .fd = fd,
                              .from = *from,
                              .length = length,
                              .until_ms = clock_now_ms() + first_byte->spec.wait_ms};
    silent->watch = reactor_watch(first_byte->spec.reactor, fd, POLLIN, on_said, silent);
    if (!silent->watch) {
        free(silent);
        return false;
    }
    if (first_byte->count == FIRST_BYTE_MAX)
        drop(oldest_of(first_byte));
    DLIST_PUSH(first_byte->silent, silent);
    first_byte->count++;
    set_timer(first_byte);
    return true;
}

static void take(struct first_byte *first_byte, int fd, const struct sockaddr_storage *from,
                 socklen_t length)
{
    uint8_t byte;
    int r = peek(fd, &byte);

    if (r > 0)
        first_byte->spec.accepted(first_byte->spec.ctx, fd, first_byte_is_tls(byte),
                                  (const struct sockaddr *)from, length);
    else if (r < 0 || !wait_for(first_byte, fd, from, length))
        close(fd);
}

static void on_listener(void *ctx, short events)
{
    struct first_byte *first_byte = ctx;

    (void)events;
    for (int i = 0; i < ACCEPTS; i++) {
        struct sockaddr_storage from = {0};
        socklen_t length = sizeof(from);
        int fd = accept4(first_byte->spec.listen_fd, (struct sockaddr *)&from, &length,
                         SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            take(first_byte, fd, &from, length);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            first_byte->rests = true; /* the connection waits in the kernel */
            first_byte->spec.reactor->ops->watch_change(first_byte->watch, 0);
            set_timer(first_byte);
            return;
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return;
        }
    }
}

struct first_byte *first_byte_new(const struct first_byte_spec *spec)
{
    struct first_byte *first_byte = calloc(1, sizeof(*first_byte));

    if (!first_byte)
        return NULL;
    first_byte->spec = *spec;
    first_byte->timer = reactor_timer(spec->reactor, on_due, first_byte);
    first_byte->watch =
        reactor_watch(spec->reactor, spec->listen_fd, POLLIN, on_listener, first_byte);
    if (first_byte->timer && first_byte->watch)
        return first_byte;
    first_byte_free(first_byte);
    return NULL;
}

void first_byte_free(struct first_byte *first_byte)
{
    if (!first_byte)
        return;
    while (first_byte->silent)
        drop(first_byte->silent);
    first_byte->spec.reactor->ops->watch_remove(first_byte->watch);
    first_byte->spec.reactor->ops->timer_remove(first_byte->timer);
    free(first_byte);
}
