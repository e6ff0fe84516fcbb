/* test_audit.c - the audit log: lines, rotation, what is lost and told, torn and planted files. */
#include "bad_day.h"
#include "observe/audit_place.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* The whole file, as text. */
static const char *read_file(struct place *place, const char *name)
{
    static char text[65536];

    if (!scratch_read(scratch_path(&place->scratch, name), text, sizeof(text)))
        return "(none)";
    return text;
}

/* Line `number` (from 0) of audit.jsonl; NULL when there is none or it is no JSON. */
static json_t *read_line(struct place *place, unsigned number)
{
    const char *text = read_file(place, "audit.jsonl"), *end;

    while (number-- > 0) {
        text = strchr(text, '\n');
        if (!text++)
            return NULL;
    }
    end = strchr(text, '\n');
    return end ? json_loadb(text, (size_t)(end - text), 0, NULL) : NULL;
}

static json_int_t number_of(struct place *place, unsigned line, const char *key)
{
    json_t *json = read_line(place, line);
    json_t *value = json_object_get(json, key);
    json_int_t number = value ? json_integer_value(value) : -1;

    json_decref(json);
    return number;
}

static void write_number(struct audit *audit, int number)
{
    audit_write(audit, "test", json_pack("{s:i}", "n", number));
}

/* ---- lines ------------------------------------------------------------------------------------
 */

static void test_a_line(void **state)
{
    struct place *place = *state;
    struct stat st;
    json_t *json;

    open_audit(place);
    audit_write(place->audit, "exec",
                json_pack("{s:s, s:s, s:s}", "argv", "a\nb\x1b[31m\xe2\x80\xae", "action", "forged",
                          "time", "never"));
    audit_write(place->audit, "bare", NULL);
    json = read_line(place, 0);
    assert_int_equal(json_object_size(json), 5);
    assert_string_equal(json_string_value(json_object_get(json, "action")), "exec");
    assert_string_equal(json_string_value(json_object_get(json, "argv")),
                        "a\nb\x1b[31m\xe2\x80\xae");
    assert_int_equal(json_string_length(json_object_get(json, "time")), 24);
    json_decref(json);
    json = read_line(place, 1);
    assert_string_equal(json_string_value(json_object_get(json, "action")), "bare");
    assert_int_equal(json_object_size(json), 4);
    json_decref(json);
    assert_null(read_line(place, 2));
    for (const char *at = read_file(place, "audit.jsonl"); *at; at++)
        assert_true(*at == '\n' || (*at >= ' ' && *at < 127));
    assert_int_equal(stat(scratch_path(&place->scratch, "audit.jsonl"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void test_goes_on_behind_what_is_there(void **state)
{
    struct place *place = *state;

    open_audit(place);
    write_number(place->audit, 1);
    open_audit(place);
    write_number(place->audit, 2);
    assert_int_equal(number_of(place, 0, "n"), 1);
    assert_int_equal(number_of(place, 1, "n"), 2);
}

static void test_a_torn_line_gets_its_end(void **state)
{
    struct place *place = *state;

    scratch_write(&place->scratch, "audit.jsonl", "{\"time\":\"20");
    open_audit(place);
    write_number(place->audit, 1);
    write_number(place->audit, 2);
    assert_null(read_line(place, 0));
    assert_int_equal(number_of(place, 1, "broken"), 1);
    assert_int_equal(number_of(place, 2, "n"), 1);
    assert_int_equal(number_of(place, 3, "n"), 2);
}

static void test_none_takes_every_call(void **state)
{
    (void)state;
    audit_write(NULL, "test", json_pack("{s:i}", "n", 1));
    audit_write(NULL, "test", NULL);
    audit_close(NULL);
}

static void test_planted_files_are_refused(void **state)
{
    struct place *place = *state;
    const char *path = scratch_path(&place->scratch, "audit.jsonl");

    scratch_write(&place->scratch, "target", "");
    assert_int_equal(symlink("target", path), 0);
    assert_null(audit_open(place->folder_fd));
    assert_int_equal(errno, ELOOP);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_null(audit_open(place->folder_fd));
    assert_int_equal(errno, EINVAL);
    assert_null(audit_open(-1));
    assert_int_equal(errno, EBADF);
}

static void test_a_line_that_is_too_long(void **state)
{
    struct place *place = *state;
    char *text = malloc(LIMIT_AUDIT_LINE);
    json_t *json;

    assert_non_null(text);
    memset(text, 'x', LIMIT_AUDIT_LINE);
    open_audit(place);
    audit_write(place->audit, "long",
                json_pack("{s:o}", "text", json_stringn(text, LIMIT_AUDIT_LINE)));
    free(text);
    write_number(place->audit, 2);
    json = read_line(place, 0);
    assert_string_equal(json_string_value(json_object_get(json, "action")), "long");
    assert_true(json_is_true(json_object_get(json, "too_long")));
    assert_null(json_object_get(json, "text"));
    json_decref(json);
    assert_int_equal(number_of(place, 1, "n"), 2);
    assert_int_equal(number_of(place, 1, "lost"), -1);
}

/* ---- rotation ---------------------------------------------------------------------------------
 */

/* A file that has room for `room` bytes more; its last byte ends a line. */
static void make_full(struct place *place, size_t room)
{
    const char *path = scratch_path(&place->scratch, "audit.jsonl");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "\n", 1, (off_t)(LIMIT_AUDIT_BYTES - room - 1)), 1);
    close(fd);
}

static off_t size_of(struct place *place, const char *name)
{
    struct stat st;

    return stat(scratch_path(&place->scratch, name), &st) < 0 ? -1 : st.st_size;
}

static void test_rotation(void **state)
{
    struct place *place = *state;

    scratch_write(&place->scratch, "audit.jsonl.1", "older\n");
    make_full(place, 200);
    open_audit(place);
    write_number(place->audit, 1); /* about 150 bytes: it fits */
    assert_true(size_of(place, "audit.jsonl") > (off_t)LIMIT_AUDIT_BYTES - 200);
    assert_int_equal(size_of(place, "audit.jsonl.1"), 6);
    write_number(place->audit, 2);
    assert_int_equal(number_of(place, 0, "n"), 2);
    assert_int_equal(size_of(place, "audit.jsonl.1"), 6);
    assert_true(size_of(place, "audit.jsonl.2") > (off_t)LIMIT_AUDIT_BYTES - 200);
    assert_true(size_of(place, "audit.jsonl.2") <= (off_t)LIMIT_AUDIT_BYTES);
    write_number(place->audit, 3);
    assert_int_equal(number_of(place, 1, "n"), 3);
}

static void test_one_that_is_over_the_limit_already(void **state)
{
    struct place *place = *state;

    make_full(place, 0);
    assert_int_equal(truncate(scratch_path(&place->scratch, "audit.jsonl"), LIMIT_AUDIT_BYTES + 5),
                     0);
    open_audit(place);
    write_number(place->audit, 1);
    assert_int_equal(number_of(place, 0, "n"), 1);
    /* what was broken got its end and a line that says so */
    assert_true(size_of(place, "audit.jsonl.1") > (off_t)LIMIT_AUDIT_BYTES + 6);
}

static void test_a_rotation_that_fails_loses_lines_and_says_so(void **state)
{
    struct place *place = *state;

    make_full(place, 0);
    open_audit(place);
    /* A folder cannot be replaced by a file: the number behind the last is taken by one. */
    scratch_write(&place->scratch, "audit.jsonl.999999999", "");
    assert_int_equal(mkdir(scratch_path(&place->scratch, "audit.jsonl.1000000000"), 0700), 0);
    write_number(place->audit, 1);
    write_number(place->audit, 2);
    assert_int_equal(size_of(place, "audit.jsonl"), LIMIT_AUDIT_BYTES);
    assert_int_equal(rmdir(scratch_path(&place->scratch, "audit.jsonl.1000000000")), 0);
    write_number(place->audit, 3);
    write_number(place->audit, 4);
    assert_int_equal(number_of(place, 0, "n"), 3);
    assert_int_equal(number_of(place, 0, "lost"), 2);
    assert_int_equal(number_of(place, 1, "n"), 4);
    assert_int_equal(number_of(place, 1, "lost"), -1);
}

/* ---- bad days, each in a child of its own -----------------------------------------------------
 */

static void run_full(struct place *place)
{
    off_t size;

    write_number(place->audit, 1);
    size = size_of(place, "audit.jsonl");
    limit_files((uint64_t)size + 20); /* the next write is cut short */
    write_number(place->audit, 2);
    write_number(place->audit, 3);
    CHECK(size_of(place, "audit.jsonl") == size);
    limit_files(RLIM_INFINITY);
    write_number(place->audit, 4);
    CHECK(number_of(place, 0, "n") == 1);
    CHECK(number_of(place, 1, "n") == 4);
    CHECK(number_of(place, 1, "lost") == 2);
}

static void test_full_disk(void **state)
{
    struct place *place = *state;

    open_audit(place);
    in_child(place, run_full);
}

static void run_torn(struct place *place)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ftruncate, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
    limit_files(20);
    write_number(place->audit, 1);
    CHECK(size_of(place, "audit.jsonl") == 20);
    limit_files(RLIM_INFINITY);
    write_number(place->audit, 2);
    CHECK(number_of(place, 1, "broken") == 1);
    CHECK(number_of(place, 1, "lost") == 1);
    CHECK(number_of(place, 2, "n") == 2);
    CHECK(number_of(place, 2, "lost") == -1);
}

static void test_half_a_line_that_cannot_be_cut_off(void **state)
{
    struct place *place = *state;

    open_audit(place);
    in_child(place, run_torn);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_line),
        TEST(test_goes_on_behind_what_is_there),
        TEST(test_a_torn_line_gets_its_end),
        TEST(test_none_takes_every_call),
        TEST(test_planted_files_are_refused),
        TEST(test_a_line_that_is_too_long),
        TEST(test_rotation),
        TEST(test_one_that_is_over_the_limit_already),
        TEST(test_a_rotation_that_fails_loses_lines_and_says_so),
        TEST(test_full_disk),
        TEST(test_half_a_line_that_cannot_be_cut_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
