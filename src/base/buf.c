/* buf.c - bytes that grow up to a ceiling; see buf.h. */
#include "base/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BUF_FIRST_CAPACITY 64
#define BUF_READ_STEP 16384

/* Makes room for `length` more bytes and the NUL after them. */
static int reserve(struct buf *buf, size_t length)
{
    size_t wanted, capacity = buf->capacity;
    char *data;

    if (buf->length > buf->maximum || length > buf->maximum - buf->length)
        return -EFBIG;
    wanted = buf->length + length;
    if (wanted == SIZE_MAX)
        return -EFBIG;
    wanted++;
    if (wanted <= capacity)
        return 0;
    if (capacity < BUF_FIRST_CAPACITY)
        capacity = BUF_FIRST_CAPACITY;
    while (capacity < wanted)
        capacity = capacity > SIZE_MAX / 2 ? wanted : capacity * 2;
    /* Doubling must not reserve more than the ceiling can ever hold. */
    if (capacity - 1 > buf->maximum && buf->maximum >= wanted - 1)
        capacity = buf->maximum + 1;
    data = realloc(buf->data, capacity);
    if (!data)
        return -ENOMEM;
    buf->data = data;
    buf->capacity = capacity;
    return 0;
}

int buf_append(struct buf *buf, const void *data, size_t length)
{
    int r = reserve(buf, length);

    if (r < 0)
        return r;
    if (length > 0)
        memcpy(buf->data + buf->length, data, length);
    buf->length += length;
    buf->data[buf->length] = '\0';
    return 0;
}

int buf_append_text(struct buf *buf, const char *text)
{
    return buf_append(buf, text, strlen(text));
}

int buf_printf(struct buf *buf, const char *format, ...)
{
    va_list args;
    int length, r;

    va_start(args, format);
    length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (length < 0)
        return -EINVAL;
    r = reserve(buf, (size_t)length);
    if (r < 0)
        return r;
    va_start(args, format);
    vsnprintf(buf->data + buf->length, (size_t)length + 1, format, args);
    va_end(args);
    buf->length += (size_t)length;
    return 0;
}

void buf_consume(struct buf *buf, size_t length)
{
    if (length >= buf->length) {
        buf_clear(buf);
        return;
    }
    memmove(buf->data, buf->data + length, buf->length - length);
    buf->length -= length;
    buf->data[buf->length] = '\0';
}

void buf_clear(struct buf *buf)
{
    buf->length = 0;
    if (buf->data)
        buf->data[0] = '\0';
}

void buf_free(struct buf *buf)
{
    free(buf->data);
    buf->data = NULL;
    buf->length = 0;
    buf->capacity = 0;
}

const char *buf_text(const struct buf *buf)
{
    return buf->data ? buf->data : "";
}

/* At the ceiling only the end of the file is acceptable. */
static int expect_end(int fd)
{
    char beyond;
    ssize_t count;

    do {
        count = read(fd, &beyond, 1);
    } while (count < 0 && errno == EINTR);
    if (count < 0)
        return -errno;
    return count == 0 ? 0 : -EFBIG;
}

static int read_to_end(struct buf *buf, int fd)
{
    for (;;) {
        size_t room = buf->maximum - buf->length;
        ssize_t count;
        int r;

        if (room == 0)
            return expect_end(fd);
        if (room > BUF_READ_STEP)
            room = BUF_READ_STEP;
        r = reserve(buf, room);
        if (r < 0)
            return r;
        count = read(fd, buf->data + buf->length, room);
        if (count < 0 && errno == EINTR)
            continue;
        if (count < 0)
            return -errno;
        if (count == 0)
            return 0;
        buf->length += (size_t)count;
    }
}

int buf_read_fd(struct buf *buf, int fd)
{
    size_t before = buf->length;
    int r;

    if (buf->length > buf->maximum)
        return -EFBIG;
    r = read_to_end(buf, fd);
    if (r < 0)
        buf->length = before;
    if (buf->data)
        buf->data[buf->length] = '\0';
    return r;
}
