/*
 * keys.c - API keys: lists, creates, rotates and removes them. A key's secret is only in the reply
 * that creates it.
 */
#include "store/keys.h"

#include <errno.h>
#include <string.h>

#include "api/front/active_requests.h"
#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/caller.h"
#include "model/text.h"
#include "observe/audit.h"

#define TENANT_FALLBACK "default"
#define KEY_FORMAT_E2B "e2b"

static json_t *time_or_null(uint64_t ms)
{
    char text[40];

    front_time(ms, text, sizeof(text));
    return ms ? json_string(text) : json_null();
}

static json_t *scopes_json(uint32_t scopes)
{
    json_t *list = json_array();

    for (int i = 0; list && i < _SCOPE_MAX; i++) {
        if (scopes & SCOPE_BIT(i))
            json_array_append_new(list, json_string(scope_name((enum scope)i)));
    }
    return list;
}

/* `text` NULL: without the secret. */
static json_t *key_json(const struct key_row *row, const char *text)
{
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:s*}", "id", row->id, "tenant",
                     row->tenant, "name", text_to_json(row->name, strlen(row->name)), "scopes",
                     scopes_json(row->scopes), "created_at", time_or_null(row->created_ms),
                     "expires_at", time_or_null(row->expires_ms), "used_at",
                     time_or_null(row->used_ms), "key", text);
}

/* Records who changed which key and how; never its secret. */
static void note_change(const struct door_call *call, const char *change, const char *id,
                        const struct key_row *row)
{
    json_t *fields = json_pack("{s:s, s:o, s:s*, s:o*}", "change", change, "key_id",
                               text_to_json(id, strlen(id)), "key_tenant", row ? row->tenant : NULL,
                               "scopes", row ? scopes_json(row->scopes) : NULL);

    caller_describe(&call->caller, fields);
    if (fields)
        audit_write(session_manager_audit(call->front->manager), "key", fields);
}

/* ---- whose keys ---- */

/* The caller's tenant, which alone it may see and change; NULL: an operator, of all tenants. */
static const char *own_tenant(const struct door_call *call)
{
    return principal_may(&call->caller.who, SCOPE_OPERATOR) ? NULL : call->caller.who.tenant;
}

/*
 * A key that the caller may change. Another tenant's does not exist for it; an operator's key of
 * its own tenant has more power than it, and a new secret of that would be all of it.
 */
static int find_own(const struct door_call *call, const char *id, struct key_row *row,
                    struct error *err)
{
    const char *own = own_tenant(call);
    int r = keys_get(call->front->auth.index, id, row, err);

    if (r < 0 || !own)
        return r;
    if (!str_equal(row->tenant, own))
        return keys_not_found(id, err);
    if (row->scopes & SCOPE_BIT(SCOPE_OPERATOR))
        return error_set(err, -EPERM, ERROR_FORBIDDEN,
                         "the key '%s' has the scope 'operator': only an operator changes it",
                         row->id);
    return 0;
}

/* ---- listing ---- */

struct listing {
    const char *tenant; /* NULL: all */
    json_t *keys;
    unsigned count;
};

static void add_key(void *ctx, const struct key_row *row)
{
    struct listing *listing = ctx;

    if (listing->tenant && !str_equal(row->tenant, listing->tenant))
        return;
    listing->count++;
    if (listing->keys)
        json_array_append_new(listing->keys, key_json(row, NULL));
}

void keys_list(struct door_call *call)
{
    CLEANUP(json_decrefp) json_t *keys = json_array();
    struct listing listing = {.tenant = own_tenant(call), .keys = keys};
    struct error err = {0};

    if (keys && keys_each(call->front->auth.index, add_key, &listing, &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        front_reply(call->http, 200, keys ? json_pack("{s:O}", "keys", keys) : NULL);
}

/* ---- creating ---- */

/* The schema has checked the names. */
static uint32_t read_scopes(json_t *list)
{
    uint32_t scopes = list ? 0 : SCOPES_ORDINARY;
    json_t *word;
    size_t i;

    json_array_foreach(list, i, word)
    {
        enum scope scope;

        if (scope_from_name(json_string_value(word), &scope) == 0)
            scopes |= SCOPE_BIT(scope);
    }
    return scopes;
}

/* False: the request was answered. */
static bool read_key(struct door_call *call, struct key_row *row)
{
    const char *tenant = json_string_value(json_object_get(call->body, "tenant"));
    const char *name = json_string_value(json_object_get(call->body, "name"));
    double expires_s = json_number_value(json_object_get(call->body, "expires_s"));

    *row = (struct key_row){
        .scopes = read_scopes(json_object_get(call->body, "scopes")),
        .is_e2b =
            str_equal(json_string_value(json_object_get(call->body, "format")), KEY_FORMAT_E2B),
    };
    if (expires_s > 0)
        row->expires_ms = clock_wall_ms() + (uint64_t)(expires_s * 1000.0 + 0.5);
    if (tenant && tenant_check(tenant) < 0) {
        front_fail_field(call->http, "tenant",
                         "'tenant' has to be 1 to %d small letters, digits and '-', and does not "
                         "begin with '-'",
                         TENANT_MAX - 1);
        return false;
    }
    if (str_equal(tenant, TENANT_LOCAL)) {
        front_fail_field(call->http, "tenant",
                         "'tenant': '" TENANT_LOCAL "' is reserved for the daemon's owner, who "
                         "uses its socket without a key: choose another name");
        return false;
    }
    if (name && !str_copy(row->name, sizeof(row->name), name)) {
        front_fail_field(call->http, "name", "'name' has to be at most %d bytes", KEY_NAME_MAX - 1);
        return false;
    }
    if (!tenant)
        tenant = own_tenant(call) ? own_tenant(call) : TENANT_FALLBACK;
    str_copy(row->tenant, sizeof(row->tenant), tenant);
    return true;
}

/* An admin makes keys of its own tenant that have no more power than it, and not all there are. */
static int check_admin(const struct door_call *call, const struct key_row *row, struct error *err)
{
    struct listing listing = {.tenant = own_tenant(call)};
    int r;

    if (!listing.tenant)
        return 0;
    if (!str_equal(row->tenant, listing.tenant))
        return error_set(err, -EPERM, ERROR_FORBIDDEN,
                         "this key makes keys of its own tenant, '%s'; keys of others need the "
                         "scope 'operator'",
                         listing.tenant);
    if (row->scopes & SCOPE_BIT(SCOPE_OPERATOR))
        return error_set(err, -EPERM, ERROR_FORBIDDEN,
                         "only a key with the scope 'operator', or 'bailey key new' on the "
                         "server, makes a key with it");
    r = keys_each(call->front->auth.index, add_key, &listing, err);
    if (r == 0 && listing.count >= LIMIT_KEYS_OF_ADMIN)
        r = error_set(err, -E2BIG, ERROR_TOO_LARGE,
                      "the tenant '%s' has %u keys, and its admin can make no more: remove some",
                      listing.tenant, listing.count);
    return r;
}

void keys_create(struct door_call *call)
{
    char text[KEY_TEXT_MAX];
    struct error err = {0};
    struct key_row row;

    if (!read_key(call, &row))
        return;
    if (check_admin(call, &row, &err) < 0 ||
        (session_manager_config(call->front->manager)->has_one_box &&
         keys_one_tenant(call->front->auth.index, row.tenant, &err) < 0) ||
        keys_add(call->front->auth.index, &row, text, &err) < 0) {
        front_fail(call->front, call->http, &err, NULL);
        return;
    }
    note_change(call, "new", row.id, &row);
    front_reply(call->http, 201, key_json(&row, text));
    explicit_bzero(text, sizeof(text));
}

/* ---- rotating and removing ---- */

void keys_rotate_one(struct door_call *call)
{
    const char *id = http_param(call->http, "id");
    double grace_s = json_number_value(json_object_get(call->body, "grace_s"));
    struct index *index = call->front->auth.index;
    char text[KEY_TEXT_MAX];
    struct error err = {0};
    struct key_row row;

    if (find_own(call, id, &row, &err) < 0 ||
        keys_rotate(index, id, (uint64_t)(grace_s * 1000.0 + 0.5), text, &err) < 0) {
        front_fail(call->front, call->http, &err, NULL);
        return;
    }
    active_requests_key_changed(call->front->auth.active_requests, row.id);
    note_change(call, "rotate", row.id, &row);
    front_reply(call->http, 200, key_json(&row, text));
    explicit_bzero(text, sizeof(text));
}

void keys_delete(struct door_call *call)
{
    const char *id = http_param(call->http, "id");
    struct error err = {0};
    struct key_row row;

    if (find_own(call, id, &row, &err) < 0 || keys_remove(call->front->auth.index, id, &err) < 0) {
        front_fail(call->front, call->http, &err, NULL);
        return;
    }
    active_requests_key_changed(call->front->auth.active_requests, id);
    note_change(call, "rm", id, &row);
    front_reply(call->http, 200, json_pack("{s:s}", "id", id));
}
