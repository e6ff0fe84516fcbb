/*
 * landlock.c - the guest's file system rules.
 *
 * The ruleset is made once per box, after its mounts exist, and kept as a descriptor; each guest
 * only restricts itself with it. Inside namespaces no scope bits: a command must be able to signal
 * a kernel of the same box. Without namespaces signals and abstract sockets of the host are scoped
 * away.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "sandbox/stage.h"
#include "sys/calls.h"

#define READ_FILE (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE)
#define READ_DIR (READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE_FILE (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)

static uint64_t rule_rights(enum rule_kind kind)
{
    switch (kind) {
    case RULE_READ_DIR:
        return READ_DIR;
    case RULE_READ_FILE:
        return READ_FILE;
    case RULE_WRITE_DIR:
        return ~UINT64_C(0);
    case RULE_DEVICES:
        return READ_DIR | WRITE_FILE | LANDLOCK_ACCESS_FS_IOCTL_DEV;
    case RULE_DEVICE_FILE:
        return LANDLOCK_ACCESS_FS_READ_FILE | WRITE_FILE | LANDLOCK_ACCESS_FS_IOCTL_DEV;
    }
    return 0;
}

static int add_rule(int ruleset_fd, const struct plan_rule *rule, uint64_t known)
{
    CLEANUP(fd_closep) int fd = open(rule->path, O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr attr = {
        .allowed_access = rule_rights(rule->kind) & known,
        .parent_fd = fd,
    };

    if (fd < 0)
        return errno == ENOENT || errno == EACCES ? 0 : -errno;
    if (sys_landlock_add_rule(ruleset_fd, LANDLOCK_RULE_PATH_BENEATH, &attr) < 0)
        return -errno;
    return 0;
}

static int make_ruleset(const struct sandbox_plan *plan, int *ret_fd)
{
    CLEANUP(fd_closep) int fd = -1;
    struct landlock_attr attr = {0};
    size_t size = sizeof(attr.handled_access_fs);
    int abi = sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

    if (abi < 0)
        return -errno;
    attr.handled_access_fs = landlock_rights(abi);
    if (abi >= 6 && !plan->has_namespaces) {
        attr.scoped = LANDLOCK_SCOPE_ABSTRACT_UNIX_BIT | LANDLOCK_SCOPE_SIGNAL_BIT;
        size = sizeof(attr);
    }
    fd = sys_landlock_create_ruleset(&attr, size, 0);
    if (fd < 0)
        return -errno;
    for (size_t i = 0; i < plan->rule_count; i++) {
        int r = add_rule(fd, &plan->rules[i], attr.handled_access_fs);

        if (r < 0)
            return r;
    }
    *ret_fd = fd_take(&fd);
    return 0;
}

/* A kernel without Landlock lacks the layer; whether that is enough is the host's decision. */
int stage_ruleset(struct sandbox *sandbox)
{
    int r = make_ruleset(sandbox->plan, &sandbox->ruleset_fd);

    if (r == -ENOSYS || r == -EOPNOTSUPP || r == -EPERM) {
        sandbox_lack(sandbox, ISOLATION_LAYER_LANDLOCK, r);
        return 0;
    }
    if (r < 0)
        return r;
    sandbox_have(sandbox, ISOLATION_LAYER_LANDLOCK);
    return 0;
}

/* Must: come after no_new_privs (inherited from the warden) and before seccomp. */
int guest_landlock(const struct sandbox *sandbox, const struct guest_start *start)
{
    (void)start;
    if (sandbox->ruleset_fd < 0)
        return 0;
    return sys_landlock_restrict_self(sandbox->ruleset_fd) < 0 ? -errno : 0;
}

/*
 * Without a pid namespace: the warden enters its own domain, which no signal leaves. Its guests are
 * nested in it, so kill(-1) then ends all of them at once, which walking a process tree that forks
 * cannot. It counts only after a test: the engine, our parent, must be out of reach.
 */
int stage_scope(struct sandbox *sandbox)
{
    /* A layer denies moving and linking between folders unless it says otherwise: it does. */
    struct landlock_attr attr = {.handled_access_fs = LANDLOCK_ACCESS_FS_REFER,
                                 .scoped = LANDLOCK_SCOPE_SIGNAL_BIT};
    struct plan_rule everywhere = {.kind = RULE_WRITE_DIR, .path = "/"};
    CLEANUP(fd_closep) int fd = -1;

    if (sandbox->plan->has_namespaces ||
        sys_landlock_create_ruleset(NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) < 6)
        return 0;
    fd = sys_landlock_create_ruleset(&attr, sizeof(attr), 0);
    if (fd < 0 || add_rule(fd, &everywhere, LANDLOCK_ACCESS_FS_REFER) < 0 ||
        sys_landlock_restrict_self(fd) < 0)
        return 0;
    sandbox->has_scope = kill(getppid(), 0) < 0 && errno == EPERM;
    return 0;
}
