/* built.c - templates as a program without a daemon finds them; see built.h. */
#include "oneshot/built.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config.h"
#include "interpreter/language.h"
#include "template/requirement.h"
#include "template/template.h"

#define RECORD_MAX (4 * MIB)
#define SHIPPED TEMPLATE_DATA /* known before it is built */

static void json_freep(json_t **json)
{
    json_decref(*json);
}

static json_t *read_record(const char *state, const char *name)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(LIMIT_PATH_BYTES), text = BUF_INIT(RECORD_MAX);
    CLEANUP(fd_closep) int fd = -1;

    if (buf_printf(&path, "%s/templates/%s.json", state, name) < 0)
        return NULL;
    fd = open(buf_text(&path), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || buf_read_fd(&text, fd) < 0)
        return NULL;
    return json_loadb(buf_text(&text), text.length, JSON_REJECT_DUPLICATES, NULL);
}

static int not_built(const char *name, const char *why, struct error *err)
{
    return error_set(err, -ENOENT, ERROR_TEMPLATE_NOT_BUILT,
                     "the template '%s' %s: bailey template build %s", name, why, name);
}

/* Was it built for the interpreter that this machine has now? */
static int check_interpreter(json_t *record, const struct config *config, const char *name,
                             struct error *err)
{
    CLEANUP(interpreter_free) struct interpreter python = {0};
    const char *built_for = json_string_value(json_object_get(record, "interpreter"));
    char fingerprint[INTERPRETER_FINGERPRINT];
    int r = interpreter_find(language_find("python"), config, &python, err);

    if (r < 0)
        return r;
    interpreter_fingerprint(&python, config, fingerprint);
    if (built_for && built_for[0] && !str_equal(built_for, fingerprint))
        return not_built(name, "was built for another Python than this machine has now", err);
    return 0;
}

static int take_env(json_t *record, struct built_template *ret)
{
    const char *name;
    json_t *value;

    ret->env = strv_new();
    if (!ret->env)
        return -ENOMEM;
    json_object_foreach(json_object_get(record, "env"), name, value)
    {
        CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_ARGV_BYTES);

        if (!json_is_string(value) ||
            buf_printf(&text, "%s=%s", name, json_string_value(value)) < 0 ||
            strv_push(&ret->env, buf_text(&text)) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int take_layer(json_t *record, const char *state, const char *name,
                      struct built_template *ret, struct error *err)
{
    const char *layer = json_string_value(json_object_get(record, "layer"));
    struct stat status;

    if (!layer || strlen(layer) != 64 || strspn(layer, "0123456789abcdef") != 64)
        return not_built(name, "has a record that cannot be read", err);
    if (asprintf(&ret->layer, "%s/layers/%s", state, layer) < 0) {
        ret->layer = NULL;
        return error_memory(err);
    }
    if (lstat(ret->layer, &status) < 0 || !S_ISDIR(status.st_mode))
        return not_built(name, "lacks its layer", err);
    return 0;
}

static int find(const struct config *config, const char *state, const char *name,
                struct built_template *ret, struct error *err)
{
    CLEANUP(json_freep)
    json_t *record = state && template_name_is_good(name) ? read_record(state, name) : NULL;
    int r;

    if (!record && str_equal(name, SHIPPED))
        return not_built(name, "is not built yet", err);
    if (!record)
        return error_set(err, -ENOENT, ERROR_TEMPLATE_NOT_FOUND,
                         "there is no template '%.64s'; 'bailey template ls' lists them, 'bailey "
                         "template build FOLDER' makes one",
                         name);
    r = take_layer(record, state, name, ret, err);
    if (r == 0)
        r = check_interpreter(record, config, name, err);
    if (r == 0 && take_env(record, ret) < 0)
        r = error_memory(err);
    return r;
}

int built_find(const struct config *config, const char *state, struct built_template *ret,
               struct error *err)
{
    const char *name = config->template_name;
    int r;

    *ret = (struct built_template){0};
    if (!name || str_equal(name, TEMPLATE_PLAIN))
        return 0;
    if (str_equal(name, TEMPLATE_AUTO)) {
        struct error ignored = {0};

        if (find(config, state, TEMPLATE_DATA, ret, &ignored) < 0)
            built_free(ret);
        return ignored.num == -ENOMEM ? error_memory(err) : 0;
    }
    r = find(config, state, name, ret, err);
    if (r < 0)
        built_free(ret);
    return r;
}

void built_free(struct built_template *built)
{
    free(built->layer);
    strv_free(built->env);
    *built = (struct built_template){0};
}

/* The templates folder, one good name after the other; false: no further one. */
static bool next_name(DIR *folder, char name[LIMIT_NAME + 1])
{
    struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        size_t length = strlen(entry->d_name);

        if (!str_ends(entry->d_name, ".json") || length - 5 > LIMIT_NAME)
            continue;
        entry->d_name[length - 5] = '\0';
        str_copy(name, LIMIT_NAME + 1, entry->d_name);
        if (template_name_is_good(name))
            return true;
    }
    return false;
}

static DIR *open_templates(const char *state)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(LIMIT_PATH_BYTES);

    return state && buf_printf(&path, "%s/templates", state) == 0 ? opendir(buf_text(&path)) : NULL;
}

void built_each(const struct config *config, const char *state,
                void (*each)(void *ctx, const char *name, const char *problem), void *ctx)
{
    DIR *folder = open_templates(state);
    char name[LIMIT_NAME + 1];

    while (next_name(folder, name)) {
        CLEANUP(built_free) struct built_template built = {0};
        struct error err = {0};

        find(config, state, name, &built, &err);
        each(ctx, name, err.num < 0 ? err.text : NULL);
    }
    if (folder)
        closedir(folder);
}

bool built_with(const struct config *config, const char *state, const char *package,
                char name[LIMIT_NAME + 1])
{
    DIR *folder = open_templates(state);
    bool is_found = false;

    while (!is_found && next_name(folder, name)) {
        CLEANUP(json_freep) json_t *record = read_record(state, name);
        CLEANUP(built_free) struct built_template built = {0};
        struct error ignored = {0};

        is_found = requirement_is_listed(json_object_get(record, "packages"), package) &&
                   find(config, state, name, &built, &ignored) == 0;
    }
    if (folder)
        closedir(folder);
    return is_found;
}
