/* rows.c - the addresses of this door as the OpenAPI document shows them, and the door's row. */
#include <stdlib.h>

#include "api/front/row_text.h"
#include "api/responses/responses.h"
#include "base/cleanup.h"

/* clang-format off */
/* The whole schema is OpenAI's; what differs is in docs/responses.md. */
#define B_RESPONSE                                                                                           \
    OPEN_OBJECT(MEMBER("model", S_STRING)                                                                    \
                ALSO("input", JSON({"anyOf":[{"type":"string"},{"type":"array","items":{"type":"object","additionalProperties":true}}]})) \
                ALSO("instructions", JSON({"type":["string","null"]}))                                       \
                ALSO("tools", JSON({"type":"array","items":{"type":"object","additionalProperties":true}}))  \
                ALSO("stream", S_BOOLEAN)                                                                    \
                ALSO("store", S_BOOLEAN)                                                                     \
                ALSO("background", S_BOOLEAN)                                                                \
                ALSO("include", JSON({"type":"array","items":{"type":"string"}}))                            \
                ALSO("previous_response_id", JSON({"type":["string","null"]})),                              \
                "input")
#define R_RESPONSE                                                                                           \
    OPEN_OBJECT(MEMBER("id", S_STRING) ALSO("object", S_STRING) ALSO("status", S_STRING)                     \
                ALSO("output", JSON({"type":"array","items":{"type":"object","additionalProperties":true}})), \
                "id", "object", "status", "output")
#define R_DELETED                                                                                            \
    OPEN_OBJECT(MEMBER("id", S_STRING) ALSO("object", S_STRING) ALSO("deleted", S_BOOLEAN),                  \
                "id", "object", "deleted")
#define R_ITEMS                                                                                              \
    OPEN_OBJECT(MEMBER("object", S_STRING)                                                                   \
                ALSO("data", JSON({"type":"array","items":{"type":"object","additionalProperties":true}}))   \
                ALSO("has_more", S_BOOLEAN),                                                                 \
                "object", "data", "has_more")
#define E_RESPONSE                                                                                           \
    JSON({"model":"default","input":"What is 2**100?","tools":[{"type":"code_interpreter",                   \
          "container":{"type":"auto"}}]})
/* clang-format on */

static const struct door_field fields[] = {
    {"model", "Passed to the model server; default: the one that is configured, else `default`."},
    {"input", "A string, or items: messages, calls and their outputs, references to stored items."},
    {"instructions", "A system message for this response only."},
    {"tools", "`code_interpreter` and functions of the caller."},
    {"stream", "Server-sent events instead of one object."},
    {"store", "Whether the response can be fetched and continued; default true."},
    {"background", "The reply comes at once; GET shows how far it is."},
    {"include", "`code_interpreter_call.outputs`: what the code printed and showed."},
    {"previous_response_id", "The response whose conversation goes on."},
    {NULL, NULL},
};

static const struct door_tag tags[] = {
    {"Responses", "OpenAI's Responses API over a model server: the model may run code."},
    {NULL, NULL},
};

#define ID_PARAM                                                        \
    {                                                                   \
        "id", IN_PATH, true, S_NAME, "the id of a response: `resp_...`" \
    }

static const struct door_route routes[] = {
    {
        .method = "POST",
        .path = "/v1/responses",
        .name = "createResponse",
        .summary = "Asks the model, which may run code, and answers as OpenAI's Responses API does",
        .tag = "Responses",
        .description = "Needs a model server: `BAILEY_UPSTREAM_URL`. With `stream` the reply is a "
                       "stream of OpenAI's events. docs/responses.md has what differs from OpenAI.",
        .body = BODY_JSON,
        .request = B_RESPONSE,
        .fields = fields,
        .example = E_RESPONSE,
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_RESPONSE,
        .scope = SCOPE_SESSIONS,
        .handle = responses_create,
    },
    {
        .method = "GET",
        .path = "/v1/responses/{id}",
        .name = "getResponse",
        .summary = "A stored response",
        .tag = "Responses",
        .description = "`include[]=code_interpreter_call.outputs` shows what its code printed.",
        .params = {ID_PARAM},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_RESPONSE,
        .scope = SCOPE_SESSIONS,
        .handle = responses_get,
    },
    {
        .method = "DELETE",
        .path = "/v1/responses/{id}",
        .name = "deleteResponse",
        .summary = "Removes a stored response",
        .tag = "Responses",
        .description = "One that is under way is ended.",
        .params = {ID_PARAM},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_DELETED,
        .scope = SCOPE_SESSIONS,
        .handle = responses_delete,
    },
    {
        .method = "POST",
        .path = "/v1/responses/{id}/cancel",
        .name = "cancelResponse",
        .summary = "Ends a response that runs in the background",
        .tag = "Responses",
        .description = "The model server's answer is cancelled and code that runs is interrupted.",
        .params = {ID_PARAM},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_RESPONSE,
        .scope = SCOPE_SESSIONS,
        .handle = responses_cancel,
    },
    {
        .method = "GET",
        .path = "/v1/responses/{id}/input_items",
        .name = "listResponseInput",
        .summary = "The items that a response was asked with",
        .tag = "Responses",
        .description = "Newest first; `limit`, `order` and `after` page through them.",
        .params = {ID_PARAM},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_ITEMS,
        .scope = SCOPE_SESSIONS,
        .handle = responses_input_items,
    },
};

static int open_door(struct front *front, void **ret, struct error *err)
{
    struct responses *door = calloc(1, sizeof(*door));

    if (!door)
        return error_memory(err);
    door->front = front;
    *ret = door;
    return responses_store_open(door, err);
}

/* Every request has ended: those in the background are left, and the next broker calls them failed.
 */
static void close_door(void *ctx)
{
    struct responses *door = ctx;
    struct response *next;

    for (struct response *response = door->active; response; response = next) {
        next = response->next;
        agent_end(response->agent);
        response->agent = NULL;
        response->http = NULL;
        response->has_reader = false;
        response_free(response);
    }
    free(door);
}

/* The door checks everything itself: its errors name the member as OpenAI's do. */
const struct door_ops responses_door = {
    .name = "responses",
    .prefix = "/v1/responses",
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .tags = tags,
    .checks_itself = true,
    .open = open_door,
    .close = close_door,
    .fail = openai_door_fail,
    .refuse = openai_door_refuse,
    .responses = openai_responses,
};
