/* test_reply_reader.c - replies of servers that are not trusted: whole, in pieces, and malformed.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "http/reply_reader.h"

struct seen {
    int result; /* 0, or the first error */
    char body[4096];
    size_t length;
};

/* Feeds the text in pieces of `step` bytes; what remains is what the reply did not take. */
static struct seen feed(struct reply_reader *reader, const char *text, size_t size, size_t step)
{
    struct seen seen = {0};

    for (size_t at = 0; at < size && seen.result == 0 && !(reader->has_head && reader->is_over);) {
        size_t part = step < size - at ? step : size - at;
        const char *piece = NULL;
        size_t length = 0;
        ssize_t taken = reader->has_head
                            ? reply_reader_body(reader, text + at, part, &piece, &length)
                            : reply_reader_head(reader, text + at, part);

        if (taken < 0) {
            seen.result = (int)taken;
            break;
        }
        assert_true((size_t)taken <= part);
        assert_true(seen.length + length <= sizeof(seen.body));
        if (length > 0)
            memcpy(seen.body + seen.length, piece, length);
        seen.length += length;
        at += (size_t)taken;
    }
    if (seen.result == 0)
        seen.result = reply_reader_close(reader);
    return seen;
}

/* The body, whatever pieces the reply comes in. */
static void expect_body(const char *text, unsigned status, const char *body)
{
    for (size_t step = 1; step <= strlen(text); step++) {
        struct reply_reader reader;
        struct seen seen;

        reply_reader_init(&reader, false, false);
        seen = feed(&reader, text, strlen(text), step);
        assert_int_equal(seen.result, 0);
        assert_int_equal(reader.status, status);
        assert_int_equal(seen.length, strlen(body));
        assert_memory_equal(seen.body, body, seen.length);
        reply_reader_free(&reader);
    }
}

static void expect_refused_bytes(const char *text, size_t size, const char *why)
{
    for (size_t step = 1; step <= size; step += step > 64 ? 997 : 1) {
        struct reply_reader reader;

        reply_reader_init(&reader, false, false);
        assert_int_equal(feed(&reader, text, size, step).result, -EPROTO);
        assert_non_null(strstr(reader.why, why));
        reply_reader_free(&reader);
    }
}

static void expect_refused(const char *text, const char *why)
{
    expect_refused_bytes(text, strlen(text), why);
}

static void test_bodies(void **state)
{
    (void)state;
    expect_body("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, "abc");
    expect_body("HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", 404, "");
    expect_body("HTTP/1.0 200 OK\r\n\r\nuntil the end", 200, "until the end");
    expect_body("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
                "3;a=\"b\"\r\nabc\r\n0A\r\n0123456789\r\n0\r\nX: y\r\n\r\n",
                200, "abc0123456789");
    expect_body("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
                "HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n",
                204, "");
}

/* What follows the reply is not part of it: a second reply is never read. */
static void test_what_follows_is_left(void **state)
{
    static const char text[] =
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 EVIL\r\n";
    struct reply_reader reader;
    struct seen seen;

    (void)state;
    reply_reader_init(&reader, false, false);
    seen = feed(&reader, text, strlen(text), 1000);
    assert_int_equal(seen.result, 0);
    assert_int_equal(seen.length, 2);
    reply_reader_free(&reader);
}

static void test_headers(void **state)
{
    static const char text[] = "HTTP/1.1 200 OK\r\nA:  b c \t\r\nEmpty:\r\nSet-Cookie: 1\r\n"
                               "set-cookie: 2\r\nContent-Length: 9\r\n\r\n";
    struct reply_reader reader;

    (void)state;
    reply_reader_init(&reader, true, false);
    assert_int_equal(feed(&reader, text, strlen(text), 7).result, 0);
    assert_int_equal(reader.header_count, 5);
    assert_string_equal(reader.headers[0].value, "b c");
    assert_string_equal(reader.headers[1].value, "");
    assert_string_equal(reply_reader_header(&reader, "SET-COOKIE"), "1");
    assert_null(reply_reader_header(&reader, "Other"));
    assert_true(reader.has_length && reader.length == 9 && reader.body == REPLY_NO_BODY);
    reply_reader_free(&reader);
}

static void test_switching(void **state)
{
    static const char text[] = "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\nframes";
    struct reply_reader reader;

    (void)state;
    expect_refused(text, "unasked");
    reply_reader_init(&reader, false, true);
    assert_int_equal(reply_reader_head(&reader, text, strlen(text)), strlen(text) - 6);
    assert_true(reader.has_head && reader.status == 101);
    reply_reader_free(&reader);
}

#define HEAD "HTTP/1.1 200 OK\r\n"
#define CHUNKED HEAD "Transfer-Encoding: chunked\r\n\r\n"

static void test_smuggling(void **state)
{
    (void)state;
    expect_refused(HEAD "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "both");
    expect_refused(HEAD "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", "more than once");
    expect_refused(HEAD "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", "more than once");
    expect_refused(HEAD "Content-Length: 3, 3\r\n\r\nabc", "not a number");
    expect_refused(HEAD "Content-Length: +3\r\n\r\nabc", "not a number");
    expect_refused(HEAD "Content-Length: 0x3\r\n\r\nabc", "not a number");
    expect_refused(HEAD "Content-Length:\r\n\r\nabc", "not a number");
    expect_refused(HEAD "Content-Length: 99999999999999999999\r\n\r\nabc", "not a number");
    expect_refused(HEAD "Content-Length : 3\r\n\r\nabc", "name is malformed");
    expect_refused(HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n", "not chunked");
    expect_refused(HEAD "Transfer-Encoding: xchunked\r\n\r\n", "not chunked");
    expect_refused(HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                   "more than once");
    expect_refused("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "not chunked");
    expect_refused(HEAD "A: b\r\n c\r\n\r\n", "folded");
    expect_refused(HEAD "A: b\nC: d\r\n\r\n", "CR LF");
    expect_refused(HEAD "A: b\rC: d\r\n\r\n", "CR LF");
    expect_refused(HEAD "A: \x01\r\n\r\n", "control characters");
    expect_refused(HEAD ": b\r\n\r\n", "name is malformed");
    expect_refused(HEAD "no colon\r\n\r\n", "name is malformed");
    expect_refused_bytes("HTTP/1.1 200 OK\r\nA: \0b\r\n\r\n", 26, "NUL");
    expect_refused("HTTP/1.1 200 OK\nContent-Length: 0\n\n", "middle of its head");
    expect_refused("HTTP/2 200 OK\r\n\r\n", "first line");
    expect_refused("HTTP/1.1 2000 OK\r\n\r\n", "first line");
    expect_refused("HTTP/1.1 600 OK\r\n\r\n", "status");
    expect_refused(" HTTP/1.1 200 OK\r\n\r\n", "first line");
    expect_refused("\r\n\r\n", "first line");
}

static void test_chunks(void **state)
{
    (void)state;
    expect_refused(CHUNKED "\r\n", "size of a chunk");
    expect_refused(CHUNKED "x\r\n", "size of a chunk");
    expect_refused(CHUNKED "-1\r\n", "size of a chunk");
    expect_refused(CHUNKED "0x1\r\na\r\n", "line of a chunk");
    expect_refused(CHUNKED "1 \r\na\r\n", "line of a chunk");
    expect_refused(CHUNKED "1\na\r\n", "line of a chunk");
    expect_refused(CHUNKED "1;\na\r\n", "line of a chunk");
    expect_refused(CHUNKED "1\rXa\r\n", "does not end");
    expect_refused(CHUNKED "1\r\nab\r\n", "does not end");
    expect_refused(CHUNKED "1\r\na\n", "does not end");
    expect_refused(CHUNKED "1111111111111111\r\n", "size of a chunk");
    expect_refused(CHUNKED "0\r\n\n", "trailers");
    expect_refused(CHUNKED "0\r\nA: b\n\r\n", "trailers");
    expect_refused(CHUNKED "3\r\nab", "middle of its body");
    expect_refused(CHUNKED "3\r\nabc\r\n", "middle of its body");
    expect_refused(HEAD "Content-Length: 3\r\n\r\nab", "middle of its body");
    expect_refused(HEAD "Content-Length: 3\r\n", "middle of its head");
    expect_refused("", "without a reply");
}

static void test_endless(void **state)
{
    struct reply_reader reader;
    char line[1000];
    ssize_t taken = 0;
    int rounds = 0;

    (void)state;
    memset(line, 'a', sizeof(line));
    memcpy(line, "H: ", 3);
    memcpy(line + sizeof(line) - 2, "\r\n", 2);
    reply_reader_init(&reader, false, false);
    assert_true(reply_reader_head(&reader, HEAD, strlen(HEAD)) > 0);
    while (taken >= 0 && rounds++ < 1000)
        taken = reply_reader_head(&reader, line, sizeof(line));
    assert_int_equal(taken, -EPROTO);
    assert_non_null(strstr(reader.why, "32 KiB"));
    reply_reader_free(&reader);

    reply_reader_init(&reader, false, false);
    assert_true(reply_reader_head(&reader, HEAD, strlen(HEAD)) > 0);
    for (int i = 0; i <= LIMIT_PORT_HEADERS; i++)
        assert_int_equal(reply_reader_head(&reader, "a:b\r\n", 5), 5);
    assert_int_equal(reply_reader_head(&reader, "\r\n", 2), -EPROTO);
    assert_non_null(strstr(reader.why, "100 headers"));
    reply_reader_free(&reader);

    reply_reader_init(&reader, false, false);
    for (taken = 0, rounds = 0; taken >= 0 && rounds < 1000; rounds++)
        taken = reply_reader_head(&reader, "HTTP/1.1 100 C\r\n\r\n", 18);
    assert_non_null(strstr(reader.why, "1xx"));
    reply_reader_free(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies),    cmocka_unit_test(test_what_follows_is_left),
        cmocka_unit_test(test_headers),   cmocka_unit_test(test_switching),
        cmocka_unit_test(test_smuggling), cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_endless),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
