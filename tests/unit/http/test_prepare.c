/*
 * test_prepare.c - a large body is read in a thread before its handler is called, one of them at a
 * time; clients that leave meanwhile, and a server that stops.
 */
#include "handlers.h"

#include <pthread.h>

#include "base/str.h"

#define LARGE (300 * KIB)
#define AT_ONCE 4

static pthread_t loop_thread;
static sem_t may_go_on;
static bool waits;
static int now_reading, most_reading, prepared, unprepared, outside;

static void *prepare(const void *row, const char *text, size_t length)
{
    size_t *count = malloc(sizeof(*count));
    int reading = __atomic_add_fetch(&now_reading, 1, __ATOMIC_SEQ_CST);

    (void)row;
    if (reading > most_reading)
        most_reading = reading;
    outside += !pthread_equal(pthread_self(), loop_thread);
    prepared++;
    if (waits) {
        sem_post(&reached);
        sem_wait(&may_go_on);
    }
    *count = text[length - 1] == 'x' ? length : 0;
    __atomic_sub_fetch(&now_reading, 1, __ATOMIC_SEQ_CST);
    return count;
}

static void unprepare(void *result)
{
    unprepared++;
    free(result);
}

static void handle_count(struct http_request *request, void *ctx)
{
    const size_t *count = http_prepared(request);
    char text[60];
    size_t length;

    (void)ctx;
    seen.handled++;
    http_body(request, &length);
    str_format(text, sizeof(text), "%zu of %zu", count ? *count : 0, length);
    http_reply(request, 200, NULL, NULL, text, strlen(text));
}

static const struct http_route count_routes[] = {
    {"POST", "/count", HTTP_WHOLE_BODY, MIB, handle_count, NULL, NULL},
};

static int begin(void **state)
{
    struct http_server_spec count_spec = {
        .routes = count_routes,
        .route_count = ARRAY_SIZE(count_routes),
        .client_max = 20,
        .no_route = no_route,
        .prepare = prepare,
        .unprepare = unprepare,
    };

    (void)state;
    loop_thread = pthread_self();
    now_reading = most_reading = prepared = unprepared = outside = 0;
    waits = false;
    sem_init(&may_go_on, 0, 0);
    serving_start(&count_spec);
    return 0;
}

static int send_count(size_t length)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);
    int fd = client_connect();

    buf_printf(&text, "POST /count HTTP/1.1\r\n" CLOSE "Content-Length: %zu\r\n\r\n", length);
    client_say(fd, buf_text(&text));
    buf_clear(&text);
    for (size_t i = 0; i < length; i++)
        buf_append(&text, "x", 1);
    client_say(fd, buf_text(&text));
    return fd;
}

static void expect_count(int fd, const char *wanted)
{
    char reply[4096];

    client_read_all(fd, reply, sizeof(reply));
    must(strstr(reply, wanted), reply);
    close(fd);
}

static void ask_for_counts(void)
{
    int fds[AT_ONCE];

    expect_count(send_count(1000), "0 of 1000");
    for (int i = 0; i < AT_ONCE; i++)
        fds[i] = send_count(LARGE);
    for (int i = 0; i < AT_ONCE; i++)
        expect_count(fds[i], "307200 of 307200");
}

static void large_bodies_are_read_outside_of_the_loop_one_at_a_time(void **state)
{
    (void)state;
    serve(ask_for_counts);
    serving_stop();
    assert_int_equal(seen.handled, AT_ONCE + 1);
    assert_int_equal(prepared, AT_ONCE);
    assert_int_equal(outside, AT_ONCE);
    assert_int_equal(most_reading, 1);
    assert_int_equal(unprepared, AT_ONCE);
}

static void leave_while_it_is_read(void)
{
    int fd = send_count(LARGE), second;

    sem_wait(&reached);
    second = send_count(LARGE); /* waits behind it */
    close(fd);
    close(second);
    sem_post(&may_go_on);
    sem_post(&may_go_on);
}

static void a_client_that_leaves_leaves_nothing(void **state)
{
    (void)state;
    waits = true;
    serve(leave_while_it_is_read);
    serving_stop();
    assert_true(prepared >= 1);
    assert_int_equal(unprepared, prepared);
    assert_int_equal(now_reading, 0);
}

#define COUNT_TEST(name) cmocka_unit_test_setup_teardown(name, begin, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        COUNT_TEST(large_bodies_are_read_outside_of_the_loop_one_at_a_time),
        COUNT_TEST(a_client_that_leaves_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
