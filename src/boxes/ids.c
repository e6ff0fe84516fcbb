/*
 * ids.c - which host ids a box gets, and the maps for them.
 *
 * Root takes two ids for each box out of a range that no user has: from /etc/subuid (user bailey,
 * else root), else from SANDBOX_ID_BASE. For an ordinary user newuidmap(1) maps the user's own id
 * and one of the user's range; without it only the own id can be mapped, and warden and guest share
 * it. Inside an engine the caller says which ids are free: files of the host mean other ids than
 * ours there.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "boxes/launch.h"
#include "sys/subid.h"

static void choose_for_root(const struct launch_spec *spec, struct id_plan *ids)
{
    unsigned first, count, slot;

    subid_find_for_root(spec->id_base, &first, &count);
    if (count > 2 * PAIR_FIRST) { /* those are the engine's and of its one box: pids can be small */
        first += PAIR_FIRST;
        count -= PAIR_FIRST;
    }
    slot =
        (unsigned)getpid() % (count / 2); /* two boxes rarely share, and lose little if they do */
    ids->way = IDS_DIRECT;
    ids->host_warden = first + 2 * slot;
    ids->host_guest = first + 2 * slot + 1;
}

void ids_choose(const struct launch_spec *spec, struct id_plan *ids)
{
    unsigned uid_first, gid_first, count;

    memset(ids, 0, sizeof(*ids));
    ids->way = IDS_SINGLE;
    ids->is_nested = spec->ids != LAUNCH_IDS_CHOOSE;
    if (spec->ids == LAUNCH_IDS_SINGLE)
        return;
    if (spec->ids == LAUNCH_IDS_PAIR) {
        ids->way = IDS_PAIR;
        ids->host_warden = spec->warden_id;
        ids->host_guest = spec->guest_id;
        return;
    }
    if (geteuid() == 0) {
        choose_for_root(spec, ids);
        return;
    }
    if (access(NEWUIDMAP, X_OK) < 0 || access(NEWGIDMAP, X_OK) < 0 ||
        !subid_find("/etc/subuid", geteuid(), &uid_first, &count) ||
        !subid_find("/etc/subgid", geteuid(), &gid_first, &count))
        return;
    ids->way = IDS_HELPER;
    ids->sub_uid = uid_first;
    ids->sub_gid = gid_first;
}

/* Raw calls, as everywhere: there is one thread. */
int ids_lend(uint32_t owner, bool keeps_files)
{
    if (syscall(SYS_setresuid, -1, owner, -1) < 0)
        return -errno;
    if (keeps_files)
        syscall(SYS_setfsuid,
                getuid()); /* and with it the rights on files, in the kernel's sense */
    return 0;
}

void ids_return(void)
{
    uid_t own = getuid();

    if (syscall(SYS_setresuid, -1, own, -1) < 0 || geteuid() != own)
        abort(); /* never go on with another id */
}

/*
 * Where an outer container masks parts of /proc, the engine cannot mount one of its own, and the
 * container's shows other pids: the fdinfo of the pidfd has the right one.
 */
pid_t ids_proc_number(pid_t pid, int pid_fd)
{
    char path[64], text[512] = "";
    const char *line;
    long number;

    if (readlink("/proc/self", text, sizeof(text) - 1) > 0 && strtol(text, NULL, 10) == getpid())
        return pid;
    str_format(path, sizeof(path), "/proc/self/fdinfo/%d", pid_fd);
    if (fd_read_text_at(AT_FDCWD, path, text, sizeof(text)) < 0)
        return pid;
    line = strstr(text, "\nPid:");
    number = line ? strtol(line + strlen("\nPid:"), NULL, 10) : 0;
    return number > 0 ? (pid_t)number : pid;
}

static int write_map(pid_t pid, const char *file, const char *text)
{
    char path[64];

    str_format(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    return fd_write_text_at(AT_FDCWD, path, text);
}

static int write_direct(pid_t pid, const struct id_plan *ids)
{
    char text[128];
    int r;

    str_format(text, sizeof(text), "0 %llu 1\n%d %llu 1\n", (unsigned long long)ids->host_warden,
               GUEST_ID, (unsigned long long)ids->host_guest);
    r = write_map(pid, "uid_map", text);
    return r < 0 ? r : write_map(pid, "gid_map", text);
}

static int write_single(pid_t pid)
{
    char text[64];
    int r = write_map(pid, "setgroups", "deny");

    if (r < 0 && r != -ENOENT)
        return r;
    str_format(text, sizeof(text), "%d %u 1\n", GUEST_ID, (unsigned)geteuid());
    r = write_map(pid, "uid_map", text);
    if (r < 0)
        return r;
    str_format(text, sizeof(text), "%d %u 1\n", GUEST_ID, (unsigned)getegid());
    return write_map(pid, "gid_map", text);
}

static int run_helper(const char *helper, pid_t pid, uint64_t own, uint64_t sub)
{
    char texts[3][24];
    char guest[16];
    char *argv[9] = {(char *)helper, texts[0], "0", texts[1], "1", guest, texts[2], "1", NULL};
    char *env[] = {NULL};
    pid_t helper_pid;
    int status;
    int r;

    str_format(texts[0], sizeof(texts[0]), "%d", (int)pid);
    str_format(texts[1], sizeof(texts[1]), "%llu", (unsigned long long)own);
    str_format(texts[2], sizeof(texts[2]), "%llu", (unsigned long long)sub);
    str_format(guest, sizeof(guest), "%d", GUEST_ID);
    r = posix_spawn(&helper_pid, helper, NULL, NULL, argv, env);
    if (r != 0)
        return -r;
    while (waitpid(helper_pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -errno;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

static int write_by_helper(pid_t pid, const struct id_plan *ids)
{
    int r = run_helper(NEWUIDMAP, pid, geteuid(), ids->sub_uid);

    return r < 0 ? r : run_helper(NEWGIDMAP, pid, getegid(), ids->sub_gid);
}

int ids_write(const struct launched *launched, const struct id_plan *ids, bool *ret_split,
              bool *ret_groups, struct error *err)
{
    pid_t pid = launched->pid;
    int r = -EPERM;

    if (ids->is_nested)
        pid = ids_proc_number(pid, launched->pid_fd);

    if (ids->way == IDS_DIRECT || ids->way == IDS_PAIR)
        r = write_direct(pid, ids);
    else if (ids->way == IDS_HELPER)
        r = write_by_helper(pid, ids);
    *ret_split = *ret_groups = r == 0;
    if (r == 0)
        return 0;
    /* An engine's own id is never a guest's because something failed. */
    if (ids->way != IDS_PAIR)
        r = write_single(pid);
    return r < 0 ? error_stage(err, "write id maps", r) : 0;
}
