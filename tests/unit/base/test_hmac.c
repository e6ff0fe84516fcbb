/* test_hmac.c - the vectors of RFC 4231 for HMAC-SHA-256, and the comparison. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/hmac.h"

static void assert_hmac(const void *key, size_t key_length, const void *data, size_t length,
                        const char *expected)
{
    uint8_t digest[SHA256_BYTES];
    char text[SHA256_TEXT];

    hmac_sha256(key, key_length, data, length, digest);
    sha256_text(digest, text);
    text[strlen(expected)] = '\0'; /* test case 5 is cut to 128 bits */
    assert_string_equal(text, expected);
}

static void test_vectors(void **state)
{
    static const char large_key[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    static const char large_data[] =
        "This is a test using a larger than block-size key and a larger than block-size data. The "
        "key needs to be hashed before being used by the HMAC algorithm.";
    uint8_t key[131], data[50];

    (void)state;
    memset(key, 0x0b, 20);
    assert_hmac(key, 20, "Hi There", 8,
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_hmac("Jefe", 4, "what do ya want for nothing?", 28,
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    memset(data, 0xdd, sizeof(data));
    assert_hmac(key, 20, data, sizeof(data),
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    for (uint8_t i = 0; i < 25; i++)
        key[i] = i + 1;
    memset(data, 0xcd, sizeof(data));
    assert_hmac(key, 25, data, sizeof(data),
                "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    memset(key, 0x0c, 20);
    assert_hmac(key, 20, "Test With Truncation", 20, "a3b6167473100ee06e0c796c2955552b");
    memset(key, 0xaa, sizeof(key));
    assert_hmac(key, sizeof(key), large_key, strlen(large_key),
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    assert_hmac(key, sizeof(key), large_data, strlen(large_data),
                "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

static void test_empty(void **state)
{
    (void)state;
    assert_hmac("", 0, "", 0, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void test_equal(void **state)
{
    uint8_t a[SHA256_BYTES] = {0}, b[SHA256_BYTES] = {0};

    (void)state;
    assert_true(hmac_equal(a, b));
    for (int i = 0; i < SHA256_BYTES; i++) {
        for (int bit = 0; bit < 8; bit++) {
            b[i] = (uint8_t)(1 << bit);
            assert_false(hmac_equal(a, b));
        }
        b[i] = 0;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_equal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
