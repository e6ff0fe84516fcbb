/* test_ws_handshake.c - SHA-1, and the words with which a request becomes a WebSocket. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/sha1.h"
#include "http/ws_handshake.h"

static void check_sha1(const char *text, size_t length, const char *wanted)
{
    uint8_t digest[SHA1_BYTES];
    char hex[2 * SHA1_BYTES + 1];

    sha1(text, length, digest);
    for (int i = 0; i < SHA1_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hex, wanted);
}

static void test_sha1(void **state)
{
    char *million = malloc(1000000);

    (void)state;
    assert_non_null(million);
    memset(million, 'a', 1000000);
    /* FIPS 180-4's examples, and lengths around the block's end (from sha1sum). */
    check_sha1("", 0, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    check_sha1("abc", 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
    check_sha1("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
               "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    check_sha1(million, 1000000, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
    check_sha1(million, 55, "c1c8bbdc22796e28c0e15163d20899b65621d65a");
    check_sha1(million, 63, "03f09f5b158a7a8cdad920bddc29b81c18a551f5");
    check_sha1(million, 64, "0098ba824b5c16427bd7a1122a5a442a25ec644d");
    check_sha1(million, 65, "11655326c708d70319be2610e8a57d9a5b959d3b");
    free(million);
}

static void test_accept(void **state)
{
    char text[WS_ACCEPT_MAX];

    (void)state;
    ws_accept("dGhlIHNhbXBsZSBub25jZQ==", text); /* RFC 6455 section 1.3 */
    assert_string_equal(text, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

static void test_key(void **state)
{
    (void)state;
    assert_true(ws_key_is_good("dGhlIHNhbXBsZSBub25jZQ=="));
    assert_false(ws_key_is_good(NULL));
    assert_false(ws_key_is_good(""));
    assert_false(ws_key_is_good("dGhlIHNhbXBsZSBub25jZQ="));
    assert_false(ws_key_is_good("dGhlIHNhbXBsZSBub25jZQ=A"));
    assert_false(ws_key_is_good("dGhlIHNhbXBsZSBub25jZTEy")); /* 18 bytes */
    assert_false(ws_key_is_good("dGhlIHNhbXBsZSBub25jZTE=")); /* 17 bytes */
    assert_false(ws_key_is_good("dGhlIHNhbXBs ZSBub25jZQ=="));
    assert_false(ws_key_is_good("dGhlIHNhbXBsZSBub25jZQ==dGhl"));
}

static void test_lists(void **state)
{
    (void)state;
    assert_true(ws_list_has("Upgrade", "upgrade"));
    assert_true(ws_list_has("keep-alive, Upgrade", "upgrade"));
    assert_true(ws_list_has("keep-alive ,\tUPGRADE \t,x", "upgrade"));
    assert_true(ws_list_has(",,upgrade,,", "upgrade"));
    assert_false(ws_list_has(NULL, "upgrade"));
    assert_false(ws_list_has("", "upgrade"));
    assert_false(ws_list_has(" , \t,", "upgrade"));
    assert_false(ws_list_has("upgrades", "upgrade"));
    assert_false(ws_list_has("up, grade", "upgrade"));
    assert_false(ws_list_has("keep-alive;upgrade", "upgrade"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sha1),
        cmocka_unit_test(test_accept),
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
