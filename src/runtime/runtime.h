/*
 * runtime.h - how a box is made, one small vtable per provider.
 *
 * A runtime makes boxes and ends them; what happens inside goes over box.h, the same for all. One
 * thread; create may block for the bring-up of a box and no longer.
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
struct runtime;

/* What the runtime knows about a box that nobody inside can forge. */
struct box_facts {
    uint32_t layers, missing;
    enum limit_by memory_by, pids_by, cpu_by, disk_by;
    uint64_t oom_kills;
    struct usage usage; /* whole after destroy; so far before */
    uint8_t why;        /* it ended by itself: enum launcher_why of launcher/protocol.h */
};

struct runtime_ops {
    const char *name; /* as in SANDBOX_TYPE */
    uint32_t can;     /* RUNTIME_CAN_* */

    /*
     * *ret is owned by the caller and goes back through destroy. `facts` says what is known of the
     * layers, also when the box was refused: a refusal tells what would have held.
     */
    int (*create)(struct runtime *runtime, const struct box_spec *spec, struct box **ret,
                  struct box_facts *facts, struct error *err);

    /* Ends everything in the box, waits until it is gone, frees it. NULL is fine. Fills `facts`. */
    void (*destroy)(struct box *box, struct box_facts *facts);
};

#define RUNTIME_CAN_LIMIT UINT32_C(1) /* memory, pids and cpu limits are the runtime's own */

struct runtime {
    const struct runtime_ops *ops;
};

/* The runtime named in SANDBOX_TYPE; an error that lists those built in when there is none. */
int runtime_find(const char *name, struct runtime **ret, struct error *err);

#endif
