/* test_gate.c - the one check that every door makes: keys from two headers, scopes, quotas of
 * requests and bytes; sessions of a principal. The server's side is a stand-in. */
#include "session/workshop.h"

#include "api/gate.h"
#include "api/visits.h"
#include "api/ws/ws.h"
#include "base/trace.h"
#include "http/websocket.h"
#include "store/keys.h"

struct http_request {
    bool is_local;
    const char *authorization, *api_key;
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

bool ws_protocol_key(const char *header, char *key, size_t size)
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

static struct gate gate_of(struct shop *shop)
{
    struct gate gate = {.engine = shop->engine, .index = shop->index};

    gate.visits = visits_new(&shop->loop.reactor, shop->engine, shop->index);
    assert_non_null(gate.visits);
    return gate;
}

static void make_key(struct shop *shop, const char *tenant, uint32_t scopes,
                     char text[KEY_TEXT_MAX])
{
    struct key_row row = {.scopes = scopes};
    struct error err = {0};

    str_copy(row.tenant, sizeof(row.tenant), tenant);
    assert_int_equal(keys_add(shop->index, &row, text, &err), 0);
}

static int ask(struct shop *shop, struct http_request http, enum scope scope, struct principal *who,
               struct error *err)
{
    struct gate gate = gate_of(shop);
    int r = gate_admit(&gate, &http, scope, who, err);

    over(&http, 0);
    visits_free(gate.visits);
    return r;
}

static void assert_unauthorized(struct shop *shop, struct http_request http)
{
    struct principal who = {.tenant = "untouched"};
    struct error err = {0};

    assert_int_equal(ask(shop, http, SCOPE_RUN, &who, &err), -EACCES);
    assert_ptr_equal(err.code, ERROR_UNAUTHORIZED);
    assert_string_equal(who.tenant, "untouched");
}

static void test_the_owner_needs_none(void **state)
{
    struct principal who;

    assert_int_equal(ask(*state, (struct http_request){.is_local = true}, SCOPE_ADMIN, &who, NULL),
                     0);
    assert_true(who.is_local);
    assert_null(gate_tenant(&who));
}

static void test_two_headers(void **state)
{
    struct shop *shop = *state;
    char key[KEY_TEXT_MAX], other[KEY_TEXT_MAX], bearer[KEY_TEXT_MAX + 16];
    struct principal who;

    make_key(shop, "one", SCOPE_ALL, key);
    make_key(shop, "one", SCOPE_ALL, other);
    snprintf(bearer, sizeof(bearer), "Bearer %s", key);
    assert_int_equal(
        ask(shop, (struct http_request){.authorization = bearer}, SCOPE_RUN, &who, NULL), 0);
    assert_string_equal(who.tenant, "one");
    assert_false(who.is_local);
    assert_string_equal(gate_tenant(&who), "one");
    assert_int_equal(ask(shop, (struct http_request){.api_key = key}, SCOPE_RUN, &who, NULL), 0);
    assert_int_equal(ask(shop, (struct http_request){.authorization = bearer, .api_key = key},
                         SCOPE_RUN, &who, NULL),
                     0);
    assert_unauthorized(shop, (struct http_request){.authorization = bearer, .api_key = other});
    assert_unauthorized(shop, (struct http_request){.authorization = bearer, .api_key = ""});
    snprintf(bearer, sizeof(bearer), "bEARER   %s", key);
    assert_int_equal(
        ask(shop, (struct http_request){.authorization = bearer}, SCOPE_RUN, &who, NULL), 0);
}

static void test_what_is_no_key(void **state)
{
    struct shop *shop = *state;
    char key[KEY_TEXT_MAX], text[KEY_TEXT_MAX + 16];

    make_key(shop, "one", SCOPE_ALL, key);
    assert_unauthorized(shop, (struct http_request){0});
    assert_unauthorized(shop, (struct http_request){.authorization = key});
    assert_unauthorized(shop, (struct http_request){.authorization = ""});
    assert_unauthorized(shop, (struct http_request){.authorization = "Bearer"});
    assert_unauthorized(shop, (struct http_request){.authorization = "Bearer "});
    assert_unauthorized(shop, (struct http_request){.authorization = "Basic Zm9vOmJhcg=="});
    assert_unauthorized(shop, (struct http_request){.api_key = ""});
    snprintf(text, sizeof(text), "Basic %s", key);
    assert_unauthorized(shop, (struct http_request){.authorization = text});
    /* A scheme that is none does not count because the other header is good. */
    assert_unauthorized(shop, (struct http_request){.authorization = text, .api_key = key});
    snprintf(text, sizeof(text), "Bearer%s", key);
    assert_unauthorized(shop, (struct http_request){.authorization = text});
    snprintf(text, sizeof(text), "Bearer %s x", key);
    assert_unauthorized(shop, (struct http_request){.authorization = text});
}

static void test_scopes(void **state)
{
    struct shop *shop = *state;
    char key[KEY_TEXT_MAX];
    struct principal who;

    for (int has = 0; has < _SCOPE_MAX; has++) {
        make_key(shop, "one", SCOPE_BIT(has), key);
        for (int wanted = 0; wanted < _SCOPE_MAX; wanted++) {
            struct error err = {0};
            int r =
                ask(shop, (struct http_request){.api_key = key}, (enum scope)wanted, &who, &err);

            assert_int_equal(r, has == wanted ? 0 : -EPERM);
            if (r == 0)
                continue;
            assert_ptr_equal(err.code, ERROR_FORBIDDEN);
            assert_non_null(strstr(err.text, scope_name((enum scope)wanted)));
        }
    }
}

static void test_quota_of_requests(void **state)
{
    struct shop *shop = *state;
    char key[KEY_TEXT_MAX], other[KEY_TEXT_MAX];
    struct principal who;
    struct error err = {0};
    int count = 0;

    shop->config.quota.requests = 1;
    tenants_configure(engine_tenants(shop->engine), &shop->config);
    make_key(shop, "one", SCOPE_ALL, key);
    make_key(shop, "two", SCOPE_ALL, other);
    while (ask(shop, (struct http_request){.api_key = key}, SCOPE_RUN, &who, &err) == 0)
        assert_true(count++ < 10000);
    assert_true(count >= 10);
    assert_ptr_equal(err.code, ERROR_QUOTA);
    assert_string_equal(err.quota, "requests");
    assert_true(err.retry_s >= 1);
    assert_int_equal(ask(shop, (struct http_request){.api_key = other}, SCOPE_RUN, &who, &err), 0);
    assert_int_equal(ask(shop, (struct http_request){.is_local = true}, SCOPE_RUN, &who, &err), 0);
}

static void test_quota_of_bytes(void **state)
{
    struct shop *shop = *state;
    struct gate gate = gate_of(shop);
    struct http_request http = {0};
    char key[KEY_TEXT_MAX];
    struct principal who;
    struct error err = {0};

    shop->config.quota.bytes = 1000;
    tenants_configure(engine_tenants(shop->engine), &shop->config);
    make_key(shop, "one", SCOPE_ALL, key);
    http.api_key = key;
    assert_int_equal(gate_admit(&gate, &http, SCOPE_RUN, &who, &err), 0);
    assert_int_equal(gate_admit(&gate, &http, SCOPE_RUN, &who, &err), 0); /* counted once */
    over(&http, 999);
    assert_int_equal(gate_admit(&gate, &http, SCOPE_RUN, &who, &err), 0);
    over(&http, 1);
    assert_int_equal(gate_admit(&gate, &http, SCOPE_RUN, &who, &err), -EDQUOT);
    assert_string_equal(err.quota, "bytes");
    assert_null(http.watcher);
    visits_free(gate.visits);
}

/* What is sent counts while it goes, and the stream that it belongs to ends. */
static void test_bytes_of_a_stream(void **state)
{
    struct shop *shop = *state;
    struct gate gate = gate_of(shop);
    struct http_request stream = {0}, other = {0};
    char key[KEY_TEXT_MAX], others[KEY_TEXT_MAX];
    struct principal who;
    struct error err = {0};

    shop->config.quota.bytes = 1000;
    tenants_configure(engine_tenants(shop->engine), &shop->config);
    make_key(shop, "one", SCOPE_ALL, key);
    make_key(shop, "two", SCOPE_ALL, others);
    stream.api_key = key;
    other.api_key = others;
    assert_int_equal(gate_admit(&gate, &stream, SCOPE_RUN, &who, &err), 0);
    assert_int_equal(gate_admit(&gate, &other, SCOPE_RUN, &who, &err), 0);
    stream.watcher->sent(stream.watcher_ctx, 999);
    stream.watcher->sent(stream.watcher_ctx, 1);
    UNTIL(shop, stream.stop);
    assert_ptr_equal(stream.stop->code, ERROR_QUOTA);
    assert_string_equal(stream.stop->quota, "bytes");
    assert_null(other.stop);
    over(&stream, 0);
    over(&other, 0);
    visits_free(gate.visits);
}

/* What is open ends with its key; what a key of another name has goes on. */
static void test_a_key_that_is_taken_away(void **state)
{
    struct shop *shop = *state;
    struct gate gate = gate_of(shop);
    struct http_request open = {0}, other = {0};
    char key[KEY_TEXT_MAX], others[KEY_TEXT_MAX];
    struct principal who, another;
    struct error err = {0};

    make_key(shop, "one", SCOPE_ALL, key);
    make_key(shop, "one", SCOPE_ALL, others);
    open.api_key = key;
    other.api_key = others;
    assert_int_equal(gate_admit(&gate, &open, SCOPE_RUN, &who, &err), 0);
    assert_int_equal(gate_admit(&gate, &other, SCOPE_RUN, &another, &err), 0);
    visits_key_changed(gate.visits, who.key); /* nothing has */
    assert_null(open.stop);
    assert_int_equal(keys_remove(shop->index, who.key, &err), 0);
    visits_key_changed(gate.visits, who.key);
    assert_ptr_equal(open.stop->code, ERROR_UNAUTHORIZED);
    assert_null(other.stop);
    /* Its body was not there yet: its handler is not let in any more. */
    assert_int_equal(gate_admit(&gate, &open, SCOPE_RUN, &who, &err), -EACCES);
    assert_int_equal(gate_admit(&gate, &other, SCOPE_RUN, &who, &err), 0);
    visits_free(gate.visits); /* they may be over later */
    over(&open, 1);
    over(&other, 1);
}

static void test_a_key_that_is_rotated(void **state)
{
    struct shop *shop = *state;
    struct gate gate = gate_of(shop);
    struct http_request old = {0}, new = {0};
    char key[KEY_TEXT_MAX], second[KEY_TEXT_MAX], third[KEY_TEXT_MAX];
    struct principal who;
    struct error err = {0};

    make_key(shop, "one", SCOPE_ALL, key);
    old.api_key = key;
    assert_int_equal(gate_admit(&gate, &old, SCOPE_RUN, &who, &err), 0);
    assert_int_equal(keys_rotate(shop->index, who.key, 3600000, second, &err), 0);
    visits_key_changed(gate.visits, who.key);
    assert_null(old.stop); /* for an hour */
    new.api_key = second;
    assert_int_equal(gate_admit(&gate, &new, SCOPE_RUN, &who, &err), 0);
    assert_int_equal(keys_rotate(shop->index, who.key, 1, third, &err), 0);
    visits_key_changed(gate.visits, who.key);
    assert_ptr_equal(old.stop->code, ERROR_UNAUTHORIZED);
    UNTIL(shop, new.stop); /* its grace is over */
    assert_ptr_equal(new.stop->code, ERROR_UNAUTHORIZED);
    over(&old, 0);
    over(&new, 0);
    visits_free(gate.visits);
}

static void test_a_key_that_expires(void **state)
{
    struct shop *shop = *state;
    struct gate gate = gate_of(shop);
    struct http_request open = {0};
    struct key_row row = {.tenant = "one", .scopes = SCOPE_ALL};
    char key[KEY_TEXT_MAX];
    struct principal who;
    struct error err = {0};

    row.expires_ms = clock_wall_ms() + 2000;
    assert_int_equal(keys_add(shop->index, &row, key, &err), 0);
    open.api_key = key;
    assert_int_equal(gate_admit(&gate, &open, SCOPE_RUN, &who, &err), 0);
    assert_int_equal(who.until_ms, row.expires_ms);
    UNTIL(shop, open.stop);
    assert_ptr_equal(open.stop->code, ERROR_UNAUTHORIZED);
    over(&open, 0);
    visits_free(gate.visits);
}

/* Without a key, where that was said. */
static void test_nobody_in_particular(void **state)
{
    struct shop *shop = *state;
    struct gate gate = gate_of(shop);
    const struct principal all = {.tenant = "all", .scopes = SCOPE_BIT(SCOPE_RUN)};
    struct http_request http = {0};
    struct error err = {0};

    shop->config.quota.bytes = 1000;
    tenants_configure(engine_tenants(shop->engine), &shop->config);
    assert_int_equal(gate_admit_as(&gate, &http, &all, &err), 0);
    assert_int_equal(gate_admit_as(&gate, &http, &all, &err), 0);
    over(&http, 1000);
    assert_int_equal(gate_admit_as(&gate, &http, &all, &err), -EDQUOT);
    visits_free(gate.visits);
}

static void test_sessions(void **state)
{
    struct shop *shop = *state;
    struct gate gate = gate_of(shop);
    struct principal one = {.tenant = "one"}, two = {.tenant = "two"};
    struct session *session, *found;
    struct error err = {0};

    assert_int_equal(
        engine_create(shop->engine, &(struct session_spec){.tenant = "one"}, &session, &err), 0);
    assert_int_equal(gate_session(&gate, &one, session_id(session), false, &found, &err), 0);
    assert_ptr_equal(found, session);
    assert_int_equal(
        gate_session(&gate, &principal_local, session_id(session), false, &found, &err), 0);
    assert_int_equal(gate_session(&gate, &two, session_id(session), true, &found, &err), -ENOENT);
    assert_ptr_equal(err.code, ERROR_SESSION_NOT_FOUND);
    visits_free(gate.visits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORKSHOP(test_the_owner_needs_none),  IN_A_WORKSHOP(test_two_headers),
        IN_A_WORKSHOP(test_what_is_no_key),        IN_A_WORKSHOP(test_scopes),
        IN_A_WORKSHOP(test_quota_of_requests),     IN_A_WORKSHOP(test_quota_of_bytes),
        IN_A_WORKSHOP(test_bytes_of_a_stream),     IN_A_WORKSHOP(test_a_key_that_is_taken_away),
        IN_A_WORKSHOP(test_a_key_that_is_rotated), IN_A_WORKSHOP(test_a_key_that_expires),
        IN_A_WORKSHOP(test_nobody_in_particular),  IN_A_WORKSHOP(test_sessions),
    };

    return cmocka_run_group_tests(tests, shop_reaper, NULL);
}
