/* test_auth.c - the one check that every door makes: keys from two headers, scopes, quotas of
 * requests and bytes; sessions of a principal. The server's side is a stand-in. */
#include "session/engine_fixture.h"

#include "api/front/active_requests.h"
#include "api/front/auth.h"
#include "api/front/front_private.h"
#include "base/trace.h"
#include "http/websocket.h"
#include "store/keys.h"

struct http_request {
    bool is_local;
    bool is_one_too_many; /* its tenant has all the connections that it may have */
    const char *authorization, *api_key;
    const void *row;
    const struct http_watcher *watcher;
    void *watcher_ctx;
    const struct error *stop; /* http_stop() was called */
};

bool http_is_local(const struct http_request *request)
{
    return request->is_local;
}

const char *http_request_id(const struct http_request *request)
{
    (void)request;
    return "req_1";
}

const struct trace *http_trace(const struct http_request *request)
{
    static const struct trace none;

    (void)request;
    return &none;
}

void http_set_who(struct http_request *request, const char *tenant, const char *key)
{
    (void)request;
    (void)tenant;
    (void)key;
}

bool http_tell_once(struct http_request *request)
{
    (void)request;
    return true;
}

int http_wants_websocket(const struct http_request *request)
{
    (void)request;
    return 0;
}

bool auth_protocol_key(const char *header, char *key, size_t size)
{
    (void)header;
    (void)key;
    (void)size;
    return false;
}

const char *http_peer(const struct http_request *request)
{
    return request->is_local ? "" : "127.0.0.1:4711";
}

const char *http_method(const struct http_request *request)
{
    (void)request;
    return "GET";
}

const char *http_path(const struct http_request *request)
{
    (void)request;
    return "/v1/info";
}

const char *http_header(const struct http_request *request, const char *name)
{
    if (str_equal(name, "Authorization"))
        return request->authorization;
    return str_equal(name, "X-API-Key") ? request->api_key : NULL;
}

const void *http_row(const struct http_request *request)
{
    return request->row;
}

bool http_header_differs(const struct http_request *request, const char *name)
{
    (void)request;
    (void)name;
    return false;
}

int http_set_admitted(struct http_request *request, const char *tenant)
{
    (void)tenant;
    return request->is_one_too_many ? -EDQUOT : 0;
}

bool http_watch(struct http_request *request, const struct http_watcher *watcher, void *ctx)
{
    if (request->watcher)
        return false;
    request->watcher = watcher;
    request->watcher_ctx = ctx;
    return true;
}

void *http_watched_by(const struct http_request *request)
{
    return request->watcher ? request->watcher_ctx : NULL;
}

void http_stop(struct http_request *request, const struct error *why)
{
    request->stop = why;
}

/* The request is over, and so much of its reply was sent. */
static void over(struct http_request *http, uint64_t bytes)
{
    if (http->watcher && bytes > 0)
        http->watcher->sent(http->watcher_ctx, bytes);
    if (http->watcher)
        http->watcher->over(http->watcher_ctx);
    http->watcher = NULL;
}

static struct auth auth_of(struct engine_fixture *fixture)
{
    struct auth auth = {.manager = fixture->manager, .index = fixture->index};

    auth.active_requests =
        active_requests_new(&fixture->loop.reactor, fixture->manager, fixture->index);
    assert_non_null(auth.active_requests);
    return auth;
}

static void make_key(struct engine_fixture *fixture, const char *tenant, uint32_t scopes,
                     char text[KEY_TEXT_MAX])
{
    struct key_row row = {.scopes = scopes};
    struct error err = {0};

    str_copy(row.tenant, sizeof(row.tenant), tenant);
    assert_int_equal(keys_add(fixture->index, &row, text, &err), 0);
}

static int ask(struct engine_fixture *fixture, struct http_request http, enum scope scope,
               struct principal *who, struct error *err)
{
    struct auth auth = auth_of(fixture);
    int r = auth_admit(&auth, &http, scope, who, err);

    over(&http, 0);
    active_requests_free(auth.active_requests);
    return r;
}

static void assert_unauthorized(struct engine_fixture *fixture, struct http_request http)
{
    struct principal who = {.tenant = "untouched"};
    struct error err = {0};

    assert_int_equal(ask(fixture, http, SCOPE_RUN, &who, &err), -EACCES);
    assert_ptr_equal(err.code, ERROR_UNAUTHORIZED);
    assert_string_equal(who.tenant, "untouched");
}

static void test_the_owner_needs_none(void **state)
{
    struct principal who;

    assert_int_equal(ask(*state, (struct http_request){.is_local = true}, SCOPE_ADMIN, &who, NULL),
                     0);
    assert_true(who.is_local);
    assert_null(auth_tenant(&who));
}

static void test_two_headers(void **state)
{
    struct engine_fixture *fixture = *state;
    char key[KEY_TEXT_MAX], other[KEY_TEXT_MAX], bearer[KEY_TEXT_MAX + 16];
    struct principal who;

    make_key(fixture, "one", SCOPE_ALL, key);
    make_key(fixture, "one", SCOPE_ALL, other);
    snprintf(bearer, sizeof(bearer), "Bearer %s", key);
    assert_int_equal(
        ask(fixture, (struct http_request){.authorization = bearer}, SCOPE_RUN, &who, NULL), 0);
    assert_string_equal(who.tenant, "one");
    assert_false(who.is_local);
    assert_string_equal(auth_tenant(&who), "one");
    assert_int_equal(ask(fixture, (struct http_request){.api_key = key}, SCOPE_RUN, &who, NULL), 0);
    assert_int_equal(ask(fixture, (struct http_request){.authorization = bearer, .api_key = key},
                         SCOPE_RUN, &who, NULL),
                     0);
    assert_unauthorized(fixture, (struct http_request){.authorization = bearer, .api_key = other});
    assert_unauthorized(fixture, (struct http_request){.authorization = bearer, .api_key = ""});
    snprintf(bearer, sizeof(bearer), "bEARER   %s", key);
    assert_int_equal(
        ask(fixture, (struct http_request){.authorization = bearer}, SCOPE_RUN, &who, NULL), 0);
}

/* Only at a door that says so, and only beside the other header. */
static void test_a_bearer_that_is_a_user(void **state)
{
    static const struct door_ops ops = {.bearer_is_user = true};
    static struct front_door door = {.ops = &ops};
    static const struct front_row row = {.door = &door};
    struct engine_fixture *fixture = *state;
    struct http_request http = {.authorization = "Bearer root", .row = &row};
    char key[KEY_TEXT_MAX], bearer[KEY_TEXT_MAX + 16];
    struct principal who;

    make_key(fixture, "one", SCOPE_ALL, key);
    assert_unauthorized(fixture, http);
    http.api_key = key;
    assert_int_equal(ask(fixture, http, SCOPE_RUN, &who, NULL), 0);
    assert_string_equal(who.tenant, "one");
    http.api_key = "wrong";
    assert_unauthorized(fixture, http);
    assert_unauthorized(fixture,
                        (struct http_request){.authorization = "Bearer root", .api_key = key});
    snprintf(bearer, sizeof(bearer), "Bearer %s", key);
    http.authorization = bearer;
    assert_unauthorized(fixture, http); /* the wrong one counts, not the good one beside it */
    http.api_key = NULL;
    assert_int_equal(ask(fixture, http, SCOPE_RUN, &who, NULL), 0);
}

static void test_what_is_no_key(void **state)
{
    struct engine_fixture *fixture = *state;
    char key[KEY_TEXT_MAX], text[KEY_TEXT_MAX + 16];

    make_key(fixture, "one", SCOPE_ALL, key);
    assert_unauthorized(fixture, (struct http_request){0});
    assert_unauthorized(fixture, (struct http_request){.authorization = key});
    assert_unauthorized(fixture, (struct http_request){.authorization = ""});
    assert_unauthorized(fixture, (struct http_request){.authorization = "Bearer"});
    assert_unauthorized(fixture, (struct http_request){.authorization = "Bearer "});
    assert_unauthorized(fixture, (struct http_request){.authorization = "Basic Zm9vOmJhcg=="});
    assert_unauthorized(fixture, (struct http_request){.api_key = ""});
    snprintf(text, sizeof(text), "Basic %s", key);
    assert_unauthorized(fixture, (struct http_request){.authorization = text});
    /* A scheme that is none does not count because the other header is good. */
    assert_unauthorized(fixture, (struct http_request){.authorization = text, .api_key = key});
    snprintf(text, sizeof(text), "Bearer%s", key);
    assert_unauthorized(fixture, (struct http_request){.authorization = text});
    snprintf(text, sizeof(text), "Bearer %s x", key);
    assert_unauthorized(fixture, (struct http_request){.authorization = text});
}

static void test_scopes(void **state)
{
    struct engine_fixture *fixture = *state;
    char key[KEY_TEXT_MAX];
    struct principal who;

    for (int has = 0; has < _SCOPE_MAX; has++) {
        make_key(fixture, "one", SCOPE_BIT(has), key);
        for (int wanted = 0; wanted < _SCOPE_MAX; wanted++) {
            struct error err = {0};
            int r =
                ask(fixture, (struct http_request){.api_key = key}, (enum scope)wanted, &who, &err);

            /* An operator is an admin of every tenant. */
            assert_int_equal(
                r, has == wanted || (has == SCOPE_OPERATOR && wanted == SCOPE_ADMIN) ? 0 : -EPERM);
            if (r == 0)
                continue;
            assert_ptr_equal(err.code, ERROR_FORBIDDEN);
            assert_non_null(strstr(err.text, scope_name((enum scope)wanted)));
        }
    }
}

static void test_quota_of_requests(void **state)
{
    struct engine_fixture *fixture = *state;
    char key[KEY_TEXT_MAX], other[KEY_TEXT_MAX];
    struct principal who;
    struct error err = {0};
    int count = 0;

    fixture->config.quota.requests = 1;
    tenants_configure(session_manager_tenants(fixture->manager), &fixture->config);
    make_key(fixture, "one", SCOPE_ALL, key);
    make_key(fixture, "two", SCOPE_ALL, other);
    while (ask(fixture, (struct http_request){.api_key = key}, SCOPE_RUN, &who, &err) == 0)
        assert_true(count++ < 10000);
    assert_true(count >= 10);
    assert_ptr_equal(err.code, ERROR_QUOTA);
    assert_string_equal(err.quota, "requests");
    assert_true(err.retry_s >= 1);
    assert_int_equal(ask(fixture, (struct http_request){.api_key = other}, SCOPE_RUN, &who, &err),
                     0);
    assert_int_equal(ask(fixture, (struct http_request){.is_local = true}, SCOPE_RUN, &who, &err),
                     0);
}

static void test_quota_of_bytes(void **state)
{
    struct engine_fixture *fixture = *state;
    struct auth auth = auth_of(fixture);
    struct http_request http = {0};
    char key[KEY_TEXT_MAX];
    struct principal who;
    struct error err = {0};

    fixture->config.quota.bytes = 1000;
    tenants_configure(session_manager_tenants(fixture->manager), &fixture->config);
    make_key(fixture, "one", SCOPE_ALL, key);
    http.api_key = key;
    assert_int_equal(auth_admit(&auth, &http, SCOPE_RUN, &who, &err), 0);
    assert_int_equal(auth_admit(&auth, &http, SCOPE_RUN, &who, &err), 0); /* counted once */
    over(&http, 999);
    assert_int_equal(auth_admit(&auth, &http, SCOPE_RUN, &who, &err), 0);
    over(&http, 1);
    assert_int_equal(auth_admit(&auth, &http, SCOPE_RUN, &who, &err), -EDQUOT);
    assert_string_equal(err.quota, "bytes");
    assert_null(http.watcher);
    active_requests_free(auth.active_requests);
}

/* What is sent counts while it goes, and the stream that it belongs to ends. */
static void test_bytes_of_a_stream(void **state)
{
    struct engine_fixture *fixture = *state;
    struct auth auth = auth_of(fixture);
    struct http_request stream = {0}, other = {0};
    char key[KEY_TEXT_MAX], others[KEY_TEXT_MAX];
    struct principal who;
    struct error err = {0};

    fixture->config.quota.bytes = 1000;
    tenants_configure(session_manager_tenants(fixture->manager), &fixture->config);
    make_key(fixture, "one", SCOPE_ALL, key);
    make_key(fixture, "two", SCOPE_ALL, others);
    stream.api_key = key;
    other.api_key = others;
    assert_int_equal(auth_admit(&auth, &stream, SCOPE_RUN, &who, &err), 0);
    assert_int_equal(auth_admit(&auth, &other, SCOPE_RUN, &who, &err), 0);
    stream.watcher->sent(stream.watcher_ctx, 999);
    stream.watcher->sent(stream.watcher_ctx, 1);
    UNTIL(fixture, stream.stop);
    assert_ptr_equal(stream.stop->code, ERROR_QUOTA);
    assert_string_equal(stream.stop->quota, "bytes");
    assert_null(other.stop);
    over(&stream, 0);
    over(&other, 0);
    active_requests_free(auth.active_requests);
}

/* What is open ends with its key; what a key of another name has goes on. */
static void test_a_key_that_is_taken_away(void **state)
{
    struct engine_fixture *fixture = *state;
    struct auth auth = auth_of(fixture);
    struct http_request open = {0}, other = {0};
    char key[KEY_TEXT_MAX], others[KEY_TEXT_MAX];
    struct principal who, another;
    struct error err = {0};

    make_key(fixture, "one", SCOPE_ALL, key);
    make_key(fixture, "one", SCOPE_ALL, others);
    open.api_key = key;
    other.api_key = others;
    assert_int_equal(auth_admit(&auth, &open, SCOPE_RUN, &who, &err), 0);
    assert_int_equal(auth_admit(&auth, &other, SCOPE_RUN, &another, &err), 0);
    active_requests_key_changed(auth.active_requests, who.key); /* nothing has */
    assert_null(open.stop);
    assert_int_equal(keys_remove(fixture->index, who.key, &err), 0);
    active_requests_key_changed(auth.active_requests, who.key);
    assert_ptr_equal(open.stop->code, ERROR_UNAUTHORIZED);
    assert_null(other.stop);
    /* Its body was not there yet: its handler is not let in any more. */
    assert_int_equal(auth_admit(&auth, &open, SCOPE_RUN, &who, &err), -EACCES);
    assert_int_equal(auth_admit(&auth, &other, SCOPE_RUN, &who, &err), 0);
    active_requests_free(auth.active_requests); /* they may be over later */
    over(&open, 1);
    over(&other, 1);
}

static void test_a_key_that_is_rotated(void **state)
{
    struct engine_fixture *fixture = *state;
    struct auth auth = auth_of(fixture);
    struct http_request old = {0}, new = {0};
    char key[KEY_TEXT_MAX], second[KEY_TEXT_MAX], third[KEY_TEXT_MAX];
    struct principal who;
    struct error err = {0};

    make_key(fixture, "one", SCOPE_ALL, key);
    old.api_key = key;
    assert_int_equal(auth_admit(&auth, &old, SCOPE_RUN, &who, &err), 0);
    assert_int_equal(keys_rotate(fixture->index, who.key, 3600000, second, &err), 0);
    active_requests_key_changed(auth.active_requests, who.key);
    assert_null(old.stop); /* for an hour */
    new.api_key = second;
    assert_int_equal(auth_admit(&auth, &new, SCOPE_RUN, &who, &err), 0);
    assert_int_equal(keys_rotate(fixture->index, who.key, 1, third, &err), 0);
    active_requests_key_changed(auth.active_requests, who.key);
    assert_ptr_equal(old.stop->code, ERROR_UNAUTHORIZED);
    UNTIL(fixture, new.stop); /* its grace is over */
    assert_ptr_equal(new.stop->code, ERROR_UNAUTHORIZED);
    over(&old, 0);
    over(&new, 0);
    active_requests_free(auth.active_requests);
}

static void test_a_key_that_expires(void **state)
{
    struct engine_fixture *fixture = *state;
    struct auth auth = auth_of(fixture);
    struct http_request open = {0};
    struct key_row row = {.tenant = "one", .scopes = SCOPE_ALL};
    char key[KEY_TEXT_MAX];
    struct principal who;
    struct error err = {0};

    row.expires_ms = clock_wall_ms() + 2000;
    assert_int_equal(keys_add(fixture->index, &row, key, &err), 0);
    open.api_key = key;
    assert_int_equal(auth_admit(&auth, &open, SCOPE_RUN, &who, &err), 0);
    assert_int_equal(who.until_ms, row.expires_ms);
    UNTIL(fixture, open.stop);
    assert_ptr_equal(open.stop->code, ERROR_UNAUTHORIZED);
    over(&open, 0);
    active_requests_free(auth.active_requests);
}

static void test_a_tenant_with_all_its_connections(void **state)
{
    struct engine_fixture *fixture = *state;
    struct auth auth = auth_of(fixture);
    struct http_request http = {.is_one_too_many = true};
    struct key_row row = {.tenant = "one", .scopes = SCOPE_ALL};
    char key[KEY_TEXT_MAX];
    struct principal who;
    struct error err = {0};

    assert_int_equal(keys_add(fixture->index, &row, key, &err), 0);
    http.api_key = key;
    assert_int_equal(auth_admit(&auth, &http, SCOPE_RUN, &who, &err), -EDQUOT);
    assert_ptr_equal(err.code, ERROR_QUOTA);
    assert_string_equal(err.quota, "connections");
    assert_int_equal(err.retry_s, 1);
    assert_null(http.watcher);
    http.is_one_too_many = false;
    assert_int_equal(auth_admit(&auth, &http, SCOPE_RUN, &who, &err), 0);
    over(&http, 0);
    active_requests_free(auth.active_requests);
}

/* Without a key, where that was said. */
static void test_nobody_in_particular(void **state)
{
    struct engine_fixture *fixture = *state;
    struct auth auth = auth_of(fixture);
    const struct principal all = {.tenant = "all", .scopes = SCOPE_BIT(SCOPE_RUN)};
    struct http_request http = {0};
    struct error err = {0};

    fixture->config.quota.bytes = 1000;
    tenants_configure(session_manager_tenants(fixture->manager), &fixture->config);
    assert_int_equal(auth_admit_as(&auth, &http, &all, &err), 0);
    assert_int_equal(auth_admit_as(&auth, &http, &all, &err), 0);
    over(&http, 1000);
    assert_int_equal(auth_admit_as(&auth, &http, &all, &err), -EDQUOT);
    active_requests_free(auth.active_requests);
}

static void test_sessions(void **state)
{
    struct engine_fixture *fixture = *state;
    struct auth auth = auth_of(fixture);
    struct principal one = {.tenant = "one"}, two = {.tenant = "two"};
    struct session *session, *found;
    struct error err = {0};

    assert_int_equal(session_manager_create(
                         fixture->manager, &(struct session_spec){.tenant = "one"}, &session, &err),
                     0);
    assert_int_equal(auth_session(&auth, &one, session_id(session), false, &found, &err), 0);
    assert_ptr_equal(found, session);
    assert_int_equal(
        auth_session(&auth, &principal_local, session_id(session), false, &found, &err), 0);
    assert_int_equal(auth_session(&auth, &two, session_id(session), true, &found, &err), -ENOENT);
    assert_ptr_equal(err.code, ERROR_SESSION_NOT_FOUND);
    active_requests_free(auth.active_requests);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ENGINE(test_the_owner_needs_none),
        WITH_ENGINE(test_two_headers),
        WITH_ENGINE(test_a_bearer_that_is_a_user),
        WITH_ENGINE(test_what_is_no_key),
        WITH_ENGINE(test_scopes),
        WITH_ENGINE(test_quota_of_requests),
        WITH_ENGINE(test_quota_of_bytes),
        WITH_ENGINE(test_bytes_of_a_stream),
        WITH_ENGINE(test_a_key_that_is_taken_away),
        WITH_ENGINE(test_a_key_that_is_rotated),
        WITH_ENGINE(test_a_key_that_expires),
        WITH_ENGINE(test_nobody_in_particular),
        WITH_ENGINE(test_sessions),
        WITH_ENGINE(test_a_tenant_with_all_its_connections),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
