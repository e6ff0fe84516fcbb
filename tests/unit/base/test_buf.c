/* test_buf.c - growing bytes: ceilings, the NUL behind them, reading descriptors to their end. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

static int file_of(const void *data, size_t length)
{
    int fd = memfd_create("buf", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, data, length), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static void empty_is_valid(void **state)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(10);

    (void)state;
    assert_string_equal(buf_text(&buf), "");
    buf_clear(&buf);
    buf_consume(&buf, 5);
    assert_int_equal(buf.length, 0);
    assert_int_equal(buf_append(&buf, NULL, 0), 0);
    assert_string_equal(buf_text(&buf), "");
    buf_free(&buf);
    buf_free(&buf);
    assert_null(buf.data);
    assert_int_equal(buf.maximum, 10);
}

static void appends_and_terminates(void **state)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(1000);

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_int_equal(buf_append(&buf, "0123456789", 10), 0);
        assert_int_equal(buf.length, 10 * (i + 1));
        assert_int_equal(buf.data[buf.length], '\0');
    }
    assert_true(buf.capacity <= 1001);
    assert_int_equal(buf_append(&buf, "x", 1), -EFBIG);
    assert_int_equal(buf.length, 1000);
    assert_memory_equal(buf.data + 990, "0123456789", 11);
}

static void the_ceiling_holds_exactly(void **state)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(4);

    (void)state;
    assert_int_equal(buf_append(&buf, "12345", 5), -EFBIG);
    assert_null(buf.data);
    assert_int_equal(buf_append(&buf, "12", 2), 0);
    assert_int_equal(buf_append(&buf, "345", 3), -EFBIG);
    assert_string_equal(buf_text(&buf), "12");
    assert_int_equal(buf_append(&buf, "34", 2), 0);
    assert_string_equal(buf_text(&buf), "1234");
    assert_int_equal(buf_append(&buf, "", 0), 0);
    /* a length that would wrap around when added */
    assert_int_equal(buf_append(&buf, "x", SIZE_MAX), -EFBIG);
    assert_int_equal(buf_append(&buf, "x", SIZE_MAX - 3), -EFBIG);
}

static void no_ceiling_does_not_wrap(void **state)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(SIZE_MAX);

    (void)state;
    assert_int_equal(buf_append(&buf, "x", SIZE_MAX), -EFBIG);
    assert_int_equal(buf_append(&buf, "x", 1), 0);
    assert_string_equal(buf_text(&buf), "x");
}

static void a_ceiling_of_nothing(void **state)
{
    CLEANUP(buf_free) struct buf buf = {0};

    (void)state;
    assert_int_equal(buf_append(&buf, "x", 1), -EFBIG);
    assert_int_equal(buf_printf(&buf, "%d", 1), -EFBIG);
    assert_int_equal(buf_append_text(&buf, ""), 0);
}

static void bytes_may_be_nul(void **state)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(100);

    (void)state;
    assert_int_equal(buf_append(&buf, "a\0b", 3), 0);
    assert_int_equal(buf_append(&buf, "\0", 1), 0);
    assert_int_equal(buf.length, 4);
    assert_memory_equal(buf.data, "a\0b\0", 5);
}

static void prints_all_or_nothing(void **state)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(10);

    (void)state;
    assert_int_equal(buf_printf(&buf, "%s=%d", "ab", 42), 0);
    assert_string_equal(buf_text(&buf), "ab=42");
    assert_int_equal(buf_printf(&buf, "%s", "123456"), -EFBIG);
    assert_string_equal(buf_text(&buf), "ab=42");
    assert_int_equal(buf_printf(&buf, "%s", "12345"), 0);
    assert_string_equal(buf_text(&buf), "ab=4212345");
    assert_int_equal(buf_printf(&buf, "%s", ""), 0);
}

static void consumes_from_the_front(void **state)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(10);

    (void)state;
    buf_append_text(&buf, "abcdef");
    buf_consume(&buf, 0);
    assert_string_equal(buf_text(&buf), "abcdef");
    buf_consume(&buf, 2);
    assert_string_equal(buf_text(&buf), "cdef");
    assert_int_equal(buf_append_text(&buf, "ghijkl"), 0);
    assert_string_equal(buf_text(&buf), "cdefghijkl");
    buf_consume(&buf, 11);
    assert_int_equal(buf.length, 0);
    assert_string_equal(buf_text(&buf), "");
}

static void clear_keeps_the_memory(void **state)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(100);
    char *before;

    (void)state;
    buf_append_text(&buf, "abc");
    before = buf.data;
    buf_clear(&buf);
    assert_ptr_equal(buf.data, before);
    assert_string_equal(buf_text(&buf), "");
}

static void reads_a_file_to_its_end(void **state)
{
    size_t size = 100000;
    CLEANUP(freep) char *bytes = malloc(size);
    CLEANUP(buf_free) struct buf buf = BUF_INIT(size + 3);
    CLEANUP(fd_closep) int fd = -1;

    (void)state;
    memset(bytes, 'z', size);
    fd = file_of(bytes, size);
    buf_append_text(&buf, "abc");
    assert_int_equal(buf_read_fd(&buf, fd), 0);
    assert_int_equal(buf.length, size + 3);
    assert_memory_equal(buf.data, "abczzz", 6);
    assert_int_equal(buf.data[buf.length], '\0');
}

static void a_file_over_the_ceiling_changes_nothing(void **state)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(5);
    CLEANUP(fd_closep) int fd = file_of("123456", 6);

    (void)state;
    assert_int_equal(buf_read_fd(&buf, fd), -EFBIG);
    assert_string_equal(buf_text(&buf), "");
    buf_append_text(&buf, "ab");
    lseek(fd, 2, SEEK_SET);
    assert_int_equal(buf_read_fd(&buf, fd), -EFBIG);
    assert_string_equal(buf_text(&buf), "ab");
    lseek(fd, 3, SEEK_SET);
    assert_int_equal(buf_read_fd(&buf, fd), 0);
    assert_string_equal(buf_text(&buf), "ab456");
}

static void reads_an_empty_file(void **state)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(5);
    CLEANUP(buf_free) struct buf none = BUF_INIT(0);
    CLEANUP(fd_closep) int fd = file_of("", 0);

    (void)state;
    assert_int_equal(buf_read_fd(&buf, fd), 0);
    assert_string_equal(buf_text(&buf), "");
    assert_int_equal(buf_read_fd(&none, fd), 0);
}

static void a_bad_descriptor_is_said(void **state)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(5);
    CLEANUP(buf_free) struct buf none = BUF_INIT(0);

    (void)state;
    assert_int_equal(buf_read_fd(&buf, -1), -EBADF);
    assert_int_equal(buf_read_fd(&none, -1), -EBADF);
    assert_string_equal(buf_text(&buf), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_is_valid),
        cmocka_unit_test(appends_and_terminates),
        cmocka_unit_test(the_ceiling_holds_exactly),
        cmocka_unit_test(no_ceiling_does_not_wrap),
        cmocka_unit_test(a_ceiling_of_nothing),
        cmocka_unit_test(bytes_may_be_nul),
        cmocka_unit_test(prints_all_or_nothing),
        cmocka_unit_test(consumes_from_the_front),
        cmocka_unit_test(clear_keeps_the_memory),
        cmocka_unit_test(reads_a_file_to_its_end),
        cmocka_unit_test(a_file_over_the_ceiling_changes_nothing),
        cmocka_unit_test(reads_an_empty_file),
        cmocka_unit_test(a_bad_descriptor_is_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
