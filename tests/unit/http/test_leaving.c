/* test_leaving.c - clients that leave, clients too many, and a server that stops under them. */
#include "handlers.h"

static void client_leaves(void)
{
    int fd = client_connect();

    client_say(fd, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
    sem_wait(&reached);
    close(fd);
    /* in the middle of a body that nobody takes */
    fd = client_connect();
    client_say(fd, "PUT /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nabc");
    sem_wait(&reached);
    close(fd);
}

static void test_client_leaves(void **state)
{
    (void)state;
    wanted_gone = 2;
    serve(client_leaves);
    assert_int_equal(seen.gone, 2);
    assert_int_equal(seen.handled, 2);
    serving_stop();
    assert_int_equal(seen.gone, 2);
    assert_int_equal(seen.done, 2);
}

static void client_leaves_stream(void)
{
    char reply[4096];
    int fd = client_connect();

    /* suspended: nothing more comes */
    client_say(fd, "GET /spring?size=100&chunked=1&last=never HTTP/1.1\r\nHost: x\r\n\r\n");
    sem_wait(&reached);
    close(fd);
    /* in the middle of sending */
    fd = client_connect();
    client_say(fd, "GET /spring?size=1000000000 HTTP/1.1\r\nHost: x\r\n\r\n");
    must(read(fd, reply, sizeof(reply)) > 0, "a beginning");
    close(fd);
}

static void test_client_leaves_stream(void **state)
{
    (void)state;
    wanted_freed = 2;
    serve(client_leaves_stream);
    assert_int_equal(seen.freed, 2);
    serving_stop();
    assert_int_equal(seen.freed, 2);
    assert_int_equal(seen.gone, 0);
}

/* Turns the loop until every connection is over. */
static void run_until_empty(void)
{
    do {
        eventfd_write(finished_fd, 1);
        uv_reactor_run(reactor);
    } while (http_server_clients(server) > 0);
    is_finished = false;
}

static void client_hello(void)
{
    client_expect("GET /hello HTTP/1.1\r\n" CLOSE "\r\n", "HTTP/1.1 200", "hello");
}

/* Each of them was gone before the server could see it at all. */
static void test_client_left_already(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        int fd = client_connect();

        client_say(fd,
                   "GET /wait HTTP/1.1\r\nHost: x\r\n\r\nGET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
        close(fd);
    }
    serve(client_hello);
    run_until_empty();
    assert_int_equal(seen.gone, seen.handled - 1);
}

static int open_fds[5];

static void client_pending(void)
{
    static const char *const requests[] = {
        "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n",
        "PUT /wait HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
        "GET /spring?size=100&chunked=1&last=never HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /hel",
        "GET /spring?size=1000000000 HTTP/1.1\r\nHost: x\r\n\r\n",
    };
    char byte;

    for (int i = 0; i < 5; i++) {
        open_fds[i] = client_connect();
        client_say(open_fds[i], requests[i]);
        if (i < 3)
            sem_wait(&reached);
    }
    must(read(open_fds[4], &byte, 1) == 1, "the beginning");
}

static void test_stop_with_pending(void **state)
{
    (void)state;
    serve(client_pending);
    assert_int_equal(http_server_clients(server), 5);
    serving_stop();
    assert_int_equal(seen.gone, 2);
    assert_int_equal(seen.freed, 2);
    for (int i = 0; i < 5; i++)
        close(open_fds[i]);
}

static void client_stop(void)
{
    int waiting = client_connect(), fd = client_connect();
    char reply[100];

    client_say(waiting, "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
    sem_wait(&reached);
    client_say(fd, "GET /stop HTTP/1.1\r\nHost: x\r\n\r\nGET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    must(read(fd, reply, sizeof(reply)) <= 0, "no reply");
    must(read(waiting, reply, sizeof(reply)) <= 0, "no reply");
    close(fd);
    close(waiting);
}

static void test_stop_from_inside(void **state)
{
    (void)state;
    serve(client_stop);
    assert_null(server);
    assert_int_equal(seen.handled, 2);
    assert_int_equal(seen.gone, 2);
    assert_int_equal(seen.done, 0);
}

/* Stops it in the middle of a body, then in the middle of a reply. */
static void client_stop_body(void)
{
    int fd = client_connect();
    char reply[100];

    client_say(fd, "PUT /stop HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc");
    must(read(fd, reply, sizeof(reply)) <= 0, "no reply");
    close(fd);
}

static void client_stop_reply(void)
{
    char reply[1000];
    int fd = client_connect();

    client_say(fd, "GET /spring?size=10&chunked=1&last=stop HTTP/1.1\r\nHost: x\r\n\r\n");
    client_read_all(fd, reply, sizeof(reply));
    close(fd);
}

static void test_stop_from_streams(void **state)
{
    (void)state;
    serve(client_stop_body);
    assert_null(server);
    assert_int_equal(seen.data, 1);
    assert_int_equal(seen.gone, 1);
    serving_stop();
    serving_start(&spec);
    wanted_freed = 1;
    serve(client_stop_reply);
    assert_null(server);
    assert_int_equal(seen.freed, 1);
}

static void client_many(void)
{
    int fds[20], over;
    char reply[4096];

    for (int i = 0; i < 20; i++) {
        fds[i] = client_connect();
        client_say(fds[i], "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
        client_read_until(fds[i], reply, sizeof(reply), "hello", 1);
    }
    over = client_connect();
    must(read(over, reply, sizeof(reply)) <= 0, "one too many is refused");
    close(over);
    for (int i = 0; i < 20; i++)
        close(fds[i]);
}

static void client_refused(void)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0, "nobody listens");
    close(fd);
}

static void test_client_max_and_quiesce(void **state)
{
    (void)state;
    serve(client_many);
    assert_int_equal(seen.handled, 20);
    run_until_empty();
    serve(client_hello);
    http_server_quiesce(server);
    http_server_quiesce(server);
    close(listen_fd);
    listen_fd = -1;
    serve(client_refused);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_client_leaves),          TEST(test_client_leaves_stream),
        TEST(test_client_left_already),    TEST(test_stop_with_pending),
        TEST(test_stop_from_inside),       TEST(test_stop_from_streams),
        TEST(test_client_max_and_quiesce),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
