/* openapi.c - the rows of routes.c as an OpenAPI 3.1 document. */
#include "api/rest/openapi.h"

#include <errno.h>
#include <string.h>

#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

/* Codes that every address can answer with. */
static const char common_errors[] = "bad_input unknown_parameter engine";
static const char key_errors[] = "unauthorized forbidden quota_exceeded"; /* ... that need a key */

static json_t *parse(const char *text)
{
    return text ? json_loads(text, 0, NULL) : json_object();
}

static json_t *make_params(const struct rest_route *route)
{
    static const char *const places[] = {
        [IN_PATH] = "path", [IN_QUERY] = "query", [IN_HEADER] = "header"};
    json_t *array = json_array();

    for (const struct rest_param *param = route->params; array && param->name; param++)
        json_array_append_new(array, json_pack("{s:s, s:s, s:b, s:s, s:o}", "name", param->name,
                                               "in", places[param->in], "required",
                                               param->is_required, "description", param->help,
                                               "schema", parse(param->schema)));
    return array;
}

static json_t *make_body(const struct rest_route *route)
{
    bool is_json = route->body == BODY_JSON;
    json_t *schema = is_json ? parse(route->request) : json_object();
    bool is_required = json_array_size(json_object_get(schema, "required")) > 0;

    return json_pack("{s:b, s:{s:{s:o}}}", "required", is_required, "content",
                     is_json ? TYPE_JSON : TYPE_BYTES, "schema", schema);
}

/* What stands for each code of a list under its status; the codes of one status are told together.
 */
static int add_errors(json_t *responses, const char *codes)
{
    char word[64];

    while (*codes) {
        size_t length = strcspn(codes, " ");
        char status[16];
        json_t *response;

        str_format(word, sizeof(word), "%.*s", (int)length, codes);
        codes += length + strspn(codes + length, " ");
        str_format(status, sizeof(status), "%u", rest_error_status(word));
        response = json_object_get(responses, status);
        if (response) {
            const char *before = json_string_value(json_object_get(response, "description"));

            if (json_object_set_new(response, "description",
                                    json_sprintf("%s, `%s`", before, word)) < 0)
                return -ENOMEM;
        } else if (json_object_set_new(responses, status,
                                       json_pack("{s:o, s:{s:{s:{s:s}}}}", "description",
                                                 json_sprintf("`%s`", word), "content", TYPE_JSON,
                                                 "schema", "$ref", "#/components/schemas/Error")) <
                   0) {
            return -ENOMEM;
        }
    }
    return 0;
}

static json_t *make_content(const struct rest_route *route)
{
    json_t *schema = route->reply ? parse(route->reply) : json_pack("{s:s}", "type", "string");
    json_t *content = json_pack("{s:{s:o}}", route->type, "schema", schema);

    /* The one address with two kinds of reply. */
    if (content && str_equal(route->name, "exec"))
        json_object_set_new(content, TYPE_EVENTS,
                            json_pack("{s:{s:s}}", "schema", "type", "string"));
    return content;
}

static json_t *make_responses(const struct rest_route *route)
{
    json_t *responses = json_object();
    char status[16];

    if (!responses)
        return NULL;
    str_format(status, sizeof(status), "%u", route->status);
    json_object_set_new(responses, status,
                        json_pack("{s:s, s:o*}", "description", route->summary, "content",
                                  route->type ? make_content(route) : NULL));
    if (str_equal(route->name, "exec") || str_equal(route->name, "runCell"))
        json_object_set_new(responses, "202",
                            json_pack("{s:s, s:{s:{s:{s:s}}}}", "description",
                                      "started in the background", "content", TYPE_JSON, "schema",
                                      "$ref", "#/components/schemas/Process"));
    if (add_errors(responses, common_errors) < 0 ||
        (!route->is_open && add_errors(responses, key_errors) < 0) ||
        add_errors(responses, route->errors) < 0 ||
        (route->body == BODY_JSON &&
         add_errors(responses, "bad_json too_large unsupported_media_type") < 0)) {
        json_decref(responses);
        return NULL;
    }
    return responses;
}

/* The door of POST /execute has errors of its own shape. */
static json_t *make_execute_responses(const struct rest_route *route)
{
    static const char *const errors[][2] = {
        {"400", "the body is not JSON, or a member is wrong"},
        {"401", "no key, or not one that is good"},
        {"403", "the key does not have the scope `run`"},
        {"413", "over a limit"},
        {"415", "the Content-Type says that the body is not JSON"},
        {"429", "too much at once, or a quota is used up"},
        {"500", "anything else"},
    };
    json_t *responses = json_pack("{s:{s:s, s:o}}", "200", "description", route->summary, "content",
                                  make_content(route));

    for (size_t i = 0; responses && route->body == BODY_JSON && i < ARRAY_SIZE(errors); i++)
        json_object_set_new(responses, errors[i][0],
                            json_pack("{s:s, s:{s:{s:{s:s}}}}", "description", errors[i][1],
                                      "content", TYPE_JSON, "schema", "$ref",
                                      "#/components/schemas/ExecuteError"));
    return responses;
}

/* A key with the row's scope, in one header or the other; over the unix socket none is needed. */
static json_t *make_security(const struct rest_route *route)
{
    const char *scope = scope_name(route->scope);

    if (route->is_open)
        return json_array();
    return json_pack("[{s:[s]}, {s:[s]}]", "bearer", scope, "header", scope);
}

static json_t *make_operation(const struct rest_route *route)
{
    bool is_execute = execute_has(route->path);
    json_t *operation =
        json_pack("{s:s, s:s, s:o, s:o, s:o}", "operationId", route->name, "summary",
                  route->summary, "parameters", make_params(route), "responses",
                  is_execute ? make_execute_responses(route) : make_responses(route), "security",
                  make_security(route));

    if (operation && route->body != BODY_NONE &&
        json_object_set_new(operation, "requestBody", make_body(route)) < 0) {
        json_decref(operation);
        return NULL;
    }
    return operation;
}

/* "/v1/sessions/{id}/outputs/{name*}" without the star, which is ours. */
static void plain_path(const char *path, char *ret, size_t size)
{
    size_t at = 0;

    for (; *path && at + 1 < size; path++)
        if (*path != '*')
            ret[at++] = *path;
    ret[at] = '\0';
}

static json_t *make_paths(void)
{
    json_t *paths = json_object();

    for (size_t i = 0; paths && i < rest_route_count + execute_row_count; i++) {
        const struct rest_route *route =
            i < rest_route_count ? &rest_routes[i] : &execute_rows[i - rest_route_count];
        char path[200], method[16] = "";
        json_t *item;

        plain_path(route->path, path, sizeof(path));
        for (size_t at = 0; route->method[at] && at + 1 < sizeof(method); at++)
            method[at] = (char)(route->method[at] | 0x20); /* letters only */
        item = json_object_get(paths, path);
        if (!item) {
            item = json_object();
            json_object_set_new(paths, path, item);
        }
        if (json_object_set_new(item, method, make_operation(route)) < 0) {
            json_decref(paths);
            return NULL;
        }
    }
    return paths;
}

/* The schemas, with every code as the enum of an error's. */
static json_t *make_components(void)
{
    static const char schemes[] =
        "{\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":\"an API key: bly_ID."
        "SECRET\"},\"header\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"X-API-Key\"}}";
    json_t *components = json_loads(openapi_components, 0, NULL);
    json_t *code = NULL, *codes = json_array();
    const char *const way[] = {"schemas", "Error", "properties", "error", "properties", "code"};

    code = components;
    for (size_t i = 0; i < ARRAY_SIZE(way); i++)
        code = json_object_get(code, way[i]);
    for (size_t i = 0; codes && i < rest_error_count; i++)
        json_array_append_new(codes, json_string(rest_errors[i].code));
    if (json_object_set_new(code, "enum", codes) < 0 ||
        json_object_set_new(components, "securitySchemes", parse(schemes)) < 0) {
        json_decref(components);
        return NULL;
    }
    return components;
}

json_t *openapi_json(void)
{
    return json_pack("{s:s, s:{s:s, s:s, s:s}, s:[{s:s}], s:o, s:o}", "openapi", "3.1.0", "info",
                     "title", "Bailey", "version", BAILEY_VERSION, "description",
                     "Sessions, commands, files and tools in sandboxes, over the daemon's unix "
                     "socket (no key) or TCP (a key with the scope that the operation names).",
                     "servers", "url", "/", "paths", make_paths(), "components", make_components());
}

int openapi_write(struct buf *text)
{
    CLEANUP(json_decrefp) json_t *document = openapi_json();
    int r = document ? text_of_json(document, JSON_INDENT(2), text) : -ENOMEM;

    return r < 0 ? r : buf_append_text(text, "\n");
}
