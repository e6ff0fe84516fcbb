/*
 * json.c - a JSON reader with bounds; see json.h.
 *
 * One pass, from left to right, by recursive descent: no deeper than LIMIT_JSON_DEPTH calls. What a
 * value costs is subtracted before it is made. The costs are jansson's structs with malloc's
 * overhead (measured with 2.14: {} 296 bytes, [] 96, a number 32), and what their making and
 * writing takes: as many as fit are read in 50 ms, and written in as much.
 */
#include "model/json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

#define COST_OBJECT 300
#define COST_ARRAY 100
#define COST_STRING 60
#define COST_NUMBER 48
#define COST_ELEMENT 16 /* of an array, which doubles when it is full */
#define COST_MEMBER 160 /* with its part of the hash table */
#define NEAR_SHOWN 20
#define NUMBER_MAX 400 /* bytes of a number; a double has at most 309 digits before its point */

struct reader {
    const char *begin, *at, *end;
    size_t flags, left;
    unsigned depth;
    struct buf text; /* of a string with escapes, or of a key */
    struct json_problem *problem;
};

static json_t *read_value(struct reader *reader);

/* ---- what is wrong ---- */

static void place(struct reader *reader, const char *at)
{
    struct json_problem *problem = reader->problem;

    problem->line = problem->column = 1;
    for (const char *byte = reader->begin; byte < at; byte++) {
        if (*byte == '\n') {
            problem->line++;
            problem->column = 1;
        } else if (((unsigned char)*byte & 0xC0) != 0x80) {
            problem->column++;
        }
    }
}

__attribute__((format(printf, 3, 4))) static void *fail(struct reader *reader, int num,
                                                        const char *format, ...)
{
    va_list args;

    if (reader->problem->num)
        return NULL;
    reader->problem->num = num;
    reader->problem->position = (size_t)(reader->at - reader->begin);
    place(reader, reader->at);
    va_start(args, format);
    if (vsnprintf(reader->problem->text, sizeof(reader->problem->text), format, args) < 0)
        reader->problem->text[0] = '\0';
    va_end(args);
    return NULL;
}

/* "... near 'what is there'" */
static void *fail_near(struct reader *reader, const char *what)
{
    char near[NEAR_SHOWN + 1];
    size_t length = MIN((size_t)(reader->end - reader->at), (size_t)NEAR_SHOWN);

    if (length == 0)
        return fail(reader, -EINVAL, "%s near end of file", what);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)reader->at[i];

        near[i] = byte < 0x20 || byte > 0x7e ? '?' : (char)byte;
    }
    near[length] = '\0';
    near[strcspn(near, " ,]}")] = '\0';
    if (!near[0])
        str_format(near, sizeof(near), "%c", *reader->at);
    return fail(reader, -EINVAL, "%s near '%s'", what, near);
}

static bool spend(struct reader *reader, size_t cost)
{
    if (cost > reader->left) {
        fail(reader, -EFBIG,
             "too many values: they would take more than %llu MiB of memory besides their text",
             LIMIT_JSON_STRUCTURE / MIB);
        return false;
    }
    reader->left -= cost;
    return true;
}

static void *no_memory(struct reader *reader)
{
    return fail(reader, -ENOMEM, "out of memory");
}

/* ---- strings ---- */

#define EACH(byte) (0x0101010101010101ULL * (byte))
#define HAS_ZERO(word) (((word)-EACH(1)) & ~(word)&EACH(0x80))

/* Whether none of eight bytes is a quote, a backslash, a control character or above ASCII. */
static bool is_plain(const char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof(word));
    return ((word & EACH(0x80)) | HAS_ZERO(word ^ EACH('"')) | HAS_ZERO(word ^ EACH('\\')) |
            ((word - EACH(0x20)) & ~word & EACH(0x80))) == 0;
}

/* The first byte that is not plain, or the end. */
static const char *skip_plain(const char *at, const char *end)
{
    while (end - at >= 8 && is_plain(at))
        at += 8;
    while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20 &&
           (unsigned char)*at < 0x80)
        at++;
    return at;
}

static bool is_within(unsigned char byte, unsigned low, unsigned high)
{
    return byte >= low && byte <= high;
}

/* Bytes of the UTF-8 sequence at `text`, which is above ASCII; 0: it is invalid (RFC 3629). */
static unsigned sequence(const char *text, size_t left)
{
    const unsigned char *byte = (const unsigned char *)text;
    unsigned low = 0x80, high = 0xBF, count = 2;

    if (byte[0] < 0xC2 || byte[0] > 0xF4)
        return 0;
    if (byte[0] >= 0xF0)
        count = 4;
    else if (byte[0] >= 0xE0)
        count = 3;
    if (byte[0] == 0xE0)
        low = 0xA0;
    else if (byte[0] == 0xED)
        high = 0x9F;
    else if (byte[0] == 0xF0)
        low = 0x90;
    else if (byte[0] == 0xF4)
        high = 0x8F;
    if (left < count || !is_within(byte[1], low, high))
        return 0;
    for (unsigned i = 2; i < count; i++)
        if (!is_within(byte[i], 0x80, 0xBF))
            return 0;
    return count;
}

static const char *skip_text(const char *at, const char *end)
{
    unsigned count;

    for (;;) {
        at = skip_plain(at, end);
        if (at == end || (unsigned char)*at < 0x80)
            return at;
        count = sequence(at, (size_t)(end - at));
        if (count == 0)
            return at;
        at += count;
    }
}

/* The four digits at `at`; -1: they are not. */
static int32_t hex4(const char *at, const char *end)
{
    static const int8_t table[256] = {
        ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,
        ['6'] = 7,  ['7'] = 8,  ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12,
        ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16, ['A'] = 11, ['B'] = 12,
        ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16}; /* each digit and one; 0: it is none */
    int32_t value = 0;

    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = table[(unsigned char)at[i]];

        if (digit == 0)
            return -1;
        value = value << 4 | (digit - 1);
    }
    return value;
}

static size_t put_utf8(char *to, uint32_t code)
{
    if (code < 0x80) {
        to[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (char)(0xC0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (char)(0xE0 | code >> 12);
        to[1] = (char)(0x80 | (code >> 6 & 0x3F));
        to[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    to[0] = (char)(0xF0 | code >> 18);
    to[1] = (char)(0x80 | (code >> 12 & 0x3F));
    to[2] = (char)(0x80 | (code >> 6 & 0x3F));
    to[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* The code point of \uXXXX, of two where they are a pair; -1: it was refused. */
static int64_t escaped_code(struct reader *reader, const char **at)
{
    int32_t code = hex4(*at + 2, reader->end), low = -1;

    if (code < 0) {
        fail(reader, -EINVAL, "invalid escape");
        return -1;
    }
    *at += 6;
    if (code == 0 && !(reader->flags & JSON_ALLOW_NUL)) {
        fail(reader, -EINVAL, "\\u0000 is not allowed");
        return -1;
    }
    if (code < 0xD800 || code > 0xDFFF)
        return code;
    if (code <= 0xDBFF && reader->end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u')
        low = hex4(*at + 2, reader->end);
    if (low < 0xDC00 || low > 0xDFFF) {
        fail(reader, -EINVAL, "invalid Unicode '\\u%04X'", (unsigned)code);
        return -1;
    }
    *at += 6;
    return 0x10000 + ((int64_t)(code - 0xD800) << 10) + (low - 0xDC00);
}

/* One escape; returns the bytes that were written to `to`, 0: it was refused. */
static size_t put_escape(struct reader *reader, const char **at, char *to)
{
    static const char values[256] = {['"'] = '"',  ['\\'] = '\\', ['/'] = '/',  ['b'] = '\b',
                                     ['f'] = '\f', ['n'] = '\n',  ['r'] = '\r', ['t'] = '\t'};
    char name = reader->end - *at >= 2 ? (*at)[1] : '\0';
    int64_t code;

    if (name == 'u') {
        code = escaped_code(reader, at);
        return code < 0 ? 0 : put_utf8(to, (uint32_t)code);
    }
    if (!values[(unsigned char)name]) {
        fail(reader, -EINVAL, "invalid escape");
        return 0;
    }
    *at += 2;
    *to = values[(unsigned char)name];
    return 1;
}

/* Where the string that begins at `at` may end at most: its text is not longer than this. */
static const char *closing(const char *at, const char *end)
{
    for (;;) {
        while (end - at >= 2 && *at == '\\')
            at += 2;
        at = skip_plain(at, end);
        if (at == end || *at == '"')
            return at;
        at += *at != '\\' || end - at < 2;
    }
}

static bool make_room(struct reader *reader, size_t length)
{
    if (reader->text.capacity > length)
        return true;
    free(reader->text.data);
    reader->text.data = malloc(length + 1);
    reader->text.capacity = reader->text.data ? length + 1 : 0;
    return reader->text.data || no_memory(reader);
}

/* From the first escape on; `plain` bytes before it are copied. */
static bool read_escaped(struct reader *reader, const char *plain, const char *at)
{
    size_t used = (size_t)(at - plain), count;
    const char *next;

    if (!make_room(reader, (size_t)(closing(at, reader->end) - plain)))
        return false;
    memcpy(reader->text.data, plain, used);
    for (;;) {
        while (at < reader->end && *at == '\\') {
            reader->at = at;
            count = put_escape(reader, &at, reader->text.data + used);
            if (count == 0)
                return false;
            used += count;
        }
        next = skip_text(at, reader->end);
        memcpy(reader->text.data + used, at, (size_t)(next - at));
        used += (size_t)(next - at);
        at = reader->at = next;
        if (at == reader->end || *at != '\\')
            break;
    }
    reader->text.length = used;
    return true;
}

/*
 * The string whose quote is at reader->at: *ret borrows the document, or reader->text where there
 * are escapes.
 */
static bool read_text(struct reader *reader, const char **ret, size_t *ret_length)
{
    const char *begin = reader->at + 1, *at = skip_text(begin, reader->end);

    reader->at = at;
    *ret = begin;
    *ret_length = (size_t)(at - begin);
    if (at < reader->end && *at == '\\') {
        if (!read_escaped(reader, begin, at))
            return false;
        *ret = reader->text.data;
        *ret_length = reader->text.length;
    }
    if (reader->at == reader->end)
        return fail(reader, -EINVAL, "premature end of input near end of file");
    if (*reader->at != '"')
        return (unsigned char)*reader->at < 0x20
                   ? fail(reader, -EINVAL, "control character 0x%x",
                          (unsigned)(unsigned char)*reader->at)
                   : fail(reader, -EINVAL, "not valid UTF-8: byte 0x%x",
                          (unsigned)(unsigned char)*reader->at);
    reader->at++;
    return true;
}

static json_t *read_string(struct reader *reader)
{
    const char *text;
    size_t length;
    json_t *json;

    if (!spend(reader, COST_STRING) || !read_text(reader, &text, &length))
        return NULL;
    json = json_stringn_nocheck(text, length);
    return json ? json : no_memory(reader);
}

/* ---- numbers and words ---- */

static const char *skip_digits(const char *at, const char *end)
{
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

/* The end of the number's whole part; NULL: there is none. */
static const char *skip_whole(const char *at, const char *end)
{
    if (at < end && *at == '-')
        at++;
    if (at == end || *at < '0' || *at > '9')
        return NULL;
    return *at == '0' ? at + 1 : skip_digits(at, end);
}

/* The end of fraction and exponent; `at` where there is neither, NULL where one has no digit. */
static const char *skip_rest(const char *at, const char *end)
{
    const char *digits;

    if (at < end && *at == '.') {
        digits = at + 1;
        at = skip_digits(digits, end);
        if (at == digits)
            return NULL;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        digits = at;
        at = skip_digits(digits, end);
        if (at == digits)
            return NULL;
    }
    return at;
}

static json_t *make_number(struct reader *reader, const char *text, bool is_real)
{
    double real;
    long long integer;

    errno = 0;
    if (!is_real) {
        integer = strtoll(text, NULL, 10);
        if (errno == ERANGE)
            return fail(reader, -EINVAL, "too big integer");
        return json_integer(integer);
    }
    real = strtod(text, NULL);
    if (errno == ERANGE && (real > 1 || real < -1))
        return fail(reader, -EINVAL, "real number overflow");
    return json_real(real);
}

static json_t *read_number(struct reader *reader)
{
    const char *whole = skip_whole(reader->at, reader->end);
    const char *rest = whole ? skip_rest(whole, reader->end) : NULL;
    char text[NUMBER_MAX];
    size_t length;
    json_t *json;

    if (!rest)
        return fail_near(reader, "invalid token");
    length = (size_t)(rest - reader->at);
    if (length >= sizeof(text))
        return fail(reader, -EINVAL, "a number of more than %d bytes", NUMBER_MAX - 1);
    if (!spend(reader, COST_NUMBER))
        return NULL;
    memcpy(text, reader->at, length);
    text[length] = '\0';
    json = make_number(reader, text, rest != whole);
    reader->at = rest;
    return json ? json : no_memory(reader);
}

static bool is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static json_t *read_word(struct reader *reader)
{
    const char *at = reader->at;
    size_t length;

    while (at < reader->end && is_letter(*at))
        at++;
    length = (size_t)(at - reader->at);
    if (length == 4 && memcmp(reader->at, "true", 4) == 0) {
        reader->at = at;
        return json_true();
    }
    if (length == 5 && memcmp(reader->at, "false", 5) == 0) {
        reader->at = at;
        return json_false();
    }
    if (length == 4 && memcmp(reader->at, "null", 4) == 0) {
        reader->at = at;
        return json_null();
    }
    return fail_near(reader, length > 0 ? "invalid token" : "unexpected token");
}

/* ---- arrays and objects ---- */

static void skip_space(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\n' ||
                                        *reader->at == '\t' || *reader->at == '\r'))
        reader->at++;
}

/* Whether the next byte that is no space is `byte`, which is taken then. */
static bool take(struct reader *reader, char byte)
{
    skip_space(reader);
    if (reader->at == reader->end || *reader->at != byte)
        return false;
    reader->at++;
    return true;
}

static bool go_deeper(struct reader *reader, size_t cost)
{
    if (reader->depth == LIMIT_JSON_DEPTH) {
        fail(reader, -E2BIG, "it nests deeper than %d levels", LIMIT_JSON_DEPTH);
        return false;
    }
    if (!spend(reader, cost))
        return false;
    reader->depth++;
    reader->at++;
    return true;
}

static json_t *read_array(struct reader *reader)
{
    CLEANUP(json_decrefp) json_t *array = NULL;

    if (!go_deeper(reader, COST_ARRAY))
        return NULL;
    array = json_array();
    if (!array)
        return no_memory(reader);
    if (!take(reader, ']')) {
        do {
            json_t *value = spend(reader, COST_ELEMENT) ? read_value(reader) : NULL;

            if (!value)
                return NULL;
            if (json_array_append_new(array, value) < 0)
                return no_memory(reader);
        } while (take(reader, ','));
        if (!take(reader, ']'))
            return fail_near(reader, "']' expected");
    }
    reader->depth--;
    return ptr_take(&array);
}

/* The key, with a NUL behind it, in memory that is the caller's; NULL: it was refused. */
static char *read_key(struct reader *reader)
{
    const char *text;
    size_t length;
    char *key;

    skip_space(reader);
    if (reader->at == reader->end || *reader->at != '"')
        return fail_near(reader, "string or '}' expected");
    if (!spend(reader, COST_MEMBER) || !read_text(reader, &text, &length))
        return NULL;
    if (memchr(text, '\0', length))
        return fail(reader, -EINVAL, "NUL byte in object key not supported");
    key = malloc(length + 1);
    if (!key)
        return no_memory(reader);
    memcpy(key, text, length);
    key[length] = '\0';
    return key;
}

static bool read_member(struct reader *reader, json_t *object)
{
    CLEANUP(freep) char *key = read_key(reader);
    json_t *value;

    if (!key)
        return false;
    if (reader->flags & JSON_REJECT_DUPLICATES && json_object_get(object, key))
        return fail(reader, -EINVAL, "duplicate object key");
    if (!take(reader, ':'))
        return fail_near(reader, "':' expected");
    value = read_value(reader);
    if (!value)
        return false;
    return json_object_set_new_nocheck(object, key, value) == 0 || no_memory(reader);
}

static json_t *read_object(struct reader *reader)
{
    CLEANUP(json_decrefp) json_t *object = NULL;

    if (!go_deeper(reader, COST_OBJECT))
        return NULL;
    object = json_object();
    if (!object)
        return no_memory(reader);
    if (!take(reader, '}')) {
        do {
            if (!read_member(reader, object))
                return NULL;
        } while (take(reader, ','));
        if (!take(reader, '}'))
            return fail_near(reader, "'}' expected");
    }
    reader->depth--;
    return ptr_take(&object);
}

static json_t *read_value(struct reader *reader)
{
    char byte;

    skip_space(reader);
    if (reader->at == reader->end)
        return fail_near(reader, "unexpected token");
    byte = *reader->at;
    if (byte == '{')
        return read_object(reader);
    if (byte == '[')
        return read_array(reader);
    if (byte == '"')
        return read_string(reader);
    if (byte == '-' || (byte >= '0' && byte <= '9'))
        return read_number(reader);
    return read_word(reader);
}

/* ---- a document ---- */

static json_t *read_document(struct reader *reader)
{
    CLEANUP(json_decrefp) json_t *json = NULL;

    skip_space(reader);
    if (!(reader->flags & JSON_DECODE_ANY) &&
        (reader->at == reader->end || (*reader->at != '{' && *reader->at != '[')))
        return fail_near(reader, "'[' or '{' expected");
    json = read_value(reader);
    if (!json)
        return NULL;
    skip_space(reader);
    if (reader->at < reader->end)
        return fail_near(reader, "end of file expected");
    return ptr_take(&json);
}

json_t *json_parse_within(const char *text, size_t length, size_t flags, size_t *left,
                          struct json_problem *ret_problem)
{
    struct json_problem ignored;
    struct reader reader = {.begin = text,
                            .at = text,
                            .end = text + length,
                            .flags = flags,
                            .left = *left,
                            .text = BUF_INIT(length),
                            .problem = ret_problem ? ret_problem : &ignored};
    json_t *json;

    *reader.problem = (struct json_problem){0};
    json = read_document(&reader);
    buf_free(&reader.text);
    if (json)
        *left = reader.left;
    return json;
}

json_t *json_parse(const char *text, size_t length, size_t flags, struct json_problem *ret_problem)
{
    size_t left = LIMIT_JSON_STRUCTURE;

    return json_parse_within(text, length, flags, &left, ret_problem);
}
