/*
 * output.c - an execution's output: in memory while it is short, then in files, at last in its row
 * of the index or in the files; see session_private.h, and docs/design "Output goes to disk before
 * it is acknowledged".
 *
 * Files are logs/<session>/<number>.out, .err and .events. Creating one is the most expensive step
 * of a short command (on ext4 35 us, up to 1 ms where inodes were freed recently, and the same
 * again when it is deleted), and most commands write a few lines.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "session/session_private.h"

_Static_assert(LIMIT_EARLY_OUTPUT < BOX_ACK_BYTES, "the warden still has what is in memory only");

int logs_folder(const struct session *session, bool makes_it)
{
    int logs_fd = session->manager->spec.folders.logs_fd;
    int fd;

    if (makes_it && mkdirat(logs_fd, session->id, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(logs_fd, session->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

void output_name(const struct execution *execution, int stream, char name[32])
{
    static const char *const endings[BOX_STREAMS] = {"out", "err", "events"};

    str_format(name, 32, "%u.%s", execution->number, endings[stream]);
}

static int open_spool(struct execution *execution, int stream, bool makes_it, struct error *err)
{
    CLEANUP(fd_closep) int folder_fd = logs_folder(execution->session, makes_it);
    struct stat status;
    char name[32];

    output_name(execution, stream, name);
    if (!makes_it &&
        (folder_fd == -ENOENT ||
         (folder_fd >= 0 && fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0 &&
          errno == ENOENT)))
        return 0; /* it wrote nothing, or so little that there is no file */
    if (folder_fd < 0)
        return error_set(err, folder_fd, folder_fd == -ENOSPC ? ERROR_DISK_FULL : ERROR_ENGINE,
                         "the folder for a command's output: %s", strerror(-folder_fd));
    return spool_open(&execution->out[stream], folder_fd, name, LIMIT_SPOOL_BYTES, LIMIT_SPOOL_HEAD,
                      err);
}

int output_find(struct execution *execution, struct error *err)
{
    int r = 0;

    for (int i = 0; i < BOX_STREAMS && r == 0; i++)
        r = open_spool(execution, i, false, err);
    return r;
}

/* True: the bytes are in memory now. */
static bool append_early(struct execution *execution, int stream, const void *data, size_t length)
{
    struct spool *spool = &execution->out[stream];
    struct buf *early = &execution->early[stream];

    if (spool->fd >= 0 || spool->length != early->length ||
        length > LIMIT_EARLY_OUTPUT - early->length || buf_append(early, data, length) < 0)
        return false;
    spool->length += length;
    return true;
}

int output_append(struct execution *execution, int stream, const void *data, size_t length,
                  struct error *err)
{
    struct spool *spool = &execution->out[stream];
    struct buf *early = &execution->early[stream];
    int r = 0;

    if (append_early(execution, stream, data, length))
        return 0;
    if (spool->fd < 0)
        r = open_spool(execution, stream, true, err);
    if (r == 0 && early->length > 0) {
        r = spool_append(spool, early->data, early->length, err);
        if (r < 0) { /* the file stays as it was */
            spool_close(spool);
            *spool = (struct spool){.fd = -1, .length = early->length};
        } else {
            buf_free(early);
        }
    }
    return r < 0 ? r : spool_append(spool, data, length, err);
}

void output_close(struct execution *execution)
{
    for (int i = 0; i < BOX_STREAMS; i++)
        spool_close(&execution->out[i]);
}

void output_forget(struct execution *execution)
{
    for (int i = 0; i < BOX_STREAMS; i++) {
        if (execution->is_in_row[i])
            buf_free(&execution->early[i]);
    }
}

void outputs_gone(struct session *session)
{
    bool is_any = false;

    for (struct execution *at = session->executions; at; at = at->next) {
        for (int i = 0; i < BOX_STREAMS; i++) {
            is_any |= at->is_in_row[i];
            at->is_in_row[i] = false;
            buf_free(&at->early[i]);
        }
        usage_log_over(at);
        usage_request_over(at);
    }
    if (is_any && index_drop_outputs(session->manager->spec.index, session->id, NULL) < 0)
        log_warning("output of %s stays in the index until it is pruned", session->id);
}

void output_free(struct execution *execution)
{
    output_close(execution);
    for (int i = 0; i < BOX_STREAMS; i++)
        buf_free(&execution->early[i]);
}

/* ---- reading ---- */

static ssize_t read_file(const struct execution *execution, int stream, uint64_t offset, void *data,
                         size_t size)
{
    CLEANUP(fd_closep) int folder_fd = logs_folder(execution->session, false);
    CLEANUP(fd_closep) int fd = -1;
    struct spool spool = execution->out[stream];
    char name[32];

    output_name(execution, stream, name);
    fd = folder_fd < 0 ? -1 : openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -ERANGE; /* the session has ended: its output was deleted */
    spool.fd = fd;
    return spool_read(&spool, offset, data, size);
}

ssize_t execution_read(const struct execution *execution, int stream, uint64_t offset, void *data,
                       size_t size)
{
    const struct session *session = execution->session;
    const struct spool *spool = &execution->out[stream - 1];
    const struct buf *early = &execution->early[stream - 1];
    ssize_t length;

    if (spool->fd >= 0)
        return spool_read(spool, offset, data, size);
    if (offset >= spool->length)
        return 0; /* also when the output was deleted */
    if (early->length == spool->length) {
        length = (ssize_t)MIN(size, early->length - (size_t)offset);
        memcpy(data, early->data + offset, (size_t)length);
        return length;
    }
    if (!execution->is_in_row[stream - 1])
        return read_file(execution, stream - 1, offset, data, size);
    length = index_read_output(session->manager->spec.index, session->id, execution->number, stream,
                               offset, data, size);
    return length <= 0 ? -ERANGE : length;
}

uint64_t execution_written(const struct execution *execution, int stream)
{
    return execution->out[stream - 1].length;
}

uint64_t execution_first(const struct execution *execution, int stream)
{
    return execution->out[stream - 1].first;
}
