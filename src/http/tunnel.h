/*
 * tunnel.h - a request whose connection becomes bytes both ways: "101 Switching Protocols" with
 * whatever protocol follows, which this server does not read.
 *
 * Made by http_tunnel_open() inside or after a handler; from then on the request is gone and the
 * tunnel lives until closed() was called, once, whatever happened. Nothing is buffered but what the
 * owner did not take of the last bytes that were read: an owner that does not take them slows the
 * client. The connection carries no other request afterwards. Callbacks come from the loop and may
 * call anything of this header. One thread, never blocks.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_TUNNEL_H
#define BAILEY_HTTP_TUNNEL_H

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

struct http_request;
struct http_tunnel;

struct http_tunnel_events {
    /* Returns the bytes taken; less than length: the rest comes after http_tunnel_resume(). */
    size_t (*data)(void *ctx, const void *data, size_t length);
    void (*end)(void *ctx);    /* the client sends no more */
    void (*room)(void *ctx);   /* bytes can be sent; also once at the beginning */
    void (*closed)(void *ctx); /* last */
};

/*
 * Answers 101 with these headers ("Upgrade: ..." among them). On failure nothing was answered.
 * Where http_stop() was called for the request before, the tunnel is closed at once.
 */
int http_tunnel_open(struct http_request *request, const char *const *headers,
                     const struct http_tunnel_events *events, void *ctx, struct http_tunnel **ret,
                     struct error *err);
/* The bytes that were sent; fewer than length: room() follows. A broken tunnel takes all. */
size_t http_tunnel_send(struct http_tunnel *tunnel, const void *data, size_t length);
void http_tunnel_resume(struct http_tunnel *tunnel); /* data() is called from the loop */
/* Sends no more; closed() comes when the client has closed too, or soon. */
void http_tunnel_close(struct http_tunnel *tunnel);

#endif
