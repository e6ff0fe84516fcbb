/*
 * artifacts.c - outputs by id: their bytes, with a key or by a signed link; makes links, keeps and
 * removes outputs. Other tenants get the same 404 as for an output that does not exist.
 */
#include <errno.h>
#include <string.h>

#include "api/link.h"
#include "api/rest/download.h"
#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/text.h"
#include "session/artifacts.h"

static json_t *row_json(const struct output_row *row)
{
    char created[40], expires[40], url[ID_MAX + 32];

    front_time(row->created_ms, created, sizeof(created));
    front_time(row->expires_ms, expires, sizeof(expires));
    str_format(url, sizeof(url), "/v1/artifacts/%s", row->id);
    return json_pack("{s:s, s:s, s:o, s:s, s:s, s:I, s:s, s:s?, s:b, s:s}", "id", row->id,
                     "session_id", row->session, "name", text_to_json(row->name, strlen(row->name)),
                     "mime", row->type, "sha256", row->sha256, "bytes", (json_int_t)row->bytes,
                     "created_at", created, "expires_at", row->is_kept ? NULL : expires, "kept",
                     row->is_kept, "url", url);
}

/* The output of {id}; false: the request was answered. */
static bool find(const struct door_call *call, struct output_row *row)
{
    const char *id = http_param(call->http, "id");
    struct error err = {0};
    int r = artifact_find(call->front->manager, id, row, &err);

    if (r == 0 && !call->caller.who.is_local && !str_equal(call->caller.who.tenant, row->tenant))
        r = error_set(&err, -ENOENT, ERROR_NO_ROUTE, "there is no output '%.*s'", ID_MAX, id);
    if (r < 0)
        front_fail(call->front, call->http, &err, NULL);
    return r == 0;
}

static void send(const struct door_call *call, const struct output_row *row)
{
    struct error err = {0};
    int fd = artifact_open(call->front->manager, row->id, &err);

    if (fd < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        rest_download(
            call->http, fd,
            &(struct download_spec){.name = row->name, .type = row->type, .etag = row->sha256});
}

static int check_link(const struct door_call *call, struct error *err)
{
    uint8_t secret[SHA256_BYTES];
    int r = artifacts_secret(call->front->manager, secret, err);

    if (r == 0)
        r = link_check(secret, http_param(call->http, "id"), front_query_text(call, "expires"),
                       front_query_text(call, "signature"), clock_wall_ms() / 1000, err);
    explicit_bzero(secret, sizeof(secret));
    return r;
}

/* The row needs no key, because a link replaces it; without a link auth.c checks the key here. */
void artifacts_get(struct door_call *call)
{
    bool is_link = front_query_text(call, "signature") || front_query_text(call, "expires");
    struct output_row row;
    struct error err = {0};
    int r = is_link
                ? check_link(call, &err)
                : auth_admit(&call->front->auth, call->http, SCOPE_FILES, &call->caller.who, &err);

    if (r == 0 && is_link)
        r = artifact_find(call->front->manager, http_param(call->http, "id"), &row, &err);
    if (r == 0 && is_link &&
        !http_is_local(call->http)) { /* the bytes sent count for the output's tenant */
        struct principal who = {0};

        str_copy(who.tenant, sizeof(who.tenant), row.tenant);
        r = auth_admit_as(&call->front->auth, call->http, &who, &err);
    }
    if (r < 0)
        front_fail(call->front, call->http, &err, NULL);
    else if (is_link || find(call, &row))
        send(call, &row);
}

static void add_row(void *ctx, const struct output_row *row)
{
    json_array_append_new(ctx, row_json(row));
}

void artifacts_list_all(struct door_call *call)
{
    json_t *list = json_array();
    struct error err = {0};

    if (artifacts_list(call->front->manager, auth_tenant(&call->caller.who),
                       front_query_bool(call, "kept"), add_row, list, &err) < 0) {
        json_decref(list);
        front_fail(call->front, call->http, &err, NULL);
        return;
    }
    front_reply(call->http, 200, json_pack("{s:o}", "artifacts", list));
}

void artifacts_info(struct door_call *call)
{
    struct output_row row;

    if (find(call, &row))
        front_reply(call->http, 200, row_json(&row));
}

void artifacts_link(struct door_call *call)
{
    json_t *seconds = json_object_get(call->body, "seconds");
    uint64_t most_ms = session_manager_config(call->front->manager)->link_ms;
    uint64_t ms = seconds ? (uint64_t)(json_number_value(seconds) * 1000.0) : most_ms;
    uint64_t expires_s = (clock_wall_ms() + MIN(ms, most_ms)) / 1000;
    uint8_t secret[SHA256_BYTES];
    char text[LINK_MAX], expires[40];
    struct output_row row;
    struct error err = {0};

    if (!find(call, &row))
        return;
    if (artifacts_secret(call->front->manager, secret, &err) < 0) {
        front_fail(call->front, call->http, &err, NULL);
        return;
    }
    link_make(secret, row.id, expires_s, text);
    explicit_bzero(secret, sizeof(secret));
    front_time(expires_s * 1000, expires, sizeof(expires));
    front_reply(call->http, 201, json_pack("{s:s, s:s}", "url", text, "expires_at", expires));
}

void artifacts_keep(struct door_call *call)
{
    json_t *keep = json_object_get(call->body, "keep");
    struct output_row row;
    struct error err = {0};

    if (!find(call, &row))
        return;
    if (artifact_keep(call->front->manager, &row, !json_is_false(keep), &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        front_reply(call->http, 200, row_json(&row));
}

void artifacts_delete(struct door_call *call)
{
    struct output_row row;
    struct error err = {0};

    if (!find(call, &row))
        return;
    if (artifact_remove(call->front->manager, row.id, &err) < 0)
        front_fail(call->front, call->http, &err, NULL);
    else
        front_reply(call->http, 200, json_object());
}
