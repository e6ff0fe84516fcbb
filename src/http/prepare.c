/*
 * prepare.c - a large body is read in a thread, before its handler is called; see server.h.
 *
 * Reading 15 MiB of JSON takes up to 75 ms of a processor, in which the loop would answer no
 * request. One body of a server at a time, the others wait in a queue (base/worker.h): more threads
 * would take the processor from the loop. A request that leaves meanwhile leaves its body behind,
 * which counts as held until the thread is done with it.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/held.h"
#include "base/str.h"
#include "base/worker.h"
#include "http/http_private.h"

#define PREPARE_MIN (256 * KIB) /* of a body; less is read in the time that a thread takes */

struct http_prepare {
    struct http_server *server;
    struct http_request *request; /* NULL: it left */
    const void *row;
    struct buf body;
    void *result;
    size_t held; /* of the request that left */
    char tenant[64];
};

static void read_body(void *ctx)
{
    struct http_prepare *prepare = ctx;

    prepare->result =
        prepare->server->spec.prepare(prepare->row, buf_text(&prepare->body), prepare->body.length);
}

/* Its request goes on. */
static void finish(void *ctx)
{
    struct http_prepare *prepare = ctx;
    struct http_server *server = prepare->server;
    struct http_request *request = prepare->request;

    if (request) {
        request->prepare = NULL;
        request->body = prepare->body;
        request->prepared = ptr_take(&prepare->result);
        prepare->body = (struct buf){0};
    }
    if (prepare->result)
        server->spec.unprepare(prepare->result);
    held_give(server->spec.held, prepare->tenant, prepare->held);
    buf_free(&prepare->body);
    free(prepare);
    if (request)
        http_request_wake(request); /* libmicrohttpd calls on_request() again */
}

bool http_prepare_start(struct http_request *request)
{
    struct http_server *server = request->server;
    struct http_prepare *prepare;

    if (request->was_prepared || !server->spec.prepare || !request->match.route ||
        request->body.length < PREPARE_MIN)
        return request->prepare;
    prepare = calloc(1, sizeof(*prepare));
    if (!prepare)
        return false;
    *prepare = (struct http_prepare){
        .server = server, .request = request, .row = http_row(request), .body = request->body};
    if (!worker_do(server->worker, read_body, finish, prepare)) {
        free(prepare);
        return false;
    }
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
