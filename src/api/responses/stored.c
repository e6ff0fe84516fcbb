/* stored.c - GET, DELETE, cancel and input_items of one response; see responses.h. */
#include <errno.h>
#include <string.h>

#include "api/responses/responses.h"
#include "base/cleanup.h"
#include "base/str.h"

#define PAGE_DEFAULT 20
#define PAGE_MAX 100

struct query {
    bool has_outputs;
    const char *wrong; /* an argument that is not served */
};

static void on_argument(void *ctx, const char *name, const char *value)
{
    static const char *const known[] = {
        "include", "include[]", "stream", "starting_after", "include_obfuscation",
        "limit",   "order",     "after"};
    struct query *query = ctx;
    bool is_known = false;

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        is_known |= str_equal(name, known[i]);
    if (!is_known || (str_equal(name, "stream") && str_equal(value, "true")) ||
        str_equal(name, "starting_after"))
        query->wrong = name;
    if (str_starts(name, "include") && str_equal(value, "code_interpreter_call.outputs"))
        query->has_outputs = true;
}

/* False: the request was answered. */
static bool read_query(struct door_call *call, struct query *query)
{
    *query = (struct query){0};
    http_query_each(call->http, on_argument, query);
    if (!query->wrong)
        return true;
    openai_fail_param(call->front, call->http, query->wrong, "%.60s: is not served here%s",
                      query->wrong,
                      str_equal(query->wrong, "stream") || str_equal(query->wrong, "starting_after")
                          ? "; a stream is read while it is made"
                          : "");
    return false;
}

/* The response of {id}, under way or stored; new references. False: the request was answered. */
static bool find(struct door_call *call, json_t **ret_object, json_t **ret_input)
{
    const char *id = http_param(call->http, "id");
    struct response *active = response_find(call->door, call->caller.who.tenant, id);
    struct error err = {0};
    size_t room = SIZE_MAX;

    if (active && active->is_stored && !active->is_over) {
        *ret_object = json_incref(active->object);
        *ret_input = json_incref(active->input);
        return true;
    }
    if (response_load(call->door, call->caller.who.tenant, id, &room, ret_object, ret_input,
                      &err) == 0)
        return true;
    openai_fail(call->front, call->http, &err, "response_id");
    return false;
}

static void reply(struct door_call *call, json_t *object, bool has_outputs)
{
    char base[320];

    render_base(call, base, sizeof(base));
    front_reply(call->http, 200, render_response(call->front, object, has_outputs, base));
}

void responses_get(struct door_call *call)
{
    struct query query;
    json_t *object, *input;

    if (!read_query(call, &query) || !find(call, &object, &input))
        return;
    reply(call, object, query.has_outputs);
    json_decref(object);
    json_decref(input);
}

void responses_delete(struct door_call *call)
{
    const char *id = http_param(call->http, "id");
    struct response *active = response_find(call->door, call->caller.who.tenant, id);
    struct error err = {0};

    if (active && active->is_stored && active->agent)
        response_cancel(active);
    if (response_drop(call->front, call->caller.who.tenant, id, &err) < 0)
        openai_fail(call->front, call->http, &err, "response_id");
    else
        front_reply(call->http, 200,
                    json_pack("{s:s, s:s, s:b}", "id", id, "object", "response", "deleted", 1));
}

void responses_cancel(struct door_call *call)
{
    const char *id = http_param(call->http, "id");
    struct response *active = response_find(call->door, call->caller.who.tenant, id);
    json_t *object, *input;

    if (!find(call, &object, &input))
        return;
    if (!json_is_true(json_object_get(object, "background"))) {
        openai_fail_param(call->front, call->http, "response_id",
                          "only a response with background=true can be cancelled; another one ends "
                          "when its client leaves");
    } else {
        if (active && active->agent)
            response_cancel(active); /* `object` stays, and has its end */
        reply(call, object, false);
    }
    json_decref(object);
    json_decref(input);
}

/* ---- pages of input items ---- */

static const char *id_at(json_t *list, size_t index)
{
    return json_string_value(json_object_get(json_array_get(list, index), "id"));
}

/* Where the page begins: behind the item `after`. False: there is no such item. */
static bool find_start(json_t *items, bool is_newest_first, const char *after, size_t *ret)
{
    size_t count = json_array_size(items);

    *ret = 0;
    for (size_t i = 0; after && i < count; i++)
        if (str_equal(id_at(items, is_newest_first ? count - 1 - i : i), after))
            *ret = i + 1;
    return !after || *ret > 0;
}

static json_t *page_of(struct door_call *call, json_t *items, bool has_outputs,
                       bool is_newest_first, size_t at, size_t limit)
{
    json_t *page = json_array();
    size_t count = json_array_size(items);
    char base[320];

    render_base(call, base, sizeof(base));
    for (; at < count && json_array_size(page) < limit; at++)
        json_array_append_new(
            page,
            render_item(call->front, json_array_get(items, is_newest_first ? count - 1 - at : at),
                        has_outputs, base));
    return json_pack("{s:s, s:o, s:s?, s:s?, s:b}", "object", "list", "data", page, "first_id",
                     id_at(page, 0), "last_id", id_at(page, json_array_size(page) - 1), "has_more",
                     at < count);
}

void responses_input_items(struct door_call *call)
{
    const char *order = http_query(call->http, "order"), *limit = http_query(call->http, "limit");
    const char *after = http_query(call->http, "after");
    bool is_newest_first = !str_equal(order, "asc");
    struct query query;
    uint64_t count = PAGE_DEFAULT;
    json_t *object, *input;
    size_t start;

    if (!read_query(call, &query))
        return;
    if (limit && (str_to_u64(limit, &count) < 0 || count < 1 || count > PAGE_MAX)) {
        openai_fail_param(call->front, call->http, "limit", "limit: has to be 1 to %d", PAGE_MAX);
        return;
    }
    if (order && !str_equal(order, "asc") && !str_equal(order, "desc")) {
        openai_fail_param(call->front, call->http, "order", "order: has to be asc or desc");
        return;
    }
    if (!find(call, &object, &input))
        return;
    if (find_start(input, is_newest_first, after, &start))
        front_reply(call->http, 200,
                    page_of(call, input, query.has_outputs, is_newest_first, start, (size_t)count));
    else
        openai_fail_param(call->front, call->http, "after", "after: '%.60s' is not in this list",
                          after);
    json_decref(object);
    json_decref(input);
}
