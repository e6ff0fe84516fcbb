/*
 * audit_reader.c - reads lines of the audit: filtered, from the oldest file to the newest, and on
 * while more is written; see audit.h.
 *
 * A file keeps its descriptor when it is rotated, so it is read to its end; later lines are in the
 * file of the next number, or in the new one.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "observe/audit.h"
#include "observe/audit_file.h"

#define TURN_BYTES (1 * MIB) /* that are looked at in one turn */

struct audit_reader {
    int folder_fd;
    char *session, *tenant, *action, *since;
    struct audit_lines lines; /* fd -1: none is open */
    bool is_current;          /* it is the one that is written */
    uint32_t number;          /* of the file; of the current one: of the last full one before it */
    uint64_t seq;             /* of the last line that was seen */
    uint64_t skip;            /* matching lines that are older than the requested number of lines */
};

/* ---- what fits ---- */

static bool is_member(const json_t *json, const char *name, const char *wanted)
{
    return !wanted || str_equal(json_string_value(json_object_get(json, name)), wanted);
}

static bool fits(struct audit_reader *reader, const char *data, size_t length)
{
    json_t *json = json_loadb(data, length, JSON_ALLOW_NUL, NULL);
    const char *action = json_string_value(json_object_get(json, "action"));
    const char *time = json_string_value(json_object_get(json, "time"));
    json_int_t seq = json_integer_value(json_object_get(json, "seq"));
    bool is_fit = json_is_object(json) && action && (uint64_t)seq > reader->seq;

    if (seq > 0 && (uint64_t)seq > reader->seq)
        reader->seq = (uint64_t)seq;
    is_fit = is_fit && is_member(json, "session_id", reader->session) &&
             is_member(json, "tenant", reader->tenant);
    if (is_fit && reader->action)
        is_fit = str_ends(reader->action, ".") ? str_starts(action, reader->action)
                                               : str_equal(action, reader->action);
    if (is_fit && reader->since)
        is_fit = time && strcmp(time, reader->since) >= 0; /* both of one form */
    json_decref(json);
    return is_fit;
}

/* ---- files ---- */

/* The first full file after `number`, else the current one. 0: there is none. */
static int open_next(struct audit_reader *reader, uint32_t number)
{
    CLEANUP(audit_files_free) struct audit_files files = {.count = 0};
    int r = audit_files_list(reader->folder_fd, &files), fd;
    char name[AUDIT_NAME_MAX] = AUDIT_FILE;

    if (r < 0)
        return r;
    audit_lines_end(&reader->lines);
    reader->is_current = true;
    reader->number = files.count > 0 ? files.numbers[files.count - 1] : 0;
    for (size_t i = 0; i < files.count; i++) {
        if (files.numbers[i] <= number)
            continue;
        reader->is_current = false;
        reader->number = files.numbers[i];
        audit_file_name(reader->number, name);
        break;
    }
    fd = audit_file_open(reader->folder_fd, name);
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    audit_lines_begin(&reader->lines, fd);
    return 1;
}

/* Whether the file that is read has been rotated: another one is written now. */
static bool has_moved(const struct audit_reader *reader)
{
    CLEANUP(fd_closep) int fd = audit_file_open(reader->folder_fd, AUDIT_FILE);
    struct stat mine, now;

    return fd >= 0 && fstat(reader->lines.fd, &mine) == 0 && fstat(fd, &now) == 0 &&
           (mine.st_ino != now.st_ino || mine.st_dev != now.st_dev);
}

/* Its end was reached: 1: there is another one, 0: nothing more now. */
static int go_on(struct audit_reader *reader)
{
    if (reader->lines.fd >= 0 && reader->is_current && !has_moved(reader))
        return 0;
    /* What was the current one has a number now, and is read once more: seq says where we are. */
    return open_next(reader, reader->number);
}

int audit_reader_next(struct audit_reader *reader, const char **ret, size_t *ret_length)
{
    size_t looked = 0;

    while (looked < TURN_BYTES) {
        int r = reader->lines.fd < 0 ? 0 : audit_lines_next(&reader->lines, ret, ret_length);

        if (r == -EFBIG)
            r = 0; /* we never write such lines; verify reports them */
        if (r < 0)
            return r;
        if (r == 0) {
            r = go_on(reader);
            if (r <= 0)
                return r;
            continue;
        }
        looked += *ret_length;
        if (!fits(reader, *ret, *ret_length))
            continue;
        if (reader->skip == 0)
            return 1;
        reader->skip--;
    }
    return -EAGAIN;
}

/* ---- life ---- */

/* Where the last `tail` fitting lines of the current file begin; the older files are left alone. */
static int find_tail(struct audit_reader *reader, uint64_t tail)
{
    uint64_t count = 0;
    const char *data;
    size_t length;
    int r = open_next(reader, UINT32_MAX);

    while (r > 0 && (r = audit_lines_next(&reader->lines, &data, &length)) > 0)
        count += fits(reader, data, length);
    if (r < 0 && r != -EFBIG)
        return r;
    reader->skip = count > tail ? count - tail : 0;
    reader->seq = 0;
    return open_next(reader, UINT32_MAX);
}

static int copy(const char *text, char **ret)
{
    *ret = text ? strdup(text) : NULL;
    return text && !*ret ? -ENOMEM : 0;
}

struct audit_reader *audit_reader_new(int folder_fd, const struct audit_filter *filter,
                                      uint64_t tail, struct error *err)
{
    struct audit_reader *reader = calloc(1, sizeof(*reader));
    int r = reader ? 0 : -ENOMEM;

    if (reader) {
        reader->folder_fd = folder_fd;
        reader->lines.fd = -1;
        r = copy(filter->session, &reader->session);
        if (r == 0)
            r = copy(filter->tenant, &reader->tenant);
        if (r == 0)
            r = copy(filter->action, &reader->action);
        if (r == 0)
            r = copy(filter->since, &reader->since);
    }
    if (r == 0)
        r = tail == UINT64_MAX ? open_next(reader, 0) : find_tail(reader, tail);
    if (r >= 0)
        return reader;
    error_set(err, r, ERROR_ENGINE, "reading the audit: %s", strerror(-r));
    audit_reader_free(reader);
    return NULL;
}

void audit_reader_free(struct audit_reader *reader)
{
    if (!reader)
        return;
    audit_lines_end(&reader->lines);
    free(reader->session);
    free(reader->tenant);
    free(reader->action);
    free(reader->since);
    free(reader);
}
