/*
 * download.h - a file of the disk as a reply, for everything that a guest made: by ranges, and with
 * headers that let no browser run it or guess what it is. Inside of rest/.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_REST_DOWNLOAD_H
#define BAILEY_API_REST_DOWNLOAD_H

#include <stdint.h>

struct http_request;

struct download_spec {
    const char *name; /* under which it is saved */
    const char *type; /* MIME */
    const char *etag; /* without quotes: the hash of its content; NULL: nobody knows */
};
/* Takes over fd. The reply is 200, 206, 304 or 416. */
void rest_download(struct http_request *http, int fd, const struct download_spec *spec);

/* The headers for bytes that come from elsewhere; `disposition` has HTTP_ATTACHMENT_MAX bytes. */
#define DOWNLOAD_HEADERS_MAX 8
void rest_download_headers(const char *name, char *disposition,
                           const char *headers[DOWNLOAD_HEADERS_MAX]);

#endif
