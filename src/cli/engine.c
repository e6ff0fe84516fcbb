/* engine.c - the two programs find each other; see engine.h. */
#include "cli/engine.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/message.h"

static int own_path(char path[PATH_MAX], struct error *err)
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);

    if (length < 0)
        return error_errno(err, "reading /proc/self/exe");
    path[length] = 0;
    return 0;
}

/* The folder of a program, without a slash at its end. */
static int folder_of(const char *program, char folder[PATH_MAX], struct error *err)
{
    char *slash;

    str_copy(folder, PATH_MAX, program);
    slash = strrchr(folder, '/');
    if (!slash)
        return error_set(err, -ENOENT, ERROR_ENGINE, "the folder of this program is unknown");
    *slash = 0;
    return 0;
}

/* A folder may be entered, which is not what is meant. */
static bool is_program(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

/* The first of `places` (relative to the program's folder) that can be executed. */
static int find_beside(const char *program, const char *const *places, const char *what,
                       char path[PATH_MAX], struct error *err)
{
    char folder[PATH_MAX];
    int result = folder_of(program, folder, err);

    if (result < 0)
        return result;
    for (size_t i = 0; places[i]; i++)
        if (str_format(path, PATH_MAX, "%s/%s", folder, places[i]) == 0 && is_program(path))
            return 0;
    return error_set(err, -ENOENT, ERROR_ENGINE,
                     "this needs %s, which is neither in %.300s nor where an installation puts it "
                     "(%s beside that); 'make' builds both programs, 'make install' installs them",
                     what, folder, places[1]);
}

int engine_program(char path[PATH_MAX], struct error *err)
{
    char own[PATH_MAX];
    int result = own_path(own, err);

    return result < 0 ? result : engine_beside(own, path, err);
}

int engine_beside(const char *program, char path[PATH_MAX], struct error *err)
{
    static const char *const places[] = {"bailey-engine", "../libexec/bailey-engine",
                                         "../libexec/bailey/bailey-engine", NULL};

    return find_beside(program, places, "bailey-engine", path, err);
}

int engine_find_bailey(char path[PATH_MAX], struct error *err)
{
    static const char *const places[] = {"bailey", "../bin/bailey", "../../bin/bailey", NULL};
    char own[PATH_MAX];
    int result = own_path(own, err);

    return result < 0 ? result : find_beside(own, places, "bailey", path, err);
}

int engine_execute(char *const *argv, char *const *env)
{
    struct error err = {0};
    char path[PATH_MAX];

    if (engine_program(path, &err) < 0)
        return message_bad_input(&err);
    execve(path, argv, env);
    error_errno(&err, "executing %s", path);
    return message_bad_input(&err);
}
