/* test_bailey.c - promises of bailey.h that need no box: arguments that are not there, loops
 * without a job, connections and who inherits them. The server is a socket of the test. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "lib/lib_private.h"

static unsigned cleanups;

/* Instead of libcurl's. */
void curl_global_cleanup(void);
void curl_global_cleanup(void)
{
    cleanups++;
}

struct server {
    int listen_fd, fd;
    struct sockaddr_in address;
    char url[64];
    bailey_engine *engine;
    bailey_spec *spec;
    bailey_job *job;
};

static void serve(struct server *server)
{
    socklen_t length = sizeof(server->address);

    *server = (struct server){
        .address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}}};
    server->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server->listen_fd, (struct sockaddr *)&server->address, length), 0);
    assert_int_equal(listen(server->listen_fd, 4), 0);
    getsockname(server->listen_fd, (struct sockaddr *)&server->address, &length);
    snprintf(server->url, sizeof(server->url), "http://127.0.0.1:%u",
             ntohs(server->address.sin_port));
}

static bool is_readable(int fd, int timeout_ms)
{
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, timeout_ms) == 1;
}

/* A job whose request the server has, and has not answered. */
static void begin(struct server *server, bailey_on_output on_output, void *ctx)
{
    char request[4096] = "";
    size_t length = 0;

    serve(server);
    assert_int_equal(bailey_open(&server->engine, server->url, NULL, NULL), 0);
    server->spec = bailey_spec_new();
    bailey_spec_code(server->spec, NULL, "END", 3);
    bailey_spec_on_output(server->spec, on_output, ctx);
    assert_int_equal(bailey_start(server->engine, server->spec, &server->job, NULL), 0);
    while (!is_readable(server->listen_fd, 0))
        assert_int_equal(bailey_step(server->engine, 1, NULL), 1);
    server->fd = accept(server->listen_fd, NULL, NULL);
    assert_true(server->fd >= 0);
    while (!strstr(request, "END")) {
        assert_int_equal(bailey_step(server->engine, 1, NULL), 1);
        if (is_readable(server->fd, 0)) {
            ssize_t count =
                recv(server->fd, request + length, sizeof(request) - 1 - length, MSG_DONTWAIT);

            assert_true(count > 0);
            length += (size_t)count;
        }
    }
}

static void end(struct server *server)
{
    bailey_job_free(server->job);
    bailey_spec_free(server->spec);
    bailey_close(server->engine);
    close(server->fd);
    close(server->listen_fd);
}

static bool has_ended(const struct server *server)
{
    char byte;

    return is_readable(server->fd, 0) && recv(server->fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

/* ---- connections ---- */

static void test_a_connection_is_not_inherited_by_programs(void **state)
{
    struct server server;
    int found = 0;

    (void)state;
    begin(&server, NULL, NULL);
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in peer;
        socklen_t length = sizeof(peer);

        if (getpeername(fd, (struct sockaddr *)&peer, &length) == 0 && peer.sin_family == AF_INET &&
            peer.sin_port == server.address.sin_port) {
            found++;
            assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        }
    }
    assert_int_equal(found, 1);
    end(&server);
}

static void test_a_freed_job_has_no_connection(void **state)
{
    struct server server;

    (void)state;
    begin(&server, NULL, NULL);
    assert_false(has_ended(&server));
    bailey_job_free(server.job);
    server.job = NULL;
    assert_true(has_ended(&server));
    end(&server);
}

static void test_a_cancelled_job_has_no_connection(void **state)
{
    struct server server;
    struct bailey_error err = {0};

    (void)state;
    begin(&server, NULL, NULL);
    bailey_job_cancel(server.job);
    assert_true(has_ended(&server));
    assert_int_equal(bailey_job_wait(server.job, NULL, &err), -ECANCELED);
    assert_string_equal(err.code, "cancelled");
    end(&server);
}

static void test_closing_leaves_libcurl_to_the_rest_of_the_process(void **state)
{
    bailey_engine *engine = NULL;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(bailey_open(&engine, "http://127.0.0.1:1", NULL, NULL), 0);
        bailey_close(engine);
    }
    assert_int_equal(cleanups, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_connection_is_not_inherited_by_programs),
        cmocka_unit_test(test_a_freed_job_has_no_connection),
        cmocka_unit_test(test_a_cancelled_job_has_no_connection),
        cmocka_unit_test(test_closing_leaves_libcurl_to_the_rest_of_the_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
