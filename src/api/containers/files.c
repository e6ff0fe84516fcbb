/* files.c - /v1/files: uploaded files, which outlive containers. */
#include <errno.h>
#include <string.h>

#include "api/containers/containers.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "model/text.h"

#define LIST_LIMIT 10000
#define EXPIRES_MIN_S 3600
#define EXPIRES_MAX_S 2592000

static const char *const purposes[] = {"assistants", "batch",     "fine-tune",
                                       "vision",     "user_data", "evals"};

static json_t *file_json(const struct upload_row *row)
{
    json_t *json =
        json_pack("{s:s, s:s, s:I, s:I, s:o, s:s, s:s}", "id", row->id, "object", "file", "bytes",
                  (json_int_t)row->bytes, "created_at", (json_int_t)(row->created_ms / 1000),
                  "filename", text_to_json(row->filename, strlen(row->filename)), "purpose",
                  row->purpose, "status", "processed");

    if (json && row->expires_ms)
        json_object_set_new(json, "expires_at", json_integer((json_int_t)(row->expires_ms / 1000)));
    return json;
}

/* ---- POST ---- */

static bool is_purpose(const char *text)
{
    for (size_t i = 0; i < ARRAY_SIZE(purposes); i++)
        if (str_equal(purposes[i], text))
            return true;
    return false;
}

/* expires_after[anchor] and expires_after[seconds], as the SDKs write it into a form. */
static int read_expiry(const struct form *form, uint64_t *ret_ms, struct error *err)
{
    const char *anchor = form_text(form, "expires_after[anchor]");
    const char *text = form_text(form, "expires_after[seconds]");
    uint64_t seconds;

    *ret_ms = 0;
    if (!anchor && !text)
        return 0;
    if ((anchor && !str_equal(anchor, "created_at")) || !text || str_to_u64(text, &seconds) < 0 ||
        seconds < EXPIRES_MIN_S || seconds > EXPIRES_MAX_S)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "expires_after: the anchor is \"created_at\", and seconds are %d to %d",
                         EXPIRES_MIN_S, EXPIRES_MAX_S);
    *ret_ms = clock_wall_ms() + seconds * 1000;
    return 0;
}

static void on_form(struct form *form)
{
    struct upload_spec spec = {.tenant = form->caller.who.tenant,
                               .filename = form->filename,
                               .purpose = form_text(form, "purpose")};
    uint64_t bytes = form->file ? upload_bytes(form->file) : 0;
    struct upload_row row;
    struct error err = {0};
    const char *param = NULL;
    int r = 0;

    if (!form->file) {
        r = error_set(&err, -EINVAL, ERROR_BAD_INPUT, "a file in the field 'file' is missing");
        param = "file";
    } else if (!is_purpose(spec.purpose)) {
        r = error_set(&err, -EINVAL, ERROR_BAD_INPUT,
                      "purpose: has to be assistants, batch, fine-tune, vision, user_data or "
                      "evals");
        param = "purpose";
    } else if (read_expiry(form, &spec.expires_ms, &err) < 0) {
        r = err.num;
        param = "expires_after";
    }
    if (r == 0)
        r = upload_end(ptr_take(&form->file), &spec, &row, &err);
    containers_changed(form->front, form->http, &form->caller, "uploaded", NULL,
                       form->filename ? form->filename : "", bytes, r < 0 ? &err : NULL);
    if (r < 0) {
        form_fail(form, &err, param);
        return;
    }
    front_reply(form->http, 200, file_json(&row));
    form_free(form);
}

void uploads_create(struct door_call *call)
{
    struct form *form = form_new(call);

    if (form)
        form_read(form, false, on_form);
}

/* ---- GET, DELETE ---- */

struct listing {
    const char *purpose;
    json_t *all;
};

static void on_row(void *ctx, const struct upload_row *row)
{
    struct listing *listing = ctx;

    if (!listing->purpose || str_equal(listing->purpose, row->purpose))
        json_array_append_new(listing->all, file_json(row));
}

void uploads_list(struct door_call *call)
{
    struct listing listing = {.purpose = front_query_text(call, "purpose"), .all = json_array()};
    struct error err = {0};

    if (upload_each(call->front->manager, call->caller.who.tenant, on_row, &listing, &err) < 0) {
        json_decref(listing.all);
        openai_fail(call->front, call->http, &err, NULL);
        return;
    }
    containers_reply_list(call, listing.all, LIST_LIMIT, false);
}

/* The file of {id}; false: the request was answered. */
static bool take(struct door_call *call, struct upload_row *ret)
{
    struct error err = {0};

    if (upload_find(call->front->manager, call->caller.who.tenant, http_param(call->http, "id"),
                    ret, &err) == 0)
        return true;
    openai_fail(call->front, call->http, &err, NULL);
    return false;
}

void uploads_get(struct door_call *call)
{
    struct upload_row row;

    if (take(call, &row))
        front_reply(call->http, 200, file_json(&row));
}

void uploads_delete(struct door_call *call)
{
    struct upload_row row;
    struct error err = {0};
    int r;

    if (!take(call, &row))
        return;
    r = upload_remove(call->front->manager, &row, &err);
    containers_changed(call->front, call->http, &call->caller, "deleted", NULL, row.filename, 0,
                       r < 0 ? &err : NULL);
    if (r < 0)
        openai_fail(call->front, call->http, &err, NULL);
    else
        front_reply(call->http, 200,
                    json_pack("{s:s, s:s, s:b}", "id", row.id, "object", "file", "deleted", 1));
}

void uploads_content(struct door_call *call)
{
    struct upload_row row;
    struct error err = {0};
    int fd;

    if (!take(call, &row))
        return;
    fd = upload_open(call->front->manager, &row, &err);
    if (fd < 0)
        openai_fail(call->front, call->http, &err, NULL);
    else
        content_send_disk(call->http, call->front, fd, row.filename);
}
