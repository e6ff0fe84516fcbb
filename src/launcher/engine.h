/*
 * engine.h - what the daemon's processes share: the plan that the stub hands to the launcher, and
 * the launcher's own state. Private to launcher/.
 *
 * The launcher executes itself inside its namespaces; what it knows it has from the plan (a sealed
 * memfd, written and read by the same program) and from descriptors by number. Its environment is
 * the broker's.
 */
#ifndef BAILEY_LAUNCHER_ENGINE_H
#define BAILEY_LAUNCHER_ENGINE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/limits.h"
#include "launcher/inside.h"
#include "launcher/launcher.h"
#include "launcher/pool.h"
#include "launcher/protocol.h"
#include "launcher/serve.h"
#include "launcher/upgrade.h"
#include "sys/cgroup.h"
#include "sys/loop.h"
#include "sys/notify.h"

#define ENGINE_BINDS_MAX 16
#define ENGINE_DATASETS_MAX 64
#define ENGINE_WHEELS_MAX 8
#define INSTALLER_FILES_MAX 4
#define INSTALLER_BYTES_MAX (8 * MIB)
#define LAUNCH_FILES_MAX 32
#define ENGINE_FOLDER_COUNT 8

/* Some of STATE_FOLDERS, by their place in it. */
enum engine_folder { FOLDER_LAYERS = 5, FOLDER_PACKAGES = 7 };

/* Descriptors of the launcher, by number; those of BROKER_DATASET_FD and BROKER_TCP_FD too. */
#define ENGINE_PLAN_FD 3
#define ENGINE_STUB_FD 4 /* a SOCK_SEQPACKET pair: ENGINE_SAYS_* */
#define ENGINE_PROGRAM_FD 5
#define ENGINE_LISTEN_FD 6
#define ENGINE_SETTINGS_FD 7
#define ENGINE_OUTER_PROC_FD                                             \
    8 /* the /proc outside: "self" in it is a number that the user knows \
       */

#define ENGINE_EGRESS_FD 9     /* to the egress proxy, or who waits for its work */
#define ENGINE_INSTALLER_FD 10 /* a sealed memfd: installer.c */
#define ENGINE_SELF_FD 11      /* the sealed copy of `bailey` that is executed here */
#define ENGINE_HANDOVER_FD 12  /* handover.h; /dev/null after a start from nothing */
#define ENGINE_WALL_FD 13      /* the meeting point with the wall of containers; or /dev/null */
#define ENGINE_LAST_FD ENGINE_WALL_FD

/* First byte of a message between stub and launcher; both trust each other. */
#define ENGINE_SAYS_GO 'g'       /* stub: the id maps are written */
#define ENGINE_SAYS_STOP 's'     /* stub: SIGTERM, SIGINT or SIGHUP came */
#define ENGINE_SAYS_PING 'p'     /* stub, and the launcher's answer: its loop turns */
#define ENGINE_SAYS_UPGRADE 'u'  /* stub: two sealed programs come along */
#define ENGINE_SAYS_READY 'r'    /* launcher: the broker serves */
#define ENGINE_SAYS_FAILED 'f'   /* launcher: with the text of why it could not be started */
#define ENGINE_SAYS_REFUSED 'n'  /* launcher: the same, and the kernel does not let us */
#define ENGINE_SAYS_UPGRADED 'U' /* launcher: with the version that serves now */
#define ENGINE_SAYS_KEPT 'k'     /* launcher: with why there was no upgrade */

/* Ids inside: the launcher is 0, the broker this or 0 too, boxes have pairs (inside.h). */
#define ENGINE_BROKER_ID 1
#define ENGINE_EGRESS_ID 2 /* of the egress proxy, which is outside */

/* Also read by a later program that takes over: fields are only ever added at its end. */
struct engine_plan {
    char magic[16];
    uint32_t broker_id;
    uint32_t launcher_pid; /* as it is known outside */
    uint32_t pair_count;   /* 0: there is one id only, and boxes share it */
    bool clears_groups;    /* setgroups(2) is allowed */
    struct cgroup_site site;
    char state[PATH_MAX];  /* where the launcher finds the state folders */
    char root[PATH_MAX];   /* empty: the host's /usr */
    char python[PATH_MAX]; /* the default interpreter, as a path in a box; empty: there is none */
    uint32_t pool_size, pool_memory_mib; /* SANDBOX_POOL_SIZE and _MEMORY; size 0: no pool */
    bool has_zygotes;                    /* SANDBOX_WARM */
    uint32_t log_level;                  /* BAILEY_LOG */
    uint32_t log_is_json;                /* BAILEY_LOG_FORMAT */
    char layer[HASH_TEXT_MAX];           /* of the default template */
    struct {
        char host[PATH_MAX], box[PATH_MAX];
    } binds[ENGINE_BINDS_MAX];
    uint32_t bind_count, dataset_count, tcp_count;
    struct {
        char host[PATH_MAX], box[64];
    } wheels[ENGINE_WHEELS_MAX]; /* shown in installer boxes only */
    uint32_t wheel_count;
    bool has_egress;
    uint32_t stop_grace_ms;
    /* What the configuration allows a box at most, and at least; 0: nothing was said. */
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis;
    uint32_t minimum;
    bool has_wall; /* ENGINE_WALL_FD */
};
#define ENGINE_MAGIC "bailey engine 1"

extern const char *const engine_folders[ENGINE_FOLDER_COUNT]; /* STATE_FOLDERS */

/* hand.c: what goes through an exec */
struct fd_move {
    int from, to; /* from -1: `to` stays empty */
};
/* Descriptors by number, ascending and all that there are; the rest is closed by the next exec. */
int hand_fds(struct fd_move *moves, size_t count);
/* A sealed copy in memory; *ret_fd is close-on-exec. */
int hand_program(const char *path, int *ret_fd, struct error *err);
int hand_bytes(const char *name, const void *data, size_t length, int *ret_fd, struct error *err);
int hand_exec(int program_fd, char *const *argv, char *const *env); /* returns only on failure */
/* Becomes this id (-1: stays) without any capability, for good, also where the id is 0. */
int hand_off_privileges(int64_t id, bool clears_groups);

/* serve_open.c */
struct serve {
    const struct serve_spec *spec;
    struct engine_plan *plan;
    bool is_range;         /* root: a range of the host's ids */
    unsigned first, count; /* it */
    bool is_helped;        /* an ordinary user's own id, and ranges through newuidmap */
    unsigned sub_uid, sub_gid, sub_count;
    int lock_fd, range_fd, listen_fd, settings_fd, self_fd, engine_fd, leaf_fd, stub_fd,
        launcher_fd;
    int group_fd[_CONTROLLER_MAX]; /* locks of the engine's groups, held by the stub */
    int folder_fd[ENGINE_FOLDER_COUNT];
    int folder_tree[ENGINE_FOLDER_COUNT]; /* detached; root only */
    int bind_tree[ENGINE_BINDS_MAX], root_tree;
    int dataset_fd[ENGINE_DATASETS_MAX];
    int tcp_fd[SERVE_LISTEN_MAX];
    int wheel_tree[ENGINE_WHEELS_MAX];
    int signal_fd, pid_fd;
    struct upgrade_door upgrade;
    struct notify notify;
    int egress_fd, egress_pid_fd, installer_fd, wall_fd, wall_pid_fd;
    pid_t pid, egress_pid, wall_pid;
};
void serve_init(struct serve *serve, const struct serve_spec *spec, struct engine_plan *plan);
void serve_close(struct serve *serve);
int serve_open(struct serve *serve, struct error *err);
/* A unix socket of any length of path; one that nobody listens to is replaced. */
int serve_socket_listen(const char *path, int type, int *ret_fd, struct error *err);
int serve_socket_connect(const char *path, int type, int *ret_fd, struct error *err);
void serve_note_ids(struct serve *serve, unsigned mapped); /* so many are mapped inside */

/* Detached copies of the trees that the launcher will not be able to reach by their names. */
void serve_take_trees(struct serve *serve);

/* serve_listen.c: the TCP addresses */
int serve_listen(struct serve *serve, struct error *err);

/* serve_egress.c: who waits for the egress proxy's work. Must: come before the privilege goes. */
int serve_egress_start(struct serve *serve, struct error *err);
void serve_egress_end(struct serve *serve);

/* serve_wall.c: who keeps the wall of containers. Must: likewise. */
int serve_wall_start(struct serve *serve, struct error *err);
void serve_wall_end(struct serve *serve);

/* serve_clone.c: the launcher, in its namespaces, up to its exec */
int serve_clone(struct serve *serve, struct error *err);
int serve_refused(int r, const char *what, struct error *err); /* fills *err; returns r */

/* ---- the launcher inside ---- */

#define ENGINE_BUCKETS 1024

/* The struct of which `pointer` is that member. */
#define CONTAINER_OF(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* What a box has while it is being made, and not afterwards. */
struct engine_making;

/* Moments of a box's life (engine_trace.c), in order; 0: it was not reached. */
enum box_moment {
    BOX_ASKED,
    BOX_BEGUN,
    BOX_CLONED,
    BOX_STANDS,
    BOX_HEARD,  /* the zygote has read the request */
    BOX_FORKED, /* the first instruction of the new process */
    BOX_LOCKED, /* it has all its walls */
    BOX_TOLD,
    BOX_KERNEL_ENDED,
    BOX_END_ASKED,
    BOX_EXITED,
    BOX_GONE,
    _BOX_MOMENT_MAX,
};

struct engine_box {
    struct loop_source source; /* its pidfd; while it is made: its channel */
    struct engine *engine;
    struct engine_box *next; /* of its bucket; of the queue or the list of those being made */
    struct launcher_make make;
    uint32_t generation; /* of the broker that asked for it */
    struct engine_making *making;
    struct launched launched;
    struct launcher_box facts;
    uint32_t slot;
    bool was_asked;
    bool waits_kernel; /* it stands, and is told when a zygote has put one into it */

    /* of the pool; is_ahead: nobody knows it yet */
    bool is_ahead, was_ahead;
    uint32_t shelf, folder, zygote; /* folder: its data and packages are p_<folder>; 0: none */
    uint64_t idle_since_ms, idle_bytes;
    struct engine_box *older; /* on its shelf */
    uint64_t moments_ns[_BOX_MOMENT_MAX];
};

/* A control group whose box is gone, and which the kernel may not let go of yet. */
struct engine_grave {
    struct engine_grave *next;
    struct cgroup group;
};

struct engine_note { /* a message that could not be sent yet */
    struct engine_note *next;
    struct launcher_message message;
    int fd;
};

struct engine {
    const struct engine_plan *plan;
    struct loop loop;
    struct loop_source stub, signals, timer, control, broker, egress, wall;
    int folder_fd[ENGINE_FOLDER_COUNT];

    /* the broker */
    pid_t broker_pid;
    uint64_t broker_started_ms, restart_at_ms, pause_ms;
    uint32_t generation;
    bool has_said_hello, was_ready, is_stopping, is_over;
    uint64_t stop_at_ms;
    struct engine_note *notes, **notes_end;

    /* the boxes */
    struct engine_box *buckets[ENGINE_BUCKETS];
    uint32_t box_count; /* that the broker knows or has asked for */
    uint32_t next_number, next_slot;
    uint32_t slots_used;
    uint8_t slots[LIMIT_BOXES]; /* 1: its pair of ids is in use */

    /* warm interpreters (zygotes.h) */
    struct zygote *zygotes;
    struct zygote_kernel *asked_kernels, *kernels[ENGINE_BUCKETS]; /* by pid */
    uint32_t next_kernel;
    char layer[HASH_TEXT_MAX]; /* of the default template; empty: none */

    struct launch_bind binds[ENGINE_BINDS_MAX];
    struct engine_box *queue, **queue_end; /* that wait until they are begun */
    struct engine_box *makings;            /* that were */
    uint32_t making_count;
    bool greets_later; /* a new broker waits until what the old one asked for stands */
    struct engine_grave *graves, **graves_end;
    uint32_t grave_count;
    uint64_t graves_at_ms;
    struct pool pool;
    uint64_t timer_ms;      /* what it is set to */
    struct seal_job *seals; /* the first of them are under way */
    struct upgrade upgrade;
    struct { /* what installer boxes have besides */
        struct launch_file files[INSTALLER_FILES_MAX], all_files[LAUNCH_FILES_MAX];
        size_t file_count;
        struct launch_bind binds[ENGINE_BINDS_MAX + ENGINE_WHEELS_MAX];
    } installer;
    int status;
};

/* engine.c */
void engine_say(struct engine *engine, char what, const char *text); /* to the stub */
void engine_finish(struct engine *engine, int status);
bool engine_is_quiet(const struct engine *engine); /* nobody has said anything that waits */
/* Of every descriptor that is inherited by number. */
void engine_close_on_exec(const struct engine_plan *plan, bool closes);

/* engine_broker.c */
void broker_start(struct engine *engine);
void broker_tick(struct engine *engine, uint64_t now_ms);
/* Takes the descriptor, if any. */
void broker_send(struct engine *engine, const struct launcher_message *message, int fd);
void broker_kill(struct engine *engine);
void broker_greet(struct engine *engine);  /* the answer to its HELLO */
void broker_listen(struct engine *engine); /* again, or not while it is to rest */
void broker_end(struct engine *engine);    /* it does not do what it should: its end comes */

/*
 * zygote*.c: warm interpreters, one for each (layer, tier), started when first asked for (the base
 * tier of the default template at the start), replaced when they die, recycled by count. Nothing
 * here waits: a zygote that is not ready is -EAGAIN, and will be soon.
 */
struct zygote;
void zygotes_start(struct engine *engine);
void zygotes_end(struct engine *engine);
void zygotes_leave(struct engine *engine); /* only they end: their kernels are ours then */
struct handover_kernel;
/* Kernels that are our own children; a negative errno of `each` ends it. */
int zygotes_hand_kernels(struct engine *engine,
                         int (*each)(void *ctx, const struct handover_kernel *kernel), void *ctx);
int zygotes_take_kernel(struct engine *engine, const struct handover_kernel *kernel);
/*
 * A kernel in a box: socket and pipes are made, the zygote is asked, FRAME_KERNEL goes to the
 * warden once the kernel has all its walls. 0: boxes_kernel_made() will be called, from the loop;
 * or a negative errno, and nothing was done (-EAGAIN: no zygote is ready yet).
 */
int zygotes_kernel(struct engine *engine, struct engine_box *box, uint32_t kernel, uint8_t tier);
void zygotes_each(struct engine *engine,
                  void (*each)(void *ctx, const struct launcher_state *state), void *ctx);
/* The pid of the one that can be asked for a kernel now; 0: there is none. Cheap. */
uint32_t zygotes_serving(struct engine *engine, const char *layer, uint8_t tier);
/* Those that `from` has are started for `to` too, the base tier at least. */
void zygotes_renew(struct engine *engine, const char *from, const char *to);
void zygotes_forget(struct engine *engine, const char *layer); /* they fork no more */
void zygotes_tick(struct engine *engine, uint64_t now_ms);
uint64_t zygotes_deadline(const struct engine *engine); /* 0: none */
/*
 * engine_box.c: told by zygote*.c; a box that is gone is passed over. `num` 0: FRAME_KERNEL is on
 * its way, so a CELL that is sent from now on finds the kernel; negative: there is none, start it
 * cold. The end of one that was given is told once, with the status that the system gave, also when
 * its zygote died before it.
 */
void boxes_kernel_made(struct engine *engine, uint32_t number, uint32_t kernel, int num);
void boxes_kernel_ended(struct engine *engine, const struct launcher_kernel_ended *ended);

/* pool.c: boxes made ahead; see pool.h. */
void pool_start(struct engine *engine);
/* One that fits, taken out of the pool and given the key; NULL: none. */
struct engine_box *pool_take(struct engine *engine, const struct launcher_make *make);
void pool_tick(struct engine *engine); /* when nothing else waits: makes one more, or lets one go */
void pool_wake(struct engine *engine); /* something changed: a zygote is ready, or was retired */
bool pool_is_due(const struct engine *engine, uint64_t now_ms);
void pool_release(struct engine *engine); /* a box has ended: this is the moment */
void pool_stands(struct engine *engine, struct engine_box *box);
/* Boxes of that layer are let go, those on their way too, unless somebody asks for one again. */
void pool_forget(struct engine *engine, const char *layer);
/* The same, and as many of another are made; of none (an empty name) only what stands anyhow. */
void pool_renew(struct engine *engine, const char *from, const char *to);
/* One of its boxes is gone, or could not be made; its memory is the caller's. */
void pool_lost(struct engine *engine, struct engine_box *box);
void pool_fill_state(struct engine *engine, struct launcher_state *state);
void pool_end(struct engine *engine);
void pool_drop(struct engine *engine); /* all that stand there; they end in the loop */

/* pool_folder.c: folders that a session's box is bound to before the session is known */
int pool_folder_make(struct engine *engine, const struct launcher_make *make, uint32_t *ret);
int pool_folder_give(struct engine *engine, const struct engine_box *box, const char *key);
void pool_folder_remove(struct engine *engine, const struct engine_box *box);
void pool_folder_sweep(struct engine *engine); /* of a daemon that was killed */

/* seal.c: an installer's folder becomes a layer, in a child that sees nothing else. */
void seal_start(struct engine *engine, const struct launcher_seal *seal);
void seal_discard(struct engine *engine, const struct launcher_seal *seal);
void seal_sweep(struct engine *engine); /* what installers of a daemon that was killed left */
/* In the child: keeps these two descriptors, and can touch nothing but what is in the folder. */
int seal_confine(int folder_fd, int answer_fd);
/*
 * What the child does: <layers>/<name> loses all that is no file, folder or link within itself,
 * belongs to `id` afterwards, is written down and gets the name of its contents. Fills `sealed`,
 * its error too. After a failure the folder is still there, in whatever state.
 */
int seal_folder(int layers_fd, const char *name, uid_t id, struct launcher_sealed *sealed);

/* furnish.c: what the broker asked a box to be furnished with */
struct furnishing { /* has to live as long as the specification */
    char data[PATH_MAX + 64], layer[PATH_MAX + 96], packages[PATH_MAX + 64], staging[PATH_MAX + 64];
};
/*
 * Must: come after the ids of `spec`. `key` names the folders of data and packages; the installer's
 * folder, if any, is made.
 */
int furnish_spec(struct engine *engine, const struct launcher_make *make, const char *key,
                 struct furnishing *room, struct launch_spec *spec, struct error *err);
void furnish_undo(struct engine *engine, const struct launcher_make *make); /* no box came of it */
#define STAGING_PREFIX ".build-"
void furnish_staging_name(const char *key, char *name, size_t size);

/* egress.c: the launcher's side of the proxy, which lives outside. */
int egress_open(struct engine *engine);
void egress_add(struct engine *engine, struct engine_box *box); /* its listening socket */
void egress_remove(struct engine *engine, uint32_t number);

/* engine_wall.c */
int wall_open(struct engine *engine);
void wall_offer(struct engine *engine); /* a channel between broker and wall, if there is a wall */

/* engine_trace.c */
void trace_moment(struct engine_box *box, enum box_moment moment); /* now; NULL is fine */
void trace_tell(const struct engine_box *box);                     /* at LOG_DEBUG; else nothing */

/* engine_make.c: boxes on their way; several at once, none waited for */
/* Takes the box. It is begun in a later turn, in order; what the broker asked for comes first. */
void makings_add(struct engine *engine, struct engine_box *box);
bool makings_can_begin(const struct engine *engine);
void makings_begin(struct engine *engine); /* the first of the queue */
void makings_tick(struct engine *engine, uint64_t now_ms);
uint64_t makings_deadline_ms(const struct engine *engine); /* 0: none */
bool makings_of_others(const struct engine *engine);       /* than the broker of now */
void makings_forget_queue(struct engine *engine);          /* the broker that asked is gone */
void makings_end_all(struct engine *engine);

/* installer.c: what only an installer box has */
int installer_pack(const struct serve_spec *spec, int *ret_fd, struct error *err); /* the stub */
int installer_open(struct engine *engine);
/* Adds to the files and binds of the specification; borrowed until the next call. */
void installer_furnish(struct engine *engine, struct launch_spec *spec);

/* engine_box.c */
struct engine_box *boxes_find(struct engine *engine, uint32_t number); /* NULL: there is none */
void boxes_make(struct engine *engine, const struct launcher_make *make);
struct engine_box *boxes_new(struct engine *engine, const struct launcher_make *make,
                             bool is_ahead);
void boxes_free(struct engine_box *box); /* one that never stood */
void boxes_stand(struct engine_box *box);
void boxes_failed(struct engine_box *box, const struct launched *launched, const struct error *err);
void boxes_kernel(struct engine *engine, const struct launcher_kernel *asked);
void boxes_end(struct engine *engine, uint32_t number);
void boxes_usage(struct engine *engine, uint32_t number);
void boxes_inventory(struct engine *engine);
void boxes_look(struct engine *engine);
void boxes_end_all(struct engine *engine);
bool boxes_has_key(const struct engine *engine, const char *key); /* of a box that is or will be */
uint32_t boxes_slot_limit(const struct engine *engine);
int boxes_keep(struct engine_box *box,
               struct error *err); /* it is found by its number, and watched */

/* engine_hand.c */
bool boxes_has_ahead(const struct engine *engine); /* there are boxes that nobody knows */
struct handover_box;
int boxes_hand(struct engine *engine, int (*each)(void *ctx, const struct handover_box *box),
               void *ctx);
int boxes_take(struct engine *engine, const struct handover_box *from);

/* engine_bury.c */
void graves_add(struct engine *engine, const struct cgroup *group);
bool graves_are_due(const struct engine *engine, uint64_t now_ms);
void graves_tick(struct engine *engine, uint64_t now_ms); /* one, or none yet */
void graves_end(struct engine *engine);                   /* all of them, waiting for each */

#endif
