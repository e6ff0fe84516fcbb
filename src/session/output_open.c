/*
 * output_open.c - saved outputs: their folder, their files, their JSON and their announcement on
 * the bus.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "model/text.h"
#include "session/session_private.h"
#include "store/output_file.h"

/* The session's folder below output/; a negative errno. */
int output_folder(struct session *session, bool makes_it)
{
    int output_fd = session->manager->spec.folders.output_fd;
    char name[ID_MAX + 16];
    int fd;

    str_format(name, sizeof(name), "session_%s", session->id);
    if (makes_it && mkdirat(output_fd, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    fd = openat(output_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int session_output_open(struct session *session, const char *name, struct error *err)
{
    CLEANUP(fd_closep) int folder_fd = -1;
    const char *slash;
    struct stat status;
    int fd;

    if (output_name_problem(name))
        return error_set(err, -ENOENT, ERROR_PATH_NOT_FOUND, "there is no saved output '%.200s'",
                         name);
    folder_fd = output_folder(session, false);
    while (folder_fd >= 0 && (slash = strchr(name, '/'))) {
        char part[256];
        int next;

        str_format(part, sizeof(part), "%.*s", (int)(slash - name), name);
        next = openat(folder_fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        close(folder_fd);
        folder_fd = next;
        name = slash + 1;
    }
    fd = folder_fd < 0 ? -1
                       : openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        return fd;
    fd_closep(&fd);
    return error_set(err, -ENOENT, ERROR_PATH_NOT_FOUND, "there is no saved output '%.200s'", name);
}

json_t *session_output_json(struct session *session, const struct session_output *output)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(3 * LIMIT_PATH_BYTES);
    char url[ID_MAX + 32];

    if (output->is_saved)
        buf_printf(&path, "%s/%s", session_output_folder(session), output->name);
    if (output->id)
        str_format(url, sizeof(url), "/v1/artifacts/%s", output->id);
    return json_pack("{s:o, s:o, s:I, s:s, s:s, s:s?, s:o, s:s?, s:s?, s:s?}", "name",
                     text_to_json(output->name, strlen(output->name)), "path",
                     output->is_saved ? text_to_json(buf_text(&path), path.length) : json_null(),
                     "bytes", (json_int_t)output->bytes, "mime", output->type, "kind", output->kind,
                     "skipped", output->skipped, "modified_at",
                     time_json(output->time_ns / 1000000), "id", output->id, "sha256",
                     output->sha256, "url", output->id ? url : NULL);
}

void output_announce(struct session *session, const struct session_output *output)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(3 * LIMIT_PATH_BYTES);
    CLEANUP(buf_free) struct buf url = BUF_INIT(3 * LIMIT_PATH_BYTES);

    if (!str_equal(output->kind, "image"))
        return;
    buf_printf(&path, "%s/%s", session_output_folder(session), output->name);
    buf_printf(&url, "/v1/sessions/%s/outputs/%s", session->id, output->name);
    bus_publish(session->manager->spec.bus, EVENT_VISUALIZATION, session->tenant, session->id,
                json_pack("{s:o, s:o, s:s, s:I, s:o}", "name",
                          text_to_json(output->name, strlen(output->name)), "path",
                          text_to_json(buf_text(&path), path.length), "mime", output->type, "bytes",
                          (json_int_t)output->bytes, "url",
                          text_to_json(buf_text(&url), url.length)));
}

/*
 * The files of an API tenant are removed: they have no reader on this machine. The local tenant's
 * folder stays; its user removes it.
 */
void outputs_remove(struct session *session)
{
    char name[ID_MAX + 16];

    if (str_equal(session->tenant, TENANT_LOCAL))
        return;
    str_format(name, sizeof(name), "session_%s", session->id);
    session_manager_discard(session->manager, session->manager->spec.folders.output_fd, name);
}
