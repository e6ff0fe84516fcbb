/*
 * code.c - sandboxagent.ContextService, and lines of /execute as messages of
 * sandboxagent.ExecutionService; see scalebox.h.
 *
 * The npm package makes a context for each runCode() and removes none. So of the contexts that ran
 * one cell and wait, a sandbox keeps ONCE_MAX: those that are used again stay.
 */
#include <errno.h>
#include <string.h>

#include "api/scalebox/scalebox.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

#define ONCE_MAX 16

/* ---- results ---- */

/* A text stays, anything else is written as JSON. */
static json_t *as_text(json_t *value)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_CELL_EVENTS);

    if (json_is_string(value))
        return json_incref(value);
    if (text_of_json(value, FRONT_JSON | JSON_ENCODE_ANY, &text) < 0)
        return NULL;
    return json_stringn_nocheck(buf_text(&text), text.length);
}

/* Members that have no field of their own, as a map of texts. */
static json_t *others(json_t *object, const char *const *known)
{
    json_t *map = json_object(), *value;
    const char *name;

    json_object_foreach(object, name, value)
    {
        bool is_known = json_is_null(value);

        for (size_t i = 0; known[i]; i++)
            is_known |= str_equal(known[i], name);
        if (!is_known)
            json_object_set_new(map, name, as_text(value));
    }
    return map;
}

/* "x" or "y" of a point. */
static void add_place(json_t *point, json_t *value, const char *number, const char *text)
{
    if (json_is_number(value))
        json_object_set(point, number, value);
    else
        json_object_set_new(point, text, as_text(value));
}

static json_t *points_json(json_t *element)
{
    json_t *points = json_array(), *pair;
    size_t i;

    json_array_foreach(json_object_get(element, "points"), i, pair)
    {
        json_t *point = json_object();

        add_place(point, json_array_get(pair, 0), "xNum", "xStr");
        add_place(point, json_array_get(pair, 1), "yNum", "yStr");
        json_array_append_new(points, point);
    }
    return json_pack("{s:{s:O*, s:o}}", "pointData", "label", json_object_get(element, "label"),
                     "points", points);
}

static json_t *box_json(json_t *element)
{
    return json_pack(
        "{s:{s:O*, s:O*, s:O*, s:O*, s:O*, s:O*, s:O*}}", "boxWhiskerData", "label",
        json_object_get(element, "label"), "min", json_object_get(element, "min"), "firstQuartile",
        json_object_get(element, "first_quartile"), "median", json_object_get(element, "median"),
        "thirdQuartile", json_object_get(element, "third_quartile"), "max",
        json_object_get(element, "max"), "outliers", json_object_get(element, "outliers"));
}

static json_t *chart_json(json_t *chart, unsigned depth);

static json_t *element_json(const char *type, json_t *element, unsigned depth)
{
    json_t *value = json_object_get(element, "value");

    if (str_equal(type, "superchart"))
        return json_pack("{s:o*}", "nestedChart", chart_json(element, depth + 1));
    if (str_equal(type, "bar"))
        return json_pack("{s:{s:O*, s:O*, s:o*}}", "barData", "label",
                         json_object_get(element, "label"), "group",
                         json_object_get(element, "group"), "value", value ? as_text(value) : NULL);
    if (str_equal(type, "pie"))
        return json_pack("{s:O}", "pieData", element);
    if (str_equal(type, "box_and_whisker"))
        return box_json(element);
    return points_json(element);
}

static json_t *chart_json(json_t *chart, unsigned depth)
{
    static const char *const known[] = {"type", "title", "elements", NULL};
    const char *type = json_string_value(json_object_get(chart, "type"));
    json_t *elements = json_array(), *element;
    size_t i;

    if (!type || depth > 2) { /* charts of a figure are not nested further */
        json_decref(elements);
        return NULL;
    }
    json_array_foreach(json_object_get(chart, "elements"), i, element)
    {
        json_array_append_new(elements, element_json(type, element, depth));
    }
    return json_pack("{s:s, s:O*, s:o, s:o}", "type", type, "title",
                     e2b_member(chart, "title", NULL), "elements", elements, "extra",
                     others(chart, known));
}

static json_t *result_json(json_t *line, json_int_t count)
{
    static const char *const texts[] = {"text", "html",  "markdown", "svg",        "png",  "jpeg",
                                        "pdf",  "latex", "json",     "javascript", "data", NULL};
    static const char *const none[] = {NULL};
    json_t *chart = json_object_get(line, "chart");
    json_t *result =
        json_pack("{s:i, s:I, s:b}", "exitCode", 0, "executionCount", count, "isMainResult",
                  json_is_true(json_object_get(line, "is_main_result")));

    for (size_t i = 0; texts[i]; i++) {
        json_t *value = e2b_member(line, texts[i], NULL);

        if (value)
            json_object_set_new(result, texts[i], as_text(value));
    }
    chart = chart ? chart_json(chart, 0) : NULL;
    if (chart)
        json_object_set_new(result, "chart", chart);
    if (json_object_get(line, "extra"))
        json_object_set_new(result, "extra", others(json_object_get(line, "extra"), none));
    return json_pack("{s:o}", "result", result);
}

json_t *scalebox_event(json_t *line, json_int_t count)
{
    const char *type = json_string_value(json_object_get(line, "type"));

    if (str_equal(type, "stdout") || str_equal(type, "stderr"))
        return json_pack("{s:{s:O*}}", type, "content", json_object_get(line, "text"));
    if (str_equal(type, "result"))
        return result_json(line, count);
    if (str_equal(type, "error"))
        return json_pack("{s:{s:O*, s:O*, s:O*}}", "error", "name", json_object_get(line, "name"),
                         "value", json_object_get(line, "value"), "traceback",
                         json_object_get(line, "traceback"));
    return str_equal(type, "keepalive") ? json_object() : NULL; /* a message without an event */
}

/* ---- contexts ---- */

/* Contexts that ran one cell: how many, and the one that is unused longest. */
struct search {
    struct context *found;
    uint64_t used_ms;
    unsigned count;
};

static void look_at(void *ctx, struct context *context)
{
    CLEANUP(json_decrefp) json_t *about = context_json(context);
    struct search *search = ctx;
    uint64_t used_ms = e2b_time_read(json_string_value(json_object_get(about, "last_used_at")));

    if (json_is_true(json_object_get(about, "default")) ||
        str_equal(json_string_value(json_object_get(about, "state")), "busy") ||
        json_integer_value(json_object_get(about, "cells")) != 1)
        return;
    search->count++;
    if (search->found && used_ms >= search->used_ms)
        return;
    search->found = context;
    search->used_ms = used_ms;
}

static int make(struct session *session, json_t *request, struct context **ret, struct error *err)
{
    struct search search = {.count = 0};

    session_each_context(session, look_at, &search);
    if (search.count >= ONCE_MAX)
        context_remove(search.found);
    return e2b_context_make(session, e2b_text(request, "language", NULL),
                            e2b_text(request, "cwd", NULL), ret, err);
}

static void create(struct door_call *call, struct session *session, json_t *request)
{
    struct context *context;
    struct error err = {0};

    if (make(session, request, &context, &err) < 0)
        e2b_unary_error(call, &err);
    else
        front_reply(call->http, 200, e2b_context_json(context));
}

static void destroy(struct door_call *call, struct session *session, json_t *request)
{
    const char *id = e2b_text(request, "contextId", "context_id");
    struct context *context;
    struct error err = {0};

    if (!id || !id[0]) {
        e2b_unary_fail(call->http, "invalid_argument", "contextId is missing");
    } else if (session_find_context(session, id, NULL, &context, &err) < 0) {
        e2b_unary_error(call, &err);
    } else {
        context_remove(context);
        front_reply(call->http, 200, json_pack("{s:b}", "success", 1));
    }
}

void scalebox_context(struct door_call *call)
{
    const char *name = http_param(call->http, "method");
    bool is_create = str_equal(name, "CreateContext");
    struct session *session = e2b_session(call);
    json_t *request;

    if (!session)
        return;
    if (!is_create && !str_equal(name, "DestroyContext")) {
        e2b_unary_fail(call->http, "unimplemented",
                       "sandboxagent.ContextService has no such method here");
        return;
    }
    request = e2b_unary_request(call);
    if (request && is_create)
        create(call, session, request);
    else if (request)
        destroy(call, session, request);
    json_decref(request);
}
