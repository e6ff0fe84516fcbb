/*
 * local.h - the runtime `local`: boxes of this machine's kernel, made directly by the launcher.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_LOCAL_LOCAL_H
#define BAILEY_RUNTIME_LOCAL_LOCAL_H

#include "boxes/boxes.h"
#include "runtime/runtime.h"

extern const struct runtime_ops local_ops;

/* The launcher's words for who holds a limit, in those of a result. */
enum limit_by local_limit_by(enum launch_holder holder, enum cgroup_flavour group);
enum usage_by local_usage_by(uint8_t counted); /* enum launcher_counted */

/* Where the time of a box's bring-up went; NULL when the box is not of this runtime. */
const struct launched *local_launched(const struct box *box);

#endif
