/* audit_place.h - a folder with an audit in it, and its lines to be changed; for the tests of it.
 */
#ifndef BAILEY_TESTS_AUDIT_PLACE_H
#define BAILEY_TESTS_AUDIT_PLACE_H

#include "scratch.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "observe/audit.h"

#define LINES_MAX 64

struct place {
    struct scratch scratch;
    int folder_fd;
    struct audit *audit;
    struct audit_report report;
};

static inline int set_up(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    assert_non_null(place);
    scratch_make(&place->scratch);
    place->folder_fd = open(place->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(place->folder_fd >= 0);
    *state = place;
    return 0;
}

static inline int tear_down(void **state)
{
    struct place *place = *state;

    audit_close(place->audit);
    close(place->folder_fd);
    scratch_remove(&place->scratch);
    free(place);
    return 0;
}

static inline void open_audit(struct place *place)
{
    audit_close(place->audit);
    place->audit = audit_open(place->folder_fd);
    assert_non_null(place->audit);
}

static inline void close_audit(struct place *place)
{
    audit_close(place->audit);
    place->audit = NULL;
}

static inline void write_lines(struct place *place, int from, int to)
{
    for (int i = from; i <= to; i++)
        audit_write(place->audit, i % 2 ? "run" : "exec",
                    json_pack("{s:i, s:s, s:s}", "n", i, "tenant", i % 3 ? "a" : "b", "session_id",
                              i % 2 ? "s_1" : "s_2"));
}

static inline const struct audit_report *verify(struct place *place)
{
    struct error err = {0};

    assert_int_equal(audit_verify(place->folder_fd, &place->report, &err), 0);
    return &place->report;
}

#define assert_intact(place)                                \
    do {                                                    \
        const struct audit_report *report_ = verify(place); \
        assert_string_equal(report_->problem, "");          \
        assert_true(report_->is_intact);                    \
    } while (0)

#define assert_bad(place, file_, line_, words)              \
    do {                                                    \
        const struct audit_report *report_ = verify(place); \
        assert_false(report_->is_intact);                   \
        assert_string_equal(report_->file, file_);          \
        assert_int_equal(report_->line, line_);             \
        assert_non_null(strstr(report_->problem, words));   \
    } while (0)

/* A file as lines, to be put together anew. */
struct lines {
    char *text;
    char *line[LINES_MAX];
    size_t count;
};

static inline void lines_read(struct place *place, const char *name, struct lines *ret)
{
    static char text[262144];

    assert_true(scratch_read(scratch_path(&place->scratch, name), text, sizeof(text)));
    *ret = (struct lines){.text = strdup(text)};
    for (char *at = ret->text; *at;) {
        char *end = strchr(at, '\n');

        ret->line[ret->count++] = at;
        if (!end)
            break;
        *end = '\0';
        at = end + 1;
    }
}

static inline void lines_write(struct place *place, const char *name, const struct lines *lines)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);

    for (size_t i = 0; i < lines->count; i++) {
        if (lines->line[i])
            assert_int_equal(buf_printf(&text, "%s\n", lines->line[i]), 0);
    }
    scratch_write(&place->scratch, name, buf_text(&text));
}

static inline void append(const char *path, const char *data, size_t length)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, length), length);
    close(fd);
}

/* Ten lines, closed, and as lines. */
static inline void ten(struct place *place, struct lines *ret)
{
    open_audit(place);
    write_lines(place, 1, 10);
    close_audit(place);
    assert_intact(place);
    lines_read(place, "audit.jsonl", ret);
    assert_int_equal(ret->count, 10);
}

/* 15 lines in several files. */
static inline void three(struct place *place)
{
    open_audit(place);
    audit_configure(place->audit, 1000, 100);
    write_lines(place, 1, 15);
    close_audit(place);
    assert_intact(place);
}

#endif
