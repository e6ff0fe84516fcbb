/*
 * container_image.c - what the image of a container has for its guest, as a template's layer has
 * for the guest of a box of this machine (box_mounts.c): variables, and files of its home.
 *
 * An image is its owner's and its names are looked at as a guest's all the same: read by
 * descriptor, nothing is followed, and there is an end to it. The home is an empty file system that
 * only we have touched.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/limits.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "boxes/plan_builder.h"

#define TEMPLATE_HOME "/bailey/template/home" /* the volume leads from there into the image */

/* ---- variables ---- */

/* Replaces one of the same name. */
static void set_variable(struct plan_builder *builder, const char *name, const char *value)
{
    size_t length = strlen(name);
    const char *text = plan_builder_text(builder, "%s=%s", name, value);

    for (size_t i = 0; i < builder->env_count; i++) {
        if (strncmp(builder->env[i], name, length) == 0 && builder->env[i][length] == '=') {
            builder->env[i] = text;
            return;
        }
    }
    plan_builder_env(builder, "%s", text);
}

void container_variables(struct plan_builder *builder)
{
    const char *names = getenv(CONTAINER_VARIABLES);

    while (names && *(names += strspn(names, " "))) {
        size_t length = strcspn(names, " ");
        char name[256];
        const char *value = NULL;

        if (str_format(name, sizeof(name), "%.*s", (int)length, names) == 0)
            value = getenv(name);
        if (value)
            set_variable(builder, name, value);
        names += length;
    }
}

/* ---- home ---- */

static void fill(int from_fd, int to_fd, const char *path, unsigned depth, unsigned *entries);

static void fill_entry(int from_fd, int to_fd, const char *path, const char *name, unsigned depth,
                       unsigned *entries)
{
    char at[LIMIT_PATH_BYTES + 1];
    struct stat status;

    if (str_format(at, sizeof(at), "%s/%s", path, name) < 0 ||
        fstatat(from_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    ++*entries;
    if (S_ISREG(status.st_mode)) {
        (void)!symlinkat(at, to_fd, name);
    } else if (S_ISDIR(status.st_mode) && depth < HOME_DEPTH_MAX &&
               mkdirat(to_fd, name, 0755) == 0) {
        CLEANUP(fd_closep)
        int from = openat(from_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        CLEANUP(fd_closep)
        int to = openat(to_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (from >= 0 && to >= 0)
            fill(from, to, at, depth + 1, entries);
    }
}

static void fill(int from_fd, int to_fd, const char *path, unsigned depth, unsigned *entries)
{
    DIR *folder = folder_list(from_fd, ".");
    const struct dirent *entry;

    if (!folder)
        return;
    while (*entries < HOME_LINKS_MAX && (entry = readdir(folder))) {
        if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
            fill_entry(from_fd, to_fd, path, entry->d_name, depth, entries);
    }
    closedir(folder);
}

void container_home(const char *home)
{
    CLEANUP(fd_closep) int from_fd = open(TEMPLATE_HOME, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(fd_closep) int to_fd = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    unsigned entries = 0;

    if (from_fd >= 0 && to_fd >= 0)
        fill(from_fd, to_fd, TEMPLATE_HOME, 0, &entries);
}
