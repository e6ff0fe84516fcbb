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

#define PATIENCE_S 60

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

/* ---- loops and callbacks ---- */

static void test_a_step_without_a_job_waits_for_nothing(void **state)
{
    bailey_engine *engine = NULL;

    (void)state;
    assert_int_equal(bailey_open(&engine, "http://127.0.0.1:1", NULL, NULL), 0);
    alarm(PATIENCE_S); /* else it would never return */
    assert_int_equal(bailey_step(engine, -1, NULL), 0);
    alarm(0);
    bailey_close(engine);
}

struct inside {
    struct server server;
    struct bailey_error errs[2];
    int called;
};

static void wait_inside(void *ctx, int stream, const void *data, size_t length)
{
    struct inside *inside = ctx;
    bailey_result *result = NULL;

    (void)data;
    assert_int_equal(stream, 1);
    assert_int_equal(length, 1);
    inside->called++;
    assert_int_equal(bailey_run_code(inside->server.engine, NULL, "1", &result, &inside->errs[0]),
                     -EDEADLK);
    assert_int_equal(bailey_step(inside->server.engine, -1, &inside->errs[1]), -EDEADLK);
    bailey_job_cancel(inside->server.job);
}

static void test_a_callback_that_waits_is_told_so_and_may_cancel(void **state)
{
    static const char reply[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                                "event: stdout\ndata: {\"data\":\"x\"}\n\n";
    struct inside inside = {0};

    (void)state;
    begin(&inside.server, wait_inside, &inside);
    assert_int_equal(send(inside.server.fd, reply, sizeof(reply) - 1, MSG_NOSIGNAL),
                     sizeof(reply) - 1);
    assert_int_equal(bailey_job_wait(inside.server.job, NULL, NULL), -ECANCELED);
    assert_int_equal(inside.called, 1);
    for (int i = 0; i < 2; i++)
        assert_non_null(strstr(inside.errs[i].text, "a callback of this engine cannot wait"));
    end(&inside.server);
}

/* ---- servers that fail ---- */

/* What the job fails with when the server sends this and closes. */
static void check_failure(const char *reply, int number, const char *code, const char *text)
{
    struct server server;
    struct bailey_error err = {0};
    bailey_result *result = NULL;

    begin(&server, NULL, NULL);
    assert_int_equal(send(server.fd, reply, strlen(reply), MSG_NOSIGNAL), strlen(reply));
    close(server.fd);
    assert_int_equal(bailey_job_wait(server.job, NULL, &err), number);
    assert_string_equal(err.code, code);
    assert_non_null(strstr(err.text, text));
    close(server.listen_fd);
    assert_int_equal(bailey_run_code(server.engine, NULL, "1", &result, &err), -ECONNREFUSED);
    assert_string_equal(err.code, "no_daemon");
    assert_non_null(strstr(err.text, server.url));
    server.fd = server.listen_fd = -1;
    end(&server);
}

static void test_a_server_that_fails_is_named_with_what_to_do(void **state)
{
    (void)state;
    check_failure("HTTP/1.1 ", -ECONNRESET, "engine", "may have ended");
    check_failure("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", -ECONNRESET, "engine",
                  "127.0.0.1");
    check_failure("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", -EPROTO, "engine",
                  "is this the address of a Bailey server?");
    check_failure("HTTP/1.1 502 Bad\r\nContent-Length: 6\r\n\r\n<html>", -EIO, "engine",
                  "is this the address of a Bailey server?");
    check_failure("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", -EPIPE, "box_lost",
                  "before the result");
}

/* ---- arguments ---- */

static void check_refused(int r, struct bailey_error *err, const char *what)
{
    assert_int_equal(r, -EINVAL);
    assert_int_equal(err->number, -EINVAL);
    assert_string_equal(err->code, "bad_input");
    if (strncmp(err->text, what, strlen(what)) != 0)
        fail_msg("'%s' instead of '%s'", err->text, what);
    *err = (struct bailey_error){0};
}

static void test_an_argument_that_is_null_is_named(void **state)
{
    bailey_engine *engine = NULL;
    bailey_job *job = NULL;
    bailey_sandbox *sandbox = NULL;
    bailey_spec *spec = bailey_spec_new();
    struct bailey_error err = {0};
    char *data = NULL;

    (void)state;
    assert_int_equal(bailey_open(&engine, "http://127.0.0.1:1", NULL, NULL), 0);
    check_refused(bailey_open(NULL, NULL, NULL, &err), &err, "ret is NULL");
    check_refused(bailey_open_local(NULL, &err), &err, "ret is NULL");
    check_refused(bailey_run(NULL, spec, NULL, &err), &err, "the engine is NULL");
    check_refused(bailey_run(engine, NULL, NULL, &err), &err, "the description is NULL");
    check_refused(bailey_run_code(NULL, NULL, "1", NULL, &err), &err, "the engine is NULL");
    check_refused(bailey_run_code(engine, NULL, NULL, NULL, &err), &err, "code: ");
    check_refused(bailey_start(engine, spec, NULL, &err), &err, "ret is NULL");
    check_refused(bailey_job_wait(NULL, NULL, &err), &err, "the job is NULL");
    check_refused(bailey_step(NULL, 0, &err), &err, "the engine is NULL");
    check_refused(bailey_call(NULL, "GET", "/", NULL, NULL, NULL, &err), &err, "the engine is");
    check_refused(bailey_call(engine, NULL, "/", NULL, NULL, NULL, &err), &err, "the method is");
    check_refused(bailey_call(engine, "GET", NULL, NULL, NULL, NULL, &err), &err, "the path is");
    check_refused(bailey_sandbox_new(NULL, NULL, &sandbox, &err), &err, "the engine is NULL");
    check_refused(bailey_sandbox_connect(engine, NULL, &sandbox, &err), &err, "the sandbox's id");
    check_refused(bailey_sandbox_connect(engine, "", &sandbox, &err), &err, "the sandbox's id");
    check_refused(bailey_sandbox_start(NULL, spec, &job, &err), &err, "the sandbox is NULL");
    check_refused(bailey_sandbox_run_code(NULL, NULL, "1", NULL, &err), &err, "the sandbox is");
    check_refused(bailey_sandbox_write(NULL, "a", "", 0, &err), &err, "the sandbox is NULL");
    check_refused(bailey_sandbox_read(NULL, "a", &data, NULL, &err), &err, "the sandbox is NULL");
    assert_int_equal(bailey_sandbox_end(NULL, NULL), 0);
    assert_null(bailey_sandbox_id(NULL));
    assert_int_equal(bailey_fd(NULL), -EINVAL);
    bailey_job_cancel(NULL);
    bailey_spec_free(spec);
    bailey_close(engine);
}

static void test_a_description_that_is_null_takes_nothing(void **state)
{
    const char *const argv[] = {"a", NULL};

    (void)state;
    assert_int_equal(bailey_spec_code(NULL, NULL, "1", 1), -ENOMEM);
    assert_int_equal(bailey_spec_program(NULL, argv), -ENOMEM);
    assert_int_equal(bailey_spec_argument(NULL, "a"), -ENOMEM);
    assert_int_equal(bailey_spec_env(NULL, "A", "b"), -ENOMEM);
    assert_int_equal(bailey_spec_stdin(NULL, "a", 1), -ENOMEM);
    assert_int_equal(bailey_spec_set(NULL, "memory", "1g"), -ENOMEM);
    assert_int_equal(bailey_spec_file(NULL, "a", NULL), -ENOMEM);
    assert_int_equal(bailey_spec_out(NULL, "a"), -ENOMEM);
    bailey_spec_on_output(NULL, NULL, NULL);
}

/* ---- results and errors ---- */

static void test_a_result_that_is_null_says_nothing(void **state)
{
    size_t length = 7;

    (void)state;
    assert_string_equal(bailey_result_stdout(NULL, &length), "");
    assert_int_equal(length, 0);
    assert_string_equal(bailey_result_stderr(NULL, NULL), "");
    assert_int_equal(bailey_result_exit_code(NULL), -1);
    assert_true(bailey_result_seconds(NULL) == 0);
    assert_int_equal(bailey_result_timed_out(NULL), 0);
    assert_null(bailey_result_text(NULL));
    assert_string_equal(bailey_result_json(NULL), "{}");
    assert_null(bailey_job_result(NULL));
}

static void test_the_text_is_the_last_expressions_value_else_what_was_shown_last(void **state)
{
    static const char *const rows[][2] = {
        {"[{\"type\":\"result\",\"data\":{\"text/plain\":\"42\"}},"
         "{\"type\":\"display\",\"data\":{\"text/plain\":\"a figure\"}}]",
         "42"},
        {"[{\"type\":\"display\",\"data\":{\"text/plain\":\"one\"}},"
         "{\"type\":\"display\",\"data\":{\"text/plain\":\"two\"}}]",
         "two"},
    };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct bailey_result *result =
            result_take(json_pack("{s:o}", "results", json_loads(rows[i][0], 0, NULL)));

        assert_string_equal(bailey_result_text(result), rows[i][1]);
        bailey_result_free(result);
    }
}

static void test_less_than_a_second_until_a_retry_is_one(void **state)
{
    static const struct {
        double seconds;
        unsigned retry_s;
    } rows[] = {{0.25, 1}, {2, 2}, {2.5, 3}, {1e300, 86400 * 365}, {-1, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        json_t *json = json_pack("{s:f}", "retry_after_s", rows[i].seconds);
        struct bailey_error err;

        errors_of_json(&err, 429, 0, json);
        assert_int_equal(err.retry_s, rows[i].retry_s);
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_connection_is_not_inherited_by_programs),
        cmocka_unit_test(test_a_freed_job_has_no_connection),
        cmocka_unit_test(test_a_cancelled_job_has_no_connection),
        cmocka_unit_test(test_closing_leaves_libcurl_to_the_rest_of_the_process),
        cmocka_unit_test(test_a_step_without_a_job_waits_for_nothing),
        cmocka_unit_test(test_a_callback_that_waits_is_told_so_and_may_cancel),
        cmocka_unit_test(test_a_server_that_fails_is_named_with_what_to_do),
        cmocka_unit_test(test_an_argument_that_is_null_is_named),
        cmocka_unit_test(test_a_description_that_is_null_takes_nothing),
        cmocka_unit_test(test_a_result_that_is_null_says_nothing),
        cmocka_unit_test(test_the_text_is_the_last_expressions_value_else_what_was_shown_last),
        cmocka_unit_test(test_less_than_a_second_until_a_retry_is_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
