/* test_client.c - the client against a real server: calls, streams, failures, cancelling. */
#include "handlers.h"

#include "http/client.h"

static struct http_client *client;

static void open_client(void)
{
    must(http_client_open(address.sun_path, &client, NULL) == 0, "opening");
}

/* One call whose reply has this status and body. */
static void expect_call(const struct http_call *call, unsigned status, const char *body)
{
    struct buf reply = BUF_INIT(100000);
    struct error err = {0};
    unsigned got = 0;

    must(http_call(client, call, &got, &reply, &err) == 0, err.text);
    must(got == status, "status");
    must(!body || strcmp(buf_text(&reply), body) == 0, buf_text(&reply));
    buf_free(&reply);
}

static long read_counted(void *ctx, void *data, size_t size)
{
    uint64_t *left = ctx;
    size_t count = (size_t)MIN((uint64_t)size, *left);

    for (size_t i = 0; i < count; i++)
        ((unsigned char *)data)[i] = byte_at(2000000 - *left + i);
    *left -= count;
    return (long)count;
}

static void client_calls(void)
{
    static const char *const headers[] = {"X-Thing: t", NULL};
    uint64_t left;

    open_client();
    expect_call(&(struct http_call){.method = "GET", .path = "/hello"}, 200, "hello");
    expect_call(&(struct http_call){.method = "HEAD", .path = "/hello"}, 200, "");
    expect_call(&(struct http_call){.method = "GET", .path = "/../hello"}, 404, "no route; allow=");
    expect_call(&(struct http_call){.method = "DELETE", .path = "/hello"}, 405,
                "no route; allow=GET, HEAD");
    expect_call(
        &(struct http_call){.method = "GET", .path = "/items/a%2Fb/c?q=1", .headers = headers}, 200,
        "GET /items/a%2Fb/c id=a/b name=c row=the row header=t q=1");
    expect_call(
        &(struct http_call){.method = "POST", .path = "/echo", .body = "a", .body_length = 1}, 201,
        "a");
    expect_call(
        &(struct http_call){.method = "POST", .path = "/echo", .body = "", .body_length = 0}, 201,
        "");
    left = 2000000;
    expect_call(&(struct http_call){.method = "PUT",
                                    .path = "/sink",
                                    .body_read = read_counted,
                                    .body_ctx = &left,
                                    .body_total = 2000000},
                200, "2000000 bytes");
    left = 2000000; /* refused before it is sent */
    expect_call(&(struct http_call){.method = "PUT",
                                    .path = "/small-sink",
                                    .body_read = read_counted,
                                    .body_ctx = &left,
                                    .body_total = 2000000},
                413, "the body is too large: at most 1000 bytes here");
    must(left == 2000000, "nothing was sent");
    http_client_close(client);
}

static void test_calls(void **state)
{
    (void)state;
    serve(client_calls);
    assert_true(seen.is_body_right);
    assert_int_equal(seen.body_bytes, 2000000);
}

static void client_chunked(void)
{
    uint64_t left = 2000000;

    open_client();
    expect_call(&(struct http_call){.method = "PUT",
                                    .path = "/sink",
                                    .body_read = read_counted,
                                    .body_ctx = &left,
                                    .body_total = -1},
                200, "2000000 bytes");
    http_client_close(client);
}

static void test_chunked_upload(void **state)
{
    (void)state;
    serve(client_chunked);
    assert_true(seen.is_body_right);
}

static long read_abort(void *ctx, void *data, size_t size)
{
    (void)ctx;
    (void)data;
    (void)size;
    return -1;
}

static void client_failures(void)
{
    struct buf reply = BUF_INIT(10);
    struct error err = {0};
    unsigned status;
    int r;

    open_client();
    r = http_call(client, &(struct http_call){.method = "GET", .path = "/spring?size=11"}, &status,
                  &reply, &err);
    must(r == -EFBIG && err.code == ERROR_TOO_LARGE, "too large");
    r = http_call(client,
                  &(struct http_call){.method = "GET", .path = "/spring?size=3&last=a&chunked=1"},
                  &status, &reply, &err);
    must(r == -ECONNRESET && err.text[0], "half a reply");
    r = http_call(client,
                  &(struct http_call){
                      .method = "PUT", .path = "/sink", .body_read = read_abort, .body_total = -1},
                  &status, &reply, &err);
    must(r == -ECANCELED, "aborted");
    r = http_call(client, &(struct http_call){.method = "GET", .path = "nothing"}, &status, &reply,
                  &err);
    must(r == -EINVAL, "no path");
    http_client_close(client);
    must(http_client_open("/nonexistent/socket", &client, NULL) == 0, "opening");
    r = http_call(client, &(struct http_call){.method = "GET", .path = "/"}, &status, &reply, &err);
    must(r == -ENOENT, "nobody there");
    http_client_close(client);
    http_client_close(NULL);
    buf_free(&reply);
}

static void test_failures(void **state)
{
    (void)state;
    serve(client_failures);
}

/* Exchanges beside each other and beside a pipe. */
struct heard {
    struct http_exchange *exchange;
    unsigned status;
    uint64_t bytes;
    int done;
    bool is_right;
    int cancel_after; /* bytes */
};

static void heard_status(void *ctx, unsigned status)
{
    struct heard *heard = ctx;

    heard->status = status;
    heard->is_right = http_call_header(heard->exchange, "content-TYPE") &&
                      !http_call_header(heard->exchange, "X-None");
}

static int heard_data(void *ctx, const void *data, size_t length)
{
    struct heard *heard = ctx;

    for (size_t i = 0; i < length; i++)
        heard->is_right =
            heard->is_right && ((const unsigned char *)data)[i] == byte_at(heard->bytes + i);
    heard->bytes += length;
    if (heard->cancel_after)
        http_call_cancel(heard->exchange);
    return 0;
}

static void heard_done(void *ctx, unsigned status, const struct error *err)
{
    struct heard *heard = ctx;

    must(err->num == 0 && status == heard->status, err->text);
    heard->done++;
}

static const struct http_call_events heard_events = {heard_status, heard_data, heard_done};

static void start(struct heard *heard, const char *path)
{
    must(http_call_start(client, &(struct http_call){.method = "GET", .path = path}, &heard_events,
                         heard, &heard->exchange, NULL) == 0,
         "start");
}

static void client_beside(void)
{
    struct heard one = {0}, two = {0}, waiting = {0}, cancelled = {.cancel_after = 1};
    char byte;
    int ends[2];
    struct pollfd fd = {.events = POLLIN};

    must(pipe(ends) == 0, "pipe");
    fd.fd = ends[0];
    open_client();
    start(&one, "/spring?size=3000000&slow=1");
    start(&two, "/spring?size=3000000&chunked=1");
    start(&waiting, "/wait");
    start(&cancelled, "/spring?size=100&chunked=1&last=never");
    while (!one.done || !two.done || !cancelled.bytes)
        must(http_client_wait(client, &fd, 1, -1) >= 1, "one still waits");
    must(one.bytes == 3000000 && one.is_right, "one");
    must(two.bytes == 3000000 && two.is_right, "two");
    must(fd.revents == 0, "an empty pipe");
    must(write(ends[1], "x", 1) == 1, "write");
    must(http_client_wait(client, &fd, 1, -1) == 1 && fd.revents == POLLIN, "a pipe with data");
    must(read(ends[0], &byte, 1) == 1, "read");
    close(ends[1]);
    must(http_client_wait(client, &fd, 1, -1) == 1 && fd.revents == POLLHUP, "a pipe at its end");
    http_call_cancel(waiting.exchange);
    must(http_client_wait(client, NULL, 0, 0) == 0, "nothing waits");
    must(http_client_wait(client, NULL, 0, -1) == 0, "nothing to wait for");
    must(waiting.done == 0 && cancelled.done == 0, "cancelled without a word");
    close(fd.fd);
    http_client_close(client);
}

static void test_beside(void **state)
{
    (void)state;
    wanted_gone = 1;
    wanted_freed = 3;
    serve(client_beside);
    assert_int_equal(seen.gone, 1);
    assert_int_equal(seen.freed, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_calls),
        TEST(test_chunked_upload),
        TEST(test_failures),
        TEST(test_beside),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
