/*
 * refuse.c - refuses requests without a handler: no row matches, or the server itself refuses them.
 * The text is the same for every door, the shape is that of the request's door.
 */
#include "api/front/front_private.h"
#include "api/front/reply.h"
#include "base/str.h"

static void refuse(struct http_request *http, const struct door_refusal *refusal)
{
    const struct door_ops *ops = front_door_of(http)->ops;

    (ops->refuse ? ops->refuse : front_refuse)(http, refusal);
}

void front_no_route(struct http_request *http, bool is_path, const char *allow, void *ctx)
{
    const struct front *front = ctx;
    char header[200], text[600], nearest[ROUTE_SUGGEST_MAX] = "";

    str_format(header, sizeof(header), "Allow: %s", allow ? allow : "");
    if (is_path) {
        str_format(text, sizeof(text), "%.20s is not possible here; allowed: %s", http_method(http),
                   allow ? allow : "");
    } else {
        route_suggest(front->own->routes, front->own->searched_count, http_path(http), nearest);
        str_format(text, sizeof(text), "there is no '%.200s'; %s%s%s", http_path(http),
                   nearest[0] ? "did you mean '" : "GET /openapi.json lists the addresses", nearest,
                   nearest[0] ? "'?" : ", and /docs shows them");
    }
    refuse(http, &(struct door_refusal){.status = is_path ? 405 : 404,
                                        .code = is_path ? ERROR_METHOD : ERROR_NO_ROUTE,
                                        .text = text,
                                        .header = is_path ? header : NULL,
                                        .nearest = nearest[0] ? nearest : NULL});
}

#define RETRY "Retry-After: 1"

static const char *code_of(unsigned status)
{
    return status == 400   ? ERROR_BAD_INPUT
           : status == 403 ? ERROR_FORBIDDEN
           : status == 429 ? ERROR_QUOTA
           : status == 503 ? ERROR_BUSY
           : status >= 500 ? ERROR_ENGINE
                           : ERROR_TOO_LARGE;
}

void front_server_refuses(struct http_request *http, unsigned status, const char *why, void *ctx)
{
    if (status == 403)
        front_page_refused(ctx, http);
    refuse(http, &(struct door_refusal){.status = status,
                                        .code = code_of(status),
                                        .text = why,
                                        .header = status == 429 || status == 503 ? RETRY : NULL});
}
