/* test_server.c - the server with real connections: routing, bodies and replies of every kind. */
#include "handlers.h"

static void client_routes(void)
{
    client_expect("GET /hello HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\nhello");
    must(strstr(client_ask("GET /hello HTTP/1.1\r\n" CLOSE "\r\n"), "\r\nX-Two: 2\r\n"), "X-Two");
    client_expect("HEAD /hello HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 OK\r\n", "\r\n\r\n");
    client_expect("HEAD /spring?size=10&chunked=1 HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200 OK\r\n",
                  "\r\n\r\n");
    client_expect("GET /items/a%2Fb/c/d%20e?q=1+2&r HTTP/1.1\r\nX-Thing: t\r\n" CLOSE "\r\n",
                  "HTTP/1.1 200",
                  "GET /items/a%2Fb/c/d%20e id=a/b name=c/d e row=the row header=t q=1 2 r=");
    client_expect("GET /none HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 404", "no route; allow=");
    client_expect("DELETE /nothing HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 204 No Content\r\n",
                  "\r\n\r\n");
    client_expect("GET //hello HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 404", "no route; allow=");
    client_expect("DELETE /wait HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 405",
                  "no route; allow=GET, HEAD, PUT");
    client_expect("POST /nowhere HTTP/1.1\r\nContent-Length: 3\r\n" CLOSE "\r\nabc", "HTTP/1.1 404",
                  "allow=");
}

static void test_routes(void **state)
{
    (void)state;
    serve(client_routes);
    assert_int_equal(seen.freed, 1); /* HEAD of a stream */
    assert_int_equal(seen.done, 10);
}

/* Every reply has the request's id: the client's own where it is a sound one. */
static void client_ids(void)
{
    const char *reply =
        client_ask("GET /hello HTTP/1.1\r\nX-Request-Id: mine-1.2_3\r\n" CLOSE "\r\n");
    char first[100];

    must(strstr(reply, "\r\nX-Request-Id: mine-1.2_3\r\n"), "its own id");
    reply = client_ask("GET /none HTTP/1.1\r\nX-Request-Id: a b\r\n" CLOSE "\r\n");
    must(strstr(reply, "\r\nX-Request-Id: req_"), "a new id for one that is not sound");
    must(!strstr(reply, "a b"), "what is not sound is not said again");
    snprintf(first, sizeof(first), "%.60s", strstr(reply, "X-Request-Id"));
    reply = client_ask("GET /hello%00 HTTP/1.1\r\n" CLOSE "\r\n");
    must(strstr(reply, "\r\nX-Request-Id: req_"), "an id in a refusal");
    must(!strstr(reply, first), "another one each time");
    reply = client_ask("HEAD /spring?size=10&chunked=1 HTTP/1.1\r\n" CLOSE "\r\n");
    must(strstr(reply, "\r\nX-Request-Id: req_"), "an id on a stream");
}

static void test_ids(void **state)
{
    (void)state;
    serve(client_ids);
}

static void client_bad(void)
{
    static char long_path[3 * LIMIT_HTTP_TARGET];
    static char headers[LIMIT_HTTP_HEADERS + 8192];
    size_t used;

    client_expect("GET /hello%00 HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 400", "malformed");
    client_expect("GET /hello%4 HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 400", "malformed");
    client_expect("GET hello HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 400", "malformed");
    client_expect("GET /hello HTTP/1.1\r\n\r\n", "HTTP/1.1 400", ""); /* no Host */
    client_expect("POST /echo HTTP/1.1\r\nContent-Length: -1\r\n" CLOSE "\r\n", "HTTP/1.1 4", "");
    client_expect("POST /echo HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n" CLOSE "\r\n",
                  "HTTP/1.1 4", "");
    client_ask("\r\n\r\nnonsense\r\n\r\n");
    client_ask("GET\r\n\r\n");
    used = (size_t)snprintf(long_path, sizeof(long_path), "GET /");
    memset(long_path + used, 'a', LIMIT_HTTP_TARGET);
    snprintf(long_path + used + LIMIT_HTTP_TARGET, 100, " HTTP/1.1\r\n" CLOSE "\r\n");
    client_expect(long_path, "HTTP/1.1 414", "too long: at most 8 KiB");
    used = (size_t)snprintf(headers, sizeof(headers), "GET /hello HTTP/1.1\r\n" CLOSE);
    while (used < LIMIT_HTTP_HEADERS)
        used += (size_t)snprintf(headers + used, 1100, "X-%zu: %01000d\r\n", used, 0);
    snprintf(headers + used, 3, "\r\n");
    client_expect(headers, "HTTP/1.1 431", "at most 64 KiB together");
}

static void test_bad_requests(void **state)
{
    (void)state;
    serve(client_bad);
    assert_int_equal(seen.handled, 0);
}

static void client_limits(void)
{
    static char request[LIMIT_HTTP_DROP + 1000];
    int used;

    client_expect("POST /echo HTTP/1.1\r\nContent-Length: 3\r\n" CLOSE "\r\nabc", "HTTP/1.1 201",
                  "\r\n\r\nabc");
    client_expect("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" CLOSE
                  "\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
                  "HTTP/1.1 201", "\r\n\r\nabcde");
    client_expect("POST /echo HTTP/1.1\r\nContent-Length: 0\r\n" CLOSE "\r\n", "HTTP/1.1 201",
                  "\r\n\r\n");
    client_expect("POST /echo HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 201", "\r\n\r\n");
    used = snprintf(request, sizeof(request),
                    "POST /echo HTTP/1.1\r\nContent-Length: 1001\r\n" CLOSE "\r\n%01001d", 0);
    client_expect(request, "HTTP/1.1 413", " here");
    snprintf(request, sizeof(request),
             "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" CLOSE
             "\r\n3e8\r\n%01000d\r\n1\r\nx\r\n0\r\n\r\n",
             0);
    client_expect(request, "HTTP/1.1 413", " here");
    client_expect("POST /nobody HTTP/1.1\r\nContent-Length: 3\r\n" CLOSE "\r\nabc", "HTTP/1.1 200",
                  "hello");
    used = snprintf(request, sizeof(request),
                    "POST /nobody HTTP/1.1\r\nContent-Length: %d\r\n" CLOSE "\r\n",
                    (int)LIMIT_HTTP_DROP + 1);
    memset(request + used, 'x', LIMIT_HTTP_DROP + 1);
    request[used + (int)LIMIT_HTTP_DROP + 1] = '\0';
    client_expect(request, "HTTP/1.1 413", " here");
    snprintf(request, sizeof(request),
             "PUT /small-sink HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" CLOSE
             "\r\n3e9\r\n%01001d\r\n0\r\n\r\n",
             0);
    client_expect(request, "HTTP/1.1 413", " here");
}

static void test_body_limits(void **state)
{
    (void)state;
    serve(client_limits);
    assert_int_equal(seen.handled, 6); /* four echoes, one body dropped, the small sink's begin */
    reactor->ops->timer_remove(sink_timer);
}

#define CHUNKED_HEAD "HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

/* Bodies that never end: the answer and the end of the connection come where they are too long. */
static void client_unending(void)
{
    static char request[LIMIT_HTTP_DROP + 1000], reply[4096];
    int fd, used;

    snprintf(request, sizeof(request), "POST /echo " CHUNKED_HEAD "3e8\r\n%01000d\r\n5\r\nx", 0);
    client_expect(request, "HTTP/1.1 413", " here");
    must(strstr(client_ask(request), "Connection: close\r\n"), "what follows is not read");
    must(strstr(client_ask(request), "X-Request-Id: "), "as any other answer");
    used = snprintf(request, sizeof(request), "POST /nobody " CHUNKED_HEAD "f0000\r\n");
    memset(request + used, 'x', LIMIT_HTTP_DROP + 1);
    request[used + (int)LIMIT_HTTP_DROP + 1] = '\0';
    client_expect(request, "HTTP/1.1 413", " here");

    /* who goes on is cut off, and has its answer */
    fd = client_connect();
    client_say(fd, "POST /echo " CHUNKED_HEAD "fffffff\r\n");
    memset(request, 'x', sizeof(request));
    for (size_t sent = 0; send(fd, request, sizeof(request), MSG_NOSIGNAL) > 0;)
        must((sent += sizeof(request)) < 64 * MIB, "it ends");
    client_read_all(fd, reply, sizeof(reply));
    must(strncmp(reply, "HTTP/1.1 413", 12) == 0, "the answer of one that did not stop");
    close(fd);
}

static void test_endless_bodies(void **state)
{
    (void)state;
    serve(client_unending);
    assert_int_equal(seen.handled, 0);
}

static void client_continue(void)
{
    char reply[4096];
    int fd = client_connect();

    /* wanted: the client waits for the word before it sends */
    client_say(
        fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    client_read_until(fd, reply, sizeof(reply), "100 Continue\r\n\r\n", 1);
    client_say(fd, "abcde");
    client_read_until(fd, reply, sizeof(reply), "\r\n\r\nabcde", 1);
    close(fd);
    /* not wanted: it hears that without having sent anything */
    client_expect(
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\nExpect: 100-continue\r\n\r\n",
        "HTTP/1.1 413", " here");
    client_expect(
        "PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n",
        "HTTP/1.1 409", "not now");
    /* a body that it would take long to send is not waited for */
    client_expect("PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
                  "HTTP/1.1 409", "not now");
}

static void test_continue(void **state)
{
    (void)state;
    serve(client_continue);
    assert_int_equal(seen.handled, 3);
}

static void client_keep_alive(void)
{
    char reply[16384];
    int fd = client_connect();

    for (int i = 0; i < 5; i++) {
        client_say(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        client_read_until(fd, reply, sizeof(reply), "\r\n\r\nhello", 1);
        client_say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz");
        client_read_until(fd, reply, sizeof(reply), "\r\n\r\nxyz", 1);
        client_say(fd, "PUT /refuse HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nxyz");
        client_read_until(fd, reply, sizeof(reply), "\r\n\r\nnot now", 1);
    }
    /* all at once, answered in order */
    for (int i = 0; i < 20; i++)
        client_say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n(hello)"
                       "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    client_read_until(fd, reply, sizeof(reply), "hello", 40);
    close(fd);
}

static void test_keep_alive_and_pipeline(void **state)
{
    (void)state;
    serve(client_keep_alive);
    assert_int_equal(seen.handled, 55);
    assert_int_equal(seen.gone, 0);
}

/* Every byte in a packet of its own. */
static void client_bytes(void)
{
    static const char request[] = "POST /echo?a=%20 HTTP/1.1\r\n" CLOSE
                                  "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n"
                                  "0\r\n\r\n";
    char reply[4096];
    int fd = client_connect();

    for (size_t i = 0; i < sizeof(request) - 1; i++)
        client_send(fd, request + i, 1);
    client_read_all(fd, reply, sizeof(reply));
    must(strstr(reply, "\r\n\r\nabcde"), "what was sent slowly");
    close(fd);
}

static void test_bytes(void **state)
{
    (void)state;
    serve(client_bytes);
    assert_int_equal(seen.handled, 1);
}

static void client_half_close(void)
{
    char reply[4096];
    int fd = client_connect();

    client_say(fd, "PUT /sink?late=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    shutdown(fd, SHUT_WR);
    client_read_all(fd, reply, sizeof(reply));
    must(strstr(reply, "0 bytes"), "a reply after half a close");
    close(fd);
}

static void test_half_close(void **state)
{
    (void)state;
    serve(client_half_close);
    assert_int_equal(seen.end, 1);
}

static void client_upload(void)
{
    static unsigned char data[3000001];
    char reply[4096];
    int fd = client_connect();

    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = byte_at(i);
    client_say(fd, "PUT /sink HTTP/1.1\r\n" CLOSE "Content-Length: 3000001\r\n\r\n");
    client_send(fd, data, sizeof(data));
    client_read_all(fd, reply, sizeof(reply));
    must(strstr(reply, "3000001 bytes"), "the count");
    close(fd);
    fd = client_connect();
    client_say(fd, "PUT /sink?late=1 HTTP/1.1\r\n" CLOSE "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t at = 0; at < 100; at++) {
        client_say(fd, "64\r\n");
        client_send(fd, data + at * 100 + 0, 100);
        client_say(fd, "\r\n");
    }
    client_say(fd, "0\r\n\r\n");
    client_read_all(fd, reply, sizeof(reply));
    close(fd);
}

static void test_upload_to_slow_taker(void **state)
{
    (void)state;
    serve(client_upload);
    assert_int_equal(seen.end, 2);
    assert_int_equal(seen.body_bytes, 3000001 + 10000);
    assert_true(seen.data > 300);
}

static void client_quit(void)
{
    static char data[1000000];
    char reply[4096];
    int fd = client_connect();

    /* the answer comes behind the whole body, and the connection lives on */
    for (int i = 0; i < 2; i++) {
        client_say(fd, "PUT /quit HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
        client_send(fd, data, sizeof(data));
        client_read_until(fd, reply, sizeof(reply), "\r\n\r\nenough", 1);
        must(strstr(reply, "HTTP/1.1 507 "), "status");
    }
    close(fd);
}

static void test_answer_before_the_end(void **state)
{
    (void)state;
    serve(client_quit);
    assert_int_equal(seen.data, 2);
    assert_int_equal(seen.end, 0);
    assert_int_equal(seen.done, 2);
}

/* Reads a reply of `size` bytes of byte_at() behind its headers, a little at a time. */
static void read_spring(const char *request, uint64_t size)
{
    static unsigned char data[40000];
    uint64_t position = 0;
    size_t have = 0;
    unsigned char *body = NULL;
    int fd = client_connect();

    client_say(fd, request);
    while (!body) {
        ssize_t count = read(fd, data + have, 1);

        must(count == 1, "headers");
        have++;
        if (have >= 4 && memcmp(data + have - 4, "\r\n\r\n", 4) == 0)
            body = data;
    }
    while (position < size) {
        ssize_t count = read(fd, data, sizeof(data));

        must(count > 0, "body");
        for (ssize_t i = 0; i < count; i++)
            must(data[i] == byte_at(position + (uint64_t)i), "byte");
        position += (uint64_t)count;
    }
    must(read(fd, data, 1) == 0, "the end");
    close(fd);
}

static void client_download(void)
{
    read_spring("GET /spring?size=5000000 HTTP/1.1\r\n" CLOSE "\r\n", 5000000);
    read_spring("GET /spring?size=5000000&slow=1 HTTP/1.1\r\n" CLOSE "\r\n", 5000000);
    /* HTTP/1.0 knows no chunks: the end of the connection is the end */
    read_spring("GET /spring?size=5000000&slow=1&chunked=1 HTTP/1.0\r\n\r\n", 5000000);
    client_expect("GET /spring?size=0&chunked=1 HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200",
                  "\r\n\r\n0\r\n\r\n");
    must(!strstr(client_ask("GET /spring?size=3&chunked=1&last=abort HTTP/1.1\r\n" CLOSE "\r\n"),
                 "0\r\n\r\n"),
         "half is not taken for the whole");
}

static void test_streamed_replies(void **state)
{
    (void)state;
    serve(client_download);
    assert_int_equal(seen.freed, 5);
    assert_int_equal(seen.done, 5);
}

/* Who is not let in hears it before it has sent its body. */
static void client_guarded(void)
{
    char reply[4096];
    int fd = client_connect();

    client_expect("POST /guarded HTTP/1.1\r\nX-Word: x\r\nContent-Length: 3\r\n" CLOSE "\r\nabc",
                  "HTTP/1.1 201", "\r\n\r\nabc");
    /* a small one may be on its way already: it is dropped, and the connection stays */
    client_say(fd, "POST /guarded HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    client_read_until(fd, reply, sizeof(reply), "who?", 1);
    must(strstr(reply, "HTTP/1.1 401"), "401");
    client_say(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    client_read_until(fd, reply, sizeof(reply), "hello", 1);
    close(fd);
    /* of a large one, and of one that does not say how large, nothing is waited for */
    client_expect("POST /guarded HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
                  "HTTP/1.1 401", "who?");
    client_expect("POST /guarded HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
                  "HTTP/1.1 401", "who?");
    client_expect("PUT /guarded HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n",
                  "HTTP/1.1 401", "who?");
    client_expect(
        "POST /guarded HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
        "HTTP/1.1 401", "who?");
}

static void test_admission(void **state)
{
    (void)state;
    serve(client_guarded);
    assert_int_equal(seen.handled, 2); /* the echo, and hello */
}

static void client_endless(void)
{
    must(strstr(client_ask("GET /endless HTTP/1.1\r\n" CLOSE "\r\n"), "bye"), "its last words");
    must(strstr(client_ask("GET /endless?early=1 HTTP/1.1\r\n" CLOSE "\r\n"), "bye"), "early");
}

static void test_a_stream_that_is_stopped(void **state)
{
    (void)state;
    serve(client_endless);
    assert_int_equal(seen.freed, 2);
}

/* There may be hundreds that say nothing for hours: no block for a large reply waits with them. */
static void test_a_stream_that_waits_holds_little(void **state)
{
    size_t before = allocated_now();

    (void)state;
    serve(client_endless);
    assert_true(seen.allocated < before + 64 * KIB);
}

static void client_big_echo(void)
{
    unsigned char *data = malloc(BIG + 1);
    int fd = client_connect();
    size_t have = 0;
    char header[256];

    for (size_t i = 0; i < BIG; i++)
        data[i] = byte_at(i);
    snprintf(header, sizeof(header), "POST /big HTTP/1.1\r\n" CLOSE "Content-Length: %llu\r\n\r\n",
             (unsigned long long)BIG);
    client_say(fd, header);
    client_send(fd, data, BIG);
    memset(data, 0, BIG);
    do {
        must(read(fd, header + have, 1) == 1, "header");
        have++;
    } while (have < 4 || memcmp(header + have - 4, "\r\n\r\n", 4) != 0);
    must(client_read_all(fd, (char *)data, BIG + 1) == BIG, "length");
    for (size_t i = 0; i < BIG; i++)
        must(data[i] == byte_at(i), "byte");
    close(fd);
    free(data);
}

static void test_big_echo(void **state)
{
    (void)state;
    serve(client_big_echo);
    assert_int_equal(seen.last_status, 201);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_routes),
        TEST(test_ids),
        TEST(test_bad_requests),
        TEST(test_body_limits),
        TEST(test_endless_bodies),
        TEST(test_continue),
        TEST(test_keep_alive_and_pipeline),
        TEST(test_bytes),
        TEST(test_half_close),
        TEST(test_upload_to_slow_taker),
        TEST(test_answer_before_the_end),
        TEST(test_streamed_replies),
        TEST(test_big_echo),
        TEST(test_admission),
        TEST(test_a_stream_that_is_stopped),
        TEST(test_a_stream_that_waits_holds_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
