/*
 * protocol.h - the messages between broker and launcher: fixed, small, binary.
 *
 * One SOCK_SEQPACKET pair. A message is one packet: type (1 byte), then the fields of its struct
 * packed by wire/pack.h, at most LAUNCHER_MESSAGE_MAX bytes, with at most one descriptor. The
 * launcher reads from the broker only numbers, a key of [a-z0-9_], paths of interpreters and,
 * before it is ready, a line of text for the user who waits for the start; both sides treat
 * messages as hostile (the broker talks to clients, so it may have been taken over). Fuzzed. No I/O
 * here except launcher_send() and launcher_receive().
 *
 * Runs in: launcher, broker, hosts
 */
#ifndef BAILEY_LAUNCHER_PROTOCOL_H
#define BAILEY_LAUNCHER_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"

#define LAUNCHER_VERSION 8
#define HOST_NAME_BYTES 32 /* size of a provider's name, with its NUL */
#define LAUNCHER_MESSAGE_MAX 2048
#define TIER_NONE 255 /* no kernel */
#define TIERS_MAX 8
#define LAUNCHER_TENANT_MAX 64 /* [a-z0-9-]*, with its NUL */
#define LAUNCHER_TENANT_LOCAL "local"
#define LAUNCHER_PROGRAM_MAX 512 /* of an interpreter's path, with its NUL */
#define KERNEL_FIRST 1           /* the id of the kernel that a box is made with */
#define HASH_TEXT_MAX 65         /* a SHA-256 in hexadecimal */
#define LAUNCHER_CONTROL_FD 3    /* descriptor number of the broker's end */

enum launcher_type {
    /* broker to launcher */
    LAUNCHER_HELLO = 1, /* version; answered by BOX for each box, then WELCOME */
    LAUNCHER_READY,     /* the broker serves: the start is reported to the user */
    LAUNCHER_MAKE,      /* answered by MADE (with the channel) or REFUSED */
    LAUNCHER_END,       /* answered by ENDED, also for an unknown number */
    LAUNCHER_USAGE,     /* answered by USED */
    LAUNCHER_QUIT,   /* end everything and exit: the daemon is idle, or has stopped its sessions */
    LAUNCHER_KERNEL, /* one more kernel for a live box, from a zygote; answered by KERNEL_MADE */
    LAUNCHER_COMMIT_LAYER, /* <state>/layers/.build-<key> of a box that has ended; answered by
                              LAYER_COMMITTED */
    LAUNCHER_DISCARD,      /* removes that folder, or <state>/packages/<key>; not answered */
    LAUNCHER_LOOK,         /* answered by STATE: zygotes and pool */
    LAUNCHER_DEFAULT,      /* sets the layer of the default template, which is kept warm */
    LAUNCHER_FORGET, /* no template or session uses that layer any more: nothing of it is kept warm
                      */
    /* launcher to broker */
    LAUNCHER_BOX,     /* an existing box, with a duplicate of its channel */
    LAUNCHER_WELCOME, /* end of the inventory; generation: how often a broker was started */
    LAUNCHER_MADE,
    LAUNCHER_REFUSED,
    LAUNCHER_ENDED, /* also if a box ended by itself */
    LAUNCHER_USED,
    LAUNCHER_STOPPING, /* SIGTERM: end the sessions, then QUIT; grace_ms */
    LAUNCHER_KERNEL_MADE,
    LAUNCHER_KERNEL_ENDED, /* of a kernel from a zygote: its status, which the guest cannot forge */
    LAUNCHER_LAYER_COMMITTED,
    LAUNCHER_STATE,   /* one for each zygote, then one with tier STATE_END */
    LAUNCHER_VERDICT, /* a decision of the egress proxy for a box */
    LAUNCHER_FAILED,  /* broker to launcher, before or after HELLO: it cannot start, with the reason
                       */
    LAUNCHER_SETTINGS, /* broker to launcher: a sealed memfd, the settings of the next broker */
    LAUNCHER_PROVIDER_HOST, /* launcher to broker: a channel to a provider host, replacing an
                               earlier one of that name */
    LAUNCHER_SPENT, /* launcher to broker: CPU time that a tenant's zygotes used in no box */
    _LAUNCHER_TYPE_MAX,
};

struct launcher_make {
    uint32_t serial;  /* chosen by the broker; repeated in the answer */
    char key[ID_MAX]; /* [a-z0-9_]+: names the data folder and is repeated in the inventory */
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis;
    uint8_t minimum;           /* enum isolation */
    bool has_data;             /* <state>/data/<key> is bound read-only at /tmp/data */
    bool has_packages;         /* the same for <state>/packages/<key> at /bailey/packages */
    char layer[HASH_TEXT_MAX]; /* layer of the template, 64 of [0-9a-f]; empty: the host's own
                                  Python */
    uint8_t tier;              /* tier of the zygote; TIER_NONE: no kernel is wanted */
    uint32_t kernel;           /* the kernel's id in the box; 0 with TIER_NONE */
    uint8_t staging;           /* enum launch_staging: an installer box */
    char tenant[LAUNCHER_TENANT_MAX]; /* the tenant whose zygote it shares; empty: the local
                                         tenant's */
    /* Interpreters that the box has besides the plan's (interpreters.c); empty: none. */
    char python[LAUNCHER_PROGRAM_MAX], node[LAUNCHER_PROGRAM_MAX];
};

/* BOX and MADE */
struct launcher_box {
    uint32_t serial; /* serial of the MAKE; 0 in an inventory */
    uint32_t number; /* names the box from now on; never used again */
    char key[ID_MAX];
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis;
    uint32_t layers, missing;
    uint8_t memory_by, pids_by, cpu_by, disk_by; /* enum launch_holder of boxes/boxes.h */
    uint8_t group;                               /* enum cgroup_flavour, for HELD_BY_GROUP */
    uint64_t made_ns;                            /* monotonic */
    char layer[HASH_TEXT_MAX];
    uint8_t tier;    /* TIER_NONE: it was made without a kernel (not requested, or none warm) */
    uint32_t kernel; /* 0: none; never in an inventory: the warden lists its kernels */
    bool is_pooled;  /* it was prewarmed */
    bool warden_owns_kernel; /* the warden started `kernel`, and reports its end itself */
};

/* KERNEL: `tier` of the box's own layer */
struct launcher_kernel {
    uint32_t number, kernel;
    uint8_t tier;
};

/* KERNEL_MADE: num 0, or a negative errno (-EAGAIN: no zygote is warm yet, start it cold) */
struct launcher_kernel_made {
    uint32_t number, kernel;
    int32_t num;
};

struct launcher_kernel_ended {
    uint32_t number, kernel;
    int32_t status; /* as from wait(2) */
    uint64_t cpu_us, max_rss_bytes;
};

/* COMMIT_LAYER and DISCARD; the key is the box's */
struct launcher_commit_layer {
    uint32_t serial;
    char key[ID_MAX];
    bool is_packages; /* DISCARD: packages/<key>, not the layer being built */
};

struct launcher_layer_committed {
    uint32_t serial;
    struct error error;        /* num 0: <state>/layers/<layer> exists */
    char layer[HASH_TEXT_MAX]; /* the hash of its manifest */
    uint64_t bytes, files;
    bool was_there; /* the same layer existed already: this one was discarded */
};

#define STATE_END 255 /* in `tier`: the last message, with totals */
struct launcher_state {
    char layer[HASH_TEXT_MAX];
    uint8_t tier;
    bool is_ready;
    uint32_t pid, forks, pooled, pool_size;
    uint64_t memory_bytes; /* private to the zygote; for STATE_END: of all idle pool boxes */
    uint64_t started_ns, ready_ns;
};

struct launcher_verdict {
    uint32_t number; /* the box */
    bool is_allowed;
    char host[256]; /* printable ASCII */
    uint16_t port;
    char reason[64]; /* a reason word of egress/ */
};

/* Since the last message about the same zygote. */
struct launcher_spent {
    char tenant[LAUNCHER_TENANT_MAX];
    uint64_t cpu_us;
};

struct launcher_refused {
    uint32_t serial;
    struct error error; /* num, code, stage and text from launch_make() */
    uint32_t layers, missing;
};

/* Why a box ended by itself, as far as its provider knows. */
enum launcher_why {
    WHY_UNKNOWN,
    WHY_PROVIDER_GONE, /* the provider died, or closed the connection */
    WHY_NONSENSE,      /* the box sent invalid frames */
    _WHY_MAX,
};

/* How much of a box's usage its provider has measured. */
enum launcher_counted {
    COUNTED_NOTHING, /* not measurable from outside: the numbers are empty */
    COUNTED_SOME,    /* the provider's statistics at some point in time */
    COUNTED_ALL,     /* the kernel's counters */
    _COUNTED_MAX,
};

/* ENDED and USED */
struct launcher_usage {
    uint32_t number;
    uint64_t cpu_us;
    uint64_t memory_bytes; /* USED: current; ENDED: the peak */
    uint64_t oom_kills;
    bool was_asked;  /* ENDED: as the answer to END */
    uint8_t why;     /* ENDED: enum launcher_why */
    uint8_t counted; /* enum launcher_counted: source of cpu_us and memory_bytes */
};

struct launcher_message {
    enum launcher_type type;
    union {
        uint32_t number; /* HELLO: version; END, USAGE: box; WELCOME: generation; STOPPING: ms */
        struct launcher_make make;
        struct launcher_box box;
        struct launcher_refused refused;
        struct launcher_usage usage;
        struct launcher_kernel kernel;
        struct launcher_kernel_made kernel_made;
        struct launcher_kernel_ended kernel_ended;
        struct launcher_commit_layer commit_layer;
        struct launcher_layer_committed layer_committed;
        struct launcher_state state;
        struct launcher_verdict verdict;
        struct launcher_spent spent;
        struct error failed;
        char layer[HASH_TEXT_MAX];  /* DEFAULT (empty: none), FORGET */
        char host[HOST_NAME_BYTES]; /* PROVIDER_HOST: its provider's name, [a-z0-9_]+; or empty */
    };
};

/* Bytes written, or -EMSGSIZE. */
long launcher_message_pack(const struct launcher_message *message, uint8_t *data, size_t size);
/*
 * 0 or -EPROTO. Strings are terminated, keys are checked, enums are in range. Limits are not
 * checked here: the code that makes a box checks them.
 */
int launcher_message_unpack(const uint8_t *data, size_t length, struct launcher_message *ret);

/* BOX, MADE, SETTINGS and PROVIDER_HOST have a descriptor, all others have none. */
bool launcher_has_fd(enum launcher_type type);

/*
 * Sends one message with an optional descriptor (-1: none). 1: sent, 0: it would block, or
 * negative.
 */
int launcher_send(int fd, const struct launcher_message *message, int with_fd);
/*
 * Receives one message; *ret_fd is owned by the caller, -1: none. -EPIPE: the peer is gone;
 * -EPROTO: an invalid message, an unexpected or a missing descriptor (nothing is kept).
 */
int launcher_receive(int fd, struct launcher_message *ret, int *ret_fd);

#endif
