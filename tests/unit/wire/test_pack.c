/* test_pack.c - numbers and bytes in and out of a payload, and what happens at its end. */
#include "unit.h"

#include <string.h>

#include "wire/pack.h"

static void test_little_endian(void **state)
{
    static const uint8_t expected[] = {0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f,
                                       0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x08, 'x'};
    uint8_t data[sizeof(expected)];
    struct pack pack = {.data = data, .capacity = sizeof(data)};

    (void)state;
    pack_u8(&pack, 0x01);
    pack_u16(&pack, 0x0203);
    pack_u32(&pack, 0x04050607);
    pack_u64(&pack, 0x08090a0b0c0d0e0f);
    pack_bytes(&pack, "x", 1);
    assert_false(pack.failed);
    assert_int_equal(pack.length, sizeof(expected));
    assert_memory_equal(data, expected, sizeof(expected));
}

static void test_round_trip(void **state)
{
    uint8_t data[32];
    struct pack pack = {.data = data, .capacity = sizeof(data)};
    struct unpack unpack = {.data = data};
    const void *rest;
    size_t length;

    (void)state;
    pack_u8(&pack, UINT8_MAX);
    pack_u16(&pack, UINT16_MAX);
    pack_u32(&pack, UINT32_MAX);
    pack_u64(&pack, UINT64_MAX);
    pack_bytes(&pack, "abc", 3);
    unpack.left = pack.length;
    assert_int_equal(unpack_u8(&unpack), UINT8_MAX);
    assert_int_equal(unpack_u16(&unpack), UINT16_MAX);
    assert_int_equal(unpack_u32(&unpack), UINT32_MAX);
    assert_true(unpack_u64(&unpack) == UINT64_MAX);
    assert_false(unpack_done(&unpack)); /* three bytes are left over */
    rest = unpack_rest(&unpack, &length);
    assert_int_equal(length, 3);
    assert_memory_equal(rest, "abc", 3);
    assert_true(unpack_done(&unpack));
}

static void test_pack_over_the_end(void **state)
{
    uint8_t data[5] = {0, 0, 0, 0, 0xaa};
    struct pack pack = {.data = data, .capacity = 4};

    (void)state;
    pack_u8(&pack, 1);
    pack_u32(&pack, 2); /* one byte too many: nothing of it is written */
    assert_true(pack.failed);
    assert_int_equal(pack.length, 1);
    pack_u8(&pack, 3); /* would fit, but a failed pack stays failed */
    assert_true(pack.failed);
    assert_int_equal(pack.length, 1);
    assert_int_equal(data[1], 0);
    assert_int_equal(data[4], 0xaa);

    pack = (struct pack){.data = data, .capacity = 4};
    pack_bytes(&pack, "12345", 5);
    assert_true(pack.failed);
    pack = (struct pack){.data = data, .capacity = 4};
    pack_bytes(&pack, "1234", 4);
    assert_false(pack.failed);
    pack_bytes(&pack, NULL, 0); /* nothing always fits */
    assert_false(pack.failed);
    pack_bytes(&pack, "1", SIZE_MAX); /* no sum may overflow */
    assert_true(pack.failed);
    assert_int_equal(data[4], 0xaa);
}

static void test_unpack_over_the_end(void **state)
{
    static const uint8_t data[] = {1, 2, 3};
    struct unpack unpack = {.data = data, .left = sizeof(data)};
    size_t length = 99;

    (void)state;
    assert_int_equal(unpack_u32(&unpack), 0);
    assert_true(unpack.failed);
    assert_int_equal(unpack_u8(&unpack), 0); /* there, but it stays failed */
    unpack_rest(&unpack, &length);
    assert_int_equal(length, 0);
    assert_false(unpack_done(&unpack));

    unpack = (struct unpack){.data = data, .left = 0};
    assert_true(unpack_done(&unpack));
    assert_int_equal(unpack_u8(&unpack), 0);
    assert_false(unpack_done(&unpack));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_little_endian),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_pack_over_the_end),
        cmocka_unit_test(test_unpack_over_the_end),
    };

    return cmocka_run_group_tests_name("wire/pack", tests, NULL, NULL);
}
