/*
 * succession.c - a session in the place of one that has ended: what it gets of it, and the words
 * for the caller about what is gone. And the sessions that one call made, which go first when room
 * is needed. See session_manager.h.
 *
 * Datasets are inputs of the user, not results: those of a named session outlive it, unless a
 * caller deleted the session. Its folder waits under the old id for a session of the
 * same name, counts for the tenant's disk meanwhile, and is removed when the session is forgotten,
 * when it would be one too many, when the tenant needs the room, and when the broker starts.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "config/settings.h"
#include "session/session_private.h"

#define KEPT_MAX 32 /* ended sessions whose datasets wait */

/* ---- datasets that wait for a successor ---- */

bool datasets_outlive(const struct session *session)
{
    return session->name && session->held_data > session->held_packages && !session->has_heir &&
           !str_equal(session->reason, "deleted") && !str_equal(session->reason, "over_quota") &&
           !str_equal(session->reason, "engine_stopped");
}

void datasets_let_go(struct session *session)
{
    if (!session->keeps_data)
        return;
    session->keeps_data = false;
    usage_data_over(session, session->held_data);
    datasets_remove(session);
}

/* The list is newest first, so the last one that waits is the oldest. */
static struct session *oldest_keeper(struct session_manager *manager, const char *tenant,
                                     unsigned *ret_count)
{
    struct session *found = NULL;

    *ret_count = 0;
    for (struct session *session = manager->sessions; session; session = session->next) {
        if (!session->keeps_data || (tenant && !str_equal(session->tenant, tenant)))
            continue;
        found = session;
        ++*ret_count;
    }
    return found;
}

void datasets_keep(struct session *session)
{
    struct session *oldest;
    unsigned count;

    usage_data_over(session, session->held_packages);
    session->held_packages = 0;
    session->keeps_data = true;
    oldest = oldest_keeper(session->manager, NULL, &count);
    if (count > KEPT_MAX)
        datasets_let_go(oldest);
}

bool datasets_make_room(struct session_manager *manager, const char *tenant)
{
    unsigned count;
    struct session *oldest = oldest_keeper(manager, tenant, &count);

    if (oldest)
        datasets_let_go(oldest);
    return oldest;
}

struct inheritance {
    struct session *heir;
    char **names; /* strv */
    uint64_t *bytes;
    int r;
};

static void note_row(void *ctx, const struct index_file *row)
{
    struct inheritance *inheritance = ctx;
    size_t count = strv_length(inheritance->names);

    if (inheritance->r < 0 || count == LIMIT_DATASETS)
        return;
    inheritance->bytes[count] = row->bytes;
    inheritance->r = strv_push(&inheritance->names, row->name);
}

/* The rows first: a folder without rows is removed with the session, rows without files mislead. */
static int inherit(struct session *heir, struct session *old)
{
    struct session_manager *manager = heir->manager;
    uint64_t bytes[LIMIT_DATASETS];
    struct inheritance inheritance = {.heir = heir, .names = strv_new(), .bytes = bytes};
    int data_fd = manager->spec.folders.data_fd;
    int r = inheritance.names ? 0 : -ENOMEM;

    if (r == 0)
        r = index_each_file(manager->spec.index, old->id, 'd', note_row, &inheritance, NULL);
    if (r == 0)
        r = inheritance.r;
    if (r == 0 && strv_length(inheritance.names) == 0)
        r = -ENOENT;
    if (r == 0 && renameat(data_fd, old->id, data_fd, heir->id) < 0)
        r = -errno;
    for (size_t i = 0; r == 0 && i < strv_length(inheritance.names); i++) {
        struct index_file row = {.kind = 'd', .name = inheritance.names[i], .bytes = bytes[i]};

        str_copy(row.session, sizeof(row.session), heir->id);
        r = index_put_file(manager->spec.index, &row, NULL);
    }
    strv_free(inheritance.names);
    if (r < 0)
        return r;
    /* The same tenant's: only who holds the bytes changes. */
    heir->held_data += old->held_data - old->held_packages;
    old->held_data = old->held_packages;
    old->keeps_data = false;
    old->has_heir = true;
    return 0;
}

/* ---- words ---- */

static const char *why_ended(const struct session *session)
{
    static const struct {
        const char *reason, *words;
    } table[] = {
        {"idle", "it was idle too long"},
        {"age", "its time was up"},
        {"deleted", "it was deleted"},
        {"over_quota", "it exceeded a quota"},
        {"box_lost", "its sandbox was lost"},
        {"engine_stopped", "the engine was stopped"},
        {REASON_ROOM, "room was needed"},
        {REASON_PROVIDER_GONE, "what makes its boxes stopped"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if (str_equal(table[i].reason, session->reason))
            return table[i].words;
    }
    return "unknown reason";
}

static void write_note(struct session *heir, const struct session *old, char note[SUCCESSION_NOTE])
{
    CLEANUP(buf_free) struct buf names = BUF_INIT(160);
    json_t *datasets = session_datasets_json(heir), *dataset;
    bool has_all = true;
    size_t i;

    json_array_foreach(datasets, i, dataset)
    {
        if (buf_printf(&names, "%s%s", i > 0 ? ", " : "",
                       json_string_value(json_object_get(dataset, "path"))) < 0)
            has_all = false;
    }
    snprintf(note, SUCCESSION_NOTE,
             "the earlier session has ended (%s): its files, variables, environment, installed "
             "packages and running commands are gone. This is a new, empty one with the template "
             "'%s'%s%s%s",
             why_ended(old), heir->template_name,
             names.length > 0 ? " and the same datasets: " : "", buf_text(&names),
             has_all ? "" : ", ...");
    json_decref(datasets);
}

/* ---- the new one ---- */

/*
 * The settings of the old one, for what the caller of the new one leaves open. None if a caller
 * deleted a session by its name: who uses the name again begins anew. None for another type either,
 * whose boxes have defaults of their own; and a disk limit that was made for one memory limit is
 * not one for another.
 */
static int old_settings(const struct session *old, const struct session_spec *spec, json_t **ret,
                        struct error *err)
{
    CLEANUP(json_decrefp) json_t *all = NULL;
    struct settings *caller;
    const char *type;
    int r = settings_of_caller(old->manager, spec->caller, &caller, err);

    *ret = NULL;
    if (r < 0 || (spec->name && str_equal(old->reason, "deleted")))
        return r;
    all = old->settings ? json_copy(old->settings->given) : json_object();
    if (!all || (!old->settings && json_object_set_new(all, config_key_name(KEY_TEMPLATE),
                                                       json_string(old->template_name)) < 0))
        return error_memory(err);
    type = caller ? settings_get(caller->given, KEY_SANDBOX_TYPE) : NULL;
    if (type && !str_equal(type, settings_get(all, KEY_SANDBOX_TYPE)))
        return 0;
    if (caller &&
        (settings_get(caller->given, KEY_MEMORY) || settings_get(caller->given, KEY_DOCKER_MEMORY)))
        json_object_del(all, config_key_name(KEY_DISK));
    *ret = json_incref(all);
    return 0;
}

int session_manager_succeed(struct session_manager *manager, const char *before,
                            const struct session_spec *spec, struct session **ret,
                            char note[SUCCESSION_NOTE], struct error *err)
{
    CLEANUP(json_decrefp) json_t *settings = NULL;
    struct session_spec wanted = *spec;
    struct session *old = NULL;
    struct error ignored = {0};
    bool keeps;
    int r;

    note[0] = '\0';
    if (session_manager_find_of(manager, spec->tenant, before, true, &old, &ignored) < 0 ||
        old->state < SESSION_ENDING)
        return session_manager_create(manager, spec, ret, err);
    keeps = old->keeps_data || (old->state == SESSION_ENDING && datasets_outlive(old));
    r = old_settings(old, spec, &settings, err);
    if (r < 0)
        return r;
    wanted.settings = settings;
    r = session_manager_create(manager, &wanted, ret, err);
    if (r < 0)
        return r;
    if (keeps && spec->name && inherit(*ret, old) < 0)
        log_warning("datasets of %s could not be given to %s, continuing without them", old->id,
                    (*ret)->id);
    write_note(*ret, old, note);
    return 0;
}

/* ---- sessions that one call made ---- */

void session_promote(struct session *session)
{
    if (!session->is_spare)
        return;
    session->is_spare = false;
    session->idle_ms = session_config(session)->session_idle_ms;
    session_save(session);
    session_manager_expect(session->manager);
}

static bool is_spare(const struct session *session)
{
    return session->is_spare && session->state < SESSION_ENDING && session->running == 0 &&
           session->uploads == 0 && !session->package_orders && !session->waiters &&
           !session->pinned && !(session->box && box_is_busy(session->box));
}

bool session_manager_make_room(struct session_manager *manager, const char *tenant, bool is_any)
{
    struct session *found = NULL;

    for (struct session *session = manager->sessions; session; session = session->next) {
        bool is_own = str_equal(session->tenant, tenant);
        bool was_own = found && str_equal(found->tenant, tenant);

        if (!is_spare(session) || (!is_own && !is_any) || (was_own && !is_own))
            continue;
        if (!found || (is_own && !was_own) || session->used_ms <= found->used_ms)
            found = session;
    }
    if (found)
        session_end(found, REASON_ROOM, NULL, NULL);
    return found;
}
