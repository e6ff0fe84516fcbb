/*
 * events.c - parses the events of a cell (its values, errors), one JSON object per line; see
 * docs/kernels.md.
 *
 * The lines are written by the guest's own process and are hostile. A line that does not match the
 * document is dropped, the last of two contradicting lines counts, and only the members named here
 * are copied. All of them together stay within the bounds of model/json.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/json.h"
#include "session/session_private.h"

#define BUNDLE_MAX 32 /* MIME types of one value */
#define MIME_MAX 127  /* RFC 6838 */
#define PIECE (64 * KIB)

static bool is_mime(const char *name)
{
    const char *slash = strchr(name, '/');
    size_t length = strlen(name);

    return slash && slash != name && slash[1] && length <= MIME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.+-_/") ==
               length;
}

/* Text and images are strings; a MIME type that ends in json may have any value. */
static bool fits(const char *mime, json_t *value)
{
    size_t length = strlen(mime);

    return json_is_string(value) || (length > 4 && str_equal(mime + length - 4, "json"));
}

static json_t *clean_bundle(json_t *data)
{
    json_t *bundle = json_object(), *value;
    const char *mime;

    json_object_foreach(data, mime, value)
    {
        if (bundle && json_object_size(bundle) < BUNDLE_MAX && is_mime(mime) && fits(mime, value))
            json_object_set(bundle, mime, value);
    }
    return bundle;
}

static json_t *clean_truncated(json_t *truncated, json_t *bundle)
{
    json_t *list = json_array(), *one;
    size_t i;

    json_array_foreach(truncated, i, one)
    {
        const char *mime = json_string_value(one);

        if (i < BUNDLE_MAX && mime && strlen(mime) == json_string_length(one) &&
            json_object_get(bundle, mime))
            json_array_append(list, one);
    }
    return list;
}

static json_t *clean_value(const char *type, json_t *event)
{
    json_t *bundle = clean_bundle(json_object_get(event, "data"));
    json_t *clean = json_object_size(bundle) == 0
                        ? NULL
                        : json_pack("{s:s, s:O, s:o}", "type", type, "data", bundle, "truncated",
                                    clean_truncated(json_object_get(event, "truncated"), bundle));
    json_int_t count = json_integer_value(json_object_get(event, "count"));

    json_decref(bundle);
    if (clean && str_equal(type, "result") && count > 0 && count <= INT32_MAX)
        json_object_set_new(clean, "count", json_integer(count));
    return clean;
}

static json_t *clean_error(json_t *event)
{
    static const char *const names[] = {"name", "value", "traceback"};
    json_t *clean = json_pack("{s:s}", "type", "error");

    for (size_t i = 0; clean && i < ARRAY_SIZE(names); i++) {
        json_t *text = json_object_get(event, names[i]);

        if (json_is_string(text))
            json_object_set(clean, names[i], text);
        else
            json_object_set_new(clean, names[i], json_string(""));
    }
    return clean;
}

/* *ret_problem: what json_parse() said; 0 where it was no fault of its size. */
static json_t *cell_event_within(const char *line, size_t length, size_t *left, int *ret_problem)
{
    CLEANUP(json_decrefp) json_t *event = NULL;
    struct json_problem problem = {0};
    const char *type;

    if (length > 0 && line[0] == '{')
        event = json_parse_within(line, length, JSON_ALLOW_NUL, left, &problem);
    *ret_problem = problem.num;
    type = json_string_value(json_object_get(event, "type"));
    if (str_equal(type, "result"))
        return clean_value("result", event);
    if (str_equal(type, "display"))
        return clean_value("display", event);
    return str_equal(type, "error") ? clean_error(event) : NULL;
}

json_t *cell_event_parse(const char *line, size_t length)
{
    size_t left = LIMIT_JSON_STRUCTURE;
    int problem;

    return cell_event_within(line, length, &left, &problem);
}

/* ---- all events of a cell ---- */

struct gathered {
    json_t *results, *error;
    json_int_t count;
    unsigned events;
    size_t left; /* of LIMIT_JSON_STRUCTURE, for all of them together */
    bool is_cut;
};

static void gather(struct gathered *all, const char *line, size_t length)
{
    json_t *event = NULL, *count;
    int problem = -EFBIG;

    if (all->events < LIMIT_CELL_RESULTS)
        event = cell_event_within(line, length, &all->left, &problem);
    all->is_cut |= problem == -EFBIG || problem == -E2BIG;
    if (!event)
        return;
    count = json_object_get(event, "count");
    all->events++;
    if (str_equal(json_string_value(json_object_get(event, "type")), "error")) {
        json_object_del(event, "type");
        json_decref(all->error);
        all->error = event;
        return;
    }
    if (count)
        all->count = json_integer_value(count);
    json_object_del(event, "count");
    json_array_append_new(all->results, event);
}

/* Takes whole lines out of `text`; there is no newline before offset `looked`. */
static void gather_lines(struct gathered *all, struct buf *text, size_t looked)
{
    size_t at = 0;
    const char *end;

    while (looked < text->length &&
           (end = memchr(text->data + looked, '\n', text->length - looked))) {
        gather(all, text->data + at, (size_t)(end - text->data) - at);
        at = looked = (size_t)(end - text->data) + 1;
    }
    buf_consume(text, at);
}

json_t *execution_cell_json(const struct execution *execution)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_CELL_EVENTS + PIECE);
    CLEANUP(freep) char *data = NULL;
    uint64_t total = execution_written(execution, 3), at = execution->cell->base[2];
    struct gathered all = {
        .results = json_array(), .count = execution->cell->number, .left = LIMIT_JSON_STRUCTURE};

    if (total > at)
        data = malloc(PIECE);
    while (data && at < total) {
        ssize_t length = execution_read(execution, 3, at, data, PIECE);
        size_t looked = text.length;

        if (length <= 0 || buf_append(&text, data, (size_t)length) < 0)
            break; /* dropped with the oldest output: the rest is used */
        at += (uint64_t)length;
        gather_lines(&all, &text, looked);
    }
    execution->cell->is_cut = all.is_cut;
    return json_pack("{s:o, s:o, s:o}", "results", all.results, "error",
                     all.error ? all.error : json_null(), "execution_count",
                     all.count ? json_integer(all.count) : json_null());
}

json_t *execution_cell_meta(const struct execution *execution)
{
    const struct cell *cell = execution->cell;
    json_t *meta = json_pack("{s:s, s:s, s:s?, s:s*, s:s}", "context", cell->context_id, "language",
                             cell->language, "kernel", cell->word, "kernel_note",
                             cell->note[0] ? cell->note : NULL, "warm", warm_name(cell->warm));

    if (meta && cell->has_lost)
        json_object_set_new(meta, "kernel_lost", json_true());
    if (meta && (cell->is_cut || execution->flags & EXECUTION_EVENTS_CUT))
        json_object_set_new(meta, "results_truncated", json_true());
    return meta;
}

json_t *cell_reply_json(const struct result *result, json_t *cell, json_t *cell_meta)
{
    CLEANUP(json_decrefp) json_t *reply = result_to_json(result);

    if (!reply || (cell && json_object_update(reply, cell) < 0) ||
        (cell_meta && json_object_update(json_object_get(reply, "meta"), cell_meta) < 0))
        return NULL;
    return ptr_take(&reply);
}

json_t *execution_reply(const struct execution *execution, const struct result *result)
{
    CLEANUP(json_decrefp) json_t *cell = NULL;
    CLEANUP(json_decrefp) json_t *meta = NULL;

    if (!execution->cell)
        return result_to_json(result);
    cell = execution_cell_json(execution);
    meta = execution_cell_meta(execution);
    return cell && meta ? cell_reply_json(result, cell, meta) : NULL;
}
