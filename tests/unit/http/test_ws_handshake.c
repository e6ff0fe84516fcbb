/* test_ws_handshake.c - the words with which a request becomes a WebSocket. */
#include "unit.h"

#include <string.h>

#include "http/ws_handshake.h"

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
        cmocka_unit_test(test_accept),
        cmocka_unit_test(test_key),
        cmocka_unit_test(test_lists),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
