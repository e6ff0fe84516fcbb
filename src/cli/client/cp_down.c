/* cp_down.c - `bailey cp` from a session to the host; see cp.c. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/cp.h"
#include "cli/client/remote.h"
#include "cli/message.h"
#include "cli/output.h"

static int write_fd(void *ctx, const void *data, size_t length)
{
    return fd_write_all(*(const int *)ctx, data, length);
}

/* "0644": only permission bits; a guest cannot make a file setuid on the host. */
static mode_t entry_mode(json_t *entry)
{
    const char *text = member_text(entry, "mode");
    unsigned mode = 0;

    if (!text[0])
        return 0644;
    for (; *text >= '0' && *text <= '7'; text++)
        mode = (mode << 3 | (unsigned)(*text - '0')) & 07777;
    return mode & 0777;
}

/*
 * Written under a temporary name first: the target is either the old file or the complete new one.
 */
static int receive_at(struct copy *copy, const char *path, json_t *entry, int dir_fd,
                      const char *name, struct error *err)
{
    CLEANUP(buf_free) struct buf address = PATH_BUF;
    CLEANUP(fd_closep) int fd = -1;
    char id[ID_MAX], draft[ID_MAX + 16];
    int result = remote_path(&address, copy->session, "", path, err);

    if (result == 0 && id_make(id, "cp") < 0)
        result = error_set(err, -EIO, ERROR_ENGINE, "no random bytes");
    if (result < 0)
        return result;
    str_format(draft, sizeof(draft), ".%s.part", id);
    fd = openat(dir_fd, draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "writing '%.200s'", name);
    result = transfer_receive(copy->client, buf_text(&address),
                              json_integer_value(json_object_get(entry, "bytes")),
                              copy->is_quiet ? NULL : path, copy_total(copy), write_fd, &fd, err);
    if (result == 0 && fchmod(fd, entry_mode(entry)) < 0)
        result = error_errno(err, "the mode of '%.200s'", name);
    if (result == 0 && renameat(dir_fd, draft, dir_fd, name) < 0)
        result = error_errno(err, "writing '%.200s'", name);
    if (result < 0)
        unlinkat(dir_fd, draft, 0);
    else
        copy_did(copy, (uint64_t)json_integer_value(json_object_get(entry, "bytes")));
    return result;
}

/* Enters a subfolder, and makes it if it is missing; never follows a link. */
static int enter(int dir_fd, const char *name, struct error *err)
{
    int fd;

    if (mkdirat(dir_fd, name, 0755) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder '%.200s'", name);
    fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? error_errno(err, "entering the folder '%.200s'", name) : fd;
}

/*
 * The folder of a name like "a/b/c", part by part; *ret_last is "c". With is_folder the last part
 * is entered too. The name is safe: path_arg_name_is_safe().
 */
static int descend(int root_fd, const char *name, bool is_folder, int *ret_fd,
                   const char **ret_last, struct error *err)
{
    CLEANUP(fd_closep) int fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 3);
    const char *at = name;

    while (fd >= 0) {
        size_t length = strcspn(at, "/");
        char part[NAME_MAX + 1];
        int next;

        if (!at[length] && !is_folder)
            break;
        str_format(part, sizeof(part), "%.*s", (int)length, at);
        next = enter(fd, part, err);
        fd_closep(&fd);
        if (next < 0)
            return next;
        fd = next;
        if (!at[length])
            break;
        at += length + 1;
    }
    if (fd < 0)
        return error_errno(err, "entering the target folder");
    *ret_fd = fd_take(&fd);
    *ret_last = at;
    return 0;
}

static int receive_entry(struct copy *copy, const char *folder, json_t *entry, int root_fd,
                         struct error *err)
{
    CLEANUP(fd_closep) int fd = -1;
    const char *name = member_text(entry, "name"), *type = member_text(entry, "type");
    bool is_folder = str_equal(type, "folder");
    char path[LIMIT_PATH_BYTES + 1];
    const char *last = name;
    int result;

    if (!path_arg_name_is_safe(name))
        return error_set(err, -EINVAL, ERROR_PATH_REFUSED,
                         "the session has a file with a name that would lead out of the target "
                         "folder ('%.100s'); nothing was written for it",
                         name);
    if (!is_folder && !str_equal(type, "file")) {
        copy->skipped++;
        if (!copy->is_quiet)
            message_print("skipped: %s (%s)", name, type);
        return 0;
    }
    result = descend(root_fd, name, is_folder, &fd, &last, err);
    if (result < 0 || is_folder)
        return result;
    result = path_arg_join(path, folder, name, err);
    return result < 0 ? result : receive_at(copy, path, entry, fd, last, err);
}

int copy_folder(struct copy *copy, const struct path_arg *from, int root_fd, struct error *err)
{
    CLEANUP(json_freep) json_t *reply = NULL;
    json_t *entry;
    size_t i;
    int result = remote_list(copy->client, copy->session, from->path, 0, &reply, err);

    if (result < 0)
        return result;
    json_array_foreach(json_object_get(reply, "entries"), i, entry)
    {
        if (!str_equal(member_text(entry, "type"), "file"))
            continue;
        copy->total.files_total++;
        copy->total.bytes_total += (uint64_t)json_integer_value(json_object_get(entry, "bytes"));
    }
    copy->total.started_ms = clock_now_ms();
    json_array_foreach(json_object_get(reply, "entries"), i, entry)
    {
        result = receive_entry(copy, from->path, entry, root_fd, err);
        if (result < 0)
            return result;
    }
    if (json_is_true(json_object_get(reply, "truncated")))
        return error_set(
            err, -E2BIG, ERROR_TOO_LARGE,
            "the folder has too many files for one listing; copy its subfolders one by one");
    return 0;
}

/* The folder that contains `path`, or `path` itself (then *ret_name is the file's name in it). */
static int host_place(const struct path_arg *to, const char *base, int *ret_fd,
                      char name[NAME_MAX + 1], struct error *err)
{
    char folder[LIMIT_PATH_BYTES + 1];
    struct stat status;
    bool is_folder = to->ends_in_slash || (stat(to->path, &status) == 0 && S_ISDIR(status.st_mode));
    int result;

    if (is_folder) {
        str_copy(folder, sizeof(folder), to->path);
        str_copy(name, NAME_MAX + 1, base);
    } else {
        const char *slash = strrchr(to->path, '/');

        path_arg_base(to->path, name);
        result = str_format(folder, sizeof(folder), "%.*s",
                            slash ? (int)MAX(slash - to->path, 1) : 1, slash ? to->path : ".");
        if (result < 0)
            return error_set(err, result, ERROR_BAD_INPUT, "the path is too long");
    }
    if (!path_arg_name_is_safe(name))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%.200s' is not a name to copy to",
                         to->path);
    *ret_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_fd < 0)
        return error_set(err, -errno, ERROR_NOT_FOUND, "the folder '%.200s': %s", folder,
                         strerror(errno));
    return 0;
}

static int write_stdout(void *ctx, const void *data, size_t length)
{
    (void)ctx;
    return stream_write(STDOUT_FILENO, data, length, -1);
}

static int to_stdout(struct copy *copy, const struct path_arg *from, struct error *err)
{
    CLEANUP(buf_free) struct buf address = PATH_BUF;
    int result = remote_path(&address, copy->session, "", from->path, err);

    return result < 0 ? result
                      : transfer_receive(copy->client, buf_text(&address), -1, NULL, NULL,
                                         write_stdout, NULL, err);
}

int copy_down(struct copy *copy, const struct path_arg *from, const struct path_arg *to,
              struct error *err)
{
    CLEANUP(json_freep) json_t *entry = NULL;
    CLEANUP(fd_closep) int dir_fd = -1;
    CLEANUP(fd_closep) int root_fd = -1;
    char base[NAME_MAX + 1], name[NAME_MAX + 1];
    int result;

    copy->session = from->session;
    if (str_equal(to->path, "-"))
        return to_stdout(copy, from, err);
    result = remote_stat(copy->client, copy->session, from->path, &entry, err);
    if (result < 0)
        return result;
    if (!entry)
        return error_set(err, -ENOENT, ERROR_PATH_NOT_FOUND, "there is no '%.200s' in the session",
                         from->path);
    path_arg_base(from->path, base);
    result = host_place(to, base, &dir_fd, name, err);
    if (result < 0)
        return result;
    if (!str_equal(member_text(entry, "type"), "folder"))
        return receive_at(copy, from->path, entry, dir_fd, name, err);
    root_fd = enter(dir_fd, name, err);
    return root_fd < 0 ? root_fd : copy_folder(copy, from, root_fd, err);
}
