/*
 * test_audit_chain.c - the audit as a chain: what is written holds together over restarts, crashes
 * and new files, and every way of changing it afterwards shows, with the first bad line.
 */
#include "audit_place.h"

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

/* Code may have any byte, also one that ends texts in C. */
static void test_bytes_of_code(void **state)
{
    struct place *place = *state;

    open_audit(place);
    audit_write(place->audit, "run", json_pack("{s:s#}", "code", "a\0b\x01\x7f\"\\", 7));
    write_lines(place, 2, 3);
    assert_intact(place);
    open_audit(place);
    write_lines(place, 4, 4);
    assert_intact(place);
    assert_int_equal(place->report.broken, 0);
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
        assert_bad(place, "", 0, "missing at the end: audit.head has line 10");
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
    assert_bad(place, "audit.jsonl", 6, "out of order");
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
    assert_bad(place, "audit.jsonl.2", 1, "no line records that they were dropped");
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
    assert_bad(place, "audit.jsonl", 11, "audit.head is missing");
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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_the_chain),
        TEST(test_bytes_of_code),
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
