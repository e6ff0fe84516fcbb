/* paths.c - state folder, socket and locks of a user's daemon; see paths.h. */
#include "cli/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config.h"
#include "model/text.h"
#include "sys/owner.h"

#define SOCKET_NAME "engine.sock"
#define LOCK_SUFFIX ".lock"
#define SYSTEM_STATE "/var/lib/bailey"

/* Room for any path and a little more: what does not fit is an error, never cut. */
static int path_format(char **ret, struct error *err, const char *first, const char *second)
{
    char path[PATH_MAX];

    if (str_format(path, sizeof(path), "%s%s", first, second) < 0)
        return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "the path '%.100s...' is too long",
                         first);
    *ret = strdup(path);
    return *ret ? 0 : error_memory(err);
}

/* A flag's path, relative to the working folder unless it is absolute. */
static int from_flag(char **ret, const char *path, const char *flag, struct error *err)
{
    CLEANUP(freep) char *here = NULL;
    char with_slash[PATH_MAX];

    if (!path[0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s needs a path", flag);
    if (path[0] == '/')
        return path_format(ret, err, path, "");
    here = getcwd(NULL, 0);
    if (!here)
        return error_errno(err, "%s: the working folder", flag);
    str_format(with_slash, sizeof(with_slash), "/%.*s", PATH_MAX - 2, path);
    return path_format(ret, err, here, with_slash);
}

static int find_state(struct paths *paths, const struct config *config, char *const *env,
                      struct error *err)
{
    const char *xdg = env_text(env, "XDG_STATE_HOME");
    const char *home = env_text(env, "HOME");

    if (config->state)
        return path_format(&paths->state, err, config->state, "");
    if (xdg && xdg[0] == '/')
        return path_format(&paths->state, err, xdg, "/bailey");
    if (home && home[0] == '/') /* a user without an entry in /etc/passwd has "/" in a container */
        return path_format(&paths->state, err, home[1] ? home : "", "/.local/state/bailey");
    if (geteuid() == 0)
        return path_format(&paths->state, err, SYSTEM_STATE, "");
    return error_set(err, -ENOENT, ERROR_BAD_INPUT,
                     "no folder for the daemon's state: HOME is not set; name one with "
                     "BAILEY_STATE_DIR=/PATH");
}

static int find_socket(struct paths *paths, char *const *env, struct error *err)
{
    const char *runtime = env_text(env, "XDG_RUNTIME_DIR");

    if (runtime && runtime[0] == '/')
        return path_format(&paths->socket, err, runtime, "/bailey/" SOCKET_NAME);
    return path_format(&paths->socket, err, paths->state, "/run/" SOCKET_NAME);
}

int paths_choose(struct paths *paths, const struct config *config, char *const *env,
                 const char *state, const char *socket, struct error *err)
{
    int result;

    *paths = (struct paths){0};
    result = state ? from_flag(&paths->state, state, "--state", err)
                   : find_state(paths, config, env, err);
    if (result == 0)
        result = socket ? from_flag(&paths->socket, socket, "--socket", err)
                        : find_socket(paths, env, err);
    if (result < 0) {
        paths_free(paths);
        return result;
    }
    if (strlen(paths->socket) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
        result = error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT,
                           "the socket's path '%.200s' is longer than the %zu bytes that the "
                           "kernel allows; set XDG_RUNTIME_DIR to a shorter folder",
                           paths->socket, sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
        paths_free(paths);
    }
    return result;
}

void paths_free(struct paths *paths)
{
    free(paths->state);
    free(paths->socket);
    *paths = (struct paths){0};
}

int paths_path(const struct paths *paths, const char *name, char *path, size_t size,
               struct error *err)
{
    if (str_format(path, size, "%s/%s", paths->state, name) < 0)
        return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "the path of %s is too long", name);
    return 0;
}

static int check_folder(const char *path, struct error *err)
{
    CLEANUP(fd_closep) int fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;

    if (fd < 0 || fstat(fd, &status) < 0)
        return error_errno(err, "the folder '%.300s'", path);
    if (status.st_uid != geteuid())
        return error_set(err, -EPERM, ERROR_BAD_INPUT,
                         "the folder '%.300s' belongs to another user; name one of your own with "
                         "BAILEY_STATE_DIR or XDG_RUNTIME_DIR",
                         path);
    if (status.st_mode & (S_IWGRP | S_IWOTH))
        return error_set(err, -EPERM, ERROR_BAD_INPUT,
                         "others may write the folder '%.300s'; run chmod 700 on it", path);
    if ((status.st_mode & 077) != 0 && chmod(path, 0700) < 0)
        return error_errno(err, "making the folder '%.300s' private", path);
    return 0;
}

static int folder_refused(const char *path, struct error *err)
{
    int num = errno;

    return error_set(err, -num, ERROR_BAD_INPUT,
                     "making the folder '%.300s': %s; name folders of your own with "
                     "BAILEY_STATE_DIR and XDG_RUNTIME_DIR",
                     path, strerror(num));
}

/* mkdir -p; the last one is ours alone. */
static int make_folder(const char *path, struct error *err)
{
    char parent[PATH_MAX];

    if (!str_copy(parent, sizeof(parent), path))
        return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "the path '%.100s...' is too long",
                         path);
    for (char *at = parent + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        if (mkdir(parent, 0700) < 0 && errno != EEXIST)
            return folder_refused(parent, err);
        *at = '/';
    }
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return folder_refused(path, err);
    return check_folder(path, err);
}

int paths_make(const struct paths *paths, struct error *err)
{
    char folder[PATH_MAX];
    int result = make_folder(paths->state, err);

    if (result < 0)
        return result;
    str_copy(folder, sizeof(folder), paths->socket);
    *strrchr(folder, '/') = 0;
    return make_folder(folder, err);
}

/* ---- locks ---- */

static int open_lock(const char *path, int flags)
{
    return open(path, flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
}

static struct flock whole_file(void)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET};
}

/* The lock's file names its holder: "PID\nSTATE\nSOCKET\n", for the error of a second daemon. */
struct holder {
    char text[3 * PATH_MAX];
    const char *pid, *state, *socket;
};

static void read_holder(int fd, struct holder *ret)
{
    ssize_t length = pread(fd, ret->text, sizeof(ret->text) - 1, 0);
    const char **parts[] = {&ret->pid, &ret->state, &ret->socket};
    char *at = ret->text;

    ret->text[length > 0 ? length : 0] = 0;
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        char *end = strchr(at, '\n');

        *parts[i] = end ? at : "unknown";
        if (end) {
            *end = 0;
            at = end + 1;
        }
    }
}

static int take_lock(const char *path, const struct paths *paths, int *ret_fd, struct error *err)
{
    CLEANUP(fd_closep) int fd = open_lock(path, O_RDWR | O_CREAT);
    struct flock lock = whole_file();
    char text[3 * PATH_MAX];

    if (fd < 0)
        return error_errno(err, "opening the lock '%.300s'", path);
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
        struct holder holder;

        if (errno != EAGAIN && errno != EACCES)
            return error_errno(err, "locking '%.300s'", path);
        read_holder(fd, &holder);
        return error_set(err, -EALREADY, ERROR_BAD_INPUT,
                         "a daemon is already running (pid %.20s, socket %.200s, state %.200s); "
                         "'bailey daemon stop' ends it",
                         holder.pid, holder.socket, holder.state);
    }
    str_format(text, sizeof(text), "%d\n%s\n%s\n", (int)getpid(), paths->state, paths->socket);
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, strlen(text), 0) != (ssize_t)strlen(text))
        return error_errno(err, "writing the lock '%.300s'", path);
    *ret_fd = fd_take(&fd);
    return 0;
}

static int socket_lock_path(const struct paths *paths, char path[PATH_MAX])
{
    return str_format(path, PATH_MAX, "%s" LOCK_SUFFIX, paths->socket);
}

int paths_lock(const struct paths *paths, int ret_fds[2], struct error *err)
{
    CLEANUP(fd_closep) int state_fd = -1;
    char path[PATH_MAX];
    int result = paths_path(paths, "daemon.lock", path, sizeof(path), err);

    if (result == 0)
        result = take_lock(path, paths, &state_fd, err);
    if (result < 0)
        return result;
    socket_lock_path(paths, path);
    result = take_lock(path, paths, &ret_fds[1], err);
    if (result < 0)
        return result;
    ret_fds[0] = fd_take(&state_fd);
    return 0;
}

static bool is_held(int fd)
{
    struct flock lock = whole_file();

    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static int make_identity(const char *path, char ret[ID_MAX], struct error *err)
{
    CLEANUP(fd_closep) int fd = -1;
    char draft[PATH_MAX];
    int result = id_make(ret, "state");

    if (result == 0)
        result = str_format(draft, sizeof(draft), "%s.new", path);
    if (result < 0)
        return error_set(err, result, ERROR_ENGINE, "naming the state folder: %s",
                         strerror(-result));
    fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "writing '%.300s'", draft);
    result = fd_write_all(fd, ret, strlen(ret));
    if (result < 0)
        return error_set(err, result, ERROR_ENGINE, "writing '%.300s': %s", draft,
                         strerror(-result));
    return rename(draft, path) < 0 ? error_errno(err, "writing '%.300s'", path) : 0;
}

int paths_identity(const struct paths *paths, char ret[ID_MAX], struct error *err)
{
    char path[PATH_MAX];
    int result = paths_path(paths, "identity", path, sizeof(path), err);

    if (result < 0)
        return result;
    if (fd_read_text_at(AT_FDCWD, path, ret, ID_MAX) >= 0 && str_starts(ret, "state_"))
        return 0;
    return make_identity(path, ret, err);
}

bool paths_is_locked(const struct paths *paths)
{
    CLEANUP(fd_closep) int fd = -1;
    char path[PATH_MAX];

    if (paths_path(paths, "daemon.lock", path, sizeof(path), NULL) < 0)
        return false;
    fd = open_lock(path, O_RDONLY);
    return fd >= 0 && is_held(fd);
}

int paths_adopt(struct paths *paths, struct error *err)
{
    CLEANUP(fd_closep) int fd = -1;
    struct holder holder;
    char path[PATH_MAX];
    char *copy;

    if (paths_path(paths, "daemon.lock", path, sizeof(path), err) < 0)
        return -ENAMETOOLONG;
    fd = open_lock(path, O_RDONLY);
    if (fd < 0 || !is_held(fd))
        return 0;
    read_holder(fd, &holder);
    if (holder.socket[0] != '/' || str_equal(holder.socket, paths->socket))
        return 0;
    copy = strdup(holder.socket);
    if (!copy)
        return error_memory(err);
    free(paths->socket);
    paths->socket = copy;
    return 0;
}

int paths_check_owner(const struct paths *paths, struct error *err)
{
    CLEANUP(fd_closep) int fd = -1;
    struct holder holder;
    char path[PATH_MAX];

    socket_lock_path(paths, path);
    fd = open_lock(path, O_RDONLY);
    if (fd < 0 || !is_held(fd))
        return 0;
    read_holder(fd, &holder);
    if (str_equal(holder.state, paths->state) || str_equal(holder.state, "unknown"))
        return 0;
    return error_set(err, -EEXIST, ERROR_BAD_INPUT,
                     "the socket %.200s belongs to a daemon with another state folder (%.200s, not "
                     "%.200s); use that one, or set another XDG_RUNTIME_DIR for this one",
                     paths->socket, holder.state, paths->state);
}

/* ---- daemon.json ---- */

int paths_write_record(const struct paths *paths, pid_t pid, bool has_log, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    CLEANUP(fd_closep) int fd = -1;
    char path[PATH_MAX], draft[PATH_MAX], started_at[40];
    json_t *json;
    int result;

    clock_iso(started_at, sizeof(started_at));
    json = json_pack("{s:i, s:I, s:o*, s:o*, s:s, s:b}", "pid", (int)pid, "pid_namespace",
                     (json_int_t)owner_pid_namespace(), "socket",
                     text_to_json(paths->socket, strlen(paths->socket)), "state",
                     text_to_json(paths->state, strlen(paths->state)), "started_at", started_at,
                     "log", has_log);
    result = json ? text_of_json(json, JSON_COMPACT, &text) : -ENOMEM;
    json_decref(json);
    if (result < 0)
        return error_set(err, result, ERROR_ENGINE, "writing daemon.json: %s", strerror(-result));
    result = paths_path(paths, "daemon.json", path, sizeof(path), err);
    if (result == 0)
        result = paths_path(paths, "daemon.json.new", draft, sizeof(draft), err);
    if (result < 0)
        return result;
    fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "writing '%.300s'", draft);
    result = fd_write_all(fd, buf_text(&text), text.length);
    if (result < 0)
        return error_set(err, result, ERROR_ENGINE, "writing '%.300s': %s", draft,
                         strerror(-result));
    if (rename(draft, path) < 0)
        return error_errno(err, "writing '%.300s'", path);
    return 0;
}

int paths_read_record(const struct paths *paths, struct daemon_record *ret, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    CLEANUP(fd_closep) int fd = -1;
    const char *socket, *started_at;
    char path[PATH_MAX];
    json_t *json;
    json_int_t pid_namespace = 0;
    int pid, has_log = 0;

    *ret = (struct daemon_record){0};
    if (paths_path(paths, "daemon.json", path, sizeof(path), err) < 0)
        return -ENAMETOOLONG;
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return error_errno(err, "reading '%.300s'", path);
    if (buf_read_fd(&text, fd) < 0)
        return error_set(err, -EIO, ERROR_ENGINE, "'%.300s' cannot be read", path);
    json = json_loadb(buf_text(&text), text.length, 0, NULL);
    if (!json ||
        json_unpack(json, "{s:i, s?I, s:s, s:s, s?b}", "pid", &pid, "pid_namespace", &pid_namespace,
                    "socket", &socket, "started_at", &started_at, "log", &has_log) < 0 ||
        pid < (pid_namespace ? 1 : 2) || /* a container's first process may be a daemon */
        !str_copy(ret->socket, sizeof(ret->socket), socket) ||
        !str_copy(ret->started_at, sizeof(ret->started_at), started_at)) {
        json_decref(json);
        return error_set(err, -EINVAL, ERROR_ENGINE, "'%.300s' is not what bailey wrote", path);
    }
    ret->pid = pid;
    ret->pid_namespace = (uint64_t)pid_namespace;
    ret->has_log = has_log;
    json_decref(json);
    return 0;
}

void paths_remove_record(const struct paths *paths)
{
    char path[PATH_MAX];

    if (paths_path(paths, "daemon.json", path, sizeof(path), NULL) == 0)
        unlink(path);
}
