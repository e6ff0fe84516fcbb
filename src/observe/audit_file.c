/*
 * audit_file.c - names of the audit's files, lines in them, and audit.head; see audit_file.h.
 *
 * A user who can write to the folder can have changed anything: every file is hostile input.
 */
#include "observe/audit_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/limits.h"
#include "base/str.h"

#define NUMBER_MAX 999999999
#define BLOCK (64 * KIB)
#define HEAD_LENGTH (20 + 1 + SHA256_TEXT - 1 + 1) /* number, blank, hash, end of line */

void audit_file_name(uint32_t number, char name[AUDIT_NAME_MAX])
{
    str_format(name, AUDIT_NAME_MAX, AUDIT_FILE ".%" PRIu32, number);
}

/* 0: the name is not one of ours. */
static uint32_t number_of(const char *name)
{
    uint64_t number;
    char again[AUDIT_NAME_MAX];

    if (!str_starts(name, AUDIT_FILE ".") ||
        str_to_u64(name + sizeof(AUDIT_FILE ".") - 1, &number) < 0 || number > NUMBER_MAX)
        return 0;
    audit_file_name((uint32_t)number, again);
    return str_equal(name, again) ? (uint32_t)number : 0;
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

void audit_files_free(struct audit_files *files)
{
    free(files->numbers);
    *files = (struct audit_files){.count = 0};
}

int audit_files_list(int folder_fd, struct audit_files *ret)
{
    DIR *folder = folder_list(folder_fd, ".");
    struct dirent *entry;
    int r = folder ? 0 : -errno;

    *ret = (struct audit_files){.count = 0};
    while (r == 0 && (entry = readdir(folder))) {
        uint32_t number = number_of(entry->d_name), *more;

        if (number == 0)
            continue;
        more = ret->count < LIMIT_AUDIT_FILES
                   ? reallocarray(ret->numbers, ret->count + 1, sizeof(*more))
                   : NULL;
        if (more) {
            ret->numbers = more;
            ret->numbers[ret->count++] = number;
        } else {
            r = -ENOMEM;
        }
    }
    if (folder)
        closedir(folder);
    if (ret->count > 1)
        qsort(ret->numbers, ret->count, sizeof(*ret->numbers), by_number);
    if (r < 0)
        audit_files_free(ret);
    return r;
}

int audit_file_open(int folder_fd, const char *name)
{
    CLEANUP(fd_closep) int fd = -1;
    struct stat st;

    fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    return S_ISREG(st.st_mode) ? fd_take(&fd) : -EINVAL;
}

/* ---- lines ---- */

static bool is_hash(const char *text)
{
    return text && strspn(text, "0123456789abcdef") == SHA256_TEXT - 1 &&
           text[SHA256_TEXT - 1] == '\0';
}

bool audit_line_read(const char *data, size_t length, struct audit_line *ret)
{
    json_t *json = json_loadb(data, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    json_t *seq = json_object_get(json, "seq");
    const char *prev = json_string_value(json_object_get(json, "prev"));
    bool is_one = json_is_integer(seq) && json_integer_value(seq) > 0 && is_hash(prev);

    if (is_one) {
        ret->seq = (uint64_t)json_integer_value(seq);
        str_copy(ret->prev, sizeof(ret->prev), prev);
    }
    json_decref(json);
    return is_one;
}

void audit_line_hash(const char *data, size_t length, char hash[SHA256_TEXT])
{
    uint8_t digest[SHA256_BYTES];

    sha256(data, length, digest);
    sha256_text(digest, hash);
}

void audit_lines_begin(struct audit_lines *lines, int fd)
{
    *lines = (struct audit_lines){.fd = fd, .buf = BUF_INIT(LIMIT_AUDIT_LINE + BLOCK)};
}

void audit_lines_end(struct audit_lines *lines)
{
    fd_closep(&lines->fd);
    lines->fd = -1;
    buf_free(&lines->buf);
}

int audit_lines_next(struct audit_lines *lines, const char **ret, size_t *ret_length)
{
    size_t looked = 0;

    buf_consume(&lines->buf, lines->taken);
    lines->taken = 0;
    for (;;) {
        char block[BLOCK];
        const char *end = lines->buf.length > looked
                              ? memchr(lines->buf.data + looked, '\n', lines->buf.length - looked)
                              : NULL;
        ssize_t count;

        if (end) {
            *ret = lines->buf.data;
            *ret_length = lines->taken = (size_t)(end - lines->buf.data) + 1;
            lines->number++;
            return 1;
        }
        looked = lines->buf.length;
        if (looked > LIMIT_AUDIT_LINE)
            return -EFBIG;
        do {
            count = read(lines->fd, block, sizeof(block));
        } while (count < 0 && errno == EINTR);
        if (count < 0)
            return -errno;
        if (count == 0) {
            *ret_length = lines->buf.length;
            return 0;
        }
        if (buf_append(&lines->buf, block, (size_t)count) < 0)
            return -ENOMEM;
    }
}

/* ---- the head ---- */

bool audit_head_read(int fd, struct audit_line *ret)
{
    char text[HEAD_LENGTH + 1];
    ssize_t count = pread(fd, text, sizeof(text), 0);

    if (count != HEAD_LENGTH || text[20] != ' ' || text[HEAD_LENGTH - 1] != '\n')
        return false;
    text[20] = text[HEAD_LENGTH - 1] = '\0';
    if (strspn(text, "0123456789") != 20 || !is_hash(text + 21))
        return false;
    ret->seq = strtoull(text, NULL, 10);
    str_copy(ret->prev, sizeof(ret->prev), text + 21);
    return ret->seq > 0;
}

/* One write inside of one sector, always as long: a process that dies leaves the old or the new. */
void audit_head_write(int fd, uint64_t seq, const char *hash)
{
    char text[HEAD_LENGTH + 1];

    str_format(text, sizeof(text), "%020" PRIu64 " %s\n", seq, hash);
    (void)!pwrite(fd, text, HEAD_LENGTH, 0); /* the next line tries again */
}
