/*
 * runtime.h - how a blocking command makes one box: a column of a provider's row (provider.h).
 *
 * What happens inside a box goes through box.h, the same for all providers. One thread; create
 * blocks only for the bring-up of a box. The broker, which must not block, uses provider_ops.h.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_RUNTIME_H
#define BAILEY_RUNTIME_RUNTIME_H

#include <stdint.h>

#include "base/error.h"
#include "model/result.h"
#include "model/spec.h"

struct box;
struct provider_row;

/* Facts about a box that the guest cannot forge. */
struct box_facts {
    uint32_t layers, missing;
    enum limit_by memory_by, pids_by, cpu_by, disk_by;
    uint64_t oom_kills;
    struct usage usage; /* complete after destroy; so far before */
    uint8_t why;        /* if it ended by itself: enum launcher_why of launcher/protocol.h */
};

struct runtime_ops {
    /* *ret is owned by the caller and returned through destroy. `facts` says what is known of
     * the isolation layers, also if the box was refused: then which would have been active. */
    int (*create)(const struct provider_row *row, const struct box_spec *spec, struct box **ret,
                  struct box_facts *facts, struct error *err);

    /* Ends everything in the box, waits until it is removed, frees it. NULL is fine. Fills
     * `facts`. */
    void (*destroy)(struct box *box, struct box_facts *facts);
};

#endif
