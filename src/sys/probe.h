/*
 * probe.h - what this kernel and this user allow, each proved by trying it in a child.
 *
 * Called by `bailey doctor`, from a single-threaded process without other children. Blocks for some
 * milliseconds a layer (a probe that hangs is killed after ten seconds). Leaves nothing behind:
 * namespaces end with their children, and the control group that it makes is removed.
 *
 * Runs in: every process
 */
#ifndef BAILEY_SYS_PROBE_H
#define BAILEY_SYS_PROBE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/isolation.h"

struct probe_row {
    enum isolation_layer layer;
    int result;       /* 0, or the negative errno of what was refused */
    char detail[160]; /* "mounting proc: EPERM (...)", or what was seen to hold */
};

/* Fails only where no child can be made at all. */
int probe_layers(struct probe_row rows[_ISOLATION_LAYER_MAX], struct error *err);

struct probe_host {
    char kernel[96];  /* "6.1.0-18-amd64" */
    char machine[32]; /* "x86_64" */
    char cgroup[64];  /* "v2", "v1", "hybrid: controllers on v1", "none" */
    char lsm[128];    /* "landlock,lockdown,yama,apparmor"; "unknown" where it cannot be read */
    int landlock_abi; /* 0: none */
    unsigned uid;     /* effective */
    bool in_container_masked_proc; /* something covers parts of /proc: a fresh one cannot be mounted
                                    */
};

int probe_host(struct probe_host *host, struct error *err);

/* The two that are read from the text of /proc/self/mountinfo; apart, for tests. */
const char *probe_cgroup_flavour(const char *mountinfo);
bool probe_proc_is_masked(const char *mountinfo);

#endif
