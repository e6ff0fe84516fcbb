/* config.c - defaults, file, environment and flags, one laid over the other; see config.h. */
#include "config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/internal.h"
#include "model/result.h"

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

/* What to call a key in an error about several: the flag that set it, else its name. */
static const char *label(const struct config *config, enum config_key key)
{
    const struct config_value *value = &config->values[key];

    bool is_flag = value->source == FROM_FLAG, is_other = value->source == FROM_ENVIRONMENT;

    return (is_flag || is_other) && value->where ? value->where : config_table[key].env;
}

/* The disk is part of the memory: who sets only the memory gets half of it as disk, as by default.
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

bool config_is_docker(const struct config *config)
{
    return str_equal(config->type, "docker");
}

static int copy_value(struct config *config, enum config_key from, enum config_key to,
                      struct error *err)
{
    const struct config_value *winner = &config->values[from];
    CLEANUP(freep) char *text = strdup(winner->text);
    CLEANUP(freep) char *where = winner->where ? strdup(winner->where) : NULL;

    if (!text || (winner->where && !where))
        return error_set(err, -ENOMEM, ERROR_ENGINE, "reading the configuration: out of memory");
    return value_apply(config, to, text, winner->source, where, err);
}

/* Both keys become the one that wins: see config.h. */
static int settle(struct config *config, enum config_key docker, enum config_key general,
                  struct error *err)
{
    const struct config_value *values = config->values;
    bool is_general =
        values[general].source == FROM_FLAG ||
        (values[docker].source == FROM_DEFAULT && values[general].source != FROM_DEFAULT);

    return is_general ? copy_value(config, general, docker, err)
                      : copy_value(config, docker, general, err);
}

static int bad_docker(const struct config *config, enum config_key key, struct error *err)
{
    const struct config_value *value = &config->values[key];
    char quoted[VALUE_QUOTE_SIZE];

    return error_set(err, -EINVAL, ERROR_BAD_CONFIG, "%s: '%s' cannot be used (allowed: %s)",
                     value->where ? value->where : config_table[key].env,
                     value_quote(quoted, value->text), config_table[key].allowed);
}

/* Who asks for TLS does not get plain HTTP. Docker's own client has a folder of its user's for it,
 * and a daemon has no user. */
static int check_tls(const struct config *config, struct error *err)
{
    const char *host = config->docker.host, *cert = config->docker.cert_path;
    bool has_files = (cert && cert[0]) || str_starts(host, "https://");

    if (!config->docker.verifies_tls || str_starts(host, "unix://"))
        return 0;
    if (str_starts(host, "http://"))
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "DOCKER_TLS_VERIFY is set and DOCKER_HOST is without TLS: write tcp:// "
                         "for http://, or unset DOCKER_TLS_VERIFY");
    if (!has_files)
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "DOCKER_TLS_VERIFY is set and DOCKER_CERT_PATH is not: set it to the "
                         "folder with ca.pem, cert.pem and key.pem");
    return 0;
}

static int check_docker(struct config *config, struct error *err)
{
    static const char *const schemes[] = {"tcp://", "http://", "https://"};
    const char *host = config->docker.host, *cert = config->docker.cert_path;
    bool is_known = str_starts(host, "unix:///") && host[8];
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
        is_known = is_known || (str_starts(host, schemes[i]) && host[strlen(schemes[i])]);
    for (const char *c = host; *c; c++)
        is_known = is_known && (unsigned char)*c > ' ' && *c != 0x7f;
    if (!is_known)
        return bad_docker(config, KEY_DOCKER_HOST, err);
    if (cert && cert[0] != '/') /* the daemon is in no particular folder */
        return bad_docker(config, KEY_DOCKER_CERT_PATH, err);
    r = check_tls(config, err);
    if (r < 0)
        return r;
    r = settle(config, KEY_DOCKER_MEMORY, KEY_MEMORY, err);
    return r < 0 ? r : settle(config, KEY_DOCKER_CPU, KEY_CPUS, err);
}

int config_check(struct config *config, struct error *err)
{
    const struct config_value *values = config->values;
    char disk[32], memory[32];
    int r = config_is_docker(config) ? check_docker(config, err) : 0;

    if (r == 0 && values[KEY_DISK].source == FROM_DEFAULT &&
        (values[KEY_MEMORY].source != FROM_DEFAULT || config_is_docker(config)))
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

void config_free(struct config *config)
{
    for (int key = 0; key < _KEY_MAX; key++) {
        free(config->values[key].text);
        free(config->values[key].where);
    }
    free(config->file);
    strv_free(config->blocked_imports);
    strv_free(config->languages);
    strv_free(config->dataset_folders);
    strv_free(config->index_hosts);
    strv_free(config->install_allow);
    strv_free(config->install_deny);
    strv_free(config->listen);
    strv_free(config->hosts);
    strv_free(config->cors_origins);
    memset(config, 0, sizeof(*config));
}

const char *config_source_name(enum config_source source)
{
    static const char *const names[] = {[FROM_DEFAULT] = "default",
                                        [FROM_FILE] = "file",
                                        [FROM_ENVIRONMENT] = "environment",
                                        [FROM_FLAG] = "flag"};

    return names[source];
}
