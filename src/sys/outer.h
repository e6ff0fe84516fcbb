/*
 * outer.h - the container that this process runs in, if any: which kind, what shows it, and the one
 * line that would let boxes have namespaces of their own there.
 *
 * Called by `bailey doctor` and by the daemon's start, to name the real cause of a refusal. Reads
 * files and links only; blocks for less than a millisecond. Owns nothing.
 *
 * Runs in: every process
 */
#ifndef BAILEY_SYS_OUTER_H
#define BAILEY_SYS_OUTER_H

#include <stdbool.h>

/* As the source has it; `make install` and the package put it to share/bailey/docker-seccomp.json,
 * and `bailey doctor --seccomp-profile` prints it. */
#define OUTER_PROFILE "deploy/docker/seccomp.json"

struct outer_row {
    const char *kind;   /* for programs: "docker", "podman", "kubernetes", "lxc", "container" */
    const char *name;   /* for people: "a Docker container" */
    const char *remedy; /* one line: what lets boxes have namespaces and a fresh /proc in it */
};

struct outer {
    const struct outer_row *row; /* NULL: not in a container, as far as can be seen */
    char seen[96];               /* what shows it: "/.dockerenv" */
};

void outer_find(struct outer *ret);

/* The same for a root folder and an environment that are given; for tests. */
void outer_find_at(int root_fd, char *const *env, struct outer *ret);

#endif
