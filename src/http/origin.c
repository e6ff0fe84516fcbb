/*
 * origin.c - which requests are accepted: no smuggling (head.h), an allowed Host and Origin; and
 * the headers for a browser whose page of another origin may call (CORS).
 */
#include <string.h>

#include "base/str.h"
#include "http/head.h"
#include "http/http_private.h"

static enum MHD_Result add(void *cls, enum MHD_ValueKind kind, const char *name, size_t name_length,
                           const char *value, size_t value_length)
{
    (void)kind;
    head_add(cls, name, name_length, value, value_length);
    return MHD_YES;
}

static void refuse(struct http_request *request, unsigned status, const char *why)
{
    request->must_close = true;
    http_request_refuse(request, status, why);
}

/* The browser's preflight request. Keys are not cookies: no credentials are allowed. */
static void answer_preflight(struct http_request *request)
{
    static const char *const headers[] = {
        "Access-Control-Allow-Methods: GET, HEAD, POST, PUT, PATCH, DELETE",
        "Access-Control-Allow-Headers: Authorization, X-API-Key, Content-Type, Accept, Range, "
        "Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name, "
        "Bailey-Session, "
        "traceparent, tracestate",
        "Access-Control-Max-Age: 600",
        NULL,
    };

    http_reply(request, 204, NULL, headers, NULL, 0);
}

static void look_at_page(struct http_request *request, const struct head *head)
{
    const struct http_browsers *browsers = request->server->spec.browsers;
    enum head_origin whose = head_origin(head->origin, head->host, browsers->origins);

    if (whose == ORIGIN_FOREIGN)
        refuse(request, 403,
               "this Origin may not call the server from a browser (SANDBOX_CORS_ORIGINS)");
    else if (whose == ORIGIN_LISTED)
        request->page = head->origin;
    if (request->page && str_equal(request->method, "OPTIONS") &&
        http_header(request, "Access-Control-Request-Method"))
        answer_preflight(request);
}

bool http_request_look(struct http_request *request)
{
    const struct http_browsers *browsers = request->server->spec.browsers;
    struct head head = {0};
    const char *problem;

    MHD_get_connection_values_n(request->connection, MHD_HEADER_KIND, add, &head);
    problem = head_check(&head, request->is_old);
    if (problem)
        refuse(request, 400, problem);
    else if (browsers && head.host && !head_host_fits(head.host, browsers->hosts))
        refuse(request, 403, "this Host is not a name of the server (SANDBOX_HOSTS)");
    else if (browsers && head.origin)
        look_at_page(request, &head);
    return !request->was_answered;
}

void http_request_let_page(const struct http_request *request, struct MHD_Response *response)
{
    const struct http_browsers *browsers = request->server->spec.browsers;

    if (browsers && browsers->origins && browsers->origins[0])
        MHD_add_response_header(response, "Vary", "Origin");
    if (!request->page)
        return;
    MHD_add_response_header(response, "Access-Control-Allow-Origin", request->page);
    MHD_add_response_header(response, "Access-Control-Expose-Headers", "*");
}
