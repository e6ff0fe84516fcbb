/*
 * audit_verify.c - whether the audit is unchanged: every line against the previous one, the end
 * against audit.head; see audit.h.
 *
 * A line whose hash does not match the next line's `prev` was changed, or the next one was: the
 * line after them shows which. The files are those of one moment: audit.head is read first, so that
 * lines which are written meanwhile only add to what it records.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "observe/audit.h"
#include "observe/audit_file.h"

#define TRIES 5 /* while files get new names under our eyes */

/* The position of a line. */
struct spot {
    char file[AUDIT_NAME_MAX];
    uint64_t line;
};

struct check {
    struct audit_report *report;
    struct audit_line head; /* seq 0: there is none */
    bool saw_head;          /* the line that audit.head names, as it is there */

    struct spot spot; /* of the line that is looked at */
    struct spot spot_before;
    uint64_t seq;           /* of the one before; 0: none of the chain yet */
    char hash[SHA256_TEXT]; /* of the one before; empty: none */
    bool was_broken;        /* not a line of the chain: the next one has to say so */

    bool is_torn_here;   /* prev of the last line did not fit: it or the one before is bad */
    struct spot suspect; /* the one before */
    uint64_t begin;      /* the chain begins after this line, which was dropped */
    char begin_hash[SHA256_TEXT];
    struct spot begin_spot;
    bool is_begin_told; /* by audit.dropped */
};

__attribute__((format(printf, 3, 4))) static void
problem(struct check *check, const struct spot *spot, const char *format, ...)
{
    struct audit_report *report = check->report;
    va_list args;

    if (!report->is_intact)
        return; /* the first counts */
    report->is_intact = false;
    str_copy(report->file, sizeof(report->file), spot ? spot->file : "");
    report->line = spot ? spot->line : 0;
    va_start(args, format);
    if (vsnprintf(report->problem, sizeof(report->problem), format, args) < 0)
        report->problem[0] = '\0';
    va_end(args);
}

/* The last two lines did not fit; `fits`: the later one is as it was written. */
static void settle(struct check *check, bool fits)
{
    if (!check->is_torn_here)
        return;
    check->is_torn_here = false;
    if (fits)
        problem(check, &check->suspect, "this line was changed after it was written");
    else
        problem(check, &check->spot_before,
                "this line was changed after it was written, or its beginning was");
}

/* ---- one line ---- */

static void look_at_words(struct check *check, json_t *json)
{
    const char *action = json_string_value(json_object_get(json, "action"));
    const char *hash = json_string_value(json_object_get(json, "hash"));
    json_int_t lost = json_integer_value(json_object_get(json, "lost"));
    json_int_t through = json_integer_value(json_object_get(json, "through"));

    check->report->lost += lost > 0 ? (uint64_t)lost : 0;
    if (str_equal(action, "audit.cut"))
        problem(check, &check->spot, "the daemon found at its start: %.120s",
                json_string_value(json_object_get(json, "reason"))
                    ? json_string_value(json_object_get(json, "reason"))
                    : "something is missing before this line");
    if (str_equal(action, "audit.dropped") && check->begin > 0 &&
        through == (json_int_t)check->begin && str_equal(hash, check->begin_hash))
        check->is_begin_told = true;
}

/* The first one of the chain that is there. */
static void begin_chain(struct check *check, const struct audit_line *line)
{
    const char *before = check->hash[0] ? check->hash : AUDIT_BEGINNING;

    check->report->first = line->seq;
    if (line->seq == 1) {
        if (!str_equal(line->prev, before))
            problem(check, &check->spot, "this is the first line, and it names one before it");
        return;
    }
    check->begin = line->seq - 1;
    check->begin_spot = check->spot;
    str_copy(check->begin_hash, sizeof(check->begin_hash), line->prev);
}

static void follow_chain(struct check *check, const struct audit_line *line, json_t *json)
{
    const char *action = json_string_value(json_object_get(json, "action"));
    bool fits = str_equal(line->prev, check->hash);

    settle(check, fits);
    if (check->was_broken && !(fits && str_equal(action, "audit.repaired")))
        problem(check, &check->spot_before, "this is no line of the audit");
    else if (line->seq > check->seq + 1 && !str_equal(action, "audit.cut"))
        problem(check, &check->spot, "lines are missing before this one: %" PRIu64 " to %" PRIu64,
                check->seq + 1, line->seq - 1);
    else if (line->seq <= check->seq)
        problem(check, &check->spot,
                "this line is out of order: its number is %" PRIu64 " behind %" PRIu64, line->seq,
                check->seq);
    if (!fits && check->report->is_intact) {
        check->is_torn_here = true;
        check->suspect = check->spot_before;
    }
}

static void take_broken(struct check *check, json_t *json)
{
    if (check->seq == 0 && json_is_object(json) && !json_object_get(json, "seq")) {
        check->report->unchained++;
        return;
    }
    if (check->seq == 0 && check->report->first == 0 && !json) {
        check->report->unchained++; /* of before the chain, or the torn beginning of it */
        return;
    }
    if (check->was_broken)
        problem(check, &check->spot_before, "this is no line of the audit");
    settle(check, false);
    check->was_broken = true;
    check->seq++;
    check->report->broken++;
    check->report->lines++;
    check->report->last = check->seq;
}

static void look_at_line(struct check *check, const char *data, size_t length)
{
    json_t *json = json_loadb(data, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    struct audit_line line;

    if (audit_line_read(data, length, &line)) {
        if (check->seq == 0)
            begin_chain(check, &line);
        else
            follow_chain(check, &line, json);
        check->was_broken = false;
        check->seq = line.seq;
        check->report->lines++;
        check->report->last = line.seq;
        look_at_words(check, json);
    } else {
        take_broken(check, json);
    }
    audit_line_hash(data, length, check->hash);
    if (check->head.seq > 0 && check->seq == check->head.seq)
        check->saw_head = str_equal(check->hash, check->head.prev);
    check->spot_before = check->spot;
    json_decref(json);
}

/* ---- files ---- */

static int look_at_file(struct check *check, const char *name, int fd, bool is_last)
{
    CLEANUP(audit_lines_end) struct audit_lines lines;
    const char *data;
    size_t length = 0;
    int r;

    audit_lines_begin(&lines, fd);
    str_copy(check->spot.file, sizeof(check->spot.file), name);
    while ((r = audit_lines_next(&lines, &data, &length)) > 0) {
        check->spot.line = lines.number;
        look_at_line(check, data, length);
    }
    check->spot.line = lines.number + 1;
    if (r == -EFBIG)
        problem(check, &check->spot, "this line is longer than any that is written");
    else if (r == 0 && length > 0 && is_last)
        check->report->broken++; /* a crash, or being written just now */
    else if (r == 0 && length > 0)
        problem(check, &check->spot, "this file ends in the middle of a line");
    return r == -EFBIG ? 0 : r;
}

static void look_at_end(struct check *check)
{
    struct audit_report *report = check->report;

    settle(check, check->saw_head && check->head.seq == check->seq);
    if (check->was_broken)
        problem(check, &check->spot_before, "this is no line of the audit");
    if (check->begin > 0 && !check->is_begin_told)
        problem(check, &check->begin_spot,
                "lines are missing before this one, and no line records that they were dropped");
    if (check->head.seq > check->seq)
        problem(check, NULL,
                "lines are missing at the end: audit.head has line %" PRIu64
                ", the last one in the files is %" PRIu64,
                check->head.seq, check->seq);
    else if (check->head.seq > 0 && check->head.seq >= report->first && !check->saw_head)
        problem(check, NULL, "audit.head does not fit line %" PRIu64 ": one of them was changed",
                check->head.seq);
    else if (check->head.seq == 0 && report->lines > 0)
        problem(check, NULL, "audit.head is missing or not sound: a cut at the end would not show");
    str_copy(report->hash, sizeof(report->hash), check->hash);
}

static bool is_same(const struct audit_files *a, const struct audit_files *b)
{
    return a->count == b->count &&
           (a->count == 0 || a->numbers[a->count - 1] == b->numbers[b->count - 1]);
}

/* Once; -EAGAIN: a file got another name meanwhile. */
static int try(int folder_fd, struct audit_report *report)
{
    CLEANUP(audit_files_free) struct audit_files files = {.count = 0}, again = {.count = 0};
    CLEANUP(fd_closep) int head = -1, last = -1;
    struct check check = {.report = report};
    int r = 0;

    *report = (struct audit_report){.is_intact = true};
    head = audit_file_open(folder_fd, AUDIT_HEAD);
    if (head >= 0 && !audit_head_read(head, &check.head))
        check.head.seq = 0;
    r = audit_files_list(folder_fd, &files);
    if (r < 0)
        return r;
    last = audit_file_open(folder_fd, AUDIT_FILE);
    r = audit_files_list(folder_fd, &again);
    if (r < 0)
        return r;
    if (!is_same(&files, &again))
        return -EAGAIN;
    if (last < 0 && last != -ENOENT)
        return last;
    for (size_t i = 0; i < files.count && r == 0; i++) {
        char name[AUDIT_NAME_MAX];
        int fd;

        audit_file_name(files.numbers[i], name);
        fd = audit_file_open(folder_fd, name);
        if (fd < 0)
            return fd == -ENOENT ? -EAGAIN : fd;
        r = look_at_file(&check, name, fd, false);
    }
    if (r == 0 && last >= 0)
        r = look_at_file(&check, AUDIT_FILE, fd_take(&last), true);
    if (r == 0)
        look_at_end(&check);
    return r;
}

int audit_verify(int folder_fd, struct audit_report *ret, struct error *err)
{
    int r = -EAGAIN;

    for (int i = 0; i < TRIES && r == -EAGAIN; i++)
        r = try(folder_fd, ret);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "reading the audit: %s", strerror(-r));
    return 0;
}
