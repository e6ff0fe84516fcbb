/*
 * protobuf.c - messages of Protocol Buffers to JSON and back; see protobuf.h.
 *
 * A message is a row of fields, each with a key: its number, and a wire type that says how long it
 * is (https://protobuf.dev/programming-guides/encoding/). A field of the table whose wire type is
 * not that of its kind makes the message invalid.
 */
#include "api/protobuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

#define WIRE_VARINT 0u
#define WIRE_64 1u
#define WIRE_BYTES 2u
#define WIRE_32 5u
#define VARINT_BITS 64
#define VALUE_MAX (64 * MIB) /* of one field; callers have lower limits */

static unsigned wire_of(enum protobuf_kind kind)
{
    switch (kind) {
    case PROTOBUF_INTEGER:
    case PROTOBUF_SIGNED:
    case PROTOBUF_BOOL:
    case PROTOBUF_ENUM:
        return WIRE_VARINT;
    case PROTOBUF_DOUBLE:
        return WIRE_64;
    default:
        return WIRE_BYTES;
    }
}

/* ---- reading ---- */

struct reader {
    const uint8_t *at;
    size_t left;
};

/* State of one message with all inside of it. */
struct reading {
    size_t values;
    unsigned depth;
};

static bool take_varint(struct reader *reader, uint64_t *ret)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < VARINT_BITS; shift += 7) {
        uint8_t byte;

        if (reader->left == 0)
            return false;
        byte = *reader->at++;
        reader->left--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *ret = value;
            return true;
        }
    }
    return false;
}

static bool take_bytes(struct reader *reader, size_t length, struct reader *ret)
{
    if (length > reader->left)
        return false;
    *ret = (struct reader){reader->at, length};
    reader->at += length;
    reader->left -= length;
    return true;
}

/* The value behind a key: a number, or bytes. */
static bool take_value(struct reader *reader, unsigned wire, uint64_t *ret_number,
                       struct reader *ret_bytes)
{
    uint64_t length;

    *ret_bytes = (struct reader){NULL, 0};
    switch (wire) {
    case WIRE_VARINT:
        return take_varint(reader, ret_number);
    case WIRE_64:
        return take_bytes(reader, 8, ret_bytes);
    case WIRE_32:
        return take_bytes(reader, 4, ret_bytes);
    case WIRE_BYTES:
        return take_varint(reader, &length) && length <= reader->left &&
               take_bytes(reader, (size_t)length, ret_bytes);
    default:
        return false; /* groups are not in proto3 */
    }
}

static const struct protobuf_field *field_of(const struct protobuf_message *message,
                                             uint64_t number)
{
    for (size_t i = 0; i < message->count; i++)
        if (message->fields[i].number == number)
            return &message->fields[i];
    return NULL;
}

static json_t *base64_json(const struct reader *bytes)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(VALUE_MAX);

    if (base64_encode(bytes->at, bytes->left, &text) < 0)
        return NULL;
    return json_stringn_nocheck(buf_text(&text), text.length);
}

static json_t *text_json(const struct reader *bytes)
{
    return json_stringn(bytes->left > 0 ? (const char *)bytes->at : "", bytes->left);
}

static json_t *double_json(const struct reader *bytes)
{
    uint64_t bits = 0;
    double value;

    for (int i = 7; i >= 0; i--)
        bits = bits << 8 | bytes->at[i];
    memcpy(&value, &bits, sizeof(value));
    return json_real(value); /* NULL: not a number */
}

static json_t *enum_json(const struct protobuf_field *field, uint64_t number)
{
    for (const struct protobuf_value *row = field->values; row->name; row++)
        if ((uint64_t)row->number == number)
            return json_string(row->name);
    return json_integer((json_int_t)number);
}

static json_t *read_message(const struct protobuf_message *message, struct reader reader,
                            struct reading *reading);

static const struct protobuf_field entry_fields[] = {{.number = 1, .name = "key"},
                                                     {.number = 2, .name = "value"}};
static const struct protobuf_message entry_message = {entry_fields, ARRAY_SIZE(entry_fields)};

/* Adds an entry of a map to the object that is there. */
static bool read_entry(json_t *object, const char *name, const struct reader *bytes,
                       struct reading *reading)
{
    CLEANUP(json_decrefp) json_t *entry = read_message(&entry_message, *bytes, reading);
    json_t *map = json_object_get(object, name), *value = json_object_get(entry, "value");
    const char *key = json_string_value(json_object_get(entry, "key"));

    if (!map) {
        map = json_object();
        if (json_object_set_new(object, name, map) < 0)
            return false;
    }
    return entry && json_object_set_new(map, key ? key : "",
                                        value ? json_incref(value) : json_string("")) == 0;
}

static json_t *read_one(const struct protobuf_field *field, uint64_t number,
                        const struct reader *bytes, struct reading *reading)
{
    switch (field->kind) {
    case PROTOBUF_TEXT:
        return text_json(bytes);
    case PROTOBUF_BYTES:
        return base64_json(bytes);
    case PROTOBUF_INTEGER:
        return json_integer((json_int_t)number);
    case PROTOBUF_SIGNED:
        return json_integer((json_int_t)(number >> 1) ^ -(json_int_t)(number & 1));
    case PROTOBUF_BOOL:
        return json_boolean(number != 0);
    case PROTOBUF_ENUM:
        return enum_json(field, number);
    case PROTOBUF_DOUBLE:
        return double_json(bytes);
    case PROTOBUF_MESSAGE:
        return read_message(field->message, *bytes, reading);
    default:
        return json_null();
    }
}

static bool read_field(json_t *object, const struct protobuf_field *field, uint64_t number,
                       const struct reader *bytes, struct reading *reading)
{
    json_t *value, *list;

    if (++reading->values > PROTOBUF_VALUES_MAX)
        return false;
    if (field->kind == PROTOBUF_MAP)
        return read_entry(object, field->name, bytes, reading);
    value = read_one(field, number, bytes, reading);
    if (!value || !field->is_list)
        return value && json_object_set_new(object, field->name, value) == 0;
    list = json_object_get(object, field->name);
    if (!list) {
        list = json_array();
        if (json_object_set_new(object, field->name, list) < 0) {
            json_decref(value);
            return false;
        }
    }
    return json_array_append_new(list, value) == 0;
}

/* NULL: it is not one. */
static json_t *read_message(const struct protobuf_message *message, struct reader reader,
                            struct reading *reading)
{
    json_t *object = json_object();
    bool is_good = object && ++reading->depth <= PROTOBUF_DEPTH_MAX;

    while (is_good && reader.left > 0) {
        const struct protobuf_field *field;
        struct reader bytes;
        uint64_t key = 0, number = 0;

        is_good = take_varint(&reader, &key) && key >> 3 > 0 &&
                  take_value(&reader, key & 7, &number, &bytes);
        field = is_good ? field_of(message, key >> 3) : NULL;
        if (field)
            is_good = wire_of(field->kind) == (key & 7) &&
                      read_field(object, field, number, &bytes, reading);
    }
    reading->depth--;
    if (is_good)
        return object;
    json_decref(object);
    return NULL;
}

json_t *protobuf_read(const struct protobuf_message *message, const void *data, size_t length,
                      struct error *err)
{
    struct reading reading = {0};
    json_t *object = read_message(message, (struct reader){data, length}, &reading);

    if (!object)
        error_set(err, -EINVAL, ERROR_BAD_INPUT,
                  "the body is not a Protocol Buffers message of this method, or has more than %d "
                  "values",
                  PROTOBUF_VALUES_MAX);
    return object;
}

/* ---- writing ---- */

static int put_varint(struct buf *to, uint64_t value)
{
    uint8_t bytes[10];
    size_t count = 0;

    do {
        bytes[count] = (uint8_t)(value & 0x7f);
        value >>= 7;
        if (value)
            bytes[count] |= 0x80;
        count++;
    } while (value);
    return buf_append(to, bytes, count);
}

static int put_bytes(struct buf *to, unsigned number, const void *data, size_t length)
{
    int r = put_varint(to, (uint64_t)number << 3 | WIRE_BYTES);

    if (r == 0)
        r = put_varint(to, length);
    return r == 0 && length > 0 ? buf_append(to, data, length) : r;
}

static int put_number(struct buf *to, unsigned number, uint64_t value)
{
    int r;

    if (value == 0)
        return 0; /* what a field that is missing means */
    r = put_varint(to, (uint64_t)number << 3 | WIRE_VARINT);
    return r == 0 ? put_varint(to, value) : r;
}

static int put_double(struct buf *to, unsigned number, double value)
{
    uint8_t bytes[8];
    uint64_t bits;
    int r = put_varint(to, (uint64_t)number << 3 | WIRE_64);

    memcpy(&bits, &value, sizeof(bits));
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(bits >> 8 * i);
    return r == 0 ? buf_append(to, bytes, sizeof(bytes)) : r;
}

/* A number, also as a text. */
static int64_t integer_of(json_t *value)
{
    int64_t number = 0;

    if (json_is_string(value) && str_to_i64(json_string_value(value), &number) == 0)
        return number;
    return (int64_t)json_integer_value(value);
}

static int put_enum(struct buf *to, const struct protobuf_field *field, json_t *value)
{
    const char *name = json_string_value(value);

    for (const struct protobuf_value *row = field->values; name && row->name; row++)
        if (str_equal(row->name, name))
            return put_number(to, field->number, (uint64_t)(int64_t)row->number);
    return 0;
}

static int put_base64(struct buf *to, const struct protobuf_field *field, json_t *value)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(VALUE_MAX);
    int r = base64_decode(json_string_value(value), json_string_length(value), &bytes);

    if (r == -EINVAL)
        return 0;
    return r < 0 ? r : put_bytes(to, field->number, buf_text(&bytes), bytes.length);
}

/* "2026-01-02T03:04:05.678Z" as seconds and nanoseconds. */
static int put_time(struct buf *to, const struct protobuf_field *field, json_t *value)
{
    CLEANUP(buf_free) struct buf inner = BUF_INIT(64);
    struct tm parts = {0};
    const char *text = json_string_value(value);
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) : NULL;
    uint64_t nanoseconds = 0;
    int r;

    if (!rest)
        return 0;
    if (*rest == '.')
        nanoseconds = (uint64_t)(strtod(rest, NULL) * 1e9 + 0.5);
    r = put_number(&inner, 1, (uint64_t)timegm(&parts));
    if (r == 0)
        r = put_number(&inner, 2, nanoseconds);
    return r == 0 ? put_bytes(to, field->number, buf_text(&inner), inner.length) : r;
}

static int put_map(struct buf *to, const struct protobuf_field *field, json_t *map)
{
    const char *key;
    json_t *value;

    json_object_foreach(map, key, value)
    {
        CLEANUP(buf_free) struct buf inner = BUF_INIT(VALUE_MAX);
        int r = put_bytes(&inner, 1, key, strlen(key));

        if (!json_is_string(value))
            continue;
        if (r == 0)
            r = put_bytes(&inner, 2, json_string_value(value), json_string_length(value));
        if (r == 0)
            r = put_bytes(to, field->number, buf_text(&inner), inner.length);
        if (r < 0)
            return r;
    }
    return 0;
}

static int write_message(const struct protobuf_message *message, json_t *object, struct buf *to,
                         unsigned depth);

static int put_message(struct buf *to, const struct protobuf_field *field, json_t *value,
                       unsigned depth)
{
    CLEANUP(buf_free) struct buf inner = BUF_INIT(VALUE_MAX);
    int r = write_message(field->message, value, &inner, depth);

    return r == 0 ? put_bytes(to, field->number, buf_text(&inner), inner.length) : r;
}

static int put_one(struct buf *to, const struct protobuf_field *field, json_t *value,
                   unsigned depth)
{
    switch (field->kind) {
    case PROTOBUF_TEXT:
        return json_is_string(value) ? put_bytes(to, field->number, json_string_value(value),
                                                 json_string_length(value))
                                     : 0;
    case PROTOBUF_BYTES:
        return json_is_string(value) ? put_base64(to, field, value) : 0;
    case PROTOBUF_INTEGER:
        return put_number(to, field->number, (uint64_t)integer_of(value));
    case PROTOBUF_SIGNED: {
        int64_t number = integer_of(value);

        return put_number(to, field->number, (uint64_t)number << 1 ^ (number < 0 ? ~0ull : 0));
    }
    case PROTOBUF_BOOL:
        return put_number(to, field->number, json_is_true(value));
    case PROTOBUF_ENUM:
        return put_enum(to, field, value);
    case PROTOBUF_DOUBLE:
        return json_is_number(value) ? put_double(to, field->number, json_number_value(value)) : 0;
    case PROTOBUF_MESSAGE:
        return json_is_object(value) ? put_message(to, field, value, depth) : 0;
    case PROTOBUF_MAP:
        return put_map(to, field, value);
    case PROTOBUF_TIME:
        return put_time(to, field, value);
    }
    return 0;
}

static int write_message(const struct protobuf_message *message, json_t *object, struct buf *to,
                         unsigned depth)
{
    int r = depth >= PROTOBUF_DEPTH_MAX ? -EINVAL : 0;

    for (size_t i = 0; i < message->count && r == 0; i++) {
        const struct protobuf_field *field = &message->fields[i];
        json_t *value = json_object_get(object, field->name), *item;
        size_t k;

        if (!value || json_is_null(value))
            continue;
        if (!field->is_list) {
            r = put_one(to, field, value, depth + 1);
            continue;
        }
        json_array_foreach(value, k, item)
        {
            r = put_one(to, field, item, depth + 1);
            if (r < 0)
                break;
        }
    }
    return r;
}

int protobuf_write(const struct protobuf_message *message, json_t *object, struct buf *to)
{
    return write_message(message, object, to, 0);
}
