/* fields.c - structs packed and unpacked by rows; see fields.h. */
#include "wire/fields.h"

#include <string.h>

#define ERRNO_MOST 4095

/* ---- the members of a struct ---- */

static uint64_t get_number(const void *member, size_t size)
{
    uint64_t u64;
    uint32_t u32;
    uint16_t u16;

    switch (size) {
    case 1:
        return *(const uint8_t *)member;
    case 2:
        return memcpy(&u16, member, size), u16;
    case 4:
        return memcpy(&u32, member, size), u32;
    default:
        return memcpy(&u64, member, sizeof(u64)), u64;
    }
}

static void set_number(void *member, size_t size, uint64_t value)
{
    switch (size) {
    case 1:
        *(uint8_t *)member = (uint8_t)value;
        break;
    case 2:
        memcpy(member, &(uint16_t){(uint16_t)value}, size);
        break;
    case 4:
        memcpy(member, &(uint32_t){(uint32_t)value}, size);
        break;
    default:
        memcpy(member, &value, sizeof(value));
    }
}

/* ---- to bytes ---- */

static void pack_number(struct pack *pack, size_t width, uint64_t value)
{
    switch (width) {
    case 1:
        pack_u8(pack, (uint8_t)value);
        break;
    case 2:
        pack_u16(pack, (uint16_t)value);
        break;
    case 4:
        pack_u32(pack, (uint32_t)value);
        break;
    default:
        pack_u64(pack, value);
    }
}

static void pack_text(struct pack *pack, const struct field *field, const char *text)
{
    size_t length = strnlen(text, field->size - 1u);

    pack_number(pack, field->width, length);
    pack_bytes(pack, text, length);
}

void fields_pack(struct pack *pack, const struct field *fields, size_t count, const void *from)
{
    for (size_t i = 0; i < count; i++) {
        const struct field *field = &fields[i];
        const char *member = (const char *)from + field->offset;

        if (field->kind == FIELD_NUMBER)
            pack_number(pack, field->width, get_number(member, field->size));
        else if (field->kind == FIELD_ERRNO)
            pack_u32(pack, -(uint32_t)get_number(member, sizeof(int32_t)));
        else
            pack_text(pack, field, member);
    }
}

/* ---- from bytes ---- */

static uint64_t unpack_number(struct unpack *unpack, size_t width)
{
    switch (width) {
    case 1:
        return unpack_u8(unpack);
    case 2:
        return unpack_u16(unpack);
    case 4:
        return unpack_u32(unpack);
    default:
        return unpack_u64(unpack);
    }
}

static bool may_have(const struct field *field, char byte)
{
    if (field->kind == FIELD_BYTES)
        return byte != 0;
    return byte >= ' ' && byte <= '~' && (!field->letters || strchr(field->letters, byte));
}

static bool unpack_text(struct unpack *unpack, const struct field *field, char *text)
{
    size_t length = unpack_number(unpack, field->width);

    if (length >= field->size)
        return false;
    for (size_t i = 0; i < length; i++) {
        text[i] = (char)unpack_u8(unpack);
        if (!may_have(field, text[i]))
            return false;
    }
    text[length] = 0;
    return true;
}

static bool unpack_field(struct unpack *unpack, const struct field *field, char *member)
{
    uint64_t value;

    if (field->kind == FIELD_TEXT || field->kind == FIELD_BYTES)
        return unpack_text(unpack, field, member);
    if (field->kind == FIELD_ERRNO) {
        value = unpack_u32(unpack);
        set_number(member, sizeof(int32_t), -value);
        return value <= ERRNO_MOST;
    }
    value = unpack_number(unpack, field->width);
    set_number(member, field->size, value);
    return (!field->most || value <= field->most) && get_number(member, field->size) == value;
}

bool fields_unpack(struct unpack *unpack, const struct field *fields, size_t count, void *ret)
{
    for (size_t i = 0; i < count; i++) {
        if (!unpack_field(unpack, &fields[i], (char *)ret + fields[i].offset))
            return false;
    }
    return !unpack->failed;
}
