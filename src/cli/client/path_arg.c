/* path_arg.c - parses names of files in sessions and on the host; see path_arg.h. */
#include "cli/client/path_arg.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/dataset_name.h"

#define HOME "/workspace"

/* The path after a colon that no slash precedes; NULL: not a NAME:PATH. */
static const char *path_part(const char *word)
{
    const char *colon = strchr(word, ':');

    return colon && colon != word && !memchr(word, '/', (size_t)(colon - word)) ? colon + 1 : NULL;
}

static int too_long(const char *word, struct error *err)
{
    return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "'%.100s...' is too long", word);
}

static int set_path(const char *path, const char *word, struct path_arg *ret, struct error *err)
{
    ret->is_in_box = true;
    if (str_format(ret->path, sizeof(ret->path), "%s%s", path[0] == '/' ? "" : HOME "/", path) < 0)
        return too_long(word, err);
    if (!path[0])
        str_copy(ret->path, sizeof(ret->path), HOME);
    ret->ends_in_slash = str_ends(ret->path, "/");
    return 0;
}

static int parse_box(const char *word, size_t id_length, const char *path, struct path_arg *ret,
                     struct error *err)
{
    if (id_length >= sizeof(ret->session))
        return too_long(word, err);
    memcpy(ret->session, word, id_length);
    ret->session[id_length] = 0;
    return set_path(path, word, ret, err);
}

int path_arg_parse(const char *word, struct path_arg *ret, struct error *err)
{
    const char *path = path_part(word);

    *ret = (struct path_arg){0};
    if (path)
        return parse_box(word, (size_t)(path - 1 - word), path, ret, err);
    if (!word[0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "an empty name; give a file or NAME:PATH");
    if (!str_copy(ret->path, sizeof(ret->path), word))
        return too_long(word, err);
    ret->ends_in_slash = str_ends(word, "/");
    return 0;
}

int path_arg_parse_box(const char *word, bool may_lack_path, struct path_arg *ret,
                       struct error *err)
{
    const char *path = path_part(word);

    *ret = (struct path_arg){0};
    if (path && (path[0] || may_lack_path))
        return parse_box(word, (size_t)(path - 1 - word), path, ret, err);
    if (!path && may_lack_path && word[0] && !strchr(word, '/'))
        return parse_box(word, strlen(word), "", ret, err);
    return error_set(
        err, -EINVAL, ERROR_BAD_INPUT,
        "'%.100s' names no file of a session; write NAME:PATH, as in work:/tmp/a.csv, or "
        "-s NAME PATH",
        word);
}

int path_arg_parse_in(const char *session, const char *word, struct path_arg *ret,
                      struct error *err)
{
    *ret = (struct path_arg){0};
    if (path_part(word))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "'%.100s' and -s %.100s both name a session; give only one of them (a "
                         "file with a colon in its name is written ./a:b)",
                         word, session);
    if (strlen(session) >= sizeof(ret->session))
        return too_long(session, err);
    str_copy(ret->session, sizeof(ret->session), session);
    return set_path(word[0] == ':' ? word + 1 : word, word, ret, err);
}

int path_arg_join(char path[LIMIT_PATH_BYTES + 1], const char *folder, const char *name,
                  struct error *err)
{
    if (str_format(path, LIMIT_PATH_BYTES + 1, "%s%s%s", folder, str_ends(folder, "/") ? "" : "/",
                   name) < 0)
        return too_long(name, err);
    return 0;
}

void path_arg_base(const char *path, char name[NAME_MAX + 1])
{
    size_t end = strlen(path), start;

    while (end > 0 && path[end - 1] == '/')
        end--;
    for (start = end; start > 0 && path[start - 1] != '/';)
        start--;
    str_format(name, NAME_MAX + 1, "%.*s", (int)MIN(end - start, (size_t)NAME_MAX), path + start);
}

bool path_arg_name_is_safe(const char *name)
{
    for (;;) {
        size_t length = strcspn(name, "/");

        if (length == 0 || length > NAME_MAX || (length == 1 && name[0] == '.') ||
            (length == 2 && name[0] == '.' && name[1] == '.'))
            return false;
        if (!name[length])
            return true;
        name += length + 1;
    }
}

void path_arg_dataset(const char *name, size_t length, char file[NAME_MAX + 1])
{
    length = MIN(length, (size_t)NAME_MAX);
    memcpy(file, name, length);
    file[length] = 0;
    for (size_t i = 0; i < length; i++)
        if (file[i] == '/' || file[i] == ' ' || file[i] == '\t')
            file[i] = '_';
    if (!dataset_extension(file) && length + sizeof(".csv") <= NAME_MAX + 1)
        memcpy(file + length, ".csv", sizeof(".csv"));
}
