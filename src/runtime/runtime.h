/*
 * runtime.h - how a command that waits makes one box: a column of a provider's row (provider.h).
 *
 * What happens inside of a box goes over box.h, the same for all providers. One thread; create may
 * block for the bring-up of a box and no longer. The broker, which does not wait, has
 * provider_ops.h.
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

/* What the provider knows about a box that nobody inside can forge. */
struct box_facts {
    uint32_t layers, missing;
    enum limit_by memory_by, pids_by, cpu_by, disk_by;
    uint64_t oom_kills;
    struct usage usage; /* whole after destroy; so far before */
    uint8_t why;        /* it ended by itself: enum launcher_why of launcher/protocol.h */
};

struct runtime_ops {
    /*
     * *ret is owned by the caller and goes back through destroy. `facts` says what is known of the
     * layers, also when the box was refused: a refusal tells what would have held.
     */
    int (*create)(const struct provider_row *row, const struct box_spec *spec, struct box **ret,
                  struct box_facts *facts, struct error *err);

    /* Ends everything in the box, waits until it is gone, frees it. NULL is fine. Fills `facts`. */
    void (*destroy)(struct box *box, struct box_facts *facts);
};

#endif
