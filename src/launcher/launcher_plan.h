/*
 * launcher_plan.h - what the supervisor passes to the launcher: the plan, descriptors by number,
 * and the messages between the two. For supervisor/ and launcher/ only.
 *
 * The launcher executes itself inside its namespaces. All its information comes from the plan (a
 * sealed memfd, written and read by the same program) and from descriptors by number. Its
 * environment is the broker's.
 *
 * Runs in: launcher, supervisor
 */
#ifndef BAILEY_LAUNCHER_LAUNCHER_PLAN_H
#define BAILEY_LAUNCHER_LAUNCHER_PLAN_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "launcher/launcher.h"
#include "launcher/protocol.h"
#include "sys/cgroup.h"

#define LAUNCHER_BINDS_MAX 16
#define LAUNCHER_DATASETS_MAX 64
#define LAUNCHER_WHEELS_MAX 8
#define LAUNCHER_INTERPRETERS_MAX 8
#define LAUNCHER_INTERPRETER_BINDS 4
#define INSTALLER_FILES_MAX 4
#define INSTALLER_BYTES_MAX (8 * MIB)
#define LAUNCH_FILES_MAX 32
#define LAUNCHER_FOLDER_COUNT 8

/* Indexes of some of STATE_FOLDERS. */
enum state_folder { FOLDER_LAYERS = 5, FOLDER_PACKAGES = 7 };

/* Descriptors of the launcher, by number; those of BROKER_DATASET_FD and BROKER_TCP_FD too. */
#define LAUNCHER_PLAN_FD 3
#define LAUNCHER_SUPERVISOR_FD 4 /* a SOCK_SEQPACKET pair: LAUNCHER_SAYS_* */
#define LAUNCHER_PROGRAM_FD 5
#define LAUNCHER_LISTEN_FD 6
#define LAUNCHER_SETTINGS_FD 7
/* /proc of the host: "self" in it is the pid that the user sees */
#define LAUNCHER_OUTER_PROC_FD 8

#define LAUNCHER_EGRESS_FD 9 /* to the egress proxy, or to the process that waits to become it */
#define LAUNCHER_INSTALLER_FD 10 /* a sealed memfd: installer.c */
#define LAUNCHER_SELF_FD 11      /* the sealed copy of `bailey` that runs here */
#define LAUNCHER_HANDOVER_FD 12  /* handover.h; /dev/null after a normal start */
/* + index: the rendezvous socket of a provider host; or /dev/null */
#define LAUNCHER_PROVIDER_HOST_FD 13
#define LAUNCHER_LAST_FD (LAUNCHER_PROVIDER_HOST_FD + LAUNCHER_HOSTS_MAX - 1)

/* First byte of a message between supervisor and launcher; both trust each other. */
#define LAUNCHER_SAYS_GO 'g'       /* supervisor: the id maps are written */
#define LAUNCHER_SAYS_STOP 's'     /* supervisor: SIGTERM, SIGINT or SIGHUP arrived */
#define LAUNCHER_SAYS_PING 'p'     /* supervisor, and the launcher's answer: its loop works */
#define LAUNCHER_SAYS_UPGRADE 'u'  /* supervisor: with two sealed programs */
#define LAUNCHER_SAYS_READY 'r'    /* launcher: the broker serves */
#define LAUNCHER_SAYS_FAILED 'f'   /* launcher: it could not be started, with the reason as text */
#define LAUNCHER_SAYS_REFUSED 'n'  /* launcher: the same, because the kernel refuses it */
#define LAUNCHER_SAYS_UPGRADED 'U' /* launcher: with the version that runs now */
#define LAUNCHER_SAYS_KEPT 'k'     /* launcher: no upgrade or takeover, with the reason */
#define LAUNCHER_SAYS_TAKEOVER 't' /* supervisor: with the descriptors of takeover_fd */
#define LAUNCHER_SAYS_TAKEN 'T'    /* launcher: the broker serves with them */

/* What comes with a takeover; sealed, but for the log. TCP sockets that listen follow. */
enum takeover_fd {
    TAKEOVER_PLAN,     /* struct launcher_plan, as a new launcher would get it */
    TAKEOVER_SETTINGS, /* as LAUNCHER_SETTINGS_FD */
    TAKEOVER_ENV,      /* the broker's environment, each variable with its NUL */
    TAKEOVER_STDERR,
    _TAKEOVER_FIXED,
};
#define TAKEOVER_VERSION "BAILEY_TAKEOVER_VERSION" /* in that environment: who asks */

/*
 * Ids inside: the launcher is 0, the broker this one or also 0, boxes have pairs (boxes/launch.h).
 */
#define LAUNCHER_BROKER_ID 1
#define LAUNCHER_EGRESS_ID 2   /* of the egress proxy, which runs outside */
#define LAUNCHER_UPSTREAM_ID 3 /* of the process that speaks to the model server, outside too */
/* Of the guest where the container is the only box; of runs beside it the next even ones, below
 * PAIR_FIRST (runtime/container). */
#define LAUNCHER_GUEST_ID 4

/* Also read by a later program that takes over: fields are only added at its end. */
struct launcher_plan {
    char magic[16];
    uint32_t broker_id;
    uint32_t launcher_pid; /* as seen on the host */
    uint32_t pair_count;   /* 0: there is one id only, and boxes share it */
    bool clears_groups;    /* setgroups(2) is allowed */
    struct cgroup_site site;
    char state[PATH_MAX];  /* path of the state folder for the launcher */
    char root[PATH_MAX];   /* empty: the host's /usr */
    char python[PATH_MAX]; /* the default interpreter, as a path in a box; empty: none */
    uint32_t pool_size, pool_memory_mib; /* SANDBOX_POOL_SIZE and _MEMORY; size 0: no pool */
    bool has_zygotes;                    /* SANDBOX_WARM */
    uint32_t log_level;                  /* BAILEY_LOG */
    uint32_t log_is_json;                /* BAILEY_LOG_FORMAT */
    char layer[HASH_TEXT_MAX];           /* of the default template */
    struct {
        char host[PATH_MAX], box[PATH_MAX];
    } binds[LAUNCHER_BINDS_MAX];
    uint32_t bind_count, dataset_count, tcp_count;
    struct {
        char host[PATH_MAX], box[64];
    } wheels[LAUNCHER_WHEELS_MAX]; /* shown in installer boxes only */
    uint32_t wheel_count;
    bool has_egress;
    uint32_t stop_grace_ms;
    /* The limits of a box in the configuration, maximum and minimum; 0: not set. */
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis;
    uint32_t minimum;
    bool has_provider_host; /* LAUNCHER_PROVIDER_HOST_FD, in a plan without the next two */
    uint32_t host_count;    /* LAUNCHER_PROVIDER_HOST_FD + index */
    char host_names[LAUNCHER_HOSTS_MAX][HOST_NAME_BYTES];
    bool has_no_ceiling; /* those limits are what is prewarmed, and no maximum */
    /* Interpreters that a box may have besides the default ones: SANDBOX_INTERPRETERS. */
    struct launcher_interpreter {
        char program[PATH_MAX]; /* in a box */
        struct {
            char host[PATH_MAX], box[PATH_MAX];
        } binds[LAUNCHER_INTERPRETER_BINDS];
        uint32_t bind_count;
    } interpreters[LAUNCHER_INTERPRETERS_MAX];
    uint32_t interpreter_count;
    bool takes_listed_only; /* no others, whatever the broker asks for */
    /* The launcher has no namespaces and makes no boxes: provider hosts make them all. */
    bool has_no_namespaces;
    uint32_t own_id; /* has_no_namespaces: its id, and the broker's, as soon as its folders are
                        open; 0: the caller's */
};
#define LAUNCHER_PLAN_MAGIC "bailey engine 1"

extern const char *const state_folders[LAUNCHER_FOLDER_COUNT]; /* STATE_FOLDERS */

/* The two programs of an upgrade, in the order they are sent. */
enum { UPGRADE_SELF, UPGRADE_ENGINE, _UPGRADE_PROGRAM_MAX };

/* Prefix of a folder below layers/ while an installer fills it. */
#define STAGING_PREFIX ".build-"

/* Pip's settings of the host, as installer.c reads them. The texts follow, one after the other. */
struct installer_head {
    uint32_t count;
    struct {
        char path[64];
        uint32_t length;
    } files[INSTALLER_FILES_MAX];
};

#endif
