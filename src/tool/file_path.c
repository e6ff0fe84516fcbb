/* file_path.c - checks paths of files in a box, as text; see file_path.h. */
#include "tool/file_path.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "interpreter/python.h"

#define COMPONENT_MAX 255

static int check_components(const char *path, struct error *err)
{
    while (*path) {
        size_t length;

        path += strspn(path, "/");
        length = strcspn(path, "/");
        if (length > COMPONENT_MAX)
            return error_set(err, -ENAMETOOLONG, ERROR_PATH_INVALID,
                             "the path is too long: a name in it has more than %d bytes",
                             COMPONENT_MAX);
        path += length;
    }
    return 0;
}

int file_path_normalise(const char *path, size_t length, char ret[LIMIT_PATH_BYTES + 1],
                        struct error *err)
{
    if (length == 0)
        return error_set(err, -EINVAL, ERROR_PATH_INVALID, "the path is empty");
    if (memchr(path, 0, length))
        return error_set(err, -EINVAL, ERROR_PATH_INVALID, "the path has a NUL byte in it");
    if (length > LIMIT_PATH_BYTES)
        return error_set(err, -ENAMETOOLONG, ERROR_PATH_INVALID,
                         "the path is too long: %zu bytes, at most %d are allowed", length,
                         LIMIT_PATH_BYTES);
    if (path[0] != '/')
        return error_set(err, -EINVAL, ERROR_PATH_INVALID,
                         "the path has to be absolute, such as /workspace/%.40s", path);
    if (path_clean(path, ret, LIMIT_PATH_BYTES + 1) < 0)
        return error_set(err, -ENAMETOOLONG, ERROR_PATH_INVALID, "the path is too long");
    return check_components(ret, err);
}

int file_path_for_tool(const char *path, size_t length, char ret[LIMIT_PATH_BYTES + 1],
                       struct error *err)
{
    int r = file_path_normalise(path, length, ret, err);

    /* This exact text is promised for every path that is not allowed, relative ones too. */
    if (r == -EINVAL && length > 0 && path[0] != '/' && !memchr(path, 0, length))
        return error_set(err, -EINVAL, ERROR_PATH_INVALID, FILE_PATH_TOOL_ERROR);
    if (r < 0)
        return r;
    if (!str_starts(ret, "/tmp/") && !str_starts(ret, "/workspace/"))
        return error_set(err, -EINVAL, ERROR_PATH_INVALID, FILE_PATH_TOOL_ERROR);
    if (path[length - 1] == '/')
        return error_set(err, -EISDIR, ERROR_PATH_IS_FOLDER,
                         "'%s' is a folder: the path ends in '/'", ret);
    return 0;
}

int file_path_for_rest(const char *path, size_t length, char ret[LIMIT_PATH_BYTES + 1],
                       struct error *err)
{
    static const char *const roots[] = {"/tmp", "/workspace", "/home/user"};
    int r = file_path_normalise(path, length, ret, err);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(roots); i++)
        if (path_is_below(ret, roots[i]))
            return 0;
    return r < 0 ? r
                 : error_set(err, -EINVAL, ERROR_PATH_INVALID,
                             "the path has to be below /tmp, /workspace or /home/user");
}

/* Texts for errno values of file operations; the path is put between the two parts. */
static const struct {
    int num;
    const char *code;
    const char *before, *behind;
} rows[] = {
    {ENOENT, ERROR_PATH_NOT_FOUND, "there is no ", ""},
    {EISDIR, ERROR_PATH_IS_FOLDER, "", " is a folder"},
    {ENOTDIR, ERROR_PATH_NOT_FOLDER, "", ": what should be a folder is a file"},
    {EXDEV, ERROR_PATH_REFUSED, "", ": a symbolic link leads out of the folder"},
    {ELOOP, ERROR_PATH_REFUSED, "", ": a symbolic link is in the way"},
    {EACCES, ERROR_PATH_REFUSED, "", ": permission denied"},
    {EPERM, ERROR_PATH_REFUSED, "", ": not permitted"},
    {EBUSY, ERROR_PATH_REFUSED, "", " is in use by the sandbox itself"},
    {ETXTBSY, ERROR_PATH_REFUSED, "", " is being executed"},
    {EROFS, ERROR_READ_ONLY, "", " is read-only: datasets are given from outside"},
    {EEXIST, ERROR_PATH_EXISTS, "", " is there already"},
    {ENOTEMPTY, ERROR_FOLDER_NOT_EMPTY, "the folder ", " is not empty"},
    {ENOSPC, ERROR_DISK_FULL, "", ": the sandbox's disk is full"},
    {EDQUOT, ERROR_DISK_FULL, "", ": the sandbox's disk is full"},
    {ENAMETOOLONG, ERROR_PATH_INVALID, "", ": the name is too long"},
    {EINVAL, ERROR_PATH_INVALID, "", " cannot be used so: not a regular file, or into itself"},
    {EFBIG, ERROR_TOO_LARGE, "", " is too large"},
    {E2BIG, ERROR_TOO_LARGE, "", " has too many entries"},
};

void file_error(const struct error *from, const char *path, struct error *ret)
{
    int number = -from->num;
    char shown[200];

    /* Only errno values from the box are translated; errors of the engine keep their text. */
    if (from->code && !str_equal(from->code, ERROR_ENGINE) &&
        !str_equal(from->code, ERROR_BAD_INPUT)) {
        *ret = *from;
        return;
    }
    str_copy(shown, sizeof(shown), path);
    shown[utf8_floor(shown, strlen(shown))] = '\0';
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (rows[i].num == number) {
            error_set(ret, from->num, rows[i].code, "%s'%s'%s", rows[i].before, shown,
                      rows[i].behind);
            return;
        }
    }
    error_set(ret, from->num < 0 ? from->num : -EIO, ERROR_ENGINE, "'%s': %s", shown,
              strerror(number > 0 ? number : EIO));
}

size_t bytes_count(const void *data, size_t length, const void *what, size_t what_length,
                   size_t *ret_first)
{
    const char *at = data, *end = at + length, *found;
    size_t count = 0;

    if (what_length == 0)
        return 0;
    while (count <= BYTES_COUNT_MAX &&
           (found = memmem(at, (size_t)(end - at), what, what_length))) {
        if (count++ == 0)
            *ret_first = (size_t)(found - (const char *)data);
        at = found + what_length;
    }
    return count;
}
