/*
 * test_tenant_share.c - the connections of one tenant are counted, whatever they do, and a new
 * client is heard although all connections are busy.
 */
#include "handlers.h"

#include "base/clock.h"

#define TENANT_MAX_HERE 4
#define CLIENT_MAX_HERE 8

static const char *hosts[] = {"localhost", NULL};
static struct http_browsers browsers = {hosts, NULL};

/* The header X-Tenant stands for a key. */
static bool is_in(struct http_request *request)
{
    const char *tenant = http_header(request, "X-Tenant");

    if (!tenant || http_set_admitted(request, tenant) == 0)
        return true;
    http_reply(request, 429, NULL, NULL, "full", 4);
    return false;
}

static void handle_once(struct http_request *request, void *ctx)
{
    (void)ctx;
    if (is_in(request))
        http_reply(request, 200, NULL, NULL, "heard", 5);
}

static void handle_busy(struct http_request *request, void *ctx)
{
    if (is_in(request))
        handle_wait(request, ctx);
}

static bool is_in_by_head(struct http_request *request, void *ctx)
{
    (void)ctx;
    return is_in(request);
}

static void handle_slowly(struct http_request *request, void *ctx);

static const struct http_route share_routes[] = {
    {"GET", "/slow", HTTP_NO_BODY, 0, handle_slowly, NULL, is_in_by_head},
    {"GET", "/once", HTTP_NO_BODY, 0, handle_once, NULL, NULL},
    {"GET", "/busy", HTTP_NO_BODY, 0, handle_busy, NULL, NULL},
};

static int begin(void **state)
{
    struct http_server_spec share_spec = {
        .routes = share_routes,
        .route_count = ARRAY_SIZE(share_routes),
        .client_max = CLIENT_MAX_HERE,
        .keyless_max = CLIENT_MAX_HERE,
        .tenant_max = TENANT_MAX_HERE,
        .no_route = no_route,
        .browsers = &browsers,
    };

    (void)state;
    is_tcp = true;
    serving_start(&share_spec);
    return 0;
}

static int ask(const char *path, const char *tenant)
{
    char text[200];
    int fd = client_connect();

    snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\nHost: localhost\r\nX-Tenant: %s\r\n\r\n", path,
             tenant);
    client_say(fd, text);
    return fd;
}

/* The reply up to the body that is wanted. */
static void expect(int fd, const char *wanted, char *reply, size_t size)
{
    size_t length = 0;

    reply[0] = '\0';
    while (!strstr(reply, wanted)) {
        ssize_t count = read(fd, reply + length, size - 1 - length);

        must(count > 0, wanted);
        length += (size_t)count;
        reply[length] = '\0';
    }
}

static void open_busy(int *fds, int count, const char *tenant)
{
    for (int i = 0; i < count; i++) {
        fds[i] = ask("/busy", tenant);
        sem_wait(&reached);
    }
}

static void one_too_many(void)
{
    int fds[TENANT_MAX_HERE], fd;
    char reply[4096];

    open_busy(fds, TENANT_MAX_HERE, "a");
    fd = ask("/once", "a");
    expect(fd, "full", reply, sizeof(reply));
    close(fd);
    fd = ask("/once", "b");
    expect(fd, "heard", reply, sizeof(reply));
    close(fd);
    for (int i = 0; i < TENANT_MAX_HERE; i++)
        close(fds[i]);
}

static void a_tenant_has_so_many_connections(void **state)
{
    (void)state;
    wanted_gone = TENANT_MAX_HERE;
    serve(one_too_many);
}

static void keep_some(void)
{
    int fds[TENANT_MAX_HERE], kept = 0;
    char reply[4096];

    for (int i = 0; i < TENANT_MAX_HERE; i++) {
        fds[i] = ask("/once", "a");
        expect(fds[i], "heard", reply, sizeof(reply));
        kept += !strcasestr(reply, "Connection: close");
    }
    must(kept == TENANT_MAX_HERE / 2, "half of them are kept");
    for (int i = 0; i < TENANT_MAX_HERE; i++)
        close(fds[i]);
}

static void half_of_them_stay_open_after_a_reply(void **state)
{
    (void)state;
    serve(keep_some);
}

static void fill_all(void)
{
    int fds[CLIENT_MAX_HERE], fd;
    char reply[4096];

    open_busy(fds, TENANT_MAX_HERE, "a");
    open_busy(fds + TENANT_MAX_HERE, TENANT_MAX_HERE - 1, "b");
    open_busy(fds + CLIENT_MAX_HERE - 1, 1, "c");
    fd = ask("/once", "d");
    expect(fd, "heard", reply, sizeof(reply));
    close(fd);
    /* The newest of the tenant with the most was closed for it. */
    must(read(fds[TENANT_MAX_HERE - 1], reply, sizeof(reply)) <= 0, "one of a is closed");
    for (int i = 0; i < CLIENT_MAX_HERE; i++)
        close(fds[i]);
}

static void a_new_client_is_heard_when_all_are_busy(void **state)
{
    (void)state;
    wanted_gone = CLIENT_MAX_HERE;
    serve(fill_all);
}

#define SHARE_TEST(name) cmocka_unit_test_setup_teardown(name, begin, tear_down)

/* From 127.0.0.`last`. */
static int connect_from(uint8_t last)
{
    struct sockaddr_in own = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + last)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    must(bind(fd, (const struct sockaddr *)&own, sizeof(own)) == 0, "an address of loopback");
    must(connect(fd, (const struct sockaddr *)&tcp_address, sizeof(tcp_address)) == 0,
         "a connection");
    return fd;
}

#define KNOWN 9 /* of all these addresses the first that would lose its connection */
#define FLOOD 20

static void flood_from_everywhere(void)
{
    int fds[FLOOD], fd = connect_from(KNOWN);
    char reply[4096];

    client_say(fd, "GET /once HTTP/1.1\r\nHost: localhost\r\nX-Tenant: a\r\n\r\n");
    expect(fd, "heard", reply, sizeof(reply));
    close(fd);
    fd = connect_from(KNOWN);
    for (int i = 0; i < FLOOD; i++) { /* each is accepted before the next one comes */
        fds[i] = connect_from((uint8_t)(KNOWN + 1 + i));
        client_say(fds[i], "GET /once HTTP/1.1\r\nHost: localhost\r\n\r\n");
        expect(fds[i], "heard", reply, sizeof(reply));
    }
    client_say(fd, "GET /once HTTP/1.1\r\nHost: localhost\r\nX-Tenant: a\r\n\r\n");
    expect(fd, "heard", reply, sizeof(reply));
    close(fd);
    for (int i = 0; i < FLOOD; i++)
        close(fds[i]);
}

static void an_address_of_a_key_has_a_reserve(void **state)
{
    (void)state;
    serve(flood_from_everywhere);
}

/* A turn of the loop has a share for each tenant: the requests of one that asks for more wait. */
#define SPIN_NS 3000000 /* two of them are more than a share */
#define VOLLEY 4

static char order[4 * VOLLEY];

static void handle_slowly(struct http_request *request, void *ctx)
{
    uint64_t begin = clock_thread_ns();
    const char *tenant = http_header(request, "X-Tenant");

    (void)ctx;
    while (clock_thread_ns() - begin < SPIN_NS)
        ;
    order[strlen(order)] = tenant[0];
    http_reply(request, 200, NULL, NULL, "heard", 5);
}

static int volley[VOLLEY + 2];

static void read_volley(void)
{
    char reply[4096];

    for (int i = 0; i < VOLLEY + 2; i++)
        expect(volley[i], "heard", reply, sizeof(reply));
}

/* All of them are there when the loop begins. */
static void a_tenant_that_asks_for_more_waits(void **state)
{
    (void)state;
    memset(order, 0, sizeof(order));
    volley[0] = ask("/slow", "b"); /* in whichever order they are read, one of b is the last */
    for (int i = 1; i <= VOLLEY; i++)
        volley[i] = ask("/slow", "a");
    volley[VOLLEY + 1] = ask("/slow", "b");
    serve(read_volley);
    for (int i = 0; i < VOLLEY + 2; i++)
        close(volley[i]);
    assert_int_equal(strlen(order), VOLLEY + 2);
    assert_in_range(strrchr(order, 'b') - order, 1, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHARE_TEST(a_tenant_has_so_many_connections),
        SHARE_TEST(half_of_them_stay_open_after_a_reply),
        SHARE_TEST(a_new_client_is_heard_when_all_are_busy),
        SHARE_TEST(an_address_of_a_key_has_a_reserve),
        SHARE_TEST(a_tenant_that_asks_for_more_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
