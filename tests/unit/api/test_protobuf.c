/*
 * test_protobuf.c - messages of Protocol Buffers to JSON and back: the bytes that protoc's own
 * library makes, and bytes that are no message.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "api/protobuf.h"
#include "api/scalebox/scalebox.h"
#include "base/cleanup.h"

static const struct e2b_method *method_of(const char *path)
{
    for (const struct e2b_method *method = scalebox_methods; method->path; method++)
        if (strcmp(method->path, path) == 0)
            return method;
    fail_msg("no method %s", path);
    return NULL;
}

#define START "/sandboxagent.Process/Start"

/* StartRequest{process{cmd:"ls", args:["-l",""], envs{"A":"b"}, cwd:"/tmp"}, pty{size{80,24}}} */
static const uint8_t start[] = {0x0a, 0x18, 0x0a, 0x02, 'l',  's',  0x12, 0x02, '-',  'l',
                                0x12, 0x00, 0x1a, 0x06, 0x0a, 0x01, 'A',  0x12, 0x01, 'b',
                                0x22, 0x04, '/',  't',  'm',  'p',  0xf8, 0x01, 0x07, 0x12,
                                0x06, 0x0a, 0x04, 0x08, 80,   0x10, 24};

static void a_message_is_read_and_unknown_fields_are_left_out(void **state)
{
    struct error err = {0};
    uint8_t bytes[sizeof(start)];
    json_t *json;
    char *text;

    (void)state;
    memcpy(bytes, start, sizeof(start));
    bytes[1] = 0x19; /* with half of the next field inside */
    json = protobuf_read(method_of(START)->request, start, sizeof(start), &err);
    assert_non_null(json);
    text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
    assert_string_equal(text,
                        "{\"process\":{\"args\":[\"-l\",\"\"],\"cmd\":\"ls\",\"cwd\":\"/tmp\","
                        "\"envs\":{\"A\":\"b\"}},\"pty\":{\"size\":{\"cols\":80,\"rows\":24}}}");
    free(text);
    json_decref(json);
    assert_null(protobuf_read(method_of(START)->request, bytes, sizeof(bytes), &err));
    assert_string_equal(err.code, ERROR_BAD_INPUT);
}

static void a_message_that_is_cut_off_is_none(void **state)
{
    size_t good = 0;

    (void)state;
    for (size_t length = 0; length < sizeof(start); length++) {
        struct error err = {0};
        json_t *json = protobuf_read(method_of(START)->request, start, length, &err);

        good += json != NULL;
        json_decref(json);
    }
    assert_int_equal(good, 3); /* nothing, `process`, and `process` with the unknown field */
}

static void what_is_no_message_is_refused(void **state)
{
    static const struct {
        const char *bytes;
        size_t length;
    } bad[] = {
        {"\x0b", 1},                                              /* a group */
        {"\x00\x00", 2},                                          /* field 0 */
        {"\x08\x01", 2},                                          /* `process` is no number */
        {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11},     /* longer than memory */
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 12}, /* a number of 77 bits */
        {"\x1a\x02\xff\xfe", 4},                                  /* `tag` is not UTF-8 */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        struct error err = {0};

        assert_null(protobuf_read(method_of(START)->request, bad[i].bytes, bad[i].length, &err));
        assert_string_equal(err.code, ERROR_BAD_INPUT);
    }
}

/* Each of these bytes pairs is a value of its own: their number has a limit. */
static void a_message_of_many_small_values_is_refused(void **state)
{
    static const struct protobuf_field fields[] = {{.number = 1, .name = "x", .is_list = true}};
    static const struct protobuf_message message = {fields, 1};
    size_t length = 2 * (PROTOBUF_VALUES_MAX + 1);
    uint8_t *bytes = calloc(1, length);
    struct error err = {0};
    json_t *json;

    (void)state;
    for (size_t i = 0; i < length; i += 2)
        bytes[i] = 0x0a;
    assert_null(protobuf_read(&message, bytes, length, &err));
    json = protobuf_read(&message, bytes, length - 2, &err);
    assert_int_equal(json_array_size(json_object_get(json, "x")), PROTOBUF_VALUES_MAX);
    json_decref(json);
    free(bytes);
}

static const struct protobuf_message nested; /* inside of itself */
static const struct protobuf_field nested_fields[] = {
    {.number = 1, .name = "x", .kind = PROTOBUF_MESSAGE, .message = &nested}};
static const struct protobuf_message nested = {nested_fields, 1};

static void messages_inside_of_messages_have_a_limit(void **state)
{
    uint8_t bytes[2 * PROTOBUF_DEPTH_MAX];
    struct buf to = BUF_INIT(4096);
    struct error err = {0};
    json_t *deep = json_object();

    (void)state;
    for (size_t i = 0; i < sizeof(bytes); i += 2) {
        bytes[i] = 0x0a;
        bytes[i + 1] = (uint8_t)(sizeof(bytes) - i - 2);
        deep = json_pack("{s:o}", "x", deep);
    }
    assert_null(protobuf_read(&nested, bytes, sizeof(bytes), &err));
    assert_int_equal(protobuf_write(&nested, deep, &to), -EINVAL);
    json_decref(deep);
    buf_free(&to);
}

static void must_write(const char *path, const char *text, const void *bytes, size_t length)
{
    json_t *json = json_loads(text, 0, NULL);
    struct buf to = BUF_INIT(4096);

    assert_non_null(json);
    assert_int_equal(protobuf_write(method_of(path)->reply, json, &to), 0);
    assert_int_equal(to.length, length);
    assert_memory_equal(buf_text(&to), bytes, length);
    buf_free(&to);
    json_decref(json);
}

static void replies_are_written_as_clients_read_them(void **state)
{
    static const uint8_t end[] = {0x0a, 0x09, 0x1a, 0x07, 0x08, 0x01, 0x1a, 0x03, 'b', 'a', 'd'};
    static const uint8_t data[] = {0x0a, 0x06, 0x12, 0x04, 0x0a, 0x02, 0xff, 0xef};

    (void)state;
    must_write(START, "{\"event\":{\"end\":{\"exitCode\":-1,\"exited\":false,\"status\":\"bad\"}}}",
               end, sizeof(end));
    must_write(START, "{\"event\":{\"data\":{\"stdout\":\"/+8=\"}}}", data, sizeof(data));
    must_write(START, "{\"event\":{\"data\":{\"stdout\":7},\"other\":1}}",
               (const uint8_t[]){0x0a, 0x02, 0x12, 0x00}, 4); /* a wrong type says nothing */
    must_write("/sandboxagent.Filesystem/Stat",
               "{\"entry\":{\"name\":\"a\",\"type\":\"FILE_TYPE_DIRECTORY\",\"size\":\"300\","
               "\"mode\":null}}",
               (const uint8_t[]){0x0a, 0x08, 0x0a, 0x01, 'a', 0x10, 0x02, 0x20, 0xac, 0x02}, 10);
    must_write("/sandboxagent.Filesystem/Stat",
               "{\"entry\":{\"modifiedTime\":\"2026-01-02T03:04:05.500Z\"}}",
               (const uint8_t[]){0x0a, 0x0e, 0x4a, 0x0c, 0x08, 0xa5, 0xeb, 0xdc, 0xca, 0x06, 0x10,
                                 0x80, 0xca, 0xb5, 0xee, 0x01},
               16);
    must_write(
        "/sandboxagent.ExecutionService/Execute",
        "{\"result\":{\"text\":\"x\",\"isMainResult\":true,\"extra\":{\"a\":\"b\",\"c\":1}}}",
        (const uint8_t[]){0x1a, 0x0f, 0x22, 0x01, 'x', 0x88, 0x01, 0x01, 0x92, 0x01, 0x06, 0x0a,
                          0x01, 'a', 0x12, 0x01, 'b'},
        17);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_read_and_unknown_fields_are_left_out),
        cmocka_unit_test(a_message_that_is_cut_off_is_none),
        cmocka_unit_test(what_is_no_message_is_refused),
        cmocka_unit_test(a_message_of_many_small_values_is_refused),
        cmocka_unit_test(messages_inside_of_messages_have_a_limit),
        cmocka_unit_test(replies_are_written_as_clients_read_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
