/*
 * fields.h - the members of a struct as rows: the same rows pack a message and unpack it.
 *
 * Numbers are little endian (pack.h); a text is its length in one or two bytes, then its bytes.
 * Unpacking
 * checks what a row says of the values, so that a message that came from outside is either refused
 * or one that can be; what concerns several members is the caller's to check.
 *
 * Runs in: broker, hosts, launcher, box, egress
 */
#ifndef BAILEY_WIRE_FIELDS_H
#define BAILEY_WIRE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/pack.h"

enum field_kind {
    FIELD_NUMBER, /* a bool is one of at most 1 */
    FIELD_ERRNO,  /* an int32_t, negative or 0; on the way it is positive, at most 4095 */
    FIELD_TEXT,   /* an array of char, NUL included: printable ASCII, or `letters` alone */
    FIELD_BYTES,  /* the same, with any byte but NUL */
};

struct field {
    enum field_kind kind;
    uint16_t offset, size; /* of the member */
    uint8_t width;         /* on its way: of a number, or of the length of a text */
    uint64_t most;         /* of a number: the largest one; 0: any that the member holds */
    const char *letters;   /* NULL: any that is printable */
};

#define FIELD_OF(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
#define FIELD_NUMBER_OF(type, member, largest)                                              \
    {                                                                                       \
        .kind = FIELD_NUMBER, FIELD_OF(type, member), .width = sizeof(((type *)0)->member), \
        .most = (largest)                                                                   \
    }
#define FIELD_TEXT_OF(type, member, allowed)                                         \
    {                                                                                \
        .kind = FIELD_TEXT, FIELD_OF(type, member), .width = 1, .letters = (allowed) \
    }

void fields_pack(struct pack *pack, const struct field *fields, size_t count, const void *from);

/* False: a value that cannot be, or too few bytes. Members that have no row stay as they are. */
bool fields_unpack(struct unpack *unpack, const struct field *fields, size_t count, void *ret);

#endif
