/*
 * files.c - input_file and input_image parts of a request: uploaded files and bytes that came with
 * it; see responses.h.
 *
 * Where the model can run code, a file goes into the container and the message says where it is.
 * Without, its bytes go to the model server, which may understand them; those of a picture always.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "api/responses/responses.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "model/text.h"
#include "session/container.h"
#include "session/upload.h"

#define PASSED_MAX (20 * MIB)      /* of a file that is passed to the model server */
#define KEPT_MS (24 * 3600 * 1000) /* a file that came with the request, as an upload */

static int wrong(struct order *order, struct error *err, const char *text)
{
    return error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s: %s", order->param, text);
}

static const char *text_of(json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

/* "data:TYPE;base64,DATA", or only the data. */
static const char *data_of(const char *text)
{
    const char *comma = str_starts(text, "data:") ? strchr(text, ',') : NULL;

    return comma ? comma + 1 : text;
}

/* Bytes that came in the request: an upload of a day, also if they come again. */
static int keep_data(struct door_call *call, struct order *order, json_t *part, char id[ID_MAX],
                     struct error *err)
{
    const char *text = data_of(text_of(part, "file_data")), *name = text_of(part, "filename");
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(LIMIT_REQUEST_JSON);
    struct upload_spec spec = {.tenant = call->caller.who.tenant,
                               .filename = name && name[0] ? name : "file",
                               .purpose = "user_data",
                               .expires_ms = clock_wall_ms() + KEPT_MS};
    struct upload_row row;
    int r = base64_decode(text, strlen(text), &bytes);

    if (r < 0)
        return wrong(order, err, "'file_data' is not base64");
    r = upload_keep(call->front->manager, &spec, buf_text(&bytes), bytes.length, &row, err);
    if (r == 0)
        str_copy(id, ID_MAX, row.id);
    return r;
}

/* The file goes into the container, and a line of text says where it is. */
static int note_file(struct door_call *call, struct order *order, json_t *part, const char *id,
                     struct error *err)
{
    int r = order_add_file(call, order, id, err);

    if (r < 0)
        return r;
    json_object_set_new(part, "_note",
                        json_sprintf("[file %s/%s]", CONTAINER_FOLDER,
                                     json_string_value(json_object_get(order->names, id))));
    return 0;
}

static int into_container(struct door_call *call, struct order *order, json_t *part,
                          struct error *err)
{
    char id[ID_MAX] = "";
    int r = 0;

    if (text_of(part, "file_id"))
        str_copy(id, sizeof(id), text_of(part, "file_id"));
    else
        r = keep_data(call, order, part, id, err);
    return r < 0 ? r : note_file(call, order, part, id, err);
}

/* Its bytes as a data URL. */
static int read_upload(struct door_call *call, const char *id, const char *type, json_t **ret,
                       struct upload_row *row, struct error *err)
{
    CLEANUP(fd_closep) int fd = -1;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(PASSED_MAX);
    CLEANUP(buf_free) struct buf text = BUF_INIT(2 * PASSED_MAX);
    int r = upload_find(call->front->manager, call->caller.who.tenant, id, row, err);

    if (r == 0)
        r = fd = upload_open(call->front->manager, row, err);
    if (r < 0)
        return r;
    r = buf_read_fd(&bytes, fd);
    if (r == 0)
        r = buf_printf(&text, "data:%s;base64,", type);
    if (r == 0)
        r = base64_encode(buf_text(&bytes), bytes.length, &text);
    if (r == -EFBIG)
        return error_set(err, r, ERROR_TOO_LARGE, "the file '%.60s' is larger than %llu MB", id,
                         PASSED_MAX / MIB);
    *ret = r == 0 ? json_stringn(buf_text(&text), text.length) : NULL;
    return *ret ? 0 : error_memory(err);
}

static const char *image_type(const char *name)
{
    return str_ends(name, ".jpg") || str_ends(name, ".jpeg") ? "image/jpeg"
           : str_ends(name, ".gif")                          ? "image/gif"
           : str_ends(name, ".webp")                         ? "image/webp"
                                                             : "image/png";
}

static int read_file(struct door_call *call, struct order *order, json_t *part, struct error *err)
{
    const char *id = text_of(part, "file_id");
    struct upload_row row;
    json_t *data = NULL;
    int r;

    if (text_of(part, "file_url"))
        return wrong(order, err, "'file_url' is not fetched here; send 'file_id' or 'file_data'");
    if (!id && !text_of(part, "file_data"))
        return wrong(order, err, "an input_file needs 'file_id' or 'file_data'");
    if (order->has_code)
        return into_container(call, order, part, err);
    if (!id)
        return 0;
    r = read_upload(call, id, "application/octet-stream", &data, &row, err);
    if (r < 0)
        return r;
    json_object_set_new(part, "_data", data);
    json_object_set_new(part, "filename", text_to_json(row.filename, strlen(row.filename)));
    return 0;
}

static int read_image(struct door_call *call, struct order *order, json_t *part, struct error *err)
{
    const char *id = text_of(part, "file_id");
    struct upload_row row;
    json_t *data = NULL;
    int r;

    if (!id || text_of(part, "image_url"))
        return 0;
    r = upload_find(call->front->manager, call->caller.who.tenant, id, &row, err);
    if (r == 0)
        r = read_upload(call, id, image_type(row.filename), &data, &row, err);
    if (r == 0)
        json_object_set_new(part, "_data", data);
    return r == 0 && order->has_code ? note_file(call, order, part, id, err) : r;
}

int input_files(struct door_call *call, struct order *order, json_t *items, struct error *err)
{
    json_t *item, *part;
    size_t i, k;
    int r = 0;

    json_array_foreach(items, i, item)
    {
        json_array_foreach(json_object_get(item, "content"), k, part)
        {
            const char *type = text_of(part, "type");

            str_format(order->param_text, sizeof(order->param_text), "input[%zu].content[%zu]", i,
                       k);
            json_object_del(part, "_note"); /* ours only */
            json_object_del(part, "_data");
            if (str_equal(type, "input_file") || str_equal(type, "input_image"))
                order->param = order->param_text;
            if (str_equal(type, "input_file"))
                r = read_file(call, order, part, err);
            else if (str_equal(type, "input_image"))
                r = read_image(call, order, part, err);
            if (r < 0)
                return r;
        }
    }
    return 0;
}
