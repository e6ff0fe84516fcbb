/* rows.c - the addresses of this door, as the OpenAPI document shows them. */
#include "api/execute/execute.h"
#include "api/rest/rest_private.h"
#include "api/rest/schemas.h"
#include "base/cleanup.h"

#define MAP_OF_TEXT "{\"type\":\"object\",\"additionalProperties\":" S_STRING "}"
#define NUMBER "{\"type\":\"integer\"}"

/* Members that are not here are passed over, so none of these is closed. */
#define SHAPE(members, required) \
    "{\"type\":\"object\",\"properties\":{" members "},\"required\":[" required "]}"

/* A member that is null is as one that is not there. */
#define OR_NULL(schema) "{\"anyOf\":[" schema ",{\"type\":\"null\"}]}"

/* clang-format off */
#define B_EXECUTE                                                                              \
    SHAPE(MEMBER("code", S_NAME) ","                                                           \
          MEMBER("timeout_seconds", OR_NULL(NUMBER)) ","                                       \
          MEMBER("requirements", OR_NULL("{\"type\":\"array\",\"items\":" S_STRING             \
                                         ",\"maxItems\":64}")) ","                             \
          MEMBER("files", OR_NULL(MAP_OF_TEXT)) ","                                            \
          MEMBER("language", OR_NULL("{\"type\":\"string\",\"enum\":[\"python\",\"javascript\"," \
                                     "\"node\",\"bash\",\"shell\"]}")),                          \
          "\"code\"")

#define R_EXECUTE                                                                              \
    SHAPE(MEMBER("status", "{\"type\":\"string\",\"enum\":[\"success\",\"error\"]}") ","           \
          MEMBER("stdout", S_STRING) ","                                                       \
          MEMBER("stderr", S_STRING) ","                                                       \
          MEMBER("exit_code", NUMBER) ","                                                      \
          MEMBER("execution_time_ms", NUMBER) ","                                              \
          MEMBER("files_produced", MAP_OF_TEXT) ","                                            \
          MEMBER("language", S_STRING) ","                                                     \
          MEMBER("truncated", S_BOOLEAN) ","                                                   \
          MEMBER("meta", "{\"type\":\"object\"}"),                                             \
          "\"status\",\"stdout\",\"stderr\",\"exit_code\",\"execution_time_ms\",\"language\","     \
          "\"truncated\",\"meta\"")

#define R_HEALTH                                                                               \
    SHAPE(MEMBER("status", S_STRING) ","                                                       \
          MEMBER("mode", S_STRING) ","                                                         \
          MEMBER("runtime_version", S_STRING) ","                                              \
          MEMBER("capacity", NUMBER) ","                                                       \
          MEMBER("current_load", NUMBER) ","                                                   \
          MEMBER("uptime_seconds", NUMBER),                                                    \
          "\"status\",\"mode\",\"capacity\",\"current_load\",\"uptime_seconds\"")
/* clang-format on */

const struct rest_route execute_rows[] = {
    {.method = "POST",
     .path = "/execute",
     .name = "execute",
     .summary = "Runs code in a box of its own: packages and files in, the result and its files "
                "out",
     .body = BODY_JSON,
     .request = B_EXECUTE,
     .status = 200,
     .type = TYPE_JSON,
     .reply = R_EXECUTE,
     .errors = "",
     .scope = SCOPE_RUN,
     .handle = execute_start},
    {.method = "GET",
     .path = "/health",
     .name = "executeHealth",
     .summary = "Whether POST /execute works, and how busy it is",
     .body = BODY_NONE,
     .status = 200,
     .type = TYPE_JSON,
     .reply = R_HEALTH,
     .errors = "",
     .is_open = true,
     .handle = execute_health},
};
const size_t execute_row_count = ARRAY_SIZE(execute_rows);

/* It has its own words for everything, so nothing is checked for it. */
static void on_request(struct http_request *http, void *ctx)
{
    const struct rest_route *row = http_row(http);
    struct rest_call call = {.rest = ctx, .http = http, .route = row};

    if (row->is_open)
        auth_enter(&call.rest->auth, http, &call.who);
    row->handle(&call);
}

static bool on_admit(struct http_request *http, void *ctx)
{
    struct rest_call call = {.rest = ctx, .http = http, .route = http_row(http)};

    return execute_admit(&call);
}

const struct http_route *execute_routes(size_t *ret_count)
{
    static const struct http_route routes[] = {
        {.method = "POST",
         .pattern = "/execute",
         .body = HTTP_WHOLE_BODY,
         .body_max = LIMIT_EXECUTE_BODY,
         .handle = on_request,
         .row = &execute_rows[0],
         .admit = on_admit},
        {.method = "GET", .pattern = "/health", .handle = on_request, .row = &execute_rows[1]},
    };

    *ret_count = ARRAY_SIZE(routes);
    return routes;
}
