/*
 * stream.h - an image's files as the bytes of a tar archive, asked for piece by piece.
 *
 * For the body of an HTTP request. The tree is borrowed and finished; the same tree gives the same
 * bytes. A file that changed its size since it was gathered ends the stream with an error.
 *
 * Runs in: commands
 */
#ifndef BAILEY_IMAGE_STREAM_H
#define BAILEY_IMAGE_STREAM_H

#include "base/buf.h"
#include "base/error.h"
#include "image/tree.h"

struct image_stream {
    const struct image_tree *tree;
    size_t next;     /* the entry whose head comes next */
    struct buf head; /* bytes that wait to be taken */
    int fd;          /* of the file that is being read; -1: none */
    const char *text;
    uint64_t left;    /* of that file or text */
    unsigned padding; /* behind it */
    bool has_ended;
    uint64_t files, bytes; /* so far, for progress */
    struct error err;      /* why it ended, if image_stream_read() said -1 */
};

void image_stream_begin(struct image_stream *stream, const struct image_tree *tree);
/* Bytes, 0 at the end, -1 with stream->err. */
long image_stream_read(struct image_stream *stream, void *data, size_t size);
void image_stream_free(struct image_stream *stream); /* for CLEANUP() */

#endif
