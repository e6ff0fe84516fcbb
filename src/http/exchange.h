/*
 * exchange.h - one request of a client and its reply, as libcurl sees it. Shared by client.c and
 * exchange.c.
 *
 * libcurl does not let its callbacks add or remove exchanges, so both wait for client_settle(): a
 * new one is not added yet, a cancelled one is still there and says nothing any more.
 */
#ifndef BAILEY_HTTP_EXCHANGE_H
#define BAILEY_HTTP_EXCHANGE_H

#include <curl/curl.h>

#include "http/client.h"

struct http_client {
    CURLM *multi;
    char *socket_path;
    struct http_exchange *exchanges;
    bool has_called_back; /* in this http_client_wait() */
};

struct http_exchange {
    struct http_client *client;
    struct http_exchange *next;
    CURL *easy;
    struct curl_slist *request_headers;
    struct buf headers; /* of the reply: name NUL value NUL ... */
    const struct http_call_events *events;
    void *ctx;
    long (*body_read)(void *ctx, void *data, size_t size);
    void *body_ctx;
    unsigned status;
    bool is_added, is_cancelled, is_over, has_status;
    char why[CURL_ERROR_SIZE];
};

int exchange_new(struct http_client *client, const struct http_call *call,
                 const struct http_call_events *events, void *ctx, struct http_exchange **ret);
void exchange_free(struct http_exchange *exchange);               /* not added any more */
void exchange_end(struct http_exchange *exchange, CURLcode code); /* calls done() */

#endif
