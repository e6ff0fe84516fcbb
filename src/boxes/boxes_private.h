/*
 * boxes_private.h - what the files of boxes/ share; private to it.
 *
 * Runs in: launcher, commands
 */
#ifndef BAILEY_BOXES_BOXES_PRIVATE_H
#define BAILEY_BOXES_BOXES_PRIVATE_H

#include "base/buf.h"
#include "base/limits.h"
#include "boxes/boxes.h"
#include "boxes/launch.h"
#include "boxes/plan_builder.h"
#include "sandbox/plan.h"

#define GUEST_ID 1000 /* inside */

/* Of a template's files for the guest's home. */
#define HOME_LINKS_MAX 64
#define HOME_DEPTH_MAX 16

/* container_image.c */
/* Those of our own environment that CONTAINER_VARIABLES names: the image's for its guest. */
void container_variables(struct plan_builder *builder);
/*
 * Files of the image's template as links in `home`, which is empty; folders belong to the guest,
 * who writes there. A cache that does not fit is made by the program that needs it.
 */
void container_home(const char *home);

/* root.c */
/* Where the shares are inside, and what Landlock lets a guest do in such a root. */
void root_shares(struct plan_builder *builder);
void root_rules(struct plan_builder *builder);
/* A tree cloned here, where our rights still count, for folders the box's root could not enter. */
int root_clone_tree(const char *path);
int root_clone_mount(const char *path); /* without what is mounted below it */
/*
 * The same for a folder of the engine's state, whose name the broker may have made into a link that
 * leads anywhere: -ENOTDIR for that. *ret_fd may be -1: the box tries the path itself.
 */
int root_clone_folder(const char *path, const char *target, int *ret_fd, struct error *err);

/* box_mounts.c: the contents of /bailey */
bool box_mounts_has_any(const struct launch_spec *spec);
bool box_mounts_has_template(const struct launch_spec *spec); /* or one that is being made */
uint64_t box_mounts_bytes(const struct launch_spec *spec);    /* of our files, on the box's disk */
/* Must: come after the shares and the caller's binds. */
int box_mounts_plan(struct plan_builder *builder, const struct launch_spec *spec,
                    struct error *err);
int box_mounts_check_bind(const char *target, struct error *err);

/* own_programs.c: python, python3 and pip, the session's interpreter */
bool own_programs_wanted(const struct launch_spec *spec);
uint64_t own_programs_bytes(const struct launch_spec *spec); /* on the box's disk */
uint64_t own_programs_inodes(const struct launch_spec *spec);
/* Must: come after /bailey is there. */
void own_programs_plan(struct plan_builder *builder, const struct launch_spec *spec);
/* The same in the private folder of a box without namespaces. */
int own_programs_write(struct plan_builder *builder, const struct launch_spec *spec,
                       const char *folder, struct error *err);

/* private.c: a box without namespaces lives in a folder of the host */
int private_plan(struct plan_builder *builder, const struct launch_spec *spec,
                 const struct id_plan *ids, struct launched *launched, struct error *err);
/* What a guest may read of a machine whose files it sees, and where it may write: its shares. */
void private_rules(struct plan_builder *builder, const struct launch_spec *spec);
unsigned private_tasks(uid_t id); /* threads that an id has on this host now */
void private_remove(const char *folder);
void private_sweep(void);
bool private_has(
    const char *path); /* it is, or is in, a folder of such a name; it need not exist */

/* promised.c: the paths that a box promises, as folders of the container that is the only box */
#define PROMISED_MAX 8
struct promised {
    struct promised_folder {
        const char *path;
        int fd;       /* -1: not taken */
        bool is_made; /* by us: it is removed again */
        uid_t uid;    /* what it had before, if it was there */
        gid_t gid;
        mode_t mode;
    } folders[PROMISED_MAX];
    size_t count;
    bool has_link; /* /mnt/data is ours */
};
/*
 * Takes all of them for the guest, or none: then *ret_path is the one that is in use by others or
 * cannot be made, and the result the reason.
 */
int promised_take(struct promised *promised, uid_t guest, const char **ret_path);
void promised_plan(struct plan_builder *builder); /* the shares, and what is read besides */
int promised_files(void);                         /* /bailey: the drivers of kernels */
#define PROMISED_MARK ".bailey-box"               /* a file of /bailey: it is ours */
int drivers_write(const char *folder);            /* the same in another folder of ours */
/* Must: come after leftovers_files(). What was there before has its owner again. */
void promised_give_back(struct promised *promised);

/*
 * leftovers.c: what an id has left, which no other process of the container has. The next id is
 * unused, too: ids of boxes come in pairs.
 */
void leftovers_processes(uid_t id); /* until there is none */
/* All that descends from the caller, which must be a subreaper. */
void leftovers_children(void);
void leftovers_ipc(uid_t id); /* System V shared memory, semaphores, message queues */
/*
 * Files and folders that belong to it, below the path and in all file systems mounted there; in its
 * folders also further names (hard links) of files of others, which could keep a folder from being
 * removed.
 */
void leftovers_files(uid_t id, const char *path);

/* child.c: the cloned child, up to the warden's loop */
#define GO_SPLIT 1u  /* FRAME_GO: two ids are mapped */
#define GO_GROUPS 2u /* setgroups(2) is allowed */
#define GROUP_V2 \
    (1u << 31) /* FRAME_GROUP, besides a bit for each controller: cloned into the group */
struct child {
    struct sandbox_plan plan; /* its own copy: ids and group are final later */
    struct cgroup group;
    int channel_fd;
    int cpu_fd; /* v1: the file through which it enters the group of its CPU time; -1: none */
};
_Noreturn void child_become_warden(struct child *child);

/* ready.c: what is said to it, and its answer */
int ready_send_go(int channel_fd, bool split, bool groups, struct error *err);
int ready_send_group(const struct launched *launched, struct error *err);
/* 1: the box is ready, and `launched` has its descriptors; 0: no message yet. */
int ready_receive(struct launched *launched, const struct launch_spec *spec,
                  const struct plan_builder *builder, struct error *err);

/* The memory that a warden wipes: launch_remember_arguments(). */
void make_scrub(struct sandbox_plan *plan);

/* end.c */
struct rusage;
void end_process(struct launched *launched, struct rusage *usage);

/* ids.c */
void ids_choose(const struct launch_spec *spec, struct id_plan *ids);
/* Writes the maps of a cloned child; *ret_split and *ret_groups say what was possible. */
int ids_write(const struct launched *launched, const struct id_plan *ids, bool *ret_split,
              bool *ret_groups, struct error *err);

#endif
