/*
 * ids.c - which host ids a box gets, and the maps that say so.
 *
 * Root takes two ids for each box out of a range that no user has: from /etc/subuid (user bailey,
 * else root), else from SANDBOX_ID_BASE. An ordinary user has newuidmap(1) map its own id and one
 * of its range; without that only its own id can be mapped and warden and guest share it.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "launcher/inside.h"

#define ID_RANGE 65536
#define TEXT_MAX (256 * 1024)

static char *read_file(const char *path)
{
    char *text = malloc(TEXT_MAX);

    if (text && fd_read_text_at(AT_FDCWD, path, text, TEXT_MAX) < 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* A line "name:start:count" whose name is one of the two; count at least `least`. */
static bool sub_range(const char *path, const char *name, const char *number, uint64_t least,
                      uint64_t *ret_start, uint64_t *ret_count)
{
    CLEANUP(freep) char *text = read_file(path);
    char *rest = text, *line;

    while (rest && (line = strsep(&rest, "\n"))) {
        char *at = line;
        const char *owner = strsep(&at, ":");
        const char *start = strsep(&at, ":");
        const char *count = at;

        if (!start || !count)
            continue;
        if ((str_equal(owner, name) || str_equal(owner, number)) &&
            str_to_u64(start, ret_start) == 0 && str_to_u64(count, ret_count) == 0 &&
            *ret_count >= least)
            return true;
    }
    return false;
}

/* The login name of an id, from the file alone (a static program has no name services). */
static bool user_name(uid_t id, char *name, size_t size)
{
    CLEANUP(freep) char *text = read_file("/etc/passwd");
    char *rest = text, *line;

    while (rest && (line = strsep(&rest, "\n"))) {
        char *at = line;
        const char *login = strsep(&at, ":");
        uint64_t number;

        strsep(&at, ":");
        if (at && str_to_u64(strsep(&at, ":"), &number) == 0 && number == id)
            return str_copy(name, size, login);
    }
    return false;
}

/* Does any user of this host have an id in the range? Then it is not ours to give away. */
static bool range_is_taken(uint64_t start, uint64_t count)
{
    CLEANUP(freep) char *text = read_file("/etc/passwd");
    char *rest = text, *line;

    while (rest && (line = strsep(&rest, "\n"))) {
        char *at = line;
        uint64_t number;

        strsep(&at, ":");
        strsep(&at, ":");
        if (at && str_to_u64(strsep(&at, ":"), &number) == 0 && number - start < count)
            return true;
    }
    return false;
}

/*
 * Root of a container has only the ids of its own map. A range outside of it is replaced by the
 * upper half of the largest extent there is.
 */
static void fit_into_own_map(uint64_t *start, uint64_t *count)
{
    CLEANUP(freep) char *text = read_file("/proc/self/uid_map");
    char *rest = text, *line;
    uint64_t best_start = *start, best_count = 0;

    while (rest && (line = strsep(&rest, "\n"))) {
        unsigned long long inside, outside, length;

        if (sscanf(line, "%llu %llu %llu", &inside, &outside, &length) != 3)
            continue;
        if (*start >= inside && *start - inside < length && *count <= length - (*start - inside))
            return;
        if (length > best_count) {
            best_start = inside;
            best_count = length;
        }
    }
    if (best_count >= 4) {
        *start = best_start + best_count / 2;
        *count = best_count - best_count / 2;
    }
}

static void choose_for_root(const struct launch_spec *spec, struct id_plan *ids)
{
    uint64_t start = spec->id_base, count = ID_RANGE, slot;

    if (!sub_range("/etc/subuid", "bailey", "bailey", 2, &start, &count) &&
        !sub_range("/etc/subuid", "root", "0", 2, &start, &count)) {
        start = spec->id_base;
        count = ID_RANGE;
    }
    for (int tries = 0; tries < 64 && range_is_taken(start, count); tries++)
        start += ID_RANGE;
    fit_into_own_map(&start, &count);
    slot =
        (uint64_t)getpid() % (count / 2); /* two boxes rarely share, and lose little if they do */
    ids->way = IDS_DIRECT;
    ids->host_warden = start + 2 * slot;
    ids->host_guest = start + 2 * slot + 1;
}

void ids_choose(const struct launch_spec *spec, struct id_plan *ids)
{
    char name[64] = "", number[24];
    uint64_t count;

    memset(ids, 0, sizeof(*ids));
    if (geteuid() == 0) {
        choose_for_root(spec, ids);
        return;
    }
    ids->way = IDS_SINGLE;
    if (access("/usr/bin/newuidmap", X_OK) < 0 || access("/usr/bin/newgidmap", X_OK) < 0)
        return;
    user_name(geteuid(), name, sizeof(name));
    str_format(number, sizeof(number), "%u", (unsigned)geteuid());
    if (sub_range("/etc/subuid", name, number, 1, &ids->sub_uid, &count) &&
        sub_range("/etc/subgid", name, number, 1, &ids->sub_gid, &count))
        ids->way = IDS_HELPER;
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
    int r = run_helper("/usr/bin/newuidmap", pid, geteuid(), ids->sub_uid);

    return r < 0 ? r : run_helper("/usr/bin/newgidmap", pid, getegid(), ids->sub_gid);
}

int ids_write(pid_t pid, const struct id_plan *ids, bool *ret_split, bool *ret_groups,
              struct error *err)
{
    int r = -EPERM;

    if (ids->way == IDS_DIRECT)
        r = write_direct(pid, ids);
    else if (ids->way == IDS_HELPER)
        r = write_by_helper(pid, ids);
    *ret_split = *ret_groups = r == 0;
    if (r == 0)
        return 0;
    r = write_single(pid);
    return r < 0 ? error_stage(err, "write id maps", r) : 0;
}
