/*
 * retention.c - what ages out on disk: the output of ended commands (SANDBOX_LOG_TIME) and stored
 * code (SANDBOX_CODE_TIME), which counts in its tenant's disk quota until then.
 *
 * A file of stored code has no tenant, so each has a row in the index. Files of an earlier version
 * have none: they count for no tenant, and those that are too old are removed at the start.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "session/session_private.h"
#include "session/upload.h"

#define LOOK_MS 60000
#define OUTPUTS_AT_ONCE 64 /* of executions, removed in one turn of the loop */
#define FOLDER "executions"
#define FILES_MAX 100000 /* that are looked at when the broker starts */

static int open_folder(const struct session_manager *manager)
{
    return openat(manager->spec.folders.artifacts_fd, FOLDER,
                  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void remove_code(struct session_manager *manager, int folder_fd, const char *name)
{
    if (folder_fd >= 0 && unlinkat(folder_fd, name, 0) < 0 && errno != ENOENT)
        log_warning("stored code '%s': %s, continuing without removing it", name, strerror(errno));
    index_drop_code(manager->spec.index, name, NULL);
}

void retention_code(struct session_manager *manager, const char *tenant, const char *path)
{
    CLEANUP(fd_closep) int folder_fd = -1;
    const char *slash = path ? strrchr(path, '/') : NULL;
    struct index_code code = {.tenant = tenant, .created_ms = clock_wall_ms()};
    struct error err = {0};
    struct stat status;

    if (!slash)
        return;
    folder_fd = open_folder(manager);
    if (folder_fd < 0 || fstatat(folder_fd, slash + 1, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    code.name = slash + 1;
    code.bytes = (uint64_t)status.st_size;
    if (tenant_take(manager->tenants, tenant, QUOTA_DISK, code.bytes, &err) < 0) {
        log_warning("stored code of '%s': %s, continuing without it", tenant, err.text);
        remove_code(manager, folder_fd, code.name);
        return;
    }
    if (index_put_code(manager->spec.index, &code, &err) < 0)
        log_warning("stored code '%s': %s, continuing without its row", code.name, err.text);
}

/* ---- what is too old ---- */

struct due {
    struct session_manager *manager;
    char **names;
};

static void on_old(void *ctx, const struct index_code *code)
{
    struct due *due = ctx;

    if (strv_push(&due->names, code->name) == 0)
        tenant_give(due->manager->tenants, code->tenant, QUOTA_DISK, code->bytes);
}

/* As many as the index says at once; true: there may be more. */
static bool age_code(struct session_manager *manager)
{
    uint64_t now_ms = clock_wall_ms(), keep_ms = manager->spec.config->code_ms;
    struct due due = {.manager = manager, .names = strv_new()};
    CLEANUP(fd_closep) int folder_fd = -1;
    bool is_full;

    if (due.names && now_ms > keep_ms)
        index_due_code(manager->spec.index, now_ms - keep_ms, on_old, &due, NULL);
    if (due.names && due.names[0])
        folder_fd = open_folder(manager);
    for (size_t i = 0; due.names && due.names[i]; i++)
        remove_code(manager, folder_fd, due.names[i]);
    is_full = due.names && strv_length(due.names) >= INDEX_DUE_CODE;
    strv_free(due.names);
    return is_full;
}

static void expect(const struct session_manager *manager)
{
    const struct config *config = manager->spec.config;
    uint64_t wait_ms = MIN(config->log_ms, config->code_ms);

    manager->spec.reactor->ops->timer_set(manager->retention, MIN(wait_ms, (uint64_t)LOOK_MS));
}

bool retention_look(struct session_manager *manager)
{
    uint64_t now_ms = session_manager_now_ms(), keep_ms = manager->spec.config->log_ms;
    unsigned left = OUTPUTS_AT_ONCE;

    for (struct session *at = manager->sessions; at && now_ms > keep_ms && left; at = at->next)
        if (at->state < SESSION_ENDING)
            executions_age(at, now_ms - keep_ms, &left);
    return age_code(manager) || left == 0;
}

/* What is left is for the next turn of the loop, so that requests come between. */
static void on_due(void *ctx)
{
    struct session_manager *manager = ctx;

    if (retention_look(manager)) {
        manager->spec.reactor->ops->timer_set(manager->retention, 0);
    } else {
        uploads_age(manager);
        expect(manager);
    }
}

/* ---- the start ---- */

static void on_sum(void *ctx, const struct index_code *code)
{
    struct session_manager *manager = ctx;

    tenant_hold(manager->tenants, code->tenant, QUOTA_DISK, code->bytes);
}

/* By the time in their inodes. */
static void remove_old_files(const struct session_manager *manager)
{
    uint64_t now_s = clock_wall_ms() / 1000, keep_s = manager->spec.config->code_ms / 1000;
    int folder_fd = open_folder(manager);
    DIR *folder = folder_fd >= 0 ? fdopendir(folder_fd) : NULL;
    const struct dirent *entry;
    struct stat status;

    if (!folder) {
        fd_closep(&folder_fd);
        return;
    }
    for (unsigned count = 0; (entry = readdir(folder)) && count < FILES_MAX; count++) {
        if (fstatat(folder_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode) && (uint64_t)status.st_mtime + keep_s < now_s)
            unlinkat(folder_fd, entry->d_name, 0);
    }
    closedir(folder);
}

int retention_start(struct session_manager *manager)
{
    manager->retention = reactor_timer(manager->spec.reactor, on_due, manager);
    if (!manager->retention)
        return -ENOMEM;
    if (!manager->spec.index)
        return 0;
    remove_old_files(manager);
    index_sum_code(manager->spec.index, on_sum, manager, NULL);
    expect(manager);
    return 0;
}

void retention_stop(struct session_manager *manager)
{
    if (manager->retention)
        manager->spec.reactor->ops->timer_remove(ptr_take(&manager->retention));
}
