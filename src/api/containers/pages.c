/* pages.c - lists in pages: limit, order, after. */
#include <errno.h>

#include "api/containers/containers.h"
#include "base/cleanup.h"
#include "base/str.h"

static const char *id_of(const json_t *item)
{
    return json_string_value(json_object_get(item, "id"));
}

static json_t *id_or_null(const json_t *data, size_t at)
{
    const json_t *item = json_array_get(data, at);

    return item ? json_string(id_of(item)) : json_null();
}

/* The place of an id in the order of the list; the count: it is not there. */
static size_t place_of(const json_t *all, size_t count, bool is_ascending, const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (str_equal(id_of(json_array_get(all, is_ascending ? i : count - 1 - i)), id))
            return i;
    return count;
}

void containers_reply_list(struct door_call *call, json_t *all, uint64_t limit, bool is_ascending)
{
    CLEANUP(json_decrefp) json_t *items = all;
    CLEANUP(json_decrefp) json_t *data = json_array();
    const char *after = front_query_text(call, "after"), *order = front_query_text(call, "order");
    size_t count = json_array_size(items), at = 0;

    limit = front_query_u64(call, "limit", limit);
    is_ascending = order ? str_equal(order, "asc") : is_ascending;
    if (!items || !data) {
        openai_fail_memory(call->http);
        return;
    }
    if (after) {
        at = place_of(items, count, is_ascending, after);
        if (at == count) {
            openai_fail_param(call->front, call->http, "after",
                              "after: '%.60s' is not in this list", after);
            return;
        }
        at++;
    }
    for (; at < count && json_array_size(data) < limit; at++)
        json_array_append(data, json_array_get(items, is_ascending ? at : count - 1 - at));
    front_reply(call->http, 200,
                json_pack("{s:s, s:O, s:o, s:o, s:b}", "object", "list", "data", data, "first_id",
                          id_or_null(data, 0), "last_id",
                          id_or_null(data, json_array_size(data) - 1), "has_more", at < count));
}
