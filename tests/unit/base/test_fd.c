/* test_fd.c - descriptors: closing once, whole reads and writes, small text files. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

static void closes_once_and_keeps_errno(void **state)
{
    int fd = memfd_create("x", MFD_CLOEXEC);
    int number = fd;

    (void)state;
    assert_true(fd >= 0);
    errno = EXDEV;
    fd_closep(&fd);
    assert_int_equal(fd, -1);
    assert_int_equal(fcntl(number, F_GETFD), -1);
    errno = EXDEV;
    fd_closep(&fd);
    assert_int_equal(errno, EXDEV);
}

static void take_leaves_nothing(void **state)
{
    int fd = 7;

    (void)state;
    assert_int_equal(fd_take(&fd), 7);
    assert_int_equal(fd, -1);
}

static void reads_and_writes_all(void **state)
{
    CLEANUP(fd_closep) int fd = memfd_create("x", MFD_CLOEXEC);
    char text[16];

    (void)state;
    assert_int_equal(fd_write_all(fd, "hello world", 11), 0);
    assert_int_equal(fd_write_all(fd, "", 0), 0);
    lseek(fd, 0, SEEK_SET);
    assert_int_equal(fd_read_all(fd, text, 5), 5);
    assert_memory_equal(text, "hello", 5);
    assert_int_equal(fd_read_all(fd, text, sizeof(text)), 6);
    assert_int_equal(fd_read_all(fd, text, sizeof(text)), 0);
    assert_int_equal(fd_write_all(-1, "x", 1), -EBADF);
    assert_int_equal(fd_read_all(-1, text, 1), -EBADF);
}

static void a_pipe_in_pieces_is_read_whole(void **state)
{
    int ends[2];
    char text[16];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fd_write_all(ends[1], "abc", 3), 0);
    assert_int_equal(fd_write_all(ends[1], "def", 3), 0);
    fd_closep(&ends[1]);
    assert_int_equal(fd_read_all(ends[0], text, sizeof(text)), 6);
    assert_memory_equal(text, "abcdef", 6);
    fd_closep(&ends[0]);
}

/* A folder with one file, gone at the end of the test. */
struct scratch {
    char path[64];
    int dir_fd;
};

static int make_scratch(void **state)
{
    static struct scratch scratch;

    memcpy(scratch.path, "/tmp/test-fd-XXXXXX", sizeof("/tmp/test-fd-XXXXXX"));
    if (!mkdtemp(scratch.path))
        return -1;
    scratch.dir_fd = open(scratch.path, O_DIRECTORY | O_RDONLY | O_CLOEXEC);
    *state = &scratch;
    return scratch.dir_fd < 0 ? -1 : 0;
}

static int remove_scratch(void **state)
{
    struct scratch *scratch = *state;

    unlinkat(scratch->dir_fd, "file", 0);
    close(scratch->dir_fd);
    return rmdir(scratch->path);
}

static void put(struct scratch *scratch, const char *text)
{
    int fd = openat(scratch->dir_fd, "file", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

static void reads_small_texts(void **state)
{
    struct scratch *scratch = *state;
    char text[8];

    put(scratch, "1234\n");
    assert_int_equal(fd_read_text_at(scratch->dir_fd, "file", text, sizeof(text)), 0);
    assert_string_equal(text, "1234");
    put(scratch, "\n\n");
    assert_int_equal(fd_read_text_at(scratch->dir_fd, "file", text, sizeof(text)), 0);
    assert_string_equal(text, "");
    put(scratch, "a\nb\n\n");
    assert_int_equal(fd_read_text_at(scratch->dir_fd, "file", text, sizeof(text)), 0);
    assert_string_equal(text, "a\nb");
    put(scratch, "");
    assert_int_equal(fd_read_text_at(scratch->dir_fd, "file", text, sizeof(text)), 0);
    assert_string_equal(text, "");
}

static void a_text_that_does_not_fit(void **state)
{
    struct scratch *scratch = *state;
    char text[8] = "old";

    put(scratch, "1234567");
    assert_int_equal(fd_read_text_at(scratch->dir_fd, "file", text, sizeof(text)), 0);
    assert_string_equal(text, "1234567");
    put(scratch, "12345678");
    assert_int_equal(fd_read_text_at(scratch->dir_fd, "file", text, sizeof(text)), -EFBIG);
    assert_string_equal(text, "");
    assert_int_equal(fd_read_text_at(scratch->dir_fd, "file", text, 0), -EINVAL);
}

static void a_file_that_is_not_there(void **state)
{
    struct scratch *scratch = *state;
    char text[8] = "old";

    assert_int_equal(fd_read_text_at(scratch->dir_fd, "none", text, sizeof(text)), -ENOENT);
    assert_string_equal(text, "");
    assert_int_equal(fd_write_text_at(scratch->dir_fd, "none", "x"), -ENOENT);
    assert_int_equal(fd_read_text_at(AT_FDCWD, "/", text, sizeof(text)), -EISDIR);
}

static void writes_texts(void **state)
{
    struct scratch *scratch = *state;
    char text[8];

    put(scratch, "");
    assert_int_equal(fd_write_text_at(scratch->dir_fd, "file", "max"), 0);
    assert_int_equal(fd_read_text_at(scratch->dir_fd, "file", text, sizeof(text)), 0);
    assert_string_equal(text, "max");
    assert_int_equal(fd_write_text_at(AT_FDCWD, "/dev/full", "x"), -ENOSPC);
}

static void blocking_and_back(void **state)
{
    int ends[2];
    char byte;

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fd_set_nonblocking(ends[0], true), 0);
    assert_int_equal(fd_set_nonblocking(ends[0], true), 0);
    assert_int_equal(fd_read_all(ends[0], &byte, 1), -EAGAIN);
    assert_int_equal(fd_set_nonblocking(ends[0], false), 0);
    assert_int_equal(fcntl(ends[0], F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(fd_set_nonblocking(-1, true), -EBADF);
    fd_closep(&ends[0]);
    fd_closep(&ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closes_once_and_keeps_errno),
        cmocka_unit_test(take_leaves_nothing),
        cmocka_unit_test(reads_and_writes_all),
        cmocka_unit_test(a_pipe_in_pieces_is_read_whole),
        cmocka_unit_test_setup_teardown(reads_small_texts, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(a_text_that_does_not_fit, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(a_file_that_is_not_there, make_scratch, remove_scratch),
        cmocka_unit_test_setup_teardown(writes_texts, make_scratch, remove_scratch),
        cmocka_unit_test(blocking_and_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
