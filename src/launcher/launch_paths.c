/*
 * launch_paths.c - what the broker asked a box to contain, as folders of the engine.
 *
 * The broker names a layer by its hash and folders by the box's key; paths are made here. An
 * installer's folder is made here too, because it has to belong to the box's guest; the box that
 * finishes what another fetched has that one's ids, to which the folder belongs.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "launcher/launcher_private.h"

void staging_name(const char *key, char *name, size_t size)
{
    str_format(name, size, STAGING_PREFIX "%s", key);
}

/*
 * Must not exist: a folder that another process filled could contain anything. The broker may enter
 * it, to measure it; no other process can enter its parent folder.
 */
static int make_staging(struct launcher *launcher, const char *key, uid_t guest_id,
                        struct error *err)
{
    int layers_fd = launcher->folder_fd[FOLDER_LAYERS];
    char name[NAME_MAX + 1];

    staging_name(key, name, sizeof(name));
    if (mkdirat(layers_fd, name, 0755) < 0)
        return error_errno(err, "making the installer's folder");
    if (fchownat(layers_fd, name, guest_id, guest_id, AT_SYMLINK_NOFOLLOW) < 0) {
        int r = error_errno(err, "giving the installer's folder to the guest");

        unlinkat(layers_fd, name, AT_REMOVEDIR);
        return r;
    }
    return 0;
}

bool staging_slot(struct launcher *launcher, const char *key, uint32_t *ret)
{
    char name[NAME_MAX + 1];
    struct stat status;

    staging_name(key, name, sizeof(name));
    if (fstatat(launcher->folder_fd[FOLDER_LAYERS], name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISDIR(status.st_mode))
        return false;
    if (launcher->plan->pair_count == 0)
        return slots_take(launcher, ret); /* all have one id */
    if (status.st_uid <= PAIR_FIRST || (status.st_uid - PAIR_FIRST) % 2 != 1)
        return false;
    *ret = (status.st_uid - PAIR_FIRST) / 2;
    return slots_take_one(launcher, *ret);
}

int launch_paths_fill(struct launcher *launcher, const struct launcher_make *make, const char *key,
                      struct launch_paths *room, struct launch_spec *spec, struct error *err)
{
    const char *state = launcher->plan->state;

    spec->files = launch_drivers(&spec->file_count);
    if (make->has_data) {
        str_format(room->data, sizeof(room->data), "%s/data/%s", state, key);
        spec->data = room->data;
    }
    if (make->layer[0]) {
        str_format(room->layer, sizeof(room->layer), "%s/layers/%s", state, make->layer);
        spec->layer = room->layer;
    }
    if (make->has_packages) {
        str_format(room->packages, sizeof(room->packages), "%s/packages/%s", state, key);
        spec->packages = room->packages;
    }
    if (make->staging == STAGING_NONE)
        return 0;
    str_format(room->staging, sizeof(room->staging), "%s/layers/" STAGING_PREFIX "%s", state,
               make->key);
    spec->staging = room->staging;
    spec->stages = make->staging;
    if (!staging_fetches(spec->stages))
        return 0;
    installer_add_files(launcher, spec);
    return make_staging(launcher, make->key, spec->ids == LAUNCH_IDS_PAIR ? spec->guest_id : 0,
                        err);
}

void launch_paths_undo(struct launcher *launcher, const struct launcher_make *make)
{
    char name[NAME_MAX + 1];

    if (!staging_fetches(make->staging))
        return;
    staging_name(make->key, name, sizeof(name));
    unlinkat(launcher->folder_fd[FOLDER_LAYERS], name, AT_REMOVEDIR); /* no guest was in it */
}
