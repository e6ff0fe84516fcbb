/*
 * launcher_private.h - the launcher's state, and the functions that its files share. Private to
 * launcher/; the supervisor uses launcher_plan.h.
 *
 * Runs in: launcher
 */
#ifndef BAILEY_LAUNCHER_LAUNCHER_PRIVATE_H
#define BAILEY_LAUNCHER_LAUNCHER_PRIVATE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/limits.h"
#include "boxes/boxes.h"
#include "boxes/launch.h"
#include "boxes/plan_builder.h"
#include "interpreter/adopt.h"
#include "launcher/hand.h"
#include "launcher/launcher.h"
#include "launcher/launcher_plan.h"
#include "launcher/pool.h"
#include "launcher/protocol.h"
#include "launcher/share.h"
#include "launcher/takeover.h"
#include "launcher/upgrade.h"
#include "sys/cgroup.h"
#include "sys/loop.h"
#include "sys/notify.h"

#define LAUNCHER_BUCKETS 1024

/* The struct that contains `pointer` as that member. */
#define CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* What a box has only while it is being made. */
struct box_bringup;

/* zygote_owner.c: the id that owns the user namespaces of boxes */
struct zygote_owner {
    struct zygote_owner *next;
    struct launcher *launcher;
    char tenant[LAUNCHER_TENANT_MAX], layer[HASH_TEXT_MAX];
    uint32_t slot, id;            /* id 0: there is only one id */
    uint32_t refs;                /* zygotes, and boxes that exist or are being made */
    bool had_zygote;              /* package code has run under this id */
    struct cgroup_site site;      /* parent of the control groups of its boxes and zygotes */
    uint32_t share, wanted_share; /* of CPU time, on v2 (share.c) */
};

/* Times in a box's life (launcher_trace.c), in order; 0: not reached. */
enum box_moment {
    BOX_ASKED,
    BOX_BEGUN,
    BOX_CLONED,
    BOX_STANDS,
    BOX_HEARD,  /* the zygote has read the request */
    BOX_FORKED, /* the first instruction of the new process */
    BOX_LOCKED, /* its isolation is complete */
    BOX_TOLD,
    BOX_KERNEL_ENDED,
    BOX_END_ASKED,
    BOX_EXITED,
    BOX_GONE,
    _BOX_MOMENT_MAX,
};

struct managed_box {
    struct loop_source source; /* its pidfd; while it is being made: its channel */
    struct launcher *launcher;
    struct managed_box *next; /* in its hash bucket; in the queue or the list of those being made */
    struct launcher_make make;
    uint32_t generation; /* of the broker that requested it */
    struct box_bringup *bringup;
    struct launched launched;
    struct launcher_box facts;
    struct zygote_owner
        *owner; /* of its user namespace; NULL: the launcher, and no zygote enters */
    uint32_t slot;
    bool was_asked;
    bool waits_kernel; /* ready, and reported when a zygote has put a kernel into it */

    /* pool; is_prewarmed: not given to a broker yet */
    bool is_prewarmed, was_prewarmed;
    uint32_t bucket, folder, zygote; /* folder: its data and packages are p_<folder>; 0: none */
    uint64_t idle_since_ms, idle_bytes;
    struct managed_box *older; /* in its pool bucket */

    /* CPU time (share.c) */
    struct share_account *account; /* whose it is; NULL: prewarmed */
    uint32_t share;                /* of its group */
    bool is_active;
    uint64_t seen_cpu_us; /* at the last look */
    uint64_t moments_ns[_BOX_MOMENT_MAX];
};

/* A control group whose box is gone, but that the kernel may not release yet. */
struct dead_group {
    struct dead_group *next;
    struct cgroup group;
};

struct launcher_note { /* a message that was not sent yet */
    struct launcher_note *next;
    struct launcher_message message;
    int fd;
};

struct launcher {
    const struct launcher_plan *plan;
    struct loop loop;
    struct loop_source supervisor, signals, timer, control, broker, egress;
    struct provider_host {
        struct launcher *launcher;
        struct loop_source source; /* fd -1: none */
    } hosts[LAUNCHER_HOSTS_MAX];
    int folder_fd[LAUNCHER_FOLDER_COUNT];

    /* the broker */
    pid_t broker_pid;
    uint64_t broker_started_ms, restart_at_ms, pause_ms;
    uint32_t generation;
    bool has_said_hello, was_ready, is_stopping, is_over;
    uint64_t stop_at_ms;
    struct launcher_note *notes, **notes_end;

    /* the boxes */
    struct managed_box *buckets[LAUNCHER_BUCKETS];
    uint32_t box_count; /* boxes that the broker knows or has requested */
    uint32_t next_number, next_slot;
    uint32_t slots_used;
    uint8_t slots[LIMIT_BOXES]; /* 1: this pair of ids is used by a box or an owner */

    /* warm interpreters (zygotes.h) */
    struct zygote *zygotes;
    struct zygote_owner *owners;
    struct zygote_strays *strays; /* processes that ended zygotes left behind */
    struct zygote_kernel *asked_kernels, *kernels[LAUNCHER_BUCKETS]; /* by pid */
    uint32_t next_kernel;
    char layer[HASH_TEXT_MAX]; /* of the default template; empty: none */

    struct launch_bind binds[LAUNCHER_BINDS_MAX];
    struct managed_box *queue, **queue_end; /* boxes that wait to be begun */
    struct managed_box *bringups;           /* boxes being made */
    uint32_t bringup_count;
    bool greets_later; /* a new broker waits until the old one's requests are done */
    struct dead_group *dead_groups, **dead_groups_end;
    uint32_t dead_group_count;
    uint64_t reap_groups_at_ms;
    struct pool pool;
    struct shares shares;
    uint64_t timer_ms;                      /* the time the timer is set to */
    struct layer_commit_job *layer_commits; /* the first of them are under way */
    struct upgrade upgrade;
    struct takeover takeover;
    struct { /* what only installer boxes have */
        struct launch_file files[INSTALLER_FILES_MAX], all_files[LAUNCH_FILES_MAX];
        size_t file_count;
        struct launch_bind
            binds[LAUNCHER_BINDS_MAX + 2 * LAUNCHER_INTERPRETER_BINDS + LAUNCHER_WHEELS_MAX];
    } installer;
    int status;
};

/* launcher.c */
void launcher_say(struct launcher *launcher, char what,
                  const char *text); /* sends to the supervisor */
void launcher_finish(struct launcher *launcher, int status);
bool launcher_is_quiet(const struct launcher *launcher); /* no message is waiting to be read */
/* For every descriptor that is inherited by number. */
void launcher_close_on_exec(const struct launcher_plan *plan, bool closes);

/* launcher_broker.c */
void broker_start(struct launcher *launcher);
void broker_tick(struct launcher *launcher, uint64_t now_ms);
/* Takes the descriptor, if any. */
void broker_send(struct launcher *launcher, const struct launcher_message *message, int fd);
void broker_kill(struct launcher *launcher);
void broker_greet(struct launcher *launcher);  /* answers its HELLO */
void broker_listen(struct launcher *launcher); /* reads its messages again, unless it is paused */
void broker_renew(struct launcher *launcher);  /* ends it, and another one is started */
void broker_end(struct launcher *launcher);    /* kills a broker that breaks the protocol */

/* zygote_owner.c */
/* Without a layer it is the same owner for all tenants, with an empty name. */
void zygote_owner_name(struct launcher_make *make);
bool zygote_owner_is(const struct zygote_owner *owner, const char *tenant, const char *layer);
/* Adds a user of it; NULL: no id is free, so there will be no zygote. */
struct zygote_owner *zygote_owner_take(struct launcher *launcher, const char *tenant,
                                       const char *layer);
/* The same for a box of a handover, whose owner has that slot already. */
struct zygote_owner *zygote_owner_take_over(struct launcher *launcher, const char *tenant,
                                            const char *layer, uint32_t slot);
void zygote_owner_give(struct zygote_owner *owner); /* NULL is fine */
/* zygote_strays.c: kills these, by a child with that id; NULL: all processes of that id. */
void zygote_strays_kill(uint32_t id, const pid_t *pids, size_t count);

/*
 * zygote*.c: warm interpreters, one for each (tenant, layer, tier), started at the first request
 * (the base tier of the default template at start), replaced when they die, recycled by count.
 * Nothing here blocks: a zygote that is not ready returns -EAGAIN, and will be ready soon.
 */
struct zygote;
void zygotes_start(struct launcher *launcher);
void zygotes_end(struct launcher *launcher);
void zygotes_leave(struct launcher *launcher); /* ends only the zygotes: their kernels become
                                                  children of the launcher */
struct handover_kernel;
/* Kernels that are the launcher's own children; a negative errno of `each` stops. */
int zygotes_hand_kernels(struct launcher *launcher,
                         int (*each)(void *ctx, const struct handover_kernel *kernel), void *ctx);
int zygotes_take_kernel(struct launcher *launcher, const struct handover_kernel *kernel);
/*
 * A kernel in a box: makes socket and pipes, asks the zygote, and sends FRAME_KERNEL to the warden
 * once the kernel's isolation is complete. 0: boxes_kernel_made() will be called, from the loop; or
 * a negative errno, and nothing was done (-EAGAIN: no zygote is ready yet).
 */
int zygotes_kernel(struct launcher *launcher, struct managed_box *box, uint32_t kernel,
                   uint8_t tier);
void zygotes_each(struct launcher *launcher,
                  void (*each)(void *ctx, const char *tenant, const struct launcher_state *state),
                  void *ctx);
/* The pid of the zygote that can be asked for a kernel now; 0: none. Cheap. */
uint32_t zygotes_serving(struct launcher *launcher, const struct launcher_make *make);
/* Starts the same zygotes for `to` as for `from`, at least the base tier. */
void zygotes_renew(struct launcher *launcher, const char *from, const char *to);
void zygotes_forget(struct launcher *launcher, const char *layer); /* they fork no more */
/* Tells the broker the CPU time of an owner's zygotes since the last time; NULL: of none. */
void zygotes_spent(struct launcher *launcher, const struct zygote_owner *owner);
void zygotes_tick(struct launcher *launcher, uint64_t now_ms);
uint64_t zygotes_deadline(const struct launcher *launcher); /* 0: none */
/*
 * launcher_box.c: called by zygote*.c; a box that is gone is ignored. `num` 0: FRAME_KERNEL was
 * sent, so a CELL that is sent from now on finds the kernel; negative: there is none, start it
 * cold. The end of a kernel that was given is reported once, with the status from the system, also
 * if its zygote died before it.
 */
void boxes_kernel_made(struct launcher *launcher, uint32_t number, uint32_t kernel, int num);
void boxes_kernel_ended(struct launcher *launcher, const struct launcher_kernel_ended *ended);

/* pool.c: prewarmed boxes; see pool.h. */
void pool_start(struct launcher *launcher);
/* Takes a matching box out of the pool and gives it the key; NULL: none. */
struct managed_box *pool_take(struct launcher *launcher, const struct launcher_make *make,
                              const struct share_account *account);
void pool_tick(
    struct launcher *launcher); /* when nothing else waits: makes one more, or releases one */
void pool_wake(
    struct launcher *launcher); /* something changed: a zygote is ready, or was retired */
bool pool_is_due(const struct launcher *launcher, uint64_t now_ms);
/* The last places, which are kept for tenants that ask for few, are not all taken. */
bool pool_lacks_kept(const struct launcher *launcher);
void pool_release(struct launcher *launcher); /* a box has ended: a good moment to make one */
void pool_stands(struct launcher *launcher, struct managed_box *box);
/* Releases boxes of that layer, including those being made, unless they are requested again. */
void pool_forget(struct launcher *launcher, const char *layer);
/* The same, and makes as many of another layer; with an empty name only the default ones. */
void pool_renew(struct launcher *launcher, const char *from, const char *to);
/* One of its boxes is gone, or could not be made; the caller frees it. */
void pool_lost(struct launcher *launcher, struct managed_box *box);
/* `tenant` of a zygote; NULL with STATE_END */
void pool_fill_state(struct launcher *launcher, const char *tenant, struct launcher_state *state);
void pool_end(struct launcher *launcher);
void pool_drop(struct launcher *launcher); /* ends all idle boxes, in the loop */

/* pool_folder.c: folders that a session's box is bound to before the session is known */
int pool_folder_make(struct launcher *launcher, const struct launcher_make *make, uint32_t *ret);
int pool_folder_give(struct launcher *launcher, const struct managed_box *box, const char *key);
void pool_folder_remove(struct launcher *launcher, const struct managed_box *box);
void pool_folder_sweep(struct launcher *launcher); /* of a daemon that was killed */

/*
 * layer_commit.c: makes a layer of an installer's folder, in a child without access to anything
 * else.
 */
void layer_commit_start(struct launcher *launcher,
                        const struct launcher_commit_layer *commit_layer);
void layer_commit_discard(struct launcher *launcher,
                          const struct launcher_commit_layer *commit_layer);
void layer_commit_sweep(
    struct launcher *launcher); /* removes what installers of a killed daemon left */
/* In the child: keeps these two descriptors, and can access only the content of the folder. */
int layer_commit_confine(int folder_fd, int answer_fd);
/*
 * The child's work: removes from <layers>/<name> everything that is not a file, folder or link
 * within itself, and .pth files that pip did not record; changes its owner to `id`, writes its
 * manifest and renames it to the hash of its contents. Fills `layer_committed`, including its
 * error. After a failure the folder still exists, in an undefined state.
 */
int layer_commit_folder(int layers_fd, const char *name, uid_t id,
                        struct launcher_layer_committed *layer_committed);

/* launch_paths.c: the files of a box that the broker requested */
struct launch_paths { /* must live as long as the specification */
    char data[PATH_MAX + 64], layer[PATH_MAX + 96], packages[PATH_MAX + 64], staging[PATH_MAX + 64];
};
/*
 * Must be called after the ids of `spec` are set. `key` names the folders of data and packages; the
 * installer's folder, if any, is made.
 */
int launch_paths_fill(struct launcher *launcher, const struct launcher_make *make, const char *key,
                      struct launch_paths *room, struct launch_spec *spec, struct error *err);
void launch_paths_undo(struct launcher *launcher,
                       const struct launcher_make *make); /* the box could not be made */

/* interpreters.c: interpreters of a box that the plan does not give to every box */
struct box_interpreters { /* must live as long as the specification */
    struct interpreter found[2];
    struct launch_bind binds[LAUNCHER_BINDS_MAX + (size_t)2 * LAUNCHER_INTERPRETER_BINDS];
};
/* Adds those of `make` to the specification, or refuses them. */
int interpreters_fill(struct launcher *launcher, const struct launcher_make *make,
                      struct box_interpreters *room, struct launch_spec *spec, struct error *err);
void interpreters_free(struct box_interpreters *room);

void staging_name(const char *key, char *name, size_t size);
/* The ids that own an installer's folder; false: there is none, or the ids are in use. */
bool staging_slot(struct launcher *launcher, const char *key, uint32_t *ret);

/* egress.c: the launcher's side of the proxy, which runs outside. */
int egress_open(struct launcher *launcher);
void egress_add(struct launcher *launcher,
                struct managed_box *box); /* gives it its listening socket */
void egress_remove(struct launcher *launcher, uint32_t number);

/* provider_host.c */
int provider_hosts_open(struct launcher *launcher);
void provider_hosts_offer(struct launcher *launcher); /* gives each a channel to the broker */

/* launcher_trace.c */
void trace_moment(struct managed_box *box,
                  enum box_moment moment);      /* sets it to now; NULL is fine */
void trace_tell(const struct managed_box *box); /* at LOG_DEBUG; else nothing */

/* bringup.c: boxes being made; several at once, without blocking */
/* Takes the box. It is begun in a later turn, in order; the broker's requests come first. */
void bringups_add(struct launcher *launcher, struct managed_box *box);
bool bringups_can_begin(const struct launcher *launcher);
void bringups_begin(struct launcher *launcher); /* begins the first of the queue */
void bringups_tick(struct launcher *launcher, uint64_t now_ms);
uint64_t bringups_deadline_ms(const struct launcher *launcher); /* 0: none */
bool bringups_of_others(
    const struct launcher *launcher); /* whether boxes of an earlier broker are being made */
void bringups_forget_queue(struct launcher *launcher); /* the broker that requested them is gone */
void bringups_end_all(struct launcher *launcher);

/* installer.c: what only an installer box has */
int installer_open(struct launcher *launcher);
/* Adds to the files and binds of the specification; borrowed until the next call. */
void installer_add_files(struct launcher *launcher, struct launch_spec *spec);

/* launcher_box.c */
struct managed_box *boxes_find(struct launcher *launcher,
                               uint32_t number); /* NULL: there is none */
void boxes_make(struct launcher *launcher, const struct launcher_make *make);
struct managed_box *boxes_new(struct launcher *launcher, const struct launcher_make *make,
                              bool is_prewarmed);
void boxes_free(struct managed_box *box); /* a box that was never ready */
void boxes_stand(struct managed_box *box);
void boxes_failed(struct managed_box *box, const struct launched *launched,
                  const struct error *err);
void boxes_kernel(struct launcher *launcher, const struct launcher_kernel *asked);
void boxes_end(struct launcher *launcher, uint32_t number);
void boxes_usage(struct launcher *launcher, uint32_t number);
/* CPU time of a process, in ticks of 10 ms; with those that it has waited for. */
uint64_t process_cpu_us(pid_t pid, int pid_fd, bool with_children);
void boxes_inventory(struct launcher *launcher);
void boxes_look(struct launcher *launcher);
void boxes_end_all(struct launcher *launcher);
bool boxes_has_key(const struct launcher *launcher,
                   const char *key); /* of a box that exists or will exist */
uint32_t boxes_slot_limit(const struct launcher *launcher);
/* A free pair of ids; used ones are reused as late as possible. */
bool slots_take(struct launcher *launcher, uint32_t *ret);
bool slots_take_one(struct launcher *launcher,
                    uint32_t slot); /* takes this one; false: it is in use */
void slots_give(struct launcher *launcher, uint32_t slot);
int boxes_keep(struct managed_box *box,
               struct error *err); /* adds it to the hash table and watches it */

/* launcher_handover.c */
bool boxes_has_prewarmed(const struct launcher *launcher); /* there are prewarmed boxes */
struct handover_box;
int boxes_hand(struct launcher *launcher, int (*each)(void *ctx, const struct handover_box *box),
               void *ctx);
int boxes_take(struct launcher *launcher, const struct handover_box *from);

/* cgroup_reaper.c */
void cgroup_reaper_add(struct launcher *launcher, const struct cgroup *group);
bool cgroup_reaper_is_due(const struct launcher *launcher, uint64_t now_ms);
void cgroup_reaper_tick(struct launcher *launcher, uint64_t now_ms); /* tries one group at a time */
void cgroup_reaper_end(struct launcher *launcher);                   /* waits for all of them */

#endif
