/* test_e2b.c - E2B's hosts, tokens, signatures, paths, envelopes; what is not exactly right is
 * refused. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "api/sandboxes/e2b.h"

#define ID "0123456789abcdef0123456789abcdef"

static const uint8_t secret[SHA256_BYTES] = {1, 2, 3};

static void test_hosts(void **state)
{
    static const char *const bad[] = {
        "49983-" ID,
        "49983-" ID ":443",
        "49983-0123.e2b.app",
        "x-" ID ".e2b.app",
        "0-" ID ".e2b.app",
        "-" ID ".e2b.app",
        "070-" ID ".e2b.app",
        "65536-" ID ".e2b.app",
        "49983_" ID ".e2b.app",
        "localhost",
        "",
        "80-" ID "0.e2b.app",
    };
    struct e2b_target target;

    (void)state;
    assert_true(e2b_host_read("49983-" ID ".e2b.app", &target));
    assert_string_equal(target.id, ID);
    assert_int_equal(target.port, 49983);
    assert_true(e2b_host_read("1-" ID ".localhost:7070", &target));
    assert_false(e2b_host_read(NULL, &target));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(e2b_host_read(bad[i], &target));
}

static void test_tokens(void **state)
{
    uint8_t other[SHA256_BYTES] = {9};
    char token[E2B_TOKEN_MAX], id[E2B_ID_LENGTH + 1];

    (void)state;
    e2b_token_make(secret, ID, token);
    assert_true(e2b_token_id(token, id));
    assert_string_equal(id, ID);
    assert_true(e2b_token_check(secret, ID, token));
    assert_false(e2b_token_check(other, ID, token));
    assert_false(e2b_token_check(secret, "f123456789abcdef0123456789abcdef", token));
    token[strlen(token) - 1] ^= 1;
    assert_false(e2b_token_check(secret, ID, token));
    assert_false(e2b_token_check(secret, ID, NULL));
    assert_false(e2b_token_id("bly_" ID, id));
}

/* v1_ and base64 of SHA-256 of "a.txt:read:user:token", the second one with ":200". */
static void test_signatures(void **state)
{
    struct e2b_signature signature = {.path = "a.txt", .user = "user", .operation = "read"};

    (void)state;
    assert_int_equal(e2b_signature_check(&signature, "token", 100), E2B_UNSIGNED);
    signature.signature = "v1_Crwo9/OpRRyAnoMnEAETcIqiQq+UGSr7WlKLdxIMx8c";
    assert_int_equal(e2b_signature_check(&signature, "token", 100), E2B_SIGNED);
    signature.operation = "write";
    assert_int_equal(e2b_signature_check(&signature, "token", 100), E2B_WRONG);
    signature.operation = "read";
    signature.expiration = "200";
    assert_int_equal(e2b_signature_check(&signature, "token", 100), E2B_WRONG);
    signature.signature = "v1_kKaRMQg9XnuOskh8CdTZRyk3g8Qw9r73wRdAV2aAFlU";
    assert_int_equal(e2b_signature_check(&signature, "token", 200), E2B_SIGNED);
    assert_int_equal(e2b_signature_check(&signature, "token", 201), E2B_EXPIRED);
}

static void test_paths(void **state)
{
    static const char *const pairs[][2] = {
        {"a", "/home/user/a"}, {"~", "/home/user"},        {"~/b/", "/home/user/b"},
        {"/tmp/x", "/tmp/x"},  {"a/../b", "/home/user/b"}, {"/workspace", "/workspace"},
    };
    char path[LIMIT_PATH_BYTES + 1];
    struct error err;

    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        assert_int_equal(e2b_file_path(pairs[i][0], path, &err), 0);
        assert_string_equal(path, pairs[i][1]);
    }
    assert_true(e2b_file_path("/etc/passwd", path, &err) < 0);
    assert_true(e2b_file_path("../../etc/passwd", path, &err) < 0);
    assert_int_equal(e2b_path("/etc", path, &err), 0);
}

static void test_envelopes(void **state)
{
    static const char two[] = "\0\0\0\0\2{}\0\0\0\0\0";
    const char *at = two, *message;
    size_t left = sizeof(two) - 1, length;

    (void)state;
    assert_int_equal(e2b_envelope_next(&at, &left, &message, &length), 1);
    assert_true(length == 2 && memcmp(message, "{}", 2) == 0);
    assert_int_equal(e2b_envelope_next(&at, &left, &message, &length), 1);
    assert_int_equal(length, 0);
    assert_int_equal(e2b_envelope_next(&at, &left, &message, &length), 0);
    assert_int_equal(e2b_envelope_read(two, 7, &message, &length), 0);
    assert_int_equal(e2b_envelope_read(two, 6, &message, &length), -EPROTO);
    assert_int_equal(e2b_envelope_read(two, sizeof(two) - 1, &message, &length), -EPROTO);
    assert_int_equal(e2b_envelope_read("\1\0\0\0\0", 5, &message, &length), -EPROTO);
    assert_int_equal(e2b_envelope_read("\0\377\377\377\377", 5, &message, &length), -EPROTO);
    assert_int_equal(e2b_envelope_read("", 0, &message, &length), -EPROTO);
}

static void test_members(void **state)
{
    json_t *json =
        json_loads("{\"aB\":1,\"c_d\":true,\"e\":null,\"n\":\"12\",\"b\":\"_-8=\"}", 0, NULL);
    struct buf bytes = BUF_INIT(100);

    (void)state;
    assert_int_equal(e2b_number(json, "aB", "a_b"), 1);
    assert_true(e2b_flag(json, "cD", "c_d", false));
    assert_null(e2b_member(json, "e", NULL));
    assert_true(e2b_flag(json, "e", NULL, true));
    assert_int_equal(e2b_number(json, "n", NULL), 12);
    assert_int_equal(e2b_number(json, "e", NULL), -1);
    assert_int_equal(e2b_bytes(json_object_get(json, "b"), &bytes), 0);
    assert_true(bytes.length == 2 && memcmp(bytes.data, "\xff\xef", 2) == 0);
    assert_int_equal(e2b_bytes(json_object_get(json, "aB"), &bytes), -EINVAL);
    buf_free(&bytes);
    json_decref(json);
}

static void test_permissions(void **state)
{
    char text[11];

    (void)state;
    e2b_permissions(0100644, text);
    assert_string_equal(text, "-rw-r--r--");
    e2b_permissions(040755, text);
    assert_string_equal(text, "drwxr-xr-x");
    e2b_permissions(0120777, text);
    assert_string_equal(text, "Lrwxrwxrwx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hosts),       cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_signatures),  cmocka_unit_test(test_paths),
        cmocka_unit_test(test_envelopes),   cmocka_unit_test(test_members),
        cmocka_unit_test(test_permissions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
