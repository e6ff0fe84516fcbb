/*
 * launch.h - a box on its way, for a caller that does something else meanwhile (the launcher), and
 * what supervisor/ and launcher/ have to know about ids. boxes.h is for callers that wait.
 *
 * Runs in: launcher, commands, supervisor
 */
#ifndef BAILEY_BOXES_LAUNCH_H
#define BAILEY_BOXES_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "boxes/boxes.h"

/* Ids of a box, on the host and inside. */
enum id_way {
    IDS_DIRECT, /* root: two ids of the range, written by us */
    IDS_PAIR,   /* the same, named by the caller, or none at all */
    IDS_HELPER, /* an ordinary user with newuidmap and a range in /etc/subuid */
    IDS_SINGLE, /* the caller's own id only */
};
struct id_plan {
    enum id_way way;
    bool is_nested;                   /* made inside an engine */
    uint64_t host_warden, host_guest; /* IDS_DIRECT, IDS_PAIR */
    uint64_t sub_uid, sub_gid;        /* IDS_HELPER */
};

/* Of a range: those before are a daemon's own, pairs of boxes begin here. */
#define PAIR_FIRST 16

#define NEWUIDMAP "/usr/bin/newuidmap"
#define NEWGIDMAP "/usr/bin/newgidmap"

struct plan_builder;

/* How a box is made, best first: each is tried when the one before it was refused as such. */
enum launch_way {
    WAY_NAMESPACES,     /* all of them, the network's by a helper */
    WAY_CLONED_NETWORK, /* the same where setns(2) is refused */
    WAY_PRIVATE_FOLDER, /* none: Landlock and seccomp */
    _WAY_MAX,
};

/* make.c: a box on its way. */
struct launch {
    const struct launch_spec *spec; /* borrowed until the box is ready */
    struct launched launched;
    struct id_plan ids;
    struct plan_builder *builder;
    enum launch_way way;
    struct error why; /* what refused the way before */
    uint64_t deadline_ms;
};
/* All that the launcher itself has to do, then it returns: 0, or a negative errno and nothing is
 * left. */
int launch_begin(struct launch *launch, const struct launch_spec *spec, struct error *err);
/*
 * The channel can be read, or the deadline has come. 1: it stands, and launch->launched is the
 * caller's; 0: later, maybe with another channel and deadline; negative: nothing is left. Who
 * watches the channel stops that before.
 */
int launch_turn(struct launch *launch, struct error *err);
void launch_drop(struct launch *launch); /* before it is ready: everything is removed */

/* end.c */
/* launch_end() without the control group, whose removal may have to wait. */
void end_but_group(struct launched *launched, struct launch_usage *usage);

/* ids.c */
/*
 * For a moment the caller's effective id is `owner`: a user namespace that is cloned meanwhile
 * belongs to it, and a v1 control group's file that is opened lets its processes in. `keeps_files`:
 * files are still the caller's to open; else it has no more rights than the owner. 0, or a negative
 * errno and nothing has changed; ids_return() cannot fail.
 */
int ids_lend(uint32_t owner, bool keeps_files);
void ids_return(void);
/* What /proc calls a child of ours, which inside an engine may be another number than we know. */
pid_t ids_proc_number(pid_t pid, int pid_fd);

#endif
