/*
 * private.c - a box without namespaces: a private folder of the host, and Landlock rules that leave
 * the guest nothing else to write and little to read.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/id.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "boxes/launch.h"
#include "boxes/plan_builder.h"
#include "sys/owner.h"
#include "sys/subid.h"

#define FOLDER_PREFIX "bailey-"

static const char *const readable[] = {
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/fonts",
    "/etc/mime.types",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/sys/vm",
};
static const char *const devices[] = {"/dev/null", "/dev/zero", "/dev/full", "/dev/random",
                                      "/dev/urandom"};

static const char *base_folder(void)
{
    const char *base = getenv("TMPDIR");

    return base && base[0] == '/' && access(base, W_OK) == 0 ? base : "/tmp";
}

/* `owner` NULL: it stays ours. */
static int make_folder(const char *path, const struct id_plan *owner, mode_t mode,
                       struct error *err)
{
    if (mkdir(path, mode) < 0)
        return error_errno(err, "making the private folder %s", path);
    if (owner && chown(path, (uid_t)owner->host_guest, (gid_t)owner->host_guest) < 0) {
        int r = error_errno(err, "giving %s to the guest", path);

        rmdir(path);
        return r;
    }
    return 0;
}

/* bailey-<maker>-<id>, locked for as long as the box lives (sys/owner.h). */
static int make_top(const struct id_plan *owner, struct launched *launched, struct error *err)
{
    char id[ID_MAX], maker[OWNER_MAX];
    int r = id_make(id, "box");

    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "no random numbers for a name");
    owner_name(maker);
    if (str_format(launched->folder, sizeof(launched->folder), "%s/" FOLDER_PREFIX "%s-%s",
                   base_folder(), maker, id) < 0)
        return error_set(err, -ENAMETOOLONG, ERROR_ENGINE, "TMPDIR is too long");
    r = make_folder(launched->folder, owner, 0700, err);
    if (r == 0) {
        r = owner_hold(launched->folder, &launched->folder_fd);
        if (r < 0)
            error_set(err, r, ERROR_ENGINE, "locking the private folder %s: %s", launched->folder,
                      strerror(-r));
        if (r < 0)
            rmdir(launched->folder); /* it is ours and empty; a sweeper may have been faster */
    }
    if (r < 0)
        launched->folder[0] = 0;
    return r;
}

static int make_folders(const struct id_plan *owner, struct launched *launched,
                        struct plan_builder *builder, struct error *err)
{
    static const char *const names[] = {"workspace", "tmp", "home", "tmp/output"};
    static const enum share shares[] = {SHARE_WORKSPACE, SHARE_TMP, SHARE_HOME};
    int r = -EAGAIN;

    /* A sweeper may find it before it is locked; then it is gone, and another is made. */
    for (int tries = 0; tries < OWNER_TRIES && r == -EAGAIN; tries++)
        r = make_top(owner, launched, err);
    for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++) {
        const char *path = plan_builder_text(builder, "%s/%s", launched->folder, names[i]);

        r = make_folder(path, owner, 0700, err);
        if (i < ARRAY_SIZE(shares))
            builder->plan.share_path[shares[i]] = path;
    }
    return r;
}

int private_plan(struct plan_builder *builder, const struct launch_spec *spec,
                 const struct id_plan *ids, struct launched *launched, struct error *err)
{
    struct sandbox_plan *plan = &builder->plan;
    /* The guest's own id; a container's root that may not give one away is like any other user. */
    const struct id_plan *owner = ids->way == IDS_DIRECT && subid_may_give() ? ids : NULL;
    int r;

    if (spec->root)
        return error_set(err, -EINVAL, ERROR_REFUSED,
                         "a root folder needs namespaces, and they are refused here");
    if (spec->data)
        return error_set(err, -EINVAL, ERROR_REFUSED,
                         "a data folder needs namespaces, and they are refused here");
    if (spec->layer || spec->packages || spec->stages != STAGING_NONE)
        return error_set(err, -EINVAL, ERROR_REFUSED,
                         "templates need namespaces, and they are refused here");
    plan->has_namespaces = false;
    /* The warden drops to the guest's id at once: there is nothing here it could be privileged in.
     */
    plan->warden_id = owner ? (uid_t)owner->host_guest : geteuid();
    plan->clears_groups = owner != NULL;
    r = make_folders(owner, launched, builder, err);
    if (r == 0)
        r = own_programs_write(builder, spec, launched->folder, err);
    if (r < 0)
        return r;
    private_rules(builder, spec);
    if (builder->is_full)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE, "too many folders to show");
    return 0;
}

void private_rules(struct plan_builder *builder, const struct launch_spec *spec)
{
    const struct sandbox_plan *plan = &builder->plan;

    for (size_t i = 0; i < ARRAY_SIZE(readable); i++) {
        struct stat status;

        if (stat(readable[i], &status) == 0)
            plan_builder_rule(builder, S_ISDIR(status.st_mode) ? RULE_READ_DIR : RULE_READ_FILE,
                              readable[i]);
    }
    for (size_t i = 0; i < spec->bind_count; i++)
        plan_builder_rule(builder, RULE_READ_DIR,
                          plan_builder_text(builder, "%s", spec->binds[i].host));
    for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
        plan_builder_rule(builder, RULE_DEVICE_FILE, devices[i]);
    /* The shares, not the folder that holds them: what is written has to be where it is measured.
     */
    for (int i = 0; i < _SHARE_MAX; i++) {
        if (plan->share_path[i])
            plan_builder_rule(builder, RULE_WRITE_DIR, plan->share_path[i]);
    }
}

unsigned private_tasks(uid_t id)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    unsigned count = 0;

    while (proc && (entry = readdir(proc))) {
        char path[300], text[1024];
        const char *tail;
        struct stat status;
        unsigned threads;

        if (!isdigit((unsigned char)entry->d_name[0]) ||
            fstatat(dirfd(proc), entry->d_name, &status, 0) < 0 || status.st_uid != id)
            continue;
        str_format(path, sizeof(path), "%s/stat", entry->d_name);
        if (fd_read_text_at(dirfd(proc), path, text, sizeof(text)) < 0)
            continue;
        tail = strrchr(text, ')'); /* field 20 is num_threads: proc(5) */
        if (tail && sscanf(tail,
                           ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
                           "%*d %u",
                           &threads) == 1)
            count += threads;
    }
    if (proc)
        closedir(proc);
    return count;
}

void private_remove(const char *path)
{
    if (path[0])
        folder_remove(AT_FDCWD, path);
}

/* bailey-<maker>-box_...; <maker> was a pid alone in older versions, which locked it too. */
static bool is_named_by_us(const char *name)
{
    const char *at = name + strlen(FOLDER_PREFIX), *rest;

    if (!str_starts(name, FOLDER_PREFIX))
        return false;
    rest = owner_skip_name(at);
    return str_starts(rest ? rest : at + strspn(at, "0123456789"), "-box_");
}

bool private_has(const char *path)
{
    const char *base = base_folder();
    size_t length = strlen(base);

    return strncmp(path, base, length) == 0 && path[length] == '/' &&
           is_named_by_us(path + length + 1);
}

/*
 * Any user can make a folder with such a name: only those of ids that boxes get are swept. The lock
 * is kept until the folder is removed, otherwise a new maker could take it for its own in between.
 */
static void sweep_one(int base_fd, const char *name)
{
    CLEANUP(fd_closep) int fd = -1;
    struct stat status;
    int r;

    if (fstatat(base_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(status.st_mode) ||
        (status.st_uid != geteuid() && (geteuid() != 0 || status.st_uid < 65536)))
        return;
    r = owner_inherit(base_fd, name, &fd);
    if (r == -EACCES) { /* its guest closed it */
        fd_closep(&fd);
        fd = folder_open(base_fd, name);
        r = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;
    }
    if (r == 0)
        folder_remove(base_fd, name);
}

void private_sweep(void)
{
    const char *base = base_folder();
    DIR *folder = opendir(base);
    struct dirent *entry;

    if (!folder)
        return;
    while ((entry = readdir(folder))) {
        if (is_named_by_us(entry->d_name))
            sweep_one(dirfd(folder), entry->d_name);
    }
    closedir(folder);
}
