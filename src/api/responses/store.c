/*
 * store.c - responses in the index: put when they begin and when they end, loaded for GET and
 * previous_response_id, removed with age; see responses.h.
 */
#include <errno.h>
#include <string.h>

#include "api/responses/responses.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "model/json.h"
#include "model/text.h"
#include "session/tenant.h"
#include "store/response_row.h"

#define TEXT_MAX (128 * MIB)
#define DROP_AT_ONCE 16
#define INPUT_AT_ONCE (256 * KIB) /* of the items of a request that has just begun */

static struct tenants *tenants_of(struct front *front)
{
    return session_manager_tenants(front->manager);
}

static struct index *index_of(struct front *front)
{
    return session_manager_index(front->manager);
}

static void on_sum(void *ctx, const struct response_row *row)
{
    tenant_hold(ctx, row->tenant, QUOTA_DISK, row->bytes);
}

int responses_store_open(struct responses *door, struct error *err)
{
    int r = response_row_fail_all(index_of(door->front), err);

    return r < 0 ? r
                 : response_row_sum(index_of(door->front), on_sum, tenants_of(door->front), err);
}

/* ---- removal ---- */

struct old {
    struct {
        char id[ID_MAX];
        uint64_t bytes, created_ms;
    } rows[DROP_AT_ONCE];
    size_t count;
};

static void on_old(void *ctx, const struct response_row *row)
{
    struct old *old = ctx;

    if (old->count == DROP_AT_ONCE)
        return;
    str_copy(old->rows[old->count].id, ID_MAX, row->id);
    old->rows[old->count].bytes = row->bytes;
    old->rows[old->count++].created_ms = row->created_ms;
}

static void on_count(void *ctx, const struct response_row *row)
{
    *(uint64_t *)ctx = row->bytes;
}

/* The oldest, where there are too many, and those whose time is over. */
static void make_room(struct front *front, const char *tenant)
{
    struct old old = {0};
    struct error ignored = {0};
    uint64_t count = 0, now_ms = clock_wall_ms();

    response_row_count(index_of(front), tenant, on_count, &count, &ignored);
    response_row_oldest(index_of(front), tenant, DROP_AT_ONCE, on_old, &old, &ignored);
    for (size_t i = 0; i < old.count; i++) {
        bool is_old = old.rows[i].created_ms + RESPONSE_KEEP_MS < now_ms;

        if (count < LIMIT_RESPONSES && !is_old)
            break;
        if (response_row_drop(index_of(front), old.rows[i].id, &ignored) == 0)
            tenant_give(tenants_of(front), tenant, QUOTA_DISK, old.rows[i].bytes);
        count--;
    }
}

static void on_bytes(void *ctx, const struct response_row *row)
{
    *(uint64_t *)ctx = row->bytes + 1;
}

int response_drop(struct front *front, const char *tenant, const char *id, struct error *err)
{
    uint64_t bytes = 0;
    int r = response_row_get(index_of(front), tenant, id, on_bytes, &bytes, err);

    if (r == 0 && bytes == 0)
        return error_set(err, -ENOENT, ERROR_RESPONSE_NOT_FOUND, "no stored response '%.60s'", id);
    if (r == 0)
        r = response_row_drop(index_of(front), id, err);
    if (r == 0)
        tenant_give(tenants_of(front), tenant, QUOTA_DISK, bytes - 1);
    return r;
}

/* ---- putting ---- */

/*
 * What the quota admits is asked at the beginning only: the end of a response that has run is
 * stored in any case.
 */
static int account(struct response *response, uint64_t bytes, struct error *err)
{
    struct tenants *tenants = tenants_of(response->door->front);
    const char *tenant = response->caller.who.tenant;
    int r = 0;

    if (!response->was_stored)
        r = tenant_take(tenants, tenant, QUOTA_DISK, bytes, err);
    else if (bytes > response->stored_bytes)
        tenant_hold(tenants, tenant, QUOTA_DISK, bytes - response->stored_bytes);
    else
        tenant_give(tenants, tenant, QUOTA_DISK, response->stored_bytes - bytes);
    if (r == 0)
        response->stored_bytes = bytes;
    return r;
}

int response_store(struct response *response, struct error *err)
{
    CLEANUP(buf_free) struct buf document = BUF_INIT(TEXT_MAX);
    CLEANUP(buf_free) struct buf input = BUF_INIT(TEXT_MAX);
    struct response_row row = {
        .id = response->id,
        .tenant = response->caller.who.tenant,
        .created_ms = response->created_ms,
        .status = json_string_value(json_object_get(response->object, "status")),
        .previous = json_string_value(json_object_get(response->object, "previous_response_id")),
        .container = response->container[0] ? response->container : NULL,
    };
    bool is_first = !response->was_stored;
    bool is_later = is_first && response->held > INPUT_AT_ONCE; /* written once, at the end */
    int r = text_of_json(response->object, JSON_COMPACT, &document);

    if (r == 0)
        r = is_later ? buf_append_text(&input, "[]")
                     : text_of_json(response->input, JSON_COMPACT, &input);
    if (r < 0)
        return error_memory(err);
    for (size_t i = 0; i < json_array_size(response->items) && !is_first && r == 0; i++)
        r = response_row_put_item(
            index_of(response->door->front), response->id,
            json_string_value(json_object_get(json_array_get(response->items, i), "id")), err);
    if (r < 0)
        return r;
    row.document = buf_text(&document);
    row.input = buf_text(&input);
    row.bytes = document.length + (is_later ? response->held : input.length);
    if (is_first)
        make_room(response->door->front, row.tenant);
    r = account(response, row.bytes, err);
    if (r < 0)
        return r;
    response->was_stored = true;
    r = response_row_put(index_of(response->door->front), &row, err);
    if (r < 0 && is_first) {
        tenant_give(tenants_of(response->door->front), row.tenant, QUOTA_DISK, row.bytes);
        response->was_stored = false;
    }
    return r;
}

/* ---- loading ---- */

struct loaded {
    json_t *object, *input;
    size_t *room;
    bool is_too_large;
};

static void set_failed(json_t *object, const char *why)
{
    json_object_set_new(object, "status", json_string("failed"));
    json_object_set_new(object, "error",
                        json_pack("{s:s, s:s}", "code", "server_error", "message", why));
}

/* Its ids and states, which were added, may take as much as what the caller sent. */
static json_t *parse(const char *text)
{
    size_t left = 4 * LIMIT_JSON_STRUCTURE;

    return json_parse_within(text, strlen(text), 0, &left, NULL);
}

/* A broker that died left its document as it was when the response began. */
static void on_loaded(void *ctx, const struct response_row *row)
{
    struct loaded *loaded = ctx;
    size_t bytes = strlen(row->document) + strlen(row->input);
    const char *status;

    loaded->is_too_large = bytes > *loaded->room;
    if (loaded->is_too_large)
        return;
    *loaded->room -= bytes;
    loaded->object = parse(row->document);
    loaded->input = parse(row->input);
    status = json_string_value(json_object_get(loaded->object, "status"));
    if (!loaded->object || str_equal(status, row->status))
        return;
    set_failed(loaded->object, "the server was restarted while the response was made; ask again");
}

int response_load(struct responses *door, const char *tenant, const char *id, size_t *room,
                  json_t **ret_object, json_t **ret_input, struct error *err)
{
    struct loaded loaded = {.room = room};
    int r = response_row_get(index_of(door->front), tenant, id, on_loaded, &loaded, err);

    if (r == 0 && loaded.is_too_large)
        r = error_set(err, -EFBIG, ERROR_BAD_INPUT, "the stored responses are too large");
    if (r == 0 && (!loaded.object || !loaded.input))
        r = error_set(err, -ENOENT, ERROR_RESPONSE_NOT_FOUND, "no stored response '%.60s'", id);
    if (r < 0) {
        json_decref(loaded.object);
        json_decref(loaded.input);
        return r;
    }
    if (str_equal(json_string_value(json_object_get(loaded.object, "status")), "in_progress") &&
        !response_find(door, tenant, id))
        set_failed(loaded.object, "the end of the response could not be stored; ask again");
    *ret_object = loaded.object;
    *ret_input = loaded.input;
    return 0;
}

/* ---- items by their id ---- */

struct output {
    json_t *items; /* of the response that was read last; NULL: none was */
    size_t room;   /* bytes that may still be read, and copied */
};

/* Takes them; false: there is too little room, and none is left. */
static bool take_room(struct output *output, size_t bytes)
{
    bool has_room = bytes <= output->room;

    output->room = has_room ? output->room - bytes : 0;
    return has_room;
}

/* About what a copy takes: its texts, and what each value costs besides (model/json.c). */
static size_t size_of(json_t *value)
{
    size_t bytes = 100 + json_string_length(value), i;
    const char *name;
    json_t *one;

    json_array_foreach(value, i, one) bytes += size_of(one);
    json_object_foreach(value, name, one) bytes += strlen(name) + size_of(one);
    return bytes;
}

static void on_output(void *ctx, const struct response_row *row)
{
    struct output *output = ctx;
    bool has_room = take_room(output, strlen(row->document));
    json_t *object = has_room ? parse(row->document) : NULL;

    json_decref(output->items);
    output->items = json_incref(json_object_get(object, "output"));
    json_decref(object);
}

static json_t *find_item(const struct output *output, const char *id)
{
    json_t *item;
    size_t i;

    json_array_foreach(output->items, i, item)
    {
        if (str_equal(json_string_value(json_object_get(item, "id")), id))
            return item;
    }
    return NULL;
}

/* OpenAI's clients may leave out the type. */
static bool is_reference(json_t *item)
{
    json_t *type = json_object_get(item, "type");

    return json_is_string(type) ? str_equal(json_string_value(type), "item_reference")
                                : json_object_get(item, "id") && !json_object_get(item, "role");
}

/* New reference or NULL, with an error; what follows one another is often of one response. */
static json_t *referred(struct door_call *call, struct order *order, struct output *output,
                        size_t index, const char *id, struct error *err)
{
    json_t *item = id ? find_item(output, id) : NULL;
    int r = 0;

    if (!item && id) {
        r = response_row_of_item(index_of(call->front), call->caller.who.tenant, id, on_output,
                                 output, err);
        item = r == 0 ? find_item(output, id) : NULL;
    }
    if (item && take_room(output, size_of(item)))
        return json_deep_copy(item);
    str_format(order->param_text, sizeof(order->param_text), "input[%zu]", index);
    order->param = order->param_text;
    if (r == 0 && output->room == 0)
        error_set(err, -EFBIG, ERROR_BAD_INPUT,
                  "%s: the items that are named and the responses that have them are larger than "
                  "%llu MB",
                  order->param, LIMIT_CONVERSATION / MIB);
    else if (r == 0)
        error_set(err, -ENOENT, ERROR_RESPONSE_NOT_FOUND,
                  "%s: no stored response has an item '%.60s'", order->param, id ? id : "");
    return NULL;
}

int response_resolve(struct door_call *call, struct order *order, json_t *items, struct error *err)
{
    struct output output = {.room = LIMIT_CONVERSATION - order->earlier};
    size_t count = 0;
    json_t *item;
    size_t i;
    int r = 0;

    json_array_foreach(items, i, item)
    {
        json_t *found = NULL;

        if (r < 0 || !is_reference(item))
            continue;
        if (++count > LIMIT_RESPONSES) {
            order->param = "input";
            r = error_set(err, -E2BIG, ERROR_BAD_INPUT, "input: more than %d item references",
                          LIMIT_RESPONSES);
            continue;
        }
        found =
            referred(call, order, &output, i, json_string_value(json_object_get(item, "id")), err);
        r = found ? json_array_set_new(items, i, found) : err->num;
    }
    order->earlier = LIMIT_CONVERSATION - output.room;
    json_decref(output.items);
    return r;
}
