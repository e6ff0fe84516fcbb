/*
 * admit.c - which requests are for a sandbox, which caller may make them, and which sandbox they
 * mean; see e2b.h.
 *
 * Sandboxes are the sessions that were made here; those of other doors do not exist for this one.
 * The control plane needs a key. What goes to a sandbox has no key: it has the sandbox's token, or
 * a signature that was made with it (/files), or names a sandbox without a token, whose id is then
 * the secret; so it is for /contexts of every sandbox, where clients send no token. The caller is
 * the key that made the sandbox: once that is gone, so is what its tokens open, and another key is
 * given the token only if it has the scopes of that one.
 */
#include <errno.h>
#include <string.h>

#include "api/sandboxes/e2b.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "config/config.h"
#include "store/keys.h"

bool e2b_claims(const struct http_request *http)
{
    const struct front *front = http_ctx(http);
    struct e2b_target target;

    if (!e2b_target_of(http, &target))
        return false;
    return !target.is_debug || http_header(http, "E2b-Sandbox-Id") ||
           session_manager_config(front->manager)->e2b_debug;
}

/* ---- sandboxes ---- */

/*
 * The id of the key that made the sandbox; empty: the owner made it, without a key. NULL: the
 * session was made by another door, and is not a sandbox.
 */
static const char *maker_of(const struct session *session)
{
    return json_string_value(json_object_get(session_notes(session), "key"));
}

struct session *e2b_find(struct e2b *e2b, const char *tenant, const char *id)
{
    size_t length = strcspn(id, "-");
    struct session *session;
    struct error ignored;
    char word[ID_MAX];

    if (length != E2B_ID_LENGTH)
        return NULL; /* no shortened ids: an id is a secret here */
    str_format(word, sizeof(word), "s_%.*s", E2B_ID_LENGTH, id);
    if (session_manager_find_of(e2b->front->manager, tenant, word, false, &session, &ignored) < 0)
        return NULL;
    return str_equal(session_id(session), word) && maker_of(session) ? session : NULL;
}

struct session *e2b_sandbox(struct door_call *call)
{
    const char *id = http_param(call->http, "id");
    struct session *session = e2b_find(call->door, auth_tenant(&call->caller.who), id);
    char text[200];

    if (session) {
        session_promote(session);
        return session;
    }
    str_format(text, sizeof(text), "sandbox \"%.60s\" doesn't exist or you don't have access to it",
               id);
    e2b_fail_text(call->http, 404, text);
    return NULL;
}

static bool is_secure(const struct session *session)
{
    return !json_is_false(json_object_get(session_notes(session), "secure"));
}

/* ---- signed addresses, which name no sandbox ---- */

struct signed_search {
    struct e2b *e2b;
    const struct e2b_signature *signature;
    struct session *found;
    bool is_expired;
};

/* A path that may have lost its first slash may have been signed with it. */
static enum e2b_verdict verdict_of(struct e2b *e2b, struct e2b_signature signature,
                                   const char *token)
{
    uint64_t now_s = clock_wall_ms() / 1000;
    enum e2b_verdict verdict = e2b_signature_check(&signature, token, now_s);
    char path[LIMIT_HTTP_TARGET + 2];

    if (verdict != E2B_WRONG || !e2b->wire->says_root || !signature.may_lack_slash ||
        str_format(path, sizeof(path), "/%s", signature.path + strspn(signature.path, "/")) < 0)
        return verdict;
    signature.path = path;
    return e2b_signature_check(&signature, token, now_s);
}

static void look_at(void *ctx, struct session *session)
{
    struct signed_search *search = ctx;
    char token[E2B_TOKEN_MAX];

    if (search->found || search->is_expired || !maker_of(session) || !is_secure(session))
        return;
    e2b_token_make(search->e2b->secret, e2b_id(session), token);
    switch (verdict_of(search->e2b, *search->signature, token)) {
    case E2B_SIGNED:
        search->found = session;
        break;
    case E2B_EXPIRED:
        search->is_expired = true;
        break;
    default:
        break;
    }
}

static struct e2b_signature signature_of(const struct http_request *http)
{
    const char *own = http_param(http, "path"), *user = http_query(http, "username");
    const char *path = own ? own : http_query(http, "path");

    return (struct e2b_signature){
        .may_lack_slash = own,
        .path = path ? path : "",
        .user = user ? user : "",
        .operation = str_equal(http_method(http), "POST") ? "write" : "read",
        .signature = http_query(http, "signature"),
        .expiration = http_query(http, "signature_expiration"),
    };
}

static int unauthorized(struct error *err, const char *text)
{
    return error_set(err, -EACCES, ERROR_UNAUTHORIZED, "%s", text);
}

static int not_found(struct error *err)
{
    return error_set(err, -ENOENT, ERROR_SESSION_NOT_FOUND, "The sandbox was not found");
}

/* ---- who ---- */

/* A request to /files without the token has to be signed. */
static int check_signature(struct e2b *e2b, const struct session *session,
                           const struct http_request *http, struct error *err)
{
    struct e2b_signature signature = signature_of(http);
    char token[E2B_TOKEN_MAX];

    e2b_token_make(e2b->secret, e2b_id(session), token);
    switch (verdict_of(e2b, signature, token)) {
    case E2B_SIGNED:
        return 0;
    case E2B_UNSIGNED:
        return unauthorized(err, "missing signature query parameter");
    case E2B_EXPIRED:
        return unauthorized(err, "signature is already expired");
    default:
        return unauthorized(err, "invalid signature");
    }
}

static bool is_path(const struct http_request *http, const char *path)
{
    const char *at = http_path(http);

    return str_starts(at, path) && (at[strlen(path)] == '\0' || at[strlen(path)] == '/');
}

bool e2b_is_files(const struct http_request *http)
{
    return is_path(http, "/files") || is_path(http, "/upload") || is_path(http, "/download");
}

static int check_token(struct e2b *e2b, const struct session *session,
                       const struct http_request *http, struct error *err)
{
    const char *token = http_header(http, "X-Access-Token");

    if (!is_secure(session) || is_path(http, "/health"))
        return 0;
    if (token)
        return e2b_token_check(e2b->secret, e2b_id(session), token)
                   ? 0
                   : unauthorized(err, "this access token is not that of the sandbox");
    if (is_path(http, "/contexts"))
        return 0;
    if (e2b_is_files(http))
        return check_signature(e2b, session, http, err);
    return unauthorized(err, "the header X-Access-Token is missing: the sandbox has a token");
}

/* A signed address without any other mark of its sandbox. */
static int find_signed(struct e2b *e2b, const struct http_request *http, struct session **ret,
                       struct error *err)
{
    struct e2b_signature signature = signature_of(http);
    struct signed_search search = {.e2b = e2b, .signature = &signature};

    if (!signature.signature)
        return unauthorized(err, "missing signature query parameter");
    session_manager_each(e2b->front->manager, false, look_at, &search);
    *ret = search.found;
    if (search.found)
        return 0;
    return unauthorized(err,
                        search.is_expired ? "signature is already expired" : "invalid signature");
}

static int find_target(struct e2b *e2b, const struct http_request *http, struct session **ret,
                       struct error *err)
{
    static const char *const once[] = {"E2b-Sandbox-Id", "E2b-Sandbox-Port", "X-Access-Token"};
    struct e2b_target target;
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(once); i++)
        if (http_header_differs(http, once[i]))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "the header %s is there twice, with two values", once[i]);
    if (!e2b_target_of(http, &target)) {
        if (e2b_is_files(http))
            return find_signed(e2b, http, ret, err);
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "this request names no sandbox: it has neither the header E2b-Sandbox-Id "
                         "nor a host or a token with its id");
    }
    if (target.is_debug)
        return e2b_debug_session(e2b, http, ret, err);
    *ret = e2b_find(e2b, NULL, target.id);
    if (!*ret)
        return not_found(err);
    r = check_token(e2b, *ret, http, err);
    return r < 0 ? r : session_check_pause(*ret, err); /* traffic may resume it */
}

/* The caller is the key that made the sandbox. */
int e2b_stand_in(struct e2b *e2b, const struct session *session, struct principal *who,
                 struct error *err)
{
    const char *key = maker_of(session);

    if (key && key[0])
        return keys_stand_in(e2b->front->auth.index, key, clock_wall_ms(), who, err);
    *who = (struct principal){.scopes = SCOPES_ORDINARY};
    str_copy(who->tenant, sizeof(who->tenant), session_tenant(session));
    return 0;
}

bool e2b_may_have_token(struct e2b *e2b, const struct principal *who, const struct session *session)
{
    struct principal maker;
    struct error ignored = {0};

    if (who->is_local || e2b_stand_in(e2b, session, &maker, &ignored) < 0)
        return true; /* of a key that is gone it opens nothing */
    return (maker.scopes & SCOPES_ORDINARY & ~who->scopes) == 0;
}

static int admit_to_sandbox(struct door_call *call, struct error *err)
{
    struct session *session = NULL;
    int r = find_target(call->door, call->http, &session, err);

    if (r == 0)
        r = e2b_stand_in(call->door, session, &call->caller.who, err);
    if (r == 0 && !principal_may(&call->caller.who, call->route->scope))
        r = error_set(err, -EPERM, ERROR_FORBIDDEN,
                      "the key that made this sandbox does not have the scope '%s'",
                      scope_name(call->route->scope));
    return r < 0 ? r : auth_admit_as(&call->front->auth, call->http, &call->caller.who, err);
}

int e2b_admit(struct door_call *call, struct error *err)
{
    if (call->route->is_open)
        return admit_to_sandbox(call, err);
    return auth_admit(&call->front->auth, call->http, call->route->scope, &call->caller.who, err);
}

struct session *e2b_session(struct door_call *call)
{
    struct session *session = NULL;
    struct error err = {0};

    if (find_target(call->door, call->http, &session, &err) == 0)
        return session;
    e2b_fail_error(call, &err);
    return NULL;
}

/* ---- users ---- */

bool e2b_user(const char *user, const char **ret_code, struct error *err)
{
    if (!user || !user[0] || str_equal(user, E2B_USER))
        return true;
    if (str_equal(user, "root")) {
        *ret_code = "permission_denied";
        error_set(err, -EPERM, ERROR_FORBIDDEN,
                  "this sandbox cannot give the user 'root': everything in it runs as '" E2B_USER
                  "', which has no more power than it needs");
    } else {
        *ret_code = "unauthenticated";
        error_set(err, -EACCES, ERROR_UNAUTHORIZED, "invalid username: '%.64s'", user);
    }
    return false;
}

/* A user by its name, which may be `root` where all clients say so. */
static bool check_user(const struct http_request *http, const char *user, const char **ret_code,
                       struct error *err)
{
    const struct e2b *e2b = front_door_state(http);

    return (e2b && e2b->wire->says_root && str_equal(user, "root")) ||
           e2b_user(user, ret_code, err);
}

bool e2b_user_in_query(const struct http_request *http, const char **ret_code, struct error *err)
{
    return check_user(http, http_query(http, "username"), ret_code, err);
}

bool e2b_user_of(const struct http_request *http, const char **ret_code, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);
    const char *header = http_header(http, "Authorization");
    const struct e2b *e2b = front_door_state(http);

    if (header && e2b && e2b->wire->says_root && strncasecmp(header, "Bearer ", 7) == 0)
        return check_user(http, header + 7, ret_code, err);
    if (!header || strncasecmp(header, "Basic ", 6) != 0)
        return true;
    if (base64_decode(header + 6, strlen(header + 6), &text) < 0) {
        *ret_code = "unauthenticated";
        error_set(err, -EACCES, ERROR_UNAUTHORIZED, "the header Authorization is not base64");
        return false;
    }
    if (text.length > 0)
        text.data[strcspn(text.data, ":")] = '\0';
    return e2b_user(buf_text(&text), ret_code, err);
}
