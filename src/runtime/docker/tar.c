/*
 * tar.c - writes an archive in memory (POSIX ustar): files, folders and links owned by root, with
 * short names. Also reads the first file of an archive from Docker, which is hostile input.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "runtime/docker/docker_private.h"

#define BLOCK 512

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is a block");

static int add_header(struct buf *tar, const char *path, unsigned mode, size_t length, char type,
                      const char *target)
{
    struct header header = {.type = type, .magic = "ustar", .version = {'0', '0'}};
    unsigned sum = 0;

    if (length > 077777777777 || !str_copy(header.name, sizeof(header.name), path) ||
        !str_copy(header.link, sizeof(header.link), target))
        return -ENAMETOOLONG;
    snprintf(header.mode, sizeof(header.mode), "%07o", mode & 07777);
    snprintf(header.uid, sizeof(header.uid), "%07o", 0);
    snprintf(header.gid, sizeof(header.gid), "%07o", 0);
    snprintf(header.size, sizeof(header.size), "%011llo", (unsigned long long)length);
    snprintf(header.mtime, sizeof(header.mtime), "%011o", 1); /* equal contents give equal bytes */
    memset(header.checksum, ' ', sizeof(header.checksum));
    for (size_t i = 0; i < BLOCK; i++)
        sum += ((const unsigned char *)&header)[i];
    snprintf(header.checksum, sizeof(header.checksum), "%06o", sum);
    return buf_append(tar, &header, BLOCK);
}

static int add_zeros(struct buf *tar, size_t count)
{
    static const char zeros[2 * BLOCK];

    return buf_append(tar, zeros, count);
}

int tar_folder(struct buf *tar, const char *path)
{
    return add_header(tar, path, 0755, 0, '5', "");
}

int tar_link(struct buf *tar, const char *path, const char *target)
{
    return add_header(tar, path, 0777, 0, '2', target);
}

int tar_file(struct buf *tar, const char *path, unsigned mode, const void *data, size_t length)
{
    int r = add_header(tar, path, mode, length, '0', "");

    if (r == 0)
        r = buf_append(tar, data, length);
    if (r == 0 && length % BLOCK)
        r = add_zeros(tar, BLOCK - length % BLOCK);
    return r;
}

int tar_end(struct buf *tar)
{
    return add_zeros(tar, 2 * BLOCK);
}

/* Digits up to a blank or NUL; false: none, or a number in another tar format. */
static bool read_octal(const char *text, size_t size, size_t *ret)
{
    size_t value = 0, i = 0;

    for (; i < size && text[i] >= '0' && text[i] <= '7'; i++) {
        if (value > SIZE_MAX >> 4)
            return false;
        value = value << 3 | (size_t)(text[i] - '0');
    }
    *ret = value;
    return i > 0 && (i == size || text[i] == ' ' || text[i] == 0);
}

const char *tar_first(const struct buf *tar, size_t *ret_length)
{
    size_t left = tar->length, size, blocks;

    for (const char *at = tar->data; left >= BLOCK; at += blocks * BLOCK) {
        const struct header *header = (const struct header *)at;

        if (!read_octal(header->size, sizeof(header->size), &size))
            return NULL;
        if (header->type == '0' || header->type == 0) {
            *ret_length = size;
            return size <= left - BLOCK ? at + BLOCK : NULL;
        }
        blocks = 1 + size / BLOCK + (size % BLOCK != 0);
        if (blocks > left / BLOCK)
            return NULL;
        left -= blocks * BLOCK;
    }
    return NULL;
}
