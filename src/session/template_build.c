/*
 * template_build.c - builds and removes a template; see template.h.
 *
 * Building installs its packages into a layer, writes the tiers beside it for the launcher, then
 * writes the record that names the layer; each file is written atomically, and the template exists
 * once the last one is written.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "model/text.h"
#include "session/installer.h"
#include "session/layers.h"
#include "session/template.h"
#include "template/template.h"

struct template_build {
    struct session_manager *manager;
    json_t *body;
    const struct template_build_events *events;
    void *ctx;
    struct installation *installation;
};

static void build_free(struct template_build *build)
{
    json_decref(build->body);
    free(build);
}

static void build_freep(struct template_build **build)
{
    if (*build)
        build_free(*build);
}

/* ---- the files of a template ---- */

/* One line per tier: its name, then all its modules, those of lower tiers first. */
static int write_tiers(struct session_manager *manager, const char *layer, json_t *tiers,
                       struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB), modules = BUF_INIT(MIB);
    char name[LAYER_TEXT + 8];
    json_t *tier, *module;
    size_t i, k;
    int r = 0;

    json_array_foreach(tiers, i, tier)
    {
        json_array_foreach(json_object_get(tier, "modules"), k, module)
        {
            if (r == 0)
                r = buf_printf(&modules, " %s", json_string_value(module));
        }
        if (r == 0)
            r = buf_printf(&text, "%s%s\n", json_string_value(json_object_get(tier, "name")),
                           buf_text(&modules));
    }
    if (r < 0)
        return error_set(err, r, ERROR_TOO_LARGE, "the template's tiers are too long");
    layer_describe(layer, "tiers", name);
    return note_write_text(manager->spec.folders.layers_fd, name, buf_text(&text), text.length,
                           err);
}

/* The template's description stored in the layer: two templates that differ never share a layer. */
static json_t *identity(json_t *body)
{
    static const char *const names[] = {"name", "tiers", "env"};
    json_t *json = json_object();

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (json_object_get(body, names[i]))
            json_object_set(json, names[i], json_object_get(body, names[i]));
    }
    return json;
}

/* The current time, or the earlier time if the same layer was there already. */
static json_t *time_built(const struct template_build *build, const struct install_end *end)
{
    struct template *before =
        template_find(build->manager, json_string_value(json_object_get(build->body, "name")));

    if (end->was_there && before && str_equal(before->layer, end->layer))
        return json_incref(json_object_get(before->record, "built_at"));
    return time_json(session_manager_now_ms());
}

static json_t *record_of(const struct template_build *build, const struct install_end *end)
{
    const char *interpreter = session_manager_language(build->manager, "python")->fingerprint;
    json_t *body = build->body;
    json_t *tiers = json_object_get(body, "tiers"), *env = json_object_get(body, "env");
    json_t *record = json_pack("{s:O, s:s, s:s, s:s, s:s, s:O, s:I, s:I, s:o}", "name",
                               json_object_get(body, "name"), "description",
                               json_object_get(body, "description")
                                   ? json_string_value(json_object_get(body, "description"))
                                   : "",
                               "layer", end->layer, "python", end->python, "interpreter",
                               interpreter ? interpreter : "", "packages", end->packages, "bytes",
                               (json_int_t)end->bytes, "files", (json_int_t)end->files, "built_at",
                               time_built(build, end));

    if (record) {
        json_object_set_new(record, "tiers", tiers ? json_incref(tiers) : json_array());
        json_object_set_new(record, "env", env ? json_incref(env) : json_object());
    }
    return record;
}

static int keep(struct template_build *build, const struct install_end *end, struct error *err)
{
    struct session_manager *manager = build->manager;
    CLEANUP(json_decrefpp) json_t *record = record_of(build, end);
    char name[LIMIT_NAME + 8];
    int r;

    if (!record)
        return error_memory(err);
    str_format(name, sizeof(name), "%s.json",
               json_string_value(json_object_get(build->body, "name")));
    r = write_tiers(manager, end->layer, json_object_get(record, "tiers"), err);
    if (r == 0)
        r = note_write(manager->spec.folders.templates_fd, name, record, err);
    if (r == 0)
        r = template_keep(manager, json_incref(record), err);
    if (r == 0)
        template_tell_default(manager);
    return r;
}

/* ---- building ---- */

static void on_progress(void *ctx, const char *line)
{
    struct template_build *build = ctx;

    if (build->events->progress)
        build->events->progress(build->ctx, line);
}

static void on_installed(void *ctx, const struct install_end *end, const struct error *err)
{
    CLEANUP(build_freep) struct template_build *build = ctx;
    const char *name = json_string_value(json_object_get(build->body, "name"));
    CLEANUP(json_decrefpp) json_t *json = NULL;
    struct error failure = *err;

    if (failure.num == 0)
        keep(build, end, &failure);
    if (failure.num == 0)
        template_json(build->manager, name, &json, &failure);
    if (failure.num < 0) {
        build->events->done(build->ctx, NULL, &failure);
        return;
    }
    json_object_set_new(json, "was_there", json_boolean(end->was_there));
    build->events->done(build->ctx, json, &failure);
}

/* The body's files below files/, and the layer's description. New reference. */
static json_t *files_of(json_t *body)
{
    json_t *files = json_object(), *value;
    CLEANUP(json_decrefpp) json_t *own = identity(body);
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);
    const char *path;

    json_object_foreach(json_object_get(body, "files"), path, value)
    {
        CLEANUP(buf_free) struct buf name = BUF_INIT(LIMIT_PATH_BYTES);

        if (buf_printf(&name, "files/%s", path) == 0)
            json_object_set(files, buf_text(&name), value);
    }
    if (text_of_json(own, JSON_COMPACT | JSON_SORT_KEYS, &text) < 0 ||
        json_object_set_new(files, "template.json", json_pack("{s:s}", "text", buf_text(&text))) <
            0) {
        json_decref(files);
        return NULL;
    }
    return files;
}

/* The requirements in pip's format: the lock file, or one package per line. */
static int requirements_of(json_t *body, struct buf *text)
{
    const char *lock = json_string_value(json_object_get(body, "lock"));
    json_t *package;
    size_t i;
    int r = lock ? buf_append_text(text, lock) : 0;

    json_array_foreach(json_object_get(body, "packages"), i, package)
    {
        if (r == 0)
            r = buf_printf(text, "%s\n", json_string_value(package));
    }
    return r;
}

static int modules_of(json_t *body, const char **modules, size_t count)
{
    json_t *module;
    size_t i;

    json_array_foreach(json_object_get(body, "warm_up"), i, module)
    {
        if (i == count - 1)
            return -E2BIG;
        modules[i] = json_string_value(module);
    }
    return 0;
}

static int check_count(struct session_manager *manager, json_t *body, struct error *err)
{
    unsigned count = 0;

    for (struct template *at = manager->templates; at; at = at->next)
        count++;
    if (count < LIMIT_TEMPLATES ||
        template_find(manager, json_string_value(json_object_get(body, "name"))))
        return 0;
    return error_set(err, -E2BIG, ERROR_TOO_LARGE,
                     "there are %u templates already; remove one first", count);
}

int template_build(struct session_manager *manager, json_t *body,
                   const struct template_build_events *events, void *ctx,
                   struct template_build **ret, struct error *err)
{
    static const struct install_events install_events = {.progress = on_progress,
                                                         .done = on_installed};
    CLEANUP(build_freep) struct template_build *build = NULL;
    CLEANUP(buf_free) struct buf requirements = BUF_INIT(LIMIT_CONFIG_BYTES * 2);
    CLEANUP(json_decrefpp) json_t *files = NULL;
    const char *modules[LIMIT_TEMPLATE_ROWS + 1] = {0};
    struct install_spec spec = {.is_template = true, .modules = modules};
    int r = template_check(body, err);

    if (r == 0)
        r = check_count(manager, body, err);
    if (r < 0)
        return r;
    files = files_of(body);
    build = calloc(1, sizeof(*build));
    if (!build || !files || requirements_of(body, &requirements) < 0 ||
        modules_of(body, modules, ARRAY_SIZE(modules)) < 0)
        return error_memory(err);
    spec.files = files;
    spec.requirements = buf_text(&requirements);
    spec.has_hashes = json_object_get(body, "lock") != NULL;
    spec.python = json_string_value(json_object_get(body, "python"));
    *build = (struct template_build){
        .manager = manager, .body = json_incref(body), .events = events, .ctx = ctx};
    r = installer_start(manager, &spec, &install_events, build, &build->installation, err);
    if (r < 0)
        return r;
    *ret = ptr_take(&build);
    return 0;
}

void template_build_cancel(struct template_build *build)
{
    installer_cancel(build->installation);
    build_free(build);
}

/* ---- removing ---- */

int template_remove(struct session_manager *manager, const char *name, struct error *err)
{
    struct template *template = template_find(manager, name);
    char file[LIMIT_NAME + 8];
    unsigned users;

    if (!template) {
        CLEANUP(json_decrefpp) json_t *known = NULL;
        int r = template_json(manager, name, &known, err);

        return r < 0
                   ? r
                   : error_set(err, -ENOENT, ERROR_TEMPLATE_NOT_BUILT,
                               "the template '%s' is not built: there is nothing to remove", name);
    }
    users = template_users(manager, template);
    if (users > 0)
        return error_set(err, -EBUSY, ERROR_TEMPLATE_IN_USE,
                         "%u session%s the template '%s'; end %s first ('bailey session ls')",
                         users, users == 1 ? " has" : "s have", name, users == 1 ? "it" : "them");
    str_format(file, sizeof(file), "%s.json", name);
    if (unlinkat(manager->spec.folders.templates_fd, file, 0) < 0 && errno != ENOENT)
        return error_errno(err, "removing the template '%s'", name);
    template_forget(manager, template->name);
    template_tell_default(manager);
    layers_collect(manager);
    return 0;
}
