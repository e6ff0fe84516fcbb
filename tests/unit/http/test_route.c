/* test_route.c - targets taken apart, rows found. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "http/client.h"
#include "http/route.h"
#include "http/target.h"

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/"},
    {.method = "PUT", .pattern = "/{word}"},
    {.method = "GET", .pattern = "/v1/sessions"},
    {.method = "POST", .pattern = "/v1/sessions"},
    {.method = "GET", .pattern = "/v1/sessions/all"},
    {.method = "GET", .pattern = "/v1/sessions/{id}"},
    {.method = "DELETE", .pattern = "/v1/sessions/{id}"},
    {.method = "GET", .pattern = "/v1/sessions/{id}/outputs/{name*}"},
    {.method = "GET", .pattern = "/v1/ports/{id}/{path**}"},
};

/* The pattern that is found; "405 GET, HEAD"; "404"; "400"; "414". `param` becomes its value. */
static const char *find(const char *method, const char *text, const char *name, char *param)
{
    static char answer[ROUTE_ALLOW_MAX + 8];
    struct http_target target;
    struct route_match match;
    int r = target_parse(&target, text);

    if (param)
        param[0] = '\0';
    if (r < 0) {
        snprintf(answer, sizeof(answer), "%s", r == -EINVAL ? "400" : "414");
    } else {
        struct route_table *table;

        assert_int_equal(route_compile(routes, ARRAY_SIZE(routes), &table), 0);
        route_find(table, method, &target, &match);
        route_table_free(table);
        if (param && route_param(&match, name))
            strcpy(param, route_param(&match, name));
        if (match.route)
            snprintf(answer, sizeof(answer), "%s", match.route->pattern);
        else if (match.allow[0])
            snprintf(answer, sizeof(answer), "405 %s", match.allow);
        else
            snprintf(answer, sizeof(answer), "404");
    }
    target_free(&target);
    return answer;
}

static void test_rows(void **state)
{
    char param[256];

    (void)state;
    assert_string_equal(find("GET", "/", NULL, NULL), "/");
    assert_string_equal(find("GET", "/v1/sessions?x=1", NULL, NULL), "/v1/sessions");
    assert_string_equal(find("HEAD", "/v1/sessions", NULL, NULL), "/v1/sessions");
    assert_string_equal(find("GET", "/v1/sessions/all", NULL, NULL), "/v1/sessions/all");
    assert_string_equal(find("GET", "/v1/sessions/al", "id", param), "/v1/sessions/{id}");
    assert_string_equal(param, "al");
    assert_string_equal(find("GET", "/v1/sessions/a/outputs/b/c.csv", "name", param),
                        "/v1/sessions/{id}/outputs/{name*}");
    assert_string_equal(param, "b/c.csv");
    assert_string_equal(find("GET", "/v1/sessions/a/outputs/b/c.csv", "id", param),
                        "/v1/sessions/{id}/outputs/{name*}");
    assert_string_equal(param, "a");
}

/* {x**} takes what no other pattern does; what comes before it stays as strict. */
static void test_any_rest(void **state)
{
    static const char *const paths[] = {"", "a", "a/", "//", "../a", "./", "a//b/..", "%2F/"};
    char param[256], text[64];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        snprintf(text, sizeof(text), "/v1/ports/x/%s", paths[i]);
        assert_string_equal(find("GET", text, "id", param), "/v1/ports/{id}/{path**}");
        assert_string_equal(param, "x");
    }
    assert_string_equal(find("GET", "/v1/ports/x", NULL, NULL), "404");
    assert_string_equal(find("GET", "/v1/ports//a", NULL, NULL), "404");
    assert_string_equal(find("GET", "/v1/./ports/x/a", NULL, NULL), "404");
    assert_string_equal(find("GET", "/v1/ports/../a", NULL, NULL), "404");
}

static void test_raw_query(void **state)
{
    struct http_target target;

    (void)state;
    assert_int_equal(target_parse(&target, "/a%20b?x=%41&y+z&&"), 0);
    assert_string_equal(target.path, "/a%20b");
    assert_string_equal(target.query, "x=%41&y+z&&");
    assert_string_equal(target.arguments[0].value, "A");
    target_free(&target);
    assert_int_equal(target_parse(&target, "/?"), 0);
    assert_string_equal(target.query, "");
    target_free(&target);
    assert_int_equal(target_parse(&target, "/a"), 0);
    assert_null(target.query);
    target_free(&target);
}

static void test_no_row(void **state)
{
    (void)state;
    assert_string_equal(find("PUT", "/v1/sessions", NULL, NULL), "405 GET, HEAD, POST");
    assert_string_equal(find("POST", "/v1/sessions/a", NULL, NULL), "405 GET, HEAD, DELETE");
    assert_string_equal(find("get", "/v1/sessions", NULL, NULL), "405 GET, HEAD, POST");
    assert_string_equal(find("PUT", "/", NULL, NULL), "405 GET, HEAD");
    assert_string_equal(find("GET", "/v1", NULL, NULL), "405 PUT");
    assert_string_equal(find("GET", "/v1/sessions/a/b", NULL, NULL), "404");
    assert_string_equal(find("GET", "/v1/sessions/", NULL, NULL), "404");
    assert_string_equal(find("GET", "//v1/sessions", NULL, NULL), "404");
    assert_string_equal(find("GET", "/v1//sessions", NULL, NULL), "404");
    assert_string_equal(find("GET", "/v1/./sessions", NULL, NULL), "404");
    assert_string_equal(find("GET", "/v1/x/../sessions", NULL, NULL), "404");
    assert_string_equal(find("GET", "/v1/sessions/..", NULL, NULL), "404");
    assert_string_equal(find("GET", "/v1/sessions/%2e%2E", NULL, NULL), "404");
    assert_string_equal(find("GET", "/v1/sessions/a/outputs", NULL, NULL), "404");
    assert_string_equal(find("GET", "/v1/sessions/a/outputs/", NULL, NULL), "404");
    assert_string_equal(find("GET", "/v1/sessions/a/outputs/x/../y", NULL, NULL), "404");
}

static void test_escapes(void **state)
{
    char param[256];

    (void)state;
    find("GET", "/v1/sessions/a%2Fb%20+%c3%a4", "id", param);
    assert_string_equal(param, "a/b +\xc3\xa4");
    find("GET", "/v1/sessions/s/outputs/a%2Fb/%63", "name", param);
    assert_string_equal(param, "a/b/c");
    assert_string_equal(find("GET", "/v1/sessions/a%00b", NULL, NULL), "400");
    assert_string_equal(find("GET", "/v1/sessions/a%", NULL, NULL), "400");
    assert_string_equal(find("GET", "/v1/sessions/a%2", NULL, NULL), "400");
    assert_string_equal(find("GET", "/v1/sessions/a%2/b", NULL, NULL), "400");
    assert_string_equal(find("GET", "/v1/sessions/a%zz", NULL, NULL), "400");
    assert_string_equal(find("GET", "/?a=%00", NULL, NULL), "400");
    assert_string_equal(find("GET", "v1", NULL, NULL), "400");
    assert_string_equal(find("GET", "", NULL, NULL), "400");
    assert_string_equal(find("OPTIONS", "*", NULL, NULL), "400");
}

static void test_query(void **state)
{
    struct http_target target;

    (void)state;
    assert_int_equal(target_parse(&target, "/p%41?a=1&b&&c=x+y%26z=%3D&=v&d="), 0);
    assert_string_equal(target.path, "/p%41");
    assert_string_equal(target.segments[0], "pA");
    assert_int_equal(target.argument_count, 5);
    assert_string_equal(target.arguments[0].name, "a");
    assert_string_equal(target.arguments[0].value, "1");
    assert_string_equal(target.arguments[1].name, "b");
    assert_string_equal(target.arguments[1].value, "");
    assert_string_equal(target.arguments[2].name, "c");
    assert_string_equal(target.arguments[2].value, "x y&z==");
    assert_string_equal(target.arguments[3].name, "");
    assert_string_equal(target.arguments[3].value, "v");
    assert_string_equal(target.arguments[4].value, "");
    target_free(&target);
}

static void test_ceilings(void **state)
{
    static char text[LIMIT_HTTP_TARGET + 2];

    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    text[0] = '/';
    assert_string_equal(find("GET", text, NULL, NULL), "414");
    text[LIMIT_HTTP_TARGET] = '\0';
    assert_string_equal(find("GET", text, NULL, NULL), "405 PUT");
    for (int i = 0; i <= LIMIT_HTTP_SEGMENTS; i++)
        memcpy(text + 2 * i, "/a", 3);
    assert_string_equal(find("GET", text, NULL, NULL), "414");
    text[2 * LIMIT_HTTP_SEGMENTS] = '\0';
    assert_string_equal(find("GET", text, NULL, NULL), "404");
    memcpy(text, "/?", 3);
    for (int i = 0; i <= LIMIT_HTTP_ARGUMENTS; i++)
        memcpy(text + 2 + 2 * i, "a&", 3);
    assert_string_equal(find("GET", text, NULL, NULL), "414");
    text[2 + 2 * LIMIT_HTTP_ARGUMENTS] = '\0';
    assert_string_equal(find("GET", text, NULL, NULL), "/");
}

static void test_encode(void **state)
{
    struct buf text = BUF_INIT(16);

    (void)state;
    assert_int_equal(http_encode(&text, "a b/\xc3\xa4~"), 0);
    assert_string_equal(buf_text(&text), "a%20b%2F%C3%A4~");
    assert_int_equal(http_encode(&text, "xyz"), -EFBIG);
    assert_string_equal(buf_text(&text), "a%20b%2F%C3%A4~");
    buf_free(&text);
}

static const char *nearest(const char *path)
{
    static char answer[ROUTE_SUGGEST_MAX];

    route_suggest(routes + 2, ARRAY_SIZE(routes) - 2, path, answer); /* without "/{word}" */
    return answer;
}

static void test_nearest(void **state)
{
    char text[400];

    (void)state;
    assert_string_equal(nearest("/v1/sesions"), "/v1/sessions");
    assert_string_equal(nearest("/v1/session/s_1"), "/v1/sessions/s_1");
    assert_string_equal(nearest("/V1/Sessions/"), "/v1/sessions");
    assert_string_equal(nearest("/sessions/x"), "/v1/sessions/x");
    assert_string_equal(nearest("/v1/sessions/x/output/a/b.csv"), "/v1/sessions/x/outputs/a/b.csv");
    assert_string_equal(nearest("/v1/sessions/x/output"), "");
    assert_string_equal(nearest("/v1/elsewhere"), "");
    assert_string_equal(nearest("/"), "");
    assert_string_equal(nearest(""), "");
    assert_string_equal(nearest("v1/sessions"), "");
    assert_string_equal(nearest("//"), "");
    memset(text, 'a', sizeof(text));
    memcpy(text, "/v1/session/", 12);
    text[sizeof(text) - 1] = '\0';
    assert_string_equal(nearest(text), ""); /* no room: none rather than half of one */
    text[ROUTE_SUGGEST_MAX - 2] = '\0';
    assert_int_equal(strlen(nearest(text)), ROUTE_SUGGEST_MAX - 1);
}

static void test_paths_of_a_pattern(void **state)
{
    (void)state;
    assert_true(route_has_path("/execute", "/execute"));
    assert_false(route_has_path("/execute", "/executed"));
    assert_false(route_has_path("/execute", "/execute/"));
    assert_false(route_has_path("/execute", ""));
    assert_true(route_has_path("/v1/sessions/{id}/files", "/v1/sessions/s_1/files"));
    assert_false(route_has_path("/v1/sessions/{id}/files", "/v1/sessions//files"));
    assert_false(route_has_path("/v1/sessions/{id}", "/v1/sessions"));
    assert_true(route_has_path("/outputs/{name*}", "/outputs/a/b/c"));
    assert_false(route_has_path("/outputs/{name*}", "/outputs/"));
    assert_true(route_has_path("/ports/{path**}", "/ports/"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths_of_a_pattern),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_any_rest),
        cmocka_unit_test(test_raw_query),
        cmocka_unit_test(test_no_row),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_ceilings),
        cmocka_unit_test(test_encode),
        cmocka_unit_test(test_nearest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
