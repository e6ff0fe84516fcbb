/* test_log.c - lines for people: levels, control bytes, length. */
#include "unit.h"

#include <fcntl.h>
#include <jansson.h>
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

/* What log_fields() puts there. */
static void capture_fields(char *text, size_t size, const char *message,
                           const struct log_field *fields)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
    ssize_t count;

    assert_true(fd >= 0 && saved >= 0);
    dup2(fd, STDERR_FILENO);
    log_fields(LOG_INFO, message, fields);
    dup2(saved, STDERR_FILENO);
    lseek(fd, 0, SEEK_SET);
    count = fd_read_all(fd, text, size - 1);
    assert_true(count >= 0);
    text[count] = '\0';
    fd_closep(&fd);
    fd_closep(&saved);
}

/* The line as JSON; also that it is one line. */
static json_t *parsed(const char *text)
{
    json_t *json = json_loads(text, 0, NULL);

    assert_non_null(json);
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    return json;
}

static void assert_member(const json_t *json, const char *name, const char *wanted)
{
    const char *have = json_string_value(json_object_get(json, name));

    assert_non_null(have);
    assert_string_equal(have, wanted);
}

static void fields_as_text(void **state)
{
    const struct log_field fields[] = {
        {"path", "/a\nb", 0}, {"status", NULL, 200}, {"tenant", "", 0}, {NULL, NULL, 0}};
    char text[256];

    (void)state;
    log_set_level(LOG_INFO);
    capture_fields(text, sizeof(text), "request", fields);
    assert_string_equal(text, "bailey: request path=/a?b status=200\n");
    log_set_level(LOG_WARNING);
    capture_fields(text, sizeof(text), "request", fields);
    assert_string_equal(text, "");
}

static void lines_as_json(void **state)
{
    const struct log_about about = {.request_id = "r1", .tenant = "local"};
    const struct log_field fields[] = {
        {"status", NULL, 404}, {"tenant", "t\"2", 0}, {NULL, NULL, 0}};
    char text[8192];
    json_t *json;

    (void)state;
    log_set_level(LOG_INFO);
    log_set_json(true);
    capture(text, sizeof(text), LOG_WARNING, "a \"b\" \\ \x1b[2J\nsecond \xc3\xa9 \xff end");
    json = parsed(text);
    assert_member(json, "level", "warning");
    assert_member(json, "message", "a \"b\" \\ \x1b[2J\nsecond \xc3\xa9 \xef\xbf\xbd end");
    assert_null(strchr(text, 0x1b));
    assert_non_null(json_object_get(json, "time"));
    assert_int_equal(json_object_size(json), 3);
    json_decref(json);

    log_set_about(&about);
    capture_fields(text, sizeof(text), "request", fields);
    log_set_about(NULL);
    json = parsed(text);
    assert_member(json, "request_id", "r1");
    assert_member(json, "tenant", "t\"2"); /* its own word wins */
    assert_int_equal(json_integer_value(json_object_get(json, "status")), 404);
    json_decref(json);
    log_set_json(false);
}

/* However long the parts are: one whole object, in what a pipe takes in one piece. */
static void long_lines_as_json(void **state)
{
    static char message[20000], word[3000];
    struct log_field fields[20] = {0};
    char text[8192];
    json_t *json;

    (void)state;
    memset(message, 1, sizeof(message) - 1);
    memset(word, '"', sizeof(word) - 1);
    for (int i = 0; i < 19; i++)
        fields[i] = (struct log_field){i % 2 ? "odd" : "even", word, 0};
    log_set_level(LOG_INFO);
    log_set_json(true);
    capture_fields(text, sizeof(text), message, fields);
    assert_true(strlen(text) <= 4096);
    json = parsed(text);
    assert_non_null(json_object_get(json, "message"));
    json_decref(json);
    capture(text, sizeof(text), LOG_INFO, "");
    json = parsed(text);
    json_decref(json);
    log_set_json(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_carry_their_level),
        cmocka_unit_test(lines_above_the_level_are_silent),
        cmocka_unit_test(a_message_cannot_drive_the_terminal),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(fields_as_text),
        cmocka_unit_test(lines_as_json),
        cmocka_unit_test(long_lines_as_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
