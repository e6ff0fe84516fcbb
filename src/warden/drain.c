/*
 * drain.c - pipes that outlive their command: a server that a shell left behind continues to write
 * to them. The bytes are read and dropped, so that the writer neither blocks nor dies of SIGPIPE;
 * its command has ended, and no client is waiting for them.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/list.h"
#include "warden/warden_private.h"

#define READS_PER_TURN 4

struct drain {
    struct loop_source source; /* its first member */
    struct warden *warden;
    struct drain *next;
};

static void drain_free(struct drain *drain)
{
    struct warden *warden = drain->warden;
    int fd = drain->source.fd;

    LIST_UNLINK(warden->drains, drain);
    warden->drain_count--;
    loop_remove(&warden->loop, &drain->source);
    close(fd);
    free(drain);
}

static void drain_ready(struct loop_source *source, uint32_t events)
{
    static char nowhere[16384]; /* one thread */
    struct drain *drain = (struct drain *)source;

    (void)events;
    for (int i = 0; i < READS_PER_TURN; i++) {
        ssize_t length = read(source->fd, nowhere, sizeof(nowhere));

        if (length < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (length <= 0) {
            drain_free(drain);
            return;
        }
    }
}

void drain_take(struct warden *warden, int fd)
{
    struct drain *drain = calloc(1, sizeof(*drain));

    /* The newest matter: the last of the list is the oldest. */
    if (warden->drain_count >= LIMIT_COMMANDS) {
        struct drain *oldest = warden->drains;

        while (oldest->next)
            oldest = oldest->next;
        drain_free(oldest);
    }
    if (!drain) {
        close(fd);
        return;
    }
    drain->warden = warden;
    drain->source.fd = -1;
    drain->source.ready = drain_ready;
    if (loop_add(&warden->loop, &drain->source, fd, EPOLLIN) < 0) {
        close(fd);
        free(drain);
        return;
    }
    drain->next = warden->drains;
    warden->drains = drain;
    warden->drain_count++;
}
