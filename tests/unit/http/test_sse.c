/* test_sse.c - events to text and back, in any pieces. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "http/sse.h"

static struct buf heard;

static void hear(void *ctx, const char *id, const char *event, const char *data, size_t length)
{
    assert_ptr_equal(ctx, &heard);
    assert_int_equal(strlen(data), length);
    buf_printf(&heard, "[%s|%s|%s]", id, event, data);
}

/* What a reader makes of the text, in one piece and byte by byte. */
static void expect(const char *text, const char *events)
{
    for (int is_slow = 0; is_slow < 2; is_slow++) {
        struct sse_reader reader = SSE_READER_INIT(100);
        size_t step = is_slow ? 1 : strlen(text);

        heard = BUF_INIT(1000);
        for (size_t at = 0; at < strlen(text); at += step)
            assert_int_equal(sse_read(&reader, text + at, step, hear, &heard), 0);
        assert_string_equal(buf_text(&heard), events);
        buf_free(&heard);
        sse_reader_free(&reader);
    }
}

static void test_read(void **state)
{
    (void)state;
    expect("data: a\n\n", "[|message|a]");
    expect("event: e\r\nid: 7\r\ndata: a\r\ndata:  b\r\n\r\ndata\r\n\r\n",
           "[7|e|a\n b][7|message|]");
    expect("data: a\r\rdata: b\r\n\r\n", "[|message|a][|message|b]");
    expect(": comment\n\nevent: lost\n\nretry: 5\ndata:x\n\n", "[|message|x]");
    expect("id: 1\n\nid\ndata: x\n\n", "[|message|x]");
    expect("data: never ended\n", "");
    expect("\n\n\r\n\r\r", "");
}

static void test_write(void **state)
{
    struct buf text = BUF_INIT(64);

    (void)state;
    assert_int_equal(sse_write(&text, "3", "x", "{\"a\":1}", 7), 0);
    assert_string_equal(buf_text(&text), "id: 3\nevent: x\ndata: {\"a\":1}\n\n");
    expect(buf_text(&text), "[3|x|{\"a\":1}]");
    buf_clear(&text);
    assert_int_equal(sse_write(&text, NULL, NULL, "a\nb\r\n\rc\n", 8), 0);
    expect(buf_text(&text), "[|message|a\nb\n\nc\n]");
    buf_clear(&text);
    assert_int_equal(sse_write(&text, NULL, NULL, "", 0), 0);
    expect(buf_text(&text), "[|message|]");
    assert_int_equal(sse_write(&text, "1\n2", NULL, "", 0), -EINVAL);
    assert_int_equal(sse_write(&text, "1", "a\rb", "", 0), -EINVAL);
    assert_int_equal(sse_write(&text, NULL, NULL,
                               "0123456789012345678901234567890123456789"
                               "0123456789012345678901234567890",
                               70),
                     -EFBIG);
    assert_string_equal(buf_text(&text), "data: \n\n");
    buf_free(&text);
}

static void test_ceilings(void **state)
{
    static const char *const texts[] = {
        "data: 0123456789012345678901234567890123456789",
        "data: 0123456789\ndata: 0123456789\ndata: 0123456789\ndata: 0123456789\n",
        "id: "
        "012345678901234567890123456789012345678901234567890123456789012345678901234567890123456"
        "789012345678901234567890123456789\n",
    };

    (void)state;
    heard = BUF_INIT(1000);
    for (int i = 0; i < 3; i++) {
        struct sse_reader reader = SSE_READER_INIT(i == 2 ? 1000 : 40);

        assert_int_equal(sse_read(&reader, texts[i], strlen(texts[i]), hear, &heard), -EFBIG);
        assert_int_equal(sse_read(&reader, "\n\ndata: x\n\n", 11, hear, &heard), -EFBIG);
        sse_reader_free(&reader);
    }
    assert_int_equal(heard.length, 0);
    buf_free(&heard);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_ceilings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
