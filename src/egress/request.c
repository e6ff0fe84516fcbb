/* request.c - the head of a request to an HTTP proxy; see request.h. */
#include "egress/request.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "egress/policy.h"

#define FIELDS_MAX 100
#define METHOD_MAX 20

/* A name and its value, both inside the head. */
struct field {
    const char *name, *value;
    size_t name_length, value_length;
};

static bool is_token(const char *text, size_t length)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < length; i++) {
        char c = text[i];

        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (c && strchr(marks, c))))
            return false;
    }
    return length > 0;
}

static bool is_named(const struct field *field, const char *name)
{
    return field->name_length == strlen(name) &&
           strncasecmp(field->name, name, field->name_length) == 0;
}

/* Bytes of the line at `text` without its CRLF; -1: a bare CR or LF, a control byte, no end. */
static long line_length(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];

        if (c == '\r')
            return i + 1 < length && text[i + 1] == '\n' ? (long)i : -1;
        if ((c < ' ' && c != '\t') || c == 0x7f)
            return -1;
    }
    return -1;
}

/* The next field; false at the empty line, or when it is none (*ret_bad). */
static bool next_field(const char **at, size_t *left, struct field *ret, bool *ret_bad)
{
    long length = line_length(*at, *left);
    const char *colon;

    if (length <= 0) {
        *ret_bad = length < 0;
        return false;
    }
    colon = memchr(*at, ':', (size_t)length);
    *ret_bad = !colon || !is_token(*at, (size_t)(colon - *at));
    if (*ret_bad)
        return false;
    *ret = (struct field){.name = *at,
                          .name_length = (size_t)(colon - *at),
                          .value = colon + 1,
                          .value_length = (size_t)(*at + length - colon - 1)};
    while (ret->value_length > 0 && (*ret->value == ' ' || *ret->value == '\t')) {
        ret->value++;
        ret->value_length--;
    }
    while (ret->value_length > 0 &&
           (ret->value[ret->value_length - 1] == ' ' || ret->value[ret->value_length - 1] == '\t'))
        ret->value_length--;
    *left -= (size_t)length + 2;
    *at += length + 2;
    return true;
}

static bool read_length(const struct field *field, struct request *request)
{
    uint64_t value = 0;

    if (request->has_body || field->value_length == 0 || field->value_length > 18)
        return false; /* two of them are one too many, even when they agree */
    for (size_t i = 0; i < field->value_length; i++) {
        if (field->value[i] < '0' || field->value[i] > '9')
            return false;
        value = value * 10 + (uint64_t)(field->value[i] - '0');
    }
    request->has_body = true;
    request->body_bytes = value;
    return true;
}

/* 0, or the status to refuse with. */
static int read_fields(struct request *request)
{
    const char *at = request->fields;
    size_t left = request->fields_length;
    struct field field;
    unsigned count = 0, hosts = 0;
    bool is_bad = false;

    while (next_field(&at, &left, &field, &is_bad)) {
        if (++count > FIELDS_MAX)
            return 431;
        if (is_named(&field, "transfer-encoding"))
            return 501;
        if (is_named(&field, "content-length") && !read_length(&field, request))
            return 400;
        if (is_named(&field, "host") && ++hosts > 1)
            return 400;
    }
    if (is_bad || (request->is_connect && request->body_bytes > 0))
        return 400;
    return 0;
}

/* http://host[:port][/path]; anything else is not a proxy's business. */
static bool read_target(const char *text, size_t length, struct request *request)
{
    static const char scheme[] = "http://";
    size_t end;

    if (length < sizeof(scheme) || strncasecmp(text, scheme, sizeof(scheme) - 1) != 0)
        return false;
    text += sizeof(scheme) - 1;
    length -= sizeof(scheme) - 1;
    for (end = 0; end < length && text[end] != '/' && text[end] != '?' && text[end] != '#'; end++)
        ;
    if (memchr(text, '#', length))
        return false; /* fragments stay with the client */
    request->path = text + end;
    request->path_length = length - end;
    return host_parse_port(text, end, 80, &request->host, &request->port) == 0;
}

/* METHOD SP target SP HTTP/1.x */
static int read_line(const char *line, size_t length, struct request *request)
{
    const char *space = memchr(line, ' ', length);
    const char *target = space ? space + 1 : NULL;
    const char *end = target ? memchr(target, ' ', (size_t)(line + length - target)) : NULL;

    if (!end || line + length - end != 9 || memcmp(end, " HTTP/1.", 8) != 0 ||
        (end[8] != '0' && end[8] != '1'))
        return 400;
    request->method = line;
    request->method_length = (size_t)(space - line);
    if (!is_token(line, request->method_length) || request->method_length > METHOD_MAX)
        return 400;
    for (const char *c = target; c < end; c++) {
        if ((unsigned char)*c <= ' ' || (unsigned char)*c > '~')
            return 400;
    }
    request->is_connect = request->method_length == 7 && memcmp(line, "CONNECT", 7) == 0;
    if (request->is_connect)
        return host_parse_port(target, (size_t)(end - target), 0, &request->host, &request->port) ==
                       0
                   ? 0
                   : 400;
    return read_target(target, (size_t)(end - target), request) ? 0 : 400;
}

int request_parse(const char *data, size_t length, struct request *ret, int *ret_status)
{
    const char *end = memmem(data, length, "\r\n\r\n", 4);
    struct request request = {0};
    long line;

    *ret_status = 400;
    if (!end) {
        *ret_status = 431;
        return length >= LIMIT_EGRESS_HEAD ? -EMSGSIZE : -EAGAIN;
    }
    request.head_bytes = (size_t)(end - data) + 4;
    if (request.head_bytes > LIMIT_EGRESS_HEAD) {
        *ret_status = 431;
        return -EMSGSIZE;
    }
    line = line_length(data, request.head_bytes);
    if (line <= 0)
        return -EPROTO;
    *ret_status = read_line(data, (size_t)line, &request);
    if (*ret_status)
        return -EPROTO;
    request.fields = data + line + 2;
    request.fields_length = request.head_bytes - (size_t)line - 2;
    *ret_status = read_fields(&request);
    if (*ret_status)
        return -EPROTO;
    *ret = request;
    return 0;
}

/* ---- rewriting ---- */

/* Is the name one of the comma-separated words of a Connection field? */
static bool is_listed(const struct field *field, const struct field *connection)
{
    const char *at = connection->value;
    const char *end = at + connection->value_length;

    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;

        while (at < stop && (*at == ' ' || *at == '\t'))
            at++;
        while (stop > at && (stop[-1] == ' ' || stop[-1] == '\t'))
            stop--;
        if ((size_t)(stop - at) == field->name_length &&
            strncasecmp(at, field->name, field->name_length) == 0)
            return true;
        at = comma ? comma + 1 : end;
    }
    return false;
}

/* What concerned this connection only (RFC 9110 7.6.1), or is written by us. */
static bool stays_here(const struct request *request, const struct field *field)
{
    static const char *const names[] = {
        "connection",
        "proxy-connection",
        "proxy-authorization",
        "proxy-authenticate",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "host",
        "content-length",
        "transfer-encoding",
        "http2-settings",
    };
    const char *at = request->fields;
    size_t left = request->fields_length;
    struct field other;
    bool is_bad;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (is_named(field, names[i]))
            return true;
    while (next_field(&at, &left, &other, &is_bad))
        if (is_named(&other, "connection") && is_listed(field, &other))
            return true;
    return false;
}

static int write_authorization(const struct upstream *upstream, struct buf *to)
{
    if (!upstream || !upstream->authorization)
        return 0;
    return buf_printf(to, "Proxy-Authorization: %s\r\n", upstream->authorization);
}

static int write_connect(const struct request *request, const struct upstream *upstream,
                         struct buf *to)
{
    char text[HOST_TEXT_MAX + 2];
    const char *host = host_in_url(&request->host, text);
    int r = buf_printf(to, "CONNECT %s:%u HTTP/1.1\r\nHost: %s:%u\r\n", host, request->port, host,
                       request->port);

    if (r == 0)
        r = write_authorization(upstream, to);
    return r == 0 ? buf_append_text(to, "\r\n") : r;
}

static int write_fields(const struct request *request, struct buf *to)
{
    const char *at = request->fields;
    size_t left = request->fields_length;
    struct field field;
    bool is_bad;
    int r = 0;

    while (r == 0 && next_field(&at, &left, &field, &is_bad)) {
        if (stays_here(request, &field))
            continue;
        r = buf_append(to, field.name, field.name_length);
        if (r == 0)
            r = buf_append_text(to, ": ");
        if (r == 0)
            r = buf_append(to, field.value, field.value_length);
        if (r == 0)
            r = buf_append_text(to, "\r\n");
    }
    return r;
}

int request_write(const struct request *request, const struct upstream *upstream, struct buf *to)
{
    char text[HOST_TEXT_MAX + 2], port[8] = "";
    const char *host = host_in_url(&request->host, text);
    int r;

    if (request->is_connect)
        return write_connect(request, upstream, to);
    if (request->port != 80)
        str_format(port, sizeof(port), ":%u", request->port);
    r = buf_append(to, request->method, request->method_length);
    if (r == 0)
        r = upstream ? buf_printf(to, " http://%s%s", host, port) : buf_append_text(to, " ");
    if (r == 0 && (request->path_length == 0 || request->path[0] != '/'))
        r = buf_append_text(to, "/");
    if (r == 0)
        r = buf_append(to, request->path, request->path_length);
    if (r == 0)
        r = buf_printf(to, " HTTP/1.1\r\nHost: %s%s\r\nConnection: close\r\n", host, port);
    if (r == 0)
        r = write_fields(request, to);
    if (r == 0 && request->has_body)
        r = buf_printf(to, "Content-Length: %llu\r\n", (unsigned long long)request->body_bytes);
    if (r == 0)
        r = write_authorization(upstream, to);
    return r == 0 ? buf_append_text(to, "\r\n") : r;
}

int answer_parse(const char *data, size_t length, int *ret_status, size_t *ret_head_bytes)
{
    const char *end = memmem(data, length, "\r\n\r\n", 4);

    if (!end)
        return length >= LIMIT_EGRESS_HEAD ? -EPROTO : -EAGAIN;
    if (end - data < 12 || memcmp(data, "HTTP/1.", 7) != 0 || data[8] != ' ')
        return -EPROTO;
    *ret_status = 0;
    for (size_t i = 9; i < 12; i++) {
        if (data[i] < '0' || data[i] > '9')
            return -EPROTO;
        *ret_status = *ret_status * 10 + (data[i] - '0');
    }
    *ret_head_bytes = (size_t)(end - data) + 4;
    return 0;
}
