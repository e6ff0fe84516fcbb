/*
 * test_tenant_share.c - the connections of one tenant are counted, whatever they do, and a new
 * client is heard although all connections are busy.
 */
#include "handlers.h"

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

static const struct http_route share_routes[] = {
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHARE_TEST(a_tenant_has_so_many_connections),
        SHARE_TEST(half_of_them_stay_open_after_a_reply),
        SHARE_TEST(a_new_client_is_heard_when_all_are_busy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
