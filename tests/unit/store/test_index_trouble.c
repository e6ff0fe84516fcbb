/*
 * test_index_trouble.c - the index when the disk is full, the file is damaged, foreign or planted,
 * the process is killed, and where its folder has no path.
 */
#include "bad_day.h"
#include "store/place.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/str.h"
#include "open_fds.h"
#include "sys/calls.h"

static int put_session(struct index *index, unsigned number, struct error *err)
{
    char env[3000];
    struct index_session session = {.env = env, .created_ms = number};

    memset(env, 'x', sizeof(env) - 1);
    env[sizeof(env) - 1] = '\0';
    snprintf(session.id, sizeof(session.id), "ses_%u", number);
    return index_put_session(index, &session, err);
}

static void count_session(void *ctx, const struct index_session *session)
{
    (void)session;
    (*(unsigned *)ctx)++;
}

static unsigned count_sessions(struct index *index)
{
    unsigned count = 0;

    return index_each_session(index, count_session, &count, NULL) < 0 ? UINT32_MAX : count;
}

/* ---- no space ---------------------------------------------------------------------------------
 */

/* Fills it until there is no space; says how many are in it. */
static unsigned fill(struct index *index, unsigned from)
{
    struct error err = {0};
    unsigned next = from;
    int r = 0;

    while (r == 0 && next < 10000)
        r = put_session(index, next++, &err);
    CHECK(r == -ENOSPC);
    CHECK(str_equal(err.code, ERROR_DISK_FULL));
    CHECK(strstr(err.text, "no space for the index '"));
    CHECK(put_session(index, next, &err) == -ENOSPC);
    CHECK(count_sessions(index) == next - 1);
    return next - 1;
}

static void enter_namespace(void)
{
    char map[32];
    unsigned uid = geteuid(), gid = getegid();

    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        CANNOT_TRY("no user namespace can be made here");
    snprintf(map, sizeof(map), "0 %u 1", uid);
    CHECK(fd_write_text_at(AT_FDCWD, "/proc/self/uid_map", map) == 0);
    CHECK(fd_write_text_at(AT_FDCWD, "/proc/self/setgroups", "deny") == 0);
    snprintf(map, sizeof(map), "0 %u 1", gid);
    CHECK(fd_write_text_at(AT_FDCWD, "/proc/self/gid_map", map) == 0);
}

/* A small file system that is in no tree any more: only the descriptor leads to it. */
static int make_small_folder(struct place *place)
{
    int fd;

    enter_namespace();
    if (sys_mount("none", place->scratch.path, "tmpfs", 0, "size=512k") < 0)
        CANNOT_TRY("no tmpfs can be mounted here");
    fd = open(place->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(sys_umount2(place->scratch.path, MNT_DETACH) == 0);
    return fd;
}

static void write_ballast(int folder_fd)
{
    static const char ballast[128 * 1024];
    int fd = openat(folder_fd, "ballast", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    CHECK(fd_write_all(fd, ballast, sizeof(ballast)) == 0);
    close(fd);
}

static void run_full_disk(struct place *place)
{
    int folder_fd = make_small_folder(place);
    struct index *index = NULL;
    struct error err = {0};
    unsigned count;

    CHECK(index_open(folder_fd, &index, NULL) == 0);
    write_ballast(folder_fd);
    count = fill(index, 0);
    CHECK(count > 0);
    CHECK(unlinkat(folder_fd, "ballast", 0) == 0);
    CHECK(put_session(index, count, NULL) == 0);
    CHECK(count_sessions(index) == count + 1);
    /* Full again, and the end comes while it is. */
    count = fill(index, count + 1);
    index_close(index);
    CHECK(index_open(folder_fd, &index, NULL) == 0);
    CHECK(count_sessions(index) == count);
    index_close(index);
    /* Without /proc there is no way, and that is said. */
    CHECK(sys_mount("none", "/proc", "tmpfs", 0, "") == 0);
    CHECK(index_open(folder_fd, &index, &err) == -ENOENT);
    CHECK(strstr(err.text, "needs /proc"));
}

static void test_full_disk_in_a_folder_without_a_path(void **state)
{
    in_child(*state, run_full_disk);
}

static void run_file_size(struct place *place)
{
    struct rlimit limit = {.rlim_cur = 64 * 1024, .rlim_max = RLIM_INFINITY};
    struct index *index = NULL;
    unsigned count;

    signal(SIGXFSZ, SIG_IGN);
    CHECK(index_open(place->folder_fd, &index, NULL) == 0);
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    count = fill(index, 0);
    limit.rlim_cur = RLIM_INFINITY;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK(put_session(index, count, NULL) == 0);
    CHECK(count_sessions(index) == count + 1);
    index_close(index);
}

static void test_a_limit_of_file_sizes_is_no_space_too(void **state)
{
    in_child(*state, run_file_size);
}

/* ---- a file that is not as it should be -------------------------------------------------------
 */

#define FILE_MAX (256 * 1024)

static size_t read_index(struct place *place, char *data)
{
    int fd = open(scratch_path(&place->scratch, "index.db"), O_RDONLY | O_CLOEXEC);
    ssize_t length = fd_read_all(fd, data, FILE_MAX);

    assert_true(length > 0 && length < FILE_MAX);
    close(fd);
    return (size_t)length;
}

static void write_index(struct place *place, const char *data, size_t length)
{
    const char *path = scratch_path(&place->scratch, "index.db");
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, length), 0);
    close(fd);
    unlink(scratch_path(&place->scratch, "index.db-wal"));
}

static void make_index(struct place *place)
{
    struct index_execution execution = {.session = "ses_0", .argv = "[]"};
    struct index *index = NULL;

    assert_int_equal(index_open(place->folder_fd, &index, NULL), 0);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(put_session(index, i, NULL), 0);
    for (; execution.number < 20; execution.number++)
        assert_int_equal(index_put_execution(index, &execution, NULL), 0);
    index_close(index);
}

/* It is refused with these words, and is what it was. */
static void assert_refused(struct place *place, int num, const char *words)
{
    static char before[FILE_MAX], after[FILE_MAX];
    size_t length = read_index(place, before);
    unsigned fds = open_fds();
    struct index *index = NULL;
    struct error err = {0};

    assert_int_equal(index_open(place->folder_fd, &index, &err), num);
    assert_null(index);
    assert_string_equal(err.code, ERROR_ENGINE);
    if (!strstr(err.text, words) || !strstr(err.text, place->scratch.path))
        fail_msg("'%s' is not in: %s", words, err.text);
    assert_int_equal(open_fds(), fds);
    assert_int_equal(read_index(place, after), length);
    assert_memory_equal(before, after, length);
}

static void test_damage_is_told(void **state)
{
    static char good[FILE_MAX], bad[FILE_MAX];
    struct place *place = *state;
    struct index *index = NULL;
    size_t length;

    make_index(place);
    length = read_index(place, good);
    memcpy(bad, good, length);
    memset(bad + 4096, 0xa5, length - 4096);
    write_index(place, bad, length);
    assert_refused(place, -EUCLEAN, "is damaged");
    write_index(place, good, length / 2 / 4096 * 4096);
    assert_refused(place, -EUCLEAN, "is damaged");
    write_index(place, "certainly not a database", 24);
    assert_refused(place, -EUCLEAN, "is damaged");
    /* Only words: the tables are called otherwise. */
    memcpy(bad, good, length);
    for (char *at; (at = memmem(bad, length, "execution", 9));)
        memcpy(at, "exekution", 9);
    write_index(place, bad, length);
    assert_refused(place, -EUCLEAN, "is damaged");
    write_index(place, good, length);
    assert_int_equal(index_open(place->folder_fd, &index, NULL), 0);
    assert_int_equal(count_sessions(index), 20);
    index_close(index);
}

static void ignore_execution(void *ctx, const struct index_execution *execution)
{
    (*(size_t *)ctx) += strlen(execution->session) + strlen(execution->argv);
}

static void test_any_damage_is_survived(void **state)
{
    static char good[FILE_MAX], bad[FILE_MAX];
    struct place *place = *state;
    unsigned seed = 12345, fds = open_fds();
    size_t length, sum = 0;

    make_index(place);
    length = read_index(place, good);
    for (unsigned round = 0; round < 150; round++) {
        struct index *index = NULL;

        memcpy(bad, good, length);
        for (unsigned i = 0; i < 1 + round % 8; i++) {
            seed = seed * 1103515245 + 12345;
            bad[(seed >> 8) % (round % 2 ? length : 4096)] ^= (char)(1 << (seed >> 4) % 8);
        }
        write_index(place, bad, length);
        if (index_open(place->folder_fd, &index, NULL) == 0) {
            count_sessions(index);
            index_each_execution(index, "ses_0", ignore_execution, &sum, NULL);
            put_session(index, 5, NULL);
            index_prune(index, 0, NULL);
        }
        index_close(index);
    }
    assert_int_equal(open_fds(), fds);
}

static void test_newer_and_foreign_ones_are_left_alone(void **state)
{
    static char data[FILE_MAX];
    struct place *place = *state;
    size_t length;

    make_index(place);
    length = read_index(place, data);
    data[63] = 99; /* user_version: bytes 60 to 63 */
    write_index(place, data, length);
    assert_refused(place, -ENOTSUP, "by a newer bailey (version 99");
    data[63] = 0;
    write_index(place, data, length);
    assert_refused(place, -EUCLEAN, "it has no version");
    data[68] ^= 1; /* application_id */
    write_index(place, data, length);
    assert_refused(place, -EUCLEAN, "not an index of bailey");
}

/* Ends without a goodbye: the log stays. The row keeps its size, so page 1 is not in it. */
static void run_update(struct place *place)
{
    struct index *index = NULL;

    CHECK(index_open(place->folder_fd, &index, NULL) == 0);
    CHECK(put_session(index, 5, NULL) == 0);
}

static void test_the_log_of_a_newer_one_is_left_alone(void **state)
{
    struct place *place = *state;
    struct stat before, after;
    int fd;

    make_index(place);
    in_child(place, run_update);
    assert_int_equal(stat(scratch_path(&place->scratch, "index.db-wal"), &before), 0);
    fd = open(scratch_path(&place->scratch, "index.db"), O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, "c", 1, 63), 1);
    close(fd);
    assert_refused(place, -ENOTSUP, "by a newer bailey (version 99");
    assert_int_equal(stat(scratch_path(&place->scratch, "index.db-wal"), &after), 0);
    assert_int_equal(after.st_size, before.st_size);
    assert_true(after.st_size > 0);
}

static void test_planted_files_are_refused(void **state)
{
    struct place *place = *state;
    const char *path = scratch_path(&place->scratch, "index.db");
    struct index *index = NULL;
    struct stat st;

    scratch_write(&place->scratch, "target", "");
    assert_int_equal(symlink("target", path), 0);
    assert_int_equal(index_open(place->folder_fd, &index, NULL), -ELOOP);
    assert_int_equal(stat(scratch_path(&place->scratch, "target"), &st), 0);
    assert_int_equal(st.st_size, 0);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(index_open(place->folder_fd, &index, NULL), -EINVAL);
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(index_open(place->folder_fd, &index, NULL), -EISDIR);
    rmdir(path);
    assert_int_equal(index_open(-1, &index, NULL), -EBADF);
    /* The log is not followed either. */
    assert_int_equal(symlink("target", scratch_path(&place->scratch, "index.db-wal")), 0);
    assert_true(index_open(place->folder_fd, &index, NULL) < 0);
    assert_int_equal(stat(scratch_path(&place->scratch, "target"), &st), 0);
    assert_int_equal(st.st_size, 0);
}

/* ---- other processes --------------------------------------------------------------------------
 */

static void run_second(struct place *place)
{
    struct index *index = NULL;
    struct error err = {0};

    CHECK(index_open(place->folder_fd, &index, &err) == -EBUSY);
    CHECK(strstr(err.text, "in use by another process"));
}

static void test_one_process_has_it(void **state)
{
    struct place *place = *state;
    struct index *index = NULL;

    assert_int_equal(index_open(place->folder_fd, &index, NULL), 0);
    in_child(place, run_second);
    assert_int_equal(put_session(index, 1, NULL), 0);
    index_close(index);
}

/* Writes until it is killed, and says each row that is in. */
static void write_forever(struct place *place, int ack_fd, uint32_t number)
{
    static char argv[24000];
    struct index_session session = {.id = "ses", .env = "{}"};
    struct index_execution execution = {.session = "ses", .argv = argv};
    struct index *index = NULL;

    memset(argv, 'x', sizeof(argv) - 1);
    CHECK(index_open(place->folder_fd, &index, NULL) == 0);
    for (;; number++) {
        session.next_execution = number + 1;
        execution.number = number;
        CHECK(index_put_session(index, &session, NULL) == 0);
        CHECK(index_put_execution(index, &execution, NULL) == 0);
        CHECK(write(ack_fd, &number, sizeof(number)) == sizeof(number));
    }
}

/* Kills it after `patience` rows; the number of the last row it said. */
static uint32_t kill_writer(struct place *place, uint32_t from, unsigned patience)
{
    uint32_t number = 0, last = 0;
    int ends[2], status;
    pid_t pid;

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        write_forever(place, ends[1], from);
    close(ends[1]);
    for (unsigned i = 0; i < patience; i++)
        assert_int_equal(read(ends[0], &number, sizeof(number)), sizeof(number));
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    last = number;
    while (read(ends[0], &number, sizeof(number)) == sizeof(number))
        last = number;
    close(ends[0]);
    return last;
}

struct seen {
    uint32_t executions, next;
    bool is_odd;
};

static void see_execution(void *ctx, const struct index_execution *execution)
{
    struct seen *seen = ctx;

    seen->executions++;
    if (execution->number != seen->executions || strlen(execution->argv) != 23999)
        seen->is_odd = true;
}

static void see_session(void *ctx, const struct index_session *session)
{
    ((struct seen *)ctx)->next = session->next_execution;
}

static void test_nothing_is_lost_when_killed(void **state)
{
    struct place *place = *state;
    unsigned seed = 4711;
    uint32_t last = 0;

    for (unsigned round = 0; round < 24; round++) {
        struct index *index = NULL;
        struct seen seen = {0};

        seed = seed * 1103515245 + 12345;
        last = kill_writer(place, last + 1, 1 + (seed >> 16) % 60);
        /* Every other time the next one finds what the killed one left. */
        if (round % 2 == 0)
            continue;
        assert_int_equal(index_open(place->folder_fd, &index, NULL), 0);
        assert_int_equal(index_each_execution(index, "ses", see_execution, &seen, NULL), 0);
        assert_int_equal(index_each_session(index, see_session, &seen, NULL), 0);
        assert_false(seen.is_odd);
        assert_in_range(seen.executions, last, last + 1);
        assert_in_range(seen.next, seen.executions + 1, seen.executions + 2);
        index_close(index);
    }
}

/* ---- behind Landlock --------------------------------------------------------------------------
 */

static void run_confined(struct place *place)
{
    struct landlock_attr attr = {.handled_access_fs = (1ULL << 13) - 1};
    struct landlock_path_beneath_attr rule = {.allowed_access = attr.handled_access_fs,
                                              .parent_fd = place->folder_fd};
    struct index *index = NULL;
    int fd = sys_landlock_create_ruleset(&attr, sizeof(attr.handled_access_fs), 0);

    if (fd < 0)
        CANNOT_TRY("no Landlock here");
    CHECK(sys_landlock_add_rule(fd, LANDLOCK_RULE_PATH_BENEATH, &rule) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(sys_landlock_restrict_self(fd) == 0);
    CHECK(open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0 && errno == EACCES);
    CHECK(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0);
    for (unsigned i = 0; i < 3; i++) {
        CHECK(index_open(place->folder_fd, &index, NULL) == 0);
        CHECK(put_session(index, i, NULL) == 0);
        CHECK(count_sessions(index) == i + 1);
        index_close(index);
    }
}

static void test_it_works_confined_to_its_folder(void **state)
{
    in_child(*state, run_confined);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_make, place_remove)
    const struct CMUnitTest tests[] = {
        TEST(test_full_disk_in_a_folder_without_a_path),
        TEST(test_a_limit_of_file_sizes_is_no_space_too),
        TEST(test_damage_is_told),
        TEST(test_any_damage_is_survived),
        TEST(test_newer_and_foreign_ones_are_left_alone),
        TEST(test_the_log_of_a_newer_one_is_left_alone),
        TEST(test_planted_files_are_refused),
        TEST(test_one_process_has_it),
        TEST(test_nothing_is_lost_when_killed),
        TEST(test_it_works_confined_to_its_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
