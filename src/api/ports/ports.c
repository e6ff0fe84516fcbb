/*
 * ports.c - the addresses below /v1/sessions/{id}/ports/{port}/ and of signed links, which a server
 * of the session's guest answers; docs/ports.md. The list of ports and the making of links are the
 * REST door's.
 *
 * Path, query and body are the guest's, so this door checks none of them against a schema, and its
 * requests are logged without their paths, which may have a link's signature.
 */
#include <errno.h>
#include <string.h>

#include "api/front/reply.h"
#include "api/link.h"
#include "api/port_relay.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "http/ws_handshake.h"
#include "session/artifacts.h"

extern const struct door_ops ports_door;

#define KEY_SEGMENTS 5  /* v1 sessions {id} ports {port} */
#define LINK_SEGMENTS 6 /* v1 ports {id} {port} {expires} {signature} */

static void fail(const struct port_call *call, const struct error *err)
{
    front_fail(call->front, call->http, err, NULL);
}

static uint16_t port_of(struct door_call *call)
{
    uint16_t port = port_read(http_param(call->http, "port"));

    if (port == 0)
        front_fail_field(call->http, "port", "'port' has to be a number from 1 to 65535");
    return port;
}

static void relay(struct door_call *call, struct session *session, size_t skip, bool is_raw)
{
    const struct port_call port_call = {
        .front = call->front,
        .http = call->http,
        .session = session,
        .port = port_of(call),
        .skip = skip,
        .is_raw = is_raw,
        .fail = fail,
    };

    if (port_call.port > 0)
        port_relay(&port_call);
}

static void by_key(struct door_call *call)
{
    struct session *session;

    if (front_session_to_use(call, &session))
        relay(call, session, KEY_SEGMENTS, false);
}

/* Addresses relative to this one would lack the port: the client is sent to the one with a slash.
 */
static void redirect(struct door_call *call)
{
    const char *path = http_path(call->http), *query = http_query_text(call->http);
    const char *last = strrchr(path, '/');
    CLEANUP(buf_free) struct buf header = BUF_INIT(2 * LIMIT_HTTP_TARGET);
    const char *headers[] = {NULL, NULL};

    if (buf_printf(&header, "Location: %s/%s%s", last ? last + 1 : "", query ? "?" : "",
                   query ? query : "") < 0) {
        front_fail_memory(call->http);
        return;
    }
    headers[0] = buf_text(&header);
    http_reply(call->http, 308, NULL, headers, "", 0);
}

static void raw_by_key(struct door_call *call)
{
    bool is_raw = ws_list_has(http_header(call->http, "Upgrade"), "tcp") &&
                  ws_list_has(http_header(call->http, "Connection"), "upgrade");
    struct session *session;

    if (!front_session_to_use(call, &session))
        return;
    if (is_raw && http_body_length(call->http) <= 0)
        relay(call, session, KEY_SEGMENTS, true);
    else if (port_of(call) > 0)
        redirect(call);
}

/* ---- signed links ---- */

static int check_link(const struct door_call *call, struct session **ret, struct error *err)
{
    const char *id = http_param(call->http, "id");
    uint8_t secret[SHA256_BYTES];
    int r = artifacts_secret(call->front->manager, secret, err);

    if (r == 0)
        r = link_port_check(secret, id, port_read(http_param(call->http, "port")),
                            http_param(call->http, "expires"), http_param(call->http, "signature"),
                            clock_wall_ms() / 1000, err);
    explicit_bzero(secret, sizeof(secret));
    return r < 0 ? r : session_manager_find(call->front->manager, id, ret, err);
}

static void by_link(struct door_call *call)
{
    struct session *session = NULL;
    struct error err = {0};

    if (check_link(call, &session, &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        relay(call, session, LINK_SEGMENTS, false);
}

/* A link stands for the session's tenant, whose quotas it uses. */
static int admit(struct door_call *call, struct error *err)
{
    struct session *session;
    int r;

    if (!call->route->is_open)
        return auth_admit(&call->front->auth, call->http, call->route->scope, &call->caller.who,
                          err);
    r = check_link(call, &session, err);
    if (r < 0)
        return r;
    call->caller.who = (struct principal){.scopes = SCOPES_ORDINARY};
    str_copy(call->caller.who.tenant, sizeof(call->caller.who.tenant), session_tenant(session));
    return auth_admit_as(&call->front->auth, call->http, &call->caller.who, err);
}

/* clang-format off */
#define ROW(verb, address, function, open)                                                   \
    {.method = verb, .path = address, .body = BODY_BYTES, .status = 200, .type = TYPE_BYTES, \
     .scope = SCOPE_SESSIONS, .is_open = open, .handle = function}
#define ALL(address, function, open)                                                         \
    ROW("GET", address, function, open), ROW("POST", address, function, open),               \
    ROW("PUT", address, function, open), ROW("PATCH", address, function, open),              \
    ROW("DELETE", address, function, open), ROW("OPTIONS", address, function, open)

static const struct door_route routes[] = {
    ROW("GET", "/v1/sessions/{id}/ports/{port}", raw_by_key, false),
    ALL("/v1/sessions/{id}/ports/{port}/{path**}", by_key, false),
    ALL("/v1/ports/{id}/{port}/{expires}/{signature}/{path**}", by_link, true),
};
/* clang-format on */

const struct door_ops ports_door = {
    .name = "ports",
    .label = "rest",
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .checks_itself = true,
    .hides_paths = true,
    .admit = admit,
};
