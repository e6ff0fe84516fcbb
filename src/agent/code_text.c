/* code_text.c - decodes the source of a tool call while it arrives; see code_text.h. */
#include "agent/code_text.h"

#include <string.h>

#define REPLACEMENT 0xfffd

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int put(struct buf *to, uint32_t code)
{
    char bytes[4];
    size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;

    if (length == 1) {
        bytes[0] = (char)code;
        return buf_append(to, bytes, 1);
    }
    for (size_t i = length - 1; i > 0; i--, code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)((0xf00 >> length & 0xff) | code);
    return buf_append(to, bytes, length);
}

/* A high surrogate that no other half followed. */
static int settle(struct code_text *text, struct buf *to)
{
    bool was_high = text->high;

    text->high = 0;
    return was_high ? put(to, REPLACEMENT) : 0;
}

static int put_unit(struct code_text *text, struct buf *to)
{
    uint32_t unit = text->unit;
    int r;

    if (unit >= 0xdc00 && unit <= 0xdfff && text->high) {
        uint32_t code = 0x10000 + ((uint32_t)(text->high - 0xd800) << 10) + (unit - 0xdc00);

        text->high = 0;
        return put(to, code);
    }
    r = settle(text, to);
    if (r == 0 && unit >= 0xd800 && unit <= 0xdbff)
        text->high = (uint16_t)unit;
    else if (r == 0)
        r = put(to, unit >= 0xdc00 && unit <= 0xdfff ? REPLACEMENT : unit);
    return r;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int take_hex(struct code_text *text, char c, struct buf *to)
{
    int value = hex_value(c);

    if (value < 0) {
        text->state = CODE_TEXT_OVER;
        return 0;
    }
    text->unit = (uint16_t)(text->unit << 4 | value);
    return --text->hex_left == 0 ? put_unit(text, to) : 0;
}

static int take_escape(struct code_text *text, char c, struct buf *to)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *at = memchr(letters, c, sizeof(letters) - 1);
    int r;

    text->is_escaped = false;
    if (c == 'u') {
        text->hex_left = 4;
        text->unit = 0;
        return 0;
    }
    r = settle(text, to);
    if (!at)
        text->state = CODE_TEXT_OVER;
    else if (r == 0)
        r = buf_append(to, &values[at - letters], 1);
    return r;
}

/* A byte of the source. */
static int take_code(struct code_text *text, char c, struct buf *to)
{
    int r;

    if (text->hex_left > 0)
        return take_hex(text, c, to);
    if (text->is_escaped)
        return take_escape(text, c, to);
    if (c == '\\') {
        text->is_escaped = true;
        return 0;
    }
    r = settle(text, to);
    if (c == '"')
        text->state = CODE_TEXT_AFTER;
    else if (r == 0)
        r = buf_append(to, &c, 1);
    return r;
}

static void take_key(struct code_text *text, char c)
{
    if (c == '"' && !text->is_escaped) {
        text->state = CODE_TEXT_COLON;
        return;
    }
    text->is_escaped = c == '\\' && !text->is_escaped;
    if (text->key_length < sizeof(text->key))
        text->key[text->key_length++] = c;
}

static void take_value(struct code_text *text, char c)
{
    bool is_code = !text->has_code && text->key_length == 4 && memcmp(text->key, "code", 4) == 0;

    text->is_escaped = text->is_quoted = false;
    if (c == '"') {
        text->state = is_code ? CODE_TEXT_CODE : CODE_TEXT_STRING;
        text->has_code |= is_code;
    } else if (c == '{' || c == '[') {
        text->state = CODE_TEXT_NESTED;
        text->depth = 1;
    } else {
        text->state = CODE_TEXT_SCALAR;
    }
}

static void take_after(struct code_text *text, char c)
{
    text->state = c == ',' ? CODE_TEXT_MEMBER : CODE_TEXT_OVER;
}

static void take_string(struct code_text *text, char c)
{
    if (c == '"' && !text->is_escaped)
        text->state = CODE_TEXT_AFTER;
    text->is_escaped = c == '\\' && !text->is_escaped;
}

static void take_nested(struct code_text *text, char c)
{
    if (text->is_quoted) {
        if (c == '"' && !text->is_escaped)
            text->is_quoted = false;
        text->is_escaped = c == '\\' && !text->is_escaped;
    } else if (c == '"') {
        text->is_quoted = true;
        text->is_escaped = false;
    } else if (c == '{' || c == '[') {
        text->depth++;
    } else if ((c == '}' || c == ']') && --text->depth == 0) {
        text->state = CODE_TEXT_AFTER;
    }
}

static int take(struct code_text *text, char c, struct buf *to)
{
    switch (text->state) {
    case CODE_TEXT_START:
        if (!is_blank(c))
            text->state = c == '{' ? CODE_TEXT_MEMBER : CODE_TEXT_OVER;
        break;
    case CODE_TEXT_MEMBER:
        text->key_length = 0;
        text->is_escaped = false;
        if (!is_blank(c))
            text->state = c == '"' ? CODE_TEXT_KEY : CODE_TEXT_OVER;
        break;
    case CODE_TEXT_KEY:
        take_key(text, c);
        break;
    case CODE_TEXT_COLON:
        if (!is_blank(c))
            text->state = c == ':' ? CODE_TEXT_VALUE : CODE_TEXT_OVER;
        break;
    case CODE_TEXT_VALUE:
        if (!is_blank(c))
            take_value(text, c);
        break;
    case CODE_TEXT_CODE:
        return take_code(text, c, to);
    case CODE_TEXT_STRING:
        take_string(text, c);
        break;
    case CODE_TEXT_NESTED:
        take_nested(text, c);
        break;
    case CODE_TEXT_SCALAR:
        if (c == ',' || c == '}')
            take_after(text, c);
        break;
    case CODE_TEXT_AFTER:
        if (!is_blank(c))
            take_after(text, c);
        break;
    case CODE_TEXT_OVER:
        break;
    }
    return 0;
}

int code_text_feed(struct code_text *text, const char *data, size_t length, struct buf *to)
{
    int r = 0;

    for (size_t i = 0; i < length && r == 0 && text->state != CODE_TEXT_OVER; i++)
        r = take(text, data[i], to);
    return r;
}
