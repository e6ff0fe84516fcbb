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

/* Converts the launcher's value for what enforces a limit to the result's. */
enum limit_by local_limit_by(enum launch_holder holder, enum cgroup_flavour group);
enum usage_by local_usage_by(uint8_t counted); /* enum launcher_counted */

/* Timing of a box's bring-up; NULL: the box is of another runtime. */
const struct launched *local_launched(const struct box *box);

#endif
