/*
 * front.c - which door a request belongs to, by its header before its path; and answers to what
 * fits no row, in the words of the door that it came to.
 */
#include "api/execute/execute.h"
#include "api/rest/inside.h"

void rest_front(struct http_request *http, void *ctx)
{
    if (execute_is_elsewhere(http))
        execute_elsewhere(http);
    else
        rest_dispatch(http, ctx);
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

bool rest_front_knows(struct http_request *http, void *ctx)
{
    const struct rest *rest = ctx;

    return gate_knows(&rest->gate, http) ||
           (execute_has(http_path(http)) && engine_config(rest->engine)->execute_is_open);
}
