/*
 * subid.h - ids that an ordinary user may map besides its own: the ranges of /etc/subuid and
 * /etc/subgid, and the set-uid helpers that write them into an id map. Blocks for one helper.
 */
#ifndef BAILEY_SYS_SUBID_H
#define BAILEY_SYS_SUBID_H

#include <stdbool.h>
#include <sys/types.h>

/* The first range that the file gives the user, by name or by number. */
bool subid_find(const char *path, unsigned uid, unsigned *ret_first, unsigned *ret_count);

/*
 * Runs newuidmap or newgidmap on the process: `own` becomes 0 in there, and `count` ids from
 * `first` on become 1, 2, ... -ENOENT: the helper is not installed; -EPERM: it refused.
 */
int subid_map(const char *helper, pid_t pid, unsigned own, unsigned first, unsigned count);

#endif
