/*
 * installer.c - what only an installer box has: pip's settings of this host as files, and the local
 * folders of wheels that they name.
 *
 * The files come in one sealed memfd, written by the supervisor and read by the launcher, the same
 * program: they may contain passwords of a package index, so no other process and no other box gets
 * them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "launcher/launcher_private.h"

int installer_open(struct launcher *launcher)
{
    const struct installer_head *head;
    struct stat status;
    const char *text;
    size_t left;

    if (fstat(LAUNCHER_INSTALLER_FD, &status) < 0)
        return -errno;
    head = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, LAUNCHER_INSTALLER_FD, 0);
    if (head == MAP_FAILED)
        return -errno;
    text = (const char *)(head + 1);
    left = (size_t)status.st_size - sizeof(*head);
    for (uint32_t i = 0; i < head->count; i++) {
        if (head->files[i].length > left)
            return -EINVAL;
        launcher->installer.files[i] = (struct launch_file){
            .path = head->files[i].path, .text = text, .length = head->files[i].length};
        text += head->files[i].length;
        left -= head->files[i].length;
    }
    launcher->installer.file_count = head->count;
    return 0;
}

/*
 * The box's other files and binds come first; both lists are copied, and borrowed by the
 * specification.
 */
void installer_add_files(struct launcher *launcher, struct launch_spec *spec)
{
    const struct launcher_plan *plan = launcher->plan;
    size_t files = 0, binds = 0;

    for (size_t i = 0; i < spec->file_count && files < LAUNCH_FILES_MAX; i++)
        launcher->installer.all_files[files++] = spec->files[i];
    for (size_t i = 0; i < launcher->installer.file_count && files < LAUNCH_FILES_MAX; i++)
        launcher->installer.all_files[files++] = launcher->installer.files[i];
    for (size_t i = 0; i < spec->bind_count; i++)
        launcher->installer.binds[binds++] = spec->binds[i];
    for (size_t i = 0; i < plan->wheel_count; i++)
        launcher->installer.binds[binds++] =
            (struct launch_bind){.host = plan->wheels[i].host, .box = plan->wheels[i].box};
    spec->files = launcher->installer.all_files;
    spec->file_count = files;
    spec->binds = launcher->installer.binds;
    spec->bind_count = binds;
}
