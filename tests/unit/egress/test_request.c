/* test_request.c - heads of requests and SOCKS: cut anywhere, written anew. What is refused is
 * tried from outside by tests/escape/test_egress_attacks.py. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "egress/policy.h"
#include "egress/request.h"
#include "egress/socks.h"

static const char *written(const char *text, const struct upstream *upstream, struct buf *to)
{
    struct request request;
    int status;

    for (size_t cut = 0; cut + 1 < strlen(text); cut++)
        assert_int_equal(request_parse(text, cut, &request, &status), -EAGAIN);
    assert_int_equal(request_parse(text, strlen(text), &request, &status), 0);
    assert_int_equal(request.head_bytes, strlen(text));
    buf_clear(to);
    assert_int_equal(request_write(&request, upstream, to), 0);
    return buf_text(to);
}

static void test_written(void **state)
{
    CLEANUP(buf_free) struct buf to = BUF_INIT(65536);
    char secret[] = "Basic x";
    struct upstream upstream = {.is_set = true, .authorization = secret};

    (void)state;
    assert_string_equal(written("GET http://A.test HTTP/1.0\r\n\r\n", NULL, &to),
                        "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    assert_string_equal(written("GET HTTP://a.test:81?x HTTP/1.1\r\nHost: b\r\n\r\n", NULL, &to),
                        "GET /?x HTTP/1.1\r\nHost: a.test:81\r\nConnection: close\r\n\r\n");
    assert_string_equal(
        written("PUT http://[::1]/ HTTP/1.1\r\nContent-Length:  3 \r\nA:\r\nTE: x\r\n"
                "connection: content-length, a\r\nB:\t1\t\r\n\r\n",
                NULL, &to),
        "PUT / HTTP/1.1\r\nHost: [::1]\r\nConnection: close\r\nB: 1\r\nContent-Length: 3\r\n\r\n");
    assert_string_equal(written("GET http://a.test/b HTTP/1.1\r\n\r\n", &upstream, &to),
                        "GET http://a.test/b HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n"
                        "Proxy-Authorization: Basic x\r\n\r\n");
    assert_string_equal(
        written("CONNECT [::1]:443 HTTP/1.1\r\nProxy-Authorization: mine\r\n\r\n", &upstream, &to),
        "CONNECT [::1]:443 HTTP/1.1\r\nHost: [::1]:443\r\n"
        "Proxy-Authorization: Basic x\r\n\r\n");
}

static void test_too_large(void **state)
{
    static char text[LIMIT_EGRESS_HEAD];
    struct request request;
    int status = 0;

    (void)state;
    memset(text, 'x', sizeof(text));
    assert_int_equal(request_parse(text, sizeof(text) - 1, &request, &status), -EAGAIN);
    assert_int_equal(request_parse(text, sizeof(text), &request, &status), -EMSGSIZE);
    assert_int_equal(status, 431);
}

static void test_answers(void **state)
{
    static const char *const bad[] = {"HTTP/2.0 200\r\n\r\n", "HTTP/1.1 20x\r\n\r\n", "\r\n\r\n",
                                      "HTTP/1.1\r\n\r\n", "ICY 200 OK is no answer\r\n\r\n"};
    size_t head = 0;
    int status = 0;

    (void)state;
    assert_int_equal(answer_parse("HTTP/1.1 200 ok\r\nA: b\r\n\r\nrest", 29, &status, &head), 0);
    assert_int_equal(status, 200);
    assert_int_equal(head, 25);
    assert_int_equal(answer_parse("HTTP/1.1 200 ok\r\n", 17, &status, &head), -EAGAIN);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(answer_parse(bad[i], strlen(bad[i]), &status, &head), -EPROTO);
}

static void test_socks(void **state)
{
    static const uint8_t name[] = {5, 1, 0, 3, 4, 'a', '.', 'B', '.', 1, 187};
    enum socks_reply reply;
    struct host host;
    uint16_t port;

    (void)state;
    assert_int_equal(socks_greeting((const uint8_t *)"\5\2\2\0", 4), 4);
    assert_int_equal(socks_greeting((const uint8_t *)"\5\2\2", 3), -EAGAIN);
    assert_int_equal(socks_greeting((const uint8_t *)"\5\1\2", 3), -EPROTO);
    assert_int_equal(socks_greeting((const uint8_t *)"\5\0", 2), -EPROTO);
    for (size_t cut = 0; cut < sizeof(name); cut++)
        assert_int_equal(socks_request(name, cut, &host, &port, &reply), -EAGAIN);
    assert_int_equal(socks_request(name, sizeof(name), &host, &port, &reply), sizeof(name));
    assert_string_equal(host.name, "a.b");
    assert_int_equal(port, 443);
    assert_int_equal(socks_request((const uint8_t *)"\5\1\0\2xx", 6, &host, &port, &reply),
                     -EPROTO);
    assert_int_equal(reply, SOCKS_NO_ADDRESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_socks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
