/*
 * download.h - sends a file of the disk as a reply, for files that a guest made: with ranges, and
 * with headers that keep browsers from running it or guessing its type. For the files of rest/
 * only.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_REST_DOWNLOAD_H
#define BAILEY_API_REST_DOWNLOAD_H

#include <stdint.h>

struct http_request;

struct download_spec {
    const char *name; /* file name for the client */
    const char *type; /* MIME */
    const char *etag; /* without quotes: the hash of its content; NULL: unknown */
};
/* Takes over fd. The reply is 200, 206, 304 or 416. */
void rest_download(struct http_request *http, int fd, const struct download_spec *spec);

/* The headers for bytes from another source; `disposition` has HTTP_ATTACHMENT_MAX bytes. */
#define DOWNLOAD_HEADERS_MAX 8
void rest_download_headers(const char *name, char *disposition,
                           const char *headers[DOWNLOAD_HEADERS_MAX]);

#endif
