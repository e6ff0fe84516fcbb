/* test_sha256.c - the vectors of FIPS 180-4's examples, and every length around a block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/sha256.h"

static void assert_digest(const void *data, size_t length, const char *expected)
{
    uint8_t digest[SHA256_BYTES];
    char hex[2 * SHA256_BYTES + 1];

    sha256(data, length, digest);
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(hex, expected);
    sha256_text(digest, hex);
    assert_string_equal(hex, expected);
}

static void test_vectors(void **state)
{
    static const struct {
        const char *text, *digest;
    } rows[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrl"
         "m"
         "nopqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_digest(rows[i].text, strlen(rows[i].text), rows[i].digest);
}

static void test_a_million_letters(void **state)
{
    char *text = malloc(1000000);

    (void)state;
    assert_non_null(text);
    memset(text, 'a', 1000000);
    assert_digest(text, 1000000,
                  "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(text);
}

/* The digest of the digests of 0..129 zero bytes: every padding once (computed with Python's
 * hashlib). */
static void test_every_padding(void **state)
{
    uint8_t zeros[130] = {0}, digests[130 * SHA256_BYTES];

    (void)state;
    for (size_t length = 0; length < 130; length++)
        sha256(zeros, length, digests + length * SHA256_BYTES);
    assert_digest(digests, sizeof(digests),
                  "d26cf8eafa144521d64bdc66b8314175fd9e78310979a068c8b8b2ea18636450");
}

/* In pieces of every size, with the processor's instructions (where it has them) and without. */
static void test_pieces(void **state)
{
    uint8_t bytes[1500], whole[SHA256_BYTES], digest[SHA256_BYTES];

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    sha256(bytes, sizeof(bytes), whole);
    for (size_t piece = 1; piece <= 200; piece++) {
        struct sha256 hash;

        sha256_begin(&hash);
        hash.is_plain |= piece % 2 == 0;
        for (size_t at = 0; at < sizeof(bytes); at += piece)
            sha256_add(&hash, bytes + at, sizeof(bytes) - at < piece ? sizeof(bytes) - at : piece);
        sha256_end(&hash, digest);
        assert_memory_equal(digest, whole, SHA256_BYTES);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_a_million_letters),
        cmocka_unit_test(test_every_padding),
        cmocka_unit_test(test_pieces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
