/*
 * protocol.h - what broker and launcher say to each other: fixed, small, binary.
 *
 * One SOCK_SEQPACKET pair. A message is one packet: type (1 byte), then the fields of its struct
 * packed by wire/pack.h, at most LAUNCHER_MESSAGE_MAX bytes, with at most one descriptor. The
 * launcher reads nothing from the broker but numbers and a key of [a-z0-9_]; both sides treat what
 * comes as hostile (the broker talks to clients, so it may have been taken over). Fuzzed. No I/O
 * here but launcher_send() and launcher_receive().
 */
#ifndef BAILEY_LAUNCHER_PROTOCOL_H
#define BAILEY_LAUNCHER_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"

#define LAUNCHER_VERSION 1
#define LAUNCHER_MESSAGE_MAX 2048
#define LAUNCHER_CONTROL_FD 3 /* the broker's end, by this number */

enum launcher_type {
    /* broker to launcher */
    LAUNCHER_HELLO = 1, /* version; answered by BOX for each box, then WELCOME */
    LAUNCHER_READY,     /* the broker serves: whoever waits for the start may be told */
    LAUNCHER_MAKE,      /* answered by MADE (with the channel) or REFUSED */
    LAUNCHER_END,       /* answered by ENDED; a number that is unknown is answered too */
    LAUNCHER_USAGE,     /* answered by USED */
    LAUNCHER_QUIT,      /* end everything and leave: the daemon is idle, or has said goodbye */
    /* launcher to broker */
    LAUNCHER_BOX,     /* one that is there, with a duplicate of its channel */
    LAUNCHER_WELCOME, /* end of the inventory; generation: how often a broker was started */
    LAUNCHER_MADE,
    LAUNCHER_REFUSED,
    LAUNCHER_ENDED, /* also when a box went by itself */
    LAUNCHER_USED,
    LAUNCHER_STOPPING, /* SIGTERM: say goodbye, then QUIT; grace_ms */
    _LAUNCHER_TYPE_MAX,
};

struct launcher_make {
    uint32_t serial;  /* the broker's; comes back in the answer */
    char key[ID_MAX]; /* [a-z0-9_]+: names the data folder and comes back in the inventory */
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis;
    uint8_t minimum; /* enum isolation */
    bool has_data;   /* <state>/data/<key> is bound read-only at /tmp/data */
};

/* BOX and MADE */
struct launcher_box {
    uint32_t serial; /* of the MAKE; 0 in an inventory */
    uint32_t number; /* names the box from now on; never used again */
    char key[ID_MAX];
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis;
    uint32_t layers, missing;
    uint8_t memory_by, pids_by, cpu_by, disk_by; /* enum launch_holder of launcher.h */
    uint8_t group;                               /* enum cgroup_flavour, for HELD_BY_GROUP */
    uint64_t made_ns;                            /* monotonic */
};

struct launcher_refused {
    uint32_t serial;
    struct error error; /* num, code, stage and text, as launcher_make() gave it */
    uint32_t layers, missing;
};

/* ENDED and USED */
struct launcher_usage {
    uint32_t number;
    uint64_t cpu_us;
    uint64_t memory_bytes; /* USED: now; ENDED: the peak */
    uint64_t oom_kills;
    bool was_asked; /* ENDED: by END */
};

struct launcher_message {
    enum launcher_type type;
    union {
        uint32_t number; /* HELLO: version; END, USAGE: box; WELCOME: generation; STOPPING: ms */
        struct launcher_make make;
        struct launcher_box box;
        struct launcher_refused refused;
        struct launcher_usage usage;
    };
};

/* Bytes written, or -EMSGSIZE. */
long launcher_message_pack(const struct launcher_message *message, uint8_t *data, size_t size);
/*
 * 0 or -EPROTO. Strings are terminated, keys are checked, enums are in range. Limits are numbers as
 * they came: whoever makes a box of them looks at them.
 */
int launcher_message_unpack(const uint8_t *data, size_t length, struct launcher_message *ret);

/* BOX and MADE come with a descriptor, all others without. */
bool launcher_has_fd(enum launcher_type type);

/* One message with an optional descriptor (-1: none). 1: done, 0: it would block, or negative. */
int launcher_send(int fd, const struct launcher_message *message, int with_fd);
/*
 * The same the other way; *ret_fd is owned by the caller, -1: none. -EPIPE: the peer is gone;
 * -EPROTO: nonsense, a descriptor where none belongs or none where one does (nothing is kept).
 */
int launcher_receive(int fd, struct launcher_message *ret, int *ret_fd);

#endif
