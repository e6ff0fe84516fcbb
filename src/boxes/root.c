/*
 * root.c - what the root of a box is made of: the host's /usr or a given folder, a few files of our
 * own, the devices a program needs, a /proc with its sensitive parts covered.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "boxes/plan_builder.h"
#include "sys/calls.h"

/* Folders that are links into /usr on most systems and folders of their own on some. */
static const char *const usr_links[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

/* What programs look up in /etc that says nothing about this host and its people. */
static const char *const etc_names[] = {"alternatives",    "ld.so.cache", "ssl/certs",
                                        "ssl/openssl.cnf", "fonts",       "pki/tls"};

static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};

/*
 * Files that reveal the host beyond its hardware, and `locks`, by which boxes could send each other
 * messages. Files that only root can read (kcore, kmsg, slabinfo, ...) need no cover: the host's
 * root does not exist in a box. The rest of /proc is read-only and documented (docs/security.md,
 * side channels).
 */
static const char *const proc_files[] = {
    "keys",          "key-users",  "cmdline",       "interrupts", "schedstat",
    "sched_debug",   "timer_list", "latency_stats", "modules",    "kcore",
    "sysrq-trigger", "kmsg",       "locks",
};
static const char *const proc_folders[] = {"acpi", "scsi", "asound"};

/* Folders of a given root that the box replaces. */
static const char *const own_folders[] = {"proc", "sys", "dev",   "tmp",        "workspace", "home",
                                          "run",  "mnt", "media", "lost+found", "bailey"};

/* `lower`: a folder above the source, of which the box has one overlay for all that is taken out of
 * it; NULL: a folder has its own, a file none. */
static void bind_if_there(struct plan_builder *builder, const char *lower, const char *source,
                          const char *target, bool clone_here)
{
    struct stat status;
    struct plan_step *step;

    if (stat(source, &status) < 0)
        return;
    if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
        return;
    step = plan_builder_step(builder, S_ISDIR(status.st_mode) ? STEP_BIND_DIR : STEP_BIND_FILE,
                             target, source, 0);
    if (lower || S_ISDIR(status.st_mode))
        plan_builder_overlay(builder, lower, clone_here, str_starts(source, "/etc/"));
    if (clone_here && step->inodes != INODES_OF_PART)
        step->source_fd = root_clone_tree(source);
}

/* Makes the folders above a target, each once. */
static void parents(struct plan_builder *builder, const char *target)
{
    for (const char *slash = strchr(target, '/'); slash; slash = strchr(slash + 1, '/'))
        plan_builder_step(builder, STEP_DIR,
                          plan_builder_text(builder, "%.*s", (int)(slash - target), target), NULL,
                          0755);
}

/* A link as a link, a folder as a folder. */
static void copy_link_or_bind(struct plan_builder *builder, const char *lower, const char *source,
                              const char *target, bool clone_here)
{
    char link[256];
    ssize_t length = readlink(source, link, sizeof(link));

    if (length > 0 && length < (ssize_t)sizeof(link))
        plan_builder_step(builder, STEP_SYMLINK, target,
                          plan_builder_text(builder, "%.*s", (int)length, link), 0);
    else if (length < 0 && errno == EINVAL)
        bind_if_there(builder, lower, source, target, clone_here);
}

/*
 * One overlay of the host's root is enough for all that lies in its file system. The kernel refuses
 * it for a mount that has others below it, and whose namespace a user namespace got as a copy:
 * without a clone that has none below, each folder has its own.
 */
static const char *overlay_of_host(struct plan_builder *builder)
{
    int fd = builder->plan.aside ? root_clone_mount("/") : -1;

    if (fd < 0)
        return "/etc";
    builder->plan.overlay = (struct plan_overlay){.lower = "/", .lower_fd = fd};
    return "/";
}

static void host_root(struct plan_builder *builder)
{
    const char *lower = overlay_of_host(builder);
    const char *above_usr = str_equal(lower, "/") ? lower : NULL;

    bind_if_there(builder, above_usr, "/usr", "usr", false);
    for (size_t i = 0; i < ARRAY_SIZE(usr_links); i++)
        copy_link_or_bind(builder, above_usr, plan_builder_text(builder, "/%s", usr_links[i]),
                          usr_links[i], false);
    plan_builder_step(builder, STEP_DIR, "etc", NULL, 0755);
    plan_builder_step(builder, STEP_DIR, "etc/ssl", NULL, 0755);
    if (access("/etc/pki", F_OK) == 0)
        plan_builder_step(builder, STEP_DIR, "etc/pki", NULL, 0755);
    for (size_t i = 0; i < ARRAY_SIZE(etc_names); i++)
        bind_if_there(builder, lower, plan_builder_text(builder, "/etc/%s", etc_names[i]),
                      plan_builder_text(builder, "etc/%s", etc_names[i]), false);
    copy_link_or_bind(builder, lower, "/etc/localtime", "etc/localtime", false);
    plan_builder_step(builder, STEP_FILE, "etc/passwd",
                      "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n"
                      "nobody:x:65534:65534:nobody:/:/bin/false\n",
                      0644);
    plan_builder_step(builder, STEP_FILE, "etc/group",
                      "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n", 0644);
    plan_builder_step(builder, STEP_FILE, "etc/hosts",
                      "127.0.0.1 localhost bailey\n::1 localhost\n", 0644);
    plan_builder_step(builder, STEP_FILE, "etc/hostname", "bailey\n", 0644);
    plan_builder_step(builder, STEP_FILE, "etc/nsswitch.conf",
                      "passwd: files\ngroup: files\nhosts: files\n", 0644);
    plan_builder_step(builder, STEP_DIR, "var", NULL, 0755);
    plan_builder_step(builder, STEP_SYMLINK, "var/tmp", "/tmp", 0);
}

static bool is_own(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(own_folders); i++) {
        if (str_equal(name, own_folders[i]))
            return true;
    }
    return false;
}

static int given_root(struct plan_builder *builder, const char *root, struct error *err)
{
    DIR *folder = opendir(root);
    struct dirent *entry;

    if (!folder) {
        int r = error_errno(err, "opening the root folder '%s'", root);

        if (err)
            err->code = ERROR_BAD_INPUT;
        return r;
    }
    while ((entry = readdir(folder))) {
        if (str_equal(entry->d_name, ".") || str_equal(entry->d_name, "..") ||
            is_own(entry->d_name))
            continue;
        copy_link_or_bind(builder, root, plan_builder_text(builder, "%s/%s", root, entry->d_name),
                          plan_builder_text(builder, "%s", entry->d_name), true);
    }
    closedir(folder);
    return 0;
}

static void devices_and_shares(struct plan_builder *builder)
{
    plan_builder_step(builder, STEP_DIR, "run", NULL, 0755);
    plan_builder_step(builder, STEP_DIR, "dev", NULL, 0755);
    for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
        plan_builder_step(builder, STEP_DEVICE, plan_builder_text(builder, "dev/%s", devices[i]),
                          plan_builder_text(builder, "/dev/%s", devices[i]), 0);
    plan_builder_step(builder, STEP_SYMLINK, "dev/fd", "/proc/self/fd", 0);
    plan_builder_step(builder, STEP_SYMLINK, "dev/stdin", "/proc/self/fd/0", 0);
    plan_builder_step(builder, STEP_SYMLINK, "dev/stdout", "/proc/self/fd/1", 0);
    plan_builder_step(builder, STEP_SYMLINK, "dev/stderr", "/proc/self/fd/2", 0);
    plan_builder_step(builder, STEP_SYMLINK, "dev/ptmx", "pts/ptmx", 0);
    plan_builder_step(builder, STEP_DEVPTS, "dev/pts", "newinstance,ptmxmode=0666,mode=0620,max=64",
                      0);
    plan_builder_step(builder, STEP_SHARE, "dev/shm", NULL, 01777);
    /*
     * Owned by the guest: in a sticky folder of another user the kernel lets only its owner follow
     * a link (fs.protected_symlinks), not even the warden for the host.
     */
    plan_builder_step(builder, STEP_SHARE, "tmp", NULL, 01777)->is_guests = true;
    plan_builder_step(builder, STEP_DIR, "tmp/output", NULL, 0755)->is_guests = true;
    plan_builder_step(builder, STEP_DIR, "tmp/data", NULL, 0755);
    plan_builder_step(builder, STEP_SHARE, "workspace", NULL, 0755)->is_guests = true;
    /* A second name: code that was written for OpenAI's code_interpreter uses it. */
    plan_builder_step(builder, STEP_DIR, "mnt", NULL, 0755);
    plan_builder_step(builder, STEP_SYMLINK, "mnt/data", "/workspace", 0);
    plan_builder_step(builder, STEP_DIR, "home", NULL, 0755);
    plan_builder_step(builder, STEP_SHARE, "home/user", NULL, 0700)->is_guests = true;
}

/*
 * The number of cores and their arrangement: libraries (joblib, BLAS, the JVM) read it before they
 * start threads, and complain if it is missing. Nothing else of /sys is visible.
 */
static void processors(struct plan_builder *builder)
{
    static const char path[] = "/sys/devices/system/cpu";

    if (access(path, R_OK) < 0)
        return;
    parents(builder, path + 1);
    plan_builder_step(builder, STEP_BIND_DIR, path + 1, path, 0);
}

static void masked_proc(struct plan_builder *builder)
{
    plan_builder_step(builder, STEP_DIR, "proc", NULL, 0555);
    plan_builder_step(builder, STEP_PROC, "proc", NULL, 0);
    for (size_t i = 0; i < ARRAY_SIZE(proc_files); i++) {
        const char *path = plan_builder_text(builder, "/proc/%s", proc_files[i]);
        struct stat status;

        if (stat(path, &status) == 0 && status.st_mode & S_IRWXO)
            plan_builder_step(builder, STEP_MASK_FILE, path + 1, NULL, 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(proc_folders); i++) {
        const char *path = plan_builder_text(builder, "/proc/%s", proc_folders[i]);

        if (access(path, F_OK) == 0)
            plan_builder_step(builder, STEP_MASK_DIR, path + 1, NULL, 0);
    }
    plan_builder_step(builder, STEP_PROC_SEAL, "proc", NULL, 0);
}

/*
 * Must: come after the shares. A dataset that is copied into the folder later appears in the box
 * too; nothing in it is a program of the guest.
 */
static int data_folder(struct plan_builder *builder, const struct launch_spec *spec,
                       struct error *err)
{
    struct plan_step *step;
    struct stat status;

    if (!spec->data)
        return 0;
    if (lstat(spec->data, &status) < 0) {
        int r = error_errno(err, "opening the data folder '%s'", spec->data);

        if (err)
            err->code = ERROR_NOT_FOUND;
        return r;
    }
    if (!S_ISDIR(status.st_mode))
        return error_set(err, -ENOTDIR, ERROR_BAD_INPUT, "'%s' is not a folder", spec->data);
    /* Copied: the child wipes the memory in which the caller's arguments are. */
    step = plan_builder_step(builder, STEP_BIND_DIR, "tmp/data",
                             plan_builder_text(builder, "%s", spec->data), 0);
    step->no_exec = true;
    builder->plan.share_path[SHARE_DATA] = "/tmp/data";
    return root_clone_folder(spec->data, step->target, &step->source_fd, err);
}

/* Must: come after the shares: a bind may lie below /tmp or /home/user. */
static int caller_binds(struct plan_builder *builder, const struct launch_spec *spec,
                        struct error *err)
{
    for (size_t i = 0; i < spec->bind_count; i++) {
        const char *target = spec->binds[i].box;
        size_t before = builder->plan.step_count;

        if (target[0] != '/' || str_equal(target, "/") || str_starts(target, "/proc") ||
            str_starts(target, "/dev/") || strstr(target, "/../"))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%s' cannot be shown in the box",
                             target);
        if (box_mounts_check_bind(target, err) < 0)
            return -EINVAL;
        target = plan_builder_text(builder, "%s", target + 1);
        parents(builder, target);
        /* Copied: the child wipes the memory in which the caller's arguments are. */
        bind_if_there(builder, NULL, plan_builder_text(builder, "%s", spec->binds[i].host), target,
                      true);
        if (builder->steps[builder->plan.step_count - 1].kind == STEP_DIR &&
            builder->plan.step_count >= before)
            return error_set(err, -ENOENT, ERROR_NOT_FOUND, "'%s' does not exist",
                             spec->binds[i].host);
    }
    return 0;
}

/* Host folders over which the root is put together: none is shown in a box, all exist nearly
 * everywhere. */
static const char *const places[] = {"/tmp", "/run", "/mnt", "/var", "/opt", "/home", "/srv"};

/* Bits: the places below which something is that the box shows; a mount would hide it. */
static uint32_t places_of_sources(const struct launch_spec *spec)
{
    const char *folders[] = {spec->root, spec->data, spec->layer, spec->packages, spec->staging};
    uint32_t taken = 0;

    for (size_t i = 0; i < spec->bind_count + ARRAY_SIZE(folders); i++) {
        const char *source =
            i < spec->bind_count ? spec->binds[i].host : folders[i - spec->bind_count];
        char path[PATH_MAX];

        if (!source || !realpath(source, path))
            continue;
        for (size_t n = 0; n < ARRAY_SIZE(places); n++) {
            size_t length = strlen(places[n]);

            if (str_starts(path, places[n]) && (path[length] == '/' || !path[length]))
                taken |= UINT32_C(1) << n;
        }
    }
    return taken;
}

static void choose_places(struct sandbox_plan *plan, const struct launch_spec *spec)
{
    uint32_t taken = places_of_sources(spec);
    struct stat status;

    plan->base = "/proc"; /* every machine has it, and nothing is taken from it any more */
    for (size_t i = 0, found = 0; i < ARRAY_SIZE(places) && found < 2; i++) {
        if (taken & UINT32_C(1) << i || lstat(places[i], &status) < 0 || !S_ISDIR(status.st_mode))
            continue;
        *(found == 0 ? &plan->base : &plan->aside) = places[i];
        found++;
    }
}

void root_shares(struct plan_builder *builder)
{
    builder->plan.share_path[SHARE_WORKSPACE] = "/workspace";
    builder->plan.share_path[SHARE_TMP] = "/tmp";
    builder->plan.share_path[SHARE_HOME] = "/home/user";
}

void root_rules(struct plan_builder *builder)
{
    plan_builder_rule(builder, RULE_READ_DIR, "/");
    plan_builder_rule(builder, RULE_DEVICES, "/dev");
    plan_builder_rule(builder, RULE_WRITE_DIR, "/dev/shm");
    plan_builder_rule(builder, RULE_WRITE_DIR, "/tmp");
    plan_builder_rule(builder, RULE_WRITE_DIR, "/workspace");
    plan_builder_rule(builder, RULE_WRITE_DIR, "/home/user");
}

int root_plan(struct plan_builder *builder, const struct launch_spec *spec, struct error *err)
{
    struct sandbox_plan *plan = &builder->plan;
    uint64_t inodes =
        LIMIT_INODES(spec->disk_bytes) + 2 * spec->file_count + own_programs_inodes(spec);
    uint64_t bytes = spec->disk_bytes + box_mounts_bytes(spec); /* ours are not the guest's */
    int r = 0;

    plan->has_namespaces = true;
    choose_places(plan, spec);
    plan->root_options = plan_builder_text(builder, "mode=0755,size=%llu,nr_inodes=%llu",
                                           (unsigned long long)bytes, (unsigned long long)inodes);
    root_shares(builder);
    if (spec->root)
        r = given_root(builder, spec->root, err);
    else
        host_root(builder);
    if (r < 0)
        return r;
    devices_and_shares(builder);
    processors(builder);
    r = data_folder(builder, spec, err);
    if (r == 0)
        r = caller_binds(builder, spec, err);
    if (r == 0)
        r = box_mounts_plan(builder, spec, err);
    if (r < 0)
        return r;
    masked_proc(builder);
    root_rules(builder);
    if (builder->is_full)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE, "the root of the box has too many parts");
    return 0;
}
