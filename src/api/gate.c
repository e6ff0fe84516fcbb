/* gate.c - keys, scopes and the quotas of requests and bytes, for every door; see gate.h. */
#include "api/gate.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/ws/ws.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/trace.h"
#include "http/websocket.h"
#include "model/caller.h"
#include "model/text.h"
#include "observe/audit.h"
#include "observe/metrics.h"
#include "session/engine.h"
#include "session/tenant.h"
#include "store/keys.h"

#define BEARER "Bearer"

/* ---- what a request has sent ---- */

struct counting {
    struct engine *engine;
    char tenant[TENANT_MAX];
};

static void on_over(void *ctx, uint64_t bytes)
{
    CLEANUP(freep) struct counting *counting = ctx;

    tenant_used(engine_tenants(counting->engine), counting->tenant, QUOTA_BYTES, bytes);
}

/* The bytes of the reply are the tenant's; who is already counted is counted once. */
static void count_bytes(const struct gate *gate, struct http_request *http,
                        const struct principal *who)
{
    CLEANUP(freep) struct counting *counting = malloc(sizeof(*counting));

    if (!counting)
        return;
    counting->engine = gate->engine;
    str_copy(counting->tenant, sizeof(counting->tenant), who->tenant);
    if (http_on_over(http, on_over, counting))
        counting = NULL;
}

/* ---- who is refused ---- */

static const char *reason_of(const struct error *err)
{
    return err->code == ERROR_UNAUTHORIZED ? "unauthorized"
           : err->code == ERROR_FORBIDDEN  ? "forbidden"
                                           : "quota";
}

/* `who` is what is known by now: of an unknown key nothing. */
static void note_refusal(const struct gate *gate, const struct http_request *http,
                         const struct principal *who, const struct error *err)
{
    const char *path = http_path(http), *method = http_method(http);
    json_t *fields;

    metrics_add(gate->metrics, METRIC_REFUSED, (const char *const[]){reason_of(err), NULL}, 1);
    if (err->quota)
        metrics_add(gate->metrics, METRIC_QUOTA,
                    (const char *const[]){err->quota, who->tenant, NULL}, 1);
    fields = json_pack("{s:s, s:s*, s:s*, s:s*, s:s, s:s, s:o, s:s*, s:s*}", "error", err->code,
                       "quota", err->quota, "tenant", who->tenant[0] ? who->tenant : NULL, "key",
                       who->key[0] ? who->key : NULL, "peer", http_peer(http), "method", method,
                       "path", text_to_json(path, strlen(path)), "request_id",
                       http_request_id(http)[0] ? http_request_id(http) : NULL, "trace_id",
                       http_trace(http)->id[0] ? http_trace(http)->id : NULL);
    if (fields)
        audit_write(engine_audit(gate->engine), "denied", fields);
}

/* ---- the key ---- */

/* The text behind "Bearer"; NULL: it is another scheme. */
static const char *bearer_of(const char *authorization)
{
    size_t length = strlen(BEARER);

    if (strncasecmp(authorization, BEARER, length) != 0 || authorization[length] != ' ')
        return NULL;
    return authorization + length + strspn(authorization + length, " ");
}

/* Of a browser's WebSocket, which can send no header of its own. */
static const char *offered_key(const struct http_request *http, char *key, size_t size)
{
    return http_wants_websocket(http) > 0 &&
                   ws_protocol_key(http_header(http, "Sec-WebSocket-Protocol"), key, size)
               ? key
               : NULL;
}

static int read_key(const struct http_request *http, char *room, size_t size, const char **ret,
                    struct error *err)
{
    const char *authorization = http_header(http, "Authorization");
    const char *plain = http_header(http, "X-API-Key");
    const char *bearer = authorization ? bearer_of(authorization) : NULL;

    if (!authorization && !plain)
        plain = offered_key(http, room, size);
    if (!authorization && !plain)
        return error_set(
            err, -EACCES, ERROR_UNAUTHORIZED,
            "a key is needed: send it as 'Authorization: Bearer KEY' or as 'X-API-Key: "
            "KEY'; 'bailey key new' makes one");
    if (authorization && !bearer)
        return error_set(err, -EACCES, ERROR_UNAUTHORIZED,
                         "the header Authorization has to be 'Bearer KEY'");
    if (bearer && plain && !str_equal(bearer, plain))
        return error_set(err, -EACCES, ERROR_UNAUTHORIZED,
                         "the headers Authorization and X-API-Key have different keys: send one");
    *ret = bearer ? bearer : plain;
    return 0;
}

static int check(const struct gate *gate, const struct http_request *http, enum scope scope,
                 struct principal *who, struct error *err)
{
    struct tenants *tenants = engine_tenants(gate->engine);
    char room[KEY_TEXT_MAX];
    const char *key = NULL;
    int r = read_key(http, room, sizeof(room), &key, err);

    if (r == 0)
        r = keys_check(gate->index, key, clock_wall_ms(), who, err);
    if (r == 0 && !(who->scopes & SCOPE_BIT(scope)))
        r = error_set(
            err, -EPERM, ERROR_FORBIDDEN,
            "this key does not have the scope '%s', which is needed here: use another, or "
            "make one with 'bailey key new --scopes %s'",
            scope_name(scope), scope_name(scope));
    if (r == 0)
        r = tenant_take(tenants, who->tenant, QUOTA_REQUESTS, 1, err);
    if (r == 0)
        r = tenant_take(tenants, who->tenant, QUOTA_BYTES, 0, err);
    return r;
}

bool gate_knows(const struct gate *gate, const struct http_request *http)
{
    char room[KEY_TEXT_MAX];
    struct principal who = {0};
    const char *key = NULL;

    return http_is_local(http) || (read_key(http, room, sizeof(room), &key, NULL) == 0 &&
                                   keys_check(gate->index, key, clock_wall_ms(), &who, NULL) == 0);
}

/* "s_..." of "/v1/sessions/s_.../files", for the log. */
static void read_session(const char *path, char *ret, size_t size)
{
    static const char prefix[] = "/v1/sessions/";

    ret[0] = '\0';
    if (str_starts(path, prefix)) {
        path += sizeof(prefix) - 1;
        (void)str_format(ret, size, "%.*s", (int)MIN(strcspn(path, "/"), size - 1), path);
    }
}

void gate_enter(const struct gate *gate, struct http_request *http, const struct principal *who)
{
    struct caller caller = {.who = *who, .trace = *http_trace(http)};
    struct log_about about = {.request_id = ""};

    str_copy(caller.request, sizeof(caller.request), http_request_id(http));
    str_copy(about.request_id, sizeof(about.request_id), caller.request);
    str_copy(about.trace_id, sizeof(about.trace_id), caller.trace.id);
    str_copy(about.tenant, sizeof(about.tenant), who->tenant);
    read_session(http_path(http), about.session, sizeof(about.session));
    http_set_tenant(http, who->tenant);
    engine_set_caller(gate->engine, &caller);
    log_set_about(&about);
}

void gate_leave(const struct gate *gate)
{
    engine_set_caller(gate->engine, NULL);
    log_set_about(NULL);
}

int gate_admit(const struct gate *gate, struct http_request *http, enum scope scope,
               struct principal *ret, struct error *err)
{
    struct principal who = {0};
    struct error own = {0};
    int r;

    if (http_is_local(http)) {
        *ret = principal_local;
        gate_enter(gate, http, ret);
        return 0;
    }
    r = check(gate, http, scope, &who, &own);
    if (r < 0) {
        note_refusal(gate, http, &who, &own);
        if (err)
            *err = own;
        return r;
    }
    count_bytes(gate, http, &who);
    *ret = who;
    gate_enter(gate, http, ret);
    return 0;
}

const char *gate_tenant(const struct principal *who)
{
    return who->is_local ? NULL : who->tenant;
}

int gate_session(const struct gate *gate, const struct principal *who, const char *word,
                 bool with_ended, struct session **ret, struct error *err)
{
    return engine_find_of(gate->engine, gate_tenant(who), word, with_ended, ret, err);
}
