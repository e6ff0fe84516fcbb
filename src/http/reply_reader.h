/*
 * reply_reader.h - the reply of an HTTP/1.x server that is not trusted: head and body, strictly.
 *
 * Pure; every byte is hostile. What two readers could understand differently is refused (-EPROTO,
 * `why` says what): a bare LF, a folded line, a name that is no token, a Content-Length that is
 * there twice or beside a Transfer-Encoding, a coding other than chunked, a chunk that is not
 * exactly as RFC 9112 has it. Nothing of the framing is passed on: the owner frames the body anew.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_REPLY_READER_H
#define BAILEY_HTTP_REPLY_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/limits.h"

struct reply_header {
    const char *name, *value;
};

enum reply_body { REPLY_NO_BODY, REPLY_LENGTH, REPLY_CHUNKED, REPLY_UNTIL_CLOSE };

struct reply_reader {
    bool is_head;    /* of a HEAD request: no body follows */
    bool may_switch; /* the request asked for another protocol: 101 is a reply */

    struct buf head; /* the bytes of the head; `headers` points into it */
    bool has_head;
    unsigned status; /* 200 to 599, or 101 where may_switch */
    struct reply_header headers[LIMIT_PORT_HEADERS];
    size_t header_count;
    enum reply_body body;
    uint64_t length; /* REPLY_LENGTH: of the whole body; also of one that HEAD leaves out */
    bool has_length; /* there was a Content-Length */

    uint64_t left;     /* of the body, or of the chunk */
    unsigned informal; /* 1xx replies so far */
    int chunk_state;
    unsigned line_length; /* of a chunk's line or of the trailers so far */
    unsigned digits;
    bool is_over; /* the last byte of the body was read */
    const char *why;
};

void reply_reader_init(struct reply_reader *reader, bool is_head, bool may_switch);
void reply_reader_free(struct reply_reader *reader);

/* Takes bytes until has_head: the number, or -EPROTO. -ENOMEM. */
ssize_t reply_reader_head(struct reply_reader *reader, const char *data, size_t length);
/*
 * After the head: takes bytes, of which *ret_piece (in data) belongs to the body, and may be empty.
 * The number that was taken (0: nothing more belongs to the reply), or -EPROTO.
 */
ssize_t reply_reader_body(struct reply_reader *reader, const char *data, size_t length,
                          const char **ret_piece, size_t *ret_length);
/* The server has closed. 0: the reply is whole, or -EPROTO. */
int reply_reader_close(struct reply_reader *reader);

/* The first value of a header, NULL if there is none. */
const char *reply_reader_header(const struct reply_reader *reader, const char *name);

#endif
