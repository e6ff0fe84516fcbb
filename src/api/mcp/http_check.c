/*
 * http_check.c - checks the HTTP headers that MCP defines: types, versions, copies of values in the
 * body. Pure.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/mcp/mcp_http_private.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"

#define BASE64_HEAD "=?base64?"
#define BASE64_TAIL "?="

static const char *skip_blanks(const char *text)
{
    return text + strspn(text, " \t");
}

static size_t length_without_blanks(const char *text, size_t length)
{
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
        length--;
    return length;
}

const char *mcp_header_value(const char *value, char *to, size_t size)
{
    size_t length;

    if (!value)
        return NULL;
    value = skip_blanks(value);
    length = MIN(length_without_blanks(value, strlen(value)), size - 1);
    memcpy(to, value, length);
    to[length] = '\0';
    return to;
}

/* Whether "a/b" is covered by "a/b", "a/" "*" or "*" "/" "*". */
static bool range_covers(const char *range, size_t length, const char *type)
{
    size_t kind = strcspn(type, "/") + 1;

    if (length == 3 && memcmp(range, "*/*", 3) == 0)
        return true;
    if (length == kind + 1 && range[kind] == '*' && strncasecmp(range, type, kind) == 0)
        return true;
    return length == strlen(type) && strncasecmp(range, type, length) == 0;
}

bool mcp_accepts(const char *accept, const char *type)
{
    if (!accept || !*skip_blanks(accept))
        return true;
    while (*accept) {
        size_t whole = strcspn(accept, ","), length;

        accept = skip_blanks(accept);
        whole = strcspn(accept, ",");
        length = length_without_blanks(accept, strcspn(accept, ",;"));
        if (range_covers(accept, length, type))
            return true;
        accept += whole;
        accept += *accept == ',';
    }
    return false;
}

bool mcp_is_json_type(const char *type)
{
    size_t length;

    if (!type)
        return false;
    type = skip_blanks(type);
    length = length_without_blanks(type, strcspn(type, ";"));
    return length == strlen("application/json") &&
           strncasecmp(type, "application/json", length) == 0;
}

static json_t *meta_of(json_t *message)
{
    return json_object_get(json_object_get(message, "params"), "_meta");
}

bool mcp_is_modern_post(json_t *message, const char *version)
{
    return json_object_get(meta_of(message), MCP_META_VERSION) ||
           (version && !mcp_is_legacy(version));
}

/* A header's value as the text it stands for; -EINVAL: it is not what it says. */
static int decode(const char *value, struct buf *ret)
{
    size_t length = length_without_blanks(value, strlen(value));
    size_t head = strlen(BASE64_HEAD), tail = strlen(BASE64_TAIL);

    if (length < head + tail || !str_starts(value, BASE64_HEAD) ||
        memcmp(value + length - tail, BASE64_TAIL, tail) != 0)
        return buf_append(ret, value, length);
    return base64_decode(value + head, length - head - tail, ret);
}

static bool header_equals(const char *header, json_t *value)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_HTTP_HEADERS);

    return header && json_is_string(value) && decode(skip_blanks(header), &text) == 0 &&
           text.length == json_string_length(value) &&
           memcmp(buf_text(&text), json_string_value(value), text.length) == 0;
}

/* The member that Mcp-Name repeats; NULL: none for this method. */
static const char *name_member(const char *method)
{
    if (str_equal(method, "tools/call") || str_equal(method, "prompts/get"))
        return "name";
    return str_equal(method, "resources/read") ? "uri" : NULL;
}

static int check_copies(json_t *message, const struct mcp_headers *headers, char *why, size_t size)
{
    json_t *method = json_object_get(message, "method");
    const char *member = name_member(mcp_text(message, "method"));
    json_t *name = member ? json_object_get(json_object_get(message, "params"), member) : NULL;

    if (!header_equals(headers->method, method)) {
        str_format(why, size, "the header Mcp-Method has to be the method of the body");
        return MCP_HEADER_MISMATCH;
    }
    if (member && (name || headers->name) && !header_equals(headers->name, name)) {
        str_format(why, size, "the header Mcp-Name has to be params.%s of the body", member);
        return MCP_HEADER_MISMATCH;
    }
    return 0;
}

int mcp_check_headers(json_t *message, const struct mcp_headers *headers, char *why, size_t size)
{
    json_t *meta = meta_of(message);
    json_t *version = json_object_get(meta, MCP_META_VERSION);

    if (!headers->version) {
        str_format(why, size, "the header MCP-Protocol-Version is missing");
        return MCP_HEADER_MISMATCH;
    }
    if (!json_is_string(version) || !json_is_object(json_object_get(meta, MCP_META_CAPABILITIES))) {
        str_format(why, size, "params._meta needs the string '%s' and the object '%s'",
                   MCP_META_VERSION, MCP_META_CAPABILITIES);
        return MCP_INVALID_PARAMS;
    }
    if (!str_equal(headers->version, mcp_text(meta, MCP_META_VERSION))) {
        str_format(why, size, "the header MCP-Protocol-Version has to be params._meta['%s']",
                   MCP_META_VERSION);
        return MCP_HEADER_MISMATCH;
    }
    if (!str_equal(headers->version, MCP_MODERN)) {
        str_format(why, size, "unsupported protocol version '%.40s'", headers->version);
        return MCP_UNSUPPORTED_VERSION;
    }
    return check_copies(message, headers, why, size);
}

bool mcp_event_id(const char *text, uint64_t *ret_stream, uint64_t *ret_event)
{
    const char *dash = strchr(text, '-');
    char stream[24];

    return dash && (size_t)(dash - text) < sizeof(stream) &&
           str_format(stream, sizeof(stream), "%.*s", (int)(dash - text), text) == 0 &&
           str_to_u64(stream, ret_stream) == 0 && str_to_u64(dash + 1, ret_event) == 0;
}
