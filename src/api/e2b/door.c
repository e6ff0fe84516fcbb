/* door.c - the addresses of E2B's clients, and this door's row; see e2b.h. */
#include "api/front/row_text.h"
#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"

extern const struct door_ops e2b_door;

/* clang-format off */

/* The control plane: a key is needed. */
#define CONTROL(verb, address, function, body_kind)                                       \
    {.method = verb, .path = address, .body = body_kind, .status = 200, .type = TYPE_JSON, \
     .scope = SCOPE_SESSIONS, .handle = function}
/* What goes to a sandbox: its token decides (admit.c). */
#define SANDBOX(verb, address, function, body_kind, of_scope)                             \
    {.method = verb, .path = address, .body = body_kind, .status = 200, .type = TYPE_JSON, \
     .scope = of_scope, .is_open = true, .handle = function}
#define NOT_HERE(verb, address, why)                                                      \
    {.method = verb, .path = address, .body = BODY_JSON, .status = 501, .type = TYPE_JSON, \
     .scope = SCOPE_SESSIONS, .description = why, .handle = e2b_not_here}

#define NO_SNAPSHOTS "this server makes no snapshots of sandboxes and no forks"
#define NO_TEMPLATES                                                                       \
    "this server builds no templates for E2B's clients: 'bailey template build' makes one, " \
    "and its name is then a template here"
#define NO_VOLUMES "this server has no volumes"
#define NO_SECRETS "this server keeps no secrets for sandboxes: give them with envVars"
#define NO_NETWORK                                                                        \
    "rules for a single sandbox are not supported; what sandboxes may reach is configured on " \
    "the server"

static const struct door_route routes[] = {
    CONTROL("POST", "/sandboxes", e2b_create, BODY_JSON),
    CONTROL("POST", "/v2/sandboxes", e2b_create_v2, BODY_JSON),
    CONTROL("GET", "/sandboxes", e2b_list, BODY_NONE),
    CONTROL("GET", "/v2/sandboxes", e2b_list_v2, BODY_NONE),
    CONTROL("GET", "/sandboxes/metrics", e2b_metrics_several, BODY_NONE),
    CONTROL("GET", "/sandboxes/{id}", e2b_get, BODY_NONE),
    CONTROL("DELETE", "/sandboxes/{id}", e2b_delete, BODY_NONE),
    CONTROL("POST", "/sandboxes/{id}/connect", e2b_connect, BODY_JSON),
    CONTROL("POST", "/v2/sandboxes/{id}/connect", e2b_connect, BODY_JSON),
    CONTROL("POST", "/sandboxes/{id}/timeout", e2b_set_timeout, BODY_JSON),
    CONTROL("POST", "/sandboxes/{id}/refreshes", e2b_refresh, BODY_JSON),
    CONTROL("GET", "/sandboxes/{id}/metrics", e2b_metrics_of, BODY_NONE),
    CONTROL("GET", "/sandboxes/{id}/logs", e2b_logs, BODY_NONE),
    CONTROL("GET", "/v2/sandboxes/{id}/logs", e2b_logs_v2, BODY_NONE),
    CONTROL("POST", "/sandboxes/{id}/resume", e2b_resume, BODY_JSON),
    CONTROL("POST", "/sandboxes/{id}/pause", e2b_pause, BODY_JSON),
    NOT_HERE("POST", "/sandboxes/{id}/snapshots", NO_SNAPSHOTS),
    NOT_HERE("POST", "/sandboxes/{id}/fork", NO_SNAPSHOTS),
    NOT_HERE("GET", "/snapshots", NO_SNAPSHOTS),
    NOT_HERE("PUT", "/sandboxes/{id}/network", NO_NETWORK),
    NOT_HERE("POST", "/v3/templates", NO_TEMPLATES),
    NOT_HERE("POST", "/v2/templates/{rest*}", NO_TEMPLATES),
    NOT_HERE("GET", "/templates", NO_TEMPLATES),
    NOT_HERE("GET", "/v2/templates", NO_TEMPLATES),
    NOT_HERE("POST", "/templates", NO_TEMPLATES),
    NOT_HERE("GET", "/templates/{rest*}", NO_TEMPLATES),
    NOT_HERE("POST", "/templates/{rest*}", NO_TEMPLATES),
    NOT_HERE("PATCH", "/templates/{rest*}", NO_TEMPLATES),
    NOT_HERE("DELETE", "/templates/{rest*}", NO_TEMPLATES),
    NOT_HERE("GET", "/volumes", NO_VOLUMES),
    NOT_HERE("POST", "/volumes", NO_VOLUMES),
    NOT_HERE("GET", "/volumes/{rest*}", NO_VOLUMES),
    NOT_HERE("DELETE", "/volumes/{rest*}", NO_VOLUMES),
    NOT_HERE("GET", "/secrets", NO_SECRETS),
    NOT_HERE("POST", "/secrets", NO_SECRETS),
    NOT_HERE("GET", "/secrets/{rest*}", NO_SECRETS),
    NOT_HERE("POST", "/secrets/{rest*}", NO_SECRETS),
    NOT_HERE("DELETE", "/secrets/{rest*}", NO_SECRETS),

    SANDBOX("POST", "/process.Process/{method}", e2b_process_call, BODY_JSON, SCOPE_SESSIONS),
    SANDBOX("POST", "/filesystem.Filesystem/{method}", e2b_filesystem_call, BODY_JSON,
            SCOPE_FILES),
    SANDBOX("GET", "/files", e2b_file_get, BODY_NONE, SCOPE_FILES),
    SANDBOX("POST", "/files", e2b_file_post, BODY_BYTES, SCOPE_FILES),
    SANDBOX("GET", "/envs", e2b_envs, BODY_NONE, SCOPE_SESSIONS),
    SANDBOX("GET", "/contexts", e2b_contexts_list, BODY_NONE, SCOPE_SESSIONS),
    SANDBOX("POST", "/contexts", e2b_contexts_new, BODY_JSON, SCOPE_SESSIONS),
    SANDBOX("POST", "/contexts/{context}/restart", e2b_context_restart, BODY_JSON,
            SCOPE_SESSIONS),
    SANDBOX("DELETE", "/contexts/{context}", e2b_context_remove, BODY_NONE, SCOPE_SESSIONS),
    /* Other doors have these too: they are E2B's where claims() says so. */
    SANDBOX("GET", "/health", e2b_health, BODY_NONE, SCOPE_SESSIONS),
    SANDBOX("GET", "/metrics", e2b_metrics, BODY_NONE, SCOPE_SESSIONS),
    SANDBOX("POST", "/execute", e2b_execute, BODY_JSON, SCOPE_SESSIONS),
};
/* clang-format on */

static const struct e2b_wire wire;

static int open_door(struct front *front, void **ret, struct error *err)
{
    return e2b_open(front, &wire, ret, err);
}

const struct door_ops e2b_door = {
    .name = "e2b",
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .checks_itself = true,
    .hides_paths = true,
    .allows_duplicates = true,
    .claims = e2b_claims,
    .open = open_door,
    .close = e2b_close,
    .admit = e2b_admit,
    .fail = e2b_fail_error,
    .refuse = e2b_refuse,
};
