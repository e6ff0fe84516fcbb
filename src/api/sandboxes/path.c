/* path.c - paths as E2B's clients write them; see e2b.h. Pure. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "api/sandboxes/e2b.h"
#include "base/str.h"
#include "tool/file_path.h"

#define PATH_ROOM (2 * LIMIT_PATH_BYTES)

/* "~", "~/x" and "x" are below the home folder. */
static int expand(const char *path, char *ret, size_t size)
{
    if (path[0] == '/')
        return str_format(ret, size, "%s", path);
    if (path[0] == '~' && (path[1] == '/' || path[1] == '\0'))
        return str_format(ret, size, E2B_HOME "%s", path + 1);
    return str_format(ret, size, E2B_HOME "/%s", path);
}

static int too_long(struct error *err)
{
    return error_set(err, -ENAMETOOLONG, ERROR_PATH_INVALID,
                     "the path is too long: at most %d bytes", LIMIT_PATH_BYTES);
}

int e2b_path(const char *path, char ret[LIMIT_PATH_BYTES + 1], struct error *err)
{
    char whole[PATH_ROOM];

    if (expand(path ? path : "", whole, sizeof(whole)) < 0)
        return too_long(err);
    return file_path_normalise(whole, strlen(whole), ret, err);
}

int e2b_file_path(const char *path, char ret[LIMIT_PATH_BYTES + 1], struct error *err)
{
    char whole[PATH_ROOM];

    if (expand(path ? path : "", whole, sizeof(whole)) < 0)
        return too_long(err);
    return file_path_for_rest(whole, strlen(whole), ret, err);
}

int e2b_bare_path(const char *path, char ret[LIMIT_PATH_BYTES + 1], struct error *err)
{
    char whole[PATH_ROOM];
    struct error ignored = {0};

    if (str_format(whole, sizeof(whole), "/%s", path + strspn(path, "/")) < 0)
        return too_long(err);
    return e2b_file_path(whole, ret, &ignored) == 0 ? 0 : e2b_file_path(whole + 1, ret, err);
}

void e2b_permissions(uint32_t mode, char text[11])
{
    static const char letters[] = "rwxrwxrwx";

    text[0] = S_ISDIR(mode) ? 'd' : S_ISLNK(mode) ? 'L' : '-';
    for (int i = 0; i < 9; i++)
        text[1 + i] = mode & (0400u >> i) ? letters[i] : '-';
    text[10] = '\0';
}
