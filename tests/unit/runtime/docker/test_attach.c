/* test_attach.c - Docker's packets in any pieces, and ones that make no sense. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "runtime/docker/docker_private.h"

struct taken {
    char text[3][64];
};

/* Everything in pieces of `size` bytes. 0 or -EPROTO. */
static int take_all(const uint8_t *data, size_t length, size_t size, struct taken *taken)
{
    struct packets packets = {0};

    memset(taken, 0, sizeof(*taken));
    for (size_t at = 0; at < length;) {
        size_t part = length - at < size ? length - at : size;
        const uint8_t *piece = NULL;
        size_t piece_length;
        int stream = 0;
        ssize_t done = packets_take(&packets, data + at, part, &stream, &piece, &piece_length);

        if (done < 0)
            return (int)done;
        assert_true(done > 0 && (size_t)done <= part);
        if (piece_length > 0)
            strncat(taken->text[stream], (const char *)piece, piece_length);
        at += (size_t)done;
    }
    return 0;
}

static void test_any_pieces(void **state)
{
    static const uint8_t data[] = "\1\0\0\0\0\0\0\3one"
                                  "\2\0\0\0\0\0\0\5error"
                                  "\1\0\0\0\0\0\0\0"
                                  "\1\0\0\0\0\0\0\4 two";
    struct taken taken;

    (void)state;
    for (size_t size = 1; size <= sizeof(data); size++) {
        assert_int_equal(take_all(data, sizeof(data) - 1, size, &taken), 0);
        assert_string_equal(taken.text[PACKET_STDOUT], "one two");
        assert_string_equal(taken.text[PACKET_STDERR], "error");
    }
}

static void test_nonsense(void **state)
{
    static const uint8_t bad[][9] = {"\0\0\0\0\0\0\0\1", "\3\0\0\0\0\0\0\1", "\1\1\0\0\0\0\0\1",
                                     "\1\0\0\1\0\0\0\1", "HTTP/1.1"};
    struct taken taken;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        for (size_t size = 1; size <= 8; size++)
            assert_int_equal(take_all(bad[i], 8, size, &taken), -EPROTO);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_pieces),
        cmocka_unit_test(test_nonsense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
