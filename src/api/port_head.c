/* port_head.c - which headers pass to a guest's server and back; see port_head.h. */
#include "api/port_head.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/mask.h"
#include "base/str.h"
#include "http/websocket.h"
#include "http/ws_handshake.h"

/* Lists of names. One that ends with "-" stands for all that begin with it. */

/* Of one connection only (RFC 9110 section 7.6.1), or made anew. */
static const char *const hop_by_hop[] = {
    "Connection", "Keep-Alive",        "Proxy-",  "TE",
    "Trailer",    "Transfer-Encoding", "Upgrade", "Content-Length",
    "Expect",     "HTTP2-Settings",    NULL,
};
/* Bailey's own, of any of its doors. */
static const char *const never_to_guest[] = {
    "X-API-Key", "X-Access-Token", "E2b-", "Bailey-", "Host", "Sec-WebSocket-Protocol", NULL,
};
/* What a browser or a client has for the API's origin; a referrer may contain a signed link. */
static const char *const api_origin_request[] = {"Authorization", "Cookie", "Referer", "Origin",
                                                 NULL};
static const char *const never_to_client[] = {
    "Date",    "X-Request-Id", "Alt-Svc", "Strict-Transport-Security", "Public-Key-Pins",
    "Bailey-", NULL,
};
/* What would hold for the API's origin, or ask for a password in its name. */
static const char *const api_origin_reply[] = {
    "Set-Cookie",
    "Set-Cookie2",
    "Clear-Site-Data",
    "Access-Control-",
    "Service-Worker-Allowed",
    "WWW-Authenticate",
    "Report-To",
    "Reporting-Endpoints",
    "NEL",
    "Origin-Agent-Cluster",
    "Referrer-Policy",
    "X-Content-Type-Options",
    "Authentication-Info",
    NULL,
};

static bool is_one_of(const char *name, const char *const *names)
{
    for (; *names; names++) {
        size_t length = strlen(*names);
        bool is_family = (*names)[length - 1] == '-';

        if (is_family ? strncasecmp(name, *names, length) == 0 : strcasecmp(name, *names) == 0)
            return true;
    }
    return false;
}

const char *port_path_of(const char *path, size_t skip)
{
    for (size_t i = 0; *path == '/' && i < skip; i++)
        path += 1 + strcspn(path + 1, "/");
    return path;
}

/* ---- the request ---- */

/* Whether the text is changed by masking keys. */
static bool has_key(const char *text, size_t length)
{
    CLEANUP(buf_free) struct buf copy = BUF_INIT(LIMIT_HTTP_HEADERS);

    if (length == 0)
        return false;
    if (buf_append(&copy, text, length) < 0)
        return true;
    mask_keys(copy.data, copy.length);
    return memcmp(copy.data, text, length) != 0;
}

/* "Basic BASE64" hides a key from mask_keys(). */
static bool has_hidden_key(const char *value)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_HTTP_HEADERS);
    const char *at = value + strcspn(value, " ");

    at += strspn(at, " ");
    return base64_decode(at, strlen(at), &text) == 0 && text.length > 0 &&
           has_key(text.data, text.length);
}

struct writing {
    const struct port_call *call;
    struct buf *head;
    const char *connection; /* names of headers that are hop by hop too */
    int result;
};

static bool passes_to_guest(const struct writing *writing, const char *name, const char *value)
{
    if (is_one_of(name, hop_by_hop) || is_one_of(name, never_to_guest) ||
        ws_list_has(writing->connection, name))
        return false;
    if (!writing->call->has_origin && is_one_of(name, api_origin_request))
        return false;
    return strcasecmp(name, "Authorization") != 0 || !has_hidden_key(value);
}

static void write_header(void *ctx, const char *name, const char *value)
{
    struct writing *writing = ctx;

    if (writing->result == 0 && passes_to_guest(writing, name, value))
        writing->result = buf_printf(writing->head, "%s: %s\r\n", name, value);
}

/* The protocols that a WebSocket offers, without the one that is a key. */
static bool write_protocol(void *ctx, const char *word, size_t length)
{
    struct writing *writing = ctx;

    if (str_starts(word, "bailey.") || has_key(word, length))
        return false;
    if (writing->result == 0)
        writing->result =
            buf_printf(writing->head, "Sec-WebSocket-Protocol: %.*s\r\n", (int)length, word);
    return false;
}

static bool is_target(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text <= ' ' || *text == 0x7f)
            return false;
    }
    return true;
}

static int write_line(const struct port_call *call, struct buf *head, struct error *err)
{
    const char *path = port_path_of(http_path(call->http), call->skip);
    const char *query = http_query_text(call->http);
    const char *host = http_header(call->http, "Host");

    if (!is_target(path) || (query && !is_target(query)))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "the path or the query has characters that an address cannot have");
    if (buf_printf(head, "%s %s%s%s%s HTTP/1.1\r\n", http_method(call->http),
                   path[0] == '/' ? "" : "/", path, query ? "?" : "", query ? query : "") < 0)
        return error_memory(err);
    if (call->has_origin && host)
        return buf_printf(head, "Host: %s\r\n", host);
    return buf_printf(head, "Host: localhost:%u\r\n", call->port);
}

/* How the body is framed, and what becomes of the connection. */
static int write_framing(const struct port_call *call, struct buf *head)
{
    int64_t length = http_body_length(call->http);
    bool is_websocket = http_wants_websocket(call->http) > 0;
    int r = 0;

    if (length >= 0)
        r = buf_printf(head, "Content-Length: %lld\r\n", (long long)length);
    else if (http_header(call->http, "Transfer-Encoding"))
        r = buf_append_text(head, "Transfer-Encoding: chunked\r\n");
    if (r == 0)
        r = buf_append_text(head, is_websocket ? "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                                               : "Connection: close\r\n");
    return r;
}

int port_request_head(const struct port_call *call, struct buf *head, struct error *err)
{
    struct writing writing = {
        .call = call, .head = head, .connection = http_header(call->http, "Connection")};
    size_t before = head->length;
    int r = write_line(call, head, err);

    if (r < 0 && err->num < 0)
        return r;
    http_header_each(call->http, write_header, &writing);
    if (http_wants_websocket(call->http) > 0)
        ws_list_each(http_header(call->http, "Sec-WebSocket-Protocol"), write_protocol, &writing);
    if (r == 0)
        r = writing.result;
    if (r == 0)
        r = write_framing(call, head);
    if (r == 0)
        r = buf_append_text(head, "\r\n");
    if (r < 0)
        return error_set(err, r, ERROR_TOO_LARGE, "the headers of the request are too large");
    mask_keys(head->data + before, head->length - before);
    return 0;
}

/* ---- the reply ---- */

/* The header as "Name: value" in the memory, which never moves. */
static int add(struct buf *memory, const char **headers, size_t *count, const char *name,
               const char *prefix, const char *value)
{
    size_t at = memory->length;

    if (buf_printf(memory, "%s: %s%s", name, prefix, value) < 0 || buf_append(memory, "", 1) < 0)
        return -ENOMEM;
    headers[(*count)++] = memory->data + at;
    return 0;
}

/* The part of an address on the guest's own server that a client has to ask the relay for. */
static const char *own_path(const struct port_call *call, const char *location)
{
    static const char *const hosts[] = {"http://localhost:", "http://127.0.0.1:"};
    char port[8];

    if (location[0] == '/')
        return location[1] == '/' ? NULL : location;
    str_format(port, sizeof(port), "%u", call->port);
    for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
        const char *at = str_starts(location, hosts[i]) ? location + strlen(hosts[i]) : "";

        if (str_starts(at, port) && at[strlen(port)] == '/')
            return at + strlen(port);
    }
    return NULL;
}

/* Whether a cookie has an attribute Domain. */
static bool is_for_others(const char *cookie)
{
    for (const char *at = strchr(cookie, ';'); at; at = strchr(at, ';')) {
        at += 1 + strspn(at + 1, " \t");
        if (strncasecmp(at, "domain", strlen("domain")) == 0)
            return true;
    }
    return false;
}

static bool passes_to_client(const struct port_call *call, const struct reply_reader *reply,
                             const struct reply_header *header)
{
    if (is_one_of(header->name, hop_by_hop) || is_one_of(header->name, never_to_client) ||
        ws_list_has(reply_reader_header(reply, "Connection"), header->name) ||
        strlen(header->name) > 100)
        return false;
    if (!call->has_origin)
        return !is_one_of(header->name, api_origin_reply);
    /* A cookie for a domain would be sent to other sandboxes and to the API. */
    return strcasecmp(header->name, "Set-Cookie") != 0 || !is_for_others(header->value);
}

static int add_reply_header(const struct port_call *call, const struct reply_header *header,
                            struct buf *memory, const char **headers, size_t *count)
{
    const char *path = http_path(call->http);
    const char *own = strcasecmp(header->name, "Location") == 0 && !call->has_origin
                          ? own_path(call, header->value)
                          : NULL;
    char prefix[1024] = "";

    if (own)
        str_format(prefix, sizeof(prefix), "%.*s", (int)(port_path_of(path, call->skip) - path),
                   path);
    return add(memory, headers, count, header->name, prefix, own ? own : header->value);
}

/*
 * Room for all at once, and for the NUL that a buf keeps behind its bytes: the headers are pointers
 * into it, so it must never be moved.
 */
static int make_room(struct buf *memory, const struct port_call *call,
                     const struct reply_reader *reply)
{
    size_t size = strlen(http_path(call->http)) + KIB;

    for (size_t i = 0; i < reply->header_count; i++)
        size += strlen(reply->headers[i].name) + strlen(reply->headers[i].value) + sizeof(": ");
    *memory = BUF_INIT(size);
    memory->data = malloc(size + 1);
    memory->capacity = memory->data ? size + 1 : 0;
    return memory->data ? 0 : -ENOMEM;
}

int port_reply_headers(const struct port_call *call, const struct reply_reader *reply,
                       struct buf *memory, const char *headers[PORT_HEADERS_MAX])
{
    size_t count = 0;
    int r = make_room(memory, call, reply);

    for (size_t i = 0; i < reply->header_count && r == 0; i++) {
        if (passes_to_client(call, reply, &reply->headers[i]))
            r = add_reply_header(call, &reply->headers[i], memory, headers, &count);
    }
    if (!call->has_origin) {
        headers[count++] = "Content-Security-Policy: sandbox";
        headers[count++] = "X-Content-Type-Options: nosniff";
        headers[count++] = "Referrer-Policy: no-referrer";
    }
    headers[count] = NULL;
    return r;
}

int port_switch_headers(const struct port_call *call, const struct reply_reader *reply,
                        struct buf *memory, const char *headers[PORT_HEADERS_MAX])
{
    static const char *const names[] = {"Sec-WebSocket-Protocol", "Sec-WebSocket-Extensions"};
    const char *accept = reply_reader_header(reply, "Sec-WebSocket-Accept");
    char own[WS_ACCEPT_MAX];
    size_t count = 0;
    int r = make_room(memory, call, reply);

    ws_accept(http_header(call->http, "Sec-WebSocket-Key"), own);
    if (!str_equal(accept, own) ||
        !ws_list_has(reply_reader_header(reply, "Upgrade"), "websocket") ||
        !ws_list_has(reply_reader_header(reply, "Connection"), "upgrade"))
        return -EPROTO;
    headers[count++] = "Upgrade: websocket";
    if (r == 0)
        r = add(memory, headers, &count, "Sec-WebSocket-Accept", "", own);
    for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++) {
        const char *value = reply_reader_header(reply, names[i]);

        if (value)
            r = add(memory, headers, &count, names[i], "", value);
    }
    headers[count] = NULL;
    return r;
}
