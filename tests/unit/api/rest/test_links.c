/* test_links.c - signed links: good for their time and their output, for nothing else. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/link.h"

#define ID "a_0123456789abcdef0123456789abcdef"
#define NOW 1800000000ULL

static const uint8_t secret[SHA256_BYTES] = {1, 2, 3};
static const uint8_t other[SHA256_BYTES] = {1, 2, 4};

/* Cuts a link into its two arguments. */
static void cut(const char *text, char *expires, char *signature)
{
    assert_int_equal(
        sscanf(text, "/v1/artifacts/" ID "?expires=%20[^&]&signature=%80s", expires, signature), 2);
}

static int check(const uint8_t key[SHA256_BYTES], const char *id, const char *expires,
                 const char *signature, uint64_t now_s)
{
    struct error err = {0};
    int r = link_check(key, id, expires, signature, now_s, &err);

    if (r < 0) {
        assert_int_equal(r, -EACCES);
        assert_string_equal(err.code, ERROR_LINK_EXPIRED);
    }
    return r;
}

static void test_good_for_its_time(void **state)
{
    char text[LINK_MAX], expires[32], signature[100];

    (void)state;
    link_make(secret, ID, NOW + 60, text);
    cut(text, expires, signature);
    assert_int_equal(check(secret, ID, expires, signature, NOW), 0);
    assert_int_equal(check(secret, ID, expires, signature, NOW + 60), 0);
    /* A clock that is a little ahead. */
    assert_int_equal(check(secret, ID, expires, signature, NOW + 60 + LINK_SKEW_S), 0);
    assert_int_equal(check(secret, ID, expires, signature, NOW + 61 + LINK_SKEW_S), -EACCES);
    assert_int_equal(check(secret, ID, expires, signature, 0), 0);
}

static void test_nothing_may_be_changed(void **state)
{
    char text[LINK_MAX], expires[32], signature[100];

    (void)state;
    link_make(secret, ID, NOW + 60, text);
    cut(text, expires, signature);
    assert_int_equal(check(other, ID, expires, signature, NOW), -EACCES);
    assert_int_equal(check(secret, "a_1123456789abcdef0123456789abcdef", expires, signature, NOW),
                     -EACCES);
    assert_int_equal(check(secret, ID, "1800000061", signature, NOW), -EACCES);
    /* The same number in another text is another link. */
    assert_int_equal(check(secret, ID, "01800000060", signature, NOW), -EACCES);
    for (size_t i = 0; signature[i]; i++) {
        char was = signature[i];

        signature[i] = was == '0' ? '1' : '0';
        assert_int_equal(check(secret, ID, expires, signature, NOW), -EACCES);
        signature[i] = was;
    }
    assert_int_equal(check(secret, ID, expires, signature, NOW), 0);
}

static void test_garbage(void **state)
{
    static const char *const words[] = {"",     "x",  "-1", "99999999999999999999999",
                                        "0x10", " 1", NULL};
    char text[LINK_MAX], expires[32], signature[100];

    (void)state;
    link_make(secret, ID, NOW + 60, text);
    cut(text, expires, signature);
    for (size_t i = 0; words[i]; i++) {
        assert_int_equal(check(secret, ID, words[i], signature, NOW), -EACCES);
        assert_int_equal(check(secret, ID, expires, words[i], NOW), -EACCES);
    }
    assert_int_equal(check(secret, ID, NULL, signature, NOW), -EACCES);
    assert_int_equal(check(secret, ID, expires, NULL, NOW), -EACCES);
    signature[10] = 'G';
    assert_int_equal(check(secret, ID, expires, signature, NOW), -EACCES);
}

/* A link to a port opens that port of that session, and no output; and the other way round. */
static void test_ports(void **state)
{
    char text[LINK_MAX], expires[32], signature[100], output[LINK_MAX];
    unsigned port = 0;

    (void)state;
    link_port_make(secret, ID, 3000, NOW + 60, text);
    assert_int_equal(
        sscanf(text, "/v1/ports/" ID "/%u/%31[0-9]/%99[0-9a-f]/", &port, expires, signature), 3);
    assert_int_equal(port, 3000);
    assert_int_equal(link_port_check(secret, ID, 3000, expires, signature, NOW, NULL), 0);
    assert_int_equal(link_port_check(secret, ID, 3001, expires, signature, NOW, NULL), -EACCES);
    assert_int_equal(link_port_check(secret, ID, 0, expires, signature, NOW, NULL), -EACCES);
    assert_int_equal(link_port_check(secret, "x", 3000, expires, signature, NOW, NULL), -EACCES);
    assert_int_equal(
        link_port_check(secret, ID, 3000, expires, signature, NOW + 60 + LINK_SKEW_S + 1, NULL),
        -EACCES);
    assert_int_equal(check(secret, ID, expires, signature, NOW), -EACCES);
    link_make(secret, ID, NOW + 60, output);
    cut(output, expires, signature);
    assert_int_equal(link_port_check(secret, ID, 3000, expires, signature, NOW, NULL), -EACCES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_for_its_time),
        cmocka_unit_test(test_nothing_may_be_changed),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_ports),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
