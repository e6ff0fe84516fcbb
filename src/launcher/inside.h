/* inside.h - what the launcher's files share and nobody else sees. */
#ifndef BAILEY_LAUNCHER_INSIDE_H
#define BAILEY_LAUNCHER_INSIDE_H

#include "base/buf.h"
#include "base/limits.h"
#include "launcher/launcher.h"
#include "sandbox/plan.h"

#define DRAFT_STEPS_MAX 256
#define DRAFT_RULES_MAX 48
#define DRAFT_RLIMITS_MAX 12
#define DRAFT_ENV_MAX (24 + LIMIT_TEMPLATE_ROWS)
#define DRAFT_TEXT_MAX (64 * 1024)

/* A plan being written, with the memory its pointers point to. */
struct draft {
    struct sandbox_plan plan;
    struct plan_step steps[DRAFT_STEPS_MAX];
    struct plan_rule rules[DRAFT_RULES_MAX];
    struct plan_rlimit rlimits[DRAFT_RLIMITS_MAX];
    const char *env[DRAFT_ENV_MAX + 1];
    size_t env_count;
    char text[DRAFT_TEXT_MAX]; /* strings, one behind the other */
    size_t text_used;
    bool is_full; /* something did not fit */
};

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

#define GUEST_ID 1000 /* inside */

/* Of a template's files for the guest's home. */
#define HOME_LINKS_MAX 64
#define HOME_DEPTH_MAX 16

/* Of a range: those before are a daemon's own, pairs of boxes begin here. */
#define ENGINE_PAIR_FIRST 16

#define NEWUIDMAP "/usr/bin/newuidmap"
#define NEWGIDMAP "/usr/bin/newgidmap"

/* container_image.c */
/* Those of our own environment that CONTAINER_VARIABLES names: the image's for its guest. */
void container_variables(struct draft *draft);
/*
 * Files of the image's template as links in `home`, which is empty; folders are the guest's, who
 * writes there. A cache that does not fit is made by whoever needs it.
 */
void container_home(const char *home);

/* draft.c */
const char *draft_text(struct draft *draft, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct plan_step *draft_step(struct draft *draft, enum step_kind kind, const char *target,
                             const char *source, mode_t mode);
void draft_rule(struct draft *draft, enum rule_kind kind, const char *path);
void draft_env(struct draft *draft, const char *format, ...) __attribute__((format(printf, 2, 3)));
void draft_close(struct draft *draft); /* descriptors of cloned trees */
/* All that is not the root: limits, filters, environment. */
void draft_common(struct draft *draft, const struct launch_spec *spec, struct launched *launched);
/* Of those, the limits, where no control group is; plan.has_namespaces decides which. */
void draft_limits(struct draft *draft, const struct launch_spec *spec, struct launched *launched);
/* Of those, what is the same for every guest. */
void draft_rlimits(struct draft *draft);
/* Of the environment, likewise; PATH is the caller's to say, and before it the shares. */
#define DRAFT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define DRAFT_LANGUAGE "C.UTF-8"
void draft_short_list(struct draft *draft, const char *language);
void draft_finish(struct draft *draft); /* the plan points to what the draft holds */
/* A control group could be had: in the plan (of the child that joins it), and in what is told. */
void draft_grouped(struct sandbox_plan *plan, const struct cgroup *group);
void draft_holders(struct launched *launched);

/* root.c */
int root_draft(struct draft *draft, const struct launch_spec *spec, struct error *err);
/* Where the shares are inside, and what Landlock lets a guest do in such a root. */
void root_shares(struct draft *draft);
void root_rules(struct draft *draft);
/* A tree cloned here, where our rights still count, for folders the box's root could not enter. */
int root_clone_tree(const char *path);

/* furniture.c: what lies below /bailey */
bool furniture_has(const struct launch_spec *spec);
bool furniture_has_template(const struct launch_spec *spec); /* or one that is being made */
uint64_t furniture_bytes(const struct launch_spec *spec);    /* of our files, on the box's disk */
/* Must: come after the shares and the caller's binds. */
int furniture_draft(struct draft *draft, const struct launch_spec *spec, struct error *err);
int furniture_check_bind(const char *target, struct error *err);

/* private.c: a box without namespaces lives in a folder of the host */
int private_draft(struct draft *draft, const struct launch_spec *spec, const struct id_plan *ids,
                  struct launched *launched, struct error *err);
unsigned private_tasks(uid_t id); /* threads that an id has on this host now */
void private_remove(const char *folder);
void private_sweep(void);

/* child.c: the cloned child, up to the warden's loop */
#define GO_SPLIT 1u  /* FRAME_GO: two ids are mapped */
#define GO_GROUPS 2u /* setgroups(2) is allowed */
#define GROUP_V2 8u  /* FRAME_GROUP, beside the bits of the controllers: it was cloned into it */
struct child {
    struct sandbox_plan plan; /* its own copy: the last word on ids and group comes later */
    struct cgroup group;
    int channel_fd;
};
_Noreturn void child_become_warden(struct child *child);

/* ready.c: what is said to it, and its answer */
int ready_send_go(int channel_fd, bool split, bool groups, struct error *err);
int ready_send_group(const struct launched *launched, struct error *err);
/* 1: the box stands, and `launched` has what came along; 0: nothing was said yet. */
int ready_receive(struct launched *launched, const struct launch_spec *spec,
                  const struct draft *draft, struct error *err);

/* How a box is made, best first: each is tried when the one before it was refused as such. */
enum launch_way {
    WAY_NAMESPACES,     /* all of them, the network's by a helper */
    WAY_CLONED_NETWORK, /* the same where setns(2) is refused */
    WAY_PRIVATE_FOLDER, /* none: Landlock and seccomp */
    _WAY_MAX,
};

/* make.c: a box on its way. */
struct launch {
    const struct launch_spec *spec; /* borrowed until it stands */
    struct launched launched;
    struct id_plan ids;
    struct draft *draft;
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
void launch_drop(struct launch *launch); /* before it stands: all of it goes */

/* The memory that a warden wipes: launcher_remember_arguments(). */
void make_scrub(struct sandbox_plan *plan);

/* end.c */
struct rusage;
void end_process(struct launched *launched, struct rusage *usage);
/* launcher_end() without the control group, whose removal may have to wait. */
void end_but_group(struct launched *launched, struct launch_usage *usage);

/* ids.c */
void ids_choose(const struct launch_spec *spec, struct id_plan *ids);
/* Writes the maps of a cloned child; *ret_split and *ret_groups say what could be had. */
int ids_write(const struct launched *launched, const struct id_plan *ids, bool *ret_split,
              bool *ret_groups, struct error *err);
/* What /proc calls a child of ours, which inside an engine may be another number than we know. */
pid_t ids_proc_number(pid_t pid, int pid_fd);

#endif
