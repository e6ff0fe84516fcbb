/* reload.c - new configuration and certificates for a broker that goes on; see reload.h. */
#include "broker/reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/front/front.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "model/text.h"
#include "observe/audit.h"
#include "session/session_manager.h"
#include "session/tenant.h"

/* Keys that are read at each use, so that a new value takes effect at once. */
static const enum config_key live[] = {
    KEY_LOG,          KEY_HOSTS,      KEY_CORS_ORIGINS,   KEY_EXECUTE_OPEN, KEY_QUEUE,
    KEY_LINK_TIME,    KEY_AUDIT_SIZE, KEY_AUDIT_KEEP,     KEY_QUOTA_RUNS,   KEY_QUOTA_SESSIONS,
    KEY_QUOTA_CPU,    KEY_QUOTA_DISK, KEY_QUOTA_REQUESTS, KEY_QUOTA_BYTES,  KEY_QUOTA_MEMORY,
    KEY_MAX_SESSIONS, KEY_MAX_PAUSED, KEY_PAUSED_TIME,
};

/* The reloading command reads the certificate. It can be replaced, not removed. */
static bool is_live(const struct reload *reload, const struct config *fresh, size_t key)
{
    if (key == KEY_TLS_CERTIFICATE || key == KEY_TLS_KEY)
        return reload->listeners->is_tls && fresh->values[key].text && fresh->values[key].text[0];
    for (size_t i = 0; i < ARRAY_SIZE(live); i++) {
        if (live[i] == key)
            return true;
    }
    return false;
}

static bool has_name(json_t *names, const char *name)
{
    json_t *one;
    size_t i;

    json_array_foreach(names, i, one)
    {
        if (str_equal(json_string_value(one), name))
            return true;
    }
    return false;
}

/*
 * A reload does not change the state folder, nor keys that flags of `serve` have set, nor, in a
 * daemon that was started on demand, keys that each caller brings.
 */
static bool is_fixed(const struct reload *reload, size_t key)
{
    bool is_callers =
        config_table[key].place == PLACE_CALL || config_table[key].place == PLACE_SESSION;

    if (is_callers && json_is_true(json_object_get(reload->settings, "on_demand")))
        return true;
    return key == KEY_STATE_DIR || !config_table[key].env ||
           has_name(json_object_get(reload->settings, "flags"), config_table[key].env);
}

/* Of the server's own environment: a file, or a shell without it, does not change it. */
static bool stays(const struct reload *reload, json_t *environment, size_t key)
{
    const char *name = config_table[key].env;

    return is_fixed(reload, key) ||
           (has_name(json_object_get(reload->settings, "environment"), name) &&
            !json_object_get(environment, name));
}

/* All variables of the new configuration; a new reference, NULL: no memory. */
static json_t *merge(const struct reload *reload, json_t *body)
{
    json_t *environment = json_object_get(body, "environment");
    json_t *all = json_copy(json_object_get(body, "settings"));
    int r = all ? 0 : -1;

    if (r == 0 && environment)
        r = json_object_update(all, environment);
    for (size_t key = 0; r == 0 && key < _KEY_MAX; key++) {
        const char *name = config_table[key].env, *text = reload->config->values[key].text;

        if (!name || !stays(reload, environment, key))
            continue;
        json_object_del(all, name);
        if (text)
            r = json_object_set_new(all, name, text_to_json(text, strlen(text)));
    }
    if (r < 0) {
        json_decref(all);
        return NULL;
    }
    return all;
}

/* What the caller's environment decided stays from now on, as the server's own does. */
static void keep_names(const struct reload *reload, json_t *environment)
{
    json_t *names = json_object_get(reload->settings, "environment");
    const char *name;
    json_t *value;

    if (!names) {
        names = json_array();
        json_object_set_new(reload->settings, "environment", names);
    }
    json_object_foreach(environment, name, value)
    {
        if (!has_name(names, name))
            json_array_append_new(names, json_string(name));
    }
}

int reload_read(json_t *variables, struct config *ret, struct error *err)
{
    char **env = strv_new();
    const char *name;
    json_t *value;
    int r = env ? 0 : -ENOMEM;

    json_object_foreach(variables, name, value)
    {
        CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);

        if (r == 0)
            r = buf_printf(&text, "%s=%s", name, json_string_value(value));
        if (r == 0)
            r = strv_push(&env, buf_text(&text));
    }
    if (r < 0)
        error_set(err, r, ERROR_TOO_LARGE, "the settings are too long");
    else
        r = config_load_text(ret, "", 0, "settings", env, err);
    strv_free(env);
    return r;
}

static void swap_texts(char **a, char **b)
{
    char *kept = *a;

    *a = *b;
    *b = kept;
}

static void swap_lists(char ***a, char ***b)
{
    char **kept = *a;

    *a = *b;
    *b = kept;
}

/* What is live, and nothing else; what was before goes with `fresh`. */
static void take_over(const struct reload *reload, struct config *fresh)
{
    struct config *config = reload->config;

    for (size_t key = 0; key < _KEY_MAX; key++) {
        struct config_value *old = &config->values[key], *new = &fresh->values[key];

        if (!is_live(reload, fresh, key))
            continue;
        swap_texts(&old->text, &new->text);
        swap_texts(&old->where, &new->where);
        old->source = new->source;
    }
    swap_lists(&config->hosts, &fresh->hosts);
    swap_lists(&config->cors_origins, &fresh->cors_origins);
    config->log_level = fresh->log_level;
    config->execute_is_open = fresh->execute_is_open;
    config->queue = fresh->queue;
    config->link_ms = fresh->link_ms;
    config->audit_bytes = fresh->audit_bytes;
    config->audit_keep = fresh->audit_keep;
    config->quota = fresh->quota;
    config->max_sessions = fresh->max_sessions;
    config->max_paused = fresh->max_paused;
    config->paused_ms = fresh->paused_ms;
}

static void note_difference(const struct reload *reload, const struct config *fresh, size_t key,
                            json_t *changed, json_t *restart)
{
    const char *before = reload->config->values[key].text, *after = fresh->values[key].text;

    if (is_fixed(reload, key) || str_equal(before, after))
        return;
    json_array_append_new(is_live(reload, fresh, key) ? changed : restart,
                          json_string(config_table[key].env));
}

/* 1: another one is shown from now on, 0: the same, or none. */
static int take_certificate(const struct reload *reload, json_t *body, struct error *err)
{
    struct http_tls before, after;
    int r;

    if (!reload->listeners->is_tls || !listeners_tls(body, &after))
        return 0;
    if (listeners_tls(reload->settings, &before) &&
        str_equal(before.certificate, after.certificate) && str_equal(before.key, after.key))
        return 0;
    r = front_set_tls(reload->front, &after, err);
    if (r < 0)
        return r;
    json_object_set(reload->settings, "tls", json_object_get(body, "tls"));
    return 1;
}

/* What is in force now, as a broker that is started later finds it. */
static void write_down(const struct reload *reload)
{
    json_t *env = json_object();

    for (size_t key = 0; env && key < _KEY_MAX; key++) {
        const char *text = reload->config->values[key].text;

        if (config_table[key].env && text)
            json_object_set_new(env, config_table[key].env, text_to_json(text, strlen(text)));
    }
    if (env)
        json_object_set_new(reload->settings, "env", env);
}

static void tell(json_t *changed, json_t *restart, bool has_certificate)
{
    json_t *name;
    size_t i;

    /* Warnings, so that the log shows when settings changed at every log level. */
    json_array_foreach(changed, i, name) log_warning("reload: %s changed", json_string_value(name));
    json_array_foreach(restart, i, name) log_warning(
        "reload: %s needs a restart, continuing without the new value", json_string_value(name));
    if (has_certificate)
        log_warning("reload: new connections see a new certificate");
}

int reload_apply(const struct reload *reload, json_t *body, json_t **ret, struct error *err)
{
    CLEANUP(config_free) struct config fresh = {0};
    json_t *changed = json_array(), *restart = json_array(), *all = merge(reload, body);
    int r = changed && restart && all ? reload_read(all, &fresh, err) : -ENOMEM;
    int has_certificate = 0;

    json_decref(all);
    if (r == 0)
        r = config_check_values(&fresh, err); /* some values follow others */

    if (r == 0)
        r = has_certificate = take_certificate(reload, body, err);
    if (r >= 0)
        r = listeners_configure(reload->listeners, &fresh, err);
    if (r < 0) {
        json_decref(changed);
        json_decref(restart);
        return err->code ? r : error_memory(err);
    }
    for (size_t key = 0; key < _KEY_MAX; key++)
        note_difference(reload, &fresh, key, changed, restart);
    take_over(reload, &fresh);
    log_set_level(reload->config->log_level);
    tenants_configure(session_manager_tenants(reload->manager), reload->config);
    audit_configure(session_manager_audit(reload->manager), reload->config->audit_bytes,
                    reload->config->audit_keep);
    keep_names(reload, json_object_get(body, "environment"));
    session_manager_reloaded(reload->manager);
    write_down(reload);
    tell(changed, restart, has_certificate > 0);
    *ret = json_pack("{s:o, s:o, s:b}", "changed", changed, "restart", restart, "certificate",
                     has_certificate > 0);
    return *ret ? 0 : error_memory(err);
}
