/* subid.c - ranges of ids that a user may map; see subid.h. */
#include "sys/subid.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/str.h"
#include "sys/calls.h"

/* The user's name by its number, without NSS: static programs cannot load its modules. */
static bool find_user_name(unsigned uid, char *name, size_t size)
{
    FILE *file = fopen("/etc/passwd", "re");
    char line[512];
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file)) {
        unsigned number;
        char *colon = strchr(line, ':');

        if (!colon || sscanf(colon, ":%*[^:]:%u:", &number) != 1 || number != uid)
            continue;
        *colon = '\0';
        found = str_copy(name, size, line);
    }
    if (file)
        fclose(file);
    return found;
}

bool subid_find(const char *path, unsigned uid, unsigned *ret_first, unsigned *ret_count)
{
    char line[512], name[128] = "", number[16];
    FILE *file = fopen(path, "re");
    bool found = false;

    find_user_name(uid, name, sizeof(name));
    str_format(number, sizeof(number), "%u", uid);
    while (file && !found && fgets(line, sizeof(line), file)) {
        unsigned first, count;
        char *colon = strchr(line, ':');

        if (!colon || sscanf(colon, ":%u:%u", &first, &count) != 2 || count == 0)
            continue;
        *colon = '\0';
        found = str_equal(line, name) || str_equal(line, number);
        if (found) {
            *ret_first = first;
            *ret_count = count;
        }
    }
    if (file)
        fclose(file);
    return found;
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
