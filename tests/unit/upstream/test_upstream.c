/* test_upstream.c - addresses, pauses and messages of the process that speaks to a model server. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "upstream/channel.h"
#include "upstream/upstream.h"

static void test_an_address_is_split_into_place_and_path(void **state)
{
    static const char *const rows[][3] = {
        {"http://h:1/v1", "http://h:1", "/v1"},
        {"https://h/v1/", "https://h", "/v1"},
        {"http://h", "http://h", ""},
        {"http://h/", "http://h", ""},
        {"http://[::1]:8/a/b", "http://[::1]:8", "/a/b"},
    };
    char place[64], path[64];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(upstream_split(rows[i][0], place, sizeof(place), path, sizeof(path)), 0);
        assert_string_equal(place, rows[i][1]);
        assert_string_equal(path, rows[i][2]);
    }
    assert_int_equal(upstream_split("h/v1", place, sizeof(place), path, sizeof(path)), -EINVAL);
    assert_int_equal(upstream_split("http://host/v1", place, 8, path, sizeof(path)), -EINVAL);
}

static void test_retry_after_is_a_number_of_seconds(void **state)
{
    (void)state;
    assert_int_equal(upstream_retry_ms("2"), 2000);
    assert_int_equal(upstream_retry_ms("0.5"), 500);
    assert_int_equal(upstream_retry_ms("0"), 0);
    assert_int_equal(upstream_retry_ms(NULL), 0);
    assert_int_equal(upstream_retry_ms("Wed, 21 Oct 2026 07:28:00 GMT"), 0);
    assert_int_equal(upstream_retry_ms("-1"), 0);
}

static void test_messages_are_those_of_the_other_side(void **state)
{
    static const uint8_t event[] = {CHANNEL_EVENT, 1, 2, 0, 0, 'x'};
    static const uint8_t go[] = {CHANNEL_GO, 1, 0, 0, 0};
    struct upstream_message message;

    (void)state;
    assert_int_equal(upstream_channel_unpack(event, sizeof(event), true, &message), 0);
    assert_int_equal(message.type, CHANNEL_EVENT);
    assert_int_equal(message.call, 513);
    assert_int_equal(message.length, 1);
    assert_int_equal(upstream_channel_unpack(event, sizeof(event), false, &message), -EPROTO);
    assert_int_equal(upstream_channel_unpack(go, sizeof(go), false, &message), 0);
    assert_int_equal(upstream_channel_unpack(go, sizeof(go), true, &message), -EPROTO);
    assert_int_equal(upstream_channel_unpack(go, 4, false, &message), -EPROTO);
    assert_int_equal(upstream_channel_unpack("\0aaaa", 5, false, &message), -EPROTO);
    assert_int_equal(upstream_channel_unpack("\xff"
                                             "aaaa",
                                             5, true, &message),
                     -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_address_is_split_into_place_and_path),
        cmocka_unit_test(test_retry_after_is_a_number_of_seconds),
        cmocka_unit_test(test_messages_are_those_of_the_other_side),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
