/* test_gate.c - the one check that every door makes: keys from two headers, scopes, quotas of
 * requests and bytes; sessions of a principal. The server's side is a stand-in. */
#include "session/workshop.h"

#include "api/gate.h"
#include "api/ws/ws.h"
#include "base/trace.h"
#include "http/websocket.h"
#include "store/keys.h"

struct http_request {
    bool is_local;
    const char *authorization, *api_key;
    void (*over)(void *ctx, uint64_t bytes);
    void *over_ctx;
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

bool http_on_over(struct http_request *request, void (*over)(void *ctx, uint64_t bytes), void *ctx)
{
    if (request->over)
        return false;
    request->over = over;
    request->over_ctx = ctx;
    return true;
}

/* The request is over, and so much of its reply was sent. */
static void over(struct http_request *http, uint64_t bytes)
{
    if (http->over)
        http->over(http->over_ctx, bytes);
    http->over = NULL;
}

static struct gate gate_of(struct shop *shop)
{
    return (struct gate){.engine = shop->engine, .index = shop->index};
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
    assert_null(http.over);
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORKSHOP(test_the_owner_needs_none),
        IN_A_WORKSHOP(test_two_headers),
        IN_A_WORKSHOP(test_what_is_no_key),
        IN_A_WORKSHOP(test_scopes),
        IN_A_WORKSHOP(test_quota_of_requests),
        IN_A_WORKSHOP(test_quota_of_bytes),
        IN_A_WORKSHOP(test_sessions),
    };

    return cmocka_run_group_tests(tests, shop_reaper, NULL);
}
