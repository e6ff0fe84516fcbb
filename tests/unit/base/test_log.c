/* test_log.c - lines for people: levels, control bytes, length. */
#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"

/* What log_write() puts on standard error. */
static void capture(char *text, size_t size, enum log_level level, const char *message)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    ssize_t count;

    assert_true(fd >= 0 && saved >= 0);
    dup2(fd, STDERR_FILENO);
    log_write(level, "%s", message);
    dup2(saved, STDERR_FILENO);
    lseek(fd, 0, SEEK_SET);
    count = fd_read_all(fd, text, size - 1);
    assert_true(count >= 0);
    text[count] = '\0';
    fd_closep(&fd);
    fd_closep(&saved);
}

static void lines_carry_their_level(void **state)
{
    char text[256];

    (void)state;
    log_set_level(LOG_DEBUG);
    assert_int_equal(log_get_level(), LOG_DEBUG);
    capture(text, sizeof(text), LOG_ERROR, "it broke");
    assert_string_equal(text, "bailey: it broke\n");
    capture(text, sizeof(text), LOG_WARNING, "careful");
    assert_string_equal(text, "bailey: warning: careful\n");
    capture(text, sizeof(text), LOG_INFO, "hello");
    assert_string_equal(text, "bailey: hello\n");
    capture(text, sizeof(text), LOG_DEBUG, "detail");
    assert_string_equal(text, "bailey: debug: detail\n");
}

static void lines_above_the_level_are_silent(void **state)
{
    char text[256];

    (void)state;
    log_set_level(LOG_WARNING);
    capture(text, sizeof(text), LOG_INFO, "hello");
    assert_string_equal(text, "");
    log_set_level(LOG_ERROR);
    capture(text, sizeof(text), LOG_WARNING, "careful");
    assert_string_equal(text, "");
    capture(text, sizeof(text), LOG_ERROR, "x");
    assert_string_equal(text, "bailey: x\n");
    log_set_level(LOG_WARNING);
}

static void a_message_cannot_drive_the_terminal(void **state)
{
    char text[256];

    (void)state;
    capture(text, sizeof(text), LOG_ERROR, "a\033[2Jb\rc\a\x7f\ttab\nline");
    assert_string_equal(text, "bailey: a?[2Jb?c??\ttab\nline\n");
}

static void long_lines_are_cut(void **state)
{
    char message[8192], text[8192];

    (void)state;
    for (size_t length = 4070; length < 4110; length++) {
        memset(message, 'm', length);
        message[length] = '\0';
        capture(text, sizeof(text), LOG_ERROR, message);
        assert_true(strlen(text) < 4096);
        assert_int_equal(text[strlen(text) - 1], '\n');
        if (strlen(text) < strlen("bailey: ") + length + 1)
            assert_string_equal(text + strlen(text) - 5, " ...\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_carry_their_level),
        cmocka_unit_test(lines_above_the_level_are_silent),
        cmocka_unit_test(a_message_cannot_drive_the_terminal),
        cmocka_unit_test(long_lines_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
