/*
 * installer_pack.c - pip's settings of this host, packed for installer boxes: written here, read by
 * launcher/installer.c.
 */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "supervisor/supervisor_private.h"

int installer_pack(const struct supervisor_spec *spec, int *ret_fd, struct error *err)
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
