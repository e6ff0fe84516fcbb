/*
 * dispatch.c - checks a request against its row: types and checks query arguments and body, then
 * calls the handler.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/front/front_private.h"
#include "api/front/idempotency.h"
#include "api/front/reply.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "config/settings.h"
#include "model/text.h"
#include "tool/schema.h"

#define NAME_SHOWN 60

/* State of reading the arguments; the first wrong one is reported. */
struct reading {
    struct door_call *call;
    const struct front_row *row;
    struct schema_problem problem;
    bool is_wrong;
};

/* Index of the argument in the row; DOOR_PARAMS_MAX: unknown. */
static size_t param_find(const struct door_route *route, const char *name)
{
    for (size_t i = 0; i < DOOR_PARAMS_MAX && route->params[i].name; i++)
        if (route->params[i].in == IN_QUERY && str_equal(route->params[i].name, name))
            return i;
    return DOOR_PARAMS_MAX;
}

__attribute__((format(printf, 4, 5))) static void wrong(struct reading *reading, const char *code,
                                                        const char *name, const char *format, ...)
{
    char text[300];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    va_end(args);
    reading->is_wrong = true;
    str_format(reading->problem.field, sizeof(reading->problem.field), "%.*s", NAME_SHOWN, name);
    error_set(&reading->problem.err, -EINVAL, code, "%s", text);
}

static void unknown(struct reading *reading, const char *name)
{
    const char *names[DOOR_PARAMS_MAX + 1] = {0};
    const char *nearest;
    size_t count = 0;

    for (const struct door_param *param = reading->call->route->params; param->name; param++)
        if (param->in == IN_QUERY)
            names[count++] = param->name;
    nearest = str_nearest(name, names);
    if (nearest) {
        str_copy(reading->problem.nearest, sizeof(reading->problem.nearest), nearest);
        wrong(reading, ERROR_UNKNOWN_PARAMETER, name,
              "unknown query argument '%.*s'; did you mean '%s'?", NAME_SHOWN, name, nearest);
    } else {
        wrong(reading, ERROR_UNKNOWN_PARAMETER, name, "unknown query argument '%.*s'", NAME_SHOWN,
              name);
    }
}

/* The argument's text converted to the type of its schema; NULL: it does not fit. */
static json_t *typed(const struct schema *schema, const char *value)
{
    const char *type = schema_type(schema);
    uint64_t number;
    uint64_t ms;

    /* 010 is ten to one reader and eight to another. */
    if ((str_equal(type, "integer") || str_equal(type, "number")) && !str_is_canonical(value))
        return NULL;
    if (str_equal(type, "integer"))
        return str_to_u64(value, &number) == 0 && number <= INT64_MAX
                   ? json_integer((json_int_t)number)
                   : NULL;
    if (str_equal(type, "number"))
        return value[strspn(value, "0123456789.")] == '\0' && str_to_millis(value, &ms) == 0
                   ? json_real((double)ms / 1000.0)
                   : NULL;
    if (str_equal(type, "boolean"))
        return str_equal(value, "true")    ? json_true()
               : str_equal(value, "false") ? json_false()
                                           : NULL;
    return json_stringn_nocheck(value, strlen(value)); /* a path is bytes */
}

static void read_argument(void *ctx, const char *name, const char *value)
{
    struct reading *reading = ctx;
    size_t at = param_find(reading->call->route, name);
    CLEANUP(json_decrefp) json_t *json = NULL;
    const struct schema *schema;

    if (reading->is_wrong)
        return;
    if (at == DOOR_PARAMS_MAX) {
        unknown(reading, name);
        return;
    }
    schema = reading->row->params[at];
    if (json_object_get(reading->call->query, name)) {
        wrong(reading, ERROR_BAD_INPUT, name, "'%s' is given twice", name);
        return;
    }
    json = typed(schema, value);
    if (!json) {
        wrong(reading, ERROR_BAD_INPUT, name, "'%s' has to be a %s", name, schema_type(schema));
        return;
    }
    if (!schema_check(schema, json, &reading->problem)) {
        /* The schema checker has no name for the top value. */
        char text[ERROR_TEXT_MAX];

        str_copy(text, sizeof(text), reading->problem.err.text);
        wrong(reading, ERROR_BAD_INPUT, name, "'%s'%s", name,
              str_starts(text, "the request") ? text + strlen("the request") : text);
        return;
    }
    json_object_set(reading->call->query, name, json);
}

json_t *front_problem_json(const struct schema_problem *problem)
{
    json_t *extra = json_object();

    if (extra && problem->field[0])
        json_object_set_new(extra, "field", text_to_json(problem->field, strlen(problem->field)));
    if (extra && problem->nearest[0])
        json_object_set_new(extra, "nearest", json_string(problem->nearest));
    if (extra && problem->line > 0) {
        json_object_set_new(extra, "line", json_integer(problem->line));
        json_object_set_new(extra, "column", json_integer(problem->column));
    }
    return extra;
}

void front_fail_problem(struct door_call *call, const struct schema_problem *problem)
{
    front_fail(call->front, call->http, &problem->err, front_problem_json(problem));
}

/* Reports an error of these checks in the shape of the row's door. */
static void fail(struct door_call *call, const struct front_row *row, const struct error *err,
                 const struct schema_problem *problem)
{
    call->problem = problem;
    if (row->door->ops->fail)
        row->door->ops->fail(call, err);
    else
        front_fail(call->front, call->http, err, problem ? front_problem_json(problem) : NULL);
}

static bool read_query(struct door_call *call, const struct front_row *row)
{
    struct reading reading = {.call = call, .row = row};

    http_query_each(call->http, read_argument, &reading);
    for (const struct door_param *param = call->route->params; param->name && !reading.is_wrong;
         param++) {
        if (param->is_required && param->in == IN_QUERY &&
            !json_object_get(call->query, param->name))
            wrong(&reading, ERROR_BAD_INPUT, param->name, "'%s' is missing", param->name);
    }
    if (reading.is_wrong)
        fail(call, row, &reading.problem.err, &reading.problem);
    return !reading.is_wrong;
}

/*
 * A body may come without a type, or with the default type of curl -d; any other type means that
 * the body is not JSON.
 */
bool front_is_json_type(const char *type)
{
    static const char *const types[] = {TYPE_JSON, "application/x-www-form-urlencoded"};
    size_t length = type ? strcspn(type, "; \t") : 0;

    for (size_t i = 0; i < ARRAY_SIZE(types); i++)
        if (length == strlen(types[i]) && strncasecmp(type, types[i], length) == 0)
            return true;
    return !type || (length > strlen("+json") &&
                     strncasecmp(type + length - strlen("+json"), "+json", strlen("+json")) == 0);
}

static bool check_type(struct door_call *call, const struct front_row *row)
{
    struct schema_problem problem = {.field = "Content-Type"};
    size_t length;

    http_body(call->http, &length);
    if (length == 0 || front_is_json_type(http_header(call->http, "Content-Type")))
        return true;
    error_set(&problem.err, -EINVAL, ERROR_MEDIA_TYPE,
              "the body has to be JSON: send it with 'Content-Type: " TYPE_JSON "'");
    fail(call, row, &problem.err, &problem);
    return false;
}

/* ---- a body that is read in a thread ---- */

struct prepared {
    json_t *json; /* NULL: the problem says why */
    struct schema_problem problem;
    uint8_t digest[SHA256_BYTES]; /* of the text */
};

static json_t *read_json(const struct front_row *row, const char *text, size_t length,
                         struct schema_problem *problem)
{
    json_t *json = json_read_with(
        text, length, row->door->ops->allows_duplicates ? 0 : JSON_REJECT_DUPLICATES, problem);

    if (!json || !row->request || schema_check(row->request, json, problem))
        return json;
    json_decref(json);
    return NULL;
}

void *front_prepare(const void *row, const char *text, size_t length)
{
    struct prepared *prepared = calloc(1, sizeof(*prepared));

    if (!prepared)
        return NULL;
    prepared->json = read_json(row, text, length, &prepared->problem);
    sha256(text, length, prepared->digest);
    return prepared;
}

void front_body_digest(const struct http_request *http, uint8_t digest[SHA256_BYTES])
{
    const struct prepared *prepared = http_prepared(http);
    const void *text;
    size_t length;

    if (prepared) {
        memcpy(digest, prepared->digest, SHA256_BYTES);
        return;
    }
    text = http_body(http, &length);
    sha256(text ? text : "", length, digest);
}

void front_unprepare(void *ctx)
{
    struct prepared *prepared = ctx;

    json_decref(prepared->json);
    free(prepared);
}

json_t *front_body_json(struct http_request *http, struct schema_problem *problem)
{
    struct prepared *prepared = http_prepared(http);
    const char *text;
    size_t length;

    if (prepared) {
        *problem = prepared->problem;
        return ptr_take(&prepared->json);
    }
    text = http_body(http, &length);
    return read_json(http_row(http), text ? text : "", length, problem);
}

/* No body counts as {}: required members are then missing. */
static bool read_body(struct door_call *call, const struct front_row *row)
{
    struct schema_problem problem = {0};
    size_t length;

    http_body(call->http, &length);
    call->body = length > 0 ? front_body_json(call->http, &problem) : json_object();
    http_body_drop(call->http);
    if (call->body && (length > 0 || schema_check(row->request, call->body, &problem)))
        return true;
    if (!problem.err.code)
        error_memory(&problem.err);
    fail(call, row, &problem.err, &problem);
    return false;
}

/* ---- authentication ---- */

static int admit_by_key(struct door_call *call, struct error *err)
{
    if (!call->route->is_open)
        return auth_admit(&call->front->auth, call->http, call->route->scope, &call->caller.who,
                          err);
    if (http_is_local(call->http))
        call->caller.who = principal_local;
    auth_enter(call->http, &call->caller.who);
    return 0;
}

/* False: the request was answered. */
static bool admit(struct door_call *call, const struct front_row *row)
{
    const struct door_ops *ops = row->door->ops;
    struct error err = {0};
    int r = ops->admit ? ops->admit(call, &err) : admit_by_key(call, &err);

    str_copy(call->caller.request, sizeof(call->caller.request), http_request_id(call->http));
    call->caller.trace = *http_trace(call->http);
    if (r < 0)
        fail(call, row, &err, NULL);
    return r == 0;
}

/* The settings that come with the request; false: it was answered. */
static bool take_settings(struct door_call *call, const struct front_row *row)
{
    const char *text = http_header(call->http, SETTINGS_HEADER);
    struct schema_problem problem = {.field = SETTINGS_HEADER};

    if (!text ||
        session_manager_settings_text(call->front->manager, &call->caller, text, &problem.err) == 0)
        return true;
    fail(call, row, &problem.err, &problem);
    return false;
}

static struct door_call make_call(struct http_request *http, struct front *front)
{
    const struct front_row *row = http_row(http);

    return (struct door_call){
        .front = front, .door = row->door->state, .http = http, .route = row->route};
}

/* Called with the head; front_dispatch() checks again, which costs nothing more. */
bool front_admit(struct http_request *http, void *ctx)
{
    const struct front_row *row = http_row(http);
    struct door_call call = make_call(http, ctx);

    return admit(&call, row);
}

/* ---- the same request once more ---- */

/* False: the request has the reply of the first one, or an error. */
static bool look_for_reply(struct door_call *call, const struct front_row *row,
                           struct idempotent *again)
{
    struct schema_problem problem = {.field = IDEMPOTENCY_HEADER};

    if (idempotency_look(call->front->own->idempotency, call, again, &problem.err))
        return true;
    if (problem.err.code)
        fail(call, row, &problem.err, &problem);
    return false;
}

static bool begin_keeping(struct door_call *call, const struct front_row *row,
                          const struct idempotent *again)
{
    struct error err = {0};

    if (!again->key[0] || idempotency_begin(call->front->own->idempotency, call, again, &err) == 0)
        return true;
    fail(call, row, &err, NULL);
    return false;
}

void front_dispatch(struct http_request *http, void *ctx)
{
    const struct front_row *row = http_row(http);
    struct door_call call = make_call(http, ctx);
    struct idempotent again;

    if (!admit(&call, row) || !take_settings(&call, row))
        return;
    if (row->door->ops->checks_itself) {
        row->route->handle(&call);
        return;
    }
    if (!look_for_reply(&call, row, &again))
        return;
    call.query = json_object();
    if (!call.query)
        front_fail_memory(http);
    else if (read_query(&call, row) &&
             (row->route->body != BODY_JSON || (check_type(&call, row) && read_body(&call, row))) &&
             begin_keeping(&call, row, &again))
        row->route->handle(&call);
    json_decref(call.query);
    json_decref(call.body);
}

uint64_t front_query_u64(const struct door_call *call, const char *name, uint64_t fallback)
{
    json_t *value = json_object_get(call->query, name);

    return value ? (uint64_t)json_integer_value(value) : fallback;
}

bool front_query_bool(const struct door_call *call, const char *name)
{
    return json_is_true(json_object_get(call->query, name));
}

const char *front_query_text(const struct door_call *call, const char *name)
{
    return json_string_value(json_object_get(call->query, name));
}
