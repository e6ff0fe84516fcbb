/* range.c - ranges of a file, and its name in a header; see range.h. */
#include "http/range.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"

#define UNIT "bytes="
#define NAME_SHOWN 255 /* bytes of a name: three letters for each at most */

/* Digits up to something else, as large as a number gets; false: there are none. */
static bool read_number(const char **at, uint64_t *ret)
{
    uint64_t number = 0;
    const char *start = *at;

    for (; **at >= '0' && **at <= '9'; ++*at) {
        uint64_t digit = (uint64_t)(**at - '0');

        number = number > (UINT64_MAX - digit) / 10 ? UINT64_MAX : 10 * number + digit;
    }
    *ret = number;
    return *at > start;
}

/* Only blanks and empty elements of a list follow (RFC 9110 section 5.6.1.2). */
static bool is_end(const char *text)
{
    return text[strspn(text, " \t,")] == '\0';
}

/* "FIRST-LAST", "FIRST-" or "-COUNT"; false: it is none of them, or more than one. */
static bool read_spec(const char *text, bool *ret_is_suffix, uint64_t *ret_first,
                      uint64_t *ret_last)
{
    *ret_is_suffix = *text == '-';
    *ret_last = UINT64_MAX;
    if (*ret_is_suffix) {
        text++;
        return read_number(&text, ret_first) && is_end(text);
    }
    if (!read_number(&text, ret_first) || *text++ != '-')
        return false;
    if (is_end(text))
        return true;
    return read_number(&text, ret_last) && is_end(text) && *ret_last >= *ret_first;
}

enum http_range http_range_read(const char *range, const char *if_range, const char *etag,
                                uint64_t size, uint64_t *ret_first, uint64_t *ret_count)
{
    uint64_t first, last;
    bool is_suffix;

    *ret_first = 0;
    *ret_count = size;
    /* A date never matches: a file's content is not identified by a date. */
    if (!range || (if_range && !str_equal(if_range, etag)) ||
        strncasecmp(range, UNIT, strlen(UNIT)) != 0)
        return RANGE_WHOLE;
    range += strlen(UNIT);
    range += strspn(range, " \t,");
    if (!read_spec(range, &is_suffix, &first, &last))
        return RANGE_WHOLE;
    if (is_suffix) {
        if (first == 0)
            return RANGE_NONE;
        if (size == 0) /* it is all of it, and no Content-Range could say so */
            return RANGE_WHOLE;
        *ret_count = MIN(first, size);
        *ret_first = size - *ret_count;
        return RANGE_PART;
    }
    if (first >= size)
        return RANGE_NONE;
    *ret_first = first;
    *ret_count = MIN(last, size - 1) - first + 1;
    return RANGE_PART;
}

bool http_etag_is_in(const char *list, const char *etag)
{
    size_t length = strlen(etag);

    while (list && *list) {
        size_t count;

        list += strspn(list, " \t,");
        if (*list == '*')
            return true;
        if (strncmp(list, "W/", 2) == 0)
            list += 2;
        count = strcspn(list, ",");
        while (count > 0 && (list[count - 1] == ' ' || list[count - 1] == '\t'))
            count--;
        if (count == length && memcmp(list, etag, length) == 0)
            return true;
        list += strcspn(list, ",");
    }
    return false;
}

static bool is_plain(char letter)
{
    return isalnum((unsigned char)letter) || (letter && strchr("-._~", letter));
}

void http_attachment(const char *name, char *header, size_t size)
{
    const char *slash = strrchr(name, '/');
    char plain[NAME_SHOWN + 1], coded[3 * NAME_SHOWN + 1];
    size_t at = 0, to = 0;

    name = slash ? slash + 1 : name;
    for (; name[at] && at < NAME_SHOWN; at++) {
        plain[at] = name[at];
        if (is_plain(name[at]))
            coded[to++] = name[at];
        else
            to += (size_t)snprintf(coded + to, 4, "%%%02X", (unsigned char)name[at]);
        if (!is_plain(name[at]) && name[at] != ' ')
            plain[at] = '_';
    }
    plain[at] = coded[to] = '\0';
    str_format(header, size,
               "Content-Disposition: attachment; filename=\"%s\"; filename*=UTF-8''%s",
               at > 0 ? plain : "file", to > 0 ? coded : "file");
}
