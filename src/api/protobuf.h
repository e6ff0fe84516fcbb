/*
 * protobuf.h - messages of Protocol Buffers (proto3) to JSON and back, by tables of their fields.
 * JSON as protobuf's own mapping has it: names in lowerCamelCase, bytes as base64, enumerations by
 * name, timestamps as RFC 3339. Pure: called by doors whose clients speak binary Connect.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_PROTOBUF_H
#define BAILEY_API_PROTOBUF_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

enum protobuf_kind {
    PROTOBUF_TEXT,
    PROTOBUF_BYTES,
    PROTOBUF_INTEGER, /* int32, int64, uint32: a varint */
    PROTOBUF_SIGNED,  /* sint32: zigzag */
    PROTOBUF_BOOL,
    PROTOBUF_ENUM,
    PROTOBUF_DOUBLE,
    PROTOBUF_MESSAGE,
    PROTOBUF_MAP, /* map<string, string> */
    PROTOBUF_TIME /* google.protobuf.Timestamp; written only */
};

struct protobuf_message;
/* A name of an enumeration; the last row has none. */
struct protobuf_value {
    const char *name;
    int number;
};
struct protobuf_field {
    unsigned number; /* 1 to 15: one byte on the wire; 16 and more take two */
    const char *name;
    enum protobuf_kind kind;
    bool is_list;
    const struct protobuf_message *message; /* PROTOBUF_MESSAGE */
    const struct protobuf_value *values;    /* PROTOBUF_ENUM */
};
struct protobuf_message {
    const struct protobuf_field *fields;
    size_t count;
};

#define PROTOBUF_DEPTH_MAX 16      /* messages inside of messages */
#define PROTOBUF_VALUES_MAX 100000 /* of one message with all inside of it */

/*
 * A message as a JSON object: fields that are not in the table are left out. NULL: bad_input, or no
 * memory. New reference.
 */
json_t *protobuf_read(const struct protobuf_message *message, const void *data, size_t length,
                      struct error *err);
/*
 * Appends an object's members that are in the table; others are left out, as is what does not have
 * its field's type. 0, -EFBIG, -ENOMEM, or -EINVAL: deeper than PROTOBUF_DEPTH_MAX.
 */
int protobuf_write(const struct protobuf_message *message, json_t *object, struct buf *to);

#endif
