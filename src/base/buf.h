/*
 * buf.h - bytes that grow up to a maximum given at initialisation.
 *
 * Owns its memory; zero-initialised plus a maximum is a valid empty buffer, buf_free() leaves one.
 * Bytes are (pointer, length); a NUL always follows the last byte, for libc functions.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_BUF_H
#define BAILEY_BASE_BUF_H

#include <stddef.h>

struct buf {
    char *data; /* NULL while empty */
    size_t length;
    size_t capacity;
    size_t maximum; /* appending beyond it is -EFBIG and changes nothing */
};

#define BUF_INIT(maximum_) ((struct buf){.maximum = (maximum_)})

int buf_append(struct buf *buf, const void *data, size_t length); /* 0, -EFBIG, -ENOMEM */
int buf_append_text(struct buf *buf, const char *text);
int buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *buf, size_t length); /* drops bytes from the front */
void buf_clear(struct buf *buf);                  /* length 0, memory kept */
void buf_free(struct buf *buf);                   /* memory gone, maximum kept; for CLEANUP() */
const char *buf_text(const struct buf *buf);      /* never NULL */

/* Reads a file from the descriptor to its end; -EFBIG over the maximum. */
int buf_read_fd(struct buf *buf, int fd);

#endif
