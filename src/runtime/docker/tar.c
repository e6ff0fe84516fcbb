/* tar.c - an archive in memory (POSIX ustar): files and folders of root's, short names. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "runtime/docker/inside.h"

#define BLOCK 512

struct header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
    char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is a block");

static int add_header(struct buf *tar, const char *path, unsigned mode, size_t length, char type)
{
    struct header header = {.type = type, .magic = "ustar", .version = {'0', '0'}};
    unsigned sum = 0;

    if (length > 077777777777 || !str_copy(header.name, sizeof(header.name), path))
        return -ENAMETOOLONG;
    snprintf(header.mode, sizeof(header.mode), "%07o", mode & 07777);
    snprintf(header.uid, sizeof(header.uid), "%07o", 0);
    snprintf(header.gid, sizeof(header.gid), "%07o", 0);
    snprintf(header.size, sizeof(header.size), "%011llo", (unsigned long long)length);
    snprintf(header.mtime, sizeof(header.mtime), "%011o",
             1); /* the same contents, the same bytes */
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
    return add_header(tar, path, 0755, 0, '5');
}

int tar_file(struct buf *tar, const char *path, unsigned mode, const void *data, size_t length)
{
    int r = add_header(tar, path, mode, length, '0');

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
