/* host.c - the one parser for the name of a host; see host.h. */
#include "egress/host.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/str.h"

#define LABEL_MAX 63

static bool is_ascii_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* As inet_aton(3) reads a part: 0x is hexadecimal, 0 octal. */
static bool parse_number(const char *text, size_t length, uint64_t *ret)
{
    unsigned base = 10;
    uint64_t value = 0;

    if (length >= 2 && text[0] == '0' && text[1] == 'x') {
        base = 16;
        text += 2;
        length -= 2;
    } else if (length >= 2 && text[0] == '0') {
        base = 8;
        text++;
        length--;
    }
    if (length == 0)
        return false; /* "0x" alone */
    for (size_t i = 0; i < length; i++) {
        unsigned digit = text[i] >= '0' && text[i] <= '9'   ? (unsigned)(text[i] - '0')
                         : text[i] >= 'a' && text[i] <= 'f' ? (unsigned)(text[i] - 'a') + 10
                                                            : 99;

        if (digit >= base)
            return false;
        value = value * base + digit;
        if (value > UINT32_MAX)
            return false;
    }
    *ret = value;
    return true;
}

/* Does some reader of names take this for an IPv4 address? Then its last part is a number. */
static bool ends_in_number(const char *name, size_t length)
{
    size_t start = length;

    while (start > 0 && name[start - 1] != '.')
        start--;
    if (length - start >= 2 && name[start] == '0' && name[start + 1] == 'x') {
        start += 2;
        while (start < length && isxdigit((unsigned char)name[start]))
            start++;
    } else {
        while (start < length && name[start] >= '0' && name[start] <= '9')
            start++;
    }
    return start == length;
}

/* One to four parts; the last one fills the bytes that are left. */
static int parse_v4(const char *name, size_t length, struct address *ret)
{
    uint8_t bytes[4] = {0};
    size_t at = 0;

    for (unsigned part = 0;; part++) {
        size_t end = at;
        uint64_t value;

        while (end < length && name[end] != '.')
            end++;
        if (part == 4 || end == at || !parse_number(name + at, end - at, &value))
            return -EINVAL;
        if (end == length) {
            if (value >> (8 * (4 - part)) != 0)
                return -EINVAL;
            for (unsigned i = 4; i > part; i--, value >>= 8)
                bytes[i - 1] = (uint8_t)value;
            break;
        }
        if (value > 255 || part == 3)
            return -EINVAL;
        bytes[part] = (uint8_t)value;
        at = end + 1;
    }
    address_from_v4(bytes, ret);
    return 0;
}

static int parse_v6(const char *text, size_t length, struct address *ret)
{
    char copy[ADDRESS_TEXT_MAX];

    if (length < 4 || length - 2 >= sizeof(copy) || text[length - 1] != ']' ||
        memchr(text, 0, length))
        return -EINVAL;
    memcpy(copy, text + 1, length - 2);
    copy[length - 2] = 0;
    return inet_pton(AF_INET6, copy, ret->bytes) == 1 ? 0 : -EINVAL;
}

/* Lower-case into `ret`, each label looked at. */
static int copy_name(const char *text, size_t length, char ret[HOST_TEXT_MAX])
{
    size_t label = 0;

    if (length == 0 || length >= HOST_TEXT_MAX)
        return -EINVAL;
    for (size_t i = 0; i < length; i++) {
        char c = text[i] >= 'A' && text[i] <= 'Z' ? (char)(text[i] - 'A' + 'a') : text[i];
        bool is_last = i + 1 == length || text[i + 1] == '.';

        ret[i] = c;
        if (c == '.') {
            if (label == 0)
                return -EINVAL;
            label = 0;
            continue;
        }
        if (!is_ascii_alnum(c) && (c != '-' || label == 0 || is_last))
            return -EINVAL;
        if (++label > LABEL_MAX)
            return -EINVAL;
    }
    ret[length] = 0;
    return label > 0 ? 0 : -EINVAL;
}

void host_from_address(const struct address *address, struct host *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->is_address = true;
    ret->address = *address;
    address_text(address, ret->name);
}

int host_parse(const char *text, size_t length, struct host *ret)
{
    struct host host = {0};
    int r;

    if (length > 0 && text[0] == '[') {
        r = parse_v6(text, length, &host.address);
        if (r == 0)
            host_from_address(&host.address, ret);
        return r;
    }
    if (length > 0 && text[length - 1] == '.')
        length--; /* the root of all names, said or not */
    r = copy_name(text, length, host.name);
    if (r < 0)
        return r;
    if (!ends_in_number(host.name, length)) {
        *ret = host;
        return 0;
    }
    r = parse_v4(host.name, length, &host.address);
    if (r == 0)
        host_from_address(&host.address, ret);
    return r;
}

static bool parse_port(const char *text, size_t length, uint16_t *ret)
{
    unsigned value = 0;

    if (length == 0 || length > 5)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    *ret = (uint16_t)value;
    return value > 0 && value <= UINT16_MAX;
}

int host_parse_port(const char *text, size_t length, uint16_t default_port, struct host *ret,
                    uint16_t *ret_port)
{
    size_t end = length;
    uint16_t port = default_port;

    while (end > 0 && text[end - 1] != ':' && text[end - 1] != ']')
        end--;
    if (end > 0 && text[end - 1] == ':') {
        if (!parse_port(text + end, length - end, &port))
            return -EINVAL;
        length = end - 1;
    }
    if (port == 0 || host_parse(text, length, ret) < 0)
        return -EINVAL;
    *ret_port = port;
    return 0;
}

bool host_equal(const struct host *a, const struct host *b)
{
    if (a->is_address || b->is_address)
        return a->is_address && b->is_address && address_equal(&a->address, &b->address);
    return str_equal(a->name, b->name);
}

const char *host_in_url(const struct host *host, char text[HOST_TEXT_MAX + 2])
{
    bool is_v6 = host->is_address && !address_is_v4(&host->address);

    str_format(text, HOST_TEXT_MAX + 2, is_v6 ? "[%s]" : "%s", host->name);
    return text;
}
