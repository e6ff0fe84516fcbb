/* request.c - finds the row of a client's message, checks the message and answers it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/front/row_text.h"
#include "api/start.h"
#include "api/ws/ws_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/worker.h"
#include "model/text.h"
#include "session/refusal_log.h"
#include "session/tenant.h"

/* clang-format off */
#define S_WORD JSON({"type":["string","integer"]})
#define M_SUBSCRIBE                                                                         \
    OBJECT(MEMBER("what", JSON({"type":"string","enum":["events","execution","files"]}))    \
           ALSO("last_id", S_WORD)                                                          \
           ALSO("execution", S_WORD)                                                        \
           ALSO("path", S_STRING)                                                           \
           ALSO("recursive", S_BOOLEAN),                                                    \
           "what")
#define M_STDIN                                                                             \
    OBJECT(MEMBER("execution", S_WORD)                                                      \
           ALSO("data", S_TEXT)                                                             \
           ALSO("encoding", JSON({"type":"string","enum":["utf8","base64"]}))               \
           ALSO("end", S_BOOLEAN),                                                          \
           "execution")
#define M_SIGNAL OBJECT(MEMBER("execution", S_WORD) ALSO("signal", S_WORD), "execution", "signal")
#define M_RESIZE                                                                            \
    OBJECT(MEMBER("execution", S_WORD) ALSO("rows", S_SIZE) ALSO("columns", S_SIZE),        \
           "execution", "rows", "columns")
#define M_INTERRUPT OBJECT(MEMBER("context", S_NAME) ALSO("language", S_LANGUAGE))
#define M_UNSUBSCRIBE OBJECT(MEMBER("subscription", S_COUNT), "subscription")
/* clang-format on */

const struct ws_row ws_rows[] = {
    {
        .type = "subscribe",
        .schema = M_SUBSCRIBE,
        .scope = SCOPE_SESSIONS,
        .is_counted = true,
        .handle = ws_subscribe_any,
    },
    {
        .type = "unsubscribe",
        .schema = M_UNSUBSCRIBE,
        .scope = SCOPE_SESSIONS,
        .handle = ws_unsubscribe,
    },
    {
        .type = "exec",
        .schema = START_COMMAND_SCHEMA,
        .scope = SCOPE_SESSIONS,
        .is_counted = true,
        .handle = ws_exec,
    },
    {
        .type = "cell",
        .schema = START_CELL_SCHEMA,
        .scope = SCOPE_SESSIONS,
        .is_counted = true,
        .handle = ws_cell,
    },
    {
        .type = "stdin",
        .schema = M_STDIN,
        .scope = SCOPE_SESSIONS,
        .handle = ws_stdin,
    },
    {
        .type = "signal",
        .schema = M_SIGNAL,
        .scope = SCOPE_SESSIONS,
        .is_counted = true,
        .handle = ws_signal,
    },
    {
        .type = "resize",
        .schema = M_RESIZE,
        .scope = SCOPE_SESSIONS,
        .handle = ws_resize,
    },
    {
        .type = "interrupt",
        .schema = M_INTERRUPT,
        .scope = SCOPE_SESSIONS,
        .is_counted = true,
        .handle = ws_interrupt,
    },
    {
        .type = "ping",
        .schema = OBJECT(""),
        .scope = SCOPE_SESSIONS,
        .handle = ws_ping,
    },
};
const size_t ws_row_count = ARRAY_SIZE(ws_rows);
_Static_assert(ARRAY_SIZE(ws_rows) <= WS_ROWS_MAX, "more kinds of messages than there is room for");

int ws_compile(struct front *front, void **ret, struct error *err)
{
    struct ws_schemas *schemas = calloc(1, sizeof(*schemas));
    int r = schemas ? 0 : -ENOMEM;

    *ret = schemas;
    if (schemas)
        schemas->worker = worker_new(front->reactor);
    if (schemas && !schemas->worker)
        r = -ENOMEM;
    for (size_t i = 0; i < ws_row_count && r == 0; i++)
        r = schema_compile(ws_rows[i].schema, &schemas->rows[i]);
    if (r == 0)
        r = schema_compile(START_RESIZE_SCHEMA, &schemas->resize);
    if (r == 0)
        r = schema_compile(START_SIGNAL_SCHEMA, &schemas->signal);
    return r < 0 ? error_set(err, r, ERROR_ENGINE, "compiling the schemas of WebSocket messages")
                 : 0;
}

void ws_forget(void *ctx)
{
    struct ws_schemas *schemas = ctx;

    worker_free(schemas->worker);
    for (size_t i = 0; i < ws_row_count; i++)
        schema_free(schemas->rows[i]);
    schema_free(schemas->resize);
    schema_free(schemas->signal);
    free(schemas);
}

/* ---- answers ---- */

void ws_reply(struct ws_peer *peer, json_t *id, json_t *members)
{
    json_t *message = json_pack("{s:s, s:O?}", "type", "reply", "id", id);

    if (message && members && json_object_update(message, members) < 0) {
        json_decref(message);
        message = NULL;
    }
    ws_say(peer, members ? message : NULL, true);
    if (!members)
        json_decref(message);
    json_decref(members);
}

void ws_fail(struct ws_peer *peer, json_t *id, const struct error *err, json_t *extra)
{
    json_t *message = front_error_json(peer->front, err, extra);

    if (refusal_is(err))
        refusal_log_add(peer->front->manager, &(struct refusal){.caller = &peer->caller,
                                                                .err = err,
                                                                .method = "WS",
                                                                .path = "/v1/ws",
                                                                .session = peer->session});
    if (message) {
        json_object_set_new(message, "type", json_string("error"));
        json_object_set(message, "id", id ? id : json_null());
    }
    ws_say(peer, message, true);
}

void ws_fail_problem(struct ws_peer *peer, json_t *id, const struct schema_problem *problem)
{
    ws_fail(peer, id, &problem->err, front_problem_json(problem));
}

/* ---- the session and execution of a message ---- */

static void fail_field(struct ws_request *request, const char *field, const char *text)
{
    struct error err = {0};

    error_set(&err, -EINVAL, ERROR_BAD_INPUT, "%s", text);
    ws_fail(request->peer, request->id, &err, json_pack("{s:s}", "field", field));
}

static bool find_session(struct ws_request *request, const char *word, bool with_ended,
                         struct session **ret)
{
    struct ws_peer *peer = request->peer;
    struct error err = {0};

    if (!word) {
        fail_field(request, "session", "'session' is missing: this address belongs to no session");
        return false;
    }
    if (auth_session(&peer->front->auth, &peer->caller.who, word, with_ended, ret, &err) == 0)
        return true;
    ws_fail(peer, request->id, &err, NULL);
    return false;
}

bool ws_find_session(struct ws_request *request, bool with_ended, struct session **ret)
{
    const char *own = request->peer->session;

    return find_session(request,
                        request->session ? request->session
                        : own[0]         ? own
                                         : NULL,
                        with_ended, ret);
}

bool ws_find_execution(struct ws_request *request, struct session **ret_session,
                       struct execution **ret)
{
    json_t *value = json_object_get(request->body, "execution");
    const char *text = json_string_value(value), *dot;
    char word[ID_MAX + 32], of[ID_MAX + 32] = "";
    struct error err = {0};

    if (!value) {
        fail_field(request, "execution", "'execution' is missing");
        return false;
    }
    if (text ? !str_copy(word, sizeof(word), text)
             : str_format(word, sizeof(word), "%lld", (long long)json_integer_value(value)) < 0) {
        fail_field(request, "execution", "'execution' is too long");
        return false;
    }
    dot = strrchr(word, '.'); /* "s_....3" names its session */
    if (dot)
        str_format(of, sizeof(of), "%.*s", (int)(dot - word), word);
    if (dot && !request->session && !request->peer->session[0]
            ? !find_session(request, of, false, ret_session)
            : !ws_find_session(request, false, ret_session))
        return false;
    if (session_find_execution(*ret_session, word, ret, &err) == 0)
        return true;
    ws_fail(request->peer, request->id, &err, NULL);
    return false;
}

/* ---- finding the row ---- */

static const struct ws_row *row_of(const char *type)
{
    for (size_t i = 0; type && i < ws_row_count; i++)
        if (str_equal(ws_rows[i].type, type))
            return &ws_rows[i];
    return NULL;
}

static void fail_type(struct ws_request *request, const char *type)
{
    const char *names[ARRAY_SIZE(ws_rows) + 1] = {0};
    struct schema_problem problem = {.field = "type"};
    const char *nearest;

    for (size_t i = 0; i < ws_row_count; i++)
        names[i] = ws_rows[i].type;
    nearest = type ? str_nearest(type, names) : NULL;
    if (nearest)
        str_copy(problem.nearest, sizeof(problem.nearest), nearest);
    error_set(&problem.err, -EINVAL, ERROR_BAD_INPUT,
              "'type' has to be one of the messages of docs/websocket.md%s%s%s",
              nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    ws_fail_problem(request->peer, request->id, &problem);
}

/* Whether this client may send this message now. */
static bool is_admitted(struct ws_request *request, const struct ws_row *row)
{
    struct ws_peer *peer = request->peer;
    struct tenants *tenants = session_manager_tenants(peer->front->manager);
    struct error err = {0};

    if (peer->caller.who.is_local)
        return true;
    if (!(peer->caller.who.scopes & SCOPE_BIT(row->scope)))
        error_set(&err, -EPERM, ERROR_FORBIDDEN, "this key does not have the scope '%s'",
                  scope_name(row->scope));
    else if (row->is_counted &&
             tenant_take(tenants, peer->caller.who.tenant, QUOTA_REQUESTS, 1, &err) == 0)
        tenant_take(tenants, peer->caller.who.tenant, QUOTA_BYTES, 0, &err);
    if (err.num < 0)
        ws_fail(peer, request->id, &err, NULL);
    return err.num == 0;
}

/* Takes the members that every message may have out of the body. False: it was answered. */
static bool read_common(struct ws_request *request, json_t *session)
{
    if (request->id && !json_is_integer(request->id) &&
        (!json_is_string(request->id) || json_string_length(request->id) > 64)) {
        request->id = NULL;
        fail_field(request, "id", "'id' has to be a number or a text of at most 64 bytes");
        return false;
    }
    if (session && !json_is_string(session)) {
        fail_field(request, "session", "'session' has to be a string");
        return false;
    }
    request->session = json_string_value(session);
    json_object_del(request->body, "type");
    json_object_del(request->body, "id");
    json_object_del(request->body, "session");
    return true;
}

static void dispatch(struct ws_request *request)
{
    CLEANUP(json_decrefp) json_t *type = json_incref(json_object_get(request->body, "type"));
    CLEANUP(json_decrefp) json_t *id = json_incref(json_object_get(request->body, "id"));
    CLEANUP(json_decrefp) json_t *session = json_incref(json_object_get(request->body, "session"));
    const struct ws_row *row = row_of(json_string_value(type));
    struct schema_problem problem = {0};

    request->id = id;
    if (!read_common(request, session))
        return;
    if (!row)
        fail_type(request, json_string_value(type));
    else if (!schema_check(request->peer->schemas->rows[row - ws_rows], request->body, &problem))
        ws_fail_problem(request->peer, request->id, &problem);
    else if (is_admitted(request, row))
        row->handle(request);
}

void ws_dispatch(struct ws_peer *peer, json_t *body, struct schema_problem *problem)
{
    struct ws_request request = {.peer = peer, .body = body};

    if (!body) {
        ws_fail_problem(peer, NULL, problem);
    } else if (!json_is_object(body)) {
        error_set(&problem->err, -EINVAL, ERROR_BAD_INPUT, "a message has to be an object");
        ws_fail_problem(peer, NULL, problem);
    } else {
        dispatch(&request);
    }
}

void ws_message(struct ws_peer *peer, const char *text, size_t length)
{
    struct schema_problem problem = {0};
    CLEANUP(json_decrefp) json_t *body = json_read(text, length, &problem);

    ws_dispatch(peer, body, &problem);
}
