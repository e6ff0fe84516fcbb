/* settings_table.c - sets of settings, shared and bounded; see settings_table.h. */
#include "session/settings_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "config/settings.h"
#include "session/run_private.h"

static void settings_free(struct settings *settings)
{
    if (!settings)
        return;
    config_free(&settings->config);
    json_decref(settings->given);
    free(settings->text);
    free(settings);
}

static void settings_freep(struct settings **settings)
{
    settings_free(*settings);
}

void settings_table_free(struct session_manager *manager)
{
    while (manager->settings) {
        struct settings *settings = manager->settings;

        manager->settings = settings->next;
        settings_free(settings);
    }
}

/* Drops the longest unused one of a kind, if there are more than the limit. */
static void trim(struct session_manager *manager, enum settings_owner owner)
{
    struct settings **oldest = NULL;
    unsigned count = 0;

    for (struct settings **at = &manager->settings; *at; at = &(*at)->next) {
        if ((*at)->references > 0 || (*at)->owner != owner)
            continue;
        count++;
        if (!oldest || (*at)->used < (*oldest)->used)
            oldest = at;
    }
    if (count > LIMIT_SETTINGS) {
        struct settings *dropped = *oldest;

        *oldest = dropped->next;
        settings_free(dropped);
    }
}

static struct settings *find_text(struct session_manager *manager, const char *text,
                                  enum settings_owner owner)
{
    struct settings *settings = manager->settings;

    while (settings &&
           (settings->owner != owner || settings->generation != manager->settings_generation ||
            !str_equal(settings->text, text)))
        settings = settings->next;
    return settings;
}

static int settings_new(struct session_manager *manager, json_t *given, enum settings_owner owner,
                        struct settings **ret, struct error *err)
{
    const struct settings_server server = {
        .config = manager->spec.config,
        .state = manager->spec.state,
        .only_tightens = owner == SETTINGS_NETWORK,
        /* A session keeps its own when `bailey serve` with a lower ceiling takes it over. */
        .has_no_ceiling = manager->spec.has_no_ceiling || owner == SETTINGS_SESSION,
    };
    CLEANUP(settings_freep) struct settings *settings = calloc(1, sizeof(*settings));
    int r;

    if (!settings)
        return error_memory(err);
    r = settings_apply(&server, given, &settings->config, err);
    if (r < 0)
        return r;
    if (owner != SETTINGS_SESSION)
        r = settings_check_interpreters(manager, &settings->config, owner == SETTINGS_NETWORK, err);
    if (r < 0)
        return r;
    settings->given = json_deep_copy(given);
    if (!settings->given)
        return error_memory(err);
    settings->manager = manager;
    settings->owner = owner;
    settings->generation = manager->settings_generation;
    if (++manager->next_settings == 0) /* 0 means none */
        manager->next_settings = 1;
    settings->number = manager->next_settings;
    *ret = ptr_take(&settings);
    return 0;
}

int settings_take(struct session_manager *manager, json_t *given, enum settings_owner owner,
                  struct settings **ret, struct error *err)
{
    CLEANUP(freep) char *text = json_dumps(given, JSON_COMPACT | JSON_SORT_KEYS);
    struct settings *settings;
    int r;

    if (!text)
        return error_memory(err);
    settings = find_text(manager, text, owner);
    if (!settings) {
        r = settings_new(manager, given, owner, &settings, err);
        if (r < 0)
            return r;
        settings->text = ptr_take(&text);
        settings->next = manager->settings;
        manager->settings = settings;
    }
    settings->used = ++manager->settings_used;
    *ret = settings_hold(settings);
    trim(manager, owner);
    return 0;
}

struct settings *settings_hold(struct settings *settings)
{
    if (settings)
        settings->references++;
    return settings;
}

void settings_release(struct settings *settings)
{
    if (settings && --settings->references == 0)
        trim(settings->manager, settings->owner);
}

int settings_of_caller(struct session_manager *manager, const struct caller *caller,
                       struct settings **ret, struct error *err)
{
    struct settings *settings = manager->settings;

    *ret = NULL;
    if (!caller || caller->settings == 0)
        return 0;
    while (settings && settings->number != caller->settings)
        settings = settings->next;
    if (!settings)
        return error_set(err, -ESTALE, ERROR_BUSY,
                         "the settings of this connection were dropped, because too many others "
                         "came since: connect again");
    settings->used = ++manager->settings_used;
    *ret = settings;
    return 0;
}

int session_manager_settings(struct session_manager *manager, struct caller *caller, json_t *more,
                             struct error *err)
{
    CLEANUP(json_decrefp) json_t *all = NULL;
    struct settings *before, *settings;
    int r = settings_of_caller(manager, caller, &before, err);

    if (r < 0)
        return r;
    all = before ? json_deep_copy(before->given) : json_object();
    if (!all || json_object_update(all, more) < 0)
        return error_memory(err);
    if (json_object_size(all) == 0)
        return 0;
    r = settings_take(manager, all, caller->who.is_local ? SETTINGS_USER : SETTINGS_NETWORK,
                      &settings, err);
    if (r < 0)
        return r;
    caller->settings = settings->number;
    settings_release(settings);
    return 0;
}

int session_manager_settings_text(struct session_manager *manager, struct caller *caller,
                                  const char *text, struct error *err)
{
    CLEANUP(json_decrefp)
    json_t *given =
        strlen(text) <= SETTINGS_MAX ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;

    if (!json_is_object(given))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "the header " SETTINGS_HEADER " has to be a JSON object of at most %d "
                         "bytes, such as {\"SANDBOX_TIMEOUT_SEC\":\"5\"}",
                         SETTINGS_MAX);
    return session_manager_settings(manager, caller, given, err);
}

void session_manager_reloaded(struct session_manager *manager)
{
    manager->settings_generation++; /* keys of the daemon are compared anew */
}

int session_manager_config_of(struct session_manager *manager, const struct caller *caller,
                              const struct config **ret, struct error *err)
{
    struct settings *settings;
    int r = settings_of_caller(manager, caller, &settings, err);

    if (r == 0)
        *ret = settings ? &settings->config : manager->spec.config;
    return r;
}

/* ---- of sessions and calls ---- */

static int set_text(json_t *settings, enum config_key key, const char *text)
{
    return json_object_set_new(settings, config_key_name(key), json_string(text)) < 0 ? -ENOMEM : 0;
}

static int set_time(json_t *settings, enum config_key key, uint64_t ms)
{
    char text[32];

    if (ms == 0)
        return 0;
    str_format(text, sizeof(text), "%" PRIu64 "ms", ms);
    return set_text(settings, key, text);
}

int settings_of_new(struct session_manager *manager, const struct session_spec *spec,
                    struct settings **ret, struct error *err)
{
    CLEANUP(json_decrefp) json_t *all = json_object();
    struct settings *caller, *asked = NULL;
    int r = settings_of_caller(manager, spec->caller, &caller, err);

    if (r < 0)
        return r;
    if (!all || (spec->settings && json_object_update(all, spec->settings) < 0) ||
        (caller && (settings_add(all, caller->given, PLACE_CALL) < 0 ||
                    settings_add(all, caller->given, PLACE_SESSION) < 0)))
        return error_memory(err);
    if ((spec->template_name && set_text(all, KEY_TEMPLATE, spec->template_name) < 0) ||
        set_time(all, KEY_SESSION_IDLE, MIN(spec->idle_ms, LIMIT_TIMEOUT_MS)) < 0 ||
        set_time(all, KEY_SESSION_AGE, MIN(spec->age_ms, LIMIT_TIMEOUT_MS)) < 0)
        return error_memory(err);
    /* The caller's settings were checked when they came: these are the session's. */
    r = settings_take(manager, all, SETTINGS_SESSION, &asked, err);
    if (r == 0 && settings_fix(all, &asked->config) < 0)
        r = error_memory(err);
    if (r == 0)
        r = settings_fix_interpreters(manager, all, &asked->config, err);
    if (r == 0)
        r = settings_take(manager, all, SETTINGS_SESSION, ret, err);
    settings_release(asked);
    return r;
}

int settings_set_template(struct settings **settings, const char *name, struct error *err)
{
    CLEANUP(json_decrefp) json_t *all = NULL;
    struct settings *before = *settings;
    int r;

    if (str_equal(settings_get(before->given, KEY_TEMPLATE), name))
        return 0;
    all = json_copy(before->given);
    if (!all || set_text(all, KEY_TEMPLATE, name) < 0)
        return error_memory(err);
    r = settings_take(before->manager, all, SETTINGS_SESSION, settings, err);
    if (r == 0)
        settings_release(before);
    return r;
}

int settings_of_call(struct session *session, const struct caller *caller, struct settings **ret,
                     struct error *err)
{
    CLEANUP(json_decrefp) json_t *all = NULL;
    struct settings *own, *base = session->settings;
    int r = session_check_settings(session, caller, err);

    if (r == 0)
        r = settings_of_caller(session->manager, caller, &own, err);
    if (r < 0)
        return r;
    all = json_object();
    if (!all || (own && settings_add(all, own->given, PLACE_CALL) < 0))
        return error_memory(err);
    if (json_object_size(all) == 0) {
        *ret = settings_hold(base);
        return 0;
    }
    if (base && json_object_update_missing(all, base->given) < 0)
        return error_memory(err);
    return settings_take(session->manager, all, SETTINGS_SESSION, ret, err);
}

int session_check_settings(struct session *session, const struct caller *caller, struct error *err)
{
    struct settings *own;
    int r = settings_of_caller(session->manager, caller, &own, err);

    return r < 0 || !own
               ? r
               : settings_check_session(session_config(session), own->given, session->id, err);
}

uint64_t session_timeout_ms(struct session *session, const struct caller *caller,
                            uint64_t fallback_ms)
{
    struct settings *own = NULL, *settings;
    struct error ignored = {0};

    settings_of_caller(session->manager, caller, &own, &ignored);
    settings = own && settings_get(own->given, KEY_TIMEOUT) ? own : session->settings;
    return settings && settings_get(settings->given, KEY_TIMEOUT)
               ? settings->config.limits.timeout_ms
               : fallback_ms;
}

const struct config *session_config(const struct session *session)
{
    return session->settings ? &session->settings->config : session->manager->spec.config;
}

const struct config *execution_config(const struct execution *execution)
{
    return execution->settings ? &execution->settings->config : session_config(execution->session);
}

const struct config *run_config(const struct run *run)
{
    return run->settings ? &run->settings->config : run->manager->spec.config;
}
