/*
 * owner.h - which process made a control group or folder, and whether it has ended.
 *
 * Several baileys may share a hierarchy of control groups or a TMPDIR and not see each other's
 * processes: a machine and its containers, or two containers. A pid is then meaningless. So the
 * maker of a folder holds a flock(2) on it. The kernel keeps that lock with the folder's inode,
 * which is the same in every pid, mount and cgroup namespace (cgroup file systems too), and drops
 * it with the maker's last descriptor, however the maker ended. A sweeper that gets the lock has
 * proved that the maker has ended.
 *
 * The name is for people who look, and distinguishes two makers with the same pid. Older versions
 * do not recognise it as one of theirs. Blocks for the file system only.
 *
 * Runs in: every process
 */
#ifndef BAILEY_SYS_OWNER_H
#define BAILEY_SYS_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#define OWNER_MAX 48
#define OWNER_TRIES 8 /* names, before a maker that meets sweepers each time gives up */

/* The number of this process's pid namespace (the inode of /proc/self/ns/pid); 0: not known. */
uint64_t owner_pid_namespace(void);

/* "n<pid namespace>-<pid>" of this process. */
void owner_name(char text[OWNER_MAX]);

/* What follows a maker's name at the start of `text`, as "-0" in "n4026531836-77-0"; NULL: none. */
const char *owner_skip_name(const char *text);

/*
 * The maker's side: opens and locks the folder that it has just made. The folder belongs to the
 * maker for as long as *ret_fd (close-on-exec) or a copy of it is open. -EAGAIN: a sweeper locked
 * it first, so it is removed or about to be; make another one.
 */
int owner_hold(const char *path, int *ret_fd);

/*
 * The sweeper's side: opens and locks a folder whose maker has ended. -EAGAIN: the maker lives, or
 * another sweeper has locked it. Keep it open until the folder is removed.
 */
int owner_inherit(int dir_fd, const char *name, int *ret_fd);

#endif
