/* exchange.c - one request of a client and its reply, as libcurl sees it; see exchange.h. */
#include "http/exchange.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/limits.h"
#include "base/str.h"

/* What libcurl takes and gives at once. Measured: with 16 KiB an upload is a third as fast. */
#define BUFFER (512 * KIB)

/* Keeps a header line of the reply; what does not fit is not there when it is looked for. */
static void keep_header(struct http_exchange *exchange, const char *line, size_t length)
{
    const char *colon = memchr(line, ':', length);
    const char *value, *end = line + length;
    size_t before = exchange->headers.length;

    if (!colon || memchr(line, '\0', length))
        return;
    for (value = colon + 1; value < end && (*value == ' ' || *value == '\t'); value++)
        ;
    while (end > value && strchr("\r\n \t", end[-1]))
        end--;
    if (buf_append(&exchange->headers, line, (size_t)(colon - line)) < 0 ||
        buf_append(&exchange->headers, "", 1) < 0 ||
        buf_append(&exchange->headers, value, (size_t)(end - value)) < 0 ||
        buf_append(&exchange->headers, "", 1) < 0)
        exchange->headers.length = before;
}

const char *http_call_header(struct http_exchange *exchange, const char *name)
{
    const char *at = exchange->headers.data;
    const char *end;

    if (!at) /* no header came, or no reply at all */
        return NULL;
    end = at + exchange->headers.length;
    while (at < end) {
        const char *value = at + strlen(at) + 1;

        if (strcasecmp(at, name) == 0)
            return value;
        at = value + strlen(value) + 1;
    }
    return NULL;
}

/* Each header line, the status line and the empty line after them. */
static size_t on_header(char *line, size_t size, size_t count, void *ctx)
{
    struct http_exchange *exchange = ctx;
    size_t length = size * count;
    long status = 0;

    if (exchange->is_cancelled || length > LIMIT_HTTP_HEADERS - exchange->header_bytes)
        return 0;
    exchange->header_bytes += length;
    if (length > 5 && memcmp(line, "HTTP/", 5) == 0) {
        buf_clear(&exchange->headers); /* those before were of a 100 */
        return length;
    }
    if (line[0] != '\r' && line[0] != '\n') {
        if (!exchange->has_status)
            keep_header(exchange, line, length);
        return length;
    }
    curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200 || exchange->has_status)
        return length;
    exchange->has_status = exchange->client->has_answered = true;
    exchange->status = (unsigned)status;
    exchange->client->has_called_back = true;
    if (exchange->events->status)
        exchange->events->status(exchange->ctx, exchange->status);
    return exchange->is_cancelled ? 0 : length;
}

static size_t on_data(char *data, size_t size, size_t count, void *ctx)
{
    struct http_exchange *exchange = ctx;
    size_t length = size * count;

    if (exchange->is_cancelled)
        return 0;
    if (exchange->is_paused) {
        exchange->is_held = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    exchange->client->has_called_back = true;
    if (exchange->events->data && exchange->events->data(exchange->ctx, data, length) < 0)
        return 0;
    return exchange->is_cancelled ? 0 : length;
}

static size_t on_body_wanted(char *data, size_t size, size_t count, void *ctx)
{
    struct http_exchange *exchange = ctx;
    long length;

    if (exchange->is_cancelled)
        return CURL_READFUNC_ABORT;
    exchange->client->has_called_back = true;
    exchange->has_more_body = false;
    length = exchange->body_read(exchange->body_ctx, data, size * count);
    if (length == -EAGAIN && !exchange->is_cancelled) {
        exchange->waits_for_body = true;
        return CURL_READFUNC_PAUSE;
    }
    if (length < 0 || (size_t)length > size * count || exchange->is_cancelled)
        return CURL_READFUNC_ABORT;
    return (size_t)length;
}

static bool add_request_header(struct http_exchange *exchange, const char *header)
{
    struct curl_slist *list = curl_slist_append(exchange->request_headers, header);

    if (list)
        exchange->request_headers = list;
    return list;
}

static bool set_headers(struct http_exchange *exchange, const struct http_call *call)
{
    bool has_type = false;

    for (const char *const *header = call->headers; header && *header; header++) {
        if (strncasecmp(*header, "Content-Type:", 13) == 0)
            has_type = true;
        if (!add_request_header(exchange, *header))
            return false;
    }
    if (exchange->client->header && !add_request_header(exchange, exchange->client->header))
        return false;
    if (exchange->client->authorization &&
        !add_request_header(exchange, exchange->client->authorization))
        return false;
    /* libcurl would call a body that has no type a form. */
    if (!has_type && !add_request_header(exchange, "Content-Type:"))
        return false;
    return curl_easy_setopt(exchange->easy, CURLOPT_HTTPHEADER, exchange->request_headers) ==
           CURLE_OK;
}

static bool set_body(struct http_exchange *exchange, const struct http_call *call)
{
    CURL *easy = exchange->easy;
    CURLcode r;

    if (call->body_read) {
        exchange->body_read = call->body_read;
        exchange->body_ctx = call->body_ctx;
        r = curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_body_wanted);
        curl_easy_setopt(easy, CURLOPT_READDATA, exchange);
        curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->body_total);
    } else if (call->body) {
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_length);
        r = curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, call->body);
    } else {
        r = curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    }
    if (r != CURLE_OK)
        return false;
    if (str_equal(call->method, "HEAD"))
        return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L) == CURLE_OK;
    return curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, call->method) == CURLE_OK;
}

static bool set_target(struct http_exchange *exchange, const struct http_call *call)
{
    CURL *easy = exchange->easy;

    /*
     * On a connection that was used before, libcurl sends a request again by itself when the server
     * closes it without a byte (as a killed broker does): a command would run twice.
     */
    if (!call->may_repeat && !str_equal(call->method, "GET") && !str_equal(call->method, "HEAD")) {
        curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
        curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
    }
    if (call->timeout_ms)
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)call->timeout_ms);
    return client_place_apply(exchange->client, easy, call->path);
}

static bool set_up(struct http_exchange *exchange, const struct http_call *call)
{
    CURL *easy = exchange->easy;

    curl_easy_setopt(easy, CURLOPT_PRIVATE, exchange);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->why);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_data);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)BUFFER);
    curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, (long)BUFFER);
    return set_target(exchange, call) && set_body(exchange, call) && set_headers(exchange, call);
}

int exchange_new(struct http_client *client, const struct http_call *call,
                 const struct http_call_events *events, void *ctx, struct http_exchange **ret)
{
    struct http_exchange *exchange = calloc(1, sizeof(*exchange));

    if (!exchange)
        return -ENOMEM;
    exchange->client = client;
    exchange->events = events;
    exchange->ctx = ctx;
    exchange->headers = BUF_INIT(LIMIT_HTTP_HEADERS);
    exchange->easy = curl_easy_init();
    if (!exchange->easy || !set_up(exchange, call)) {
        exchange_free(exchange);
        return -ENOMEM;
    }
    *ret = exchange;
    return 0;
}

void exchange_free(struct http_exchange *exchange)
{
    curl_easy_cleanup(exchange->easy);
    curl_slist_free_all(exchange->request_headers);
    buf_free(&exchange->headers);
    free(exchange);
}

void exchange_end(struct http_exchange *exchange, CURLcode code)
{
    struct error err = {0};

    exchange->is_over = true;
    if (exchange->is_cancelled)
        return;
    if (code != CURLE_OK)
        client_curl_error(exchange->client, exchange->easy, code, exchange->why, &err);
    exchange->client->has_called_back = true;
    if (exchange->events->done)
        exchange->events->done(exchange->ctx, exchange->status, &err);
}
