/*
 * installer.c - what only an installer box has: pip's settings of this host as files, and the local
 * folders of wheels that they name.
 *
 * The files come as one sealed piece of memory, written by the stub and read by the launcher, the
 * same program: passwords of a package index may be in them, so no other process gets them, and no
 * other box.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "launcher/engine.h"

/* Behind it the texts, one after the other. */
struct installer_head {
    uint32_t count;
    struct {
        char path[64];
        uint32_t length;
    } files[INSTALLER_FILES_MAX];
};

int installer_pack(const struct serve_spec *spec, int *ret_fd, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(INSTALLER_BYTES_MAX);
    struct installer_head head = {.count = (uint32_t)spec->installer_file_count};
    int r = head.count > INSTALLER_FILES_MAX ? -E2BIG : 0;

    for (uint32_t i = 0; i < head.count && r == 0; i++) {
        const struct launch_file *file = &spec->installer_files[i];

        head.files[i].length = (uint32_t)file->length;
        if (!str_copy(head.files[i].path, sizeof(head.files[i].path), file->path))
            r = -ENAMETOOLONG;
    }
    if (r == 0)
        r = buf_append(&text, &head, sizeof(head));
    for (uint32_t i = 0; i < head.count && r == 0; i++)
        r = buf_append(&text, spec->installer_files[i].text, spec->installer_files[i].length);
    if (r < 0)
        return error_set(err, r, ERROR_BAD_CONFIG, "pip's settings of this host: %s", strerror(-r));
    return hand_bytes("installer", text.data, text.length, ret_fd, err);
}

int installer_open(struct engine *engine)
{
    const struct installer_head *head;
    struct stat status;
    const char *text;
    size_t left;

    if (fstat(ENGINE_INSTALLER_FD, &status) < 0)
        return -errno;
    head = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, ENGINE_INSTALLER_FD, 0);
    if (head == MAP_FAILED)
        return -errno;
    text = (const char *)(head + 1);
    left = (size_t)status.st_size - sizeof(*head);
    for (uint32_t i = 0; i < head->count; i++) {
        if (head->files[i].length > left)
            return -EINVAL;
        engine->installer.files[i] = (struct launch_file){
            .path = head->files[i].path, .text = text, .length = head->files[i].length};
        text += head->files[i].length;
        left -= head->files[i].length;
    }
    engine->installer.file_count = head->count;
    return 0;
}

/* Files and binds that the box has anyway come first; both lists are copied, and borrowed by it. */
void installer_furnish(struct engine *engine, struct launch_spec *spec)
{
    const struct engine_plan *plan = engine->plan;
    size_t files = 0, binds = 0;

    for (size_t i = 0; i < spec->file_count && files < LAUNCH_FILES_MAX; i++)
        engine->installer.all_files[files++] = spec->files[i];
    for (size_t i = 0; i < engine->installer.file_count && files < LAUNCH_FILES_MAX; i++)
        engine->installer.all_files[files++] = engine->installer.files[i];
    for (size_t i = 0; i < spec->bind_count && binds < ENGINE_BINDS_MAX; i++)
        engine->installer.binds[binds++] = spec->binds[i];
    for (size_t i = 0; i < plan->wheel_count; i++)
        engine->installer.binds[binds++] =
            (struct launch_bind){.host = plan->wheels[i].host, .box = plan->wheels[i].box};
    spec->files = engine->installer.all_files;
    spec->file_count = files;
    spec->binds = engine->installer.binds;
    spec->bind_count = binds;
}
