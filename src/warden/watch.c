/*
 * watch.c - limits that no kernel facility enforces here, checked by a timer.
 *
 * Memory where there is no control group, the disk where it is a folder of the host: both are
 * approximate and are labelled so in the result. A file system of the box's own is checked too, so
 * that `disk_full` is a fact; and processes that outlive the command that ends the box are killed
 * again.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "warden/warden_private.h"

#define WATCH_MS 50
#define IDLE_MS 250 /* no cell runs, but a kernel has threads or children that may; or frozen */
#define HIDDEN_BYTES (UINT64_C(1) << 50) /* adds up without wrapping */

/*
 * Bytes below a folder of the host; depth and names are the guest's, so both are bounded. What
 * cannot be looked into, by its mode or its depth, counts as more than any limit.
 */
static uint64_t folder_bytes(int dir_fd, int depth, bool is_shared)
{
    DIR *folder = folder_list(dir_fd, ".");
    struct dirent *entry;
    uint64_t total = 0;

    if (!folder)
        return HIDDEN_BYTES;
    while ((entry = readdir(folder))) {
        struct stat status;
        int below;

        if (entry->d_name[0] == '.' &&
            (!entry->d_name[1] || (entry->d_name[1] == '.' && !entry->d_name[2])))
            continue;
        if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (is_shared && status.st_uid != geteuid() && !(status.st_mode & S_IWOTH))
            continue; /* another's, and nothing of the guest's can be in it */
        if (!is_shared || status.st_uid == geteuid())
            total += (uint64_t)status.st_blocks * 512;
        if (!S_ISDIR(status.st_mode))
            continue;
        if (depth >= LIMIT_TREE_DEPTH) {
            total += HIDDEN_BYTES;
            break;
        }
        below =
            openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below < 0 && errno == ENOENT)
            continue; /* gone meanwhile */
        if (below >= 0)
            total += folder_bytes(below, depth + 1, is_shared);
        else if (!is_shared || status.st_uid == geteuid())
            total += HIDDEN_BYTES;
        fd_closep(&below);
    }
    closedir(folder);
    return total;
}

static uint64_t shares_bytes(const struct sandbox *sandbox)
{
    uint64_t total = 0;

    for (int i = 0; i < _SHARE_MAX; i++) {
        if (i != SHARE_DATA) /* no process in the box can write to it */
            total += folder_bytes(sandbox->share_fd[i], 0, sandbox->plan->counts_own_files);
    }
    return total;
}

/* No limit of the box's holds there: what it leaves on the host's disk is looked at instead. */
static bool staging_is_full(const struct sandbox_plan *plan)
{
    struct statfs status;

    if (!plan->watch_staging || statfs(plan->watch_staging, &status) < 0)
        return false;
    return status.f_bavail < LIMIT_STAGING_FREE / (uint64_t)status.f_bsize ||
           (status.f_files > 0 && status.f_ffree < LIMIT_STAGING_INODES);
}

/* Has a share's disk no block or no inode left? A file system that counts no inodes has 0 of 0. */
static bool share_is_full(int share_fd, uint64_t *ret_bytes)
{
    struct statfs status;

    *ret_bytes = 0;
    if (share_fd < 0 || fstatfs(share_fd, &status) < 0)
        return false;
    *ret_bytes = (status.f_blocks - status.f_bfree) * (uint64_t)status.f_bsize;
    return status.f_bfree == 0 || (status.f_files > 0 && status.f_ffree == 0);
}

static bool is_same_disk(int a_fd, int b_fd)
{
    struct stat a, b;

    return fstat(a_fd, &a) == 0 && fstat(b_fd, &b) == 0 && a.st_dev == b.st_dev;
}

/* In a container each share is a separate file system, as large as all of them together may be. */
static bool some_share_is_full(const struct sandbox *sandbox, uint64_t *ret_bytes)
{
    const int *fds = sandbox->share_fd;
    bool is_full = false;

    *ret_bytes = 0;
    for (int i = 0; i < _SHARE_MAX; i++) {
        uint64_t bytes;
        bool is_seen = false;

        for (int j = 0; j < i; j++)
            is_seen |= is_same_disk(fds[i], fds[j]);
        is_full |= share_is_full(fds[i], &bytes);
        *ret_bytes += is_seen ? 0 : bytes;
    }
    return is_full;
}

/*
 * Over the limit, so that only killing helps. When one file system of a container is full, its
 * guest has got the kernel's error, and a little may be on the others.
 */
static bool is_over_limit(const struct warden *warden)
{
    const struct sandbox_plan *plan = warden->sandbox->plan;
    uint64_t bytes;

    if (!plan->has_container)
        return plan->watch_disk_bytes || plan->watch_staging;
    some_share_is_full(warden->sandbox, &bytes);
    return plan->watch_disk_bytes && bytes > plan->watch_disk_bytes + plan->watch_disk_bytes / 16;
}

/* A fact of the moment: no block or no inode is left, or the folder is over its limit. */
bool watch_disk_full(const struct warden *warden)
{
    const struct sandbox_plan *plan = warden->sandbox->plan;
    uint64_t bytes;

    if (!plan->has_namespaces)
        return shares_bytes(warden->sandbox) > plan->watch_disk_bytes;
    if (plan->has_container)
        return some_share_is_full(warden->sandbox, &bytes) || is_over_limit(warden);
    return staging_is_full(plan) ||
           share_is_full(warden->sandbox->share_fd[SHARE_WORKSPACE], &bytes);
}

static int set_clock(int fd, long every_ms)
{
    struct itimerspec every = {
        .it_interval.tv_nsec = every_ms * 1000000L,
        .it_value.tv_nsec = every_ms * 1000000L,
    };

    return timerfd_settime(fd, 0, &every, NULL) < 0 ? -errno : 0;
}

static void timer_ready(struct loop_source *source, uint32_t events)
{
    struct warden *warden = (struct warden *)((char *)source - offsetof(struct warden, timer));
    const struct sandbox_plan *plan = warden->sandbox->plan;
    uint64_t ticks;

    (void)events;
    if (read(source->fd, &ticks, sizeof(ticks)) < 0)
        return;
    if (warden->frozen && !freeze_look(warden))
        return;
    if (!warden->frozen && warden->is_alone && !kernel_is_watched(warden)) {
        bool is_quiet = proc_tree_is_quiet(warden->sandbox);

        warden->has_clock =
            false; /* an idle box costs nothing, one with threads of its own little */
        set_clock(source->fd, is_quiet ? 0 : IDLE_MS);
        if (is_quiet)
            return;
    }
    if (!warden->frozen)
        zygote_look(warden);
    if (command_is_ending(warden) && !warden->is_alone) {
        proc_tree_kill(warden->sandbox); /* a process forked faster than we looked */
        warden_reap(warden);
    }
    if (plan->watch_memory_bytes && proc_tree_memory(warden->sandbox) > plan->watch_memory_bytes) {
        warden->watchdog_fired = true;
        proc_tree_kill(warden->sandbox);
    }
    if (kernel_memory_is_over(&warden->kernel_memory, warden->sandbox)) {
        warden->watchdog_fired = true;
        proc_tree_kill(warden->sandbox);
    }
    if (watch_disk_full(warden)) {
        warden->disk_was_full = true;
        if (is_over_limit(warden))
            proc_tree_kill(warden->sandbox);
    }
}

int watch_start(struct warden *warden)
{
    CLEANUP(fd_closep) int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    int r;

    if (fd < 0)
        return -errno;
    kernel_memory_open(&warden->kernel_memory, warden->sandbox);
    warden->timer.ready = timer_ready;
    r = loop_add(&warden->loop, &warden->timer, fd, EPOLLIN);
    if (r == 0)
        fd_take(&fd);
    return r;
}

void watch_somebody(struct warden *warden)
{
    warden->is_alone = false;
    watch_clock(warden);
}

void watch_frozen(struct warden *warden)
{
    if (set_clock(warden->timer.fd, IDLE_MS) < 0)
        warden_end(warden);
    warden->has_clock = false;
}

void watch_clock(struct warden *warden)
{
    if (warden->has_clock || warden->frozen)
        return;
    if (set_clock(warden->timer.fd, WATCH_MS) < 0)
        warden_end(warden); /* limits that nothing else enforces */
    warden->has_clock = true;
}
