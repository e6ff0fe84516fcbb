/* door.c - the addresses of Scalebox's clients, and this door's row; see scalebox.h. */
#include <string.h>

#include "api/front/row_text.h"
#include "api/scalebox/scalebox.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

extern const struct door_ops scalebox_door;

/* clang-format off */

/* The control plane: a key is needed. */
#define CONTROL(verb, address, function, body_kind)                                       \
    {.method = verb, .path = address, .body = body_kind, .status = 200, .type = TYPE_JSON, \
     .scope = SCOPE_SESSIONS, .handle = function}
/* What goes to a sandbox: its token decides. */
#define SANDBOX(verb, address, function, body_kind, of_scope)                             \
    {.method = verb, .path = address, .body = body_kind, .status = 200, .type = TYPE_JSON, \
     .scope = of_scope, .is_open = true, .handle = function}
#define NOT_HERE(verb, address, why)                                                      \
    {.method = verb, .path = address, .body = BODY_JSON, .status = 501, .type = TYPE_JSON, \
     .scope = SCOPE_SESSIONS, .description = why, .handle = e2b_not_here}

#define NO_TEMPLATES                                                                            \
    "this server builds no templates for Scalebox's clients: 'bailey template build' makes one, " \
    "and its name is then a template here"
#define NO_PORTS "ports of a sandbox need not be declared here, and cannot be"
#define NO_REGIONS "this server is one machine: there are no regions to choose from"
#define NO_CODE                                                                              \
    "code runs through sandboxagent.ExecutionService of a sandbox, not through the control " \
    "plane"

static const struct door_route routes[] = {
    CONTROL("POST", "/v1/sandboxes", e2b_create_v2, BODY_JSON),
    CONTROL("GET", "/v1/sandboxes", e2b_list_v2, BODY_NONE),
    CONTROL("GET", "/v1/sandboxes/{id}", e2b_get, BODY_NONE),
    CONTROL("DELETE", "/v1/sandboxes/{id}", e2b_delete, BODY_NONE),
    CONTROL("POST", "/v1/sandboxes/{id}/connect", e2b_connect, BODY_JSON),
    CONTROL("POST", "/v1/sandboxes/{id}/timeout", e2b_set_timeout, BODY_JSON),
    CONTROL("POST", "/v1/sandboxes/{id}/pause", e2b_pause, BODY_JSON),
    CONTROL("POST", "/v1/sandboxes/{id}/resume", e2b_resume, BODY_JSON),
    CONTROL("GET", "/v1/sandboxes/{id}/metrics", e2b_metrics_of, BODY_NONE),
    NOT_HERE("POST", "/v1/sandboxes/{id}/execute", NO_CODE),
    NOT_HERE("POST", "/v1/sandboxes/{id}/create-template", NO_TEMPLATES),
    NOT_HERE("GET", "/v1/sandboxes/{id}/ports", NO_PORTS),
    NOT_HERE("POST", "/v1/sandboxes/{id}/ports", NO_PORTS),
    NOT_HERE("DELETE", "/v1/sandboxes/{id}/ports/{port}", NO_PORTS),
    NOT_HERE("POST", "/v1/contexts", NO_CODE),
    NOT_HERE("GET", "/v1/contexts/{rest*}", NO_CODE),
    NOT_HERE("DELETE", "/v1/contexts/{rest*}", NO_CODE),
    NOT_HERE("GET", "/v1/scalebox-regions", NO_REGIONS),

    SANDBOX("POST", "/sandboxagent.Process/{method}", e2b_process_call, BODY_JSON,
            SCOPE_SESSIONS),
    SANDBOX("POST", "/sandboxagent.Filesystem/{method}", e2b_filesystem_call, BODY_JSON,
            SCOPE_FILES),
    SANDBOX("POST", "/sandboxagent.ContextService/{method}", scalebox_context, BODY_JSON,
            SCOPE_SESSIONS),
    SANDBOX("POST", "/sandboxagent.ExecutionService/Execute", e2b_execute_stream, BODY_JSON,
            SCOPE_SESSIONS),
    SANDBOX("POST", "/upload", e2b_file_post, BODY_BYTES, SCOPE_FILES),
    SANDBOX("GET", "/download/{path*}", e2b_file_get, BODY_NONE, SCOPE_FILES),
};
/* clang-format on */

/*
 * Tokens of sandboxes are the same for E2B's clients, so the path decides; but a request that E2B's
 * headers or a host with a port send into a sandbox belongs to another door. The Python package
 * sends the token to the control plane, too.
 */
static bool claims(const struct http_request *http)
{
    static const char *const paths[] = {"/sandboxagent.", "/upload", "/download/", "/v1/sandboxes"};
    struct e2b_target ignored;

    if (http_header(http, "E2b-Sandbox-Id") || e2b_host_read(http_header(http, "Host"), &ignored))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
        if (str_starts(http_path(http), paths[i]))
            return true;
    return false;
}

static json_t *in_words_of_e2b(const struct door_call *call, json_t *body, struct error *err)
{
    return scalebox_body(body, call->route->handle == e2b_create_v2, err);
}

static const struct e2b_wire wire = {
    .body = in_words_of_e2b,
    .methods = scalebox_methods,
    .event = scalebox_event,
    .has_details = true,
    .keeps_timeout = true,
    .says_root = true,
    .state_query = "status",
};

static int open_door(struct front *front, void **ret, struct error *err)
{
    return e2b_open(front, &wire, ret, err);
}

static void reply(struct http_request *http, unsigned status, const char *const *headers,
                  json_t *json)
{
    const struct door_route *route = front_route(http);

    if (!route->is_open) {
        json = scalebox_reply_json(status, http_header(http, "Host"), clock_wall_ms(), json);
        front_reply_json(http, status, headers, json);
    } else if (json_array_size(json) == 1) { /* of an upload: one file */
        front_reply_json(http, status, headers, json_incref(json_array_get(json, 0)));
        json_decref(json);
    } else {
        if (http_param(http, "method") && status != 200)
            scalebox_error_words(http_path(http), json);
        e2b_unary_reply(http, status, headers, json);
    }
}

const struct door_ops scalebox_door = {
    .name = "scalebox",
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .checks_itself = true,
    .hides_paths = true,
    .allows_duplicates = true,
    .bearer_is_user = true,
    .claims = claims,
    .open = open_door,
    .close = e2b_close,
    .admit = e2b_admit,
    .fail = e2b_fail_error,
    .reply = reply,
    .refuse = e2b_refuse,
};
