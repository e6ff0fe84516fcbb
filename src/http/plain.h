/*
 * plain.h - the one call that the static program makes, without libcurl: HTTP/1.0 over a unix
 * socket, so that the reply's body ends with the connection. Pure except for connecting, which does
 * not wait.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_PLAIN_H
#define BAILEY_HTTP_PLAIN_H

#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

/* A connected socket, which never blocks. Errors: ERROR_NO_DAEMON. */
int plain_connect(const char *path, int *ret_fd, struct error *err);

/*
 * The head of a request, `accept` NULL: any reply, `more` NULL or empty: no line besides. All texts
 * come from our own code.
 */
int plain_head_write(struct buf *text, const char *method, const char *path, const char *accept,
                     const char *more, size_t body_length);

struct plain_head {
    unsigned status;
    char execution[64]; /* the header Bailey-Execution; empty: there was none */
};

/* The length of the head, 0 while its end is missing, -EPROTO: it is none, -EFBIG. */
ssize_t plain_head_read(const char *data, size_t length, struct plain_head *ret);

#endif
