/* tar.c - members of a tar archive, each a head of 512 bytes and its bytes; see tar.h. */
#include "base/tar.h"

#include <stdbool.h>
#include <string.h>

#include "base/str.h"

#define SIZE_MAX_OCTAL 077777777777ULL /* what eleven digits hold */

struct head {
    char name[100];
    char mode[8], owner[8], group[8];
    char size[12], mtime[12];
    char checksum[8];
    char kind;
    char target[100];
    char magic[6], version[2];
    char user_name[32], group_name[32];
    char major[8], minor[8];
    char prefix[155];
    char rest[12];
};
_Static_assert(sizeof(struct head) == TAR_BLOCK, "a head is one block");

static int append_zeros(struct buf *to, size_t count)
{
    static const char zeros[2 * TAR_BLOCK];

    return buf_append(to, zeros, count);
}

/* Digits in base 8 that fill a field but for the NUL at its end. */
static void put_octal(char *field, size_t size, uint64_t value)
{
    field[size - 1] = '\0';
    for (size_t i = size - 1; i-- > 0; value >>= 3)
        field[i] = (char)('0' + (value & 7));
}

/* A field that is full has no NUL. */
static void put_text(char *field, size_t size, const char *text)
{
    memcpy(field, text, strnlen(text, size));
}

static int append_head(struct head *head, struct buf *to)
{
    const unsigned char *bytes = (const unsigned char *)head;
    unsigned sum = 0;

    memcpy(head->magic, "ustar", 6);
    memcpy(head->version, "00", 2);
    memset(head->checksum, ' ', sizeof(head->checksum)); /* as it counts in the sum */
    for (size_t i = 0; i < sizeof(*head); i++)
        sum += bytes[i];
    put_octal(head->checksum, 7, sum);
    return buf_append(to, head, sizeof(*head));
}

/* "LENGTH key=value\n", where LENGTH counts its own digits too. */
static int append_record(struct buf *to, const char *key, const char *value)
{
    size_t rest = strlen(key) + strlen(value) + 3, digits = 1;

    for (size_t power = 10; rest + digits >= power; power *= 10)
        digits++;
    return buf_printf(to, "%zu %s=%s\n", rest + digits, key, value);
}

/* What the header has no room for, as a separate member. */
static int append_extended(const struct tar_member *member, struct buf *to)
{
    struct buf records = BUF_INIT(to->maximum);
    struct head head = {.name = "pax", .kind = 'x'};
    char number[24];
    int r = 0;

    if (strlen(member->path) > sizeof(head.name))
        r = append_record(&records, "path", member->path);
    if (r == 0 && member->target && strlen(member->target) > sizeof(head.target))
        r = append_record(&records, "linkpath", member->target);
    if (r == 0 && member->size > SIZE_MAX_OCTAL) {
        str_format(number, sizeof(number), "%llu", (unsigned long long)member->size);
        r = append_record(&records, "size", number);
    }
    if (r == 0 && records.length > 0) {
        put_octal(head.mode, sizeof(head.mode), 0644);
        put_octal(head.owner, sizeof(head.owner), 0);
        put_octal(head.group, sizeof(head.group), 0);
        put_octal(head.size, sizeof(head.size), records.length);
        put_octal(head.mtime, sizeof(head.mtime), 0);
        r = append_head(&head, to);
        if (r == 0)
            r = buf_append(to, records.data, records.length);
        if (r == 0)
            r = append_zeros(to, tar_padding(records.length));
    }
    buf_free(&records);
    return r;
}

int tar_head(const struct tar_member *member, struct buf *to)
{
    struct head head = {.kind = (char)member->kind};
    uint64_t size = member->kind == TAR_FILE ? member->size : 0;
    int r = append_extended(member, to);

    if (r < 0)
        return r;
    put_text(head.name, sizeof(head.name), member->path);
    if (member->kind == TAR_LINK)
        put_text(head.target, sizeof(head.target), member->target);
    put_octal(head.mode, sizeof(head.mode), member->mode & 07777);
    put_octal(head.owner, sizeof(head.owner), member->owner);
    put_octal(head.group, sizeof(head.group), member->owner);
    put_octal(head.size, sizeof(head.size), size <= SIZE_MAX_OCTAL ? size : 0);
    put_octal(head.mtime, sizeof(head.mtime), member->mtime_s > 0 ? (uint64_t)member->mtime_s : 0);
    return append_head(&head, to);
}

/* ---- whole archives ---- */

#define MTIME_S 1 /* the same contents, the same bytes */

int tar_folder(struct buf *tar, const char *path)
{
    return tar_head(&(struct tar_member){TAR_FOLDER, path, .mode = 0755, .mtime_s = MTIME_S}, tar);
}

int tar_link(struct buf *tar, const char *path, const char *target)
{
    return tar_head(
        &(struct tar_member){TAR_LINK, path, .target = target, .mode = 0777, .mtime_s = MTIME_S},
        tar);
}

int tar_file(struct buf *tar, const char *path, unsigned mode, const void *data, size_t length)
{
    int r = tar_head(
        &(struct tar_member){TAR_FILE, path, .mode = mode, .size = length, .mtime_s = MTIME_S},
        tar);

    if (r == 0)
        r = buf_append(tar, data, length);
    return r == 0 ? append_zeros(tar, tar_padding(length)) : r;
}

int tar_end(struct buf *tar)
{
    return append_zeros(tar, 2 * TAR_BLOCK);
}

/* Digits up to a blank or NUL; false: none, or a number in one of tar's other ways. */
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

    for (const char *at = tar->data; left >= TAR_BLOCK; at += blocks * TAR_BLOCK) {
        const struct head *head = (const struct head *)at;

        if (!read_octal(head->size, sizeof(head->size), &size))
            return NULL;
        if (head->kind == TAR_FILE || head->kind == 0) {
            *ret_length = size;
            return size <= left - TAR_BLOCK ? at + TAR_BLOCK : NULL;
        }
        blocks = 1 + size / TAR_BLOCK + (size % TAR_BLOCK != 0);
        if (blocks > left / TAR_BLOCK)
            return NULL;
        left -= blocks * TAR_BLOCK;
    }
    return NULL;
}
