/*
 * exchange.h - one request of a client and its reply, as libcurl sees it. Shared by the files of
 * the client.
 *
 * libcurl does not let its callbacks add or remove exchanges, so both wait for client_settle(): a
 * new one is not added yet, a cancelled one is still there and says nothing any more.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_EXCHANGE_H
#define BAILEY_HTTP_EXCHANGE_H

#include <curl/curl.h>

#include "http/client.h"

struct http_socket;
struct http_stream;
struct http_client {
    CURLM *multi;
    char *socket_path; /* NULL: TCP */
    char *base;        /* of every URL: scheme, host and port */
    char *ca, *cert, *key;
    char *proxy;         /* NULL: none */
    char *tls_folder;    /* NULL: no files of TLS */
    char *header;        /* of every call; NULL: none */
    char *authorization; /* the same, with the key of the place */
    bool has_tls, is_unverified;
    bool has_answered; /* once at least, whatever it was */
    struct http_exchange *exchanges;
    bool has_called_back; /* in this http_client_wait() */

    /* driven by a reactor (drive.c) */
    struct reactor *reactor;
    struct reactor_timer *timer; /* libcurl's, and for what was started or cancelled */
    struct http_socket *sockets;
    struct http_stream *streams;
    bool is_inside; /* libcurl is calling us */
};

struct http_exchange {
    struct http_client *client;
    struct http_exchange *next;
    CURL *easy;
    struct curl_slist *request_headers;
    struct buf headers;  /* of the reply: name NUL value NUL ... */
    size_t header_bytes; /* bytes received, kept or not: libcurl keeps all of them */
    const struct http_call_events *events;
    void *ctx;
    long (*body_read)(void *ctx, void *data, size_t size);
    void *body_ctx;
    unsigned status;
    bool is_added, is_cancelled, is_over, has_status, is_paused, is_held;
    bool waits_for_body, has_more_body; /* body_read() had nothing; has something again */
    char why[CURL_ERROR_SIZE];
};

/* place.c */
int client_place_set(struct http_client *client, const struct http_place *place, struct error *err);
bool client_place_apply(const struct http_client *client, CURL *easy, const char *path);
void client_place_free(struct http_client *client);

/* curl_error.c: a failure of libcurl and its message as an error; returns its number */
int client_curl_error(const struct http_client *client, CURL *easy, CURLcode code, const char *said,
                      struct error *err);

/* client.c */
int client_settle(struct http_client *client);
void client_messages(struct http_client *client); /* reports those that have ended */

/* drive.c */
int drive_start(struct http_client *client);
void drive_end(struct http_client *client);
void drive_soon(struct http_client *client); /* something was started or cancelled */

/* stream.c */
int streams_settle(struct http_client *client);
bool streams_done(struct http_client *client, CURL *easy, CURLcode code); /* it was one of them */
void streams_end(struct http_client *client);

int exchange_new(struct http_client *client, const struct http_call *call,
                 const struct http_call_events *events, void *ctx, struct http_exchange **ret);
void exchange_free(struct http_exchange *exchange);               /* not added any more */
void exchange_end(struct http_exchange *exchange, CURLcode code); /* calls done() */

#endif
