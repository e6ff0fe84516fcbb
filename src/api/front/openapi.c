/* openapi.c - prints the rows of all doors as an OpenAPI 3.1 document. */
#include "api/front/openapi.h"

#include <errno.h>
#include <string.h>

#include "api/front/door.h"
#include "api/front/reply.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

/* Codes that every address may return. */
static const char common_errors[] = "bad_input unknown_parameter engine";
/* Codes of addresses that need a key, and take settings. */
static const char key_errors[] = "unauthorized forbidden quota_exceeded setting_differs";

static json_t *parse(const char *text)
{
    return text ? json_loads(text, 0, NULL) : json_object();
}

static json_t *make_params(const struct door_route *route)
{
    static const char *const places[] = {
        [IN_PATH] = "path", [IN_QUERY] = "query", [IN_HEADER] = "header"};
    json_t *array = json_array();

    for (const struct door_param *param = route->params; array && param->name; param++)
        json_array_append_new(array, json_pack("{s:s, s:s, s:b, s:s, s:o}", "name", param->name,
                                               "in", places[param->in], "required",
                                               param->is_required, "description", param->help,
                                               "schema", parse(param->schema)));
    return array;
}

/* The schema of a member, by a name as "datasets.name"; borrowed, NULL: there is no such member. */
static json_t *find_member(json_t *schema, const char *name)
{
    while (schema && *name) {
        size_t length = strcspn(name, ".");
        json_t *items = json_object_get(schema, "items");
        json_t *members = json_object_get(items ? items : schema, "properties");
        char word[64];

        str_format(word, sizeof(word), "%.*s", (int)length, name);
        schema = json_object_get(members, word);
        name += length + strspn(name + length, ".");
    }
    return schema;
}

static void add_descriptions(json_t *schema, const struct door_field *fields)
{
    for (; fields && fields->name; fields++)
        json_object_set_new(find_member(schema, fields->name), "description",
                            json_string(fields->help));
}

/* Bytes: `format` is what generators of clients look for. */
static json_t *bytes_schema(void)
{
    return json_pack("{s:s, s:s}", "type", "string", "format", "binary");
}

static json_t *make_body(const struct door_route *route)
{
    const char *type = route->body == BODY_JSON   ? TYPE_JSON
                       : route->body == BODY_FORM ? "multipart/form-data"
                                                  : TYPE_BYTES;
    json_t *schema = route->request ? parse(route->request) : bytes_schema();
    bool is_required = json_array_size(json_object_get(schema, "required")) > 0;

    add_descriptions(schema, route->fields);
    return json_pack("{s:b, s:{s:{s:o, s:o*}}}", "required", is_required, "content", type, "schema",
                     schema, "example", route->example ? parse(route->example) : NULL);
}

/*
 * Adds a response for each status of a list of codes; codes with the same status share one
 * response.
 */
static int add_errors(json_t *responses, const char *codes)
{
    char word[64];

    while (codes && *codes) {
        size_t length = strcspn(codes, " ");
        char status[16];
        json_t *response;

        str_format(word, sizeof(word), "%.*s", (int)length, codes);
        codes += length + strspn(codes + length, " ");
        str_format(status, sizeof(status), "%u", front_error_status(word));
        response = json_object_get(responses, status);
        if (response) {
            const char *before = json_string_value(json_object_get(response, "description"));
            char quoted[ARRAY_SIZE(word) + 2];

            str_format(quoted, sizeof(quoted), "`%s`", word);
            if (strstr(before, quoted))
                continue; /* a row may name a code that all rows of its kind have */
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

/*
 * A reply of events. OpenAPI 3.1 can only say that it is text: `x-events` has the name of each
 * event and the schema of its data, and the example shows how they are written.
 */
static json_t *events_content(const struct door_event *events)
{
    CLEANUP(buf_free) struct buf example = BUF_INIT(64 * KIB);
    CLEANUP(json_decrefp) json_t *kinds = json_object();

    for (; events && events->name; events++) {
        const char *const pieces[] = {"event: ", events->name, "\ndata: ", events->example, "\n\n"};

        for (size_t i = 0; i < ARRAY_SIZE(pieces); i++)
            if (buf_append_text(&example, pieces[i]) < 0)
                return NULL;
        if (json_object_set_new(kinds, events->name,
                                json_pack("{s:s, s:o}", "description", events->help, "schema",
                                          parse(events->schema))) < 0)
            return NULL;
    }
    return json_pack("{s:{s:s, s:s}, s:s, s:O}", "schema", "type", "string", "description",
                     "server-sent events; x-events has the schema of each event's data", "example",
                     buf_text(&example), "x-events", kinds);
}

json_t *openapi_content(const struct door_route *route)
{
    bool is_bytes = str_equal(route->type, TYPE_BYTES);
    json_t *schema = is_bytes ? bytes_schema() : json_pack("{s:s}", "type", "string");
    json_t *content = json_object();

    if (route->reply) {
        json_decref(schema);
        schema = parse(route->reply);
    }
    if (!str_equal(route->type, TYPE_EVENTS))
        json_object_set_new(content, route->type, json_pack("{s:O}", "schema", schema));
    json_decref(schema);
    if (route->events)
        json_object_set_new(content, TYPE_EVENTS, events_content(route->events));
    return content;
}

static json_t *make_responses(const struct door_route *route)
{
    json_t *responses = json_object();
    char status[16];

    if (!responses)
        return NULL;
    str_format(status, sizeof(status), "%u", route->status);
    json_object_set_new(responses, status,
                        json_pack("{s:s, s:o*}", "description", route->summary, "content",
                                  route->type ? openapi_content(route) : NULL));
    if (route->has_background)
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

/* A key with the row's scope, in either header; over the unix socket none is needed. */
static json_t *make_security(const struct door_route *route)
{
    const char *scope = scope_name(route->scope);

    if (route->is_open)
        return json_array();
    return json_pack("[{s:[s]}, {s:[s]}]", "bearer", scope, "header", scope);
}

static json_t *make_operation(const struct door_ops *ops, const struct door_route *route)
{
    json_t *operation = json_pack(
        "{s:s, s:s, s:s*, s:o*, s:o, s:o, s:o}", "operationId", route->name, "summary",
        route->summary, "description", route->description, "tags",
        route->tag ? json_pack("[s]", route->tag) : NULL, "parameters", make_params(route),
        "responses", ops->responses ? ops->responses(route) : make_responses(route), "security",
        make_security(route));

    if (operation && route->body != BODY_NONE &&
        json_object_set_new(operation, "requestBody", make_body(route)) < 0) {
        json_decref(operation);
        return NULL;
    }
    return operation;
}

/* "/v1/sessions/{id}/outputs/{name*}" without the star, which OpenAPI does not have. */
static void plain_path(const char *path, char *ret, size_t size)
{
    size_t at = 0;

    for (; *path && at + 1 < size; path++)
        if (*path != '*')
            ret[at++] = *path;
    ret[at] = '\0';
}

static int add_path(json_t *paths, const struct door_ops *ops, const struct door_route *route)
{
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
    return json_object_set_new(item, method, make_operation(ops, route));
}

static json_t *make_paths(const struct door_list *doors)
{
    json_t *paths = json_object();

    for (size_t i = 0; paths && i < doors->count; i++) {
        const struct door_ops *ops = doors->rows[i];

        for (size_t k = 0; paths && k < ops->route_count; k++) {
            if (ops->routes[k].name && add_path(paths, ops, &ops->routes[k]) < 0) {
                json_decref(paths);
                paths = NULL;
            }
        }
    }
    return paths;
}

/* The groups of every door. */
static json_t *make_tags(const struct door_list *doors)
{
    json_t *tags = json_array();

    for (size_t i = 0; tags && i < doors->count; i++)
        for (const struct door_tag *tag = doors->rows[i]->tags; tag && tag->name; tag++)
            json_array_append_new(
                tags, json_pack("{s:s, s:s}", "name", tag->name, "description", tag->help));
    return tags;
}

/* The schemas of every door. */
static json_t *make_schemas(const struct door_list *doors)
{
    json_t *schemas = json_object();

    for (size_t i = 0; schemas && i < doors->count; i++) {
        const char *text = doors->rows[i]->schemas;
        CLEANUP(json_decrefp) json_t *own = text ? json_sprintf("{%s}", text) : NULL;
        CLEANUP(json_decrefp) json_t *members = parse(json_string_value(own));
        CLEANUP(json_decrefp) json_t *whole = json_pack("{s:O}", "properties", members);

        add_descriptions(whole, doors->rows[i]->schema_fields);
        if (!members || json_object_update(schemas, members) < 0) {
            json_decref(schemas);
            schemas = NULL;
        }
    }
    return schemas;
}

/* The schemas, with all error codes as an enum. */
static json_t *make_components(const struct door_list *doors)
{
    static const char schemes[] =
        "{\"bearer\":{\"type\":\"http\",\"scheme\":\"bearer\",\"description\":\"an API key: bly_ID."
        "SECRET\"},\"header\":{\"type\":\"apiKey\",\"in\":\"header\",\"name\":\"X-API-Key\"}}";
    static const char *const way[] = {"Error", "properties", "error", "properties", "code"};
    json_t *schemas = make_schemas(doors), *code = schemas, *codes = json_array();

    for (size_t i = 0; i < ARRAY_SIZE(way); i++)
        code = json_object_get(code, way[i]);
    for (size_t i = 0; codes && i < front_error_count; i++)
        json_array_append_new(codes, json_string(front_errors[i].code));
    if (json_object_set_new(code, "enum", codes) < 0) {
        json_decref(schemas);
        return NULL;
    }
    return json_pack("{s:o, s:o}", "schemas", schemas, "securitySchemes", parse(schemes));
}

json_t *openapi_json(const struct door_list *doors)
{
    return json_pack("{s:s, s:{s:s, s:s, s:s}, s:[{s:s}], s:o, s:o, s:o}", "openapi", "3.1.0",
                     "info", "title", "Bailey", "version", BAILEY_VERSION, "description",
                     "Sessions, commands, files and tools in sandboxes, over the daemon's unix "
                     "socket (no key) or TCP (a key with the scope that the operation names).",
                     "servers", "url", "/", "tags", make_tags(doors), "paths", make_paths(doors),
                     "components", make_components(doors));
}

int openapi_write(const struct door_list *doors, struct buf *text)
{
    CLEANUP(json_decrefp) json_t *document = openapi_json(doors);
    int r = document ? text_of_json(document, JSON_INDENT(2), text) : -ENOMEM;

    return r < 0 ? r : buf_append_text(text, "\n");
}
