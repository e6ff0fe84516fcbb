/*
 * make.c - one box from specification to READY; see boxes.h.
 *
 * A launch begins with everything that the launcher itself has to do, and continues when its
 * channel has a message or its deadline has passed: between the two the launcher does other work.
 * launch_make() is both with a wait in between.
 *
 * Everything that allocates, parses or may be refused happens in a plan_builder before the clone.
 * Where the best way is refused the next is tried (enum way): the network namespace with the clone,
 * then a private folder with Landlock and seccomp. Whether the resulting layers are enough is
 * decided by the specification's minimum, never silently.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "boxes/launch.h"
#include "boxes/plan_builder.h"
#include "sys/calls.h"

/* The network namespace is made inside, with the rest (sandbox/names.c), wherever that works. */
#define NAMESPACES (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

/* Set once at start, read by every clone: where this process's own arguments are. */
static struct {
    char *start;
    size_t length;
} arguments;

void launch_remember_arguments(int argc, char **argv, char **env)
{
    const char *end = argc > 0 ? argv[argc - 1] + strlen(argv[argc - 1]) + 1 : NULL;

    if (!end)
        return;
    /* The environment follows the arguments in memory; only while it does is it ours to wipe. */
    for (size_t i = 0; env[i]; i++) {
        if (env[i] == end)
            end = env[i] + strlen(env[i]) + 1;
    }
    arguments.start = argv[0];
    arguments.length = (size_t)(end - argv[0]);
}

void make_scrub(struct sandbox_plan *plan)
{
    plan->scrub = arguments.start;
    plan->scrub_length = arguments.length;
}

static void timing(struct launched *launched, const char *name, uint64_t *since)
{
    uint64_t now = clock_now_ns();

    if (launched->timing_count < LAUNCH_TIMINGS_MAX)
        launched->timings[launched->timing_count++] =
            (struct launch_timing){.name = name, .ns = now - *since};
    *since = now;
}

/* The owner of the new user namespace is who clones it: another id than ours, for that moment. */
static pid_t clone_owned(uint64_t flags, uint32_t owner_id, int *ret_pid_fd, int group_fd)
{
    bool is_lent = owner_id != 0 && flags & CLONE_NEWUSER;
    int r = is_lent ? ids_lend(owner_id, true) : 0;
    pid_t pid;
    int error;

    if (r < 0) {
        errno = -r;
        return -1;
    }
    pid = sys_clone_fork(flags, ret_pid_fd, group_fd);
    if (pid == 0 || !is_lent)
        return pid; /* the child's ids are changed once its maps are written */
    error = errno;
    ids_return();
    errno = error;
    return pid;
}

static int clone_warden(struct child *child, uint32_t owner_id, struct launched *launched,
                        struct error *err)
{
    CLEANUP(fd_closep) int ours = -1;
    int pair[2];
    int group_fd = -1;
    uint64_t flags = 0;
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_errno(err, "making the channel to the box");
    ours = pair[0];
    child->channel_fd = pair[1];
    if (launched->group.flavour == CGROUP_V2)
        group_fd = launched->group.join_fd[0];
    if (child->plan.has_namespaces)
        flags = NAMESPACES | (child->plan.has_network ? CLONE_NEWNET : 0);
    pid = clone_owned(flags, owner_id, &launched->pid_fd, group_fd);
    if (pid == 0) {
        close(pair[0]);
        child_become_warden(child);
    }
    close(pair[1]);
    if (pid < 0)
        return error_stage(err, "clone namespaces", -errno);
    launched->pid = pid;
    launched->channel_fd = fd_take(&ours);
    return 0;
}

static void name_group(char *name, size_t size)
{
    static unsigned serial;

    str_format(name, size, "box-%u", serial++);
}

/* Before the clone only what divides CPU time: the child enters it first. */
static void make_cpu_group(const struct launch_spec *spec, struct launched *launched)
{
    if (!spec->site || launched->has_tried_group || launched->group.flavour != CGROUP_NONE)
        return;
    name_group(launched->group_name, sizeof(launched->group_name));
    cgroup_make_cpu(spec->site, launched->group_name, spec->cpu_share, &launched->group);
}

/* Without one the limits are watched instead, and the result says so. */
static void make_group(const struct launch_spec *spec, struct launched *launched)
{
    struct cgroup_limits limits = {
        .memory_bytes = spec->memory_bytes,
        .pids = spec->pids + 1, /* the warden is one too */
        .cpu_millis = spec->cpu_millis,
        .cpu_share = spec->cpu_share,
    };

    if (launched->has_tried_group)
        return; /* for an earlier way, or before the clone */
    launched->has_tried_group = true;
    if (spec->site) {
        launched->site = *spec->site;
        if (!launched->group_name[0])
            name_group(launched->group_name, sizeof(launched->group_name));
        cgroup_make(&launched->site, launched->group_name, &limits, &launched->group, NULL);
        if (spec->owner_id)
            cgroup_let_in(&launched->group, spec->owner_id);
    } else {
        cgroup_find(&launched->site);
        cgroup_make_own(&launched->site, &limits, &launched->group, NULL);
    }
}

/* The child and all that is done for it from outside. On failure the process is gone. */
static int begin_child(struct launch *launch, struct error *err)
{
    const struct launch_spec *spec = launch->spec;
    struct launched *launched = &launch->launched;
    struct child child = {.plan = launch->builder->plan, .cpu_fd = -1};
    bool split = false, groups = false;
    uint64_t since = clock_now_ns();
    int r;

    make_scrub(&child.plan);
    make_cpu_group(spec, launched);
    if (launched->group.flavour == CGROUP_V1)
        child.cpu_fd = launched->group.join_fd[CONTROLLER_CPU];
    r = clone_warden(&child, spec->owner_id, launched, err);
    if (r < 0)
        return r;
    timing(launched, "clone", &since);
    if (child.plan.has_namespaces)
        r = ids_write(launched, &launch->ids, &split, &groups, err);
    if (r == 0)
        r = ready_send_go(launched->channel_fd, split, groups, err);
    timing(launched, "id maps", &since);
    if (r == 0)
        make_group(spec, launched); /* while the child builds its root */
    if (r == 0)
        r = ready_send_group(launched, err);
    timing(launched, "make cgroup (meanwhile)", &since);
    if (r < 0) {
        end_process(launched, NULL);
        return r;
    }
    plan_builder_holders(launched);
    if (!spec->site) { /* an engine sees none of what others left */
        cgroup_sweep(&launched->site);
        private_sweep();
    }
    launch->deadline_ms = clock_now_ms() + BRINGUP_PATIENCE_MS;
    return 0;
}

/* Was it a refusal of namespaces as such, so that the other way makes sense? */
static bool is_refusal(int r, const struct error *err)
{
    static const char *const stages[] = {"clone namespaces", "write id maps", "set ids",
                                         "enter network",    "mount root",    "pivot root"};

    if (r != -EPERM && r != -EACCES && r != -ENOSYS && r != -EINVAL && r != -ENOSPC && r != -EUSERS)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(stages); i++) {
        if (str_equal(err->stage, stages[i]))
            return true;
    }
    return false;
}

static int check_minimum(const struct launched *launched, enum isolation minimum,
                         const struct error *why, struct error *err)
{
    uint32_t lacking = isolation_lacking(launched->layers, minimum);
    char names[256], remedies[320] = "";

    if (isolation_of_layers(launched->layers) >= minimum)
        return 0;
    isolation_layer_list(lacking, names, sizeof(names));
    for (int i = 0; i < _ISOLATION_LAYER_MAX && !remedies[0]; i++) {
        if (lacking & ISOLATION_LAYER_BIT(i))
            str_copy(remedies, sizeof(remedies), isolation_layer_table[i].remedy);
    }
    return error_set(err, -EPERM, ERROR_REFUSED,
                     "isolation '%s' is required and not available here: missing %s%s%s%s. %s "
                     "('bailey doctor' shows all)",
                     isolation_name(minimum), names, why->code ? " (" : "",
                     why->code ? why->text : "", why->code ? ")" : "", remedies);
}

static void drop_builder(struct launch *launch)
{
    if (launch->builder)
        plan_builder_close(launch->builder);
    free(launch->builder);
    launch->builder = NULL;
}

static int begin_way(struct launch *launch, enum launch_way way, struct error *err)
{
    const struct launch_spec *spec = launch->spec;
    struct launched *launched = &launch->launched;
    uint64_t since = clock_now_ns();
    int r;

    launch->way = way;
    drop_builder(launch);
    launch->builder = calloc(1, sizeof(*launch->builder));
    if (!launch->builder)
        return error_memory(err);
    if (way == WAY_PRIVATE_FOLDER)
        r = private_plan(launch->builder, spec, &launch->ids, launched, err);
    else
        r = root_plan(launch->builder, spec, err);
    launch->builder->plan.has_network = way == WAY_CLONED_NETWORK;
    if (r < 0)
        return r;
    plan_builder_common(launch->builder, spec, launched);
    if (launch->builder->is_full)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE, "the plan of the box does not fit");
    timing(launched, "plan", &since);
    r = begin_child(launch, err);
    if (r == -EACCES && launched->group.flavour == CGROUP_V2 &&
        str_equal(err->stage, "clone namespaces")) {
        /* This user may not enter the group: the box has none, and the result says so. */
        cgroup_remove(&launched->group);
        return begin_way(launch, way, err);
    }
    plan_builder_close(
        launch->builder); /* the child has its own; the words stay for what it may say */
    return r;
}

/* Begins the best way that is left, if what happened was a refusal as such. */
static int begin_next(struct launch *launch, int r, struct error *err)
{
    for (unsigned way = launch->way + 1u; way < _WAY_MAX && r < 0 && is_refusal(r, err); way++) {
        if (way == WAY_CLONED_NETWORK && !str_equal(err->stage, "enter network"))
            continue;
        if (way == WAY_PRIVATE_FOLDER && launch->spec->ids != LAUNCH_IDS_CHOOSE)
            break; /* an engine's box promises a private /tmp */
        launch->why = *err;
        *err = (struct error){0};
        r = begin_way(launch, way, err);
    }
    return r;
}

void launch_drop(struct launch *launch)
{
    drop_builder(launch);
    launch_end(&launch->launched, NULL);
}

/* What was being made is gone, or *err says nothing. */
static int launch_failed(struct launch *launch, int r, const struct error *own, struct error *err)
{
    launch_drop(launch);
    if (err)
        *err = *own;
    return r;
}

int launch_begin(struct launch *launch, const struct launch_spec *spec, struct error *err)
{
    struct launched *launched = &launch->launched;
    uint64_t since = clock_now_ns();
    struct error own = {0};
    int r;

    *launch = (struct launch){
        .spec = spec,
        .launched = {
            .pid_fd = -1, .channel_fd = -1, .ruleset_fd = -1, .egress_fd = -1, .folder_fd = -1}};
    ids_choose(spec, &launch->ids);
    timing(launched, "choose ids", &since);
    cgroup_init(&launched->group);
    if (spec->site ? spec->site->flavour == CGROUP_V2 : !cgroup_is_v1())
        make_group(spec, launched);
    timing(launched, "cgroup v2", &since);
    r = begin_way(launch, WAY_NAMESPACES, &own);
    if (r < 0)
        r = begin_next(launch, r, &own);
    return r < 0 ? launch_failed(launch, r, &own, err) : 0;
}

int launch_turn(struct launch *launch, struct error *err)
{
    struct launched *launched = &launch->launched;
    struct error own = {0};
    int r = ready_receive(launched, launch->spec, launch->builder, &own);

    if (r == 0 && clock_now_ms() < launch->deadline_ms)
        return 0;
    if (r == 0)
        r = error_set(&own, -ETIMEDOUT, ERROR_BOX_FAILED, "the box was not ready after %d s",
                      BRINGUP_PATIENCE_MS / 1000);
    if (r < 0) {
        end_process(launched, NULL);
        r = begin_next(launch, r, &own);
        return r < 0 ? launch_failed(launch, r, &own, err) : 0;
    }
    r = check_minimum(launched, launch->spec->minimum, &launch->why, &own);
    if (r < 0)
        return launch_failed(launch, r, &own, err);
    drop_builder(launch);
    fd_set_nonblocking(launched->channel_fd, true);
    return 1;
}

int launch_make(const struct launch_spec *spec, struct launched *ret, struct error *err)
{
    struct launch launch;
    int r = launch_begin(&launch, spec, err);

    while (r == 0) {
        struct pollfd poll_fd = {.fd = launch.launched.channel_fd, .events = POLLIN};
        uint64_t now = clock_now_ms();

        if (now < launch.deadline_ms)
            poll(&poll_fd, 1, (int)(launch.deadline_ms - now));
        r = launch_turn(&launch, err);
    }
    *ret = launch.launched;
    return r < 0 ? r : 0;
}
