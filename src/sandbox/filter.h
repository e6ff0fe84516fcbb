/*
 * filter.h - the system call filters, compiled at build time from sandbox/filter_table.h.
 *
 * Constant data in read-only memory: nothing here allocates or blocks, and it may be used between
 * clone and exec. `struct filter` has the layout of struct sock_fprog, so that a filter is
 * installed with syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter_guest) after
 * no_new_privs. Filters stack and the strictest answer wins: filter_warden allows all that the
 * guest's filters allow. Defined by the output of tools/gen-filter.c.
 *
 * Runs in: box child, zygote, launcher, box, broker, egress, commands
 */
#ifndef BAILEY_SANDBOX_FILTER_H
#define BAILEY_SANDBOX_FILTER_H

struct sock_filter;

struct filter {
    unsigned short length; /* instructions */
    const struct sock_filter *code;
};

extern const struct filter filter_guest;         /* guest code in its own namespaces */
extern const struct filter filter_guest_offline; /* guest code without namespaces: no sockets */
extern const struct filter filter_guest_apart;   /* the same with an id that no other process has */
extern const struct filter filter_warden;        /* PID 1 of a box; below the guest's filter */
extern const struct filter filter_zygote;        /* a zygote; below its kernels' filter */
extern const struct filter filter_zygote_one_id; /* the same if there is only one id */

#endif
