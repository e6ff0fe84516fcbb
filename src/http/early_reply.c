/*
 * early_reply.c - a reply in the middle of a body without a Content-Length.
 *
 * libmicrohttpd (0.9.75) takes a reply before the first byte of a body or after its last one. A
 * chunked body that is too long may have no last one. So its reply is written past libmicrohttpd
 * (which sends nothing while it reads, so that the socket's buffer is empty), and we then shut down
 * our sending side: the client has the whole reply and the end of the connection at once.
 *
 * Closing then would reset the connection while the client is still sending, and a client that does
 * not read before it has sent everything would never see the reply. So a little more is read and
 * dropped (LIMIT_HTTP_EARLY_REPLY, and a time limit in timeouts.c) before the connection is closed.
 */
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "http/http_private.h"
#include "http/raw_conn.h"

/* A refusal is short, and so are its headers; what fits the socket's empty buffer. */
#define ANSWER_MAX (16 * KIB)

static enum MHD_Result add_field(void *cls, enum MHD_ValueKind kind, const char *name,
                                 const char *value)
{
    (void)kind;
    return buf_printf(cls, "%s: %s\r\n", name, value) == 0 ? MHD_YES : MHD_NO;
}

static int write_answer(const struct http_request *request, struct MHD_Response *response,
                        const void *data, size_t length, struct buf *text)
{
    time_t now = time(NULL);
    struct tm parts;
    char date[64];
    int r = buf_printf(text, "HTTP/1.1 %u %s\r\n", request->status,
                       MHD_get_reason_phrase_for(request->status));

    gmtime_r(&now, &parts);
    strftime(date, sizeof(date), "%a, %d %b %Y %H:%M:%S GMT", &parts); /* the C locale's names */
    if (r == 0)
        r = buf_printf(text, "Date: %s\r\nContent-Length: %zu\r\n", date, length);
    if (r == 0)
        MHD_get_response_headers(response, add_field, text);
    if (r == 0)
        r = buf_append_text(text, "\r\n");
    if (r == 0 && !str_equal(request->method, "HEAD"))
        r = buf_append(text, data, length);
    return r;
}

void http_request_reply_early(struct http_request *request, const void *data, size_t length)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(ANSWER_MAX);
    struct MHD_Response *response = ptr_take(&request->response);
    struct raw_conn conn = raw_conn_of(request->connection);

    if (!response)
        return; /* there was no memory, and it is closed */
    request->early_reply_ms = clock_now_ms();
    /* What does not fit is not waited for: the client sees the end of the connection alone. */
    if (write_answer(request, response, data, length, &text) == 0)
        (void)raw_conn_send(&conn, text.data, text.length);
    raw_conn_shut(&conn);
    MHD_destroy_response(response);
}
