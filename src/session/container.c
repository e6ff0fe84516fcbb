/* container.c - containers: rows beside sessions; see container.h. */
#include "session/container.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "config/config.h"
#include "session/session_private.h"

#define TOUCH_MS 1000 /* last_active_at has seconds: a row is stored as often */

static const struct {
    const char *name;
    uint64_t bytes;
} memory_limits[] = {{"1g", GIB}, {"4g", 4 * GIB}, {"16g", 16 * GIB}, {"64g", 64 * GIB}};

/* ---- making ---- */

static int check_memory(const struct session_manager *manager, const char *limit, struct error *err)
{
    uint64_t most = manager->spec.config->limits.memory_bytes;
    char text[32];

    if (!limit)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(memory_limits); i++) {
        if (!str_equal(memory_limits[i].name, limit))
            continue;
        if (memory_limits[i].bytes <= most)
            return 0;
        str_from_bytes(most, text, sizeof(text));
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "memory_limit: '%s' is more than this server gives (%s); ask for less, or "
                         "raise SANDBOX_MEMORY_LIMIT on the server",
                         limit, text);
    }
    return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                     "memory_limit: has to be \"1g\", \"4g\", \"16g\", \"64g\" or null");
}

int container_check_policy(const json_t *policy, bool *ret_has_policy, struct error *err)
{
    const char *type = json_string_value(json_object_get(policy, "type"));

    *ret_has_policy = policy && !json_is_null(policy);
    if (!*ret_has_policy || str_equal(type, "disabled"))
        return 0;
    if (str_equal(type, "allowlist"))
        return error_set(err, -ENOTSUP, ERROR_BAD_INPUT,
                         "network_policy: \"allowlist\" is not possible on this server: its "
                         "containers have no network; send {\"type\":\"disabled\"} or leave it "
                         "out");
    return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                     "network_policy: \"type\" has to be \"disabled\"");
}

static int check_files(struct session_manager *manager, const char *tenant, json_t *ids,
                       struct error *err)
{
    struct upload_row row;
    json_t *id;
    size_t at;

    if (json_array_size(ids) > LIMIT_FILE_IDS)
        return error_set(err, -E2BIG, ERROR_BAD_INPUT, "file_ids: at most %d files",
                         LIMIT_FILE_IDS);
    json_array_foreach(ids, at, id)
    {
        const char *text = json_string_value(id);
        int r;

        if (!text)
            return error_set(err, -EINVAL, ERROR_BAD_INPUT, "file_ids: has to be ids of files");
        r = upload_find(manager, tenant, text, &row, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static void note_id(void *ctx, const struct container_row *row)
{
    strv_push(ctx, row->id);
}

/* A place for one more row: the oldest expired one goes. */
static int make_room(struct session_manager *manager, const char *tenant, struct error *err)
{
    CLEANUP(strv_freep) char **ids = strv_new();
    size_t count;
    int r = ids ? container_row_each(manager->spec.index, tenant, note_id, &ids, err)
                : error_memory(err);

    if (r < 0)
        return r;
    count = strv_length(ids);
    for (size_t i = 0; i < count && count >= LIMIT_CONTAINERS; i++) {
        struct container_row row;

        if (container_row_get(manager->spec.index, ids[i], &row, NULL) > 0 &&
            !container_is_running(manager, &row))
            return container_row_drop(manager->spec.index, row.id, err);
    }
    if (count < LIMIT_CONTAINERS)
        return 0;
    return error_set(err, -EDQUOT, ERROR_QUOTA,
                     "%d containers are running, the most of one tenant; delete one first",
                     LIMIT_CONTAINERS);
}

static int make_session(struct session_manager *manager, const struct container_spec *spec,
                        const struct container_row *row, struct session **ret, struct error *err)
{
    CLEANUP(json_decrefp)
    json_t *settings = row->memory_limit[0]
                           ? json_pack("{s:s}", "SANDBOX_MEMORY_LIMIT", row->memory_limit)
                           : json_object();
    struct session_spec session_spec = {
        .caller = spec->caller,
        .tenant = row->tenant,
        .idle_ms = row->minutes * 60000ULL,
        .settings = settings,
        .is_provisional = row->is_provisional,
    };

    return settings ? session_manager_create(manager, &session_spec, ret, err) : error_memory(err);
}

/* The ids share their digits: a log with one of them leads to the other. */
static void name_row(struct container_row *row, const struct session *session)
{
    str_copy(row->session, sizeof(row->session), session->id);
    str_format(row->id, sizeof(row->id), "cntr_%s", session->id + strlen("s_"));
}

int container_adopt(struct session_manager *manager, struct session *session,
                    struct container_row *ret, struct error *err)
{
    struct container_row row = {.created_ms = session->created_ms,
                                .used_ms = session->used_ms,
                                .minutes = (unsigned)MAX(session->idle_ms / 60000, (uint64_t)1)};
    int r = container_row_of_session(manager->spec.index, session->id, ret, err);

    if (r != 0)
        return r < 0 ? r : 0;
    if (session->state >= SESSION_ENDING)
        return session_ended_error(session, err);
    name_row(&row, session);
    str_copy(row.tenant, sizeof(row.tenant), session->tenant);
    str_copy(row.name, sizeof(row.name), session->name ? session->name : "auto");
    r = make_room(manager, row.tenant, err);
    if (r == 0)
        r = container_row_put(manager->spec.index, &row, err);
    if (r == 0)
        *ret = row;
    return r;
}

int container_create(struct session_manager *manager, const struct container_spec *spec,
                     struct container_row *ret, struct error *err)
{
    struct container_row row = {
        .created_ms = clock_wall_ms(),
        .minutes = spec->minutes ? spec->minutes : CONTAINER_MINUTES,
        .has_policy = spec->has_policy,
        .is_provisional = json_array_size(spec->file_ids) > 0,
    };
    struct session *session = NULL;
    int r = check_memory(manager, spec->memory_limit, err);

    row.used_ms = row.created_ms;
    str_copy(row.tenant, sizeof(row.tenant), spec->caller->who.tenant);
    str_copy(row.memory_limit, sizeof(row.memory_limit),
             r == 0 && spec->memory_limit ? spec->memory_limit : "");
    if (!str_copy(row.name, sizeof(row.name), spec->name ? spec->name : "auto"))
        r = error_set(err, -EINVAL, ERROR_BAD_INPUT, "name: at most %d bytes",
                      CONTAINER_NAME_MAX - 1);
    if (r == 0)
        r = check_files(manager, row.tenant, spec->file_ids, err);
    if (r == 0)
        r = make_room(manager, row.tenant, err);
    if (r == 0)
        r = make_session(manager, spec, &row, &session, err);
    if (r < 0)
        return r;
    name_row(&row, session);
    r = container_row_put(manager->spec.index, &row, err);
    if (r < 0) {
        session_end(session, "deleted", NULL, NULL);
        return r;
    }
    *ret = row;
    return 0;
}

/* ---- finding ---- */

/* Its session, in any state; NULL: it is forgotten. */
static struct session *session_of(const struct session_manager *manager,
                                  const struct container_row *row)
{
    struct session *session = manager->sessions;

    while (session && !str_equal(session->id, row->session))
        session = session->next;
    return session;
}

bool container_is_running(struct session_manager *manager, const struct container_row *row)
{
    const struct session *session = session_of(manager, row);

    return session && session->state < SESSION_ENDING;
}

/* Calls on the session itself are uses of the container, too. */
static void take_last_use(const struct session_manager *manager, struct container_row *row)
{
    const struct session *session = session_of(manager, row);

    if (session)
        row->used_ms = MAX(row->used_ms, session->used_ms);
}

int container_find(struct session_manager *manager, const char *tenant, const char *id,
                   struct container_row *ret, struct error *err)
{
    struct container_row row;
    int r = str_starts(id, "cntr_") ? container_row_get(manager->spec.index, id, &row, err) : 0;

    if (r < 0)
        return r;
    if (r == 0 || !str_equal(row.tenant, tenant))
        return error_set(err, -ENOENT, ERROR_CONTAINER_NOT_FOUND, "there is no container '%.*s'",
                         ID_MAX, id);
    take_last_use(manager, &row);
    *ret = row;
    return 0;
}

int container_of_session(struct session_manager *manager, const struct session *session,
                         struct container_row *ret)
{
    int r = container_row_of_session(manager->spec.index, session->id, ret, NULL);

    return r > 0 ? 0 : r < 0 ? r : -ENOENT;
}

int container_session(struct session_manager *manager, struct container_row *row,
                      struct session **ret, struct error *err)
{
    struct session *session = session_of(manager, row);

    if (!session || session->state >= SESSION_ENDING)
        return error_set(err, -ESHUTDOWN, ERROR_CONTAINER_EXPIRED,
                         "the container '%s' has expired and its data is gone; make a new one",
                         row->id);
    container_touch(manager, row);
    *ret = session;
    return 0;
}

void container_touch(struct session_manager *manager, struct container_row *row)
{
    struct session *session = session_of(manager, row);
    uint64_t before_ms = row->used_ms;
    struct error err = {0};

    if (!session || session->state >= SESSION_ENDING)
        return;
    session_touch(session);
    row->used_ms = MAX(session->used_ms, before_ms);
    if (row->used_ms - before_ms >= TOUCH_MS &&
        container_row_put(manager->spec.index, row, &err) < 0)
        log_warning("last use of container %s: %s, continuing without storing it", row->id,
                    err.text);
}

int container_remove(struct session_manager *manager, const struct container_row *row,
                     const struct caller *caller, struct error *err)
{
    struct session *session = session_of(manager, row);
    int r = container_row_drop(manager->spec.index, row->id, err);

    if (r == 0 && session)
        session_end_by(session, caller, "deleted", NULL, NULL);
    return r;
}

struct call {
    struct session_manager *manager;
    void (*each)(void *ctx, const struct container_row *row);
    void *ctx;
};

static void on_row(void *ctx, const struct container_row *found)
{
    struct call *call = ctx;
    struct container_row row = *found;

    take_last_use(call->manager, &row);
    call->each(call->ctx, &row);
}

int container_each(struct session_manager *manager, const char *tenant,
                   void (*each)(void *ctx, const struct container_row *row), void *ctx,
                   struct error *err)
{
    struct call call = {.manager = manager, .each = each, .ctx = ctx};

    return container_row_each(manager->spec.index, tenant, on_row, &call, err);
}

/* ---- files: their rows ---- */

struct finding {
    const char *id;
    struct container_file *file;
    char *path;
    bool is_found;
};

static void on_file(void *ctx, const struct container_file *file)
{
    struct finding *finding = ctx;

    if (finding->is_found || !str_equal(file->id, finding->id))
        return;
    *finding->file = *file;
    finding->file->path = finding->path;
    finding->is_found = str_copy(finding->path, CONTAINER_PATH_MAX, file->path);
}

int container_file_find(struct session_manager *manager, const char *container, const char *id,
                        struct container_file *ret, char path[CONTAINER_PATH_MAX],
                        struct error *err)
{
    struct finding finding = {.id = id, .file = ret, .path = path};
    int r = container_file_rows(manager->spec.index, container, on_file, &finding, err);

    if (r < 0 || finding.is_found)
        return r;
    return error_set(err, -ENOENT, ERROR_FILE_NOT_FOUND,
                     "there is no file '%.*s' in this container", ID_MAX, id);
}

int container_file_each(struct session_manager *manager, const char *container,
                        void (*each)(void *ctx, const struct container_file *file), void *ctx,
                        struct error *err)
{
    return container_file_rows(manager->spec.index, container, each, ctx, err);
}

void container_box_path(const char *path, char *ret, size_t size)
{
    if (str_starts(path, CONTAINER_FOLDER "/"))
        str_format(ret, size, "/workspace%s", path + strlen(CONTAINER_FOLDER));
    else
        str_format(ret, size, "%s", path);
}

const char *container_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

void containers_start(struct session_manager *manager)
{
    struct error err = {0};

    if (manager->spec.index && container_row_drop_provisional(manager->spec.index, &err) < 0)
        log_warning("containers that an earlier broker did not complete: %s, continuing without "
                    "removing them",
                    err.text);
}
