/*
 * prepare.c - a large body is read in a thread, before its handler is called; see server.h.
 *
 * Reading 15 MiB of JSON takes up to 75 ms of a processor, in which the loop would answer no
 * request. One body of a server at a time, the others wait in a queue: more threads would take the
 * processor from the loop. The thread shares with the loop only a pipe, which it closes when it is
 * done, and the result that it wrote before. A request that leaves meanwhile leaves its body
 * behind, which counts as held until the thread is done with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/held.h"
#include "base/str.h"
#include "http/http_private.h"

#define PREPARE_MIN (256 * KIB) /* of a body; less is read in the time that a thread takes */

struct http_prepare {
    struct http_prepare *next;
    struct http_server *server;
    struct http_request *request; /* NULL: it left */
    const void *row;
    struct buf body;
    void *result;
    size_t held; /* of the request that left */
    char tenant[64];
    int pipe[2]; /* the thread has the second end */
    pthread_t thread;
    struct reactor_watch *watch;
    bool is_running;
};

static void *run(void *ctx)
{
    struct http_prepare *prepare = ctx;
    int fd = prepare->pipe[1];

    prepare->result =
        prepare->server->spec.prepare(prepare->row, buf_text(&prepare->body), prepare->body.length);
    close(fd); /* tells the loop that `result` is set; nothing is touched afterwards */
    return NULL;
}

static void on_closed(void *ctx, short events);

static bool start_thread(struct http_prepare *prepare)
{
    sigset_t all, before;
    int r;

    if (pipe2(prepare->pipe, O_CLOEXEC) < 0)
        return false;
    prepare->watch =
        reactor_watch(prepare->server->reactor, prepare->pipe[0], POLLIN, on_closed, prepare);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals go to the loop's thread */
    r = prepare->watch ? pthread_create(&prepare->thread, NULL, run, prepare) : ENOMEM;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    prepare->is_running = r == 0;
    if (prepare->is_running)
        return true;
    prepare->server->reactor->ops->watch_remove(ptr_take(&prepare->watch));
    fd_closep(&prepare->pipe[0]);
    fd_closep(&prepare->pipe[1]);
    return false;
}

static void prepare_free(struct http_prepare *prepare)
{
    struct http_server *server = prepare->server;

    if (prepare->result)
        server->spec.unprepare(prepare->result);
    held_give(server->spec.held, prepare->tenant, prepare->held);
    buf_free(&prepare->body);
    free(prepare);
}

/* It is read and no longer in the queue: its request goes on. */
static void finish(struct http_prepare *prepare)
{
    struct http_request *request = prepare->request;

    if (request) {
        request->prepare = NULL;
        request->body = prepare->body;
        request->prepared = ptr_take(&prepare->result);
        prepare->body = (struct buf){0};
    }
    prepare_free(prepare);
    if (request)
        http_request_wake(request); /* libmicrohttpd calls on_request() again */
}

/* A body for which there is no thread is read by its handler. */
static void begin_next(struct http_server *server)
{
    while (server->prepares && !start_thread(server->prepares)) {
        struct http_prepare *prepare = server->prepares;

        server->prepares = prepare->next;
        finish(prepare);
    }
}

static void join(struct http_prepare *prepare)
{
    pthread_join(prepare->thread, NULL);
    prepare->server->reactor->ops->watch_remove(ptr_take(&prepare->watch));
    fd_closep(&prepare->pipe[0]);
    prepare->is_running = false;
}

static void on_closed(void *ctx, short events)
{
    struct http_prepare *prepare = ctx;

    (void)events;
    join(prepare);
    prepare->server->prepares = prepare->next;
    begin_next(prepare->server);
    finish(prepare);
}

bool http_prepare_start(struct http_request *request)
{
    struct http_server *server = request->server;
    struct http_prepare *prepare, **at = &server->prepares;

    if (request->was_prepared || !server->spec.prepare || !request->match.route ||
        request->body.length < PREPARE_MIN)
        return request->prepare;
    prepare = calloc(1, sizeof(*prepare));
    if (!prepare)
        return false;
    *prepare = (struct http_prepare){.server = server,
                                     .request = request,
                                     .row = http_row(request),
                                     .body = request->body,
                                     .pipe = {-1, -1}};
    if (!server->prepares && !start_thread(prepare)) {
        free(prepare);
        return false;
    }
    while (*at)
        at = &(*at)->next;
    *at = prepare;
    request->prepare = prepare;
    request->was_prepared = true;
    request->body = (struct buf){.maximum = request->body.maximum};
    return true;
}

void http_prepare_leave(struct http_request *request)
{
    struct http_prepare *prepare = ptr_take(&request->prepare);

    if (request->prepared)
        request->server->spec.unprepare(ptr_take(&request->prepared));
    if (!prepare)
        return;
    prepare->request = NULL;
    prepare->held = request->held_body;
    request->held_body = 0;
    str_copy(prepare->tenant, sizeof(prepare->tenant), request->tenant);
}

void *http_prepared(const struct http_request *request)
{
    return request->prepared;
}

void http_prepares_stop(struct http_server *server)
{
    while (server->prepares) {
        struct http_prepare *prepare = server->prepares;

        server->prepares = prepare->next;
        if (prepare->is_running)
            join(prepare);
        prepare_free(prepare);
    }
}
