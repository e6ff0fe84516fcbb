/*
 * front.h - the front hall: every server of the daemon, and behind them the doors of api/doors.h.
 *
 * Owns the servers, one for each address, authentication, the log and the counts of requests, the
 * open doors and the tool calls under way. Started once by the broker. One thread, never blocks
 * except where session.h does.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_FRONT_FRONT_H
#define BAILEY_API_FRONT_FRONT_H

#include "base/error.h"
#include "base/reactor.h"
#include "http/server.h"

struct door_ops;
struct session_manager;
struct upstream_link;
struct front;
typedef struct json_t json_t;

#define FRONT_ADDRESSES_MAX 16 /* beside the socket */
#define FRONT_DOORS_MAX 16

/*
 * In the order in which their rows are searched. The first door refuses requests that belong to no
 * door.
 */
struct door_list {
    const struct door_ops *rows[FRONT_DOORS_MAX];
    size_t count;
};

/* Facts for GET /v1/info that the session manager does not have; borrowed. */
struct front_info {
    const char *socket, *state;
    const char *file;             /* the bailey.yaml that the daemon has read; NULL: none */
    int launcher_pid, broker_pid; /* as the host sees them; 0: unknown */
    unsigned generation;
    /* POST /v1/reload: `body` is valid by its row; *ret is a new reference. NULL: reload is
     * refused. */
    int (*reload)(void *ctx, json_t *body, json_t **ret, struct error *err);
    void *reload_ctx;
    struct upstream_link *upstream; /* calls of the model server */
    bool has_fixtures; /* offers the fixtures of MCP's conformance suite: only in tests */
};

/* listen_fd is borrowed. */
int front_serve(struct reactor *reactor, struct session_manager *manager, int listen_fd,
                const struct front_info *info, const struct door_list *doors, struct front **ret,
                struct error *err);
/* One more address with the same doors; `tls` and `browsers` as in http/server.h. */
int front_listen(struct front *front, int listen_fd, const struct http_tls *tls,
                 const struct http_browsers *browsers, struct error *err);
/* For new connections of every address that was opened with TLS. */
int front_set_tls(struct front *front, const struct http_tls *tls, struct error *err);
struct http_server *front_server(
    struct front *front); /* the server of the unix socket, for the number of its clients */
void front_quiesce(struct front *front); /* no new connections; NULL is fine */
void front_stop(struct front *front);    /* ends every request; NULL is fine */

#endif
