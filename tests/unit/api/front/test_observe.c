/*
 * test_observe.c - the REST door over a socket, with an engine at work: ids and traces of requests,
 * GET /metrics, GET /v1/audit, and no secret in what is said.
 */
#include "session/engine_fixture.h"

#include <sys/un.h>

#include "api/doors.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "observe/audit.h"
#include "observe/metrics.h"

#define TRACE "4bf92f3577b34da6a3ce929d0e0e4736"

static struct front *front;
static int listen_fd = -1;
static struct sockaddr_un address;

static int set_up(void **state)
{
    static const struct front_info info = {.generation = 1};
    struct door_list doors;
    struct error err = {0};
    struct engine_fixture *fixture;

    fixture_open(state);
    fixture = *state;
    fixture->manager->spec.metrics = metrics_new();
    fixture->manager->spec.audit = audit_open(fixture->folder_fd[4]);
    address = (struct sockaddr_un){.sun_family = AF_UNIX};
    str_copy(address.sun_path, sizeof(address.sun_path), scratch_path(&fixture->scratch, "socket"));
    listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listen_fd, 10), 0);
    doors_list(&doors);
    if (front_serve(&fixture->loop.reactor, fixture->manager, listen_fd, &info, &doors, &front,
                    &err) < 0)
        fail_msg("%s", err.text);
    return 0;
}

static int tear_down(void **state)
{
    struct engine_fixture *fixture = *state;

    front_stop(front);
    close(listen_fd);
    metrics_free(fixture->manager->spec.metrics);
    audit_close(fixture->manager->spec.audit);
    fixture->manager->spec.metrics = NULL;
    fixture->manager->spec.audit = NULL;
    return fixture_close(state);
}

/* The whole reply, read while the loop turns. */
static const char *ask(struct engine_fixture *fixture, const char *method, const char *path,
                       const char *headers, const char *body)
{
    static char reply[1 << 20];
    CLEANUP(buf_free) struct buf text = BUF_INIT(1 << 20);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    size_t length = 0;
    ssize_t count = -1;

    buf_printf(&text,
               "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
               method, path, headers, strlen(body), body);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(write(fd, text.data, text.length), text.length);
    UNTIL(fixture, (count = read(fd, reply + length, sizeof(reply) - 1 - length)) == 0 ||
                       (count > 0 && (length += (size_t)count, false)));
    reply[length] = '\0';
    close(fd);
    return reply;
}

static bool has(const char *text, const char *what)
{
    return strstr(text, what) != NULL;
}

static void run(struct engine_fixture *fixture, const char *headers, const char *body)
{
    const char *reply = ask(fixture, "POST", "/v1/run", headers, body);

    if (!has(reply, "HTTP/1.1 200"))
        fail_msg("%s", reply);
}

static void test_ids_and_traces(void **state)
{
    struct engine_fixture *fixture = *state;
    const char *reply =
        ask(fixture, "POST", "/v1/run",
            "X-Request-Id: order-66\r\ntraceparent: 00-" TRACE "-00f067aa0ba902b7-01\r\n",
            "{\"language\":\"bash\",\"code\":\"echo 1\"}");

    assert_true(has(reply, "HTTP/1.1 200"));
    assert_true(has(reply, "\r\nX-Request-Id: order-66\r\n"));
    assert_true(has(reply, "\"trace_id\":\"" TRACE "\""));
    reply = ask(fixture, "GET", "/v1/audit?action=run", "", "");
    assert_true(has(reply, "\r\nContent-Type: application/x-ndjson\r\n"));
    assert_true(has(reply, "\"request_id\":\"order-66\""));
    assert_true(has(reply, "\"trace_id\":\"" TRACE "\""));
    assert_true(has(reply, "\"local\":true"));
    assert_true(has(reply, "\"tenant\":\"local\""));
    reply = ask(fixture, "POST", "/v1/run", "traceparent: 00-nonsense\r\n",
                "{\"language\":\"bash\",\"code\":\"echo 1\"}");
    assert_false(has(reply, "trace_id"));
    assert_true(has(reply, "\r\nX-Request-Id: req_"));
}

static void test_metrics(void **state)
{
    struct engine_fixture *fixture = *state;
    const char *reply;

    run(fixture, "", "{\"language\":\"bash\",\"code\":\"echo 1\"}");
    run(fixture, "", "{\"language\":\"bash\",\"code\":\"exit 3\"}");
    ask(fixture, "GET", "/nowhere", "", "");
    fixture_session(fixture, "one");
    reply = ask(fixture, "GET", "/metrics", "", "");
    assert_true(has(reply, "HTTP/1.1 200"));
    assert_true(has(reply, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    assert_true(
        has(reply, "bailey_results_total{kind=\"run\",result=\"ok\",tenant=\"local\"} 1\n"));
    assert_true(
        has(reply, "bailey_results_total{kind=\"run\",result=\"error\",tenant=\"local\"} 1\n"));
    assert_true(has(reply, "bailey_http_requests_total{door=\"rest\",status=\"2xx\"} 2\n"));
    assert_true(has(reply, "bailey_http_requests_total{door=\"other\",status=\"4xx\"} 1\n"));
    assert_true(has(reply, "bailey_http_request_seconds_count{door=\"rest\"} 2\n"));
    assert_true(has(reply, "bailey_sessions{tenant=\"local\"} 1\n"));
    assert_true(has(reply, "bailey_http_connections 1\n"));
    assert_true(has(reply, "bailey_broker_generation 1\n"));
    assert_true(has(reply, "bailey_pool_boxes{state=\"ready\"} 0\n"));
}

static void test_files_and_refusals(void **state)
{
    struct engine_fixture *fixture = *state;
    const char *id = session_id(fixture_session(fixture, "one")), *reply;
    char path[200];

    str_format(path, sizeof(path), "/v1/sessions/%s/files?path=/workspace/a", id);
    assert_true(has(ask(fixture, "PUT", path, "", "12345"), "HTTP/1.1 200"));
    assert_true(has(ask(fixture, "GET", path, "", ""), "12345"));
    fixture->config.max_sessions = 1;
    reply = ask(fixture, "POST", "/v1/sessions", "X-Request-Id: one-too-many\r\n", "{}");
    assert_true(has(reply, "HTTP/1.1 429"));
    reply = ask(fixture, "GET", "/metrics", "", "");
    assert_true(has(reply, "bailey_file_bytes_total{direction=\"in\"} 5\n"));
    assert_true(has(reply, "bailey_file_bytes_total{direction=\"out\"} 5\n"));
    str_format(path, sizeof(path), "/v1/audit?session=%s&action=file", id);
    reply = ask(fixture, "GET", path, "", "");
    assert_true(has(reply, "\"path\":\"/workspace/a\""));
    assert_true(has(reply, "\"change\":\"written\""));
    assert_true(has(reply, "\"bytes\":5"));
    reply = ask(fixture, "GET", "/v1/audit?action=denied", "", "");
    assert_true(has(reply, "\"error\":\"too_many_sessions\""));
    assert_true(has(reply, "\"request_id\":\"one-too-many\""));
    assert_true(has(ask(fixture, "GET", "/v1/audit?since=yesterday", "", ""), "HTTP/1.1 400"));
    assert_true(has(ask(fixture, "GET", "/v1/audit?since=2026-1", "", ""), "HTTP/1.1 400"));
    reply = ask(fixture, "GET", "/v1/audit?since=2999-01-01T00:00:00Z", "", "");
    assert_true(has(reply, "HTTP/1.1 200") && !has(reply, "\"seq\""));
    reply = ask(fixture, "GET", "/v1/audit?tail=1", "", "");
    assert_true(has(reply, "\"action\":\"denied\"") && !has(reply, "\"action\":\"file\""));
}

/* What the daemon says at its loudest, and what it records where code is not kept. */
static void test_no_secret_is_said(void **state)
{
    static const char *const secrets[] = {"planted-bearer", "planted-key", "planted-query",
                                          "planted-code",   "planted-env", "planted-stdin",
                                          "planted-output"};
    static char said[1 << 18], told[1 << 18];
    struct engine_fixture *fixture = *state;

    fixture->config.store_code = STORE_NEVER;
    for (int is_json = 0; is_json < 2; is_json++) {
        const char *path = scratch_path(&fixture->scratch, is_json ? "json.log" : "text.log");
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        int saved = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);

        dup2(fd, STDERR_FILENO);
        log_set_level(LOG_DEBUG);
        log_set_json(is_json);
        run(fixture, "Authorization: Bearer planted-bearer\r\nX-API-Key: planted-key\r\n",
            "{\"language\":\"bash\",\"code\":\"echo planted-output # planted-code\\nexit 3\","
            "\"env\":{\"A\":\"planted-env\"},\"stdin\":\"planted-stdin\"}");
        ask(fixture, "GET", "/nowhere?signature=planted-query", "X-API-Key: planted-key\r\n", "");
        log_set_level(LOG_WARNING);
        log_set_json(false);
        dup2(saved, STDERR_FILENO);
        close(saved);
        close(fd);
        assert_true(scratch_read(path, said, sizeof(said)));
        assert_true(has(said, "/nowhere"));
        assert_int_equal(has(said, "\"status\":404"), is_json);
        assert_true(
            scratch_read(scratch_path(&fixture->scratch, "logs/audit.jsonl"), told, sizeof(told)));
        assert_true(has(told, "\"action\":\"run\""));
        for (size_t i = 0; i < ARRAY_SIZE(secrets); i++) {
            if (has(said, secrets[i]) || has(told, secrets[i]))
                fail_msg("'%s' is said", secrets[i]);
        }
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_ids_and_traces),
        TEST(test_metrics),
        TEST(test_files_and_refusals),
        TEST(test_no_secret_is_said),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
