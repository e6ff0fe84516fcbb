/*
 * audit.c - lines of JSON behind each other, each by one write; see audit.h.
 *
 * A line is complete or not there: what a full disk left of one is cut off again, and where even
 * that fails the next line begins on a new one. Lines are plain ASCII (the rest is escaped), so
 * that no name or argument can play tricks on the terminal of who reads them.
 *
 * syscalls: openat fstat pread64 write ftruncate renameat close
 */
#include "observe/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"

#define FILE_NAME "audit.jsonl"
#define FILE_BEFORE "audit.jsonl.1"
#define FILE_MODE 0600
#define DUMP_FLAGS (JSON_COMPACT | JSON_ENSURE_ASCII)

struct audit {
    int folder_fd;
    int fd; /* -1: could not be opened again yet */
    uint64_t bytes;
    bool is_torn;  /* the last line has no end */
    uint64_t lost; /* lines that nobody was told of yet */
};

/* ---- the file ---------------------------------------------------------------------------------
 */

static int open_file(struct audit *audit)
{
    CLEANUP(fd_closep) int fd = -1;
    struct stat st;
    char last = '\n';

    fd = openat(audit->folder_fd, FILE_NAME,
                O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                FILE_MODE);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if (st.st_size > 0 && pread(fd, &last, 1, st.st_size - 1) < 0)
        return -errno;
    audit->bytes = (uint64_t)st.st_size;
    audit->is_torn = last != '\n';
    audit->fd = fd_take(&fd);
    return 0;
}

struct audit *audit_open(int folder_fd)
{
    struct audit *audit = calloc(1, sizeof(*audit));
    int r;

    if (!audit)
        return NULL;
    audit->fd = -1;
    audit->folder_fd = fcntl(folder_fd, F_DUPFD_CLOEXEC, 3);
    r = audit->folder_fd < 0 ? -errno : open_file(audit);
    if (r < 0) {
        audit_close(audit);
        errno = -r;
        return NULL;
    }
    return audit;
}

void audit_close(struct audit *audit)
{
    if (!audit)
        return;
    fd_closep(&audit->fd);
    fd_closep(&audit->folder_fd);
    free(audit);
}

/* Makes sure that there is a file with room for `length` bytes. */
static int make_room(struct audit *audit, size_t length)
{
    bool is_full = audit->bytes >= LIMIT_AUDIT_BYTES || length > LIMIT_AUDIT_BYTES - audit->bytes;

    if (audit->fd >= 0 && is_full) {
        if (renameat(audit->folder_fd, FILE_NAME, audit->folder_fd, FILE_BEFORE) < 0 &&
            errno != ENOENT)
            return -errno;
        fd_closep(&audit->fd);
    }
    return audit->fd < 0 ? open_file(audit) : 0;
}

static int append(struct audit *audit, const char *data, size_t length)
{
    ssize_t count;

    do {
        count = write(audit->fd, data, length);
    } while (count < 0 && errno == EINTR);
    if (count < 0)
        return -errno;
    if ((size_t)count < length) {
        if (ftruncate(audit->fd, (off_t)audit->bytes) < 0) {
            audit->bytes += (uint64_t)count;
            audit->is_torn = true;
        }
        return -ENOSPC;
    }
    audit->bytes += length;
    audit->is_torn = false;
    return 0;
}

/* ---- a line -----------------------------------------------------------------------------------
 */

/* What every line has; new reference or NULL. */
static json_t *make_head(const struct audit *audit, const char *action)
{
    char time[32];
    json_t *head;

    clock_iso(time, sizeof(time));
    head = json_pack("{s:s, s:s}", "time", time, "action", action);
    if (head && audit->lost > 0 &&
        json_object_set_new(head, "lost", json_integer((json_int_t)audit->lost)) < 0) {
        json_decref(head);
        return NULL;
    }
    return head;
}

static int dump_to(const char *data, size_t length, void *ctx)
{
    return buf_append(ctx, data, length) < 0 ? -1 : 0;
}

/* The line with its end, and in front of it an end for the one before, should that have none. */
static int make_line(const json_t *json, struct buf *line)
{
    buf_clear(line);
    if (buf_append_text(line, "\n") < 0)
        return -ENOMEM;
    if (json_dump_callback(json, dump_to, line, DUMP_FLAGS) < 0)
        return -EFBIG;
    return buf_append_text(line, "\n");
}

static int write_line(struct audit *audit, const char *action, json_t *fields)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT(LIMIT_AUDIT_LINE);
    CLEANUP(json_decrefp) json_t *json = make_head(audit, action);
    CLEANUP(json_decrefp) json_t *bare = NULL;
    size_t from;
    int r;

    if (!json || (json_is_object(fields) && json_object_update_missing(json, fields) < 0))
        return -ENOMEM;
    r = make_line(json, &line);
    if (r < 0) {
        /* Too long: that it happened is worth more than what it was about. */
        bare = make_head(audit, action);
        if (!bare || json_object_set_new(bare, "too_long", json_true()) < 0)
            return -ENOMEM;
        r = make_line(bare, &line);
    }
    if (r == 0)
        r = make_room(audit, line.length);
    if (r < 0)
        return r;
    from = audit->is_torn ? 0 : 1;
    return append(audit, line.data + from, line.length - from);
}

void audit_write(struct audit *audit, const char *action, json_t *fields)
{
    if (audit && write_line(audit, action, fields) < 0)
        audit->lost++;
    else if (audit)
        audit->lost = 0;
    json_decref(fields);
}
