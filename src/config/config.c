/*
 * config.c - merges defaults, file, environment and flags, each overriding the one before; see
 * config.h.
 */
#include "config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config_private.h"
#include "model/result.h"
#include "runtime/provider.h"

static int load_defaults(struct config *config, struct error *err)
{
    for (int key = 0; key < _KEY_MAX; key++) {
        const char *text = config_table[key].fallback;
        int r = text ? value_apply(config, (enum config_key)key, text, FROM_DEFAULT, NULL, err) : 0;

        if (r < 0)
            return r;
    }
    return 0;
}

static int load_file(struct config *config, const char *file, char *const *env, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_CONFIG_BYTES);
    CLEANUP(fd_closep) int fd = -1;
    int r = find_file(file, env, &config->file, &fd, err);

    if (r < 0 || fd < 0)
        return r;
    r = buf_read_fd(&text, fd);
    if (r == -EFBIG)
        return error_set(err, r, ERROR_BAD_CONFIG, "%s: larger than %llu KB", config->file,
                         LIMIT_CONFIG_BYTES / KIB);
    if (r < 0)
        return error_set(err, r, ERROR_BAD_CONFIG, "%s: reading it: %s", config->file,
                         error_name(-r));
    return tree_apply(config, buf_text(&text), text.length, config->file, err);
}

static int find_environment_key(const char *name, size_t length)
{
    for (int key = 0; key < _KEY_MAX; key++) {
        const char *env = config_table[key].env;

        if (env && strlen(env) == length && memcmp(env, name, length) == 0)
            return key;
    }
    return -ENOENT;
}

/* One pass over the environment; as with getenv(), the first of two equal names counts. */
static int load_environment(struct config *config, char *const *env, struct error *err)
{
    for (; env && *env; env++) {
        const char *equals;
        int key, r;

        if (!str_starts(*env, "SANDBOX_") && !str_starts(*env, "DOCKER_") &&
            !str_starts(*env, "BAILEY_"))
            continue;
        equals = strchr(*env, '=');
        if (!equals || equals[1] == '\0') /* empty counts as unset */
            continue;
        key = find_environment_key(*env, (size_t)(equals - *env));
        if (key < 0 || config->values[key].source == FROM_ENVIRONMENT)
            continue;
        r = value_apply(config, (enum config_key)key, equals + 1, FROM_ENVIRONMENT,
                        config_table[key].env, err);
        if (r < 0)
            return r;
    }
    return 0;
}

int config_load(struct config *config, const char *file, char *const *env, struct error *err)
{
    int r;

    memset(config, 0, sizeof(*config));
    r = load_defaults(config, err);
    if (r == 0)
        r = load_file(config, file, env, err);
    if (r == 0)
        r = load_environment(config, env, err);
    if (r < 0)
        config_free(config);
    return r;
}

int config_load_text(struct config *config, const char *text, size_t length, const char *name,
                     char *const *env, struct error *err)
{
    int r;

    memset(config, 0, sizeof(*config));
    r = load_defaults(config, err);
    if (r == 0)
        r = tree_apply(config, text, length, name, err);
    if (r == 0)
        r = load_environment(config, env, err);
    if (r < 0)
        config_free(config);
    return r;
}

int config_set(struct config *config, enum config_key key, const char *text, const char *flag,
               struct error *err)
{
    return value_apply(config, key, text, FROM_FLAG, flag, err);
}

/* The name of a key in an error about several: the flag that set it, else its name. */
static const char *label(const struct config *config, enum config_key key)
{
    const struct config_value *value = &config->values[key];

    bool is_flag = value->source == FROM_FLAG, is_other = value->source == FROM_ENVIRONMENT;

    return (is_flag || is_other) && value->where ? value->where : config_table[key].env;
}

/*
 * The disk is part of the memory: if only the memory is set, the disk limit is half of it, as by
 * default.
 */
static int follow_memory(struct config *config, struct error *err)
{
    struct config_value *disk = &config->values[KEY_DISK];
    char text[32];
    char *copy;

    str_from_bytes(config->limits.memory_bytes / 2, text, sizeof(text));
    copy = strdup(text);
    if (!copy)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "reading the configuration: out of memory");
    free(disk->text);
    disk->text = copy;
    config->limits.disk_bytes = config->limits.memory_bytes / 2;
    return 0;
}

bool config_stores(const struct config *config, const struct result *result)
{
    bool has_failed = result->exit_code != 0 || result->error.code;

    return config->store_code == STORE_ALWAYS ||
           (config->store_code == STORE_ON_ERROR && has_failed);
}

int config_copy(struct config *config, enum config_key from, enum config_key to, struct error *err)
{
    const struct config_value *winner = &config->values[from];
    CLEANUP(freep) char *text = strdup(winner->text);
    CLEANUP(freep) char *where = winner->where ? strdup(winner->where) : NULL;

    if (!text || (winner->where && !where))
        return error_set(err, -ENOMEM, ERROR_ENGINE, "reading the configuration: out of memory");
    return value_apply(config, to, text, winner->source, where, err);
}

int config_unusable(const struct config *config, enum config_key key, struct error *err)
{
    const struct config_value *value = &config->values[key];
    char quoted[VALUE_QUOTE_SIZE], allowed[CONFIG_ALLOWED_MAX];

    return error_set(err, -EINVAL, ERROR_BAD_CONFIG, "%s: '%s' cannot be used (allowed: %s)",
                     value->where ? value->where : config_table[key].env,
                     value_quote(quoted, value->text), config_allowed(key, allowed));
}

const char *config_allowed(enum config_key key, char text[CONFIG_ALLOWED_MAX])
{
    return key == KEY_SANDBOX_TYPE ? provider_list(false, text) : config_table[key].allowed;
}

/* The row that makes boxes of a type here. */
static const struct provider_row *row_here(const struct config *config, const char *type)
{
    const struct provider_row *row = provider_known(type);
    const struct provider_row *other = config->has_one_box ? provider_stand_in(row) : NULL;

    return other ? other : row;
}

const struct provider_row *config_provider(const struct config *config)
{
    return row_here(config, config->type);
}

const struct provider_row *config_fallback(const struct config *config)
{
    return config->falls_back ? row_here(config, PROVIDER_LOCAL) : NULL;
}

bool config_can(const struct config *config, uint32_t bits)
{
    return provider_can(config_provider(config), bits);
}

const char *config_no_install(const struct config *config)
{
    const struct provider_row *provider = config_provider(config);

    if (provider_can(provider, PROVIDER_CAN_INSTALL))
        return NULL;
    return provider && provider->no_install ? provider->no_install
                                            : "this runtime cannot install packages";
}

/* The row need not be in this build: commands that only show the configuration accept it. */
int config_check_values(struct config *config, struct error *err)
{
    const struct config_value *values = config->values;
    const struct provider_row *row = config_provider(config);
    char disk[32], memory[32];
    int r = row && row->check ? row->check(config, err) : 0;

    if (r == 0 && values[KEY_DISK].source == FROM_DEFAULT &&
        !str_equal(values[KEY_MEMORY].text, config_table[KEY_MEMORY].fallback))
        r = follow_memory(config, err);
    if (r < 0)
        return r;
    if (config->limits.disk_bytes >= config->limits.memory_bytes) {
        str_from_bytes(config->limits.disk_bytes, disk, sizeof(disk));
        str_from_bytes(config->limits.memory_bytes, memory, sizeof(memory));
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "%s: %s is not smaller than the memory limit of %s, and a box's disk is "
                         "part of its memory; lower it, or raise %s",
                         label(config, KEY_DISK), disk, memory, label(config, KEY_MEMORY));
    }
    if (values[KEY_PROVIDER_URL].text && values[KEY_PROVIDER_TEMPLATE].text)
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "%s: sandbox_url and sandbox_template (%s) exclude each other; remove one",
                         values[KEY_PROVIDER_URL].where, values[KEY_PROVIDER_TEMPLATE].where);
    return 0;
}

int config_check(struct config *config, struct error *err)
{
    const struct provider_row *row;
    int r = provider_find(config->type, &row, err);

    return r < 0 ? r : config_check_values(config, err);
}

void config_free(struct config *config)
{
    for (int key = 0; key < _KEY_MAX; key++) {
        free(config->values[key].text);
        free(config->values[key].where);
    }
    free(config->file);
    strv_free(config->blocked_imports);
    strv_free(config->languages);
    strv_free(config->interpreters);
    strv_free(config->dataset_folders);
    strv_free(config->index_hosts);
    strv_free(config->install_allow);
    strv_free(config->install_deny);
    strv_free(config->listen);
    strv_free(config->hosts);
    strv_free(config->cors_origins);
    strv_free(config->e2b_templates);
    memset(config, 0, sizeof(*config));
}

const char *config_place_name(enum config_place place)
{
    static const char *const names[_PLACE_MAX] = {[PLACE_NONE] = "none",
                                                  [PLACE_CALL] = "call",
                                                  [PLACE_SESSION] = "session",
                                                  [PLACE_DAEMON] = "daemon",
                                                  [PLACE_PROGRAM] = "program"};

    return names[place];
}

const char *config_key_name(enum config_key key)
{
    return config_table[key].env ? config_table[key].env : config_table[key].yaml;
}

int config_key_find(const char *name, enum config_key *ret)
{
    for (int key = 0; key < _KEY_MAX; key++) {
        if (str_equal(config_key_name((enum config_key)key), name)) {
            *ret = (enum config_key)key;
            return 0;
        }
    }
    return -ENOENT;
}

int config_clone(const struct config *config, struct config *ret, struct error *err)
{
    int r = 0;

    memset(ret, 0, sizeof(*ret));
    ret->has_one_box = config->has_one_box;
    for (int key = 0; key < _KEY_MAX && r == 0; key++) {
        const struct config_value *value = &config->values[key];

        if (value->text)
            r = value_apply(ret, (enum config_key)key, value->text, value->source, value->where,
                            err);
    }
    if (r == 0 && config->file && !(ret->file = strdup(config->file)))
        r = error_memory(err);
    if (r < 0)
        config_free(ret);
    return r;
}

const char *config_source_name(enum config_source source)
{
    static const char *const names[] = {[FROM_DEFAULT] = "default",
                                        [FROM_FILE] = "file",
                                        [FROM_ENVIRONMENT] = "environment",
                                        [FROM_FLAG] = "flag"};

    return names[source];
}
