/* rest.c - the REST door opened and closed: rows into routes of the server. */
#include "api/rest/rest.h"

#include <errno.h>
#include <time.h>

#include "api/active_requests.h"
#include "api/rest/doors.h"
#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "tool/call.h"

/* REST's own rows, and behind them those of the other doors. */
static void fill_routes(struct rest *rest, struct http_route *routes)
{
    for (size_t i = 0; i < rest_route_count; i++) {
        const struct rest_route *row = &rest_routes[i];

        routes[i] = (struct http_route){
            .method = row->method,
            .pattern = row->path,
            .body = row->body == BODY_JSON    ? HTTP_WHOLE_BODY
                    : row->body == BODY_BYTES ? HTTP_STREAM_BODY
                                              : HTTP_NO_BODY,
            .body_max = row->body == BODY_JSON ? LIMIT_REQUEST_JSON : 0,
            .handle = rest_dispatch,
            .row = row,
            .admit = rest_front_admit,
        };
    }
    rest_doors_routes(rest, routes + rest_route_count);
}

static int start_server(struct rest *rest, int listen_fd, const struct http_tls *tls,
                        const struct http_browsers *browsers, struct http_server **ret,
                        struct error *err)
{
    const struct config *config = session_manager_config(rest->manager);

    return http_server_start(rest->reactor,
                             &(struct http_server_spec){
                                 .listen_fd = listen_fd,
                                 .tls = tls,
                                 .browsers = browsers,
                                 .routes = rest->routes,
                                 .route_count = rest->route_count,
                                 .ctx = rest,
                                 .client_max = LIMIT_CLIENTS,
                                 .is_elsewhere = execute_is_elsewhere,
                                 /* Who comes over the unix socket is its owner. */
                                 .head_ms = browsers ? config->head_ms : 0,
                                 .body_ms = browsers ? config->body_ms : 0,
                                 .no_route = rest_front_no_route,
                                 .refuse = rest_front_refuse,
                                 .handled = rest_handled,
                                 .done = rest_done,
                             },
                             ret, err);
}

int rest_listen(struct rest *rest, int listen_fd, const struct http_tls *tls,
                const struct http_browsers *browsers, struct error *err)
{
    int r;

    if (rest->other_count == REST_ADDRESSES_MAX)
        return error_set(err, -E2BIG, ERROR_ENGINE, "too many addresses");
    r = start_server(rest, listen_fd, tls, browsers, &rest->others[rest->other_count], err);
    if (r == 0)
        rest->other_count++;
    return r;
}

int rest_set_tls(struct rest *rest, const struct http_tls *tls, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < rest->other_count && r == 0; i++)
        r = http_server_set_tls(rest->others[i], tls, err);
    return r;
}

unsigned rest_clients(const struct rest *rest)
{
    unsigned count = http_server_clients(rest->server);

    for (size_t i = 0; i < rest->other_count; i++)
        count += http_server_clients(rest->others[i]);
    return count;
}

void rest_quiesce(struct rest *rest)
{
    if (!rest)
        return;
    http_server_quiesce(rest->server);
    for (size_t i = 0; i < rest->other_count; i++)
        http_server_quiesce(rest->others[i]);
}

int rest_serve(struct reactor *reactor, struct session_manager *manager, int listen_fd,
               const struct rest_info *info, struct rest **ret, struct error *err)
{
    struct rest *rest = calloc(1, sizeof(*rest));
    struct timespec now;
    int r = -ENOMEM;

    if (!rest)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    *rest = (struct rest){.reactor = reactor,
                          .manager = manager,
                          .auth = {.manager = manager,
                                   .index = session_manager_index(manager),
                                   .metrics = session_manager_metrics(manager)},
                          .info = *info};
    clock_gettime(CLOCK_REALTIME, &now);
    rest->started_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    rest->auth.active_requests = active_requests_new(reactor, manager, rest->auth.index);
    rest->tools = rest->auth.active_requests ? tools_new(manager, reactor) : NULL;
    if (rest->tools)
        r = rest_doors_open(rest, err);
    rest->route_count = r == 0 ? rest_route_count + rest_doors_routes(rest, NULL) : 0;
    rest->routes = calloc(rest->route_count + 1, sizeof(*rest->routes));
    if (r == 0 && rest->routes) {
        fill_routes(rest, rest->routes);
        r = start_server(rest, listen_fd, NULL, NULL, &rest->server, err);
    } else if (r == 0 || !rest->tools) {
        r = error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    }
    if (r < 0) {
        rest->server = NULL;
        rest_stop(rest);
        return r;
    }
    *ret = rest;
    return 0;
}

struct http_server *rest_server(struct rest *rest)
{
    return rest->server;
}

void rest_stop(struct rest *rest)
{
    if (!rest)
        return;
    http_server_stop(rest->server);
    for (size_t i = 0; i < rest->other_count; i++)
        http_server_stop(rest->others[i]);
    rest_doors_close(rest);
    tools_free(rest->tools);
    active_requests_free(rest->auth.active_requests);
    free(rest->routes);
    free(rest);
}
