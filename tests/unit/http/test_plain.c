/* test_plain.c - requests and replies of the static program's one call. */
#include "http/plain.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "scratch.h"
#include "unit.h"

static void test_requests(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);

    (void)state;
    assert_int_equal(plain_head_write(&text, "POST", "/v1/run", "text/event-stream", "X: y", 12),
                     0);
    assert_string_equal(buf_text(&text), "POST /v1/run HTTP/1.0\r\nAccept: text/event-stream\r\n"
                                         "X: y\r\n"
                                         "Content-Type: application/json\r\n"
                                         "Content-Length: 12\r\n\r\n");
    buf_clear(&text);
    assert_int_equal(plain_head_write(&text, "DELETE", "/v1/run/x", NULL, NULL, 0), 0);
    assert_string_equal(buf_text(&text), "DELETE /v1/run/x HTTP/1.0\r\n\r\n");
}

static ssize_t read_head(const char *text, struct plain_head *head)
{
    *head = (struct plain_head){.status = 7};
    return plain_head_read(text, strlen(text), head);
}

static void test_a_reply(void **state)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nDate: now\r\nbailey-Execution:  exec_1\r\n"
                               "Bailey-Executions: no\r\n\r\nbody\r\n\r\n";
    struct plain_head head;

    (void)state;
    assert_int_equal(read_head(text, &head), sizeof(text) - 1 - strlen("body\r\n\r\n"));
    assert_int_equal(head.status, 200);
    assert_string_equal(head.execution, "exec_1");
    assert_int_equal(read_head("HTTP/1.0 409 Conflict\r\n\r\n", &head), 25);
    assert_int_equal(head.status, 409);
    assert_string_equal(head.execution, "");
    /* Any piece of it is too little, and nothing is said about it. */
    for (size_t length = 0; length < sizeof(text) - 1 - strlen("body\r\n\r\n"); length++) {
        char *piece = strndup(text, length);

        assert_int_equal(read_head(piece, &head), 0);
        assert_int_equal(head.status, 7);
        free(piece);
    }
}

static void test_nonsense(void **state)
{
    static const char *const texts[] = {
        "\r\n\r\n",
        "HELLO\r\n\r\n",
        "HTTP/1.1\r\n\r\n",
        "HTTP/1.1 2\r\n\r\n",
        "HTTP/1.1 20x OK\r\n\r\n",
        "HTTP/2 200 OK, or so\r\n\r\n",
        "HTTP/1.1 000 OK\r\n\r\n",
        "Bailey-Execution: exec_1\r\n\r\n",
    };
    struct plain_head head;
    char *large = malloc(LIMIT_HTTP_HEAD + 2), name[200];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        assert_int_equal(read_head(texts[i], &head), -EPROTO);
    assert_non_null(large);
    memset(large, 'x', LIMIT_HTTP_HEAD + 1);
    assert_int_equal(plain_head_read(large, LIMIT_HTTP_HEAD + 1, &head), -EFBIG);
    free(large);
    /* An id that is too long is none. */
    snprintf(name, sizeof(name), "HTTP/1.1 200 OK\r\nBailey-Execution: %0100d\r\n\r\n", 7);
    assert_true(read_head(name, &head) > 0);
    assert_string_equal(head.execution, "");
}

static void test_nobody(void **state)
{
    struct scratch scratch;
    struct error err = {0};
    int fd = -7;

    (void)state;
    scratch_make(&scratch);
    assert_int_equal(plain_connect(scratch_path(&scratch, "none"), &fd, &err), -ENOENT);
    assert_ptr_equal(err.code, ERROR_NO_DAEMON);
    assert_int_equal(fd, -7);
    scratch_remove(&scratch);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_a_reply),
        cmocka_unit_test(test_nonsense),
        cmocka_unit_test(test_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
