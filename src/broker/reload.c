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

/* Keys that are looked at whenever they are needed, so that a new value is all it takes. */
static const enum config_key live[] = {
    KEY_LOG,          KEY_HOSTS,      KEY_CORS_ORIGINS,   KEY_EXECUTE_OPEN, KEY_QUEUE,
    KEY_LINK_TIME,    KEY_AUDIT_SIZE, KEY_AUDIT_KEEP,     KEY_QUOTA_RUNS,   KEY_QUOTA_SESSIONS,
    KEY_QUOTA_CPU,    KEY_QUOTA_DISK, KEY_QUOTA_REQUESTS, KEY_QUOTA_BYTES,  KEY_QUOTA_MEMORY,
    KEY_MAX_SESSIONS,
};

/* The files of a certificate are read by whoever reloads; it can be another one, and not none. */
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

/* Not the configuration's to say: where it is, and what the starter's flags said. */
static bool is_fixed(const struct reload *reload, size_t key)
{
    json_t *flags = json_object_get(reload->settings, "flags"), *flag;
    size_t i;

    if (key == KEY_STATE_DIR || !config_table[key].env)
        return true;
    json_array_foreach(flags, i, flag)
    {
        if (str_equal(json_string_value(flag), config_table[key].env))
            return true;
    }
    return false;
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

    /* Not lines of every day: whoever reads the log later has to find when settings changed. */
    json_array_foreach(changed, i, name) log_warning("reload: %s changed", json_string_value(name));
    json_array_foreach(restart, i, name) log_warning(
        "reload: %s needs a restart, continuing without the new value", json_string_value(name));
    if (has_certificate)
        log_warning("reload: new connections see a new certificate");
}

int reload_apply(const struct reload *reload, json_t *body, json_t **ret, struct error *err)
{
    CLEANUP(config_free) struct config fresh = {0};
    json_t *changed = json_array(), *restart = json_array();
    int r =
        changed && restart ? reload_read(json_object_get(body, "settings"), &fresh, err) : -ENOMEM;
    int has_certificate = 0;

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
    session_manager_reloaded(reload->manager);
    write_down(reload);
    tell(changed, restart, has_certificate > 0);
    *ret = json_pack("{s:o, s:o, s:b}", "changed", changed, "restart", restart, "certificate",
                     has_certificate > 0);
    return *ret ? 0 : error_memory(err);
}
