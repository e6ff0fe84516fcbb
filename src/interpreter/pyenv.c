/*
 * pyenv.c - which program a pyenv shim would execute, without executing it; see python.h.
 *
 * A shim is a shell script that calls pyenv, which costs 50 ms and more, and needs a shell. The
 * rules are few: the versions come from PYENV_VERSION, else from .python-version in the working
 * folder or above it, else from the file `version` in pyenv's root; the first of them that has the
 * program counts. .python-version is untrusted, so a version is a name in pyenv's own folder and
 * never a path (CVE-2022-35861 was that mistake).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "interpreter/python.h"

#define VERSIONS_SIZE 1024
#define SEPARATORS ": \t\r\n"

struct pyenv {
    char root[PATH_SIZE];
    char versions[VERSIONS_SIZE]; /* names with SEPARATORS between */
};

/* Reads a version file; false when there is none, or none that says something. */
static bool read_versions(const char *folder, const char *name, char versions[VERSIONS_SIZE])
{
    CLEANUP(fd_closep) int fd = -1;
    char path[PATH_SIZE];
    ssize_t length;

    if (str_format(path, sizeof(path), "%s/%s", str_equal(folder, "/") ? "" : folder, name) < 0)
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    length = fd_read_all(fd, versions, VERSIONS_SIZE - 1);
    if (length < 0)
        return false;
    versions[length] = '\0';
    /* comments reach to the end of their line */
    for (char *comment = strchr(versions, '#'); comment; comment = strchr(comment, '#'))
        memset(comment, ' ', strcspn(comment, "\n"));
    return versions[strspn(versions, SEPARATORS)] != '\0';
}

static bool find_local_versions(char versions[VERSIONS_SIZE])
{
    char folder[PATH_SIZE];

    if (!getcwd(folder, sizeof(folder)) || folder[0] != '/')
        return false;
    do {
        if (read_versions(folder, ".python-version", versions))
            return true;
    } while (path_cut(folder));
    return false;
}

static int pyenv_read(const char *shim, struct pyenv *ret)
{
    const char *root = getenv("PYENV_ROOT");
    const char *versions = getenv("PYENV_VERSION");

    if (root && root[0] == '/') {
        if (path_clean(root, ret->root, sizeof(ret->root)) < 0)
            return -ENAMETOOLONG;
    } else if (!str_copy(ret->root, sizeof(ret->root), shim) || !path_cut(ret->root) ||
               !path_cut(ret->root)) {
        return -EINVAL;
    }
    if (versions && versions[0])
        return str_copy(ret->versions, sizeof(ret->versions), versions) ? 0 : -ENAMETOOLONG;
    if (!find_local_versions(ret->versions) && !read_versions(ret->root, "version", ret->versions))
        str_copy(ret->versions, sizeof(ret->versions), "system");
    return 0;
}

/* Numbers with dots between, compared one by one: 3.9.18 < 3.11.7. Only digits and dots come here.
 */
static int compare_versions(const char *a, const char *b)
{
    while (*a && *b) {
        unsigned long a_number = strtoul(a, NULL, 10), b_number = strtoul(b, NULL, 10);

        if (a_number != b_number)
            return a_number < b_number ? -1 : 1;
        a += strcspn(a, ".");
        b += strcspn(b, ".");
        a += *a == '.';
        b += *b == '.';
    }
    return (*a != '\0') - (*b != '\0');
}

static void close_dirp(DIR **folder)
{
    if (*folder)
        closedir(*folder);
}

/* "3.11" means the newest of 3.11.x that is installed; no release candidates. 1, 0, -ENOMEM. */
static int find_newest(const struct pyenv *pyenv, const char *version, char *ret, size_t size)
{
    CLEANUP(close_dirp) DIR *folder = NULL;
    char name[PATH_SIZE];
    size_t length = strlen(version);
    struct dirent *entry;
    bool is_found = false;

    if (str_format(name, sizeof(name), "%s/versions", pyenv->root) < 0)
        return 0;
    folder = opendir(name);
    if (!folder)
        return errno == ENOMEM ? -ENOMEM : 0;
    while ((entry = readdir(folder))) {
        const char *other = entry->d_name;

        if (!str_starts(other, version) || other[length] != '.' ||
            other[length + strspn(other + length, ".0123456789")] != '\0')
            continue;
        if (!is_found || compare_versions(ret, other) < 0)
            is_found = str_copy(ret, size, other);
    }
    return is_found;
}

static bool find_program(const struct pyenv *pyenv, const char *version, const char *name,
                         char *path, size_t size)
{
    return str_format(path, size, "%s/versions/%s/bin/%s", pyenv->root, version, name) == 0 &&
           access(path, X_OK) == 0;
}

/* 1 when the version is installed and has the program, 0 when not, -ENOMEM */
static int find_version(const struct pyenv *pyenv, const char *version, const char *name,
                        char *path, size_t size)
{
    char newest[256];
    int r;

    if (version[0] == '.' || strchr(version, '/'))
        return 0;
    if (find_program(pyenv, version, name, path, size))
        return 1;
    if (str_starts(version, "python-"))
        version += strlen("python-");
    if (find_program(pyenv, version, name, path, size))
        return 1;
    r = find_newest(pyenv, version, newest, sizeof(newest));
    return r <= 0 ? r : find_program(pyenv, newest, name, path, size);
}

int pyenv_resolve(const char *shim, char *path, size_t size, char why[WHY_SIZE])
{
    struct pyenv pyenv;
    char wanted[VERSIONS_SIZE];
    char *rest = pyenv.versions, *version;
    int r = pyenv_read(shim, &pyenv);

    if (r < 0) {
        str_copy(why, WHY_SIZE, "pyenv's settings cannot be read");
        return r;
    }
    str_copy(wanted, sizeof(wanted), pyenv.versions);
    while ((version = strsep(&rest, SEPARATORS))) {
        if (version[0] == '\0')
            continue;
        if (str_equal(version, "system"))
            return 0;
        r = find_version(&pyenv, version, path_name(shim), path, size);
        if (r != 0)
            return r;
    }
    wanted[strcspn(wanted, "\r\n")] = '\0';
    snprintf(why, WHY_SIZE, "pyenv has no %s in version '%.64s'", path_name(shim), wanted);
    return -ENOENT;
}
