/*
 * isolation.h - the fixed table of layers that may hold a box, and the levels they add up to.
 *
 * `sandbox/` sets the bits, `model/` prints the names, `cli/doctor` explains them. The order of the
 * table is the order in meta.isolation.layers.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_ISOLATION_H
#define BAILEY_BASE_ISOLATION_H

#include <stdbool.h>
#include <stdint.h>

enum isolation_layer {
    ISOLATION_LAYER_USERNS,
    ISOLATION_LAYER_MOUNTNS,
    ISOLATION_LAYER_PIDNS,
    ISOLATION_LAYER_NETNS,
    ISOLATION_LAYER_IPCNS,
    ISOLATION_LAYER_UTSNS,
    ISOLATION_LAYER_CGROUPNS,
    ISOLATION_LAYER_SECCOMP,
    ISOLATION_LAYER_LANDLOCK,
    ISOLATION_LAYER_CGROUP,
    ISOLATION_LAYER_NO_NEW_PRIVS,
    ISOLATION_LAYER_CAPS,
    ISOLATION_LAYER_UID_SPLIT,
    ISOLATION_LAYER_PROC, /* a fresh /proc; without it the box has none (which does not weaken it)
                           */
    ISOLATION_LAYER_OVERLAY, /* the host's files through an overlay: inodes of the box's own */
    _ISOLATION_LAYER_MAX,
};

#define ISOLATION_LAYER_BIT(layer_) (UINT32_C(1) << (layer_))
#define ISOLATION_LAYER_ALL (ISOLATION_LAYER_BIT(_ISOLATION_LAYER_MAX) - 1)

struct isolation_layer_row {
    const char *name;   /* as in meta.isolation.layers */
    bool strict;        /* has to hold for the level "strict" */
    const char *what;   /* one sentence for doctor and docs */
    const char *remedy; /* what gives it when it is missing */
};
extern const struct isolation_layer_row isolation_layer_table[_ISOLATION_LAYER_MAX];

/* How much holds. Ordered: a higher value holds more. */
enum isolation {
    ISOLATION_PROCESS,  /* a subprocess */
    ISOLATION_STANDARD, /* own namespaces or Landlock, with seccomp */
    ISOLATION_STRICT,   /* every layer marked strict */
    _ISOLATION_MAX,
    _ISOLATION_INVALID = -1,
};

const char *isolation_name(enum isolation level);     /* "process", "standard", "strict" */
enum isolation isolation_from_name(const char *name); /* _ISOLATION_INVALID when unknown */
enum isolation isolation_of_layers(uint32_t layers);  /* the level these layers add up to */

/* The layers that keep `layers` from reaching `wanted`; 0 when it does. */
uint32_t isolation_lacking(uint32_t layers, enum isolation wanted);

/* "landlock, cgroup" for a mask; always terminated, cut when it does not fit. */
void isolation_layer_list(uint32_t mask, char *text, unsigned long size);

#endif
