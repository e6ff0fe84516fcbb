/*
 * protocol.h - what broker and launcher say to each other: fixed, small, binary.
 *
 * One SOCK_SEQPACKET pair. A message is one packet: type (1 byte), then the fields of its struct
 * packed by wire/pack.h, at most LAUNCHER_MESSAGE_MAX bytes, with at most one descriptor. The
 * launcher reads nothing from the broker but numbers, a key of [a-z0-9_] and, before it is ready,
 * a line of text for whoever waits for the start; both sides treat what
 * comes as hostile (the broker talks to clients, so it may have been taken over). Fuzzed. No I/O
 * here but launcher_send() and launcher_receive().
 *
 * Runs in: launcher
 */
#ifndef BAILEY_LAUNCHER_PROTOCOL_H
#define BAILEY_LAUNCHER_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"

#define LAUNCHER_VERSION 7
#define HOST_NAME_BYTES 32 /* of a provider's name, with its NUL */
#define LAUNCHER_MESSAGE_MAX 2048
#define TIER_NONE 255 /* no kernel */
#define TIERS_MAX 8
#define LAUNCHER_TENANT_MAX 64 /* [a-z0-9-]*, with its NUL */
#define LAUNCHER_TENANT_LOCAL "local"
#define KERNEL_FIRST 1        /* the id of a kernel that a box is made with */
#define HASH_TEXT_MAX 65      /* a SHA-256 in hexadecimal */
#define LAUNCHER_CONTROL_FD 3 /* the broker's end, by this number */

enum launcher_type {
    /* broker to launcher */
    LAUNCHER_HELLO = 1, /* version; answered by BOX for each box, then WELCOME */
    LAUNCHER_READY,     /* the broker serves: whoever waits for the start may be told */
    LAUNCHER_MAKE,      /* answered by MADE (with the channel) or REFUSED */
    LAUNCHER_END,       /* answered by ENDED; a number that is unknown is answered too */
    LAUNCHER_USAGE,     /* answered by USED */
    LAUNCHER_QUIT,      /* end everything and leave: the daemon is idle, or has said goodbye */
    LAUNCHER_KERNEL, /* one more kernel for a living box, from a zygote; answered by KERNEL_MADE */
    LAUNCHER_COMMIT_LAYER, /* <state>/layers/.build-<key> of a box that has ended; answered by
                              LAYER_COMMITTED */
    LAUNCHER_DISCARD,      /* the same is removed, or <state>/packages/<key>; not answered */
    LAUNCHER_LOOK,         /* answered by STATE: zygotes and pool */
    LAUNCHER_DEFAULT, /* the layer of the default template from now on: it is what is kept warm */
    LAUNCHER_FORGET,  /* nobody names that layer any more: nothing of it is kept warm */
    /* launcher to broker */
    LAUNCHER_BOX,     /* one that is there, with a duplicate of its channel */
    LAUNCHER_WELCOME, /* end of the inventory; generation: how often a broker was started */
    LAUNCHER_MADE,
    LAUNCHER_REFUSED,
    LAUNCHER_ENDED, /* also when a box went by itself */
    LAUNCHER_USED,
    LAUNCHER_STOPPING, /* SIGTERM: say goodbye, then QUIT; grace_ms */
    LAUNCHER_KERNEL_MADE,
    LAUNCHER_KERNEL_ENDED, /* of a kernel that came from a zygote: what nobody inside can forge */
    LAUNCHER_LAYER_COMMITTED,
    LAUNCHER_STATE,         /* one for each zygote, then one with tier STATE_END */
    LAUNCHER_VERDICT,       /* what the egress proxy decided for a box */
    LAUNCHER_FAILED,        /* broker to launcher, HELLO or not: it cannot start, and why */
    LAUNCHER_SETTINGS,      /* broker to launcher: a sealed memfd, what the next broker is told */
    LAUNCHER_PROVIDER_HOST, /* launcher to broker: a channel to a provider host, in place of any
                               before of that name */
    _LAUNCHER_TYPE_MAX,
};

struct launcher_make {
    uint32_t serial;  /* the broker's; comes back in the answer */
    char key[ID_MAX]; /* [a-z0-9_]+: names the data folder and comes back in the inventory */
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis;
    uint8_t minimum;           /* enum isolation */
    bool has_data;             /* <state>/data/<key> is bound read-only at /tmp/data */
    bool has_packages;         /* <state>/packages/<key> likewise at /bailey/packages */
    char layer[HASH_TEXT_MAX]; /* of the template, 64 of [0-9a-f]; empty: the host's own Python */
    uint8_t tier;              /* the zygote's; TIER_NONE: no kernel is wanted */
    uint32_t kernel;           /* the id that it gets in the box; 0 with TIER_NONE */
    uint8_t staging;           /* enum launch_staging: an installer box */
    char tenant[LAUNCHER_TENANT_MAX]; /* whose zygote it shares; empty: the local tenant's */
};

/* BOX and MADE */
struct launcher_box {
    uint32_t serial; /* of the MAKE; 0 in an inventory */
    uint32_t number; /* names the box from now on; never used again */
    char key[ID_MAX];
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis;
    uint32_t layers, missing;
    uint8_t memory_by, pids_by, cpu_by, disk_by; /* enum launch_holder of boxes/boxes.h */
    uint8_t group;                               /* enum cgroup_flavour, for HELD_BY_GROUP */
    uint64_t made_ns;                            /* monotonic */
    char layer[HASH_TEXT_MAX];
    uint8_t tier;    /* TIER_NONE: it was made without a kernel (none asked for, or none warm) */
    uint32_t kernel; /* 0: there is none; never in an inventory: the warden knows what lives */
    bool is_pooled;  /* it was prewarmed */
    bool warden_owns_kernel; /* the warden started `kernel`, and tells itself how it ended */
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
    int32_t status; /* as wait(2) says */
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
    struct error error;        /* num 0: it is <state>/layers/<layer> now */
    char layer[HASH_TEXT_MAX]; /* the hash of its manifest */
    uint64_t bytes, files;
    bool was_there; /* the same layer existed already: this one was thrown away */
};

#define STATE_END 255 /* in `tier`: the last one, with totals */
struct launcher_state {
    char layer[HASH_TEXT_MAX];
    uint8_t tier;
    bool is_ready;
    uint32_t pid, forks, pooled, pool_size;
    uint64_t memory_bytes; /* private to the zygote; of STATE_END: of all idle pool boxes */
    uint64_t started_ns, ready_ns;
};

struct launcher_verdict {
    uint32_t number; /* the box */
    bool is_allowed;
    char host[256]; /* printable ASCII */
    uint16_t port;
    char reason[64]; /* a word of egress/ */
};

struct launcher_refused {
    uint32_t serial;
    struct error error; /* num, code, stage and text, as launch_make() gave it */
    uint32_t layers, missing;
};

/* Why a box ended that nobody had asked to, as far as its provider knows. */
enum launcher_why {
    WHY_UNKNOWN,
    WHY_PROVIDER_GONE, /* what makes its boxes died, or hung up */
    WHY_NONSENSE,      /* what came from it were no frames */
    _WHY_MAX,
};

/* How much of what a box used its provider has seen. */
enum launcher_counted {
    COUNTED_NOTHING, /* nobody outside of it can tell: the numbers are none */
    COUNTED_SOME,    /* the provider's statistics of some moment */
    COUNTED_ALL,     /* the kernel's numbers */
    _COUNTED_MAX,
};

/* ENDED and USED */
struct launcher_usage {
    uint32_t number;
    uint64_t cpu_us;
    uint64_t memory_bytes; /* USED: now; ENDED: the peak */
    uint64_t oom_kills;
    bool was_asked;  /* ENDED: by END */
    uint8_t why;     /* ENDED: enum launcher_why */
    uint8_t counted; /* enum launcher_counted: of cpu_us and memory_bytes */
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
        struct error failed;
        char layer[HASH_TEXT_MAX];  /* DEFAULT: empty, none; FORGET */
        char host[HOST_NAME_BYTES]; /* PROVIDER_HOST: its provider's name, [a-z0-9_]+; or empty */
    };
};

/* Bytes written, or -EMSGSIZE. */
long launcher_message_pack(const struct launcher_message *message, uint8_t *data, size_t size);
/*
 * 0 or -EPROTO. Strings are terminated, keys are checked, enums are in range. Limits are numbers as
 * they came: whoever makes a box of them looks at them.
 */
int launcher_message_unpack(const uint8_t *data, size_t length, struct launcher_message *ret);

/* BOX, MADE, SETTINGS and PROVIDER_HOST come with a descriptor, all others without. */
bool launcher_has_fd(enum launcher_type type);

/* One message with an optional descriptor (-1: none). 1: done, 0: it would block, or negative. */
int launcher_send(int fd, const struct launcher_message *message, int with_fd);
/*
 * The same the other way; *ret_fd is owned by the caller, -1: none. -EPIPE: the peer is gone;
 * -EPROTO: nonsense, a descriptor where none belongs or none where one does (nothing is kept).
 */
int launcher_receive(int fd, struct launcher_message *ret, int *ret_fd);

#endif
