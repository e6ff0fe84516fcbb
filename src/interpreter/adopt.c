/* adopt.c - an interpreter that is named by its path; see adopt.h. */
#include "interpreter/adopt.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "interpreter/python.h"

const char *interpreter_setting(enum interpreter_kind kind)
{
    return kind == INTERPRETER_PYTHON ? "SANDBOX_PYTHON" : "SANDBOX_NODE";
}

void interpreter_free(struct interpreter *interpreter)
{
    free(interpreter->path);
    free(interpreter->found_by);
    for (size_t i = 0; i < interpreter->bind_count; i++)
        free(interpreter->binds[i]);
    *interpreter = (struct interpreter){0};
}

/* 0, or why it is no program; -EACCES: a folder or the file is closed to this process. */
static int check_program(const char *path, const char **ret_why)
{
    CLEANUP(fd_closep) int fd = -1;
    struct stat status;
    char head[4];

    *ret_why = NULL;
    if (stat(path, &status) < 0) {
        if (errno == ENOENT || errno == ENOTDIR)
            *ret_why = "there is no such file";
        return -errno;
    }
    *ret_why = "it is no program that a box could execute itself (a script, or another file)";
    if (!S_ISREG(status.st_mode)) /* opening a device can have an effect */
        return -ENOEXEC;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        *ret_why = NULL;
        return -errno;
    }
    if (access(path, X_OK) < 0 || fd_read_all(fd, head, sizeof(head)) != sizeof(head) ||
        memcmp(head, "\177ELF", 4) != 0)
        return -ENOEXEC;
    return 0;
}

/* Whether a box that shows these folders has the path, too. */
static bool is_shown(const struct interpreter *found, const char *path)
{
    if (str_equal(found->path, path) || path_is_below(path, "/usr"))
        return true;
    for (size_t i = 0; i < found->bind_count; i++)
        if (path_is_below(path, found->binds[i]))
            return true;
    return false;
}

static int not_usable(enum interpreter_kind kind, int r, const char *path, const char *why,
                      struct error *err)
{
    return error_set(err, r, ERROR_NO_INTERPRETER, "%s: '%.200s' cannot be used: %s",
                     interpreter_setting(kind), path, why);
}

int interpreter_adopt(enum interpreter_kind kind, const char *path, struct interpreter *ret,
                      struct error *err)
{
    struct interpreter found = {0};
    char clean[PATH_SIZE], why[WHY_SIZE] = "";
    const char *reason = NULL;
    bool is_venv;
    int r;

    if (path[0] != '/' || path_clean(path, clean, sizeof(clean)) < 0 || !str_equal(clean, path))
        return error_set(err, -EINVAL, ERROR_NO_INTERPRETER,
                         "%s: '%.200s' is not the absolute path of a program",
                         interpreter_setting(kind), path);
    r = check_program(path, &reason);
    if (r < 0)
        return not_usable(kind, r, path, reason ? reason : strerror(-r), err);
    r = kind == INTERPRETER_PYTHON ? python_adopt(path, &found, &is_venv, why)
                                   : node_adopt(path, &found, &is_venv, why);
    if (r == -ENOMEM)
        error_memory(err);
    else if (r < 0)
        not_usable(kind, r, path, why, err);
    else if (!is_shown(&found, path))
        r = error_set(err, -EXDEV, ERROR_NO_INTERPRETER,
                      "%s: '%.200s' is a link that a box does not have; name '%.200s', to which it "
                      "leads",
                      interpreter_setting(kind), path, found.path);
    if (r < 0)
        interpreter_free(&found);
    else
        *ret = found;
    return r;
}
