/*
 * profile.h - the system calls of a container, from the same table as the filters of our own boxes
 * (sandbox/filter_table.h).
 *
 * Constant. Defined by the output of tools/gen-profile.c, which says what it is made of; the same
 * is deploy/seccomp.json.
 *
 * Runs in: hosts, commands
 */
#ifndef BAILEY_RUNTIME_DOCKER_PROFILE_H
#define BAILEY_RUNTIME_DOCKER_PROFILE_H

/* JSON in one line: what follows "seccomp=" in HostConfig.SecurityOpt. */
const char *docker_seccomp_profile(void);

#endif
