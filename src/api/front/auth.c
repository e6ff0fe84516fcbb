/* auth.c - keys, scopes and the quotas of requests and bytes, for every door; see auth.h. */
#include "api/front/auth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "api/front/active_requests.h"
#include "api/front/front_private.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "base/trace.h"
#include "http/websocket.h"
#include "model/caller.h"
#include "session/refusal_log.h"
#include "session/session_manager.h"
#include "session/tenant.h"
#include "store/keys.h"

#define BEARER "Bearer"

/* ---- refusals ---- */

void auth_path_session(const char *path, char *ret, size_t size)
{
    static const char prefix[] = "/v1/sessions/";

    ret[0] = '\0';
    if (str_starts(path, prefix)) {
        path += sizeof(prefix) - 1;
        (void)str_format(ret, size, "%.*s", (int)MIN(strcspn(path, "/"), size - 1), path);
    }
}

/* `who` is what is known so far: nothing for an unknown key. */
static void note_refusal(const struct auth *auth, struct http_request *http,
                         const struct principal *who, const struct error *err)
{
    struct caller caller = {.who = *who, .trace = *http_trace(http)};
    char session[LIMIT_NAME + 1];

    str_copy(caller.request, sizeof(caller.request), http_request_id(http));
    http_set_who(http, who->tenant, who->key);
    auth_path_session(http_path(http), session, sizeof(session));
    if (http_tell_once(http))
        refusal_log_add(auth->manager, &(struct refusal){.caller = &caller,
                                                         .err = err,
                                                         .method = http_method(http),
                                                         .path = http_path(http),
                                                         .peer = http_peer(http),
                                                         .session = session});
}

/* ---- the key ---- */

/* The text after "Bearer"; NULL: another scheme. */
static const char *bearer_of(const char *authorization)
{
    size_t length = strlen(BEARER);

    if (strncasecmp(authorization, BEARER, length) != 0 || authorization[length] != ' ')
        return NULL;
    return authorization + length + strspn(authorization + length, " ");
}

/* The key of a browser's WebSocket, which cannot send its own headers. */
static const char *offered_key(const struct http_request *http, char *key, size_t size)
{
    return http_wants_websocket(http) > 0 &&
                   auth_protocol_key(http_header(http, "Sec-WebSocket-Protocol"), key, size)
               ? key
               : NULL;
}

static int read_key(const struct http_request *http, char *room, size_t size, const char **ret,
                    struct error *err)
{
    const struct front_row *row = http_row(http);
    const char *plain = http_header(http, "X-API-Key");
    bool is_user = plain && row && row->door->ops->bearer_is_user;
    const char *authorization = is_user ? NULL : http_header(http, "Authorization");
    const char *bearer = authorization ? bearer_of(authorization) : NULL;

    const char *offered = offered_key(http, room, size);

    if ((!is_user && http_header_differs(http, "Authorization")) ||
        http_header_differs(http, "X-API-Key") ||
        (offered && plain && !str_equal(offered, plain)) ||
        (offered && bearer && !str_equal(offered, bearer)))
        return error_set(err, -EACCES, ERROR_UNAUTHORIZED,
                         "the request has two different keys: send one");
    if (!authorization && !plain)
        plain = offered;
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

static int take_quotas(const struct auth *auth, const struct principal *who, struct error *err)
{
    struct tenants *tenants = session_manager_tenants(auth->manager);
    int r = tenant_take(tenants, who->tenant, QUOTA_REQUESTS, 1, err);

    return r < 0 ? r : tenant_take(tenants, who->tenant, QUOTA_BYTES, 0, err);
}

static int check_scope(const struct principal *who, enum scope scope, struct error *err)
{
    if (principal_may(who, scope))
        return 0;
    return error_set(err, -EPERM, ERROR_FORBIDDEN,
                     "this key does not have the scope '%s', which is needed here: use another, or "
                     "make one with 'bailey key new --scopes %s'",
                     scope_name(scope), scope_name(scope));
}

static int check(const struct auth *auth, const struct http_request *http, enum scope scope,
                 struct principal *who, struct error *err)
{
    char room[KEY_TEXT_MAX];
    const char *key = NULL;
    int r = read_key(http, room, sizeof(room), &key, err);

    if (r == 0)
        r = keys_check(auth->index, key, clock_wall_ms(), who, err);
    if (r == 0)
        r = check_scope(who, scope, err);
    return r < 0 ? r : take_quotas(auth, who, err);
}

void auth_speak(const struct caller *caller, const char *session)
{
    struct log_about about = {.request_id = ""};

    str_copy(about.request_id, sizeof(about.request_id), caller->request);
    str_copy(about.trace_id, sizeof(about.trace_id), caller->trace.id);
    str_copy(about.tenant, sizeof(about.tenant), caller->who.tenant);
    str_copy(about.session, sizeof(about.session), session);
    log_set_about(&about);
}

void auth_enter(struct http_request *http, const struct principal *who)
{
    struct caller caller = {.who = *who, .trace = *http_trace(http)};
    char session[LIMIT_NAME + 1];

    str_copy(caller.request, sizeof(caller.request), http_request_id(http));
    auth_path_session(http_path(http), session, sizeof(session));
    http_set_who(http, who->tenant, who->key);
    auth_speak(&caller, session);
}

void auth_leave(void)
{
    log_set_about(NULL);
}

/* Its connection is one of its tenant's, which has a share of them. */
static int join(struct http_request *http, const struct principal *who, struct error *err)
{
    int r = http_set_admitted(http, who->tenant);

    if (r != -EDQUOT)
        return r < 0 ? error_memory(err) : 0;
    error_set(err, r, ERROR_QUOTA,
              "this tenant has %d connections, which is all that it may have: close some of its "
              "streams, WebSockets or idle connections, then try again",
              LIMIT_TENANT_CLIENTS);
    err->quota = "connections";
    err->retry_s = 1;
    return r;
}

/* Records a refusal, or admits the request and watches it. */
static int decide(const struct auth *auth, struct http_request *http, int r,
                  const struct principal *who, struct error *own)
{
    if (r == 0)
        r = join(http, who, own);
    if (r < 0)
        note_refusal(auth, http, who, own);
    else if (!active_requests_add(auth->active_requests, http, who))
        r = error_memory(own);
    return r;
}

/* Repeats the earlier decision about this request. */
static int remember(const struct principal *known, const struct error *ended, enum scope scope,
                    struct principal *who, struct error *own)
{
    *who = *known;
    if (!ended)
        return check_scope(who, scope, own);
    *own = *ended;
    return ended->num;
}

int auth_admit(const struct auth *auth, struct http_request *http, enum scope scope,
               struct principal *ret, struct error *err)
{
    struct principal who = principal_local;
    const struct principal *known = NULL;
    const struct error *ended = NULL;
    struct error own = {0};
    int r = 0;

    if (!http_is_local(http)) {
        known = active_requests_find(http, &ended);
        who = (struct principal){0};
        if (known)
            r = remember(known, ended, scope, &who, &own);
        else
            r = decide(auth, http, check(auth, http, scope, &who, &own), &who, &own);
    }
    if (r < 0) {
        if (err)
            *err = own;
        return r;
    }
    *ret = who;
    auth_enter(http, ret);
    return 0;
}

int auth_admit_as(const struct auth *auth, struct http_request *http, const struct principal *who,
                  struct error *err)
{
    const struct error *ended;
    struct error own = {0};
    int r = 0;

    if (!active_requests_find(http, &ended))
        r = decide(auth, http, take_quotas(auth, who, &own), who, &own);
    if (r < 0 && err)
        *err = own;
    if (r == 0)
        auth_enter(http, who);
    return r;
}

const char *auth_tenant(const struct principal *who)
{
    return who->is_local ? NULL : who->tenant;
}

int auth_session(const struct auth *auth, const struct principal *who, const char *word,
                 bool with_ended, struct session **ret, struct error *err)
{
    return session_manager_find_of(auth->manager, auth_tenant(who), word, with_ended, ret, err);
}
