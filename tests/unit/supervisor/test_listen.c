/* test_listen.c - TCP addresses as they are written, opened on this machine's loopback. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "open_fds.h"
#include "supervisor/supervisor_private.h"

static int listen_on(const char *const *addresses, struct supervisor *supervisor, struct error *err)
{
    static struct launcher_plan plan;
    static struct supervisor_spec spec;

    spec.listen = addresses;
    supervisor_init(supervisor, &spec, &plan);
    return supervisor_listen(supervisor, err);
}

static void test_addresses_are_opened(void **state)
{
    static const char *const addresses[] = {"127.0.0.1:0", "localhost:0", "127.0.0.2:0", NULL};
    struct supervisor supervisor;
    struct error err = {0};

    (void)state;
    assert_int_equal(listen_on(addresses, &supervisor, &err), 0);
    assert_int_equal(supervisor.plan->tcp_count, 3);
    for (size_t i = 0; i < 3; i++) {
        struct sockaddr_in name;
        socklen_t length = sizeof(name);

        assert_int_equal(getsockname(supervisor.tcp_fd[i], (struct sockaddr *)&name, &length), 0);
        assert_int_equal(name.sin_family, AF_INET);
        assert_int_equal(ntohl(name.sin_addr.s_addr), INADDR_LOOPBACK + (i == 2));
        assert_true(ntohs(name.sin_port) > 0);
    }
    assert_int_equal(supervisor.tcp_fd[3], -1);
    supervisor_close(&supervisor);
}

static void test_none_is_none(void **state)
{
    static const char *const addresses[] = {NULL};
    struct supervisor supervisor;
    struct error err = {0};

    (void)state;
    assert_int_equal(listen_on(addresses, &supervisor, &err), 0);
    assert_int_equal(supervisor.plan->tcp_count, 0);
    assert_int_equal(listen_on(NULL, &supervisor, &err), 0);
    assert_int_equal(supervisor.plan->tcp_count, 0);
}

static void test_what_is_no_address_is_named(void **state)
{
    static const char *const wrong[] = {
        "",           ":",        "7070",         ":7070",           "127.0.0.1",
        "127.0.0.1:", "::1:7070", "[::1]",        "[::1]7070",       "[127.0.0.1]:7070",
        "[]:7070",    "[:7070",   "a.example:1",  "127.0.0.1:65536", "127.0.0.1:-1",
        "127.1:7070", "none",     " 127.0.0.1:1", "127.0.0.1:7070x"};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        const char *addresses[] = {"127.0.0.1:0", wrong[i], NULL};
        unsigned before = open_fds();
        struct supervisor supervisor;
        struct error err = {0};

        if (listen_on(addresses, &supervisor, &err) != -EINVAL)
            fail_msg("'%s' was taken", wrong[i]);
        assert_string_equal(err.code, ERROR_BAD_INPUT);
        assert_non_null(strstr(err.text, "127.0.0.1:7070 or [::1]:7070"));
        supervisor_close(&supervisor);
        assert_int_equal(open_fds(), before);
    }
}

static void test_a_port_that_is_taken(void **state)
{
    static const char *const any[] = {"127.0.0.1:0", NULL};
    struct sockaddr_in name;
    socklen_t length = sizeof(name);
    char text[64];
    const char *same[] = {text, NULL};
    struct supervisor first, second;
    struct error err = {0};

    (void)state;
    assert_int_equal(listen_on(any, &first, &err), 0);
    assert_int_equal(getsockname(first.tcp_fd[0], (struct sockaddr *)&name, &length), 0);
    snprintf(text, sizeof(text), "127.0.0.1:%u", ntohs(name.sin_port));
    assert_int_equal(listen_on(same, &second, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, text));
    assert_non_null(strstr(err.text, "--listen"));
    supervisor_close(&second);
    supervisor_close(&first);
}

static void test_sockets_that_listen_already_come_first(void **state)
{
    static const char *const any[] = {"127.0.0.1:0", NULL};
    struct supervisor_spec spec = {.listen = any, .listen_fd_count = 1};
    struct launcher_plan plan;
    struct sockaddr_in given, taken;
    socklen_t length = sizeof(given);
    struct supervisor first, second;
    struct error err = {0};

    (void)state;
    assert_int_equal(listen_on(any, &first, &err), 0);
    spec.listen_fds = first.tcp_fd;
    supervisor_init(&second, &spec, &plan);
    assert_int_equal(supervisor_listen(&second, &err), 0);
    assert_int_equal(plan.tcp_count, 2);
    assert_int_equal(getsockname(first.tcp_fd[0], (struct sockaddr *)&given, &length), 0);
    assert_int_equal(getsockname(second.tcp_fd[0], (struct sockaddr *)&taken, &length), 0);
    assert_int_equal(given.sin_port, taken.sin_port);
    assert_int_equal(getsockname(second.tcp_fd[1], (struct sockaddr *)&taken, &length), 0);
    assert_int_not_equal(given.sin_port, taken.sin_port);
    supervisor_close(&second);
    supervisor_close(&first);
}

static void test_too_many(void **state)
{
    const char *addresses[BROKER_TCP_MAX + 2] = {0};
    struct supervisor supervisor;
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i <= BROKER_TCP_MAX; i++)
        addresses[i] = "127.0.0.1:0";
    assert_int_equal(listen_on(addresses, &supervisor, &err), -E2BIG);
    supervisor_close(&supervisor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_are_opened),
        cmocka_unit_test(test_none_is_none),
        cmocka_unit_test(test_what_is_no_address_is_named),
        cmocka_unit_test(test_a_port_that_is_taken),
        cmocka_unit_test(test_sockets_that_listen_already_come_first),
        cmocka_unit_test(test_too_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
