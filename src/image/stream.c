/* stream.c - entries of a tree as a tar archive, produced as it is read; see stream.h. */
#include "image/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"

void image_stream_begin(struct image_stream *stream, const struct image_tree *tree)
{
    *stream = (struct image_stream){
        .tree = tree, .fd = -1, .head = BUF_INIT(4 * LIMIT_PATH_BYTES + 8 * TAR_BLOCK)};
}

void image_stream_free(struct image_stream *stream)
{
    fd_closep(&stream->fd);
    stream->fd = -1;
    buf_free(&stream->head);
}

static int open_file(struct image_stream *stream, const struct image_entry *entry)
{
    struct stat status;

    stream->fd = open(entry->source, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    if (stream->fd < 0 || fstat(stream->fd, &status) < 0)
        return error_errno(&stream->err, "opening '%.300s' for the image", entry->source);
    if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size != entry->size)
        return error_set(&stream->err, -ESTALE, ERROR_ENGINE,
                         "'%.300s' changed while the image was made; try again", entry->source);
    return 0;
}

/* The head of the next entry, and the file that follows it; or the end. */
static int advance(struct image_stream *stream)
{
    const struct image_entry *entry;
    int r;

    if (stream->next == stream->tree->count) {
        stream->has_ended = true;
        return tar_end(&stream->head);
    }
    entry = &stream->tree->entries[stream->next++];
    r = tar_head(&(struct tar_member){.kind = entry->kind,
                                      .path = entry->path,
                                      .target = entry->kind == TAR_LINK ? entry->text : NULL,
                                      .mode = entry->mode,
                                      .owner = entry->owner,
                                      .size = entry->size,
                                      .mtime_s = entry->mtime_s},
                 &stream->head);
    if (r < 0)
        return error_set(&stream->err, r, ERROR_ENGINE, "'%.300s': its name is too long",
                         entry->path);
    if (entry->kind != TAR_FILE)
        return 0;
    stream->files++;
    stream->left = entry->size;
    stream->padding = tar_padding(entry->size);
    stream->text = entry->text;
    return entry->source ? open_file(stream, entry) : 0;
}

/* Bytes of the file that is under way. */
static long read_file(struct image_stream *stream, void *data, size_t size)
{
    size_t length = (size_t)MIN((uint64_t)size, stream->left);

    if (stream->fd < 0) {
        memcpy(data, stream->text, length);
        stream->text += length;
    } else {
        ssize_t got = fd_read_all(stream->fd, data, length);

        if (got < 0 || (size_t)got != length) {
            const char *source = stream->tree->entries[stream->next - 1].source;

            error_set(&stream->err, got < 0 ? (int)got : -ESTALE, ERROR_ENGINE,
                      "reading '%.300s': %s", source,
                      got < 0 ? strerror((int)-got) : "it became shorter; try again");
            return -1;
        }
    }
    stream->left -= length;
    stream->bytes += length;
    if (stream->left == 0) {
        fd_closep(&stream->fd);
        stream->fd = -1;
    }
    return (long)length;
}

/* One piece of whatever comes next; 0: the end. */
static long read_piece(struct image_stream *stream, char *data, size_t size)
{
    size_t length;

    if (stream->head.length > 0) {
        length = MIN(size, stream->head.length);
        memcpy(data, stream->head.data, length);
        buf_consume(&stream->head, length);
        return (long)length;
    }
    if (stream->left > 0)
        return read_file(stream, data, size);
    if (stream->padding > 0) {
        length = MIN(size, (size_t)stream->padding);
        memset(data, 0, length);
        stream->padding -= (unsigned)length;
        return (long)length;
    }
    return 0;
}

long image_stream_read(struct image_stream *stream, void *data, size_t size)
{
    size_t have = 0;

    while (have < size) {
        long got = read_piece(stream, (char *)data + have, size - have);

        if (got < 0)
            return -1;
        have += (size_t)got;
        if (got > 0)
            continue;
        if (stream->has_ended)
            break;
        fd_closep(&stream->fd); /* of an empty file */
        stream->fd = -1;
        if (advance(stream) < 0) {
            if (stream->err.num == 0)
                error_memory(&stream->err);
            return -1;
        }
    }
    return (long)have;
}
