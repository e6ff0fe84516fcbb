/*
 * place.c - which files of a package are in an image, and where; see tree.h.
 *
 * Nothing of /etc, /var, /home or /root of this machine: only files below /usr, where packages put
 * their programs and users do not keep secrets.
 */
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "image/tree.h"

/* What no program reads while it runs. */
static const struct {
    const char *folder, *reason;
} left_out[] = {
    {"usr/share/man", "manuals are not needed in a box"},
    {"usr/share/info", "nor these"},
    {"usr/share/locale", "messages are English: LANG=C.UTF-8"},
    {"usr/share/lintian", "needed only to build packages"},
    {"usr/share/bug", "needed only to report problems"},
    {"usr/share/bash-completion", "for people at a terminal"},
    {"usr/share/zsh", "for people at a terminal"},
    {"usr/share/fish", "for people at a terminal"},
    {"usr/share/applications", "for desktops"},
    {"usr/share/pixmaps", "for desktops"},
    {"usr/share/icons", "for desktops"},
    {"usr/share/menu", "for desktops"},
    {"usr/share/doc-base", "for documentation servers"},
    {"usr/share/gdb", "for debuggers"},
    {"usr/share/systemtap", "for tracers"},
    {"usr/share/initramfs-tools", "a container does not boot"},
    {"usr/share/debconf", "packages are not configured in it"},
    {"usr/share/dpkg", "packages are not installed in it"},
    {"usr/share/zoneinfo/right", "times with leap seconds, which are not used"},
    {"usr/share/zoneinfo/posix", "the same times once more"},
    {"usr/include", "nothing is compiled"},
    {"usr/lib/systemd", "a container does not boot"},
    {"usr/lib/udev", "it has no devices"},
    {"usr/lib/node_modules/corepack", "it only downloads"},
    {"usr/lib/node_modules/npm", "it only downloads, and changes itself"},
    {"usr/src", "nothing is compiled"},
    {"usr/games", "no"},
    {"usr/local", "not of a package"},
};

static bool is_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);

    return strncmp(path, folder, length) == 0 && (path[length] == '/' || !path[length]);
}

static bool is_left_out(const char *path)
{
    for (size_t i = 0; i < ARRAY_SIZE(left_out); i++) {
        if (is_below(path, left_out[i].folder))
            return true;
    }
    /* licences go where the programs go */
    if (is_below(path, "usr/share/doc"))
        return !str_ends(path, "/copyright");
    return is_below(path, "usr/lib") && str_ends(path, ".a");
}

const char *image_place(const char *path, char *text, size_t size)
{
    static const char *const merged[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

    path += strspn(path, "/");
    for (size_t i = 0; i < ARRAY_SIZE(merged); i++) {
        if (!is_below(path, merged[i]))
            continue;
        if (str_format(text, size, "usr/%s", path) < 0)
            return NULL;
        path = text;
        break;
    }
    return is_below(path, "usr") && !is_left_out(path) ? path : NULL;
}

bool image_link_is_kept(const char *place, const char *target)
{
    char path[LIMIT_PATH_BYTES + 1], text[LIMIT_PATH_BYTES + 1];
    const char *slash = strrchr(place, '/');
    size_t length = target[0] == '/' || !slash ? 0 : (size_t)(slash - place);

    for (; length > 0 && str_starts(target, "../"); target += 3) {
        while (length > 0 && place[length - 1] != '/')
            length--;
        if (length > 0)
            length--; /* the slash */
    }
    if (str_format(path, sizeof(path), "%.*s/%s", (int)length, place, target) < 0)
        return false;
    return image_place(path, text, sizeof(text)) != NULL;
}
