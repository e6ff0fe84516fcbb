/* settings.c - a caller's settings on top of a daemon's configuration; see settings.h. */
#include "config/settings.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config_private.h"
#include "model/text.h"
#include "runtime/provider.h"

static void freep_json(json_t **json)
{
    json_decref(*json);
}

const char *settings_get(json_t *settings, enum config_key key)
{
    return json_string_value(json_object_get(settings, config_key_name(key)));
}

json_t *settings_of(const struct config *config)
{
    json_t *settings = json_object();

    for (int key = 0; settings && key < _KEY_MAX; key++) {
        const struct config_value *value = &config->values[key];

        if (value->source == FROM_DEFAULT || !value->text ||
            config_table[key].place == PLACE_PROGRAM)
            continue;
        if (json_object_set_new(settings, config_key_name((enum config_key)key),
                                text_to_json(value->text, strlen(value->text))) < 0) {
            json_decref(settings);
            return NULL;
        }
    }
    return settings;
}

/* Keys of sessions that name a file of the machine where they were set. */
static bool is_path_here(int key)
{
    return key == KEY_PYTHON || key == KEY_NODE;
}

int settings_header(const struct config *config, bool is_elsewhere, struct buf *line,
                    struct error *err)
{
    CLEANUP(freep_json) json_t *settings = settings_of(config);
    CLEANUP(freep) char *text = NULL;

    if (!settings)
        return error_memory(err);
    for (int key = 0; is_elsewhere && key < _KEY_MAX; key++)
        if ((config_table[key].place == PLACE_DAEMON || is_path_here(key)) &&
            config->values[key].source != FROM_FLAG)
            json_object_del(settings, config_key_name((enum config_key)key));
    if (json_object_size(settings) == 0)
        return 0;
    text = json_dumps(settings, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_SORT_KEYS);
    if (!text)
        return error_memory(err);
    if (strlen(text) > SETTINGS_MAX)
        return error_set(err, -EFBIG, ERROR_TOO_LARGE,
                         "the settings of this command have %zu bytes, more than the %d that a "
                         "daemon takes; set fewer or shorter ones",
                         strlen(text), SETTINGS_MAX);
    return buf_printf(line, SETTINGS_HEADER ": %s", text) < 0 ? error_memory(err) : 0;
}

/* ---- one setting ---- */

static int unknown(const char *name, struct error *err)
{
    const char *names[_KEY_MAX + 1] = {0};
    const char *nearest;
    char quoted[VALUE_QUOTE_SIZE];

    for (int key = 0; key < _KEY_MAX; key++)
        names[key] = config_key_name((enum config_key)key);
    nearest = str_nearest(name, names);
    return error_set(err, -EINVAL, ERROR_BAD_INPUT, "there is no setting '%s'%s%s%s",
                     value_quote(quoted, name), nearest ? "; did you mean '" : "",
                     nearest ? nearest : "", nearest ? "'?" : "");
}

/* The key and the text of an entry. */
static int read_entry(const char *name, json_t *value, enum config_key *ret, struct error *err)
{
    const char *text = json_string_value(value);

    if (config_key_find(name, ret) < 0)
        return unknown(name, err);
    if (!text || strlen(text) != json_string_length(value))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s: the value of a setting is a text",
                         name);
    if (config_table[*ret].place == PLACE_PROGRAM)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "%s: each program has its own, and a caller cannot set the daemon's",
                         name);
    return 0;
}

/* Keys of one place; a key of the daemon must not change anything. */
static int set_keys(struct config *config, json_t *settings, bool is_daemon, struct error *err)
{
    const char *name;
    json_t *value;
    int r = 0;

    json_object_foreach(settings, name, value)
    {
        enum config_key key;

        r = read_entry(name, value, &key, err);
        if (r == 0 && (config_table[key].place == PLACE_DAEMON) == is_daemon &&
            key != KEY_STATE_DIR)
            r = config_set(config, key, json_string_value(value), name, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Keys of a runtime that is not used: they have no effect here, whatever they say. */
static bool is_of_other_type(const struct config *config, enum config_key key)
{
    const char *yaml = config_table[key].yaml;
    char section[64];

    str_format(section, sizeof(section), "%.*s", (int)strcspn(yaml, "."), yaml);
    return provider_known(section) && !str_equal(config->type, section);
}

static int differs(enum config_key key, const char *asked, const char *have, struct error *err)
{
    char first[VALUE_QUOTE_SIZE], second[VALUE_QUOTE_SIZE];

    return error_set(err, -EEXIST, ERROR_SETTING_DIFFERS,
                     "%s: you set '%s', and the running daemon has '%s', one value for all its "
                     "sessions; leave yours out, or start the daemon again with it ('bailey daemon "
                     "stop' ends it)",
                     config_key_name(key), value_quote(first, asked),
                     have ? value_quote(second, have) : "nothing set");
}

static int check_daemon_keys(const struct settings_server *server, json_t *settings,
                             const struct config *applied, struct error *err)
{
    CLEANUP(config_free) struct config asked = {0};
    const char *name;
    json_t *value;
    int r = config_clone(server->config, &asked, err);

    if (r == 0)
        r = set_keys(&asked, settings, true, err);
    if (r < 0)
        return r;
    json_object_foreach(settings, name, value)
    {
        const char *text = json_string_value(value), *have;
        enum config_key key;

        r = read_entry(name, value, &key, err);
        if (r < 0)
            return r;
        if (config_table[key].place != PLACE_DAEMON || is_of_other_type(applied, key))
            continue;
        have = key == KEY_STATE_DIR ? server->state : server->config->values[key].text;
        if (key == KEY_STATE_DIR ? server->state && !str_equal(server->state, text)
                                 : !config_is_same(&asked, server->config, key))
            return differs(key, text, have, err);
    }
    return 0;
}

/* ---- only tighter ---- */

static bool has_all(char *const *list, char *const *wanted)
{
    for (size_t i = 0; i < strv_length(wanted); i++) {
        bool is_there = false;

        for (size_t j = 0; j < strv_length(list); j++)
            is_there |= str_equal(list[j], wanted[i]);
        if (!is_there)
            return false;
    }
    return true;
}

/* Whether a value is not weaker than the server's. */
static bool is_tighter(const struct config *asked, const struct config *server, enum config_key key)
{
    const struct limits *a = &asked->limits, *s = &server->limits;

    switch (key) {
    case KEY_TIMEOUT:  /* as the parameter of a call: LIMIT_TIMEOUT_MS is the maximum */
    case KEY_TEMPLATE: /* every caller may use the templates of the server */
    case KEY_PYTHON:   /* who knows the interpreters checks these: session/interpreters.c */
    case KEY_NODE:
        return true;
    case KEY_MAX_OUTPUT:
        return a->output_bytes <= s->output_bytes;
    case KEY_MEMORY:
    case KEY_DOCKER_MEMORY:
        return a->memory_bytes <= s->memory_bytes;
    case KEY_DISK:
        return a->disk_bytes <= s->disk_bytes;
    case KEY_PIDS:
        return a->pids <= s->pids;
    case KEY_CPUS:
    case KEY_DOCKER_CPU:
        return s->cpu_millis == 0 || (a->cpu_millis > 0 && a->cpu_millis <= s->cpu_millis);
    case KEY_ISOLATION:
        return asked->isolation >= server->isolation;
    case KEY_BLOCK_IMPORTS:
        return asked->block_imports || !server->block_imports;
    case KEY_BLOCKED_IMPORTS:
        return has_all(asked->blocked_imports, server->blocked_imports);
    case KEY_AUTO_INSTALL:
        return !asked->auto_install || server->auto_install;
    case KEY_FALLBACK:
        return !asked->falls_back || server->falls_back;
    case KEY_SESSION_IDLE:
        return asked->session_idle_ms <= server->session_idle_ms;
    case KEY_SESSION_AGE:
        return asked->session_age_ms <= server->session_age_ms;
    default:
        return config_is_same(asked, server, key);
    }
}

static int check_tighter(const struct settings_server *server, json_t *settings,
                         const struct config *applied, struct error *err)
{
    const char *name;
    json_t *value;

    json_object_foreach(settings, name, value)
    {
        char asked[VALUE_QUOTE_SIZE], have[VALUE_QUOTE_SIZE];
        enum config_key key;
        int r = read_entry(name, value, &key, err);

        if (r < 0)
            return r;
        if (config_table[key].place == PLACE_DAEMON || is_tighter(applied, server->config, key))
            continue;
        value_quote(have, server->config->values[key].text);
        return error_set(err, -EPERM, ERROR_BAD_INPUT,
                         "%s: '%s' is not allowed: this server's value is '%s', and a caller over "
                         "the network can only set a stricter one",
                         name, value_quote(asked, json_string_value(value)), have);
    }
    return 0;
}

/* ---- not more than the daemon was started with ---- */

/*
 * Launcher and provider hosts refuse more than the daemon was started with, for every caller
 * (launcher/launcher_box.c, runtime/host/box.c). `most`: the daemon's values for this type.
 */
static int check_most(json_t *settings, const struct config *applied, const struct config *most,
                      struct error *err)
{
    static const enum config_key keys[] = {KEY_MEMORY, KEY_DOCKER_MEMORY, KEY_DISK,     KEY_PIDS,
                                           KEY_CPUS,   KEY_DOCKER_CPU,    KEY_ISOLATION};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        const char *text = settings_get(settings, keys[i]), *name = config_key_name(keys[i]);
        char asked[VALUE_QUOTE_SIZE], have[VALUE_QUOTE_SIZE];

        if (!text || is_of_other_type(applied, keys[i]) || is_tighter(applied, most, keys[i]))
            continue;
        value_quote(asked, text);
        value_quote(have, most->values[keys[i]].text);
        return error_set(err, -EPERM, ERROR_SETTING_DIFFERS,
                         "%s: you set '%s', and the running daemon was started with '%s', which "
                         "none of its boxes can exceed; ask for that at most, or start the daemon "
                         "again with %s=%s ('bailey daemon stop' ends it)",
                         name, asked, have, name, asked);
    }
    return 0;
}

/* ---- all of them ---- */

/*
 * The daemon's own disk limit belongs to its own memory limit: with another memory limit it is half
 * of that, as in a configuration that sets only the memory; where boxes have a ceiling, never more
 * than the daemon's own.
 */
static int follow_memory(const struct settings_server *server, json_t *settings,
                         struct config *config, struct error *err)
{
    bool has_memory =
        settings_get(settings, KEY_MEMORY) ||
        (!is_of_other_type(config, KEY_DOCKER_MEMORY) && settings_get(settings, KEY_DOCKER_MEMORY));
    uint64_t bytes = config->limits.memory_bytes / 2;
    char text[32];

    if (settings_get(settings, KEY_DISK) ||
        (!has_memory && config->limits.disk_bytes < config->limits.memory_bytes))
        return 0;
    if (!server->has_no_ceiling)
        bytes = MIN(bytes, server->config->limits.disk_bytes);
    str_format(text, sizeof(text), "%llu", (unsigned long long)bytes);
    return config_set(config, KEY_DISK, text, config_key_name(KEY_DISK), err);
}

/* A provider's check decides which of two keys with the same meaning counts. */
static int settle(struct config *config, struct error *err)
{
    const struct provider_row *row;
    int r = provider_find(config->type, &row, err);

    return r == 0 && row->check ? row->check(config, err) : r;
}

static int apply(const struct settings_server *server, json_t *settings, struct config *ret,
                 struct error *err)
{
    int r = set_keys(ret, settings, false, err);

    if (r == 0)
        r = settle(ret, err);
    if (r == 0)
        r = follow_memory(server, settings, ret, err);
    return r < 0 ? r : config_check(ret, err);
}

int settings_keep_daemon(struct config *config, struct error *err)
{
    int r = 0;

    for (int key = 0; key < _KEY_MAX && r == 0; key++) {
        const struct config_row *row = &config_table[key];

        if ((row->place == PLACE_CALL || row->place == PLACE_SESSION) && row->fallback)
            r = value_apply(config, (enum config_key)key, row->fallback, FROM_DEFAULT, NULL, err);
    }
    return r;
}

int settings_for_type(const struct config *config, const char *type, struct config *ret,
                      struct error *err)
{
    const struct settings_server server = {.config = config};
    CLEANUP(freep_json) json_t *settings = json_object();
    int r = config_clone(config, ret, err);

    if (r < 0)
        return r;
    if (!settings ||
        json_object_set_new(settings, config_key_name(KEY_SANDBOX_TYPE), json_string(type)) < 0)
        r = error_memory(err);
    if (r == 0)
        r = apply(&server, settings, ret, err);
    if (r < 0)
        config_free(ret);
    return r;
}

int settings_apply(const struct settings_server *server, json_t *settings, struct config *ret,
                   struct error *err)
{
    CLEANUP(config_free) struct config most = {0};
    int r = config_clone(server->config, ret, err);

    if (r < 0)
        return r;
    r = apply(server, settings, ret, err);
    if (r == 0)
        r = settings_for_type(server->config, ret->type, &most, err);
    if (r == 0)
        r = check_daemon_keys(server, settings, ret, err);
    if (r == 0 && server->only_tightens)
        r = check_tighter(server, settings, ret, err);
    if (r == 0 && !server->has_no_ceiling)
        r = check_most(settings, ret, &most, err);
    if (r < 0) {
        config_free(ret);
        if (err->code == ERROR_BAD_CONFIG)
            err->code = ERROR_BAD_INPUT; /* the caller's, not the one in use */
    }
    return r;
}

int settings_check_session(const struct config *have, json_t *settings, const char *session,
                           struct error *err)
{
    CLEANUP(config_free) struct config asked = {0};
    const char *name;
    json_t *value;
    int r = config_clone(have, &asked, err);

    if (r == 0)
        r = set_keys(&asked, settings, false, err);
    if (r < 0)
        return r;
    json_object_foreach(settings, name, value)
    {
        char first[VALUE_QUOTE_SIZE], second[VALUE_QUOTE_SIZE];
        enum config_key key;

        if (config_key_find(name, &key) < 0 || config_table[key].place != PLACE_SESSION ||
            is_of_other_type(have, key) || config_is_same(&asked, have, key) ||
            (key == KEY_TEMPLATE && str_equal(json_string_value(value), "auto")))
            continue; /* "auto" is whatever the session has */
        return error_set(err, -EEXIST, ERROR_SETTING_DIFFERS,
                         "%s: you set '%s', and the session %s has '%s', which was fixed when it "
                         "was made; leave yours out, or make another session with it",
                         name, value_quote(first, json_string_value(value)), session,
                         have->values[key].text ? value_quote(second, have->values[key].text)
                                                : "nothing set");
    }
    return 0;
}

int settings_add(json_t *settings, json_t *from, enum config_place place)
{
    const char *name;
    json_t *value;

    json_object_foreach(from, name, value)
    {
        enum config_key key;

        if (config_key_find(name, &key) == 0 && config_table[key].place == place &&
            json_object_set(settings, name, value) < 0)
            return -ENOMEM;
    }
    return 0;
}

int settings_fix(json_t *settings, const struct config *config)
{
    for (int key = 0; key < _KEY_MAX; key++) {
        const char *text = config->values[key].text;

        if (config_table[key].place != PLACE_SESSION || !text ||
            is_of_other_type(config, (enum config_key)key))
            continue;
        if (json_object_set_new(settings, config_key_name((enum config_key)key),
                                text_to_json(text, strlen(text))) < 0)
            return -ENOMEM;
    }
    return 0;
}
