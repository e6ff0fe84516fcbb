/*
 * doors.c - which door a request belongs to: by its header first, then by its path. Rows of all of
 * them become routes of the one server.
 */
#include "api/execute/execute.h"
#include "api/rest/inside.h"
#include "base/cleanup.h"

static void on_rest(struct http_request *http, void *ctx)
{
    if (execute_is_elsewhere(http))
        execute_elsewhere(http);
    else
        rest_dispatch(http, ctx);
}

/* It has its own words for everything, so nothing is checked for it. */
static void on_execute(struct http_request *http, void *ctx)
{
    const struct rest_route *row = http_row(http);
    struct rest_call call = {.rest = ctx, .http = http, .route = row};

    if (execute_is_elsewhere(http))
        execute_elsewhere(http);
    else
        row->handle(&call);
}

size_t rest_doors_count(void)
{
    return rest_route_count + execute_row_count;
}

void rest_doors_fill(struct http_route *routes)
{
    for (size_t i = 0; i < rest_doors_count(); i++) {
        bool is_execute = i >= rest_route_count;
        const struct rest_route *row =
            is_execute ? &execute_rows[i - rest_route_count] : &rest_routes[i];

        routes[i] = (struct http_route){
            .method = row->method,
            .pattern = row->path,
            .body = row->body == BODY_JSON    ? HTTP_WHOLE_BODY
                    : row->body == BODY_BYTES ? HTTP_STREAM_BODY
                                              : HTTP_NO_BODY,
            .body_max = row->body != BODY_JSON ? 0
                        : is_execute           ? LIMIT_EXECUTE_BODY
                                               : LIMIT_REQUEST_JSON,
            .handle = is_execute ? on_execute : on_rest,
            .row = row,
        };
    }
}

void rest_doors_no_route(struct http_request *http, bool is_path, const char *allow, void *ctx)
{
    if (execute_is_elsewhere(http))
        execute_elsewhere(http);
    else if (execute_has(http_path(http)))
        execute_no_route(http, is_path, allow);
    else
        rest_no_route(http, is_path, allow, ctx);
}

void rest_doors_refuse(struct http_request *http, unsigned status, const char *why, void *ctx)
{
    if (execute_has(http_path(http)))
        execute_refuse(http, status, why);
    else
        rest_refuse(http, status, why, ctx);
}
