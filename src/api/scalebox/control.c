/*
 * control.c - the control plane's bodies and replies in Scalebox's words: tables of names, and an
 * envelope; see scalebox.h. Pure.
 */
#include <errno.h>
#include <string.h>

#include "api/scalebox/scalebox.h"
#include "base/cleanup.h"
#include "base/str.h"

#define ERROR_STATUS 400

/* ---- bodies ---- */

/* What is wanted and cannot be given is an error that says so. */
static int check_wishes(json_t *body, struct error *err)
{
    static const struct {
        const char *name, *why;
    } rows[] = {
        {"cpu_count", "limits of sandboxes are configured on the server"},
        {"memory_mb", "limits of sandboxes are configured on the server"},
        {"storage_gb", "limits of sandboxes are configured on the server"},
        {"object_storage", "this server mounts no object storage in sandboxes"},
        {"object_storage_direct_mount", "this server mounts no object storage in sandboxes"},
        {"s3fs_executable_path", "this server mounts no object storage in sandboxes"},
        {"net_proxy_country", "this server has no network proxies in other countries"},
        {"locality", "this server is one machine: there are no regions to choose from"},
        {"custom_ports", "ports of a sandbox need not be declared here"},
        {"project_id", "this server has no projects"},
        {"name", "sandboxes have no name here: use metadata"},
        {"description", "sandboxes have no description here: use metadata"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (e2b_is_asked(body, rows[i].name))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s: %s", rows[i].name, rows[i].why);
    return 0;
}

json_t *scalebox_body(json_t *body, bool is_create, struct error *err)
{
    static const char *const names[][2] = {
        {"template", "templateID"}, {"env_vars", "envVars"}, {"auto_pause", "autoPause"}};

    if (!is_create)
        return body;
    if (check_wishes(body, err) < 0) {
        json_decref(body);
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        json_t *value = e2b_member(body, names[i][0], NULL);

        if (value)
            json_object_set(body, names[i][1], value);
    }
    if (!e2b_member(body, "templateID", NULL))
        json_object_set_new(body, "templateID", json_string("base"));
    /* Requests to a sandbox name it by its token only. */
    json_object_set_new(body, "secure", json_true());
    return body;
}

/* ---- replies ---- */

void scalebox_domain(const char *host, const char *id, char *text, size_t size)
{
    if (!host || !host[0])
        str_copy(text, size, "localhost");
    else if (id && str_starts(host, "api."))
        str_format(text, size, "%s.%s", id, host + strlen("api."));
    else
        str_format(text, size, "%s", host);
}

/* Seconds between two times of a sandbox, or from one to now. */
static json_t *seconds_between(json_t *from, uint64_t to_ms)
{
    uint64_t from_ms = e2b_time_read(json_string_value(from));

    return json_integer(to_ms > from_ms ? (json_int_t)((to_ms - from_ms + 500) / 1000) : 0);
}

static json_t *sandbox_json(const char *host, uint64_t now_ms, json_t *sandbox)
{
    static const char *const names[][2] = {
        {"sandbox_id", "sandboxID"},
        {"template_id", "templateID"},
        {"name", "alias"},
        {"template_name", "alias"},
        {"started_at", "startedAt"},
        {"created_at", "startedAt"},
        {"updated_at", "startedAt"},
        {"timeout_at", "endAt"},
        {"cpu_count", "cpuCount"},
        {"memory_mb", "memoryMB"},
        {"status", "state"},
        {"metadata", "metadata"},
        {"envd_version", "envdVersion"},
        {"envd_access_token", "envdAccessToken"},
    };
    json_t *json = json_object(), *value, *end = json_object_get(sandbox, "endAt");
    const char *id = json_string_value(json_object_get(sandbox, "sandboxID"));
    char domain[512];

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if ((value = e2b_member(sandbox, names[i][1], NULL)))
            json_object_set(json, names[i][0], value);
    if ((value = json_object_get(sandbox, "diskSizeMB")))
        json_object_set_new(json, "storage_gb",
                            json_integer((json_integer_value(value) + 1023) / 1024));
    if ((value = json_object_get(sandbox, "startedAt"))) {
        json_object_set_new(json, "timeout",
                            seconds_between(value, e2b_time_read(json_string_value(end))));
        json_object_set_new(json, "uptime", seconds_between(value, now_ms));
    }
    scalebox_domain(host, id, domain, sizeof(domain));
    json_object_set_new(json, "sandbox_domain", json_string(domain));
    return json;
}

/* A sample, as one client reads it, and as a list of samples, as the other one does. */
static json_t *metrics_json(json_t *samples)
{
    static const char *const names[][2] = {
        {"timestamp", "timestamp"},  {"cpu_count", "cpuCount"}, {"cpu_used_pct", "cpuUsedPct"},
        {"mem_used", "memUsed"},     {"mem_total", "memTotal"}, {"disk_used", "diskUsed"},
        {"disk_total", "diskTotal"},
    };
    json_t *list = json_array(), *all = json_object(), *sample;
    size_t k;

    json_array_foreach(samples, k, sample)
    {
        json_t *one = json_object();

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
            json_object_set(one, names[i][0], json_object_get(sample, names[i][1]));
        json_object_update(all, one);
        json_array_append_new(list, one);
    }
    json_object_set_new(all, "metrics", list);
    return all;
}

static json_t *sandboxes_json(const char *host, uint64_t now_ms, json_t *sandboxes)
{
    json_t *list = json_array(), *sandbox;
    size_t i;

    json_array_foreach(sandboxes, i, sandbox)
    {
        json_array_append_new(list, sandbox_json(host, now_ms, sandbox));
    }
    return json_pack("{s:o, s:i}", "sandboxes", list, "total", (int)json_array_size(sandboxes));
}

void scalebox_error_words(const char *path, json_t *error)
{
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *text = json_string_value(json_object_get(error, "message"));
    bool is_file = str_starts(path, "/sandboxagent.Filesystem/");

    if (str_equal(code, "not_found") && text)
        json_object_set_new(
            error, "message",
            json_sprintf("not found: %s%s", is_file ? "no such file or directory: " : "", text));
}

json_t *scalebox_reply_json(unsigned status, const char *domain, uint64_t now_ms, json_t *reply)
{
    json_t *first = json_array_get(reply, 0), *data;

    if (status >= ERROR_STATUS) {
        json_t *text = json_object_get(reply, "message"); /* each package has another name for it */

        data = json_pack("{s:b, s:O?, s:O?, s:O?}", "success", 0, "code",
                         json_object_get(reply, "code"), "message", text, "error", text);
        json_decref(reply);
        return data;
    }
    if (json_is_object(reply))
        data = sandbox_json(domain, now_ms, reply);
    else if (first && json_object_get(first, "cpuUsedPct"))
        data = metrics_json(reply);
    else
        data = sandboxes_json(domain, now_ms, reply);
    json_decref(reply);
    return json_pack("{s:b, s:o}", "success", 1, "data", data);
}
