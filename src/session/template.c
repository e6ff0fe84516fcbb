/*
 * template.c - templates by name: loaded at start, found, described, their tiers chosen; see
 * session_manager.h and template.h. The files are the broker's own, but are validated like input.
 */
#include "session/template.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "session/import_scan.h"
#include "session/layers.h"
#include "session/missing.h"
#include "template/requirement.h"
#include "template/template.h"

#define SUFFIX ".json"

/* Known without a file: TEMPLATE_PLAIN needs no building, the other ships with Bailey. */
static const struct shipped {
    const char *name, *description;
} shipped_table[] = {
    {TEMPLATE_PLAIN, "this machine's own Python"},
    {TEMPLATE_DATA, "Polars, NumPy, Matplotlib, seaborn and scikit-learn"},
};

/* ---- one ---- */

static void template_free(struct template *template)
{
    if (!template)
        return;
    json_decref(template->record);
    strv_free(template->env);
    strv_free(template->tier_names);
    for (unsigned i = 0; template->tiers && i < template->tier_count; i++)
        strv_free(template->tiers[i]);
    free(template->tiers);
    free(template);
}

static void template_freep(struct template **template)
{
    template_free(*template);
}

static char **words_of(json_t *list)
{
    char **words = strv_new();
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        if (words && json_is_string(item) && strv_push(&words, json_string_value(item)) < 0) {
            strv_free(words);
            return NULL;
        }
    }
    return words;
}

static int take_tiers(struct template *template)
{
    json_t *tiers = json_object_get(template->record, "tiers"), *tier;
    size_t i;

    template->tiers = calloc(LIMIT_TIERS, sizeof(*template->tiers));
    template->tier_names = strv_new();
    if (!template->tiers || !template->tier_names)
        return -ENOMEM;
    json_array_foreach(tiers, i, tier)
    {
        const char *name = json_string_value(json_object_get(tier, "name"));

        if (i == LIMIT_TIERS || !name)
            return -EINVAL;
        template->tiers[i] = words_of(json_object_get(tier, "modules"));
        if (!template->tiers[i] || strv_push(&template->tier_names, name) < 0)
            return -ENOMEM;
        template->tier_count++;
    }
    return 0;
}

static int take_env(struct template *template)
{
    const char *name;
    json_t *value;

    template->env = strv_new();
    if (!template->env)
        return -ENOMEM;
    json_object_foreach(json_object_get(template->record, "env"), name, value)
    {
        CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_ARGV_BYTES);

        if (!json_is_string(value) ||
            buf_printf(&text, "%s=%s", name, json_string_value(value)) < 0 ||
            strv_push(&template->env, buf_text(&text)) < 0)
            return -EINVAL;
    }
    return 0;
}

/* Takes over `record`; NULL: the record is invalid, or no memory. */
static struct template *template_new(json_t *record)
{
    CLEANUP(template_freep) struct template *template = calloc(1, sizeof(*template));
    const char *name = json_string_value(json_object_get(record, "name"));
    const char *layer = json_string_value(json_object_get(record, "layer"));

    if (!template) {
        json_decref(record);
        return NULL;
    }
    template->record = record;
    if (!name || !template_name_is_good(name) || !layer || !layer_name_is_good(layer) ||
        take_tiers(template) < 0 || take_env(template) < 0)
        return NULL;
    str_copy(template->name, sizeof(template->name), name);
    str_copy(template->layer, sizeof(template->layer), layer);
    return ptr_take(&template);
}

/* ---- all ---- */

struct template *template_find(struct session_manager *manager, const char *name)
{
    struct template *template = manager->templates;

    while (template && !str_equal(template->name, name))
        template = template->next;
    return template;
}

bool templates_name(const struct session_manager *manager, const char *layer)
{
    for (const struct template *at = manager->templates; at; at = at->next) {
        if (str_equal(at->layer, layer))
            return true;
    }
    return false;
}

void template_forget(struct session_manager *manager, const char *name)
{
    for (struct template **at = &manager->templates; *at; at = &(*at)->next) {
        if (str_equal((*at)->name, name)) {
            struct template *template = *at;

            *at = template->next;
            template_free(template);
            return;
        }
    }
}

int template_keep(struct session_manager *manager, json_t *record, struct error *err)
{
    struct template *template = template_new(record), **at = &manager->templates;

    if (!template)
        return error_memory(err);
    template_forget(manager, template->name);
    while (*at && strcmp((*at)->name, template->name) < 0)
        at = &(*at)->next;
    template->next = *at;
    *at = template;
    return 0;
}

void templates_load(struct session_manager *manager)
{
    int folder_fd = manager->spec.folders.templates_fd;
    int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    unsigned count = 0;

    if (fd >= 0 && !folder)
        close(fd);
    while (folder && count < LIMIT_TEMPLATES && (entry = readdir(folder))) {
        json_t *record;

        if (entry->d_name[0] == '.' || !str_ends(entry->d_name, SUFFIX))
            continue;
        record = note_read(folder_fd, entry->d_name);
        if (!record || template_keep(manager, record, NULL) < 0)
            log_warning("templates/%.80s cannot be read, continuing without it", entry->d_name);
        else
            count++;
    }
    if (folder)
        closedir(folder);
}

void templates_free(struct session_manager *manager)
{
    while (manager->templates)
        template_forget(manager, manager->templates->name);
}

/* ---- described ---- */

bool template_is_stale(const struct session_manager *manager, const struct template *template)
{
    const struct session_language *python = session_manager_language(manager, "python");
    const char *interpreter = json_string_value(json_object_get(template->record, "interpreter"));

    return !python || !python->program ||
           (python->fingerprint && interpreter && !str_equal(python->fingerprint, interpreter));
}

unsigned template_users(const struct session_manager *manager, const struct template *template)
{
    unsigned count = 0;

    for (const struct session *session = manager->sessions; session; session = session->next) {
        bool will_have = !session->has_box && str_equal(session->template_name, template->name);

        count += session->state != SESSION_ENDED &&
                 (will_have || str_equal(session->layer, template->layer));
    }
    return count;
}

static json_t *describe(struct session_manager *manager, const struct template *template)
{
    json_t *json = json_copy(template->record);
    bool is_there = layer_is_there(manager, template->layer);

    json_object_del(json, "interpreter");
    json_object_set_new(json, "state",
                        json_string(!is_there                              ? "not_built"
                                    : template_is_stale(manager, template) ? "stale"
                                                                           : "built"));
    json_object_set_new(json, "used_by",
                        json_integer((json_int_t)template_users(manager, template)));
    return json;
}

/* A template that ships but is not built, or that needs no building. */
static json_t *describe_shipped(struct session_manager *manager, const struct shipped *row)
{
    const struct session_language *python = session_manager_language(manager, "python");
    bool is_plain = str_equal(row->name, TEMPLATE_PLAIN);
    bool is_there = is_plain && python && python->program;

    return json_pack("{s:s, s:s, s:s, s:n, s:s?, s:[], s:i, s:i, s:[], s:{}, s:n, s:i}", "name",
                     row->name, "description", row->description, "state",
                     is_there ? "built" : "not_built", "layer", "python",
                     is_there ? python->program : NULL, "packages", "bytes", 0, "files", 0, "tiers",
                     "env", "built_at", "used_by", 0);
}

static const struct shipped *shipped_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(shipped_table); i++) {
        if (str_equal(shipped_table[i].name, name))
            return &shipped_table[i];
    }
    return NULL;
}

json_t *template_list_json(struct session_manager *manager)
{
    json_t *list = json_array();

    for (size_t i = 0; i < ARRAY_SIZE(shipped_table); i++) {
        if (!template_find(manager, shipped_table[i].name))
            json_array_append_new(list, describe_shipped(manager, &shipped_table[i]));
    }
    for (struct template *at = manager->templates; at; at = at->next)
        json_array_append_new(list, describe(manager, at));
    return list;
}

int template_unknown(struct session_manager *manager, const char *name, struct error *err)
{
    const char *names[LIMIT_TEMPLATES + ARRAY_SIZE(shipped_table) + 1] = {0};
    const char *nearest;
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_SIZE(shipped_table); i++)
        names[count++] = shipped_table[i].name;
    for (struct template *at = manager->templates; at && count < ARRAY_SIZE(names) - 1;
         at = at->next)
        names[count++] = at->name;
    nearest = str_nearest(name, names);
    return error_set(err, -ENOENT, ERROR_TEMPLATE_NOT_FOUND,
                     "there is no template '%.64s'%s%s%s; 'bailey template ls' lists them", name,
                     nearest ? " (did you mean '" : "", nearest ? nearest : "",
                     nearest ? "'?)" : "");
}

int template_json(struct session_manager *manager, const char *name, json_t **ret,
                  struct error *err)
{
    struct template *template = template_find(manager, name);
    const struct shipped *shipped = shipped_find(name);

    if (!template && !shipped)
        return template_unknown(manager, name, err);
    *ret = template ? describe(manager, template) : describe_shipped(manager, shipped);
    return *ret ? 0 : error_memory(err);
}

/* ---- templates of boxes ---- */

/*
 * A provider without layers gives its own Python: only the configured template's name is accepted,
 * if its boxes have files of their own, which can be made with that template.
 */
static int without_layers(const struct config *config, const char *name,
                          struct session_template *ret, struct error *err)
{
    static const char *const nothing[] = {NULL};
    const struct provider_row *row = config_provider(config);

    if (!provider_can(row, PROVIDER_OWN_FILESYSTEM) || !str_equal(name, config->template_name))
        return row->no_template(name, err);
    *ret = (struct session_template){
        .name = TEMPLATE_PLAIN, .env = nothing, .tier_names = nothing, .tier_count = 1};
    return 0;
}

/* The template that "auto" stands for now. */
static const char *choose(struct session_manager *manager, const struct config *config)
{
    struct template *template = template_find(manager, TEMPLATE_DATA);

    return config_can(config, PROVIDER_CAN_LAYERS) && template &&
                   !session_manager_other_python(manager, config) &&
                   layer_is_there(manager, template->layer) && !template_is_stale(manager, template)
               ? TEMPLATE_DATA
               : TEMPLATE_PLAIN;
}

int session_manager_template(struct session_manager *manager, const char *name,
                             struct session_template *ret, struct error *err)
{
    return session_manager_template_of(manager, manager->spec.config, name, ret, err);
}

int session_manager_template_of(struct session_manager *manager, const struct config *config,
                                const char *name, struct session_template *ret, struct error *err)
{
    static const char *const nothing[] = {NULL};
    struct template *template;

    if (!name)
        name = config->template_name;
    if (str_equal(name, TEMPLATE_AUTO))
        name = choose(manager, config);
    if (!name || str_equal(name, TEMPLATE_PLAIN)) {
        *ret = (struct session_template){
            .name = TEMPLATE_PLAIN, .env = nothing, .tier_names = nothing, .tier_count = 1};
        return 0;
    }
    if (!config_can(config, PROVIDER_CAN_LAYERS))
        return without_layers(config, name, ret, err);
    template = template_find(manager, name);
    if (!template && !shipped_find(name))
        return template_unknown(manager, name, err);
    if (!template || !layer_is_there(manager, template->layer))
        return error_set(err, -ENOENT, ERROR_TEMPLATE_NOT_BUILT,
                         "the template '%s' is not built yet: bailey template build %s", name,
                         name);
    if (template_is_stale(manager, template))
        return error_set(err, -ESTALE, ERROR_TEMPLATE_NOT_BUILT,
                         "the template '%s' was built for another Python than this machine has "
                         "now: bailey template build %s",
                         name, name);
    if (session_manager_own_python(manager, config, "templates are built", err) < 0)
        return err->num;
    *ret = (struct session_template){
        .name = template->name,
        .layer = template->layer,
        .env = (const char *const *)template->env,
        .tier_names = (const char *const *)template->tier_names,
        .tier_count = template->tier_count + 1,
    };
    return 0;
}

bool template_has_package(json_t *template, const char *package)
{
    return requirement_is_listed(json_object_get(template, "packages"), package);
}

/* A template that can be used and has the package; NULL: none. */
static const char *template_with(struct session_manager *manager, const char *package)
{
    for (const struct template *at = manager->templates; at; at = at->next) {
        if (requirement_is_listed(json_object_get(at->record, "packages"), package) &&
            layer_is_there(manager, at->layer) && !template_is_stale(manager, at))
            return at->name;
    }
    return NULL;
}

bool session_manager_missing_hint(struct session_manager *manager, const struct config *config,
                                  const char *module, bool is_kept, struct buf *text)
{
    struct missing_hint hint = {
        .module = module, .config = config, .place = is_kept ? MISSING_IN_SESSION : MISSING_IN_RUN};
    char package[LIMIT_REQUIREMENT + 1];
    struct error ignored = {0};

    if (config_can(config, PROVIDER_CAN_LAYERS) &&
        missing_package(module, NULL, NULL, package, &ignored) == 0)
        hint.template = template_with(manager, package);
    return missing_hint(&hint, text);
}

void template_tell_default(struct session_manager *manager)
{
    struct session_template found_template = {0};
    struct error err = {0};
    int r = session_manager_template(manager, NULL, &found_template, &err);

    if (manager->provider->ops->set_default)
        manager->provider->ops->set_default(manager->provider, r < 0 ? NULL : found_template.layer);
}

unsigned session_manager_tier(struct session_manager *manager,
                              const struct session_template *found_template, const char *code,
                              size_t length)
{
    struct template *template = template_find(manager, found_template->name);

    if (!found_template->layer || !template)
        return 0;
    return import_scan_tier(code, length, (const char *const *const *)template->tiers,
                            template->tier_count + 1);
}
