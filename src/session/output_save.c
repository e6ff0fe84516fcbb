/* output_save.c - see output_save.h. */
#include "session/output_save.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "session/artifacts.h"
#include "session/session_private.h"
#include "store/output_file.h"

int session_output_save(struct session *session, const char *name, const void *data, size_t length,
                        struct output_row *ret, struct error *err)
{
    CLEANUP(fd_closep) int folder_fd = output_folder(session, true);
    struct output_writer writer = OUTPUT_WRITER_INIT;
    struct artifact_digest digest;
    int r = folder_fd;

    artifact_begin(&digest);
    artifact_add(&digest, data, length);
    if (r >= 0)
        r = output_writer_begin(&writer, folder_fd, name, 0600);
    if (r >= 0)
        r = output_writer_write(&writer, data, length);
    if (r >= 0)
        r = output_writer_end(&writer);
    output_writer_cancel(&writer);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "saving '%s': %s", name, strerror(-r));
    r = artifact_save(session, folder_fd, name, &digest, ret, err);
    unlinkat(folder_fd, name, 0); /* the bytes stay under the id */
    return r;
}
