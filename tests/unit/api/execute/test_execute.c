/*
 * test_door.c - POST /execute, outputs by id, /docs: the doors over a socket, with an engine whose
 * boxes are real wardens without walls.
 */
#include "session/engine_fixture.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "api/doors.h"
#include "api/front/door.h"
#include "base/cleanup.h"

struct place {
    void *fixture;
    struct front *front;
    int listen_fd;
    struct sockaddr_un address;
    char head[4096]; /* of the last reply */
    struct buf body;
};

static int open_place(void **state)
{
    struct place *place = calloc(1, sizeof(*place));
    struct front_info info = {0};
    struct door_list doors;
    struct error err = {0};
    struct engine_fixture *fixture;

    assert_non_null(place);
    fixture_open(&place->fixture);
    fixture = place->fixture;
    place->body.maximum = 64 * MIB;
    place->address.sun_family = AF_UNIX;
    snprintf(place->address.sun_path, sizeof(place->address.sun_path), "%s",
             scratch_path(&fixture->scratch, "door.sock"));
    place->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(
        bind(place->listen_fd, (struct sockaddr *)&place->address, sizeof(place->address)), 0);
    assert_int_equal(listen(place->listen_fd, 16), 0);
    doors_list(&doors);
    if (front_serve(&fixture->loop.reactor, fixture->manager, place->listen_fd, &info, &doors,
                    &place->front, &err) < 0)
        fail_msg("%s", err.text);
    *state = place;
    return 0;
}

static int close_place(void **state)
{
    struct place *place = *state;

    front_stop(place->front);
    close(place->listen_fd);
    buf_free(&place->body);
    fixture_close(&place->fixture);
    free(place);
    return 0;
}

/* Reads what is there; true: the other side has closed. */
static bool read_some(int fd, struct buf *text)
{
    char data[65536];
    ssize_t count;

    while ((count = recv(fd, data, sizeof(data), MSG_DONTWAIT)) > 0)
        assert_int_equal(buf_append(text, data, (size_t)count), 0);
    return count == 0;
}

/* One request; the status. Head and body of the reply are in the place. */
static unsigned ask(struct place *place, const char *method, const char *path, const char *headers,
                    const char *body)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * MIB);
    CLEANUP(buf_free) struct buf reply = BUF_INIT(64 * MIB);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const char *end;
    unsigned status;

    assert_int_equal(connect(fd, (struct sockaddr *)&place->address, sizeof(place->address)), 0);
    buf_printf(&text, "%s %s HTTP/1.1\r\nHost: bailey\r\nConnection: close\r\n%s", method, path,
               headers);
    if (body)
        buf_printf(&text, "Content-Length: %zu\r\n", strlen(body));
    buf_printf(&text, "\r\n%s", body ? body : "");
    assert_int_equal(send(fd, buf_text(&text), text.length, 0), (ssize_t)text.length);
    UNTIL((struct engine_fixture *)place->fixture, read_some(fd, &reply));
    close(fd);
    end = strstr(buf_text(&reply), "\r\n\r\n");
    assert_non_null(end);
    snprintf(place->head, sizeof(place->head), "%.*s\r\n", (int)(end - buf_text(&reply)),
             buf_text(&reply));
    buf_clear(&place->body);
    end += 4;
    buf_append(&place->body, end, reply.length - (size_t)(end - buf_text(&reply)));
    assert_int_equal(sscanf(place->head, "HTTP/1.1 %u", &status), 1);
    return status;
}

static json_t *json_of(struct place *place)
{
    json_t *json = json_loadb(buf_text(&place->body), place->body.length, 0, NULL);

    if (!json)
        fail_msg("not JSON: %s %s", place->head, buf_text(&place->body));
    return json;
}

static json_t *execute(struct place *place, const char *body)
{
    unsigned status = ask(place, "POST", "/execute", "", body);

    if (status != 200)
        fail_msg("%u: %s", status, buf_text(&place->body));
    return json_of(place);
}

static const char *text_of(json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    if (!text)
        fail_msg("no '%s'", name);
    return text;
}

static void check_error(struct place *place, unsigned status, const char *body)
{
    unsigned got = ask(place, "POST", "/execute", "", body);
    json_t *json = json_of(place);

    if (got != status)
        fail_msg("%s: %u %s", body, got, buf_text(&place->body));
    assert_int_equal(json_object_size(json), 2);
    assert_true(json_is_string(json_object_get(json, "error")));
    assert_true(json_is_string(json_object_get(json, "code")));
    json_decref(json);
}

static void test_execute(void **state)
{
    struct place *place = *state;
    json_t *got = execute(place, "{\"code\":\"import os\\nprint(open('in.txt').read(), "
                                 "os.environ['OUTPUT_DIR'])\\nos.makedirs('../tmp/output', "
                                 "exist_ok=True)\\nopen('../tmp/output/o.txt','w').write('out')\","
                                 "\"files\":{\"a/in.txt\":\"aGFsbG8=\"}}");
    json_t *files = json_object_get(got, "files_produced");

    assert_string_equal(text_of(got, "stdout"), "hallo /tmp/output\n");
    assert_string_equal(text_of(got, "stderr"), "");
    assert_string_equal(text_of(got, "status"), "success");
    assert_string_equal(text_of(got, "language"), "python");
    assert_int_equal(json_integer_value(json_object_get(got, "exit_code")), 0);
    assert_true(json_is_integer(json_object_get(got, "execution_time_ms")));
    assert_true(json_is_false(json_object_get(got, "truncated")));
    assert_true(json_is_object(json_object_get(got, "meta")));
    assert_string_equal(text_of(files, "o.txt"), "b3V0");
    json_decref(got);
}

static void test_ends(void **state)
{
    struct place *place = *state;
    json_t *got = execute(place, "{\"code\":\"exit 3\",\"language\":\"shell\"}");

    assert_int_equal(json_integer_value(json_object_get(got, "exit_code")), 3);
    assert_string_equal(text_of(got, "status"), "error");
    assert_null(json_object_get(got, "files_produced"));
    json_decref(got);
    got = execute(place, "{\"code\":\"echo a; exec sleep 1000\",\"language\":\"bash\","
                         "\"timeout_seconds\":1}");
    assert_int_equal(json_integer_value(json_object_get(got, "exit_code")), -1);
    assert_string_equal(text_of(got, "stdout"), "a\n");
    assert_non_null(strstr(text_of(got, "stderr"), "timed out after 1 s"));
    json_decref(got);
    got = execute(place, "{\"code\":\"echo mine >&2; exec sleep 1000\",\"language\":\"bash\","
                         "\"timeout_seconds\":1}");
    assert_string_equal(text_of(got, "stderr"), "mine\n");
    json_decref(got);
}

static void test_limits(void **state)
{
    struct place *place = *state;
    struct engine_fixture *fixture = place->fixture;
    json_t *got;

    fixture->config.execute_output_bytes = 4;
    got = execute(place, "{\"code\":\"echo 123456789\",\"language\":\"bash\"}");
    assert_true(json_is_true(json_object_get(got, "truncated")));
    json_decref(got);
    fixture->config.max_concurrent = 0;
    check_error(place, 429, "{\"code\":\"true\",\"language\":\"bash\"}");
    assert_non_null(strstr(place->head, "Retry-After: "));
}

static void test_errors(void **state)
{
    struct place *place = *state;

    check_error(place, 400, "{");
    check_error(place, 400, "{}");
    check_error(place, 400, "{\"code\":\"\"}");
    check_error(place, 400, "{\"code\":\"x\",\"files\":{\"a\":\"*\"}}");
    check_error(place, 400, "{\"code\":\"x\",\"requirements\":[\"../x\"]}");
    check_error(place, 400, "{\"code\":\"x\",\"requirements\":[\"x\"],\"language\":\"node\"}");
    assert_int_equal(ask(place, "GET", "/execute", "", NULL), 405);
    assert_non_null(strstr(place->head, "Allow: POST"));
    /* With E2B's header it is a request of the E2B door, whatever its path. */
    assert_int_equal(ask(place, "POST", "/execute", "E2b-Sandbox-Id: abc\r\n", "{\"code\":\"x\"}"),
                     502);
    assert_non_null(strstr(buf_text(&place->body), "\"The sandbox was not found\""));
    assert_int_equal(ask(place, "GET", "/v1/info", "E2b-Sandbox-Id: abc\r\n", NULL), 404);
    assert_int_equal(ask(place, "GET", "/nowhere", "E2b-Sandbox-Id: abc\r\n", NULL), 404);
}

static void test_health(void **state)
{
    struct place *place = *state;
    json_t *got;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(ask(place, "GET", "/health", "", NULL), 200);
        got = json_of(place);
        assert_string_equal(text_of(got, "status"), "healthy");
        assert_string_equal(text_of(got, "mode"), "python");
        assert_int_equal(strncmp(text_of(got, "runtime_version"), "Python 3.", 9), 0);
        assert_int_equal(json_integer_value(json_object_get(got, "capacity")), 16);
        assert_int_equal(json_integer_value(json_object_get(got, "current_load")), 0);
        json_decref(got);
    }
}

static void test_docs(void **state)
{
    struct place *place = *state;
    json_t *got;

    assert_int_equal(ask(place, "GET", "/docs", "", NULL), 200);
    assert_non_null(strstr(place->head, "Content-Security-Policy: default-src 'none'; script-src "
                                        "'sha256-"));
    assert_null(strstr(place->head, "'sha256-'"));
    assert_null(strstr(place->head, "unsafe"));
    assert_null(strstr(buf_text(&place->body), "http:"));
    assert_null(strstr(buf_text(&place->body), "https:"));
    assert_int_equal(ask(place, "GET", "/openapi.json", "", NULL), 200);
    got = json_of(place);
    assert_non_null(json_object_get(json_object_get(got, "paths"), "/execute"));
    assert_non_null(json_object_get(json_object_get(got, "paths"), "/health"));
    json_decref(got);
}

/* A session with one output; its id in the store. */
static void make_output(struct place *place, char session[64], char id[64])
{
    char path[200];
    json_t *json;

    assert_int_equal(ask(place, "POST", "/v1/sessions", "", "{}"), 201);
    json = json_of(place);
    snprintf(session, 64, "%s", text_of(json, "id"));
    json_decref(json);
    snprintf(path, sizeof(path), "/v1/sessions/%s/exec", session);
    assert_int_equal(ask(place, "POST", path, "",
                         "{\"argv\":[\"sh\",\"-c\",\"cd ../tmp; mkdir -p output; printf "
                         "0123456789 >output/a.png\"]}"),
                     200);
    snprintf(path, sizeof(path), "/v1/sessions/%s/outputs", session);
    assert_int_equal(ask(place, "GET", path, "", NULL), 200);
    json = json_of(place);
    snprintf(id, 64, "%s", text_of(json_array_get(json_object_get(json, "outputs"), 0), "id"));
    assert_string_equal(text_of(json_array_get(json_object_get(json, "outputs"), 0), "mime"),
                        "text/plain");
    json_decref(json);
}

static void test_artifacts(void **state)
{
    struct place *place = *state;
    char session[64], id[64], path[200];

    make_output(place, session, id);
    snprintf(path, sizeof(path), "/v1/artifacts/%s", id);
    assert_int_equal(ask(place, "GET", path, "", NULL), 200);
    assert_string_equal(buf_text(&place->body), "0123456789");
    assert_non_null(strstr(place->head, "Content-Type: text/plain"));
    assert_non_null(strstr(place->head, "Content-Disposition: attachment; filename=\"a.png\""));
    assert_non_null(strstr(place->head, "X-Content-Type-Options: nosniff"));
    assert_non_null(strstr(place->head, "Content-Security-Policy: default-src 'none'; sandbox"));
    assert_int_equal(ask(place, "GET", path, "Range: bytes=2-4\r\n", NULL), 206);
    assert_string_equal(buf_text(&place->body), "234");
    assert_non_null(strstr(place->head, "Content-Range: bytes 2-4/10"));
    assert_int_equal(ask(place, "GET", path, "Range: bytes=10-\r\n", NULL), 416);
    assert_non_null(strstr(place->head, "Content-Range: bytes */10"));
    assert_int_equal(ask(place, "HEAD", path, "", NULL), 200);
    assert_int_equal(place->body.length, 0);
    assert_int_equal(ask(place, "GET", path, "If-None-Match: *\r\n", NULL), 304);
    snprintf(path, sizeof(path), "/v1/artifacts/%s/info", id);
    assert_int_equal(ask(place, "GET", path, "", NULL), 200);
    /* It goes with its session. */
    snprintf(path, sizeof(path), "/v1/sessions/%s", session);
    assert_int_equal(ask(place, "DELETE", path, "", NULL), 200);
    snprintf(path, sizeof(path), "/v1/artifacts/%s", id);
    assert_int_equal(ask(place, "GET", path, "", NULL), 404);
}

static void test_links(void **state)
{
    struct place *place = *state;
    char session[64], id[64], path[400];
    json_t *json;

    make_output(place, session, id);
    snprintf(path, sizeof(path), "/v1/artifacts/%s/link", id);
    assert_int_equal(ask(place, "POST", path, "", "{}"), 201);
    json = json_of(place);
    snprintf(path, sizeof(path), "%s", text_of(json, "url"));
    json_decref(json);
    assert_int_equal(ask(place, "GET", path, "", NULL), 200);
    assert_string_equal(buf_text(&place->body), "0123456789");
    path[strlen(path) - 1] = path[strlen(path) - 1] == '0' ? '1' : '0';
    assert_int_equal(ask(place, "GET", path, "", NULL), 403);
    assert_non_null(strstr(buf_text(&place->body), "\"link_expired\""));
    /* Kept beyond its session, until somebody removes it. */
    snprintf(path, sizeof(path), "/v1/artifacts/%s/keep", id);
    assert_int_equal(ask(place, "POST", path, "", "{}"), 200);
    snprintf(path, sizeof(path), "/v1/sessions/%s", session);
    assert_int_equal(ask(place, "DELETE", path, "", NULL), 200);
    snprintf(path, sizeof(path), "/v1/artifacts/%s", id);
    assert_int_equal(ask(place, "GET", path, "", NULL), 200);
    assert_int_equal(ask(place, "DELETE", path, "", NULL), 200);
    assert_int_equal(ask(place, "GET", path, "", NULL), 404);
}

#define IN_A_PLACE(test) cmocka_unit_test_setup_teardown(test, open_place, close_place)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        IN_A_PLACE(test_execute), IN_A_PLACE(test_ends),      IN_A_PLACE(test_limits),
        IN_A_PLACE(test_errors),  IN_A_PLACE(test_health),    IN_A_PLACE(test_docs),
        IN_A_PLACE(test_links),   IN_A_PLACE(test_artifacts),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
