/* front.c - opens and closes the servers; see front.h. */
#include "api/front/front.h"

#include <errno.h>
#include <stdlib.h>

#include "api/front/active_requests.h"
#include "api/front/front_private.h"
#include "api/front/idempotency.h"
#include "base/clock.h"
#include "tool/call.h"

static int start_server(struct front *front, int listen_fd, const struct http_tls *tls,
                        const struct http_browsers *browsers, struct http_server **ret,
                        struct error *err)
{
    const struct config *config = session_manager_config(front->manager);

    return http_server_start(front->reactor,
                             &(struct http_server_spec){
                                 .listen_fd = listen_fd,
                                 .tls = tls,
                                 .takes_plain = config->tls_is_optional,
                                 .browsers = browsers,
                                 .ctx = front,
                                 .client_max = LIMIT_CLIENTS,
                                 .held = session_manager_held(front->manager),
                                 .keyless_max = browsers ? LIMIT_KEYLESS : 0,
                                 .tenant_max = browsers ? LIMIT_TENANT_CLIENTS : 0,
                                 .table = front_table,
                                 /* A client of the unix socket is the local owner, who has no
                                  * time limit for the head. */
                                 .head_ms = browsers ? config->head_ms : 0,
                                 .body_ms = browsers ? config->body_ms : 0,
                                 .prepare = front_prepare,
                                 .unprepare = front_unprepare,
                                 .no_route = front_no_route,
                                 .refuse = front_server_refuses,
                                 .handled = front_handled,
                                 .done = front_done,
                             },
                             ret, err);
}

int front_listen(struct front *front, int listen_fd, const struct http_tls *tls,
                 const struct http_browsers *browsers, struct error *err)
{
    int r;

    if (front->own->other_count == FRONT_ADDRESSES_MAX)
        return error_set(err, -E2BIG, ERROR_ENGINE, "too many addresses");
    r = start_server(front, listen_fd, tls, browsers, &front->own->others[front->own->other_count],
                     err);
    if (r == 0)
        front->own->other_count++;
    return r;
}

int front_set_tls(struct front *front, const struct http_tls *tls, struct error *err)
{
    int r = 0;

    for (size_t i = 0; i < front->own->other_count && r == 0; i++)
        r = http_server_set_tls(front->own->others[i], tls, err);
    return r;
}

unsigned front_clients(const struct front *front)
{
    unsigned count = http_server_clients(front->own->server);

    for (size_t i = 0; i < front->own->other_count; i++)
        count += http_server_clients(front->own->others[i]);
    return count;
}

void front_quiesce(struct front *front)
{
    if (!front)
        return;
    http_server_quiesce(front->own->server);
    for (size_t i = 0; i < front->own->other_count; i++)
        http_server_quiesce(front->own->others[i]);
}

int front_serve(struct reactor *reactor, struct session_manager *manager, int listen_fd,
                const struct front_info *info, const struct door_list *doors, struct front **ret,
                struct error *err)
{
    struct front *front = calloc(1, sizeof(*front) + sizeof(*front->own));
    int r;

    if (!front)
        return error_memory(err);
    *front = (struct front){.reactor = reactor,
                            .manager = manager,
                            .auth = {.manager = manager,
                                     .index = session_manager_index(manager),
                                     .metrics = session_manager_metrics(manager)},
                            .info = *info,
                            .started_ms = clock_wall_ms(),
                            .doors = *doors,
                            .own = (struct front_private *)(front + 1)};
    front->auth.active_requests = active_requests_new(reactor, manager, front->auth.index);
    front->tools = front->auth.active_requests ? tools_new(manager, reactor) : NULL;
    front->own->idempotency = front->tools ? idempotency_new(front->auth.index) : NULL;
    r = front->own->idempotency ? front_rows_compile(front, err) : error_memory(err);
    if (r == 0)
        r = start_server(front, listen_fd, NULL, NULL, &front->own->server, err);
    if (r < 0) {
        front->own->server = NULL;
        front_stop(front);
        return r;
    }
    *ret = front;
    return 0;
}

struct http_server *front_server(struct front *front)
{
    return front->own->server;
}

void front_stop(struct front *front)
{
    if (!front)
        return;
    http_server_stop(front->own->server);
    for (size_t i = 0; i < front->own->other_count; i++)
        http_server_stop(front->own->others[i]);
    front_rows_free(front);
    idempotency_free(front->own->idempotency);
    tools_free(front->tools);
    active_requests_free(front->auth.active_requests);
    free(front);
}
