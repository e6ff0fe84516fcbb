/*
 * form.c - a body with a file and fields: multipart/form-data, or JSON where a row takes it. The
 * file goes to disk as it arrives; see containers.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/containers/containers.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "http/form_data.h"
#include "model/json.h"
#include "tool/schema.h"

struct form_reading {
    struct form_data parts;
    bool is_json;
    unsigned part_count;
    char name[64]; /* of the field that is being read */
    bool is_file;
    struct buf text;      /* of the field, or the JSON body */
    struct error refusal; /* why no more is read */
    void (*done)(struct form *form);
};

static void reading_free(struct form_reading *reading)
{
    if (!reading)
        return;
    form_data_free(&reading->parts);
    buf_free(&reading->text);
    free(reading);
}

void form_free(struct form *form)
{
    if (!form)
        return;
    container_job_cancel(form->job);
    upload_cancel(form->file);
    reading_free(form->reading);
    json_decref(form->fields);
    free(form->filename);
    free(form);
}

void form_fail(struct form *form, const struct error *err, const char *param)
{
    openai_fail(form->front, form->http, err, param);
    form_free(form);
}

const char *form_text(const struct form *form, const char *name)
{
    return json_string_value(json_object_get(form->fields, name));
}

static void on_gone(void *ctx)
{
    form_free(ctx);
}

struct form *form_new(struct door_call *call)
{
    struct form *form = calloc(1, sizeof(*form));

    if (form)
        form->fields = json_object();
    if (form)
        form->reading = calloc(1, sizeof(*form->reading));
    if (!form || !form->fields || !form->reading) {
        form_free(form);
        openai_fail_memory(call->http);
        return NULL;
    }
    form->front = call->front;
    form->http = call->http;
    form->caller = call->caller;
    form->reading->text = BUF_INIT(LIMIT_MULTIPART_FIELD);
    return form;
}

/* ---- parts ---- */

static int begin_file(struct form *form, const char *name, const char *file, struct error *err)
{
    if (!str_equal(name, "file") || form->file)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "one file is expected, in the field 'file'");
    if (strlen(file) > LIMIT_MULTIPART_NAME)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "the file's name is too long");
    form->filename = strdup(file);
    return form->filename
               ? upload_begin(form->front->manager, form->caller.who.tenant, &form->file, err)
               : error_memory(err);
}

static int on_part(void *ctx, const struct form_data_part *part)
{
    struct form *form = ctx;
    struct form_reading *reading = form->reading;
    struct error *err = &reading->refusal;

    reading->is_file = part->filename != NULL;
    buf_clear(&reading->text);
    if (reading->part_count++ == LIMIT_MULTIPART_PARTS)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE, "multipart/form-data: more than %d parts",
                         LIMIT_MULTIPART_PARTS);
    if (!part->name[0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "multipart/form-data: a part has no name");
    if (!str_copy(reading->name, sizeof(reading->name), part->name))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "a field's name is too long");
    return part->filename ? begin_file(form, part->name, part->filename, err) : 0;
}

/* Takes everything, or there is a refusal. */
static size_t on_part_data(void *ctx, const void *data, size_t length)
{
    struct form *form = ctx;
    struct form_reading *reading = form->reading;
    struct error *err = &reading->refusal;
    int r;

    if (reading->is_file)
        return upload_write(form->file, data, length, err) < 0 ? 0 : length;
    r = buf_append(&reading->text, data, length);
    if (r == -EFBIG)
        error_set(err, -E2BIG, ERROR_TOO_LARGE, "the field '%s' is too long", reading->name);
    else if (r < 0)
        error_memory(err);
    return r < 0 ? 0 : length;
}

static int on_part_end(void *ctx)
{
    struct form *form = ctx;
    struct form_reading *reading = form->reading;
    struct error *err = &reading->refusal;
    json_t *value;

    if (reading->is_file)
        return 0;
    value = json_stringn(buf_text(&reading->text), reading->text.length);
    if (!value)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "the field '%s' is not UTF-8",
                         reading->name);
    return json_object_set_new(form->fields, reading->name, value) < 0 ? error_memory(err) : 0;
}

/* ---- the body ---- */

static void feed_parts(struct form_reading *reading, const void *data, size_t length)
{
    ssize_t used = form_data_feed(&reading->parts, data, length);

    if (used >= 0 || reading->refusal.code)
        return;
    if (used == -EFBIG)
        error_set(&reading->refusal, -E2BIG, ERROR_TOO_LARGE,
                  "multipart/form-data: the headers of a part have more than %d KB",
                  FORM_DATA_HEAD / 1024);
    else if (used == -ENOMEM)
        error_memory(&reading->refusal);
    else
        error_set(&reading->refusal, -EINVAL, ERROR_BAD_INPUT,
                  "the body is not valid multipart/form-data");
}

static void feed_json(struct form_reading *reading, const void *data, size_t length)
{
    int r = buf_append(&reading->text, data, length);

    if (r == -EFBIG)
        error_set(&reading->refusal, -E2BIG, ERROR_TOO_LARGE, "the body is too long");
    else if (r < 0)
        error_memory(&reading->refusal);
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct form *form = ctx;
    struct form_reading *reading = form->reading;

    if (reading->is_json)
        feed_json(reading, data, length);
    else
        feed_parts(reading, data, length);
    if (reading->refusal.code) {
        const struct error err = reading->refusal; /* it is freed */

        form_fail(form, &err, NULL);
    }
    return length;
}

static void on_end(void *ctx)
{
    struct form *form = ctx;
    struct form_reading *reading = form->reading;
    struct schema_problem problem = {0};
    json_t *json = NULL;

    if (!reading->is_json) {
        if (!form_data_is_whole(&reading->parts)) {
            error_set(&problem.err, -EINVAL, ERROR_BAD_INPUT,
                      "the body is not valid multipart/form-data: it is cut off");
            form_fail(form, &problem.err, NULL);
            return;
        }
    } else {
        json = json_read(buf_text(&reading->text), reading->text.length, &problem);
        if (!json_is_object(json)) {
            if (json)
                error_set(&problem.err, -EINVAL, ERROR_BAD_INPUT, "the body has to be an object");
            json_decref(json);
            form_fail(form, &problem.err, problem.field[0] ? problem.field : NULL);
            return;
        }
        json_decref(form->fields);
        form->fields = json;
    }
    reading->done(form);
}

void form_read(struct form *form, bool takes_json, void (*done)(struct form *form))
{
    static const struct http_body_events body = {.data = on_data, .end = on_end};
    static const struct form_data_events parts = {
        .begin = on_part, .data = on_part_data, .end = on_part_end};
    const char *type = http_header(form->http, "Content-Type");
    struct error err = {0};
    int r = 0;

    form->reading->done = done;
    form->reading->is_json = !form_data_is_type(type);
    if (!form->reading->is_json && form_data_begin(&form->reading->parts, type, &parts, form) < 0)
        r = error_set(&err, -EINVAL, ERROR_BAD_INPUT,
                      "multipart/form-data: Content-Type has no valid boundary");
    else if (form->reading->is_json && (!takes_json || !front_is_json_type(type)))
        r = error_set(&err, -EINVAL, ERROR_MEDIA_TYPE, "the body has to be multipart/form-data%s",
                      takes_json ? " with a file, or JSON" : " with a file");
    if (r < 0) {
        form_fail(form, &err, NULL);
        return;
    }
    http_on_gone(form->http, on_gone, form);
    http_body_read(form->http, &body, form);
}
