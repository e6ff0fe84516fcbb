/* test_fields.c - structs as rows: there and back, and values that a row does not allow. */
#include "unit.h"

#include <string.h>

#include "base/cleanup.h"
#include "wire/fields.h"

struct sample {
    uint8_t small;
    bool is_set;
    uint16_t port;
    uint32_t count;
    uint64_t bytes;
    int32_t num;
    char word[8], name[8];
};

static const struct field rows[] = {
    FIELD_NUMBER_OF(struct sample, small, 9),
    FIELD_NUMBER_OF(struct sample, is_set, 1),
    {.kind = FIELD_NUMBER, FIELD_OF(struct sample, port), .width = 4},
    FIELD_NUMBER_OF(struct sample, count, 0),
    FIELD_NUMBER_OF(struct sample, bytes, 0),
    {.kind = FIELD_ERRNO, FIELD_OF(struct sample, num)},
    FIELD_TEXT_OF(struct sample, word, "abc"),
    {.kind = FIELD_BYTES, FIELD_OF(struct sample, name), .width = 2},
};

/* Where each row's bytes begin in the sample below. */
enum { SMALL_AT, SET_AT, PORT_AT, COUNT_AT = 6, BYTES_AT = 10, NUM_AT = 18, WORD_AT = 22 };
enum { NAME_AT = WORD_AT + 4, WHOLE = NAME_AT + 2 + 2 };

static const struct sample sample = {.small = 9,
                                     .is_set = true,
                                     .port = 65535,
                                     .count = 0x01020304,
                                     .bytes = UINT64_C(0x1122334455667788),
                                     .num = -13,
                                     .word = "cab",
                                     .name = "\xc3\xa9"};

static void pack_sample(uint8_t data[WHOLE])
{
    struct pack pack = {.data = data, .capacity = WHOLE};

    fields_pack(&pack, rows, ARRAY_SIZE(rows), &sample);
    assert_false(pack.failed);
    assert_int_equal(pack.length, WHOLE);
}

static bool is_read(const uint8_t *data, size_t length, struct sample *ret)
{
    struct unpack unpack = {.data = data, .left = length};

    return fields_unpack(&unpack, rows, ARRAY_SIZE(rows), ret) && unpack_done(&unpack);
}

static void test_there_and_back(void **state)
{
    uint8_t data[WHOLE];
    struct sample back;

    (void)state;
    memset(&back, 0, sizeof(back));
    pack_sample(data);
    assert_int_equal(data[COUNT_AT], 4); /* little endian */
    assert_int_equal(data[NUM_AT], 13);
    assert_true(is_read(data, sizeof(data), &back));
    assert_int_equal(back.small, 9);
    assert_true(back.is_set);
    assert_int_equal(back.port, 65535);
    assert_int_equal(back.count, sample.count);
    assert_int_equal(back.bytes, sample.bytes);
    assert_int_equal(back.num, -13);
    assert_string_equal(back.word, "cab");
    assert_string_equal(back.name, sample.name);
    for (size_t cut = 0; cut < sizeof(data); cut++)
        assert_false(is_read(data, cut, &back));
}

static void test_values_that_cannot_be(void **state)
{
    static const struct {
        size_t at;
        uint8_t value;
    } wrong[] = {
        {SMALL_AT, 10},   {SET_AT, 2},      {PORT_AT + 2, 1}, /* 17 bits do not fit */
        {NUM_AT + 1, 16}, {WORD_AT, 8},     {WORD_AT + 1, 'd'}, {WORD_AT + 1, 0},
        {NAME_AT, 8},     {NAME_AT + 1, 1}, {NAME_AT + 2, 0},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
        uint8_t data[WHOLE + 8] = {0};
        struct sample back;

        pack_sample(data);
        data[wrong[i].at] = wrong[i].value;
        assert_false(is_read(data, WHOLE, &back));
    }
}

static void test_a_text_without_an_end_is_cut(void **state)
{
    struct sample full = sample, back;
    uint8_t data[WHOLE + 8];
    struct pack pack = {.data = data, .capacity = sizeof(data)};

    (void)state;
    memset(full.word, 'a', sizeof(full.word));
    fields_pack(&pack, rows, ARRAY_SIZE(rows), &full);
    assert_false(pack.failed);
    assert_true(is_read(data, pack.length, &back));
    assert_string_equal(back.word, "aaaaaaa");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_values_that_cannot_be),
        cmocka_unit_test(test_a_text_without_an_end_is_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
