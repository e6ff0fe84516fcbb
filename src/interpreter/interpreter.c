/*
 * interpreter.c - finds the interpreter of a language on this host, or in a root folder; see
 * language.h.
 *
 * Nothing is executed. Candidates are looked at in the order of PATH; each one that cannot be used
 * is remembered with the reason, for the error at the end. Relative entries of PATH are passed
 * over: a working folder must not choose what runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "config/config.h"
#include "interpreter/language.h"
#include "interpreter/python.h"

#define USUAL_PATH "/usr/local/bin:/usr/bin:/bin"
#define REFUSED_MAX 280 /* leaves room for the rest of an error's text */

struct search {
    /* python_adopt() or node_adopt() */
    int (*adopt)(const char *path, struct interpreter *ret, bool *ret_is_venv, char why[WHY_SIZE]);
    struct interpreter *found; /* .path set: the search is over */
    const char *by;
    struct buf refused;    /* "PATH (WHY); PATH (WHY)" */
    bool is_out_of_memory; /* then the search is over too */
};

enum program_kind {
    PROGRAM_ABSENT,
    PROGRAM_UNREADABLE,
    PROGRAM_NOT_EXECUTABLE,
    PROGRAM_ELF,
    PROGRAM_SHIM, /* a script of pyenv */
    PROGRAM_SCRIPT,
    PROGRAM_OTHER,
};

static void remember(struct search *search, const char *path, const char *why)
{
    /* What does not fit is left out: the first ones of PATH are those that were meant. */
    (void)buf_printf(&search->refused, "%s%s (%s)", search->refused.length > 0 ? "; " : "", path,
                     why);
}

static bool is_in_shims(const char *path)
{
    char folder[PATH_SIZE];

    return str_copy(folder, sizeof(folder), path) && path_cut(folder) &&
           str_equal(path_name(folder), "shims");
}

static enum program_kind look_at(const char *path)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    char head[1024];
    ssize_t length;

    if (fd < 0)
        return errno == EACCES ? PROGRAM_UNREADABLE : PROGRAM_ABSENT;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return PROGRAM_ABSENT;
    if (access(path, X_OK) < 0)
        return PROGRAM_NOT_EXECUTABLE;
    length = fd_read_all(fd, head, sizeof(head));
    if (length >= 4 && memcmp(head, "\177ELF", 4) == 0)
        return PROGRAM_ELF;
    if (length < 2 || memcmp(head, "#!", 2) != 0)
        return PROGRAM_OTHER;
    return is_in_shims(path) && memmem(head, (size_t)length, "pyenv", 5) ? PROGRAM_SHIM
                                                                         : PROGRAM_SCRIPT;
}

static void adopt(struct search *search, const char *path, const char *by)
{
    struct interpreter found = {0};
    char why[WHY_SIZE] = "";
    bool is_venv;
    int r;

    r = search->adopt(path, &found, &is_venv, why);
    if (r == 0) {
        found.found_by = strdup(is_venv && str_equal(by, "PATH") ? "venv" : by);
        if (found.found_by) {
            *search->found = found;
            return;
        }
        r = -ENOMEM;
    }
    search->is_out_of_memory = r == -ENOMEM;
    remember(search, path, why);
    interpreter_free(&found);
}

static void adopt_shim(struct search *search, const char *shim)
{
    char path[PATH_SIZE], why[WHY_SIZE] = "";
    int r = pyenv_resolve(shim, path, sizeof(path), why);

    search->is_out_of_memory = r == -ENOMEM;
    if (r < 0)
        remember(search, shim, why);
    else if (r > 0 && look_at(path) == PROGRAM_ELF)
        adopt(search, path, str_equal(search->by, "PATH") ? "pyenv" : search->by);
    else if (r > 0)
        remember(search, path, "not a program");
}

/* Looks at one path; search->found is filled when it will do. */
static void consider(struct search *search, const char *path)
{
    switch (look_at(path)) {
    case PROGRAM_ABSENT:
        break;
    case PROGRAM_UNREADABLE:
        /* Also for a path in a folder that may not be entered, whether it exists or not. */
        if (faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            remember(search, path, "may not be read");
        break;
    case PROGRAM_NOT_EXECUTABLE:
        remember(search, path, "not executable");
        break;
    case PROGRAM_ELF:
        adopt(search, path, search->by);
        break;
    case PROGRAM_SHIM:
        adopt_shim(search, path);
        break;
    case PROGRAM_SCRIPT:
        remember(search, path, "a script, not a program");
        break;
    case PROGRAM_OTHER:
        remember(search, path, "not a program");
        break;
    }
}

static void search_path(struct search *search, const char *name)
{
    const char *list = getenv("PATH");
    char path[PATH_SIZE];

    if (!list || !list[0])
        list = USUAL_PATH;
    while (!search->found->path && !search->is_out_of_memory) {
        size_t length = strcspn(list, ":");
        size_t kept = length;

        while (kept > 0 && list[kept - 1] == '/')
            kept--;
        if (list[0] == '/' && length < sizeof(path) &&
            str_format(path, sizeof(path), "%.*s/%s", (int)kept, list, name) == 0)
            consider(search, path);
        list += length;
        if (*list++ == '\0')
            break;
    }
}

static int find_python(const struct config *config, struct interpreter *ret, struct error *err)
{
    struct search search = {
        .found = ret, .by = "PATH", .refused = BUF_INIT(REFUSED_MAX), .adopt = python_adopt};
    const char *wanted = config->python;
    int r = 0;

    if (wanted) {
        search.by = "SANDBOX_PYTHON";
        if (wanted[0] == '/')
            consider(&search, wanted);
        /* a shim for pyenv's "system" means the next one on PATH */
        if (!ret->path && (wanted[0] != '/' || is_in_shims(wanted)))
            search_path(&search, path_name(wanted));
    } else {
        search_path(&search, "python3");
        if (!ret->path)
            search_path(&search, "python");
    }
    if (search.is_out_of_memory)
        r = error_set(err, -ENOMEM, ERROR_ENGINE, "looking for Python: out of memory");
    else if (!ret->path && wanted)
        r = error_set(err, -ENOENT, ERROR_NO_INTERPRETER,
                      "SANDBOX_PYTHON: no usable Python at '%.100s'%s%s; name another one, or "
                      "unset it to use the first one on PATH",
                      wanted, search.refused.length > 0 ? ": " : "", buf_text(&search.refused));
    else if (!ret->path)
        r = error_set(err, -ENOENT, ERROR_NO_INTERPRETER,
                      "no usable Python on this machine; install one (apt-get install python3) or "
                      "name one with SANDBOX_PYTHON%s%s",
                      search.refused.length > 0 ? "; refused: " : "", buf_text(&search.refused));
    buf_free(&search.refused);
    return r;
}

static int find_bash(const struct config *config, struct interpreter *ret, struct error *err)
{
    static const char *const paths[] = {"/usr/bin/bash", "/bin/bash"};

    (void)config;
    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        if (access(paths[i], X_OK) < 0)
            continue;
        ret->path = strdup(paths[i]);
        ret->found_by = strdup("PATH");
        if (!ret->path || !ret->found_by)
            return error_set(err, -ENOMEM, ERROR_ENGINE, "looking for bash: out of memory");
        return 0;
    }
    return error_set(err, -ENOENT, ERROR_NO_INTERPRETER,
                     "no Bash on this machine; install it (apt-get install bash)");
}

static int find_node(const struct config *config, struct interpreter *ret, struct error *err)
{
    struct search search = {
        .found = ret, .by = "PATH", .refused = BUF_INIT(REFUSED_MAX), .adopt = node_adopt};
    const char *wanted = config->node;
    int r = 0;

    if (wanted && wanted[0] == '/') {
        search.by = "SANDBOX_NODE";
        consider(&search, wanted);
    } else {
        if (wanted)
            search.by = "SANDBOX_NODE";
        search_path(&search, wanted ? wanted : "node");
        if (!ret->path && !wanted)
            search_path(&search, "nodejs");
    }
    if (search.is_out_of_memory)
        r = error_set(err, -ENOMEM, ERROR_ENGINE, "looking for Node.js: out of memory");
    else if (!ret->path)
        r = error_set(err, -ENOENT, ERROR_NO_INTERPRETER,
                      "no usable Node.js on this machine; install one (apt-get install nodejs) or "
                      "name one with SANDBOX_NODE%s%s",
                      search.refused.length > 0 ? "; refused: " : "", buf_text(&search.refused));
    buf_free(&search.refused);
    return r;
}

/* Whether the root folder has an executable file there; its links cannot lead out of it. */
static int exists_in_root(int root_fd, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    CLEANUP(fd_closep) int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
    struct stat status;

    if (fd < 0 || fstat(fd, &status) < 0)
        return -errno;
    return S_ISREG(status.st_mode) && (status.st_mode & 0111) ? 0 : -EACCES;
}

/* The folders in the order that a box searches them. */
static int search_root(int root_fd, const char *name, char *path, size_t size)
{
    static const char *const folders[] = {"/usr/local/bin", "/usr/bin", "/bin"};

    if (name[0] == '/')
        return str_copy(path, size, name) ? exists_in_root(root_fd, name) : -ENAMETOOLONG;
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        if (str_format(path, size, "%s/%s", folders[i], name) == 0 &&
            exists_in_root(root_fd, path) == 0)
            return 0;
    }
    return -ENOENT;
}

static int find_in_root(const struct config *config, const struct language_row *language,
                        const char *const *names, struct interpreter *ret, struct error *err)
{
    CLEANUP(fd_closep) int root_fd = open(config->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char path[PATH_SIZE];

    if (root_fd < 0)
        return error_errno(err, "SANDBOX_ROOT: opening the folder '%.200s'", config->root);
    for (; *names; names++) {
        if (search_root(root_fd, *names, path, sizeof(path)) < 0)
            continue;
        ret->path = strdup(path);
        ret->found_by = strdup("SANDBOX_ROOT");
        if (!ret->path || !ret->found_by)
            return error_set(err, -ENOMEM, ERROR_ENGINE, "looking for %s: out of memory",
                             language->title);
        return 0;
    }
    return error_set(err, -ENOENT, ERROR_NO_INTERPRETER,
                     "no %s in the root folder '%.200s' (SANDBOX_ROOT): install it there, in "
                     "/usr/local/bin, /usr/bin or /bin",
                     language->title, config->root);
}

static const struct finder {
    const char *language;
    const char *names[3]; /* in a root folder */
    int (*find)(const struct config *config, struct interpreter *ret, struct error *err);
} finders[] = {
    {"python", {"python3", "python", NULL}, find_python},
    {"javascript", {"node", "nodejs", NULL}, find_node},
    {"bash", {"bash", NULL}, find_bash},
};

int interpreter_find(const struct language_row *language, const struct config *config,
                     struct interpreter *ret, struct error *err)
{
    struct interpreter found = {0};

    for (size_t i = 0; i < ARRAY_SIZE(finders); i++) {
        const struct finder *finder = &finders[i];
        const char *named = finder->find == find_python ? config->python
                            : finder->find == find_node ? config->node
                                                        : NULL;
        const char *const wanted[] = {named, NULL};
        int r;

        if (!str_equal(finder->language, language->name))
            continue;
        if (config->root)
            r = find_in_root(config, language, named ? wanted : finder->names, &found, err);
        else
            r = finder->find(config, &found, err);
        if (r < 0)
            interpreter_free(&found);
        else
            *ret = found;
        return r;
    }
    return error_set(err, -ENOENT, ERROR_NO_INTERPRETER, "there is no interpreter for %s",
                     language->title);
}

static uint64_t mix(uint64_t hash, const void *data, size_t length)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ULL; /* FNV-1a */
    return hash;
}

void interpreter_fingerprint(const struct interpreter *interpreter, const struct config *config,
                             char text[INTERPRETER_FINGERPRINT])
{
    char path[2 * PATH_SIZE];
    struct stat status;
    uint64_t hash = 0xcbf29ce484222325ULL;

    hash = mix(hash, interpreter->path, strlen(interpreter->path));
    if (str_format(path, sizeof(path), "%s%s", config->root ? config->root : "",
                   interpreter->path) == 0 &&
        stat(path, &status) == 0) {
        hash = mix(hash, &status.st_size, sizeof(status.st_size));
        hash = mix(hash, &status.st_mtim.tv_sec, sizeof(status.st_mtim.tv_sec));
        hash = mix(hash, &status.st_mtim.tv_nsec, sizeof(status.st_mtim.tv_nsec));
    }
    str_format(text, INTERPRETER_FINGERPRINT, "%016llx", (unsigned long long)hash);
}
