/* reply.c - a request's reply: whole, or made while it is sent. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "http/http_private.h"
#include "http/tunnel.h"
#include "http/websocket.h"

/* Bytes that more() is asked for at once. Measured from 64 to 512 KiB: no difference that repeats.
 */
#define REPLY_BLOCK (128 * KIB)
/*
 * The same for a chunked reply. Chunks are made in the connection's own memory, and the block is
 * allocated, cleared and never used, for as long as the stream lasts: 64 of the 100 MB that 500 of
 * them had.
 */
#define CHUNKED_BLOCK (4 * KIB)

/* Replies up to this size do not count as held, so that an error can always be sent. */
#define SHORT_REPLY (64 * KIB)

static void add_header(struct MHD_Response *response, const char *header)
{
    const char *colon = strchr(header, ':');
    char name[128];

    if (!colon || (size_t)(colon - header) >= sizeof(name))
        return;
    str_format(name, sizeof(name), "%.*s", (int)(colon - header), header);
    colon++;
    /* A value that could end the line is refused by libmicrohttpd. */
    MHD_add_response_header(response, name, colon + strspn(colon, " "));
}

/* Takes the response, NULL included: then there was no memory and the connection is closed. */
void http_request_answer(struct http_request *request, unsigned status, const char *type,
                         const char *const *headers, struct MHD_Response *response)
{
    request->was_answered = true;
    request->taker = NULL;
    request->status = status;
    if (!response) {
        http_request_lose(request);
        return;
    }
    if (type)
        MHD_add_response_header(response, "Content-Type", type);
    for (; headers && *headers; headers++)
        add_header(response, *headers);
    if (request->must_close ||
        (!request->websocket && !request->tunnel && !http_share_keep(request->link)))
        MHD_add_response_header(response, "Connection", "close");
    http_request_let_page(request, response);
    if (request->id[0])
        MHD_add_response_header(response, "X-Request-Id", request->id);
    request->response = response;
    if (!http_refusal_delay(request))
        http_request_wake(request);
}

/*
 * Counts a reply of so many bytes until it is sent; short ones always are. False: too much waits to
 * be read, and that was answered instead.
 */
static bool may_hold(struct http_request *request, size_t length)
{
    int r;

    http_request_give(request, &request->held_body); /* what it asked for is done */
    if (length <= SHORT_REPLY)
        return true;
    r = http_request_take(request, &request->held_reply, length);
    if (r < 0)
        http_request_refuse_held(request, r);
    return r == 0;
}

void http_reply_text(struct http_request *request, unsigned status, const char *type,
                     const char *const *headers, struct buf *text)
{
    size_t length = text->length;
    struct MHD_Response *response;
    char *data;

    if (length <= SHORT_REPLY || request->is_early_reply) {
        http_reply(request, status, type, headers, buf_text(text), length);
        return;
    }
    if (request->was_answered || request->is_gone)
        return;
    http_request_keep(request, status, type, buf_text(text), length);
    if (!may_hold(request, length))
        return;
    data = realloc(text->data, length); /* it grew by doubling */
    data = data ? data : text->data;
    text->data = NULL;
    buf_free(text);
    http_request_sent(request, length);
    response = MHD_create_response_from_buffer(length, data, MHD_RESPMEM_MUST_FREE);
    if (!response)
        free(data);
    http_request_answer(request, status, type, headers, response);
}

void http_reply(struct http_request *request, unsigned status, const char *type,
                const char *const *headers, const void *data, size_t length)
{
    if (request->was_answered || request->is_gone)
        return;
    http_request_keep(request, status, type, length > 0 ? data : "", length);
    if (!may_hold(request, length))
        return;
    http_request_sent(request, length);
    http_request_answer(request, status, type, headers,
                        MHD_create_response_from_buffer(
                            length, length > 0 ? (void *)data : (void *)"", MHD_RESPMEM_MUST_COPY));
    if (request->is_early_reply)
        http_request_reply_early(request, data, length);
}

void http_request_refuse(struct http_request *request, unsigned status, const char *why)
{
    const struct http_server_spec *spec = &request->server->spec;

    if (spec->refuse)
        spec->refuse(request, status, why, spec->ctx);
    else
        http_reply(request, status, "text/plain", NULL, why, strlen(why));
}

void http_request_refuse_held(struct http_request *request, int num)
{
    if (num == -EDQUOT)
        http_request_refuse(request, 429,
                            "requests that are not answered yet and replies that are not read yet "
                            "take too much memory of this tenant's share; finish some of them "
                            "first");
    else
        http_request_refuse(request, 503,
                            "requests that are not answered yet and replies that are not read yet "
                            "take too much memory of the server; try again later");
}

static ssize_t on_more(void *cls, uint64_t position, char *data, size_t size)
{
    struct http_request *request = cls;
    struct http_server *server = request->server;
    struct link *link = request->link;
    long count;

    (void)position;
    if (request->is_gone)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (http_turn_wait(link)) {
        http_request_pause(request);
        return 0;
    }
    http_turn_begin(server);
    do {
        request->was_called_on = false;
        count = request->source.more(request->source_ctx, data, size);
    } while (count == 0 && request->was_called_on && !request->is_gone);
    http_turn_end(server, link);
    if (request->is_gone)
        return MHD_CONTENT_READER_END_WITH_ERROR; /* by what it called */
    if (count == HTTP_END && !request->has_length)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (count < 0 || (size_t)count > size) /* or it has ended before its length */
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (count == 0)
        http_request_pause(request);
    http_request_sent(request, (uint64_t)count);
    return count;
}

static size_t block_size(const struct http_request *request, int64_t length)
{
    if (length >= 0)
        return (size_t)MIN(MAX((uint64_t)length, CHUNKED_BLOCK), REPLY_BLOCK);
    return request->is_old ? REPLY_BLOCK : CHUNKED_BLOCK;
}

void http_reply_stream(struct http_request *request, unsigned status, const char *type,
                       const char *const *headers, int64_t length, const struct http_source *source,
                       void *ctx)
{
    if (request->was_answered || request->is_gone) {
        source->freed(ctx);
        return;
    }
    http_request_keep(request, status, type, NULL, 0);
    request->source = *source;
    request->source_ctx = ctx;
    request->has_length = length >= 0;
    if (request->stop && source->stop)
        source->stop(ctx, request->stop);
    http_request_answer(
        request, status, type, headers,
        MHD_create_response_from_callback(length < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)length,
                                          block_size(request, length), on_more, request, NULL));
}

void http_reply_more(struct http_request *request)
{
    request->was_called_on = true;
    if (request->was_queued)
        http_request_wake(request);
}

void http_stop(struct http_request *request, const struct error *why)
{
    if (request->is_gone || request->stop)
        return;
    request->stop = why;
    if (request->websocket)
        websocket_close(request->websocket, 1008, why->text);
    else if (request->tunnel)
        http_tunnel_close(request->tunnel);
    else if (request->source.stop)
        request->source.stop(request->source_ctx, why);
}

enum MHD_Result http_request_queue(struct http_request *request)
{
    struct MHD_Response *response = ptr_take(&request->response);
    enum MHD_Result result = MHD_queue_response(request->connection, request->status, response);

    MHD_destroy_response(response); /* the queue has its own reference */
    request->was_queued = result == MHD_YES;
    return result;
}
