/*
 * test_audit_chain.c - the audit as a chain: what is written holds together over restarts, crashes
 * and new files, and every way of changing it afterwards shows, with the first bad line.
 */
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

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    assert_non_null(place);
    scratch_make(&place->scratch);
    place->folder_fd = open(place->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(place->folder_fd >= 0);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;

    audit_close(place->audit);
    close(place->folder_fd);
    scratch_remove(&place->scratch);
    free(place);
    return 0;
}

static void open_audit(struct place *place)
{
    audit_close(place->audit);
    place->audit = audit_open(place->folder_fd);
    assert_non_null(place->audit);
}

static void close_audit(struct place *place)
{
    audit_close(place->audit);
    place->audit = NULL;
}

static void write_lines(struct place *place, int from, int to)
{
    for (int i = from; i <= to; i++)
        audit_write(place->audit, i % 2 ? "run" : "exec",
                    json_pack("{s:i, s:s, s:s}", "n", i, "tenant", i % 3 ? "a" : "b", "session_id",
                              i % 2 ? "s_1" : "s_2"));
}

static const struct audit_report *verify(struct place *place)
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

static void lines_read(struct place *place, const char *name, struct lines *ret)
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

static void lines_write(struct place *place, const char *name, const struct lines *lines)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);

    for (size_t i = 0; i < lines->count; i++) {
        if (lines->line[i])
            assert_int_equal(buf_printf(&text, "%s\n", lines->line[i]), 0);
    }
    scratch_write(&place->scratch, name, buf_text(&text));
}

static void append(const char *path, const char *data, size_t length)
{
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, length), length);
    close(fd);
}

/* Ten lines, closed, and as lines. */
static void ten(struct place *place, struct lines *ret)
{
    open_audit(place);
    write_lines(place, 1, 10);
    close_audit(place);
    assert_intact(place);
    lines_read(place, "audit.jsonl", ret);
    assert_int_equal(ret->count, 10);
}

/* ---- what holds ---- */

static void test_the_chain(void **state)
{
    struct place *place = *state;
    char prev[SHA256_TEXT] = "0000000000000000000000000000000000000000000000000000000000000000";
    struct lines lines;

    ten(place, &lines);
    for (size_t i = 0; i < lines.count; i++) {
        json_t *json = json_loads(lines.line[i], 0, NULL);
        uint8_t digest[SHA256_BYTES];
        struct sha256 hash;

        assert_int_equal(json_integer_value(json_object_get(json, "seq")), i + 1);
        assert_string_equal(json_string_value(json_object_get(json, "prev")), prev);
        sha256_begin(&hash);
        sha256_add(&hash, lines.line[i], strlen(lines.line[i]));
        sha256_add(&hash, "\n", 1);
        sha256_end(&hash, digest);
        sha256_text(digest, prev);
        json_decref(json);
    }
    assert_string_equal(place->report.hash, prev);
    assert_int_equal(place->report.lines, 10);
    assert_int_equal(place->report.first, 1);
    assert_int_equal(place->report.last, 10);
    assert_int_equal(place->report.broken, 0);
    free(lines.text);
}

static void test_nothing_at_all(void **state)
{
    struct place *place = *state;

    assert_intact(place);
    assert_int_equal(place->report.lines, 0);
    open_audit(place);
    assert_intact(place);
}

static void test_over_restarts(void **state)
{
    struct place *place = *state;

    for (int i = 0; i < 5; i++) {
        open_audit(place);
        write_lines(place, i, i + 1);
    }
    assert_intact(place);
    assert_int_equal(place->report.last, 10);
}

static void test_over_new_files_that_are_kept(void **state)
{
    struct place *place = *state;

    open_audit(place);
    audit_configure(place->audit, 1000, 100);
    for (int i = 0; i < 20; i++) {
        if (i == 7)
            open_audit(place); /* also right behind a new file's beginning */
        audit_configure(place->audit, 1000, 100);
        write_lines(place, i, i);
    }
    assert_intact(place);
    assert_int_equal(place->report.first, 1);
    assert_int_equal(place->report.last, 20);
    assert_int_equal(access(scratch_path(&place->scratch, "audit.jsonl.2"), F_OK), 0);
}

/* Old files go, the line that says so comes, and the chain begins where it says. */
static void test_retention(void **state)
{
    struct place *place = *state;
    struct stat st;

    open_audit(place);
    audit_configure(place->audit, 1000, 3);
    write_lines(place, 1, 60);
    assert_intact(place);
    assert_true(place->report.first > 1);
    assert_true(place->report.last > 60); /* with what it says of itself */
    assert_int_equal(stat(scratch_path(&place->scratch, "audit.jsonl.1"), &st), -1);
    open_audit(place);
    audit_configure(place->audit, 1000, 1); /* only the one that is written */
    write_lines(place, 61, 80);
    assert_intact(place);
    audit_configure(place->audit, 500, 2);
    write_lines(place, 81, 100);
    assert_intact(place);
}

static void test_a_file_that_begins_empty_after_a_crash(void **state)
{
    struct place *place = *state;

    open_audit(place);
    write_lines(place, 1, 3);
    close_audit(place);
    /* dead between the new name and the new file */
    assert_int_equal(rename(scratch_path(&place->scratch, "audit.jsonl"),
                            scratch_path(&place->scratch, "audit.jsonl.1")),
                     0);
    open_audit(place);
    write_lines(place, 4, 5);
    assert_intact(place);
    assert_int_equal(place->report.last, 5);
}

/* Killed in the middle of a line: it is kept as it is, counted, and the chain goes on. */
static void test_a_torn_line(void **state)
{
    struct place *place = *state;
    struct stat st;
    off_t whole;

    for (int cut = 1; cut < 40; cut += 7) {
        const char *path = scratch_path(&place->scratch, "audit.jsonl");

        open_audit(place);
        write_lines(place, 1, 2);
        assert_int_equal(stat(path, &st), 0);
        whole = st.st_size;
        /* what was written last, without audit.head knowing it */
        append(path, "{\"seq\":99,\"time\":\"2026-11-15T08:15:04.123Z\",\"action\":\"run\"",
               (size_t)cut);
        close_audit(place);
        assert_intact(place);
        assert_int_equal(place->report.broken, (unsigned)(1 + cut / 7));
        open_audit(place);
        write_lines(place, 3, 3);
        assert_intact(place);
        assert_int_equal(place->report.broken, (unsigned)(1 + cut / 7));
        assert_int_equal(stat(path, &st), 0);
        assert_true(st.st_size > whole + cut);
    }
}

static void test_lines_of_before_the_chain(void **state)
{
    struct place *place = *state;

    scratch_write(&place->scratch, "audit.jsonl.1", "{\"time\":\"x\",\"action\":\"older\"}\n");
    scratch_write(&place->scratch, "audit.jsonl",
                  "{\"time\":\"x\",\"action\":\"tool\"}\n{\"time\":\"y\",\"action\":\"tool\"}\n");
    open_audit(place);
    write_lines(place, 1, 3);
    assert_intact(place);
    assert_int_equal(place->report.unchained, 3);
    assert_int_equal(place->report.lines, 3);
    close_audit(place);
    /* and the last of them is held by the chain */
    scratch_write(&place->scratch, "audit.jsonl.1", "{\"time\":\"x\",\"action\":\"forged\"}\n");
    assert_intact(place); /* the ones before it are not */
}

/* ---- what shows ---- */

static void test_an_edit(void **state)
{
    struct place *place = *state;
    struct lines lines;

    ten(place, &lines);
    for (size_t i = 0; i < lines.count; i++) {
        char *kept = lines.line[i], changed[1000];
        char *at;

        str_copy(changed, sizeof(changed), kept);
        at = strstr(changed, "\"tenant\":\"");
        at[strlen("\"tenant\":\"")] = 'c';
        lines.line[i] = changed;
        lines_write(place, "audit.jsonl", &lines);
        if (i < 9)
            assert_bad(place, "audit.jsonl", i + 1, "changed");
        else
            assert_bad(place, "", 0, "audit.head does not fit line 10");
        lines.line[i] = kept;
    }
    lines_write(place, "audit.jsonl", &lines);
    assert_intact(place);
    free(lines.text);
}

static void test_an_edit_of_the_link(void **state)
{
    struct place *place = *state;
    struct lines lines;
    char *at;

    ten(place, &lines);
    at = strstr(lines.line[4], "\"prev\":\"") + strlen("\"prev\":\"");
    *at = *at == 'a' ? 'b' : 'a';
    lines_write(place, "audit.jsonl", &lines);
    assert_bad(place, "audit.jsonl", 5, "changed");
    free(lines.text);
}

static void test_a_line_that_is_gone(void **state)
{
    struct place *place = *state;
    struct lines lines;

    ten(place, &lines);
    for (size_t i = 0; i < 9; i++) {
        char *kept = lines.line[i];

        lines.line[i] = NULL;
        lines_write(place, "audit.jsonl", &lines);
        assert_bad(place, "audit.jsonl", i + 1, "missing before this one");
        lines.line[i] = kept;
    }
    free(lines.text);
}

static void test_lines_that_were_cut_off(void **state)
{
    struct place *place = *state;
    struct lines lines;
    size_t whole;

    ten(place, &lines);
    whole = lines.count;
    for (lines.count = whole - 1; lines.count > 0; lines.count--) {
        lines_write(place, "audit.jsonl", &lines);
        assert_bad(place, "", 0, "missing at the end: audit.head knows line 10");
    }
    unlink(scratch_path(&place->scratch, "audit.jsonl"));
    assert_bad(place, "", 0, "missing at the end");
    free(lines.text);
}

/* The daemon goes on, and what it found stays visible. */
static void test_a_cut_before_later_lines(void **state)
{
    struct place *place = *state;
    struct lines lines;

    ten(place, &lines);
    lines.count = 7;
    lines_write(place, "audit.jsonl", &lines);
    free(lines.text);
    open_audit(place);
    write_lines(place, 11, 12);
    close_audit(place);
    assert_bad(place, "audit.jsonl", 8, "lines are missing at the end");
    lines_read(place, "audit.jsonl", &lines);
    assert_non_null(strstr(lines.line[7], "\"action\":\"audit.cut\""));
    assert_non_null(strstr(lines.line[7], "\"seq\":11"));
    assert_non_null(strstr(lines.line[7], "\"from\":8"));
    free(lines.text);
}

static void test_a_cut_in_the_middle_of_a_line(void **state)
{
    struct place *place = *state;
    const char *path = scratch_path(&place->scratch, "audit.jsonl");
    struct lines lines;
    struct stat st;

    ten(place, &lines);
    free(lines.text);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size - 5), 0);
    assert_bad(place, "", 0, "missing at the end");
    open_audit(place);
    write_lines(place, 11, 12);
    assert_false(verify(place)->is_intact);
}

static void test_lines_that_changed_places(void **state)
{
    struct place *place = *state;
    struct lines lines;
    char *kept;

    ten(place, &lines);
    kept = lines.line[3];
    lines.line[3] = lines.line[4];
    lines.line[4] = kept;
    lines_write(place, "audit.jsonl", &lines);
    assert_bad(place, "audit.jsonl", 4, "missing before this one");
    free(lines.text);
}

static void test_a_line_twice(void **state)
{
    struct place *place = *state;
    struct lines lines;

    ten(place, &lines);
    lines.line[5] = lines.line[4];
    lines_write(place, "audit.jsonl", &lines);
    assert_bad(place, "audit.jsonl", 6, "not in its place");
    free(lines.text);
}

static void test_what_is_no_line(void **state)
{
    static const char *const words[] = {"",
                                        "{}",
                                        "[]",
                                        "garbage",
                                        "{\"seq\":5}",
                                        "{\"seq\":5,\"prev\":\"short\"}",
                                        "{\"seq\":-1,\"prev\":\"\"}",
                                        "{\"seq\":\"5\",\"prev\":null}"};
    struct place *place = *state;
    struct lines lines;
    char *kept;

    ten(place, &lines);
    kept = lines.line[4];
    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        lines.line[4] = (char *)words[i]; /* in place of a line */
        lines_write(place, "audit.jsonl", &lines);
        assert_bad(place, "audit.jsonl", 5, "no line of the audit");
    }
    lines.line[4] = kept;
    lines.line[lines.count++] = (char *)"garbage"; /* behind the last */
    lines_write(place, "audit.jsonl", &lines);
    assert_bad(place, "audit.jsonl", 11, "no line of the audit");
    free(lines.text);
}

static void test_a_line_without_end(void **state)
{
    struct place *place = *state;
    const char *path = scratch_path(&place->scratch, "audit.jsonl");
    struct lines lines;

    ten(place, &lines);
    free(lines.text);
    assert_int_equal(truncate(path, (off_t)(3 * LIMIT_AUDIT_LINE)), 0);
    assert_bad(place, "audit.jsonl", 11, "longer than any");
}

/* Three files; then one of them goes. */
static void three(struct place *place)
{
    open_audit(place);
    audit_configure(place->audit, 1000, 100);
    write_lines(place, 1, 15);
    close_audit(place);
    assert_intact(place);
}

static void test_a_file_that_is_gone(void **state)
{
    struct place *place = *state;

    three(place);
    unlink(scratch_path(&place->scratch, "audit.jsonl.2"));
    assert_false(verify(place)->is_intact);
    assert_int_equal(place->report.line, 1);
    assert_non_null(strstr(place->report.problem, "missing before this one"));
}

static void test_the_oldest_file_is_gone(void **state)
{
    struct place *place = *state;

    three(place);
    unlink(scratch_path(&place->scratch, "audit.jsonl.1"));
    assert_bad(place, "audit.jsonl.2", 1, "no line tells that they were dropped");
}

static void test_the_newest_file_is_gone(void **state)
{
    struct place *place = *state;

    three(place);
    unlink(scratch_path(&place->scratch, "audit.jsonl"));
    assert_bad(place, "", 0, "missing at the end");
}

static void test_the_head(void **state)
{
    struct place *place = *state;
    const char *path = scratch_path(&place->scratch, "audit.head");
    struct lines lines;

    ten(place, &lines);
    free(lines.text);
    unlink(path);
    assert_bad(place, "", 0, "audit.head is missing");
    scratch_write(&place->scratch, "audit.head", "7 nonsense\n");
    assert_bad(place, "", 0, "audit.head is missing or not sound");
    /* the daemon says that it was away */
    open_audit(place);
    write_lines(place, 11, 11);
    assert_bad(place, "audit.jsonl", 11, "audit.head is not there");
}

/* Who rewrites everything, the head too, is not seen: the hash that was noted elsewhere says it. */
static void test_what_cannot_be_seen(void **state)
{
    struct place *place = *state;
    char hash[SHA256_TEXT];
    struct lines lines;

    ten(place, &lines);
    str_copy(hash, sizeof(hash), place->report.hash);
    free(lines.text);
    unlink(scratch_path(&place->scratch, "audit.jsonl"));
    unlink(scratch_path(&place->scratch, "audit.head"));
    open_audit(place);
    write_lines(place, 2, 11);
    assert_intact(place);
    assert_string_not_equal(place->report.hash, hash);
}

static void test_planted_files(void **state)
{
    struct place *place = *state;
    struct error err = {0};

    assert_int_equal(symlink("/dev/zero", scratch_path(&place->scratch, "audit.jsonl")), 0);
    assert_int_equal(audit_verify(place->folder_fd, &place->report, &err), -ELOOP);
    assert_int_equal(audit_verify(-1, &place->report, &err), -EBADF);
}

/* ---- reading ---- */

static unsigned read_all(struct audit_reader *reader, int *numbers)
{
    const char *data;
    size_t length;
    unsigned count = 0;
    int r;

    while ((r = audit_reader_next(reader, &data, &length)) != 0) {
        json_t *json;

        if (r == -EAGAIN)
            continue;
        assert_int_equal(r, 1);
        json = json_loadb(data, length, 0, NULL);
        assert_non_null(json);
        assert_true(count < LINES_MAX);
        numbers[count++] = (int)json_integer_value(json_object_get(json, "n"));
        json_decref(json);
    }
    return count;
}

static struct audit_reader *reader(struct place *place, const struct audit_filter *filter,
                                   uint64_t tail)
{
    struct error err = {0};
    struct audit_reader *made = audit_reader_new(place->folder_fd, filter, tail, &err);

    assert_non_null(made);
    return made;
}

static void test_reading(void **state)
{
    struct place *place = *state;
    const struct audit_filter all = {NULL}, of_b = {.tenant = "b"},
                              of_both = {.session = "s_1", .action = "run", .tenant = "b"},
                              future = {.since = "2999-01-01T00:00:00.000Z"},
                              past = {.since = "1999-01-01T00:00:00.000Z"},
                              begin = {.action = "ex"};
    struct audit_reader *one;
    int numbers[LINES_MAX];

    three(place); /* 15 lines in several files */
    one = reader(place, &all, UINT64_MAX);
    assert_int_equal(read_all(one, numbers), 15);
    for (int i = 0; i < 15; i++)
        assert_int_equal(numbers[i], i + 1);
    audit_reader_free(one);
    one = reader(place, &of_b, UINT64_MAX);
    assert_int_equal(read_all(one, numbers), 5);
    assert_int_equal(numbers[1], 6);
    audit_reader_free(one);
    one = reader(place, &of_both, UINT64_MAX);
    assert_int_equal(read_all(one, numbers), 3);
    audit_reader_free(one);
    one = reader(place, &future, UINT64_MAX);
    assert_int_equal(read_all(one, numbers), 0);
    audit_reader_free(one);
    one = reader(place, &past, UINT64_MAX);
    assert_int_equal(read_all(one, numbers), 15);
    audit_reader_free(one);
    one = reader(place, &begin, UINT64_MAX);
    assert_int_equal(read_all(one, numbers), 0);
    audit_reader_free(one);
    audit_reader_free(NULL);
}

static void on_written(void *ctx)
{
    (*(int *)ctx)++;
}

/* The last ones, and then what comes, also over new files. */
static void test_following(void **state)
{
    struct place *place = *state;
    const struct audit_filter all = {NULL};
    struct audit_reader *one;
    int numbers[LINES_MAX], told = 0;

    open_audit(place);
    write_lines(place, 1, 9);
    one = reader(place, &all, 2);
    assert_int_equal(read_all(one, numbers), 2);
    assert_int_equal(numbers[0], 8);
    assert_true(audit_follow(place->audit, on_written, &told));
    audit_configure(place->audit, 600, 100);
    write_lines(place, 10, 20);
    assert_int_equal(told, 11);
    assert_int_equal(read_all(one, numbers), 11);
    for (int i = 0; i < 11; i++)
        assert_int_equal(numbers[i], 10 + i);
    write_lines(place, 21, 21);
    assert_int_equal(read_all(one, numbers), 1);
    audit_unfollow(place->audit, &told);
    write_lines(place, 22, 22);
    assert_int_equal(told, 12);
    audit_reader_free(one);
    audit_unfollow(place->audit, &told);
    audit_unfollow(NULL, &told);
    assert_false(audit_follow(NULL, on_written, &told));
}

static void test_following_from_nothing(void **state)
{
    struct place *place = *state;
    const struct audit_filter all = {NULL};
    struct audit_reader *one = reader(place, &all, UINT64_MAX);
    int numbers[LINES_MAX];

    assert_int_equal(read_all(one, numbers), 0);
    open_audit(place);
    write_lines(place, 1, 2);
    assert_int_equal(read_all(one, numbers), 2);
    audit_reader_free(one);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_the_chain),
        TEST(test_nothing_at_all),
        TEST(test_over_restarts),
        TEST(test_over_new_files_that_are_kept),
        TEST(test_retention),
        TEST(test_a_file_that_begins_empty_after_a_crash),
        TEST(test_a_torn_line),
        TEST(test_lines_of_before_the_chain),
        TEST(test_an_edit),
        TEST(test_an_edit_of_the_link),
        TEST(test_a_line_that_is_gone),
        TEST(test_lines_that_were_cut_off),
        TEST(test_a_cut_before_later_lines),
        TEST(test_a_cut_in_the_middle_of_a_line),
        TEST(test_lines_that_changed_places),
        TEST(test_a_line_twice),
        TEST(test_what_is_no_line),
        TEST(test_a_line_without_end),
        TEST(test_a_file_that_is_gone),
        TEST(test_the_oldest_file_is_gone),
        TEST(test_the_newest_file_is_gone),
        TEST(test_the_head),
        TEST(test_what_cannot_be_seen),
        TEST(test_planted_files),
        TEST(test_reading),
        TEST(test_following),
        TEST(test_following_from_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
