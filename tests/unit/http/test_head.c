/* test_head.c - headers that two servers would read differently, Hosts and Origins. */
#include "unit.h"

#include <string.h>

#include "base/cleanup.h"
#include "http/head.h"

struct example {
    bool is_old;
    const char *problem;    /* a part of what is said; NULL: none */
    const char *headers[4]; /* "Name: value" */
};

static const char *check(const struct example *example)
{
    struct head head = {0};

    for (size_t i = 0; i < ARRAY_SIZE(example->headers) && example->headers[i]; i++) {
        const char *colon = strchr(example->headers[i], ':');

        head_add(&head, example->headers[i], (size_t)(colon - example->headers[i]), colon + 2,
                 strlen(colon + 2));
    }
    return head_check(&head, example->is_old);
}

static void shapes_that_are_read_in_two_ways_are_found(void **state)
{
    static const struct example examples[] = {
        {false, NULL, {"Host: a"}},
        {false, NULL, {"Host: a", "Content-Length: 5"}},
        {false, NULL, {"Host: a", "Transfer-Encoding: chunked"}},
        {false, NULL, {"Host: a", "transfer-encoding: CHUNKED"}},
        {false, "no Host", {"X: y"}},
        {true, NULL, {"X: y"}},
        {false, "more than one Host", {"Host: a", "host: a"}},
        {false, "Host is malformed", {"Host: a/b"}},
        {false, "Host is malformed", {"Host: a@b"}},
        {false, NULL, {"Host: [::1]:80"}},
        {false,
         "more than one Content-Length",
         {"Host: a", "Content-Length: 5", "Content-Length: 5"}},
        {false,
         "and a Transfer-Encoding",
         {"Host: a", "Content-Length: 5", "Transfer-Encoding: chunked"}},
        {false, "not 'chunked'", {"Host: a", "Transfer-Encoding: gzip"}},
        {false, "not 'chunked'", {"Host: a", "Transfer-Encoding: chunked, chunked"}},
        {false, "not 'chunked'", {"Host: a", "Transfer-Encoding: chunked", "Transfer-Encoding: x"}},
        {true, "HTTP/1.0", {"Host: a", "Transfer-Encoding: chunked"}},
        {false, "bytes", {"Host: a", "Transfer-Encoding : chunked"}},
        {false, "bytes", {"Host: a", "X: a\rb"}},
        {false, "more than one Origin", {"Host: a", "Origin: http://a", "Origin: http://b"}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
        const char *problem = check(&examples[i]);

        if (!examples[i].problem)
            assert_null(problem);
        else if (!problem || !strstr(problem, examples[i].problem))
            fail_msg("example %zu: '%s'", i, problem ? problem : "nothing");
    }
}

static void bytes_are_counted_not_terminated(void **state)
{
    struct head head = {0};

    (void)state;
    head_add(&head, "X", 1, "a\0b", 3);
    assert_true(head.is_malformed);
    head = (struct head){0};
    head_add(&head, "X\0Y", 3, "a", 1);
    assert_true(head.is_malformed);
    head = (struct head){0};
    head_add(&head, "", 0, NULL, 0);
    assert_true(head.is_malformed);
}

static void a_host_fits_with_any_port_or_with_its_own(void **state)
{
    static const char *const hosts[] = {"localhost", "[::1]", "a.example:8080", NULL};
    static const char *const wild[] = {"*.wild.example", NULL};
    static const char *const none[] = {NULL};

    (void)state;
    assert_true(head_host_fits("localhost", hosts));
    assert_true(head_host_fits("LOCALHOST:7070", hosts));
    assert_true(head_host_fits("[::1]:7070", hosts));
    assert_true(head_host_fits("a.example:8080", hosts));
    assert_false(head_host_fits("a.example", hosts));
    assert_false(head_host_fits("a.example:80", hosts));
    assert_false(head_host_fits("localhost.evil.example", hosts));
    assert_false(head_host_fits("evil.example:7070", hosts));
    assert_true(head_host_fits("x.y.wild.example:1", wild));
    assert_false(head_host_fits("wild.example", wild));
    assert_false(head_host_fits(".wild.example", wild));
    assert_false(head_host_fits("x.notwild.example", wild));
    assert_false(head_host_fits("x.wild.example.evil", wild));
    assert_true(head_host_fits("192.0.2.7:7070", hosts));
    assert_true(head_host_fits("[2001:db8::1]", hosts));
    assert_false(head_host_fits("192.0.2.7.evil.example", hosts));
    assert_false(head_host_fits("[::1]evil", hosts));
    assert_false(head_host_fits("[", hosts));
    assert_false(head_host_fits("[]", hosts));
    assert_false(head_host_fits("2001", hosts));
    assert_false(head_host_fits("", hosts));
    assert_false(head_host_fits(NULL, hosts));
    assert_false(head_host_fits("localhost", none));
    assert_true(head_host_fits("anything", NULL));
}

static void a_page_is_our_own_listed_or_foreign(void **state)
{
    static const char *const origins[] = {"https://app.example", NULL};
    static const char *const any[] = {"*", NULL};

    (void)state;
    assert_int_equal(head_origin("http://localhost:7070", "localhost:7070", NULL), ORIGIN_OWN);
    assert_int_equal(head_origin("https://LOCALHOST:7070", "localhost:7070", NULL), ORIGIN_OWN);
    assert_int_equal(head_origin("http://localhost:7071", "localhost:7070", NULL), ORIGIN_FOREIGN);
    assert_int_equal(head_origin("ftp://localhost:7070", "localhost:7070", NULL), ORIGIN_FOREIGN);
    assert_int_equal(head_origin("http://", "", NULL), ORIGIN_FOREIGN);
    assert_int_equal(head_origin("null", "localhost", origins), ORIGIN_FOREIGN);
    assert_int_equal(head_origin("", NULL, origins), ORIGIN_FOREIGN);
    assert_int_equal(head_origin("https://app.example", "x", origins), ORIGIN_LISTED);
    assert_int_equal(head_origin("https://app.example.evil", "x", origins), ORIGIN_FOREIGN);
    assert_int_equal(head_origin("http://app.example", "x", origins), ORIGIN_FOREIGN);
    assert_int_equal(head_origin("null", "x", any), ORIGIN_LISTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_that_are_read_in_two_ways_are_found),
        cmocka_unit_test(bytes_are_counted_not_terminated),
        cmocka_unit_test(a_host_fits_with_any_port_or_with_its_own),
        cmocka_unit_test(a_page_is_our_own_listed_or_foreign),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
