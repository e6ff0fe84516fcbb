/*
 * denier.c - a launcher for tests: denies the named system calls with a seccomp filter, then
 * executes. A kernel, a container or a policy that refuses namespaces looks like this to bailey.
 *
 *     denier NAME... -- PROGRAM ARGS...
 *
 * "clone-namespaces" stands for clone with any CLONE_NEW* flag; clone3, whose flags a filter cannot
 * see, gets ENOSYS, as it does in real containers; landlock calls get EOPNOTSUPP, as where it is
 * switched off; everything else gets EPERM.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#error "add the audit architecture of this machine"
#endif

#define NEW_FLAGS 0x7e020000U /* NEWNS NEWCGROUP NEWUTS NEWIPC NEWUSER NEWPID NEWNET */
#define RULES_MAX 256

static const struct {
    const char *name;
    int number;
    int err;
} calls[] = {
    {"unshare", SYS_unshare, EPERM},
    {"setns", SYS_setns, EPERM},
    {"clone3", SYS_clone3, ENOSYS},
    {"chroot", SYS_chroot, EPERM},
    {"mount", SYS_mount, EPERM},
    {"umount2", SYS_umount2, EPERM},
    {"pivot_root", SYS_pivot_root, EPERM},
    {"open_tree", 428, EPERM},
    {"move_mount", 429, EPERM},
    {"fsopen", 430, EPERM},
    {"fsconfig", 431, EPERM},
    {"fsmount", 432, EPERM},
    {"fspick", 433, EPERM},
    {"mount_setattr", 442, EPERM},
    {"sethostname", SYS_sethostname, EPERM},
    {"landlock_create_ruleset", 444, EOPNOTSUPP},
};

static struct sock_filter rules[RULES_MAX];
static unsigned short count;

static void add(struct sock_filter rule)
{
    if (count < RULES_MAX)
        rules[count++] = rule;
}

static void load(unsigned offset)
{
    add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset));
}

static void deny(int err)
{
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)err));
}

static void deny_clone(void)
{
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4));
    load(offsetof(struct seccomp_data, args[0])); /* little-endian: the flags are the low half */
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NEW_FLAGS, 0, 1));
    deny(EPERM);
    load(offsetof(struct seccomp_data, nr));
}

static int deny_named(const char *name)
{
    if (strcmp(name, "clone-namespaces") == 0) {
        deny_clone();
        return 0;
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        if (strcmp(name, calls[i].name) != 0)
            continue;
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].number, 0,
                                         1));
        deny(calls[i].err);
        return 0;
    }
    fprintf(stderr, "denier: unknown call '%s'\n", name);
    return -1;
}

int main(int argc, char **argv)
{
    struct sock_fprog program;
    int at = 1;

    load(offsetof(struct seccomp_data, arch));
    add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0));
    deny(ENOSYS);
    load(offsetof(struct seccomp_data, nr));
    for (; at < argc && strcmp(argv[at], "--") != 0; at++)
        if (deny_named(argv[at]) < 0)
            return 111;
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    if (++at >= argc)
        return 111;
    program = (struct sock_fprog){.len = count, .filter = rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
        perror("denier: filter");
        return 111;
    }
    execv(argv[at], argv + at);
    perror("denier: execv");
    return 111;
}
