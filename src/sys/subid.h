/*
 * subid.h - ids that may be given to others: the ranges of /etc/subuid and /etc/subgid, the set-uid
 * helpers that write them into an id map, and the range that root gives its boxes. Blocks for one
 * helper.
 *
 * Runs in: every process
 */
#ifndef BAILEY_SYS_SUBID_H
#define BAILEY_SYS_SUBID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SUBID_RANGE 65536 /* of an engine that root starts */

/* The first range that the file gives the user, by name or by number. */
bool subid_find(const char *path, unsigned uid, unsigned *ret_first, unsigned *ret_count);

/*
 * Root's range: what /etc/subuid gives the user bailey, else root, else SUBID_RANGE ids from `base`
 * on, past ids that users of this host have. Root of a container has only the ids of its own map: a
 * range outside it is replaced by the upper half of the largest extent.
 */
void subid_find_for_root(uint64_t base, unsigned *ret_first, unsigned *ret_count);

/*
 * Whether this process has the capabilities to hand files and processes to another id (CHOWN,
 * DAC_OVERRIDE, SETGID, SETUID): root has them, but for a container started with --cap-drop.
 */
bool subid_may_give(void);

/*
 * Runs newuidmap or newgidmap on the process: `own` becomes 0 in there, and `count` ids from
 * `first` on become 1, 2, ... -ENOENT: the helper is not installed; -EPERM: it refused.
 */
int subid_map(const char *helper, pid_t pid, unsigned own, unsigned first, unsigned count);

#endif
