/*
 * beside.c - the one box of a container that gives no namespaces: see warden_beside().
 *
 * Theory of operation. The container is the wall to the machine; what is left to do is to keep the
 * guest from the engine that runs beside it, and to leave nothing of it behind. Two processes:
 *   - the keeper, which has the caller's rights. It takes the promised paths, forks the warden, and
 *     waits. It reads nothing that comes from a guest. Orphans of the box become its children.
 *   - the warden, which at once becomes the guest's id, as in a box without namespaces
 *     (boxes/private.c), with the same rules and filters.
 * Where the caller may give away an id, the guest has one that nothing else in the container has:
 * then everything of it is found by its owner at the end. Where it may not (an ordinary user), the
 * guest has the caller's id, the box is a private folder as that of a one-shot run, the rules let
 * it write nowhere else, and its processes are the keeper's descendants.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "boxes/plan_builder.h"
#include "sandbox/filter.h"
#include "sandbox/sandbox.h"
#include "sys/calls.h"
#include "sys/subid.h"
#include "warden/warden.h"

#define BINDS_MAX 32
#define LINKS_MAX 5

struct beside {
    struct launch_spec spec;
    struct launch_bind binds[BINDS_MAX];
    struct id_plan ids;
    struct launched launched; /* its private folder, if it has one */
    struct promised promised;
    const char *links[LINKS_MAX]; /* promised paths that are links to it */
    size_t link_count;
    bool has_own_id, has_promised, is_private;
    uid_t guest;
    int lock_fd;
};

static _Noreturn void give_up(const char *text)
{
    fd_write_all(STDERR_FILENO, text, strlen(text));
    fd_write_all(STDERR_FILENO, "\n", 1);
    _exit(1);
}

static _Noreturn void give_up_errno(const char *what, int r)
{
    char text[512];

    str_format(text, sizeof(text), "%s: %s (%s)", what, error_name(-r), strerror(-r));
    give_up(text);
}

/* ---- what it is told ---- */

static uint64_t told_number(const char *name)
{
    const char *text = getenv(name);
    uint64_t value = 0;

    if (text && str_to_u64(text, &value) < 0)
        give_up_errno(name, -EINVAL);
    return value;
}

/* Folders with ':' between; a path with one of its own is not found, and not shown. */
static void told_binds(struct beside *beside)
{
    char *rest = getenv(BESIDE_BINDS), *path;

    while (rest && (path = strsep(&rest, ":")) && beside->spec.bind_count < BINDS_MAX) {
        if (*path)
            beside->binds[beside->spec.bind_count++] =
                (struct launch_bind){.host = path, .box = path};
    }
    beside->spec.binds = beside->binds;
}

static void read_settings(struct beside *beside)
{
    beside->spec = (struct launch_spec){
        .memory_bytes = told_number(BESIDE_MEMORY),
        .disk_bytes = told_number(BESIDE_DISK),
        .pids = (uint32_t)told_number(BESIDE_PIDS),
        .cpu_millis = (uint32_t)told_number(BESIDE_CPU),
        .python = getenv(BESIDE_PYTHON),
    };
    told_binds(beside);
    beside->is_private = getenv(BESIDE_PRIVATE);
    beside->has_own_id = getenv(BESIDE_GUEST) && geteuid() == 0;
    beside->guest = beside->has_own_id ? (uid_t)told_number(BESIDE_GUEST) : geteuid();
    if (beside->has_own_id && beside->guest == 0)
        give_up("a guest cannot be root");
    beside->ids = (struct id_plan){.way = beside->has_own_id ? IDS_DIRECT : IDS_SINGLE,
                                   .host_warden = beside->guest,
                                   .host_guest = beside->guest};
}

/* The one before may still be removing what its guest left. */
static void wait_for_turn(struct beside *beside)
{
    const char *path = getenv(BESIDE_LOCK);

    beside->lock_fd = -1;
    if (!path)
        return;
    beside->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (beside->lock_fd < 0) /* two at a time would each end the other's guest */
        give_up_errno(path, -errno);
    while (flock(beside->lock_fd, LOCK_EX) < 0) {
        if (errno != EINTR)
            give_up_errno(path, -errno);
    }
}

/* ---- its plan ---- */

static void plan_promised(struct beside *beside, struct plan_builder *builder, struct error *err)
{
    struct sandbox_plan *plan = &builder->plan;
    int r;

    plan->warden_id = beside->guest;
    plan->clears_groups = true;
    plan->counts_own_files = true; /* /tmp is everybody's */
    r = own_programs_write(builder, &beside->spec, "/bailey", err);
    if (r == 0 && (r = promised_files()) < 0)
        error_set(err, r, ERROR_ENGINE, "writing /bailey: %s", strerror(-r));
    promised_plan(builder);
    private_rules(builder, &beside->spec);
}

/* A link that a killed keeper left: it leads to a private folder, which was swept. */
static bool is_stale(const char *path)
{
    char target[LIMIT_PATH_BYTES + 1];
    ssize_t length = readlink(path, target, sizeof(target) - 1);
    struct stat status;

    if (length <= 0 || lstat(path, &status) < 0 || status.st_uid != geteuid())
        return false;
    target[length] = 0;
    return private_has(target) && stat(path, &status) < 0 && errno == ENOENT;
}

/*
 * The promised paths that can be had as links, because nothing has such a name and the caller may
 * make it: /tmp/output nearly always.
 */
static void link_promised(struct beside *beside, const struct plan_builder *builder)
{
    static const struct {
        const char *path, *below;
        enum share share;
    } rows[] = {{"/tmp/output", "/output", SHARE_TMP},
                {"/tmp/data", "/data", SHARE_TMP},
                {"/workspace", "", SHARE_WORKSPACE},
                {"/home/user", "", SHARE_HOME},
                {"/mnt/data", "", SHARE_WORKSPACE}};
    char target[LIMIT_PATH_BYTES + 1];

    _Static_assert(ARRAY_SIZE(rows) == LINKS_MAX, "each has its place");
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        str_format(target, sizeof(target), "%s%s", builder->plan.share_path[rows[i].share],
                   rows[i].below);
        if (is_stale(rows[i].path))
            unlink(rows[i].path);
        if (symlink(target, rows[i].path) == 0)
            beside->links[beside->link_count++] = rows[i].path;
    }
}

static void remove_links(struct beside *beside)
{
    while (beside->link_count > 0)
        unlink(beside->links[--beside->link_count]);
}

/* Folders of its own, as for a one-shot run; our files beside them, which it cannot change. */
static void plan_private(struct beside *beside, struct plan_builder *builder, struct error *err)
{
    char path[LIMIT_PATH_BYTES + 1];
    int r = private_plan(builder, &beside->spec, &beside->ids, &beside->launched, err);

    if (r < 0)
        return;
    str_format(path, sizeof(path), "%s/tmp/data", beside->launched.folder);
    if (mkdir(path, 0755) < 0 ||
        (beside->has_own_id && lchown(path, beside->guest, beside->guest) < 0)) {
        error_errno(err, "making %s", path);
        return;
    }
    str_format(path, sizeof(path), "%s/bailey", beside->launched.folder);
    if (mkdir(path, 0755) < 0 || chmod(path, 0755) < 0) {
        error_errno(err, "making %s", path);
        return;
    }
    r = drivers_write(path);
    if (r < 0)
        error_set(err, r, ERROR_ENGINE, "writing %s: %s", path, strerror(-r));
    if (!beside->is_private)
        link_promised(beside, builder);
    builder->plan.own_files = plan_builder_text(builder, "%s", path);
    plan_builder_rule(builder, RULE_READ_DIR, builder->plan.own_files);
}

static void make_plan(struct beside *beside, struct plan_builder *builder)
{
    struct error err = {0};

    private_sweep();
    if (beside->has_promised)
        plan_promised(beside, builder, &err);
    else
        plan_private(beside, builder, &err);
    if (err.num == 0) {
        plan_builder_common(builder, &beside->spec, &beside->launched);
        if (beside->has_own_id)
            builder->plan.guest_filter = &filter_guest_apart;
        if (builder->is_full)
            error_set(&err, -E2BIG, ERROR_TOO_LARGE, "the plan of the box does not fit");
    }
    if (err.num < 0) {
        remove_links(beside);
        private_remove(beside->launched.folder);
        promised_give_back(&beside->promised);
        give_up(err.text);
    }
    make_scrub(&builder->plan);
}

/* ---- the warden ---- */

static int nothing_to_wait_for(void *ctx)
{
    (void)ctx;
    return 0;
}

static _Noreturn void bring_up_failed(const struct sandbox *sandbox, int fd, int r)
{
    struct message_fail fail = {
        .stage = sandbox->failed_stage, .error = (uint16_t)-r, .step = sandbox->failed_step};
    uint8_t data[FRAME_HEADER + 16];
    ssize_t length = message_fail_pack(&fail, data + FRAME_HEADER, 16);

    frame_header(data, FRAME_FAILED, 0, (size_t)length);
    fd_write_all(fd, data, FRAME_HEADER + (size_t)length);
    _exit(1);
}

/* Only the stream is left of what its parent has, besides the standard streams, which are empty. */
static int take_stream(int *ret_in, int *ret_out)
{
    int null_fd;

    if (sys_close_range(3, ~0U, 0) < 0)
        return -errno;
    *ret_in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    *ret_out = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (*ret_in < 0 || *ret_out < 0 || null_fd < 0)
        return -errno;
    for (int fd = 0; fd < 3; fd++) {
        if (dup2(null_fd, fd) < 0)
            return -errno;
    }
    return close(null_fd) < 0 ? -errno : 0;
}

static _Noreturn void become_warden(const struct plan_builder *builder)
{
    struct sandbox_host host = {.wait_maps = nothing_to_wait_for,
                                .wait_group = nothing_to_wait_for};
    struct sandbox sandbox;
    int in_fd = -1, out_fd = -1;
    int r = take_stream(&in_fd, &out_fd);

    if (r < 0)
        _exit(1);
    sandbox_init(&sandbox, &builder->plan);
    r = sandbox_bring_up(&sandbox, &host);
    if (r < 0)
        bring_up_failed(&sandbox, out_fd, r);
    warden_run_stream(&sandbox, in_fd, out_fd);
}

/* ---- the keeper ---- */

/* Ended children, up to the warden; true: it is among them. */
static bool reap(pid_t warden)
{
    bool has_ended = false;
    pid_t pid;

    while ((pid = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
        has_ended = has_ended || pid == warden;
    return has_ended;
}

static void wait_for_end(pid_t warden, const sigset_t *signals)
{
    while (!reap(warden)) {
        int number = sigwaitinfo(signals, NULL);

        if (number == SIGTERM)
            kill(warden, SIGKILL);
    }
}

/* What the rules let the guest write to; without rules, wherever it has the right. */
static void remove_files(const struct beside *beside, const struct sandbox_plan *plan)
{
    bool has_rules = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;

    for (size_t i = 0; has_rules && i < plan->rule_count; i++) {
        if (plan->rules[i].kind == RULE_WRITE_DIR)
            leftovers_files(beside->guest, plan->rules[i].path);
    }
    leftovers_files(beside->guest, has_rules ? "/dev/mqueue" : "/");
}

static void clean(struct beside *beside, const struct sandbox_plan *plan)
{
    if (beside->has_own_id)
        leftovers_processes(beside->guest);
    leftovers_children(); /* descendants become ours when their parent ends */
    if (beside->has_own_id)
        leftovers_ipc(beside->guest);
    if (beside->has_promised)
        remove_files(beside, plan);
    promised_give_back(&beside->promised);
    remove_links(beside);
    private_remove(beside->launched.folder);
}

/* What another process with this id left when it was killed; must come before the paths are taken.
 */
static void take_paths(struct beside *beside)
{
    static const char *const places[] = {"/tmp", "/dev/shm", "/dev/mqueue"};
    static const char *const given[] = {"/workspace", "/home/user"};
    const char *path = "";
    struct stat status;
    char text[256];
    int r;

    if (!beside->has_own_id)
        return;
    leftovers_processes(beside->guest);
    leftovers_ipc(beside->guest);
    if (beside->is_private)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(places); i++)
        leftovers_files(beside->guest, places[i]);
    for (size_t i = 0; i < ARRAY_SIZE(given); i++) { /* another's can be large, and had no guest */
        if (lstat(given[i], &status) == 0 && status.st_uid == beside->guest)
            leftovers_files(beside->guest, given[i]);
    }
    r = promised_take(&beside->promised, beside->guest, &path);
    beside->has_promised = r == 0;
    if (r == 0)
        return;
    str_format(text, sizeof(text),
               "note: %s (%s), so this box has folders of its own, which its variables name\n",
               path, r == -ENOTEMPTY ? "in use" : strerror(-r));
    fd_write_all(STDERR_FILENO, text, strlen(text));
}

static void take_signals(sigset_t *ret)
{
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    sigemptyset(ret);
    sigaddset(ret, SIGCHLD);
    sigaddset(ret, SIGTERM);
    sigprocmask(SIG_BLOCK, ret, NULL);
}

void warden_beside(void)
{
    static struct plan_builder builder; /* large, and there as long as this process */
    static struct beside beside;
    sigset_t signals;
    pid_t warden;

    beside.launched.folder_fd = beside.launched.channel_fd = -1;
    take_signals(&signals);
    /* If the host ends, a warden that its guest has stopped does not see the end of the stream. */
    if (setsid() < 0 || chdir("/") < 0 || prctl(PR_SET_DUMPABLE, 0) < 0 ||
        prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 || prctl(PR_SET_PDEATHSIG, SIGTERM) < 0)
        give_up_errno("starting the box's keeper", -errno);
    prctl(PR_SET_NAME, "box-keeper");
    umask(0);
    read_settings(&beside);
    wait_for_turn(&beside);
    take_paths(&beside);
    make_plan(&beside, &builder);
    warden = fork();
    if (warden == 0)
        become_warden(&builder);
    close(STDIN_FILENO); /* its end belongs to the warden alone */
    if (warden > 0)
        wait_for_end(warden, &signals);
    clean(&beside, &builder.plan);
    _exit(warden < 0);
}
