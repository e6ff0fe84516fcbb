/*
 * front.c - answers to what fits no row, in the words of the door that it came to: which one that
 * is says its header before its path.
 */
#include "api/execute/execute.h"
#include "api/rest/rest_private.h"

bool rest_front_admit(struct http_request *http, void *ctx)
{
    struct rest_call call = {.rest = ctx, .http = http, .route = http_row(http)};

    return rest_admit(&call);
}

void rest_front_no_route(struct http_request *http, bool is_path, const char *allow, void *ctx)
{
    if (execute_is_elsewhere(http))
        execute_elsewhere(http);
    else if (execute_has(http_path(http)))
        execute_no_route(http, is_path, allow);
    else
        rest_no_route(http, is_path, allow, ctx);
}

void rest_front_refuse(struct http_request *http, unsigned status, const char *why, void *ctx)
{
    if (execute_has(http_path(http)))
        execute_refuse(http, status, why);
    else
        rest_refuse(http, status, why, ctx);
}
