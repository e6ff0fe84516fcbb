/* head.c - headers that two servers read differently, Host and Origin; see head.h. */
#include "http/head.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

/* RFC 9110, 5.6.2. */
static bool is_token(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];

        if (!isalnum(c) && (c == '\0' || !strchr("!#$%&'*+-.^_`|~", c)))
            return false;
    }
    return length > 0;
}

/* No control characters but the tab: a CR or NUL is what another server may cut at. */
static bool is_value(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];

        if ((c < 0x20 && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

static bool is_named(const char *name, size_t length, const char *wanted)
{
    return length == strlen(wanted) && strncasecmp(name, wanted, length) == 0;
}

static void note(const char **first, unsigned *count, const char *value)
{
    if (++*count == 1)
        *first = value;
}

void head_add(struct head *head, const char *name, size_t name_length, const char *value,
              size_t value_length)
{
    const char *ignored;

    if (!value)
        value = "", value_length = 0;
    if (!is_token(name, name_length) || !is_value(value, value_length))
        head->is_malformed = true;
    else if (is_named(name, name_length, "Host"))
        note(&head->host, &head->host_count, value);
    else if (is_named(name, name_length, "Origin"))
        note(&head->origin, &head->origin_count, value);
    else if (is_named(name, name_length, "Transfer-Encoding"))
        note(&head->coding, &head->coding_count, value);
    else if (is_named(name, name_length, "Content-Length"))
        note(&ignored, &head->length_count, value);
}

/* What a name, an address or an address in brackets may be made of, with its port. */
static bool is_host(const char *text)
{
    for (; *text; text++) {
        if (!isalnum((unsigned char)*text) && !strchr("-._~:[]", *text))
            return false;
    }
    return true;
}

const char *head_check(const struct head *head, bool is_old)
{
    if (head->is_malformed)
        return "a header has bytes that may not be in it";
    if (head->host_count > 1)
        return "there is more than one Host";
    if (head->host_count == 0 && !is_old)
        return "there is no Host";
    if (head->host && !is_host(head->host))
        return "the Host is malformed";
    if (head->length_count > 1)
        return "there is more than one Content-Length";
    if (head->origin_count > 1)
        return "there is more than one Origin";
    if (head->coding_count == 0)
        return NULL;
    if (head->length_count > 0)
        return "there is a Content-Length and a Transfer-Encoding";
    if (is_old)
        return "there is a Transfer-Encoding in HTTP/1.0";
    if (head->coding_count > 1 || strcasecmp(head->coding, "chunked") != 0)
        return "the Transfer-Encoding is not 'chunked'";
    return NULL;
}

/* Without its port: up to a colon that is not inside of brackets. */
static size_t name_length(const char *host)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    const char *colon = strchr(end ? end : host, ':');

    return colon ? (size_t)(colon - host) : strlen(host);
}

static bool is_address(const char *host)
{
    size_t length = name_length(host);
    char text[INET6_ADDRSTRLEN + 2];
    unsigned char address[16];

    if (str_format(text, sizeof(text), "%.*s", (int)length, host) < 0)
        return false;
    if (text[0] != '[' || text[length - 1] != ']')
        return inet_pton(AF_INET, text, address) == 1;
    text[length - 1] = '\0';
    return inet_pton(AF_INET6, text + 1, address) == 1;
}

/* "*.example.org" is every name below it. */
static bool is_below(const char *host, const char *pattern, bool has_port)
{
    size_t length = has_port ? strlen(host) : name_length(host), wanted = strlen(pattern) - 1;

    return str_starts(pattern, "*.") && length > wanted &&
           strncasecmp(host + length - wanted, pattern + 1, wanted) == 0;
}

bool head_host_fits(const char *host, const char *const *hosts)
{
    if (!hosts || (host && host[0] && is_address(host)))
        return true;
    for (; host && *hosts; hosts++) {
        size_t wanted = strlen(*hosts);
        bool has_port = name_length(*hosts) < wanted;
        size_t given = has_port ? strlen(host) : name_length(host);

        if ((given == wanted && strncasecmp(host, *hosts, wanted) == 0) ||
            is_below(host, *hosts, has_port))
            return true;
    }
    return false;
}

enum head_origin head_origin(const char *origin, const char *host, const char *const *origins)
{
    const char *page = strstr(origin, "://");
    bool is_web = strncasecmp(origin, "http://", 7) == 0 || strncasecmp(origin, "https://", 8) == 0;

    for (; origins && *origins; origins++) {
        if (str_equal(*origins, "*") || strcasecmp(*origins, origin) == 0)
            return ORIGIN_LISTED;
    }
    /* Which of the two was used is the business of a proxy in front of us. */
    if (is_web && host && host[0] && strcasecmp(page + 3, host) == 0)
        return ORIGIN_OWN;
    return ORIGIN_FOREIGN;
}
