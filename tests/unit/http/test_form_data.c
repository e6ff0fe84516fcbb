/* test_form_data.c - parts of a form, in every cut of the body and at every pace of the reader. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "http/form_data.h"

#define TYPE "multipart/form-data; boundary=xYz"
#define PART(disposition, content) \
    "--xYz\r\nContent-Disposition: form-data; " disposition "\r\n\r\n" content "\r\n"
#define END "--xYz--\r\n"

struct reader {
    struct buf told;
    size_t at_once;
    unsigned calls; /* of data() */
    int verdict;    /* of begin() */
};

static int on_begin(void *ctx, const struct form_data_part *part)
{
    struct reader *reader = ctx;

    buf_printf(&reader->told, "<%s|%s>", part->name, part->filename ? part->filename : "");
    return reader->verdict;
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct reader *reader = ctx;
    size_t taken = reader->at_once < length ? reader->at_once : length;

    buf_append(&reader->told, data, taken);
    reader->calls++;
    return taken;
}

static int on_end(void *ctx)
{
    return buf_append_text(&((struct reader *)ctx)->told, ";");
}

static const struct form_data_events events = {on_begin, on_data, on_end};

static bool read_form(const char *body, size_t piece, size_t at_once, struct reader *reader)
{
    struct form_data form;
    size_t size = strlen(body);
    bool is_whole;

    *reader = (struct reader){.told = BUF_INIT(10000), .at_once = at_once};
    assert_int_equal(form_data_begin(&form, TYPE, &events, reader), 0);
    for (size_t at = 0; at < size;) {
        ssize_t used = form_data_feed(&form, body + at, size - at < piece ? size - at : piece);

        assert_true(used >= 0);
        at += (size_t)used;
    }
    is_whole = form_data_is_whole(&form);
    form_data_free(&form);
    form_data_free(&form);
    return is_whole;
}

static void expect(const char *body, const char *wanted)
{
    struct reader reader;

    for (size_t piece = 1; piece < 40; piece++) {
        for (size_t at_once = 1; at_once < 9; at_once += 3) {
            assert_true(read_form(body, piece, at_once, &reader));
            assert_string_equal(buf_text(&reader.told), wanted);
            buf_free(&reader.told);
        }
    }
}

static void test_parts(void **state)
{
    (void)state;
    expect(PART("name=\"file\"; filename=\"/a/b.txt\"", "text") END, "<file|/a/b.txt>text;");
    expect(PART("name=\"a\"", "") PART("name=b", "2") END, "<a|>;<b|>2;");
    expect("preamble\r\n" PART("name=\"a\"", "1") "--xYz-- \r\nepilogue", "<a|>1;");
    expect(END, "");
}

static void test_content_that_looks_like_a_boundary(void **state)
{
    (void)state;
    expect(PART("name=\"a\"", "\r\n--xY\r\r\n--xy\r\n-\r\n\r") END,
           "<a|>\r\n--xY\r\r\n--xy\r\n-\r\n\r;");
}

/* Each piece is a write into a box: a binary file must not come in pieces of 256 bytes. */
static void test_content_with_line_ends_comes_in_one_piece(void **state)
{
    struct reader reader;

    (void)state;
    assert_true(read_form(PART("name=\"a\"", "a\rb\r\nc\r\n--xYd\r\r") END, 1000, 1000, &reader));
    assert_string_equal(buf_text(&reader.told), "<a|>a\rb\r\nc\r\n--xYd\r\r;");
    assert_int_equal(reader.calls, 1);
    buf_free(&reader.told);
}

static void test_names(void **state)
{
    (void)state;
    expect(PART("name=\"file\"; filename=\"h\xc3\xa4;=.txt\"", "") END, "<file|h\xc3\xa4;=.txt>;");
    expect(PART("filename=\"a%22b%20c\\\"d\\\\e\"; name=\"x\"", "") END, "<x|a\"b%20c\"d\\e>;");
    expect(PART("name=f; filename=plain; filename*=UTF-8''h%C3%A4%2F", "") END, "<f|h\xc3\xa4/>;");
    expect(PART("name=f; filename=x; filename*=utf-8''r%00.txt", "") END, "<f|x>;");
    expect("--xYz\r\nX: y\r\n\r\nno name\r\n" END, "<|>no name;");
    expect("--xYz\r\nContent-Type: a/b\r\ncontent-disposition:form-data;name=f\r\n\r\n1\r\n" END,
           "<f|>1;");
    expect("--xYz  \r\nX: y\r\n\r\n--\r\n--\r\nx\r\n" END, "<|>--\r\n--\r\nx;");
}

static void refused(const char *body, ssize_t wanted)
{
    struct reader reader = {.told = BUF_INIT(100000), .at_once = SIZE_MAX};
    struct form_data form;

    assert_int_equal(form_data_begin(&form, TYPE, &events, &reader), 0);
    assert_int_equal(form_data_feed(&form, body, strlen(body)), wanted);
    form_data_free(&form);
    buf_free(&reader.told);
}

static void test_bad_bodies(void **state)
{
    static char head[2 * FORM_DATA_HEAD];
    struct reader reader;

    (void)state;
    refused("--xYzz\r\n", -EINVAL);
    refused("--xYz\n", -EINVAL);
    refused("--xYz \t-\r\n", -EINVAL);
    memset(head, 'x', sizeof(head) - 1);
    memcpy(head, "--xYz\r\n", 7);
    refused(head, -EFBIG);
    assert_false(read_form(PART("name=a", "cut"), 9, 9, &reader));
    buf_free(&reader.told);
    assert_false(read_form(PART("name=a", "1") "--xYz", 9, 9, &reader));
    buf_free(&reader.told);
    assert_false(read_form(PART("name=a", "1") "--xYz-", 9, 9, &reader));
    buf_free(&reader.told);
    assert_false(read_form("", 9, 9, &reader));
}

static void test_types(void **state)
{
    static const char *const bad[] = {"text/plain",
                                      "multipart/mixed; boundary=x",
                                      "multipart/form-data",
                                      "multipart/form-datas; boundary=x",
                                      "multipart/form-data; boundary=",
                                      "multipart/form-data; boundary=\"a\rb\"",
                                      NULL};
    struct form_data form;

    (void)state;
    for (size_t i = 0; bad[i]; i++)
        assert_int_equal(form_data_begin(&form, bad[i], &events, NULL), -EINVAL);
    assert_int_equal(form_data_begin(&form, NULL, &events, NULL), -EINVAL);
    assert_int_equal(form_data_begin(&form,
                                     "multipart/form-data; boundary="
                                     "01234567890123456789012345678901234567890123456789"
                                     "012345678901234567890",
                                     &events, NULL),
                     -EINVAL);
    assert_int_equal(
        form_data_begin(&form, "Multipart/Form-Data; a=b; boundary=\"q q\"", &events, NULL), 0);
}

static void test_a_reader_that_pauses_or_refuses(void **state)
{
    static const char body[] = PART("name=a", "text") END;
    struct reader reader = {.told = BUF_INIT(100), .at_once = 99, .verdict = 1};
    struct form_data form;
    ssize_t used;

    (void)state;
    assert_int_equal(form_data_begin(&form, TYPE, &events, &reader), 0);
    used = form_data_feed(&form, body, strlen(body));
    assert_true(used > 0 && strncmp(body + used, "text", 4) == 0);
    assert_int_equal(form_data_feed(&form, body + used, strlen(body + used)), strlen(body + used));
    assert_string_equal(buf_text(&reader.told), "<a|>text;");
    form_data_free(&form);
    reader.verdict = -ENOSPC;
    assert_int_equal(form_data_begin(&form, TYPE, &events, &reader), 0);
    assert_int_equal(form_data_feed(&form, body, strlen(body)), -ENOSPC);
    form_data_free(&form);
    buf_free(&reader.told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),
        cmocka_unit_test(test_content_that_looks_like_a_boundary),
        cmocka_unit_test(test_content_with_line_ends_comes_in_one_piece),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_bad_bodies),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_a_reader_that_pauses_or_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
