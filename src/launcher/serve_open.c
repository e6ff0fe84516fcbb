/*
 * serve_open.c - what needs the caller's rights, opened before they go: folders, socket, programs,
 * trees of the host, a control group; see serve.h.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/str.h"
#include "launcher/engine.h"
#include "sys/calls.h"
#include "sys/subid.h"

#define RANGE_TRIES 64
#define FILES_WANTED 1048576 /* descriptors: each box costs the launcher two */

const char *const engine_folders[ENGINE_FOLDER_COUNT] = STATE_FOLDERS;

static void fill(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fds[i] = -1;
}

static void close_all(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fd_closep(&fds[i]);
}

void serve_init(struct serve *serve, const struct serve_spec *spec, struct engine_plan *plan)
{
    memset(serve, 0, sizeof(*serve));
    serve->spec = spec;
    serve->plan = plan;
    serve->lock_fd = serve->range_fd = serve->listen_fd = serve->settings_fd = serve->self_fd = -1;
    serve->engine_fd = serve->leaf_fd = serve->stub_fd = serve->launcher_fd = -1;
    serve->root_tree = serve->signal_fd = serve->pid_fd = -1;
    serve->egress_fd = serve->egress_pid_fd = serve->installer_fd = -1;
    serve->wall_fd = serve->wall_pid_fd = -1;
    upgrade_door_init(&serve->upgrade);
    serve->notify = NOTIFY_INIT;
    fill(serve->wheel_tree, ENGINE_WHEELS_MAX);
    fill(serve->group_fd, _CONTROLLER_MAX);
    fill(serve->folder_fd, ENGINE_FOLDER_COUNT);
    fill(serve->folder_tree, ENGINE_FOLDER_COUNT);
    fill(serve->bind_tree, ENGINE_BINDS_MAX);
    fill(serve->dataset_fd, ENGINE_DATASETS_MAX);
    fill(serve->tcp_fd, SERVE_LISTEN_MAX);
}

void serve_close(struct serve *serve)
{
    int *single[] = {&serve->lock_fd,     &serve->range_fd,      &serve->listen_fd,
                     &serve->settings_fd, &serve->self_fd,       &serve->engine_fd,
                     &serve->leaf_fd,     &serve->stub_fd,       &serve->launcher_fd,
                     &serve->root_tree,   &serve->signal_fd,     &serve->pid_fd,
                     &serve->egress_fd,   &serve->egress_pid_fd, &serve->installer_fd,
                     &serve->wall_fd,     &serve->wall_pid_fd};

    for (size_t i = 0; i < ARRAY_SIZE(single); i++)
        fd_closep(single[i]);
    upgrade_door_close(&serve->upgrade);
    notify_close(&serve->notify);
    close_all(serve->group_fd, _CONTROLLER_MAX);
    close_all(serve->folder_fd, ENGINE_FOLDER_COUNT);
    close_all(serve->folder_tree, ENGINE_FOLDER_COUNT);
    close_all(serve->bind_tree, ENGINE_BINDS_MAX);
    close_all(serve->dataset_fd, ENGINE_DATASETS_MAX);
    close_all(serve->tcp_fd, SERVE_LISTEN_MAX);
    close_all(serve->wheel_tree, ENGINE_WHEELS_MAX);
}

/* ---- ids ---- */

/*
 * One engine for a range, on this host: the name of a socket in no file system, held by the stub.
 * An ordinary user can take the names too, and gains that engines share ids.
 */
static bool hold_range(unsigned first, int *ret_fd)
{
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (fd < 0 ||
        str_format(address.sun_path + 1, sizeof(address.sun_path) - 1, "bailey-ids-%u", first) <
            0 ||
        bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return false;
    *ret_fd = fd_take(&fd);
    return true;
}

/* The first that no other engine has; /etc/subuid may give only one, which is shared then. */
static void choose_range(struct serve *serve)
{
    uint64_t base = serve->spec->box.id_base;
    unsigned first, count;

    subid_find_for_root(base, &serve->first, &serve->count);
    for (unsigned i = 0; i < RANGE_TRIES; i++) {
        subid_find_for_root(base + (uint64_t)i * SUBID_RANGE, &first, &count);
        if (hold_range(first, &serve->range_fd)) {
            serve->first = first;
            serve->count = count;
            return;
        }
    }
}

/*
 * Root: a range of ids that no user has; without the capabilities to use one (a container's root
 * may lack them), and for other users: the caller's own id, and the caller's ranges through
 * newuidmap. The same count of users and groups, so that a pair is the same numbers in both.
 */
static void choose_ids(struct serve *serve)
{
    unsigned uid_count, gid_count;
    unsigned mapped = 1;

    if (geteuid() == 0 && subid_may_give()) {
        choose_range(serve);
        serve->count = MIN(serve->count, (unsigned)SUBID_RANGE);
        serve->is_range = serve->count >= 2;
        mapped = serve->count;
    } else if (access(NEWUIDMAP, X_OK) == 0 && access(NEWGIDMAP, X_OK) == 0 &&
               subid_find("/etc/subuid", geteuid(), &serve->sub_uid, &uid_count) &&
               subid_find("/etc/subgid", geteuid(), &serve->sub_gid, &gid_count)) {
        serve->is_helped = true;
        serve->sub_count = MIN(uid_count, gid_count);
        serve->sub_count = MIN(serve->sub_count, (unsigned)SUBID_RANGE);
        mapped = 1 + serve->sub_count;
    }
    serve_note_ids(serve, mapped);
}

void serve_note_ids(struct serve *serve, unsigned mapped)
{
    struct engine_plan *plan = serve->plan;

    plan->broker_id = serve->is_range ? ENGINE_BROKER_ID : 0;
    plan->clears_groups = serve->is_range || serve->is_helped;
    plan->pair_count = mapped <= ENGINE_PAIR_FIRST ? 0 : (mapped - ENGINE_PAIR_FIRST) / 2;
    plan->pair_count = MIN(plan->pair_count, (uint32_t)LIMIT_BOXES);
}

/* ---- folders ---- */

static int give_tree(int dir_fd, unsigned id, unsigned depth);

/*
 * One entry, by descriptor: what it is called cannot become something else meanwhile. A file with
 * several names may be somebody else's too, and is left alone.
 */
static int give_entry(int dir_fd, const char *name, unsigned id, unsigned depth)
{
    CLEANUP(fd_closep) int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;

    if (fd < 0 || fstat(fd, &status) < 0)
        return -errno;
    if (S_ISDIR(status.st_mode)) {
        CLEANUP(fd_closep) int folder_fd = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (folder_fd < 0)
            return -errno;
        return give_tree(folder_fd, id, depth + 1);
    }
    if (!S_ISREG(status.st_mode) || status.st_nlink > 1 || status.st_uid == id)
        return 0;
    return fchownat(fd, "", id, id, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* The folder itself last: one that is the broker's already has been given with all in it. */
static int give_tree(int dir_fd, unsigned id, unsigned depth)
{
    struct dirent *entry;
    struct stat status;
    DIR *folder;
    int fd, r = 0;

    if (fstat(dir_fd, &status) < 0)
        return -errno;
    if (status.st_uid == id)
        return 0;
    if (depth > LIMIT_TREE_DEPTH)
        return -ELOOP;
    fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        fd_closep(&fd);
        return -ENOMEM;
    }
    while (r == 0 && (entry = readdir(folder))) {
        if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
            r = give_entry(dir_fd, entry->d_name, id, depth);
    }
    closedir(folder);
    if (r == 0 && fchown(dir_fd, id, id) < 0)
        r = -errno;
    return r;
}

static int open_folders(struct serve *serve, struct error *err)
{
    CLEANUP(fd_closep)
    int state_fd = open(serve->spec->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (state_fd < 0)
        return error_errno(err, "opening the state folder %s", serve->spec->state);
    /* One daemon for a state folder; the stub holds the lock as long as it lives. */
    if (flock(state_fd, LOCK_EX | LOCK_NB) < 0)
        return error_set(err, -EBUSY, ERROR_ENGINE, "a daemon is already serving %s",
                         serve->spec->state);
    for (size_t i = 0; i < ENGINE_FOLDER_COUNT; i++) {
        const char *name = engine_folders[i];
        int r = 0;

        if (mkdirat(state_fd, name, 0700) < 0 && errno != EEXIST)
            return error_errno(err, "making the folder %s/%s", serve->spec->state, name);
        serve->folder_fd[i] =
            openat(state_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (serve->folder_fd[i] < 0)
            return error_errno(err, "opening the folder %s/%s", serve->spec->state, name);
        if (i == FOLDER_LAYERS)
            folder_sweep(serve->folder_fd[i], STAGING_PREFIX); /* of ids we may have no more */
        if (serve->is_range)
            r = give_tree(serve->folder_fd[i], serve->first + ENGINE_BROKER_ID, 0);
        if (r < 0)
            return error_set(err, r, ERROR_ENGINE, "handing %s/%s to the engine's id: %s",
                             serve->spec->state, name, strerror(-r));
    }
    serve->lock_fd = fd_take(&state_fd);
    return 0;
}

static int open_datasets(struct serve *serve, struct error *err)
{
    const char *const *folders = serve->spec->dataset_folders;
    uint32_t count = 0;

    for (; folders && folders[count]; count++) {
        if (count == ENGINE_DATASETS_MAX)
            return error_set(err, -E2BIG, ERROR_BAD_CONFIG, "more than %d dataset folders",
                             ENGINE_DATASETS_MAX);
        serve->dataset_fd[count] = open(folders[count], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (serve->dataset_fd[count] < 0)
            return error_errno(err, "opening the dataset folder %s", folders[count]);
    }
    serve->plan->dataset_count = count;
    return 0;
}

/* ---- the socket ---- */

/* By the folder's descriptor: a socket's address holds 107 bytes, a path may be longer. */
static int socket_address(const char *path, int *ret_folder_fd, struct sockaddr_un *ret,
                          const char **ret_name, struct error *err)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');

    if (!slash || !slash[1] ||
        str_format(folder, sizeof(folder), "%.*s/", (int)(slash - path), path))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%s' is no path for a socket", path);
    *ret_folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*ret_folder_fd < 0)
        return error_errno(err, "opening the socket's folder %s", folder);
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (str_format(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s", *ret_folder_fd,
                   slash + 1) < 0)
        return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "the socket's name is too long: %s",
                         slash + 1);
    *ret_name = slash + 1;
    return 0;
}

int serve_socket_connect(const char *path, int type, int *ret_fd, struct error *err)
{
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    CLEANUP(fd_closep) int folder_fd = -1;
    struct sockaddr_un address;
    const char *name = NULL;
    int r = socket_address(path, &folder_fd, &address, &name, err);

    if (r < 0)
        return r;
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        return error_errno(err, "connecting to %s", path);
    *ret_fd = fd_take(&fd);
    return 0;
}

int serve_socket_listen(const char *path, int type, int *ret_fd, struct error *err)
{
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CLEANUP(fd_closep) int folder_fd = -1;
    const char *name = NULL;
    struct sockaddr_un address;
    struct stat status;
    mode_t mask;
    int r = socket_address(path, &folder_fd, &address, &name, err);

    if (r < 0)
        return r;
    if (fd < 0)
        return error_errno(err, "making the socket");
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 || errno == EAGAIN)
        return error_set(err, -EADDRINUSE, ERROR_ENGINE, "somebody already serves on %s", path);
    /* Nobody listens there: what is left of one that was killed goes. */
    if (fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISSOCK(status.st_mode))
        unlinkat(folder_fd, name, 0);
    mask = umask(0177);
    r = bind(fd, (struct sockaddr *)&address, sizeof(address));
    umask(mask);
    if (r < 0 || listen(fd, SOMAXCONN) < 0)
        return error_errno(err, "listening on %s", path);
    *ret_fd = fd_take(&fd);
    return 0;
}

/* One that the service manager opened is his to remove; the caller keeps his descriptor of it. */
static int open_socket(struct serve *serve, struct error *err)
{
    const struct serve_spec *spec = serve->spec;

    if (spec->socket_fd == 0)
        return serve_socket_listen(spec->socket, SOCK_STREAM, &serve->listen_fd, err);
    serve->listen_fd = fcntl(spec->socket_fd, F_DUPFD_CLOEXEC, 3);
    return serve->listen_fd < 0 ? error_errno(err, "taking the service manager's socket") : 0;
}

/* ---- trees of the host ---- */

static void take_tree(int *fd, int dir_fd, const char *path)
{
    if (*fd < 0)
        *fd = sys_open_tree(dir_fd, path,
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);
}

void serve_take_trees(struct serve *serve)
{
    const struct launch_spec *box = &serve->spec->box;

    if (!serve->is_range)
        return; /* the launcher is the caller himself: it goes where he goes */
    for (size_t i = 0; i < ENGINE_FOLDER_COUNT; i++) {
        char path[PATH_MAX];

        if (str_format(path, sizeof(path), "%s/%s", serve->spec->state, engine_folders[i]) == 0)
            take_tree(&serve->folder_tree[i], AT_FDCWD, path);
    }
    for (size_t i = 0; i < box->bind_count; i++)
        take_tree(&serve->bind_tree[i], AT_FDCWD, box->binds[i].host);
    for (size_t i = 0; i < serve->plan->wheel_count; i++)
        take_tree(&serve->wheel_tree[i], AT_FDCWD, serve->spec->wheels[i].host);
    if (box->root)
        take_tree(&serve->root_tree, AT_FDCWD, box->root);
}

/* ---- all of it ---- */

static int write_plan(struct serve *serve, struct error *err)
{
    const struct launch_spec *box = &serve->spec->box;
    struct engine_plan *plan = serve->plan;
    bool fits = str_copy(plan->magic, sizeof(plan->magic), ENGINE_MAGIC);

    if (box->bind_count > ENGINE_BINDS_MAX)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE, "more than %d folders to show in boxes",
                         ENGINE_BINDS_MAX);
    fits = fits && str_copy(plan->state, sizeof(plan->state), serve->spec->state) &&
           str_copy(plan->root, sizeof(plan->root), box->root ? box->root : "") &&
           str_copy(plan->python, sizeof(plan->python),
                    serve->spec->python ? serve->spec->python : "") &&
           str_copy(plan->layer, sizeof(plan->layer), serve->spec->layer ? serve->spec->layer : "");
    plan->has_zygotes = serve->spec->has_zygotes;
    plan->log_level = (uint32_t)serve->spec->log_level;
    plan->log_is_json = serve->spec->log_is_json;
    for (size_t i = 0; i < box->bind_count; i++)
        fits = fits &&
               str_copy(plan->binds[i].host, sizeof(plan->binds[i].host), box->binds[i].host) &&
               str_copy(plan->binds[i].box, sizeof(plan->binds[i].box), box->binds[i].box);
    plan->bind_count = (uint32_t)box->bind_count;
    for (size_t i = 0; i < serve->spec->wheel_count; i++)
        fits =
            fits && i < ENGINE_WHEELS_MAX &&
            str_copy(plan->wheels[i].host, sizeof(plan->wheels[i].host),
                     serve->spec->wheels[i].host) &&
            str_copy(plan->wheels[i].box, sizeof(plan->wheels[i].box), serve->spec->wheels[i].box);
    plan->wheel_count = (uint32_t)serve->spec->wheel_count;
    plan->has_egress = serve->spec->egress != NULL;
    plan->has_wall = serve->spec->wall_env != NULL;
    plan->stop_grace_ms = serve->spec->stop_grace_ms;
    plan->pool_size = MIN(serve->spec->pool_size, (unsigned)LIMIT_POOL);
    plan->pool_memory_mib = (uint32_t)MIN(serve->spec->pool_memory_bytes / MIB, UINT64_C(1) << 31);
    plan->memory_bytes = serve->spec->box.memory_bytes;
    plan->disk_bytes = serve->spec->box.disk_bytes;
    plan->pids = serve->spec->box.pids;
    plan->cpu_millis = serve->spec->box.cpu_millis;
    plan->minimum = (uint32_t)serve->spec->box.minimum;
    return fits ? 0 : error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "a path is too long");
}

/* As many as can be had; what a guest may open is another limit. */
static void raise_file_limit(void)
{
    struct rlimit limit = {.rlim_cur = FILES_WANTED, .rlim_max = FILES_WANTED};

    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int serve_open(struct serve *serve, struct error *err)
{
    const struct serve_spec *spec = serve->spec;
    struct cgroup_site site;
    int r;

    choose_ids(serve);
    r = write_plan(serve, err);
    if (r == 0)
        r = open_folders(serve, err);
    if (r == 0)
        r = open_datasets(serve, err);
    if (r == 0)
        r = hand_program("/proc/self/exe", &serve->self_fd, err);
    if (r == 0)
        r = hand_program(spec->engine, &serve->engine_fd, err);
    if (r == 0)
        r = hand_bytes("settings", spec->settings, spec->settings_length, &serve->settings_fd, err);
    if (r == 0)
        r = installer_pack(spec, &serve->installer_fd, err);
    if (r == 0)
        r = serve_listen(serve, err);
    if (r == 0)
        r = open_socket(serve, err);
    if (r == 0)
        r = notify_open(&serve->notify, spec->notify, err);
    if (r == 0)
        r = upgrade_door_open(&serve->upgrade, spec->socket, err);
    if (r < 0)
        return r;
    serve_take_trees(serve);
    raise_file_limit();
    cgroup_find(&site);
    cgroup_sweep(&site);
    cgroup_make_engine(&site, serve->is_range ? (int64_t)serve->first : -1, &serve->plan->site,
                       &serve->leaf_fd, serve->group_fd);
    return 0;
}
