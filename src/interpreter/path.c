/* path.c - path names as text, for the search of interpreters; see python.h. */
#include <errno.h>
#include <string.h>

#include "interpreter/python.h"

bool path_is_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);

    if (length > 0 && folder[length - 1] == '/')
        length--; /* "/" itself */
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

bool path_cut(char *path)
{
    char *slash = strrchr(path, '/');

    if (!slash || path[1] == '\0')
        return false;
    slash[slash == path ? 1 : 0] = '\0';
    return true;
}

const char *path_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

int path_clean(const char *path, char *ret, size_t size)
{
    size_t length = 0;

    if (path[0] != '/' || size < 2)
        return -EINVAL;
    ret[0] = '\0';
    while (*path) {
        size_t part;

        path += strspn(path, "/");
        part = strcspn(path, "/");
        if (part == 2 && memcmp(path, "..", 2) == 0) {
            char *slash = strrchr(ret, '/');

            length = slash ? (size_t)(slash - ret) : 0;
        } else if (part > 0 && !(part == 1 && path[0] == '.')) {
            if (part > size - 2 - length) /* the slash and the NUL; length <= size - 2 */
                return -ENAMETOOLONG;
            ret[length++] = '/';
            memcpy(ret + length, path, part);
            length += part;
        }
        ret[length] = '\0';
        path += part;
    }
    if (length == 0) {
        ret[0] = '/';
        ret[1] = '\0';
    }
    return 0;
}
