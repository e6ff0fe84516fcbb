/*
 * ports.c - requests to a port of a sandbox that is neither envd's nor the code interpreter's: by
 * the host label "3000-ID.domain" that get_host() gives, or by E2B's headers. A server of the guest
 * answers them; docs/ports.md, docs/e2b.md. A door of its own: the sandboxes of E2B's and of
 * Scalebox's clients are reached by the same names.
 *
 * As at E2B these requests need no key: the sandbox's id is the secret. The ids of sessions that
 * other doors made are not secret, so a request to their ports needs a key of their tenant.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/port_relay.h"
#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

extern const struct door_ops e2b_ports_door;

static bool claims(const struct http_request *http)
{
    struct e2b_target target;

    return e2b_target_of(http, &target) && !target.is_debug && target.id[0] && target.port > 0 &&
           target.port != E2B_ENVD_PORT && target.port != E2B_INTERPRETER_PORT;
}

/* What E2B's proxy answers where nothing listens: clients compare the text. */
static void fail_closed(const struct port_call *call)
{
    front_reply(call->http, 502,
                json_pack("{s:s, s:s, s:i, s:i}", "sandboxId", e2b_id(call->session), "message",
                          "The sandbox is running but port is not open", "port", call->port, "code",
                          502));
}

static void fail(const struct port_call *call, const struct error *err)
{
    struct door_call door_call = {
        .front = call->front, .http = call->http, .route = front_route(call->http)};

    if (str_equal(err->code, ERROR_PORT_CLOSED))
        fail_closed(call);
    else
        e2b_fail_error(&door_call, err);
}

static bool has_own_host(const struct http_request *http)
{
    struct e2b_target target;

    return !http_header(http, "E2b-Sandbox-Id") &&
           e2b_host_read(http_header(http, "Host"), &target);
}

/* A session of another door: a key of its tenant is needed. */
static int admit_by_key(struct door_call *call, const struct e2b_target *target,
                        struct session **ret, struct error *err)
{
    char word[ID_MAX];
    int r;

    str_format(word, sizeof(word), "s_%s", target->id);
    if (!http_header(call->http, "Authorization") && !http_header(call->http, "X-API-Key") &&
        !http_is_local(call->http))
        return error_set(err, -ENOENT, ERROR_SESSION_NOT_FOUND, "The sandbox was not found");
    r = auth_admit(&call->front->auth, call->http, SCOPE_SESSIONS, &call->caller.who, err);
    return r < 0 ? r : auth_session(&call->front->auth, &call->caller.who, word, false, ret, err);
}

/* Admits the request, and finds whose port it means. */
static int find(struct door_call *call, struct session **ret, struct error *err)
{
    struct e2b e2b = {.front = call->front};
    struct e2b_target target;
    int r;

    if (http_header_differs(call->http, "E2b-Sandbox-Id") ||
        http_header_differs(call->http, "E2b-Sandbox-Port") || !e2b_target_of(call->http, &target))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "this request names no sandbox, or two");
    *ret = e2b_find(&e2b, NULL, target.id);
    if (!*ret)
        return admit_by_key(call, &target, ret, err);
    r = e2b_stand_in(&e2b, *ret, &call->caller.who, err);
    if (r == 0)
        r = session_check_pause(*ret, err); /* traffic may resume it */
    return r < 0 ? r : auth_admit_as(&call->front->auth, call->http, &call->caller.who, err);
}

static int admit(struct door_call *call, struct error *err)
{
    struct session *session;

    return find(call, &session, err);
}

static void handle(struct door_call *call)
{
    struct session *session = NULL;
    struct e2b_target target;
    struct error err = {0};
    struct port_call port_call;

    if (find(call, &session, &err) < 0 || !e2b_target_of(call->http, &target)) {
        e2b_fail_error(call, &err);
        return;
    }
    port_call = (struct port_call){
        .front = call->front,
        .http = call->http,
        .session = session,
        .port = (uint16_t)target.port,
        .has_origin = has_own_host(call->http),
        .fail = fail,
    };
    port_relay(&port_call);
}

/* clang-format off */
#define ROW(verb)                                                                            \
    {.method = verb, .path = "/{path**}", .body = BODY_BYTES, .status = 200,                 \
     .type = TYPE_BYTES, .scope = SCOPE_SESSIONS, .is_open = true, .handle = handle}
static const struct door_route routes[] = {
    ROW("GET"), ROW("POST"), ROW("PUT"), ROW("PATCH"), ROW("DELETE"), ROW("OPTIONS"),
};
/* clang-format on */

const struct door_ops e2b_ports_door = {
    .name = "e2b_ports",
    .label = "e2b",
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .checks_itself = true,
    .only_claimed = true,
    .hides_paths = true,
    .claims = claims,
    .admit = admit,
    .fail = e2b_fail_error,
    .refuse = e2b_refuse,
};
