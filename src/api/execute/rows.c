/* rows.c - the addresses of this door as the OpenAPI document shows them, and this door's row. */
#include <errno.h>
#include <stdlib.h>

#include "api/execute/execute.h"
#include "api/front/door.h"
#include "api/front/openapi.h"
#include "api/front/reply.h"
#include "api/front/row_text.h"
#include "base/cleanup.h"

/* clang-format off */
#define NUMBER JSON({"type":"integer"})

/* A member that is null is treated as missing. */
#define OR_NULL(schema) "{\"anyOf\":[" schema ",{\"type\":\"null\"}]}"

/* Unknown members are ignored. */
#define B_EXECUTE                                                                              \
    OPEN_OBJECT(MEMBER("code", S_NAME)                                                         \
                ALSO("timeout_seconds", OR_NULL(NUMBER))                                       \
                ALSO("requirements", OR_NULL(ARRAY_UP_TO(S_STRING, 64)))                       \
                ALSO("files", OR_NULL(S_ENV))                                                  \
                ALSO("language", OR_NULL(JSON({"type":"string",                                \
                     "enum":["python","javascript","node","bash","shell"]}))),                 \
                "code")
#define R_EXECUTE                                                                              \
    OPEN_OBJECT(MEMBER("status", JSON({"type":"string","enum":["success","error"]}))           \
                ALSO("stdout", S_STRING)                                                       \
                ALSO("stderr", S_STRING)                                                       \
                ALSO("exit_code", NUMBER)                                                      \
                ALSO("execution_time_ms", NUMBER)                                              \
                ALSO("files_produced", S_ENV)                                                  \
                ALSO("language", S_STRING)                                                     \
                ALSO("truncated", S_BOOLEAN)                                                   \
                ALSO("meta", S_ANY_OBJECT),                                                    \
                "status", "stdout", "stderr", "exit_code", "execution_time_ms", "language",    \
                "truncated", "meta")
#define R_HEALTH                                                                               \
    OPEN_OBJECT(MEMBER("status", S_STRING)                                                     \
                ALSO("mode", S_STRING)                                                         \
                ALSO("runtime_version", S_STRING)                                              \
                ALSO("capacity", NUMBER)                                                       \
                ALSO("current_load", NUMBER)                                                   \
                ALSO("uptime_seconds", NUMBER),                                                \
                "status", "mode", "capacity", "current_load", "uptime_seconds")
#define E_EXECUTE                                                                              \
    JSON({"code":"print(open('a.txt').read())","language":"python","timeout_seconds":30,       \
          "files":{"a.txt":"aGVsbG8K"}})
/* clang-format on */

static const struct door_field execute_fields[] = {
    {"code", "The source."},
    {"timeout_seconds", "Wall time after which the program is killed."},
    {"requirements", "Packages to install for this run, as pip takes them."},
    {"files", "Files for the run: base64 of the content by name."},
    {"language", "`node` is `javascript`, `shell` is `bash`; default `python`."},
    {NULL, NULL},
};

static const struct door_field error_fields[] = {
    {"ExecuteError", "Why a request failed, in the shape of this door."},
    {"ExecuteError.error", "What happened and what to do next."},
    {"ExecuteError.code", "Stable: programs decide by it."},
    {NULL, NULL},
};

static const struct door_tag tags[] = {
    {"Execute", "One call that runs code, in the shape that other code executors have."},
    {NULL, NULL},
};

static const struct door_route routes[] = {
    {
        .method = "POST",
        .path = "/execute",
        .name = "execute",
        .summary = "Runs code in a fresh box: packages and files in, the result and its files out",
        .tag = "Execute",
        .description = "For clients of code executors that have this one call. The box is removed "
                       "after the run; files that the code leaves in `/tmp/output` are in "
                       "`files_produced`. docs/execute.md has the rules.",
        .body = BODY_JSON,
        .request = B_EXECUTE,
        .request_max = LIMIT_EXECUTE_BODY,
        .fields = execute_fields,
        .example = E_EXECUTE,
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_EXECUTE,
        .scope = SCOPE_RUN,
        .handle = execute_start,
    },
    {
        .method = "GET",
        .path = "/health",
        .name = "executeHealth",
        .summary = "Whether POST /execute works, and how busy it is",
        .tag = "Execute",
        .description = "Needs no key.",
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_HEALTH,
        .label = "health",
        .is_open = true,
        .handle = execute_health,
    },
};

static int open_door(struct front *front, void **ret, struct error *err)
{
    (void)front;
    *ret = calloc(1, sizeof(struct execute));
    return *ret ? 0 : error_memory(err);
}

static void refuse(struct http_request *http, const struct door_refusal *refusal)
{
    execute_fail(http, refusal->status, refusal->header, refusal->code, refusal->text);
}

/* Errors of this door have their own shape. */
static json_t *responses(const struct door_route *route)
{
    static const char *const errors[][2] = {
        {"400", "the body is not JSON, or a member is wrong"},
        {"401", "no key, or an invalid key"},
        {"403", "the key does not have the scope `run`"},
        {"413", "over a limit"},
        {"415", "the Content-Type says that the body is not JSON"},
        {"429", "too much at once, or a quota is used up"},
        {"500", "anything else"},
    };
    json_t *all = json_pack("{s:{s:s, s:o}}", "200", "description", route->summary, "content",
                            openapi_content(route));

    for (size_t i = 0; all && route->body == BODY_JSON && i < ARRAY_SIZE(errors); i++)
        json_object_set_new(all, errors[i][0],
                            json_pack("{s:s, s:{s:{s:{s:s}}}}", "description", errors[i][1],
                                      "content", TYPE_JSON, "schema", "$ref",
                                      "#/components/schemas/ExecuteError"));
    return all;
}

/* The door checks everything itself, because its error texts differ. */
const struct door_ops execute_door = {
    .name = "execute",
    .tags = tags,
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .schemas = "\"ExecuteError\":" OPEN_OBJECT(MEMBER("error", S_STRING) ALSO("code", S_STRING),
                                               "error", "code"),
    .schema_fields = error_fields,
    .checks_itself = true,
    .open = open_door,
    .close = free,
    .admit = execute_admit,
    .fail = execute_refuse,
    .refuse = refuse,
    .responses = responses,
};
