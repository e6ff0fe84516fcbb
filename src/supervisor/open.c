/*
 * open.c - opens what needs the caller's rights before they are dropped: folders, socket, programs,
 * trees of the host, a control group; see supervisor.h.
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

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/str.h"
#include "supervisor/supervisor_private.h"
#include "sys/calls.h"
#include "sys/subid.h"

#define RANGE_TRIES 64
#define FILES_WANTED 1048576 /* descriptors: each box costs the launcher two */

const char *const state_folders[LAUNCHER_FOLDER_COUNT] = STATE_FOLDERS;

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

void supervisor_init(struct supervisor *supervisor, const struct supervisor_spec *spec,
                     struct launcher_plan *plan)
{
    memset(supervisor, 0, sizeof(*supervisor));
    supervisor->spec = spec;
    supervisor->plan = plan;
    supervisor->lock_fd = supervisor->range_fd = supervisor->listen_fd = supervisor->settings_fd =
        supervisor->self_fd = -1;
    supervisor->engine_fd = supervisor->leaf_fd = supervisor->supervisor_fd =
        supervisor->launcher_fd = -1;
    supervisor->root_tree = supervisor->signal_fd = supervisor->pid_fd = -1;
    supervisor->egress_fd = supervisor->egress_pid_fd = supervisor->installer_fd = -1;
    fill(supervisor->host_fds, LAUNCHER_HOSTS_MAX);
    fill(supervisor->host_pid_fds, LAUNCHER_HOSTS_MAX);
    upgrade_door_init(&supervisor->upgrade);
    supervisor->notify = NOTIFY_INIT;
    fill(supervisor->wheel_tree, LAUNCHER_WHEELS_MAX);
    fill(supervisor->group_fd, _CONTROLLER_MAX);
    fill(supervisor->folder_fd, LAUNCHER_FOLDER_COUNT);
    fill(supervisor->folder_tree, LAUNCHER_FOLDER_COUNT);
    fill(supervisor->bind_tree, LAUNCHER_BINDS_MAX);
    fill(supervisor->interpreter_tree, ARRAY_SIZE(supervisor->interpreter_tree));
    fill(supervisor->dataset_fd, LAUNCHER_DATASETS_MAX);
    fill(supervisor->tcp_fd, BROKER_TCP_MAX);
}

void supervisor_close(struct supervisor *supervisor)
{
    int *single[] = {
        &supervisor->lock_fd,     &supervisor->range_fd,      &supervisor->listen_fd,
        &supervisor->settings_fd, &supervisor->self_fd,       &supervisor->engine_fd,
        &supervisor->leaf_fd,     &supervisor->supervisor_fd, &supervisor->launcher_fd,
        &supervisor->root_tree,   &supervisor->signal_fd,     &supervisor->pid_fd,
        &supervisor->egress_fd,   &supervisor->egress_pid_fd, &supervisor->installer_fd};

    for (size_t i = 0; i < ARRAY_SIZE(single); i++)
        fd_closep(single[i]);
    upgrade_door_close(&supervisor->upgrade);
    notify_close(&supervisor->notify);
    close_all(supervisor->host_fds, LAUNCHER_HOSTS_MAX);
    close_all(supervisor->host_pid_fds, LAUNCHER_HOSTS_MAX);
    close_all(supervisor->group_fd, _CONTROLLER_MAX);
    close_all(supervisor->folder_fd, LAUNCHER_FOLDER_COUNT);
    close_all(supervisor->folder_tree, LAUNCHER_FOLDER_COUNT);
    close_all(supervisor->bind_tree, LAUNCHER_BINDS_MAX);
    close_all(supervisor->interpreter_tree, ARRAY_SIZE(supervisor->interpreter_tree));
    close_all(supervisor->dataset_fd, LAUNCHER_DATASETS_MAX);
    close_all(supervisor->tcp_fd, BROKER_TCP_MAX);
    close_all(supervisor->wheel_tree, LAUNCHER_WHEELS_MAX);
}

/* ---- ids ---- */

/*
 * Reserves a range of ids for one engine on this host: the supervisor holds an abstract socket of
 * that name. An ordinary user can take the names too, with the only effect that engines share ids.
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

/*
 * The first range that no other engine holds; /etc/subuid may give only one, which is shared then.
 */
static void choose_range(struct supervisor *supervisor)
{
    uint64_t base = supervisor->spec->box.id_base;
    unsigned first, count;

    subid_find_for_root(base, &supervisor->first, &supervisor->count);
    for (unsigned i = 0; i < RANGE_TRIES; i++) {
        subid_find_for_root(base + (uint64_t)i * SUBID_RANGE, &first, &count);
        if (hold_range(first, &supervisor->range_fd)) {
            supervisor->first = first;
            supervisor->count = count;
            return;
        }
    }
}

/*
 * Root: a range of ids that no user has; without the capabilities to use one (a container's root
 * may lack them), and for other users: the caller's own id, and the caller's ranges through
 * newuidmap. The same count of users and groups, so that a pair is the same numbers in both.
 */
void supervisor_choose_ids(struct supervisor *supervisor)
{
    unsigned uid_count, gid_count;
    unsigned mapped = 1;

    if (geteuid() == 0 && subid_may_give()) {
        choose_range(supervisor);
        supervisor->count = MIN(supervisor->count, (unsigned)SUBID_RANGE);
        /* Those of the one box come after the engine's: in a smaller range they are another's. */
        supervisor->is_range =
            supervisor->count >= (supervisor->spec->has_no_namespaces ? PAIR_FIRST : 2);
        mapped = supervisor->count;
    } else if (!supervisor->spec->has_no_namespaces && access(NEWUIDMAP, X_OK) == 0 &&
               access(NEWGIDMAP, X_OK) == 0 &&
               subid_find("/etc/subuid", geteuid(), &supervisor->sub_uid, &uid_count) &&
               subid_find("/etc/subgid", geteuid(), &supervisor->sub_gid, &gid_count)) {
        supervisor->is_helped = true;
        supervisor->sub_count = MIN(uid_count, gid_count);
        supervisor->sub_count = MIN(supervisor->sub_count, (unsigned)SUBID_RANGE);
        mapped = 1 + supervisor->sub_count;
    }
    supervisor_note_ids(supervisor, mapped);
}

void supervisor_note_ids(struct supervisor *supervisor, unsigned mapped)
{
    struct launcher_plan *plan = supervisor->plan;

    plan->broker_id = supervisor->is_range ? LAUNCHER_BROKER_ID : 0;
    plan->clears_groups = supervisor->is_range || supervisor->is_helped;
    plan->pair_count = mapped <= PAIR_FIRST ? 0 : (mapped - PAIR_FIRST) / 2;
    plan->pair_count = MIN(plan->pair_count, (uint32_t)LIMIT_BOXES);
    plan->has_no_namespaces = supervisor->spec->has_no_namespaces;
    if (plan->has_no_namespaces && supervisor->is_range)
        plan->own_id = supervisor->first + LAUNCHER_BROKER_ID;
}

/* ---- folders ---- */

static int give_tree(int dir_fd, unsigned id, unsigned depth);

/*
 * One entry, by descriptor, so that it cannot be replaced meanwhile. A file with several hard links
 * may belong to another user too, and is left unchanged.
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

/* The folder itself last: if it belongs to the broker already, so does all its content. */
static int give_tree(int dir_fd, unsigned id, unsigned depth)
{
    struct dirent *entry;
    struct stat status;
    DIR *folder;
    int r = 0;

    if (fstat(dir_fd, &status) < 0)
        return -errno;
    if (status.st_uid == id)
        return 0;
    if (depth > LIMIT_TREE_DEPTH)
        return -ELOOP;
    folder = folder_list(dir_fd, ".");
    if (!folder)
        return -ENOMEM;
    while (r == 0 && (entry = readdir(folder))) {
        if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
            r = give_entry(dir_fd, entry->d_name, id, depth);
    }
    closedir(folder);
    if (r == 0 && fchown(dir_fd, id, id) < 0)
        r = -errno;
    return r;
}

static int open_folders(struct supervisor *supervisor, struct error *err)
{
    CLEANUP(fd_closep)
    int state_fd = open(supervisor->spec->state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (state_fd < 0)
        return error_errno(err, "opening the state folder %s", supervisor->spec->state);
    /* One daemon per state folder; the supervisor holds the lock while it lives. */
    if (flock(state_fd, LOCK_EX | LOCK_NB) < 0)
        return error_set(err, -EBUSY, ERROR_ENGINE, "a daemon is already serving %s",
                         supervisor->spec->state);
    for (size_t i = 0; i < LAUNCHER_FOLDER_COUNT; i++) {
        const char *name = state_folders[i];
        int r = 0;

        if (mkdirat(state_fd, name, 0700) < 0 && errno != EEXIST)
            return error_errno(err, "making the folder %s/%s", supervisor->spec->state, name);
        supervisor->folder_fd[i] =
            openat(state_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (supervisor->folder_fd[i] < 0)
            return error_errno(err, "opening the folder %s/%s", supervisor->spec->state, name);
        if (i == FOLDER_LAYERS)
            folder_sweep(supervisor->folder_fd[i],
                         STAGING_PREFIX); /* left by ids that may not be available any more */
        if (supervisor->is_range)
            r = give_tree(supervisor->folder_fd[i], supervisor->first + LAUNCHER_BROKER_ID, 0);
        if (r < 0)
            return error_set(err, r, ERROR_ENGINE, "handing %s/%s to the engine's id: %s",
                             supervisor->spec->state, name, strerror(-r));
    }
    supervisor->lock_fd = fd_take(&state_fd);
    return 0;
}

static int open_datasets(struct supervisor *supervisor, struct error *err)
{
    const char *const *folders = supervisor->spec->dataset_folders;
    uint32_t count = 0;

    for (; folders && folders[count]; count++) {
        if (count == LAUNCHER_DATASETS_MAX)
            return error_set(err, -E2BIG, ERROR_BAD_CONFIG, "more than %d dataset folders",
                             LAUNCHER_DATASETS_MAX);
        supervisor->dataset_fd[count] = open(folders[count], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (supervisor->dataset_fd[count] < 0)
            return error_errno(err, "opening the dataset folder %s", folders[count]);
    }
    supervisor->plan->dataset_count = count;
    return 0;
}

/* ---- the socket ---- */

/* By the folder's descriptor: a socket's address has 107 bytes, a path may be longer. */
static int socket_address(const char *path, int *ret_folder_fd, struct sockaddr_un *ret,
                          const char **ret_name, struct error *err)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');

    if (!slash || !slash[1] ||
        str_format(folder, sizeof(folder), "%.*s/", (int)(slash - path), path))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%s' cannot be the path of a socket",
                         path);
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

int supervisor_socket_connect(const char *path, int type, int *ret_fd, struct error *err)
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

int supervisor_socket_listen(const char *path, int type, int *ret_fd, struct error *err)
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
        return error_set(err, -EADDRINUSE, ERROR_ENGINE, "another process already serves on %s",
                         path);
    /* No process listens there: removes the socket of a daemon that was killed. */
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

/* A socket of the service manager is not removed; the caller keeps its own descriptor of it. */
static int open_socket(struct supervisor *supervisor, struct error *err)
{
    const struct supervisor_spec *spec = supervisor->spec;

    if (spec->socket_fd == 0)
        return supervisor_socket_listen(spec->socket, SOCK_STREAM, &supervisor->listen_fd, err);
    supervisor->listen_fd = fcntl(spec->socket_fd, F_DUPFD_CLOEXEC, 3);
    return supervisor->listen_fd < 0 ? error_errno(err, "taking the service manager's socket") : 0;
}

/* ---- trees of the host ---- */

static void take_tree(int *fd, int dir_fd, const char *path)
{
    if (*fd < 0)
        *fd = sys_open_tree(dir_fd, path,
                            OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);
}

void supervisor_take_trees(struct supervisor *supervisor)
{
    const struct launch_spec *box = &supervisor->spec->box;

    if (!supervisor->is_range || supervisor->spec->has_no_namespaces)
        return; /* the launcher has the caller's id and can reach the same paths */
    for (size_t i = 0; i < LAUNCHER_FOLDER_COUNT; i++) {
        char path[PATH_MAX];

        if (str_format(path, sizeof(path), "%s/%s", supervisor->spec->state, state_folders[i]) == 0)
            take_tree(&supervisor->folder_tree[i], AT_FDCWD, path);
    }
    for (size_t i = 0; i < box->bind_count; i++)
        take_tree(&supervisor->bind_tree[i], AT_FDCWD, box->binds[i].host);
    for (size_t i = 0; i < supervisor->spec->interpreter_count; i++) {
        const struct supervisor_interpreter *at = &supervisor->spec->interpreters[i];

        for (size_t j = 0; j < at->folder_count; j++)
            take_tree(&supervisor->interpreter_tree[i * LAUNCHER_INTERPRETER_BINDS + j], AT_FDCWD,
                      at->folders[j]);
    }
    for (size_t i = 0; i < supervisor->plan->wheel_count; i++)
        take_tree(&supervisor->wheel_tree[i], AT_FDCWD, supervisor->spec->wheels[i].host);
    if (box->root)
        take_tree(&supervisor->root_tree, AT_FDCWD, box->root);
}

static int write_interpreters(const struct supervisor_spec *spec, struct launcher_plan *plan,
                              struct error *err)
{
    bool fits = true;

    if (spec->interpreter_count > LAUNCHER_INTERPRETERS_MAX)
        return error_set(err, -E2BIG, ERROR_BAD_CONFIG,
                         "SANDBOX_INTERPRETERS: more than %d interpreters",
                         LAUNCHER_INTERPRETERS_MAX);
    for (size_t i = 0; i < spec->interpreter_count; i++) {
        const struct supervisor_interpreter *from = &spec->interpreters[i];
        struct launcher_interpreter *to = &plan->interpreters[i];

        fits = fits && from->folder_count <= LAUNCHER_INTERPRETER_BINDS &&
               str_copy(to->program, sizeof(to->program), from->program);
        for (size_t j = 0; fits && j < from->folder_count; j++)
            fits = str_copy(to->binds[j].host, sizeof(to->binds[j].host), from->folders[j]) &&
                   str_copy(to->binds[j].box, sizeof(to->binds[j].box), from->folders[j]);
        to->bind_count = fits ? (uint32_t)from->folder_count : 0;
    }
    plan->interpreter_count = (uint32_t)spec->interpreter_count;
    plan->takes_listed_only = spec->takes_listed_only;
    return fits ? 0 : error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "a path is too long");
}

/* ---- everything ---- */

int supervisor_write_plan(struct supervisor *supervisor, struct error *err)
{
    const struct launch_spec *box = &supervisor->spec->box;
    struct launcher_plan *plan = supervisor->plan;
    bool fits = str_copy(plan->magic, sizeof(plan->magic), LAUNCHER_PLAN_MAGIC);

    if (box->bind_count > LAUNCHER_BINDS_MAX)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE, "more than %d folders to show in boxes",
                         LAUNCHER_BINDS_MAX);
    fits = fits && str_copy(plan->state, sizeof(plan->state), supervisor->spec->state) &&
           str_copy(plan->root, sizeof(plan->root), box->root ? box->root : "") &&
           str_copy(plan->python, sizeof(plan->python),
                    supervisor->spec->python ? supervisor->spec->python : "") &&
           str_copy(plan->layer, sizeof(plan->layer),
                    supervisor->spec->layer ? supervisor->spec->layer : "");
    plan->has_zygotes = supervisor->spec->has_zygotes;
    plan->log_level = (uint32_t)supervisor->spec->log_level;
    plan->log_is_json = supervisor->spec->log_is_json;
    for (size_t i = 0; i < box->bind_count; i++)
        fits = fits &&
               str_copy(plan->binds[i].host, sizeof(plan->binds[i].host), box->binds[i].host) &&
               str_copy(plan->binds[i].box, sizeof(plan->binds[i].box), box->binds[i].box);
    plan->bind_count = (uint32_t)box->bind_count;
    for (size_t i = 0; i < supervisor->spec->wheel_count; i++)
        fits = fits && i < LAUNCHER_WHEELS_MAX &&
               str_copy(plan->wheels[i].host, sizeof(plan->wheels[i].host),
                        supervisor->spec->wheels[i].host) &&
               str_copy(plan->wheels[i].box, sizeof(plan->wheels[i].box),
                        supervisor->spec->wheels[i].box);
    plan->wheel_count = (uint32_t)supervisor->spec->wheel_count;
    plan->has_egress = supervisor->spec->egress != NULL;
    plan->has_provider_host = supervisor->spec->host_count > 0;
    plan->host_count = (uint32_t)supervisor->spec->host_count;
    for (size_t i = 0; i < supervisor->spec->host_count; i++)
        fits = fits && str_copy(plan->host_names[i], sizeof(plan->host_names[i]),
                                supervisor->spec->hosts[i].name);
    plan->stop_grace_ms = supervisor->spec->stop_grace_ms;
    plan->pool_size = MIN(supervisor->spec->pool_size, (unsigned)LIMIT_POOL);
    plan->pool_memory_mib =
        (uint32_t)MIN(supervisor->spec->pool_memory_bytes / MIB, UINT64_C(1) << 31);
    plan->memory_bytes = supervisor->spec->box.memory_bytes;
    plan->disk_bytes = supervisor->spec->box.disk_bytes;
    plan->pids = supervisor->spec->box.pids;
    plan->cpu_millis = supervisor->spec->box.cpu_millis;
    plan->minimum = (uint32_t)supervisor->spec->box.minimum;
    plan->has_no_ceiling = supervisor->spec->has_no_ceiling;
    if (write_interpreters(supervisor->spec, plan, err) < 0)
        return err->num;
    return fits ? 0 : error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "a path is too long");
}

/* As many as possible; guests have their own limit. */
static void raise_file_limit(void)
{
    struct rlimit limit = {.rlim_cur = FILES_WANTED, .rlim_max = FILES_WANTED};

    if (setrlimit(RLIMIT_NOFILE, &limit) == 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* pip's settings of this host, packed for installer boxes; launcher/installer.c reads them. */
static int installer_pack(const struct supervisor_spec *spec, int *ret_fd, struct error *err)
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

int supervisor_open(struct supervisor *supervisor, struct error *err)
{
    const struct supervisor_spec *spec = supervisor->spec;
    struct cgroup_site site;
    int r;

    supervisor_choose_ids(supervisor);
    r = supervisor_write_plan(supervisor, err);
    if (r == 0)
        r = open_folders(supervisor, err);
    if (r == 0)
        r = open_datasets(supervisor, err);
    if (r == 0)
        r = hand_program("/proc/self/exe", &supervisor->self_fd, err);
    if (r == 0)
        r = hand_program(spec->engine, &supervisor->engine_fd, err);
    if (r == 0)
        r = hand_bytes("settings", spec->settings, spec->settings_length, &supervisor->settings_fd,
                       err);
    if (r == 0)
        r = installer_pack(spec, &supervisor->installer_fd, err);
    if (r == 0)
        r = supervisor_listen(supervisor, err);
    if (r == 0)
        r = open_socket(supervisor, err);
    if (r == 0)
        r = notify_open(&supervisor->notify, spec->notify, err);
    if (r == 0)
        r = upgrade_door_open(&supervisor->upgrade, spec->socket, err);
    if (r < 0)
        return r;
    supervisor_take_trees(supervisor);
    raise_file_limit();
    if (spec->has_no_namespaces)
        return 0;
    cgroup_find(&site);
    cgroup_sweep(&site);
    cgroup_make_engine(&site, supervisor->is_range ? (int64_t)supervisor->first : -1,
                       &supervisor->plan->site, &supervisor->leaf_fd, supervisor->group_fd);
    return 0;
}
