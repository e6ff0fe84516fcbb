/*
 * cp.c - `bailey cp`: copies files and folders into a session and back.
 *
 * Neither direction leaves its folder: on the host every folder is entered by descriptor without
 * following a link, and names from a box are split and refused unless every part is a plain name
 * (path_arg_name_is_safe), so that nothing is written outside the target folder, whatever a guest
 * names its files. On the host a file appears under its name once it is complete; the daemon does
 * the same in the box.
 */
#include <dirent.h>
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
#include "cli/client/commands.h"
#include "cli/client/cp.h"
#include "cli/client/remote.h"
#include "cli/client_request.h"
#include "cli/message.h"

static int leave_out(struct copy *copy, const char *name, const char *why)
{
    copy->skipped++;
    if (!copy->is_quiet)
        message_print("skipped: %s (%s)", name, why);
    return 0;
}

/* ---- to the session ---- */

static int send_file(struct copy *copy, int fd, const struct stat *status, const char *path,
                     struct error *err)
{
    CLEANUP(buf_free) struct buf address = PATH_BUF;
    bool is_file = status && S_ISREG(status->st_mode);
    char mode[8] = "";
    int result = remote_path(&address, copy->session, "", path, err);

    if (is_file)
        str_format(mode, sizeof(mode), "%04o", (unsigned)status->st_mode & 0777);
    if (result == 0 && mode[0])
        result = client_query(&address, "mode", mode, err);
    if (result == 0)
        result = transfer_send(copy->client, buf_text(&address), fd,
                               is_file ? (int64_t)status->st_size : -1,
                               copy->is_quiet ? NULL : path, copy_total(copy), NULL, err);
    if (result == 0)
        copy_did(copy, is_file ? (uint64_t)status->st_size : 0);
    return result;
}

static int send_folder(struct copy *copy, int dir_fd, const char *path, unsigned depth,
                       struct error *err);

static int send_entry(struct copy *copy, int dir_fd, const char *name, const char *path,
                      unsigned depth, struct error *err)
{
    CLEANUP(fd_closep)
    int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat status;

    if (fd < 0 && errno == ELOOP)
        return leave_out(copy, name, "a link");
    if (fd < 0 && errno == ENXIO)
        return leave_out(copy, name, "not a file");
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_errno(err, "opening '%.200s'", name);
    if (S_ISDIR(status.st_mode))
        return send_folder(copy, fd_take(&fd), path, depth + 1, err);
    if (!S_ISREG(status.st_mode))
        return leave_out(copy, name, "not a file");
    return send_file(copy, fd, &status, path, err);
}

/* Takes over dir_fd. */
static int send_folder(struct copy *copy, int dir_fd, const char *path, unsigned depth,
                       struct error *err)
{
    DIR *folder = fdopendir(dir_fd);
    struct dirent *entry;
    int result;

    if (!folder) {
        close(dir_fd);
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory reading a folder");
    }
    result = depth > LIMIT_TREE_DEPTH
                 ? error_set(err, -ELOOP, ERROR_TOO_LARGE, "more than %d folders in each other",
                             LIMIT_TREE_DEPTH)
                 : remote_mkdir(copy->client, copy->session, path, err);
    while (result == 0 && (errno = 0, entry = readdir(folder))) {
        char below[LIMIT_PATH_BYTES + 1];

        if (str_equal(entry->d_name, ".") || str_equal(entry->d_name, ".."))
            continue;
        result = path_arg_join(below, path, entry->d_name, err);
        if (result == 0)
            result = send_entry(copy, dirfd(folder), entry->d_name, below, depth, err);
    }
    closedir(folder);
    return result;
}

/*
 * Counts the files below a folder and their bytes, for the progress only: what cannot be read is
 * reported when it is sent. Takes over dir_fd.
 */
static void count_folder(int dir_fd, unsigned depth, struct transfer_total *total)
{
    DIR *folder = depth <= LIMIT_TREE_DEPTH ? fdopendir(dir_fd) : NULL;
    struct dirent *entry;

    if (!folder) {
        close(dir_fd);
        return;
    }
    while ((entry = readdir(folder))) {
        struct stat status;

        if (str_equal(entry->d_name, ".") || str_equal(entry->d_name, "..") ||
            fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(status.st_mode)) {
            int fd = openat(dirfd(folder), entry->d_name,
                            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

            if (fd >= 0)
                count_folder(fd, depth + 1, total);
        } else if (S_ISREG(status.st_mode)) {
            total->files_total++;
            total->bytes_total += (uint64_t)status.st_size;
        }
    }
    closedir(folder);
}

/* A folder that is sent as a whole; takes over fd. */
static int send_tree(struct copy *copy, int fd, const char *path, struct error *err)
{
    int counted = copy->is_quiet || !isatty(STDERR_FILENO)
                      ? -1
                      : openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (counted >= 0)
        count_folder(counted, 0, &copy->total);
    copy->total.started_ms = clock_now_ms();
    return send_folder(copy, fd, path, 0, err);
}

/* The target path: inside a folder that exists or is meant, else the given name. */
static int box_place(struct copy *copy, const struct path_arg *to, const char *name,
                     char path[LIMIT_PATH_BYTES + 1], struct error *err)
{
    CLEANUP(json_freep) json_t *entry = NULL;
    int result = remote_stat(copy->client, to->session, to->path, &entry, err);
    bool is_folder = to->ends_in_slash || str_equal(member_text(entry, "type"), "folder");

    if (result < 0)
        return result;
    if (!is_folder)
        return str_copy(path, LIMIT_PATH_BYTES + 1, to->path)
                   ? 0
                   : error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "the path is too long");
    if (!name[0])
        return error_set(err, -EISDIR, ERROR_BAD_INPUT,
                         "'%.200s' is a folder; give the file a name in it", to->path);
    return path_arg_join(path, to->path, name, err);
}

int copy_up(struct copy *copy, const struct path_arg *from, const struct path_arg *to,
            struct error *err)
{
    CLEANUP(fd_closep) int fd = -1;
    char name[NAME_MAX + 1], path[LIMIT_PATH_BYTES + 1];
    struct stat status;
    int result;

    copy->session = to->session;
    if (str_equal(from->path, "-")) {
        result = box_place(copy, to, "", path, err);
        return result < 0 ? result : send_file(copy, STDIN_FILENO, NULL, path, err);
    }
    path_arg_base(from->path, name);
    if (str_equal(name, ".") || str_equal(name, ".."))
        name[0] = 0;
    fd = open(from->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_set(err, -errno, ERROR_NOT_FOUND, "'%.200s': %s", from->path, strerror(errno));
    if (S_ISDIR(status.st_mode) && !name[0]) /* "." and "/": the folder's content */
        return send_tree(copy, fd_take(&fd), to->path, err);
    result = box_place(copy, to, name, path, err);
    if (result < 0)
        return result;
    if (S_ISDIR(status.st_mode))
        return send_tree(copy, fd_take(&fd), path, err);
    return send_file(copy, fd, &status, path, err);
}

/* ---- both directions ---- */

static int check_pair(const struct path_arg *from, const struct path_arg *to, struct error *err)
{
    if (from->is_in_box && to->is_in_box)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "both names are of sessions; copy to this machine first");
    if (!from->is_in_box && !to->is_in_box)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "neither name is of a session; write NAME:PATH for the one that is, or "
                         ":PATH beside -s NAME");
    return 0;
}

/* NAME:PATH or, beside -s NAME, :PATH belong to a session. */
static int parse_name(const struct client_request *request, const char *word, struct path_arg *ret,
                      struct error *err)
{
    int result = path_arg_parse(word, ret, err);

    if (!request->session || result < 0)
        return result;
    /* A word that names a session too is refused there. */
    return ret->is_in_box || word[0] == ':' ? path_arg_parse_in(request->session, word, ret, err)
                                            : 0;
}

static int load(const struct invocation *invocation, struct client_request *request,
                struct path_arg *from, struct path_arg *to, struct error *err)
{
    const struct parsed *parsed = &invocation->parsed;
    int result = client_request_load(invocation, request, err);

    if (result == 0 && parsed->operand_count != 2)
        result = error_set(err, -EINVAL, ERROR_BAD_INPUT, "usage: bailey cp %s", cp_command.usage);
    if (result == 0)
        result = parse_name(request, parsed->operands[0], from, err);
    if (result == 0)
        result = parse_name(request, parsed->operands[1], to, err);
    return result < 0 ? result : check_pair(from, to, err);
}

int cp_run(const struct invocation *invocation)
{
    CLEANUP(client_request_free) struct client_request request = {0};
    CLEANUP(client_close) struct client client = {0};
    struct copy copy = {.client = &client};
    struct path_arg from, to;
    struct error err = {0};

    if (load(invocation, &request, &from, &to, &err) < 0 ||
        client_open(&client, request.config_file, invocation->env, CLIENT_STARTS, &err) < 0 ||
        (to.is_in_box && client_bring_settings(&client, invocation, &err) < 0))
        return client_fail(false, &err);
    copy.is_quiet = request.is_quiet;
    if ((to.is_in_box ? copy_up(&copy, &from, &to, &err) : copy_down(&copy, &from, &to, &err)) <
        0) {
        if (copy.total.files > 0)
            message_print("%llu file%s copied before that", (unsigned long long)copy.total.files,
                          copy.total.files == 1 ? " was" : "s were");
        return client_fail(false, &err);
    }
    return 0;
}
