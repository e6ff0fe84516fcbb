/* artifacts.c - saved outputs by id; see artifacts.h. */
#include "session/artifacts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "session/session_private.h"

/* Inside output/, beside the folders of sessions: linkat(2) cannot link across mounts. */
#define FOLDER ".by-id"
#define SECRET "links"
/* The wall clock may be set, so expiry times are compared again at this interval */
#define LOOK_MS 900000
#define AGAIN_MS 60000 /* wait after a file that could not be removed */

static int open_store(const struct session_manager *manager, bool makes_it)
{
    int output_fd = manager->spec.folders.output_fd;
    int fd;

    if (makes_it && mkdirat(output_fd, FOLDER, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(output_fd, FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* ---- hashing bytes while they are written ---- */

void artifact_begin(struct artifact_digest *digest)
{
    sha256_begin(&digest->hash);
    digest->head_length = 0;
    digest->bytes = 0;
}

void artifact_add(struct artifact_digest *digest, const void *data, size_t length)
{
    size_t count = MIN(length, sizeof(digest->head) - digest->head_length);

    memcpy(digest->head + digest->head_length, data, count);
    digest->head_length += count;
    digest->bytes += length;
    sha256_add(&digest->hash, data, length);
}

/* ---- removal ---- */

/* Collects the ids of rows, to be removed after the list was read. */
static void note_id(void *ctx, const struct output_row *row)
{
    char ***ids = ctx;

    if (!row->is_kept)
        strv_push(ids, row->id);
}

/* Returns false if some could not be removed. */
static bool remove_all(struct session_manager *manager, char *const *ids)
{
    struct error err = {0};
    bool is_done = true;

    for (size_t i = 0; ids && ids[i]; i++) {
        if (artifact_remove(manager, ids[i], &err) == 0)
            continue;
        log_warning("removing output %s: %s, continuing without removing it", ids[i], err.text);
        is_done = false;
    }
    return is_done;
}

/* Sets the timer to the first expiry time. */
static void expect(struct session_manager *manager, uint64_t least_ms)
{
    uint64_t now_ms = clock_wall_ms(), next_ms, wait_ms = LOOK_MS;

    if (output_row_next(manager->spec.index, &next_ms, NULL) == 0) {
        wait_ms = next_ms > now_ms ? MIN(next_ms - now_ms, (uint64_t)LOOK_MS) : 0;
        wait_ms = next_ms == UINT64_MAX ? UINT64_MAX : wait_ms; /* no artifact expires */
    }
    manager->spec.reactor->ops->timer_set(manager->artifacts, MAX(wait_ms, least_ms));
}

/* Removes a limited number of expired artifacts in each turn of the loop. */
static void on_due(void *ctx)
{
    struct session_manager *manager = ctx;
    CLEANUP(strv_freep) char **ids = strv_new();
    bool is_done =
        ids && output_row_due(manager->spec.index, clock_wall_ms(), note_id, &ids, NULL) == 0;

    is_done = is_done && remove_all(manager, ids);
    expect(manager, is_done ? 0 : AGAIN_MS);
}

int artifact_remove(struct session_manager *manager, const char *id, struct error *err)
{
    CLEANUP(fd_closep) int store_fd = open_store(manager, false);
    struct output_row row;
    int r = output_row_get(manager->spec.index, id, &row, err);

    if (r <= 0)
        return r;
    if (store_fd >= 0 && unlinkat(store_fd, id, 0) < 0 && errno != ENOENT)
        return error_errno(err, "removing the output '%s'", id);
    r = output_row_drop(manager->spec.index, id, err);
    if (r == 0 && row.is_kept)
        artifacts_recount(manager, row.tenant);
    return r;
}

void artifacts_end(struct session *session)
{
    struct session_manager *manager = session->manager;
    CLEANUP(strv_freep) char **ids = strv_new();

    if (!manager->spec.index)
        return;
    if (ids && output_row_each(manager->spec.index, session->id, note_id, &ids, NULL) == 0)
        remove_all(manager, ids);
    if (tenant_keeps(manager->tenants, session->tenant))
        artifacts_recount(manager, session->tenant);
}

/* ---- artifacts that are kept, and the disk quota ---- */

struct keeping {
    struct session_manager *manager;
    uint64_t bytes;
};

/* Whether a live session counts its bytes already: it is the newest artifact of its name there. */
static bool is_held(const struct session_manager *manager, const struct output_row *row)
{
    struct session *session = manager->sessions;

    while (session && !str_equal(session->id, row->session))
        session = session->next;
    return session && session->state != SESSION_ENDED && session_output_is_newest(session, row);
}

static void add_kept(void *ctx, const struct output_row *row)
{
    struct keeping *keeping = ctx;

    if (!is_held(keeping->manager, row))
        keeping->bytes += row->bytes;
}

void artifacts_recount(struct session_manager *manager, const char *tenant)
{
    struct keeping keeping = {.manager = manager};
    struct error err = {0};

    if (output_row_kept(manager->spec.index, tenant, add_kept, &keeping, &err) < 0)
        log_warning("outputs that '%s' keeps: %s, continuing with what was counted before", tenant,
                    err.text);
    else
        tenant_keep(manager->tenants, tenant, keeping.bytes);
}

static void note_tenant(void *ctx, const struct output_row *row)
{
    char ***tenants = ctx;

    for (size_t i = 0; i < strv_length(*tenants); i++)
        if (str_equal((*tenants)[i], row->tenant))
            return;
    strv_push(tenants, row->tenant);
}

void artifacts_adopt(struct session_manager *manager)
{
    CLEANUP(strv_freep) char **tenants = strv_new();

    if (tenants && manager->spec.index)
        output_row_kept(manager->spec.index, NULL, note_tenant, &tenants, NULL);
    for (size_t i = 0; tenants && tenants[i]; i++)
        artifacts_recount(manager, tenants[i]);
}

/* ---- saving ---- */

struct looking {
    const char *name, *sha256;
    struct output_row *same; /* filled with an earlier artifact that has the same bytes */
    bool has_same;
    char **old; /* strv: ids of other artifacts of this name */
};

static void look_at(void *ctx, const struct output_row *row)
{
    struct looking *looking = ctx;

    if (!str_equal(row->name, looking->name))
        return;
    if (str_equal(row->sha256, looking->sha256)) {
        *looking->same = *row;
        looking->has_same = true;
    } else if (!row->is_kept) {
        strv_push(&looking->old, row->id);
    }
}

static int add_link(const struct session_manager *manager, int folder_fd, const char *name,
                    const char *id)
{
    CLEANUP(fd_closep) int store_fd = open_store(manager, true);

    if (store_fd < 0)
        return store_fd;
    return linkat(folder_fd, name, store_fd, id, 0) < 0 ? -errno : 0;
}

static void fill_row(const struct session *session, const char *name,
                     struct artifact_digest *digest, struct output_row *row)
{
    uint8_t bytes[SHA256_BYTES];
    uint64_t now_ms = clock_wall_ms();

    *row = (struct output_row){
        .bytes = digest->bytes,
        .created_ms = now_ms,
        .expires_ms = now_ms + session->manager->spec.config->artifact_ms,
    };
    sha256_end(&digest->hash, bytes);
    sha256_text(bytes, row->sha256);
    str_copy(row->session, sizeof(row->session), session->id);
    str_copy(row->tenant, sizeof(row->tenant), session_tenant(session));
    str_copy(row->name, sizeof(row->name), name);
    str_copy(row->type, sizeof(row->type), output_sniff(name, digest->head, digest->head_length));
}

int artifact_save(struct session *session, int folder_fd, const char *name,
                  struct artifact_digest *digest, struct output_row *ret, struct error *err)
{
    struct session_manager *manager = session->manager;
    struct output_row row, same;
    struct looking looking = {.name = name, .same = &same};
    CLEANUP(strv_freep) char **old = NULL;
    int r;

    fill_row(session, name, digest, &row);
    looking.sha256 = row.sha256;
    looking.old = strv_new();
    r = looking.old ? output_row_each(manager->spec.index, session->id, look_at, &looking, err)
                    : error_memory(err);
    old = looking.old;
    if (r < 0)
        return r;
    if (looking.has_same) {
        same.expires_ms = row.expires_ms;
        row = same;
    } else {
        r = id_make(row.id, "a");
        if (r == 0)
            r = add_link(manager, folder_fd, name, row.id);
        if (r < 0)
            return error_set(err, r, ERROR_ENGINE, "giving '%.100s' an id: %s", name, strerror(-r));
    }
    r = output_row_put(manager->spec.index, &row, err);
    if (r < 0)
        return r;
    remove_all(manager, old);
    expect(manager, 0);
    *ret = row;
    return 0;
}

/* ---- finding and listing ---- */

static int not_found(const char *id, struct error *err)
{
    return error_set(err, -ENOENT, ERROR_NO_ROUTE, "there is no output '%.*s'", ID_MAX, id);
}

/* "a_" and hexadecimal digits, because the id becomes a file name. */
static bool is_id(const char *id)
{
    size_t length = strlen(id);

    return length > 2 && length < ID_MAX && strncmp(id, "a_", 2) == 0 &&
           strspn(id + 2, "0123456789abcdef") == length - 2;
}

int artifact_find(struct session_manager *manager, const char *id, struct output_row *ret,
                  struct error *err)
{
    int r = is_id(id) ? output_row_get(manager->spec.index, id, ret, err) : 0;

    if (r < 0)
        return r;
    if (r > 0 && !ret->is_kept && ret->expires_ms <= clock_wall_ms())
        r = 0; /* expired, but the timer has not removed it yet */
    return r > 0 ? 0 : not_found(id, err);
}

int artifact_open(struct session_manager *manager, const char *id, struct error *err)
{
    CLEANUP(fd_closep) int store_fd = open_store(manager, false);
    int fd = is_id(id) && store_fd >= 0
                 ? openat(store_fd, id, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
                 : -1;

    return fd < 0 ? not_found(id, err) : fd;
}

int artifact_keep(struct session_manager *manager, struct output_row *row, bool is_kept,
                  struct error *err)
{
    uint64_t now_ms = clock_wall_ms();
    bool is_more = is_kept && !row->is_kept && !is_held(manager, row);
    int r = is_more ? tenant_take(manager->tenants, row->tenant, QUOTA_DISK, row->bytes, err) : 0;

    if (r < 0)
        return r;
    row->is_kept = is_kept;
    row->expires_ms = MAX(row->expires_ms, now_ms + manager->spec.config->artifact_ms);
    r = output_row_put(manager->spec.index, row, err);
    if (is_more) /* only checks for room: kept bytes are counted as one sum by artifacts_recount()
                  */
        tenant_give(manager->tenants, row->tenant, QUOTA_DISK, row->bytes);
    if (r == 0)
        artifacts_recount(manager, row->tenant);
    expect(manager, 0);
    return r;
}

int artifacts_list(struct session_manager *manager, const char *tenant, bool only_kept,
                   void (*each)(void *ctx, const struct output_row *row), void *ctx,
                   struct error *err)
{
    struct output_filter filter = {.tenant = tenant,
                                   .only_kept = only_kept,
                                   .now_ms = clock_wall_ms(),
                                   .maximum = LIMIT_ARTIFACTS_LISTED};

    return output_row_list(manager->spec.index, &filter, each, ctx, err);
}

int artifacts_each(struct session_manager *manager, const char *session,
                   void (*each)(void *ctx, const struct output_row *row), void *ctx,
                   struct error *err)
{
    return output_row_each(manager->spec.index, session, each, ctx, err);
}

int artifacts_secret(struct session_manager *manager, uint8_t secret[SHA256_BYTES],
                     struct error *err)
{
    return index_secret(manager->spec.index, SECRET, secret, err);
}

/* ---- start and stop ---- */

/* A broker that died between storing the bytes and storing the row left bytes without a row. */
static void remove_strays(struct session_manager *manager)
{
    CLEANUP(fd_closep) int store_fd = open_store(manager, false);
    DIR *folder = store_fd < 0 ? NULL : fdopendir(store_fd);
    struct dirent *entry;
    struct output_row row;

    if (!folder)
        return;
    fd_take(&store_fd);
    while ((entry = readdir(folder))) {
        if (is_id(entry->d_name) &&
            output_row_get(manager->spec.index, entry->d_name, &row, NULL) == 0)
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    closedir(folder);
}

int artifacts_start(struct session_manager *manager)
{
    if (!manager->spec.index)
        return 0;
    manager->artifacts = reactor_timer(manager->spec.reactor, on_due, manager);
    if (!manager->artifacts)
        return -ENOMEM;
    remove_strays(manager);
    expect(manager, 0);
    return 0;
}

void artifacts_stop(struct session_manager *manager)
{
    manager->spec.reactor->ops->timer_remove(ptr_take(&manager->artifacts));
}
