/* trace.c - ids of requests and traces, checked; see trace.h. */
#include "base/trace.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#define HEX "0123456789abcdef" /* upper case is not allowed there */
#define ID_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
/* version-trace-parent-flags: 2, 32, 16 and 2 digits */
#define TRACE_AT 3
#define PARENT_AT 36
#define FLAGS_AT 53
#define TEXT_LENGTH 55

bool request_id_is_valid(const char *text)
{
    size_t length = strnlen(text, REQUEST_ID_MAX);

    return length > 0 && length < REQUEST_ID_MAX && strspn(text, ID_LETTERS) == length;
}

/* `count` digits and then `end`; at least one that is not 0 where has_number says so. */
static bool is_field(const char *text, size_t count, char end, bool has_number)
{
    return strspn(text, HEX) == count && text[count] == end &&
           (!has_number || strspn(text, "0") < count);
}

int trace_parse(const char *text, struct trace *ret)
{
    bool is_now;

    *ret = (struct trace){.id = ""};
    /* Each field is read only if the previous one had its length, so never past the end. */
    if (!is_field(text, 2, '-', false) || strncmp(text, "ff", 2) == 0 ||
        !is_field(text + TRACE_AT, TRACE_ID_MAX - 1, '-', true) ||
        !is_field(text + PARENT_AT, SPAN_ID_MAX - 1, '-', true) ||
        strspn(text + FLAGS_AT, HEX) != 2)
        return -EINVAL;
    is_now = strncmp(text, "00", 2) == 0;
    if (text[TEXT_LENGTH] != '\0' && (is_now || text[TEXT_LENGTH] != '-'))
        return -EINVAL; /* a later version may have more fields after another dash */
    memcpy(ret->id, text + TRACE_AT, TRACE_ID_MAX - 1);
    memcpy(ret->parent, text + PARENT_AT, SPAN_ID_MAX - 1);
    ret->is_sampled = strchr("13579bdf", text[FLAGS_AT + 1]) != NULL;
    return 0;
}
