/* test_tenants.c - the REST door over TCP: every row asks for a key with its scope; nothing of
 * another tenant is there; the shapes of 401, 403 and 429; keys made and removed. */
#include "session/engine_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "api/doors.h"
#include "api/front/door.h"
#include "base/cleanup.h"
#include "store/keys.h"

#define REPLY_MAX 65536
#define SCOPES_OF_USERS (SCOPE_ALL & ~(SCOPE_BIT(SCOPE_ADMIN) | SCOPE_BIT(SCOPE_OPERATOR)))

/* The door, and who calls it; one for each test. */
struct house {
    struct front *front;
    struct sockaddr_in address;
    int listen_fd;
    char operator[KEY_TEXT_MAX], one[KEY_TEXT_MAX], two[KEY_TEXT_MAX];
};
static struct house house;

struct reply {
    unsigned status;
    char head[4096];
    char body[REPLY_MAX];
    json_t *json; /* of the body; NULL: it is none */
};

static void make_key(struct engine_fixture *fixture, const char *tenant, uint32_t scopes,
                     char text[KEY_TEXT_MAX])
{
    struct key_row row = {.scopes = scopes};
    struct error err = {0};

    str_copy(row.tenant, sizeof(row.tenant), tenant);
    assert_int_equal(keys_add(fixture->index, &row, text, &err), 0);
}

static int set_up(void **state)
{
    static const struct front_info info = {.socket = "/socket", .state = "/state"};
    struct door_list doors;
    socklen_t length = sizeof(house.address);
    struct error err = {0};
    struct engine_fixture *fixture;

    fixture_open(state);
    fixture = *state;
    house = (struct house){
        .address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}};
    house.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(house.listen_fd, (struct sockaddr *)&house.address, length), 0);
    assert_int_equal(getsockname(house.listen_fd, (struct sockaddr *)&house.address, &length), 0);
    assert_int_equal(listen(house.listen_fd, 64), 0);
    doors_list(&doors);
    if (front_serve(&fixture->loop.reactor, fixture->manager, house.listen_fd, &info, &doors,
                    &house.front, &err) < 0)
        fail_msg("%s", err.text);
    make_key(fixture, "operator", SCOPE_BIT(SCOPE_OPERATOR), house.operator);
    make_key(fixture, "one", SCOPES_OF_USERS, house.one);
    make_key(fixture, "two", SCOPES_OF_USERS, house.two);
    return 0;
}

static int tear_down(void **state)
{
    front_stop(house.front);
    close(house.listen_fd);
    return fixture_close(state);
}

/* ---- a client that takes turns with the server ---- */

static void reply_free(struct reply *reply)
{
    json_decref(reply->json);
    free(reply);
}

static void send_all(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* key NULL: none. */
static struct reply *ask(struct engine_fixture *fixture, const char *key, const char *method,
                         const char *path, const char *body)
{
    struct reply *reply = calloc(1, sizeof(*reply));
    static char text[2 * REPLY_MAX];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t length = 0;
    bool is_over = false;
    char *end;

    assert_non_null(reply);
    assert_int_equal(connect(fd, (struct sockaddr *)&house.address, sizeof(house.address)), 0);
    snprintf(text, sizeof(text),
             "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s%s%s"
             "Content-Length: %zu\r\n\r\n%s",
             method, path, key ? "X-API-Key: " : "", key ? key : "", key ? "\r\n" : "",
             body ? strlen(body) : 0, body ? body : "");
    send_all(fd, text);
    for (uint64_t until = clock_now_ms() + PATIENCE_MS; !is_over;) {
        ssize_t count = recv(fd, text + length, sizeof(text) - 1 - length, MSG_DONTWAIT);

        assert_true(clock_now_ms() < until);
        if (count > 0)
            length += (size_t)count;
        is_over = count == 0;
        if (count < 0)
            poll_reactor_turn(&fixture->loop, 10);
    }
    close(fd);
    text[length] = '\0';
    assert_int_equal(sscanf(text, "HTTP/1.1 %u", &reply->status), 1);
    end = strstr(text, "\r\n\r\n");
    assert_non_null(end);
    str_format(reply->head, sizeof(reply->head), "%.*s", (int)(end - text), text);
    str_copy(reply->body, sizeof(reply->body), end + 4);
    reply->json = json_loads(reply->body, 0, NULL);
    return reply;
}

static const char *error_member(const struct reply *reply, const char *name)
{
    const char *text =
        json_string_value(json_object_get(json_object_get(reply->json, "error"), name));

    return text ? text : "";
}

static void assert_error(struct reply *reply, unsigned status, const char *code)
{
    if (reply->status != status || !str_equal(error_member(reply, "code"), code))
        fail_msg("%u %s instead of %u %s", reply->status, reply->body, status, code);
    reply_free(reply);
}

static void assert_status(struct reply *reply, unsigned status)
{
    if (reply->status != status)
        fail_msg("%u %s instead of %u", reply->status, reply->body, status);
    reply_free(reply);
}

/* "/v1/sessions/{id}/outputs/{name*}" with `id` and x for the others. */
static void fill_path(const char *pattern, const char *id, char *path, size_t size)
{
    size_t at = 0;

    for (; *pattern; pattern++) {
        const char *word = str_starts(pattern, "{id}") ? id : "x";

        if (*pattern != '{') {
            path[at++] = *pattern;
        } else {
            at += (size_t)snprintf(path + at, size - at, "%s", word);
            pattern = strchr(pattern, '}');
        }
        assert_true(at < size - 1);
    }
    path[at] = '\0';
}

/* ---- every row ---- */

/* Of the doors that answer errors as {"error":{...}}. */
static const struct door_route *rows[200];
static size_t row_count;

static int list_rows(void **state)
{
    struct door_list doors;

    doors_list(&doors);
    for (size_t i = 0; i < doors.count; i++)
        for (size_t k = 0; !doors.rows[i]->fail && k < doors.rows[i]->route_count; k++)
            rows[row_count++] = &doors.rows[i]->routes[k];
    assert_in_range(row_count, 60, ARRAY_SIZE(rows));
    return fixture_reaper(state);
}

static void test_every_row_needs_a_key(void **state)
{
    struct engine_fixture *fixture = *state;

    for (size_t i = 0; i < row_count; i++) {
        const struct door_route *row = rows[i];
        struct reply *reply;
        char path[300];

        if (row->is_open)
            continue;
        fill_path(row->path, "s_0000000000", path, sizeof(path));
        reply = ask(fixture, NULL, row->method, path, NULL);
        assert_non_null(strstr(reply->head, "WWW-Authenticate: Bearer"));
        assert_error(reply, 401, ERROR_UNAUTHORIZED);
    }
}

static void test_every_row_needs_its_scope(void **state)
{
    struct engine_fixture *fixture = *state;
    char keys[_SCOPE_MAX][KEY_TEXT_MAX];

    for (int scope = 0; scope < _SCOPE_MAX; scope++)
        make_key(fixture, "one",
                 SCOPE_ALL & ~SCOPE_BIT(scope) &
                     ~(scope == SCOPE_ADMIN ? SCOPE_BIT(SCOPE_OPERATOR) : 0),
                 keys[scope]);
    for (size_t i = 0; i < row_count; i++) {
        const struct door_route *row = rows[i];
        struct reply *reply;
        char path[300];

        if (row->is_open)
            continue;
        fill_path(row->path, "s_0000000000", path, sizeof(path));
        reply = ask(fixture, keys[row->scope], row->method, path, NULL);
        assert_non_null(strstr(error_member(reply, "message"), scope_name(row->scope)));
        assert_error(reply, 403, ERROR_FORBIDDEN);
    }
}

static void test_open_rows(void **state)
{
    assert_status(ask(*state, NULL, "GET", "/healthz", NULL), 200);
}

/* What a row wants before it looks for its session. */
static const struct {
    const char *name, *query, *body;
} wants[] = {
    {"extendSession", "", "{\"seconds\":1}"},
    {"exec", "", "{\"argv\":[\"true\"]}"},
    {"signalProcess", "", "{\"signal\":\"KILL\"}"},
    {"resizeTerminal", "", "{\"rows\":1,\"columns\":1}"},
    {"readFile", "?path=/tmp/x", NULL},
    {"writeFile", "?path=/tmp/x", NULL},
    {"deleteFile", "?path=/tmp/x", NULL},
    {"statFile", "?path=/tmp/x", NULL},
    {"listFiles", "?path=/tmp", NULL},
    {"watchFiles", "?path=/tmp", NULL},
    {"makeFolder", "", "{\"path\":\"/tmp/x\"}"},
    {"moveFile", "", "{\"from\":\"/tmp/x\",\"to\":\"/tmp/y\"}"},
    {"changeMode", "", "{\"path\":\"/tmp/x\",\"mode\":\"644\"}"},
    {"runCell", "", "{\"code\":\"1\"}"},
    {"runCodebox", "", "{\"code\":\"1\"}"},
    {"installPackages", "", "{\"packages\":[\"six\"]}"},
    {"linkPort", "", "{\"port\":3000}"},
};

static struct reply *ask_row(struct engine_fixture *fixture, const struct door_route *row,
                             const char *id)
{
    const char *query = "", *body = row->body == BODY_JSON ? "{}" : NULL;
    char path[400];

    for (size_t i = 0; i < ARRAY_SIZE(wants); i++) {
        if (!str_equal(wants[i].name, row->name))
            continue;
        query = wants[i].query;
        body = wants[i].body;
    }
    fill_path(row->path, id, path, sizeof(path));
    strncat(path, query, sizeof(path) - strlen(path) - 1);
    return ask(fixture, house.two, row->method, path, body);
}

/* The word that was asked for is in the text; all of the rest has to be the same. */
static void blank(char *text, const char *word)
{
    for (char *at = text; (at = strstr(at, word)); at++)
        memset(at, 'X', strlen(word));
}

static void test_another_tenants_session_is_not_there(void **state)
{
    struct engine_fixture *fixture = *state;
    static const char none[] = "s_ffffffffffffffffffffffffffffffff";
    struct session_spec spec = {.tenant = "one", .name = "work"};
    struct session *session;
    struct error err = {0};
    unsigned count = 0;

    assert_int_equal(session_manager_create(fixture->manager, &spec, &session, &err), 0);
    fixture_ran(fixture, session, "true", NULL);
    for (size_t i = 0; i < row_count; i++) {
        const struct door_route *row = rows[i];
        struct reply *theirs, *nothing;

        if (!strstr(row->path, "/sessions/{id}"))
            continue;
        count++;
        theirs = ask_row(fixture, row, session_id(session));
        nothing = ask_row(fixture, row, none);
        blank(theirs->body, session_id(session));
        blank(nothing->body, none);
        if (theirs->status != 404 || !str_equal(theirs->body, nothing->body))
            fail_msg("%s: %u %s and %u %s", row->name, theirs->status, theirs->body,
                     nothing->status, nothing->body);
        assert_int_equal(strlen(theirs->head), strlen(nothing->head));
        reply_free(nothing);
        assert_error(theirs, 404, ERROR_SESSION_NOT_FOUND);
        assert_error(ask_row(fixture, row, "work"), 404, ERROR_SESSION_NOT_FOUND);
    }
    assert_true(count > 30);
    assert_int_equal(session_state(session), SESSION_READY);
}

static void test_lists_and_counts(void **state)
{
    struct engine_fixture *fixture = *state;
    struct reply *reply = ask(fixture, house.one, "POST", "/v1/sessions", "{\"name\":\"work\"}");

    assert_string_equal(json_string_value(json_object_get(reply->json, "tenant")), "one");
    assert_status(reply, 201);
    reply = ask(fixture, house.two, "GET", "/v1/sessions?all=true", NULL);
    assert_int_equal(json_array_size(json_object_get(reply->json, "sessions")), 0);
    assert_status(reply, 200);
    reply = ask(fixture, house.one, "GET", "/v1/sessions", NULL);
    assert_int_equal(json_array_size(json_object_get(reply->json, "sessions")), 1);
    assert_status(reply, 200);
    reply = ask(fixture, house.two, "GET", "/v1/info", NULL);
    assert_int_equal(json_integer_value(json_object_get(reply->json, "sessions")), 0);
    assert_true(json_is_null(json_object_get(reply->json, "state")));
    assert_status(reply, 200);
    reply = ask(fixture, house.one, "GET", "/v1/info", NULL);
    assert_int_equal(json_integer_value(json_object_get(reply->json, "sessions")), 1);
    assert_status(reply, 200);
    /* A name is a tenant's own. */
    assert_error(ask(fixture, house.one, "POST", "/v1/sessions", "{\"name\":\"work\"}"), 409,
                 ERROR_NAME_TAKEN);
    assert_status(ask(fixture, house.two, "POST", "/v1/sessions", "{\"name\":\"work\"}"), 201);
}

static void test_tools(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session_spec spec = {.tenant = "one"};
    struct session *session;
    struct error err = {0};
    struct reply *reply;
    char body[200];

    assert_int_equal(session_manager_create(fixture->manager, &spec, &session, &err), 0);
    snprintf(body, sizeof(body), "{\"command\":[\"true\"],\"session\":\"%s\"}",
             session_id(session));
    reply = ask(fixture, house.two, "POST", "/v1/tools/sandbox_exec", body);
    assert_string_equal(json_string_value(json_object_get(reply->json, "code")),
                        ERROR_SESSION_NOT_FOUND);
    assert_status(reply, 200);
    snprintf(body, sizeof(body), "{\"execution_id\":\"%s.1\"}", session_id(session));
    reply = ask(fixture, house.two, "POST", "/v1/tools/sandbox_wait", body);
    assert_string_equal(json_string_value(json_object_get(reply->json, "code")),
                        ERROR_SESSION_NOT_FOUND);
    assert_status(reply, 200);
}

/* Reads on until the text has come. */
static void hear(struct engine_fixture *fixture, int fd, char *text, size_t size,
                 const char *wanted)
{
    size_t length = strlen(text);

    for (uint64_t until = clock_now_ms() + PATIENCE_MS; !strstr(text, wanted);) {
        ssize_t count = recv(fd, text + length, size - 1 - length, MSG_DONTWAIT);

        assert_true(count != 0 && clock_now_ms() < until);
        if (count < 0)
            poll_reactor_turn(&fixture->loop, 10);
        else
            length += (size_t)count;
        text[length] = '\0';
    }
}

static void test_events(void **state)
{
    struct engine_fixture *fixture = *state;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct session *theirs, *own;
    static char text[REPLY_MAX];
    struct error err = {0};

    assert_int_equal(connect(fd, (struct sockaddr *)&house.address, sizeof(house.address)), 0);
    snprintf(text, sizeof(text),
             "GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n",
             house.two);
    send_all(fd, text);
    text[0] = '\0';
    hear(fixture, fd, text, sizeof(text), "\r\n\r\n");
    assert_int_equal(session_manager_create(fixture->manager,
                                            &(struct session_spec){.tenant = "one"}, &theirs, &err),
                     0);
    fixture_ran(fixture, theirs, "true", NULL);
    fixture_session(fixture, NULL); /* the owner's */
    assert_int_equal(session_manager_create(fixture->manager,
                                            &(struct session_spec){.tenant = "two"}, &own, &err),
                     0);
    hear(fixture, fd, text, sizeof(text), session_id(own));
    assert_null(strstr(text, session_id(theirs)));
    assert_null(strstr(strstr(text, "event:") + 1, "event:")); /* that one alone */
    close(fd);
}

/* ---- quotas ---- */

static void assert_over(struct reply *reply, const char *quota)
{
    json_t *error = json_object_get(reply->json, "error");
    char header[64];

    assert_string_equal(error_member(reply, "quota"), quota);
    snprintf(header, sizeof(header), "Retry-After: %d\r\n",
             (int)json_integer_value(json_object_get(error, "retry_after_s")));
    strncat(reply->head, "\r\n", sizeof(reply->head) - strlen(reply->head) - 1);
    assert_non_null(strstr(reply->head, header));
    assert_error(reply, 429, ERROR_QUOTA);
}

static void test_quotas(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session;
    struct error err = {0};
    char path[120];

    fixture->config.quota.sessions = 1;
    fixture->config.quota.disk_bytes = 10;
    tenants_configure(session_manager_tenants(fixture->manager), &fixture->config);
    assert_status(ask(fixture, house.one, "POST", "/v1/sessions", "{\"name\":\"work\"}"), 201);
    assert_over(ask(fixture, house.one, "POST", "/v1/sessions", "{}"), "sessions");
    assert_status(ask(fixture, house.two, "POST", "/v1/sessions", "{}"), 201);
    assert_int_equal(
        session_manager_find_of(fixture->manager, "one", "work", false, &session, &err), 0);
    snprintf(path, sizeof(path), "/v1/sessions/%s/datasets/a", session_id(session));
    assert_status(ask(fixture, house.one, "PUT", path, "12345678"), 201);
    snprintf(path, sizeof(path), "/v1/sessions/%s/datasets/b", session_id(session));
    assert_over(ask(fixture, house.one, "PUT", path, "12345678"), "disk");
    snprintf(path, sizeof(path), "/v1/sessions/%s/exec", session_id(session));
    fixture->config.quota.memory_bytes = 1;
    tenants_configure(session_manager_tenants(fixture->manager), &fixture->config);
    assert_over(ask(fixture, house.one, "POST", path, "{\"argv\":[\"true\"]}"), "memory");
    assert_over(
        ask(fixture, house.one, "POST", "/v1/run", "{\"code\":\"true\",\"language\":\"bash\"}"),
        "memory");
    fixture->config.quota.bytes = 1; /* every reply until now was more */
    tenants_configure(session_manager_tenants(fixture->manager), &fixture->config);
    assert_over(ask(fixture, house.one, "GET", "/v1/info", NULL), "bytes");
}

static void test_busy(void **state)
{
    struct engine_fixture *fixture = *state;
    struct reply *reply;

    fixture->config.queue = 1;
    fixture->holds[ASK_MAKE] = true;
    /* Of the same tenant: one that has had nothing yet would not wait for the queue of others. */
    for (int i = 0; i < LIMIT_MAKES_AT_ONCE + 1; i++) {
        struct session_spec spec = {.tenant = "one"};
        struct session *session;
        struct error err = {0};

        assert_int_equal(session_manager_create(fixture->manager, &spec, &session, &err), 0);
        fixture_exec(session, "true", NULL);
    }
    reply = ask(fixture, house.one, "POST", "/v1/run", "{\"code\":\"true\",\"language\":\"bash\"}");
    assert_non_null(strstr(reply->head, "Retry-After: 1"));
    assert_error(reply, 503, ERROR_BUSY);
}

/* ---- keys ---- */

static void test_keys(void **state)
{
    struct engine_fixture *fixture = *state;
    char text[KEY_TEXT_MAX], path[120];
    struct reply *reply = ask(fixture, house.operator, "POST", "/v1/keys",
                              "{\"tenant\":\"three\",\"scopes\":[\"run\"],\"name\":\"n\"}");

    str_copy(text, sizeof(text), json_string_value(json_object_get(reply->json, "key")));
    snprintf(path, sizeof(path), "/v1/keys/%s",
             json_string_value(json_object_get(reply->json, "id")));
    assert_status(reply, 201);
    assert_status(ask(fixture, text, "GET", "/v1/info", NULL), 200);
    reply = ask(fixture, house.operator, "GET", "/v1/keys", NULL);
    assert_non_null(strstr(reply->body, "\"three\""));
    assert_null(strstr(reply->body, strchr(text, '.') + 1));
    assert_status(reply, 200);
    assert_error(ask(fixture, house.one, "GET", "/v1/keys", NULL), 403, ERROR_FORBIDDEN);
    assert_status(ask(fixture, house.operator, "DELETE", path, NULL), 200);
    assert_error(ask(fixture, text, "GET", "/v1/info", NULL), 401, ERROR_UNAUTHORIZED);
    assert_error(ask(fixture, house.operator, "DELETE", path, NULL), 404, ERROR_KEY_NOT_FOUND);
    assert_error(ask(fixture, house.operator, "POST", "/v1/keys", "{\"tenant\":\"NO\"}"), 400,
                 ERROR_BAD_INPUT);
    assert_error(ask(fixture, house.operator, "POST", "/v1/keys", "{\"scopes\":[\"root\"]}"), 400,
                 ERROR_BAD_INPUT);
}

static void id_of(const char *text, char id[KEY_ID_MAX])
{
    snprintf(id, KEY_ID_MAX, "%.16s", text + strlen(KEY_PREFIX));
}

/* An admin sees and changes the keys of its own tenant, and gives nobody more than it has. */
static void test_keys_of_an_admin(void **state)
{
    struct engine_fixture *fixture = *state;
    char admin[KEY_TEXT_MAX], operator[KEY_TEXT_MAX], id[KEY_ID_MAX], path[120], own[KEY_ID_MAX];
    struct reply *reply;

    make_key(fixture, "one", SCOPE_BIT(SCOPE_ADMIN), admin);
    make_key(fixture, "one", SCOPE_BIT(SCOPE_OPERATOR), operator);
    reply = ask(fixture, admin, "GET", "/v1/keys", NULL);
    id_of(house.one, own);
    id_of(house.two, id);
    assert_non_null(strstr(reply->body, own));
    assert_null(strstr(reply->body, id));
    assert_status(reply, 200);
    snprintf(path, sizeof(path), "/v1/keys/%s", id);
    assert_error(ask(fixture, admin, "DELETE", path, NULL), 404, ERROR_KEY_NOT_FOUND);
    snprintf(path, sizeof(path), "/v1/keys/%s/rotate", id);
    assert_error(ask(fixture, admin, "POST", path, "{}"), 404, ERROR_KEY_NOT_FOUND);
    /* The secret of an operator of the same tenant would be a whole server's. */
    id_of(operator, id);
    snprintf(path, sizeof(path), "/v1/keys/%s/rotate", id);
    assert_error(ask(fixture, admin, "POST", path, "{}"), 403, ERROR_FORBIDDEN);
    snprintf(path, sizeof(path), "/v1/keys/%s", id);
    assert_error(ask(fixture, admin, "DELETE", path, NULL), 403, ERROR_FORBIDDEN);
    assert_error(ask(fixture, admin, "POST", "/v1/keys", "{\"tenant\":\"two\"}"), 403,
                 ERROR_FORBIDDEN);
    assert_error(ask(fixture, admin, "POST", "/v1/keys", "{\"scopes\":[\"operator\"]}"), 403,
                 ERROR_FORBIDDEN);
    reply = ask(fixture, admin, "POST", "/v1/keys", "{}");
    assert_string_equal(json_string_value(json_object_get(reply->json, "tenant")), "one");
    assert_status(reply, 201);
    snprintf(path, sizeof(path), "/v1/keys/%s/rotate", own);
    assert_status(ask(fixture, admin, "POST", path, "{}"), 200);
    snprintf(path, sizeof(path), "/v1/keys/%s", own);
    assert_status(ask(fixture, admin, "DELETE", path, NULL), 200);
    assert_status(ask(fixture, operator, "POST", "/v1/keys", "{\"tenant\":\"two\"}"), 201);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_every_row_needs_a_key),
        TEST(test_every_row_needs_its_scope),
        TEST(test_open_rows),
        TEST(test_another_tenants_session_is_not_there),
        TEST(test_lists_and_counts),
        TEST(test_tools),
        TEST(test_events),
        TEST(test_quotas),
        TEST(test_busy),
        TEST(test_keys),
        TEST(test_keys_of_an_admin),
    };

    return cmocka_run_group_tests(tests, list_rows, NULL);
}
