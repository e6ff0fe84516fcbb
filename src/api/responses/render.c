/* render.c - responses and items as a client sees them; see responses.h. */
#include <string.h>

#include "api/link.h"
#include "api/responses/responses.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "session/artifacts.h"

/* Where this client reaches the server: for links. Over the unix socket they have no host. */
void render_base(const struct door_call *call, char *ret, size_t size)
{
    const char *host = http_header(call->http, "Host");
    const char *proto = http_header(call->http, "X-Forwarded-Proto");
    const struct config *config = session_manager_config(call->front->manager);
    bool has_tls = config->tls_certificate || str_equal(proto, "https");

    ret[0] = '\0';
    if (host && !http_is_local(call->http) && strlen(host) < 256 && !strpbrk(host, "/\"<> \\"))
        str_format(ret, size, "%s://%s", has_tls ? "https" : "http", host);
}

static json_t *link_to(struct front *front, const char *id, const char *base)
{
    uint64_t expires_s = (clock_wall_ms() + session_manager_config(front->manager)->link_ms) / 1000;
    uint8_t secret[SHA256_BYTES];
    char path[LINK_MAX];
    struct error ignored;

    if (artifacts_secret(front->manager, secret, &ignored) < 0)
        return NULL;
    link_make(secret, id, expires_s, path);
    explicit_bzero(secret, sizeof(secret));
    return json_sprintf("%s%s", base, path);
}

/* Entries are kept as {"type":"logs","logs"} and {"type":"image","_id"}. */
static json_t *render_output(struct front *front, json_t *entry, bool is_nested, const char *base)
{
    const char *id = json_string_value(json_object_get(entry, "_id"));
    json_t *url;

    if (!id)
        return json_incref(entry);
    url = link_to(front, id, base);
    return is_nested ? json_pack("{s:s, s:{s:s, s:o}}", "type", "image", "image", "file_id", id,
                                 "url", url)
                     : json_pack("{s:s, s:o}", "type", "image", "url", url);
}

static json_t *render_outputs(struct front *front, json_t *outputs, bool is_nested,
                              const char *base)
{
    json_t *list = json_array(), *entry;
    size_t i;

    json_array_foreach(outputs, i, entry)
        json_array_append_new(list, render_output(front, entry, is_nested, base));
    return list;
}

static json_t *render_code_call(struct front *front, json_t *item, bool has_outputs,
                                const char *base)
{
    bool is_nested = session_manager_config(front->manager)->code_interpreter.is_nested;
    json_t *outputs = has_outputs
                          ? render_outputs(front, json_object_get(item, "outputs"), is_nested, base)
                          : json_null();

    return is_nested ? json_pack("{s:s, s:O, s:O, s:{s:O, s:o}}", "type", "code_interpreter_call",
                                 "id", json_object_get(item, "id"), "status",
                                 json_object_get(item, "status"), "code_interpreter", "code",
                                 json_object_get(item, "code"), "outputs", outputs)
                     : json_pack("{s:O, s:s, s:O, s:O, s:o, s:O}", "id",
                                 json_object_get(item, "id"), "type", "code_interpreter_call",
                                 "status", json_object_get(item, "status"), "code",
                                 json_object_get(item, "code"), "outputs", outputs, "container_id",
                                 json_object_get(item, "container_id"));
}

/* Without our own members: of the item, and of the parts of its content. */
static json_t *strip(json_t *item)
{
    json_t *copy = json_deep_copy(item), *part;
    size_t i;

    json_object_del(copy, "_told");
    json_array_foreach(json_object_get(copy, "content"), i, part)
    {
        json_object_del(part, "_note");
        json_object_del(part, "_data");
    }
    return copy;
}

json_t *render_item(struct front *front, json_t *item, bool has_outputs, const char *base)
{
    if (json_object_get(item, "outputs") &&
        str_equal(json_string_value(json_object_get(item, "type")), "code_interpreter_call"))
        return render_code_call(front, item, has_outputs, base);
    return strip(item);
}

json_t *render_response(struct front *front, json_t *object, bool has_outputs, const char *base)
{
    json_t *copy = json_copy(object), *list = json_array(), *item;
    size_t i;

    json_array_foreach(json_object_get(object, "output"), i, item)
        json_array_append_new(list, render_item(front, item, has_outputs, base));
    if (!copy || json_object_set_new(copy, "output", list) < 0) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}
