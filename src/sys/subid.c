/* subid.c - ranges of ids that a user may map; see subid.h. */
#include "sys/subid.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sys/calls.h"

#define TEXT_MAX (256 * 1024)

/* The whole file, or NULL: one that is not there is empty. */
static char *read_file(const char *path)
{
    char *text = malloc(TEXT_MAX);

    if (text && fd_read_text_at(AT_FDCWD, path, text, TEXT_MAX) < 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* The number in the third field of a line of /etc/passwd; the line is cut. */
static bool line_uid(char *line, const char **ret_name, uint64_t *ret)
{
    *ret_name = strsep(&line, ":");
    strsep(&line, ":");
    return line && str_to_u64(strsep(&line, ":"), ret) == 0;
}

/* The user's name by its number, without NSS: static programs cannot load its modules. */
static bool find_user_name(unsigned uid, char *name, size_t size)
{
    CLEANUP(freep) char *text = read_file("/etc/passwd");
    char *rest = text, *line;
    const char *login;
    uint64_t number;

    while (rest && (line = strsep(&rest, "\n"))) {
        if (line_uid(line, &login, &number) && number == uid)
            return str_copy(name, size, login);
    }
    return false;
}

/* A line "owner:first:count" of one of the two owners, with at least `least` ids. */
static bool find_range(const char *path, const char *name, const char *number, uint64_t least,
                       unsigned *ret_first, unsigned *ret_count)
{
    CLEANUP(freep) char *text = read_file(path);
    char *rest = text, *line;

    while (rest && (line = strsep(&rest, "\n"))) {
        const char *owner = strsep(&line, ":");
        const char *first_text = strsep(&line, ":");
        uint64_t first, count;

        if (!first_text || !line || (!str_equal(owner, name) && !str_equal(owner, number)) ||
            str_to_u64(first_text, &first) < 0 || str_to_u64(line, &count) < 0 || count < least ||
            first > UINT32_MAX || count > UINT32_MAX - first)
            continue;
        *ret_first = (unsigned)first;
        *ret_count = (unsigned)count;
        return true;
    }
    return false;
}

bool subid_find(const char *path, unsigned uid, unsigned *ret_first, unsigned *ret_count)
{
    char name[128] = "", number[16];

    find_user_name(uid, name, sizeof(name));
    str_format(number, sizeof(number), "%u", uid);
    return find_range(path, name[0] ? name : number, number, 1, ret_first, ret_count);
}

/* Does any user of this host have an id in the range? Then it is not ours to give away. */
static bool is_taken(uint64_t first, uint64_t count)
{
    CLEANUP(freep) char *text = read_file("/etc/passwd");
    char *rest = text, *line;
    const char *login;
    uint64_t number;

    while (rest && (line = strsep(&rest, "\n"))) {
        if (line_uid(line, &login, &number) && number - first < count)
            return true;
    }
    return false;
}

static void fit_into_own_map(uint64_t *first, uint64_t *count)
{
    CLEANUP(freep) char *text = read_file("/proc/self/uid_map");
    char *rest = text, *line;
    uint64_t best_first = *first, best_count = 0;

    while (rest && (line = strsep(&rest, "\n"))) {
        unsigned long long inside, outside, length;

        if (sscanf(line, "%llu %llu %llu", &inside, &outside, &length) != 3)
            continue;
        if (*first >= inside && *first - inside < length && *count <= length - (*first - inside))
            return;
        if (length > best_count) {
            best_first = inside;
            best_count = length;
        }
    }
    if (best_count >= 4) {
        *first = best_first + best_count / 2;
        *count = best_count - best_count / 2;
    }
}

void subid_find_for_root(uint64_t base, unsigned *ret_first, unsigned *ret_count)
{
    uint64_t first = base, count = SUBID_RANGE;

    if (find_range("/etc/subuid", "bailey", "bailey", 2, ret_first, ret_count) ||
        find_range("/etc/subuid", "root", "0", 2, ret_first, ret_count)) {
        first = *ret_first;
        count = *ret_count;
    }
    for (int tries = 0; tries < 64 && is_taken(first, count); tries++)
        first += SUBID_RANGE;
    fit_into_own_map(&first, &count);
    *ret_first = (unsigned)first;
    *ret_count = (unsigned)count;
}

bool subid_may_give(void)
{
    static const unsigned needed[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_SETGID, CAP_SETUID};
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct now[2];

    if (syscall(SYS_capget, &header, now) < 0)
        return true; /* unknown: trying it tells, and a guest never gets root's id by accident */
    for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
        if (!(now[CAP_TO_INDEX(needed[i])].effective & CAP_TO_MASK(needed[i])))
            return false;
    }
    return true;
}

int subid_map(const char *helper, pid_t pid, unsigned own, unsigned first, unsigned count)
{
    char pid_text[16], own_text[16], first_text[16], count_text[16];
    int status = 0;
    pid_t child;

    str_format(pid_text, sizeof(pid_text), "%d", (int)pid);
    str_format(own_text, sizeof(own_text), "%u", own);
    str_format(first_text, sizeof(first_text), "%u", first);
    str_format(count_text, sizeof(count_text), "%u", count);
    child = fork();
    if (child < 0)
        return -errno;
    if (child == 0) {
        sys_close_range(2, 2, 0); /* its complaint is not for our standard error */
        execlp(helper, helper, pid_text, "0", own_text, "1", "1", first_text, count_text, NULL);
        _exit(errno == ENOENT ? 127 : 126);
    }
    if (waitpid(child, &status, 0) != child)
        return -ECHILD;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return -ENOENT;
    return status == 0 ? 0 : -EPERM;
}
