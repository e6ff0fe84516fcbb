/* test_spool.c - output on disk by offset: what is kept, what is given back, full disks, restarts.
 */
#include "bad_day.h"
#include "scratch.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/limits.h"
#include "base/str.h"
#include "store/spool.h"

#define STEP (64 * KIB)
#define KEEP (256 * KIB)
#define CHUNK 10007 /* no boundary fits it */

struct place {
    struct scratch scratch;
    int folder_fd;
    struct spool spool;
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    assert_non_null(place);
    scratch_make(&place->scratch);
    place->folder_fd = open(place->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(place->folder_fd >= 0);
    place->spool.fd = -1;
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;

    spool_close(&place->spool);
    close(place->folder_fd);
    scratch_remove(&place->scratch);
    free(place);
    return 0;
}

static void open_spool(struct place *place, uint64_t keep)
{
    struct error err = {0};

    spool_close(&place->spool);
    if (spool_open(&place->spool, place->folder_fd, "1.out", keep, 0, &err) < 0)
        fail_msg("%s", err.text);
}

/* Every byte of the stream follows from its offset. */
static unsigned char byte_at(uint64_t offset)
{
    return (unsigned char)(1 + offset * 2654435761U % 251);
}

static int append(struct spool *spool, size_t length, struct error *err)
{
    static unsigned char data[1 << 20];

    for (size_t i = 0; i < length; i++)
        data[i] = byte_at(spool->length + i);
    return spool_append(spool, data, length, err);
}

static void append_upto(struct spool *spool, uint64_t length)
{
    while (spool->length < length) {
        uint64_t rest = length - spool->length;

        assert_int_equal(append(spool, rest < CHUNK ? rest : CHUNK, NULL), 0);
    }
}

/* Everything from first to the end is there, and nothing before. */
static bool is_right(const struct spool *spool)
{
    unsigned char data[4096];
    uint64_t offset = spool->first;

    if (offset > 0 && spool_read(spool, offset - 1, data, 1) != -ERANGE)
        return false;
    while (offset < spool->length) {
        ssize_t count = spool_read(spool, offset, data, sizeof(data));

        if (count <= 0)
            return false;
        for (ssize_t i = 0; i < count; i++) {
            if (data[i] != byte_at(offset + (uint64_t)i))
                return false;
        }
        offset += (uint64_t)count;
    }
    return spool_read(spool, offset, data, sizeof(data)) == 0;
}

static uint64_t disk_bytes(const struct spool *spool)
{
    struct stat st;

    assert_int_equal(fstat(spool->fd, &st), 0);
    assert_int_equal((uint64_t)st.st_size, spool->length);
    return (uint64_t)st.st_blocks * 512;
}

/* ---- ordinary days ----------------------------------------------------------------------------
 */

static void test_bytes_come_back_by_offset(void **state)
{
    struct place *place = *state;
    struct stat st;
    char data[16] = "";

    open_spool(place, KEEP);
    assert_int_equal(spool_read(&place->spool, 0, data, sizeof(data)), 0);
    assert_int_equal(spool_append(&place->spool, "hello ", 6, NULL), 0);
    assert_int_equal(spool_append(&place->spool, "", 0, NULL), 0);
    assert_int_equal(spool_append(&place->spool, "world", 5, NULL), 0);
    assert_int_equal(place->spool.length, 11);
    assert_int_equal(place->spool.first, 0);
    assert_int_equal(spool_read(&place->spool, 4, data, 4), 4);
    assert_memory_equal(data, "o wo", 4);
    assert_int_equal(spool_read(&place->spool, 6, data, sizeof(data)), 5);
    assert_int_equal(spool_read(&place->spool, 11, data, sizeof(data)), 0);
    assert_int_equal(spool_read(&place->spool, UINT64_MAX, data, sizeof(data)), 0);
    assert_int_equal(stat(scratch_path(&place->scratch, "1.out"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
}

static void test_only_the_newest_stay(void **state)
{
    struct place *place = *state;

    open_spool(place, KEEP);
    while (place->spool.length < 10 * KEEP) {
        assert_int_equal(append(&place->spool, CHUNK, NULL), 0);
        assert_true(place->spool.length - place->spool.first <= KEEP + STEP);
        assert_true(place->spool.first == 0 || place->spool.length - place->spool.first >= KEEP);
    }
    assert_true(is_right(&place->spool));
    assert_true(disk_bytes(&place->spool) <= KEEP + 2 * STEP);
    assert_int_equal(append(&place->spool, 1 << 20, NULL), 0); /* more than is kept, at once */
    assert_true(place->spool.length - place->spool.first <= KEEP + STEP);
    assert_true(is_right(&place->spool));
}

static void test_the_next_one_goes_on_behind(void **state)
{
    struct place *place = *state;

    for (unsigned i = 1; i < 30; i++) {
        uint64_t first, length = i * 50021;

        open_spool(place, KEEP);
        append_upto(&place->spool, length);
        first = place->spool.first;
        open_spool(place, KEEP);
        assert_int_equal(place->spool.length, length);
        assert_int_equal(place->spool.first, first);
        assert_true(is_right(&place->spool));
    }
}

static void test_keep_may_change(void **state)
{
    struct place *place = *state;
    uint64_t first;

    open_spool(place, KEEP);
    append_upto(&place->spool, 5 * KEEP);
    first = place->spool.first;
    open_spool(place, 100 * KEEP);
    assert_int_equal(place->spool.first, first); /* what is gone is gone */
    assert_true(is_right(&place->spool));
    append_upto(&place->spool, 6 * KEEP);
    assert_int_equal(place->spool.first, first);
    open_spool(place, STEP);
    assert_int_equal(place->spool.first, 6 * KEEP - STEP);
    assert_true(is_right(&place->spool));
    assert_true(disk_bytes(&place->spool) <= 2 * STEP);
    open_spool(place, 0);
    assert_int_equal(place->spool.first, place->spool.length);
    assert_true(is_right(&place->spool));
}

static void test_holes_of_a_killed_one_are_found(void **state)
{
    struct place *place = *state;

    /* Killed behind the punch of a later append, before its bytes were counted by anybody. */
    open_spool(place, KEEP);
    append_upto(&place->spool, KEEP);
    assert_int_equal(
        fallocate(place->spool.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, STEP), 0);
    open_spool(place, KEEP);
    assert_int_equal(place->spool.first, STEP);
    assert_true(is_right(&place->spool));
    assert_int_equal(
        fallocate(place->spool.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, KEEP), 0);
    open_spool(place, KEEP);
    assert_int_equal(place->spool.first, KEEP);
    append_upto(&place->spool, KEEP + 100);
    assert_true(is_right(&place->spool));
}

static void test_names_and_planted_files(void **state)
{
    static const char *const names[] = {"", ".", "..", "a/b", "/tmp/x"};
    struct place *place = *state;
    struct spool *spool = &place->spool;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        assert_int_equal(spool_open(spool, place->folder_fd, names[i], KEEP, 0, NULL), -EINVAL);
        assert_int_equal(spool_remove(place->folder_fd, names[i]), -EINVAL);
    }
    scratch_write(&place->scratch, "target", "");
    assert_int_equal(symlink("target", scratch_path(&place->scratch, "1.out")), 0);
    assert_int_equal(spool_open(spool, place->folder_fd, "1.out", KEEP, 0, NULL), -ELOOP);
    assert_int_equal(spool_remove(place->folder_fd, "1.out"), 0);
    assert_int_equal(access(scratch_path(&place->scratch, "target"), F_OK), 0);
    assert_int_equal(mkfifo(scratch_path(&place->scratch, "1.out"), 0600), 0);
    assert_int_equal(spool_open(spool, place->folder_fd, "1.out", KEEP, 0, NULL), -EINVAL);
    assert_int_equal(spool_remove(place->folder_fd, "1.out"), 0);
    assert_int_equal(spool_remove(place->folder_fd, "1.out"), 0);
    assert_int_equal(spool->fd, -1);
    assert_int_equal(spool_append(spool, "x", 1, NULL), -EBADF);
    spool_close(spool);
    spool_close(spool);
}

/* ---- bad days, each in a child of its own -----------------------------------------------------
 */

static void run_short_writes(struct place *place)
{
    struct spool *spool = &place->spool;
    struct stat st;

    limit_files(150000);
    CHECK(append(spool, 100000, NULL) == 0);
    CHECK(append(spool, 60000, NULL) == -EFBIG);
    CHECK(spool->length == 100000);
    CHECK(fstat(spool->fd, &st) == 0 && st.st_size == 100000);
    CHECK(append(spool, 50000, NULL) == 0);
    CHECK(append(spool, 1, NULL) == -EFBIG);
    limit_files(RLIM_INFINITY);
    CHECK(append(spool, 60000, NULL) == 0);
    CHECK(spool->length == 210000);
    CHECK(is_right(spool));
}

static void test_all_or_nothing(void **state)
{
    struct place *place = *state;

    open_spool(place, KEEP);
    in_child(place, run_short_writes);
}

/* From now on that system call fails. */
static void forbid(long number, int num)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)num),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0);
}

static void run_full(struct place *place)
{
    struct error err = {0};

    forbid(SYS_pwrite64, ENOSPC);
    CHECK(append(&place->spool, 10, &err) == -ENOSPC);
    CHECK(str_equal(err.code, ERROR_DISK_FULL));
    CHECK(place->spool.length == 100 && is_right(&place->spool));
}

static void test_full_disk(void **state)
{
    struct place *place = *state;

    open_spool(place, KEEP);
    append_upto(&place->spool, 100);
    in_child(place, run_full);
}

static void run_without_holes(struct place *place)
{
    struct spool *spool = &place->spool;
    struct error err = {0};
    int r = 0;

    forbid(SYS_fallocate, EOPNOTSUPP);
    while (r == 0 && spool->length < 10 * KEEP)
        r = append(spool, CHUNK, &err);
    CHECK(r == -EOPNOTSUPP);
    CHECK(strstr(err.text, "cannot give back old bytes"));
    CHECK(spool->length >= KEEP && spool->length <= KEEP + STEP && spool->first == 0);
    CHECK(append(spool, CHUNK, NULL) == -EOPNOTSUPP);
    CHECK(is_right(spool));
    /* The next one finds the same, whatever it would like to keep. */
    CHECK(spool_open(spool, place->folder_fd, "1.out", STEP, 0, NULL) == 0);
    CHECK(spool->first == 0 && spool->length >= KEEP && is_right(spool));
    CHECK(append(spool, CHUNK, NULL) == -EOPNOTSUPP);
}

static void test_a_file_system_without_holes(void **state)
{
    struct place *place = *state;

    open_spool(place, KEEP);
    in_child(place, run_without_holes);
}

static void run_without_seek(struct place *place)
{
    struct spool *spool = &place->spool;

    forbid(SYS_lseek, EINVAL);
    CHECK(spool_open(spool, place->folder_fd, "1.out", KEEP, 0, NULL) == 0);
    CHECK(spool->first > 0 && is_right(spool));
}

static void test_holes_that_are_not_told(void **state)
{
    struct place *place = *state;

    open_spool(place, KEEP);
    append_upto(&place->spool, 5 * KEEP + 17);
    in_child(place, run_without_seek);
}

/* ---- killed while it writes -------------------------------------------------------------------
 */

static void write_forever(struct place *place, int ack_fd)
{
    for (;;) {
        CHECK(append(&place->spool, CHUNK, NULL) == 0);
        CHECK(write(ack_fd, "", 1) == 1);
    }
}

static void test_nothing_is_lost_when_killed(void **state)
{
    struct place *place = *state;
    uint64_t acked = 0;
    char ack;

    for (unsigned round = 0; round < 20; round++) {
        int ends[2];
        pid_t pid;

        open_spool(place, KEEP);
        acked = place->spool.length;
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            write_forever(place, ends[1]);
        close(ends[1]);
        for (unsigned i = 0; i < 1 + round * 3; i++)
            assert_int_equal(read(ends[0], &ack, 1), 1), acked += CHUNK;
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        while (read(ends[0], &ack, 1) == 1)
            acked += CHUNK;
        close(ends[0]);
        open_spool(place, KEEP);
        assert_in_range(place->spool.length, acked, acked + CHUNK);
        assert_true(is_right(&place->spool));
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_bytes_come_back_by_offset),
        TEST(test_only_the_newest_stay),
        TEST(test_the_next_one_goes_on_behind),
        TEST(test_keep_may_change),
        TEST(test_holes_of_a_killed_one_are_found),
        TEST(test_names_and_planted_files),
        TEST(test_all_or_nothing),
        TEST(test_full_disk),
        TEST(test_a_file_system_without_holes),
        TEST(test_holes_that_are_not_told),
        TEST(test_nothing_is_lost_when_killed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
