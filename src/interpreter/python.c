/*
 * python.c - what a box has to show so that a Python (or a Node.js) of this host runs in it; see
 * python.h.
 *
 * A program's folder is made canonical, because a box has none of the host's links; its prefix is
 * the folder above `bin`. A virtual environment is the exception: Python finds it by the path it
 * was started with, so the program keeps that path, and each link from there to the real program is
 * followed one by one, to know every folder that the links name.
 *
 * A prefix becomes readable for guests. So it must look like nothing but a Python (it holds the
 * standard library), and must not be a folder that holds other people's things too.
 */
#include "interpreter/python.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define LINKS_MAX 40 /* as the kernel follows */

_Static_assert(PATH_SIZE >= PATH_MAX, "realpath() writes up to PATH_MAX bytes");

__attribute__((format(printf, 2, 3))) static int refuse(char why[WHY_SIZE], const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(why, WHY_SIZE, format, args);
    va_end(args);
    return -EPERM;
}

/* /bin, /sbin and /lib* are links into /usr where the two are merged; a box has those links too. */
static bool is_in_usr(const char *path)
{
    static const char *const merged[] = {"/bin", "/sbin", "/lib", "/lib64"};
    char real[PATH_SIZE];

    if (path_is_below(path, "/usr"))
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(merged); i++) {
        if (path_is_below(path, merged[i]))
            return realpath(path, real) && path_is_below(real, "/usr");
    }
    return false;
}

static bool is_covered(const struct interpreter *found, const char *path)
{
    for (size_t i = 0; i < found->bind_count; i++) {
        if (path_is_below(path, found->binds[i]))
            return true;
    }
    return is_in_usr(path);
}

/* A folder that contains more than a Python could ever need: the system's, or a user's home. */
static bool is_too_wide(const char *folder)
{
    static const char *const wide[] = {"/",      "/home", "/root", "/etc",     "/var",    "/tmp",
                                       "/proc",  "/sys",  "/dev",  "/run",     "/srv",    "/mnt",
                                       "/media", "/opt",  "/boot", "/var/lib", "/var/tmp"};
    const char *home = getenv("HOME");
    char real[PATH_SIZE], local[PATH_SIZE];

    for (size_t i = 0; i < ARRAY_SIZE(wide); i++) {
        if (str_equal(folder, wide[i]))
            return true;
    }
    if (str_starts(folder, "/home/") && !strchr(folder + strlen("/home/"), '/'))
        return true;
    if (!home || home[0] != '/')
        return false;
    /* ~/.local has key rings and the state of many programs besides what was installed there. */
    if (path_is_below(home, folder) ||
        (str_format(local, sizeof(local), "%s/.local", home) == 0 && str_equal(folder, local)))
        return true;
    if (!realpath(home, real))
        return false;
    return path_is_below(real, folder) ||
           (str_format(local, sizeof(local), "%s/.local", real) == 0 && str_equal(folder, local));
}

static void close_dirp(DIR **folder)
{
    if (*folder)
        closedir(*folder);
}

/* Node.js installs itself with its headers and npm; either shows that a prefix is nothing else. */
static bool is_node_prefix(const char *prefix)
{
    static const char *const marks[] = {"include/node/node.h", "lib/node_modules/npm/package.json"};
    char name[PATH_SIZE];

    for (size_t i = 0; i < ARRAY_SIZE(marks); i++) {
        if (str_format(name, sizeof(name), "%s/%s", prefix, marks[i]) == 0 &&
            access(name, R_OK) == 0)
            return true;
    }
    return false;
}

int node_adopt(const char *path, struct interpreter *ret, bool *ret_is_venv, char why[WHY_SIZE])
{
    char prefix[PATH_SIZE];

    *ret_is_venv = false;
    ret->path = realpath(path, NULL);
    if (!ret->path)
        return errno == ENOMEM ? -ENOMEM
                               : refuse(why, "it cannot be reached: %s", error_name(errno));
    if (is_in_usr(ret->path))
        return 0;
    if (!str_copy(prefix, sizeof(prefix), ret->path) || !path_cut(prefix) || !path_cut(prefix))
        return refuse(why, "it is in no bin folder");
    if (is_too_wide(prefix) || !is_node_prefix(prefix))
        return refuse(why, "its prefix %s contains more than Node.js, so it is not shown to boxes",
                      prefix);
    ret->binds[0] = strdup(prefix);
    if (!ret->binds[0])
        return -ENOMEM;
    ret->bind_count = 1;
    return 0;
}

/* <prefix>/<lib>/python3*\/os.py: 1 when there is one, 0 when not, -ENOMEM */
static int has_library_in(const char *prefix, const char *lib)
{
    CLEANUP(close_dirp) DIR *folder = NULL;
    char name[PATH_SIZE];
    struct dirent *entry;

    if (str_format(name, sizeof(name), "%s/%s", prefix, lib) < 0)
        return 0;
    folder = opendir(name);
    if (!folder)
        return errno == ENOMEM ? -ENOMEM : 0;
    while ((entry = readdir(folder))) {
        if (!str_starts(entry->d_name, "python3") ||
            str_format(name, sizeof(name), "%s/os.py", entry->d_name) < 0)
            continue;
        if (faccessat(dirfd(folder), name, R_OK, 0) == 0)
            return 1;
    }
    return 0;
}

static int has_standard_library(const char *prefix)
{
    int r = has_library_in(prefix, "lib");

    return r != 0 ? r : has_library_in(prefix, "lib64");
}

/* Whether a guest may see all of this folder: 0, or the reason why not. */
static int check_bind(const char *folder, bool is_venv, char why[WHY_SIZE])
{
    char real[PATH_SIZE];
    int r;

    if (!realpath(folder, real))
        return refuse(why, "its folder %s cannot be entered", folder);
    if (is_too_wide(folder) || is_too_wide(real))
        return refuse(why, "its prefix %s contains more than Python, so it is not shown to boxes",
                      folder);
    r = is_venv ? 1 : has_standard_library(folder);
    if (r == 0)
        return refuse(why, "its prefix %s has no lib/python3*/os.py", folder);
    return r < 0 ? r : 0;
}

/* Shows one more folder, unless it is shown already; binds below it are not needed any more. */
static int add_bind(struct interpreter *found, const char *folder, bool is_venv, char why[WHY_SIZE])
{
    size_t kept = 0;
    int r;

    if (is_covered(found, folder))
        return 0;
    r = check_bind(folder, is_venv, why);
    if (r < 0)
        return r;
    for (size_t i = 0; i < found->bind_count; i++) {
        if (path_is_below(found->binds[i], folder))
            free(found->binds[i]);
        else
            found->binds[kept++] = found->binds[i];
    }
    found->bind_count = kept;
    if (kept == INTERPRETER_BINDS_MAX)
        return refuse(why, "it needs more than %d folders", INTERPRETER_BINDS_MAX);
    found->binds[kept] = strdup(folder);
    if (!found->binds[kept])
        return -ENOMEM;
    found->bind_count++;
    return 0;
}

/* Shows the prefix of a program: the folder above the one it is in. */
static int cover_program(struct interpreter *found, const char *program, char why[WHY_SIZE])
{
    char prefix[PATH_SIZE];

    if (is_covered(found, program))
        return 0;
    if (!str_copy(prefix, sizeof(prefix), program) || !path_cut(prefix) || !path_cut(prefix))
        return refuse(why, "it is in no bin folder");
    return add_bind(found, prefix, false, why);
}

/* Covers what each link on the way from `program` to the real one names. */
static int cover_links(struct interpreter *found, const char *program, char why[WHY_SIZE])
{
    char here[PATH_SIZE], target[PATH_SIZE], next[2 * PATH_SIZE];

    str_copy(here, sizeof(here), program);
    for (int hop = 0; hop < LINKS_MAX; hop++) {
        ssize_t length = readlink(here, target, sizeof(target) - 1);
        int r;

        if (length < 0)
            return errno == EINVAL ? 0 : refuse(why, "the link to %s leads nowhere", here);
        target[length] = '\0';
        path_cut(here);
        if (target[0] == '/')
            r = str_format(next, sizeof(next), "%s", target);
        else
            r = str_format(next, sizeof(next), "%s/%s", here, target);
        if (r < 0 || path_clean(next, here, sizeof(here)) < 0)
            return refuse(why, "its link is too long");
        r = cover_program(found, here, why);
        if (r < 0)
            return r;
    }
    return refuse(why, "its links go round in a circle");
}

/* The value of `home = ...` in a pyvenv.cfg, cleaned; false when it has none. */
static bool venv_home(char *text, char *home, size_t size)
{
    char *rest = text, *line;

    while ((line = strsep(&rest, "\n"))) {
        char *value = strchr(line, '=');
        size_t length;

        if (!value)
            continue;
        *value++ = '\0';
        line += strspn(line, " \t");
        line[strcspn(line, " \t")] = '\0';
        if (strcasecmp(line, "home") != 0)
            continue;
        value += strspn(value, " \t");
        length = strlen(value);
        while (length > 0 && strchr(" \t\r", value[length - 1]))
            value[--length] = '\0';
        return path_clean(value, home, size) == 0;
    }
    return false;
}

/* Reads <folder>/pyvenv.cfg; false when there is none. */
static bool read_venv(const char *folder, char *text, size_t size)
{
    CLEANUP(fd_closep) int fd = -1;
    char name[PATH_SIZE];
    ssize_t length;

    if (str_format(name, sizeof(name), "%s/pyvenv.cfg", folder) < 0)
        return false;
    fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    length = fd_read_all(fd, text, size - 1);
    if (length < 0)
        return false;
    text[length] = '\0';
    return true;
}

static int adopt_venv(struct interpreter *found, const char *folder, char *settings,
                      char why[WHY_SIZE])
{
    char home[PATH_SIZE];
    int r = add_bind(found, folder, true, why);

    if (r == 0)
        r = cover_links(found, found->path, why);
    if (r < 0)
        return r;
    if (!venv_home(settings, home, sizeof(home)))
        return refuse(why, "%s/pyvenv.cfg has no home", folder);
    if (is_covered(found, home))
        return 0;
    if (!path_cut(home))
        return refuse(why, "%s/pyvenv.cfg names / as home", folder);
    return add_bind(found, home, false, why);
}

int python_adopt(const char *path, struct interpreter *ret, bool *ret_is_venv, char why[WHY_SIZE])
{
    char folder[PATH_SIZE], real[PATH_SIZE], settings[4096];

    *ret_is_venv = false;
    if (!str_copy(folder, sizeof(folder), path) || !path_cut(folder) || !realpath(folder, real) ||
        str_format(folder, sizeof(folder), "%s", real) < 0 || !path_cut(folder))
        return refuse(why, "it is in no bin folder");
    if (read_venv(folder, settings, sizeof(settings))) {
        *ret_is_venv = true;
        if (asprintf(&ret->path, "%s/%s", real, path_name(path)) < 0) {
            ret->path = NULL;
            return -ENOMEM;
        }
        return adopt_venv(ret, folder, settings, why);
    }
    ret->path = realpath(path, NULL);
    if (!ret->path)
        return errno == ENOMEM ? -ENOMEM
                               : refuse(why, "it cannot be reached: %s", error_name(errno));
    return cover_program(ret, ret->path, why);
}
