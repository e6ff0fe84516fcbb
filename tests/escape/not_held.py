"""not_held.py - attacks that an isolation level cannot stop, and why. docs/security.md lists them.

Keys are (number of the attack in docs/security.md, level). The levels: "landlock" is where the kernel refuses
namespaces and only Landlock, seccomp and no_new_privs remain; "no cgroup" is where the
caller has no control group.
"""

NOT_HELD = {
    (10, "landlock"): "no filesystem of its own can be mounted: a watchdog measures the folder now "
                      "and then, so that a fast writer goes over the limit before it is ended, and "
                      "inodes are not counted",
    (22, "landlock"): "there is one pid namespace for all: that a process of the host exists can "
                      "be seen (stat of /proc/PID, sched_getscheduler), though not what it does",
    (26, "landlock"): "RLIMIT_NPROC counts all processes of the caller's uid on the host, not the "
                      "run's alone: those that start elsewhere make the limit come early, those "
                      "that end make it come late",
    (31, "landlock"): "an ordinary user may not empty the bounding set (it needs CAP_SETPCAP); "
                      "no_new_privs still keeps every program from gaining anything",
    (32, "landlock"): "an ordinary user may not change or drop ids and groups without a user "
                      "namespace: the guest has the caller's, and Landlock is what keeps it away "
                      "from the caller's files",
    (57, "no cgroup"): "memory is watched by the warden and not held by the kernel: a fast balloon "
                       "goes over the limit before it is ended",
    (58, "no cgroup"): "CPU is bounded by affinity and wall time, not by a quota",
}
