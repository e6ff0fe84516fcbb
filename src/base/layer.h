/*
 * layer.h - the fixed table of layers that may hold a box, and the levels they add up to.
 *
 * `sandbox/` sets the bits, `model/` prints the names, `cli/doctor` explains them. The order of the
 * table is the order in meta.isolation.layers.
 */
#ifndef BAILEY_BASE_LAYER_H
#define BAILEY_BASE_LAYER_H

#include <stdbool.h>
#include <stdint.h>

enum layer {
    LAYER_USERNS,
    LAYER_MOUNTNS,
    LAYER_PIDNS,
    LAYER_NETNS,
    LAYER_IPCNS,
    LAYER_UTSNS,
    LAYER_CGROUPNS,
    LAYER_SECCOMP,
    LAYER_LANDLOCK,
    LAYER_CGROUP,
    LAYER_NO_NEW_PRIVS,
    LAYER_CAPS,
    LAYER_UID_SPLIT,
    LAYER_PROC, /* a fresh /proc of its own; without it the box has none (not weaker, only poorer)
                 */
    _LAYER_MAX,
};

#define LAYER_BIT(layer_) (UINT32_C(1) << (layer_))
#define LAYER_ALL (LAYER_BIT(_LAYER_MAX) - 1)

struct layer_row {
    const char *name;   /* as in meta.isolation.layers */
    bool strict;        /* has to hold for the level "strict" */
    const char *what;   /* one sentence for doctor and docs */
    const char *remedy; /* what gives it when it is missing */
};
extern const struct layer_row layer_table[_LAYER_MAX];

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
void layer_list(uint32_t mask, char *text, unsigned long size);

#endif
