/*
 * audit.c - lines of JSON, each written by one write, each with the hash of the previous one; see
 * audit.h.
 *
 * A line is complete or absent: what a full disk left of one is cut off again, and if even that
 * fails the file is reopened for the next line, which repairs it as after a crash. Lines are plain
 * ASCII (the rest is escaped), so that no name or argument can send control sequences to a reader's
 * terminal.
 *
 * syscalls: openat fstat pread64 pwrite64 write ftruncate renameat unlinkat getdents64 close
 */
#include "observe/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
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
#include "base/mask.h"
#include "base/str.h"
#include "observe/audit_file.h"

#define FILE_MODE 0600
#define DUMP_FLAGS (JSON_COMPACT | JSON_ENSURE_ASCII)

struct follower {
    struct follower *next;
    void (*written)(void *ctx);
    void *ctx;
};

struct audit {
    int folder_fd;
    int fd;      /* -1: to be opened before the next line */
    int head_fd; /* -1: could not be opened */
    uint64_t bytes;
    uint64_t bytes_max;
    unsigned keep;
    uint64_t seq;           /* of the last line; 0: none yet */
    char hash[SHA256_TEXT]; /* of it */
    uint64_t lost;          /* lost lines that are not recorded yet */
    json_t *notes;          /* array of [action, fields] that come before the next line, or NULL */
    struct follower *followers;
};

static void note(struct audit *audit, const char *action, json_t *fields)
{
    if (!audit->notes)
        audit->notes = json_array();
    json_array_append_new(audit->notes, json_pack("[s, o]", action, fields));
}

/* ---- the state of the chain ---- */

/* The end of a file: its last line, and the one before it. */
struct tail {
    char hash[SHA256_TEXT]; /* of the last line; empty: there is none */
    uint64_t seq;           /* of the last one that says so; 0: none of the two does */
    unsigned behind;        /* lines after that one: 0 or 1 */
    uint64_t torn;          /* bytes that had no end */
};

/* Where the line begins that ends at `end` (after its newline). */
static size_t line_begin(const char *data, size_t end)
{
    size_t begin = end - 1;

    while (begin > 0 && data[begin - 1] != '\n')
        begin--;
    return begin;
}

static int read_tail(int fd, uint64_t size, struct tail *ret)
{
    size_t length = (size_t)MIN(size, (uint64_t)2 * LIMIT_AUDIT_LINE + 2);
    CLEANUP(freep) char *data = malloc(length + 1);
    struct audit_line line;
    size_t last, before;

    *ret = (struct tail){.seq = 0};
    if (!data)
        return -ENOMEM;
    if (length == 0)
        return 0;
    if (pread(fd, data, length, (off_t)(size - length)) != (ssize_t)length)
        return -EIO;
    if (data[length - 1] != '\n') {
        data[length++] = '\n'; /* as it will be */
        last = line_begin(data, length);
        ret->torn = length - 1 - last;
    } else {
        last = line_begin(data, length);
    }
    audit_line_hash(data + last, length - last, ret->hash);
    if (audit_line_read(data + last, length - last, &line)) {
        ret->seq = line.seq;
    } else if (last > 0) {
        before = line_begin(data, last);
        if (audit_line_read(data + before, last - before, &line))
            ret->seq = line.seq;
        ret->behind = 1;
    }
    return 0;
}

/* The newest file that is full; its end. */
static int read_tail_before(const struct audit *audit, struct tail *ret)
{
    CLEANUP(audit_files_free) struct audit_files files = {.count = 0};
    CLEANUP(fd_closep) int fd = -1;
    char name[AUDIT_NAME_MAX];
    struct stat st;
    int r = audit_files_list(audit->folder_fd, &files);

    *ret = (struct tail){.seq = 0};
    if (r < 0 || files.count == 0)
        return r;
    audit_file_name(files.numbers[files.count - 1], name);
    fd = audit_file_open(audit->folder_fd, name);
    if (fd < 0)
        return fd == -EINVAL ? 0 : fd; /* a folder of that name is not ours */
    if (fstat(fd, &st) < 0)
        return -errno;
    return read_tail(fd, (uint64_t)st.st_size, ret);
}

/* Lines that audit.head has and the files do not have, or have changed: recorded, not hidden. */
static void compare_head(struct audit *audit, const struct tail *tail)
{
    struct audit_line head;

    if (audit->head_fd < 0)
        return;
    if (!audit_head_read(audit->head_fd, &head)) {
        if (tail->seq > 0)
            note(audit, "audit.cut", json_pack("{s:s}", "reason", "audit.head is missing"));
        return;
    }
    if (head.seq > audit->seq) {
        note(audit, "audit.cut",
             json_pack("{s:s, s:I, s:I, s:s}", "reason", "lines are missing at the end", "from",
                       (json_int_t)audit->seq + 1, "through", (json_int_t)head.seq, "hash",
                       head.prev));
        audit->seq = head.seq; /* no number is given twice */
    } else if (head.seq == audit->seq && !str_equal(head.prev, audit->hash)) {
        note(audit, "audit.cut", json_pack("{s:s}", "reason", "the last line was changed or cut"));
    }
}

static int find_place(struct audit *audit, uint64_t size)
{
    struct tail tail;
    int r = read_tail(audit->fd, size, &tail);

    if (r == 0 && tail.hash[0] == '\0')
        r = read_tail_before(audit, &tail);
    if (r < 0)
        return r;
    audit->seq = tail.seq > 0 ? tail.seq + tail.behind : 0;
    str_copy(audit->hash, sizeof(audit->hash), tail.hash[0] ? tail.hash : AUDIT_BEGINNING);
    compare_head(audit, &tail);
    if (tail.torn > 0) {
        if (write(audit->fd, "\n", 1) != 1)
            return -ENOSPC;
        audit->bytes++;
        note(audit, "audit.repaired",
             json_pack("{s:i, s:I}", "broken", 1, "bytes", (json_int_t)tail.torn));
    }
    return 0;
}

/* ---- the file ---------------------------------------------------------------------------------
 */

static int open_file(struct audit *audit, bool is_new)
{
    CLEANUP(fd_closep) int fd = -1;
    struct stat st;
    int r = 0;

    fd = openat(audit->folder_fd, AUDIT_FILE,
                O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                FILE_MODE);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if (audit->head_fd < 0)
        audit->head_fd =
            openat(audit->folder_fd, AUDIT_HEAD,
                   O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, FILE_MODE);
    audit->bytes = (uint64_t)st.st_size;
    audit->fd = fd_take(&fd);
    if (!is_new || st.st_size > 0)
        r = find_place(audit, (uint64_t)st.st_size);
    if (r < 0) {
        fd_closep(&audit->fd);
        audit->fd = -1;
    }
    return r;
}

struct audit *audit_open(int folder_fd)
{
    struct audit *audit = calloc(1, sizeof(*audit));
    int r;

    if (!audit)
        return NULL;
    audit->fd = audit->head_fd = -1;
    audit_configure(audit, LIMIT_AUDIT_BYTES, LIMIT_AUDIT_KEEP);
    audit->folder_fd = fcntl(folder_fd, F_DUPFD_CLOEXEC, 3);
    r = audit->folder_fd < 0 ? -errno : open_file(audit, false);
    if (r < 0) {
        audit_close(audit);
        errno = -r;
        return NULL;
    }
    return audit;
}

void audit_configure(struct audit *audit, uint64_t bytes, unsigned keep)
{
    if (!audit)
        return;
    audit->bytes_max = bytes;
    audit->keep = MAX(keep, 1u);
}

void audit_close(struct audit *audit)
{
    if (!audit)
        return;
    while (audit->followers) {
        struct follower *next = audit->followers->next;

        free(audit->followers);
        audit->followers = next;
    }
    json_decref(audit->notes);
    fd_closep(&audit->fd);
    fd_closep(&audit->head_fd);
    fd_closep(&audit->folder_fd);
    free(audit);
}

/* Where the oldest file that stays begins: what was before it is gone by our own doing. */
static void note_dropped(struct audit *audit, const char *name)
{
    int fd = audit_file_open(audit->folder_fd, name);
    CLEANUP(audit_lines_end) struct audit_lines lines;
    struct audit_line line;
    const char *data;
    size_t length;

    audit_lines_begin(&lines, fd);
    if (fd < 0 || audit_lines_next(&lines, &data, &length) <= 0 ||
        !audit_line_read(data, length, &line))
        return;
    note(audit, "audit.dropped",
         json_pack("{s:I, s:s}", "through", (json_int_t)line.seq - 1, "hash", line.prev));
}

/* Removes what is too old. A failure leaves more than was asked for. */
static void prune(struct audit *audit, const struct audit_files *files)
{
    size_t old = files->count > audit->keep - 1 ? files->count - (audit->keep - 1) : 0;
    char name[AUDIT_NAME_MAX];

    for (size_t i = 0; i < old; i++) {
        audit_file_name(files->numbers[i], name);
        if (unlinkat(audit->folder_fd, name, 0) < 0)
            return;
    }
    if (old == 0)
        return;
    if (old < files->count) {
        audit_file_name(files->numbers[old], name);
        note_dropped(audit, name);
    } else {
        note(audit, "audit.dropped",
             json_pack("{s:I, s:s}", "through", (json_int_t)audit->seq, "hash", audit->hash));
    }
}

/* The full file gets a number, and a new one begins. */
static int rotate(struct audit *audit)
{
    CLEANUP(audit_files_free) struct audit_files files = {.count = 0};
    int r = audit_files_list(audit->folder_fd, &files);
    char name[AUDIT_NAME_MAX];

    if (r < 0)
        return r;
    audit_file_name(files.count > 0 ? files.numbers[files.count - 1] + 1 : 1, name);
    if (renameat(audit->folder_fd, AUDIT_FILE, audit->folder_fd, name) < 0 && errno != ENOENT)
        return -errno;
    fd_closep(&audit->fd);
    audit->fd = -1;
    audit_files_free(&files);
    if (audit_files_list(audit->folder_fd, &files) == 0)
        prune(audit, &files);
    return open_file(audit, true);
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
            fd_closep(&audit->fd); /* the next line finds it as a crash leaves it */
            audit->fd = -1;
        }
        return -ENOSPC;
    }
    audit->bytes += length;
    audit->seq++;
    audit_line_hash(data, length, audit->hash);
    if (audit->head_fd >= 0)
        audit_head_write(audit->head_fd, audit->seq, audit->hash);
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
    head = json_pack("{s:I, s:s, s:s, s:s}", "seq", (json_int_t)audit->seq + 1, "time", time,
                     "action", action, "prev", audit->hash);
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

static int dump(const json_t *json, struct buf *line)
{
    buf_clear(line);
    if (json_dump_callback(json, dump_to, line, DUMP_FLAGS) < 0)
        return -EFBIG;
    mask_keys(line->data, line->length);
    return buf_append_text(line, "\n");
}

static int make_line(const struct audit *audit, const char *action, json_t *fields,
                     struct buf *line)
{
    CLEANUP(json_decrefp) json_t *json = make_head(audit, action);
    CLEANUP(json_decrefp) json_t *bare = NULL;

    if (!json || (json_is_object(fields) && json_object_update_missing(json, fields) < 0))
        return -ENOMEM;
    if (dump(json, line) == 0)
        return 0;
    /* Too long: that it happened is worth more than what it was about. */
    bare = make_head(audit, action);
    if (!bare || json_object_set_new(bare, "too_long", json_true()) < 0)
        return -ENOMEM;
    return dump(bare, line);
}

/* What is to be said before the next line. */
static int write_notes(struct audit *audit, struct buf *line)
{
    while (json_array_size(audit->notes) > 0) {
        json_t *pair = json_array_get(audit->notes, 0);
        int r = make_line(audit, json_string_value(json_array_get(pair, 0)),
                          json_array_get(pair, 1), line);

        if (r == 0)
            r = append(audit, line->data, line->length);
        if (r < 0)
            return r;
        audit->lost = 0;
        json_array_remove(audit->notes, 0);
    }
    return 0;
}

static int write_line(struct audit *audit, const char *action, json_t *fields)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT(LIMIT_AUDIT_LINE);
    int r = audit->fd < 0 ? open_file(audit, false) : 0;

    if (r == 0)
        r = write_notes(audit, &line);
    if (r == 0)
        r = make_line(audit, action, fields, &line);
    if (r == 0 && audit->bytes > 0 &&
        (audit->bytes >= audit->bytes_max || line.length > audit->bytes_max - audit->bytes)) {
        r = rotate(audit);
        if (r == 0)
            r = write_notes(audit, &line);
        if (r == 0)
            r = make_line(audit, action, fields, &line); /* its position has changed */
    }
    return r < 0 ? r : append(audit, line.data, line.length);
}

void audit_write(struct audit *audit, const char *action, json_t *fields)
{
    bool is_written = audit && write_line(audit, action, fields) == 0;

    json_decref(fields);
    if (!audit)
        return;
    if (!is_written) {
        audit->lost++;
        return;
    }
    audit->lost = 0;
    for (struct follower *next, *follower = audit->followers; follower; follower = next) {
        next = follower->next;
        follower->written(follower->ctx);
    }
}

/* ---- followers ---- */

bool audit_follow(struct audit *audit, void (*written)(void *ctx), void *ctx)
{
    struct follower *follower = audit ? calloc(1, sizeof(*follower)) : NULL;

    if (!follower)
        return false;
    *follower = (struct follower){.next = audit->followers, .written = written, .ctx = ctx};
    audit->followers = follower;
    return true;
}

void audit_unfollow(struct audit *audit, void *ctx)
{
    for (struct follower **at = audit ? &audit->followers : NULL; at && *at; at = &(*at)->next) {
        struct follower *gone = *at;

        if (gone->ctx != ctx)
            continue;
        *at = gone->next;
        free(gone);
        return;
    }
}
