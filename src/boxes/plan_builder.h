/*
 * plan_builder.h - a sandbox plan while it is being written, with the memory that its pointers
 * point to. For boxes/, and for the launcher's zygotes, which live in such a root too.
 *
 * Runs in: launcher, commands
 */
#ifndef BAILEY_BOXES_PLAN_BUILDER_H
#define BAILEY_BOXES_PLAN_BUILDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/limits.h"
#include "boxes/boxes.h"
#include "sandbox/plan.h"

#define PLAN_BUILDER_STEPS_MAX 256
#define PLAN_BUILDER_RULES_MAX 48
#define PLAN_BUILDER_RLIMITS_MAX 12
#define PLAN_BUILDER_ENV_MAX (24 + LIMIT_TEMPLATE_ROWS)
#define PLAN_BUILDER_TEXT_MAX (64 * 1024)

/* A plan being written, with the memory its pointers point to. */
struct plan_builder {
    struct sandbox_plan plan;
    struct plan_step steps[PLAN_BUILDER_STEPS_MAX];
    struct plan_rule rules[PLAN_BUILDER_RULES_MAX];
    struct plan_rlimit rlimits[PLAN_BUILDER_RLIMITS_MAX];
    const char *env[PLAN_BUILDER_ENV_MAX + 1];
    size_t env_count;
    char text[PLAN_BUILDER_TEXT_MAX]; /* strings, one after the other */
    size_t text_used;
    const char *own_programs; /* the folder of python and pip, first in PATH; NULL: none */
    bool is_full;             /* something did not fit */
};

/* plan_builder.c */
const char *plan_builder_text(struct plan_builder *builder, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
struct plan_step *plan_builder_step(struct plan_builder *builder, enum step_kind kind,
                                    const char *target, const char *source, mode_t mode);
/*
 * Gives the last step, a bind, inodes of the box's own: out of the plan's overlay of `lower`, a
 * folder above the source (NULL: none), or of an overlay of the source alone, if it is a folder.
 * Where other mounts are in the way of both the source is bound itself, and the layer is missing
 * unless the step is optional. With `clone_here` the launcher's own rights reach `lower`.
 */
void plan_builder_overlay(struct plan_builder *builder, const char *lower, bool clone_here,
                          bool is_optional);
void plan_builder_rule(struct plan_builder *builder, enum rule_kind kind, const char *path);
void plan_builder_env(struct plan_builder *builder, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void plan_builder_close(struct plan_builder *builder); /* descriptors of cloned trees */
/* All that is not the root: limits, filters, environment. */
void plan_builder_common(struct plan_builder *builder, const struct launch_spec *spec,
                         struct launched *launched);
/* Of those, the limits, where no control group is; plan.has_namespaces decides which. */
void plan_builder_limits(struct plan_builder *builder, const struct launch_spec *spec,
                         struct launched *launched);
/* Of those, what is the same for every guest. */
void plan_builder_rlimits(struct plan_builder *builder);
/* Environment variables of every guest; the caller sets PATH, with the shares before it. */
#define PLAN_BUILDER_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define PLAN_BUILDER_LANGUAGE "C.UTF-8"
void plan_builder_short_list(struct plan_builder *builder, const char *language);
void plan_builder_finish(
    struct plan_builder *builder); /* the plan points to what the builder holds */
/* A control group was made: in the plan (of the child that joins it), and in the report. */
void plan_builder_grouped(struct sandbox_plan *plan, const struct cgroup *group);
void plan_builder_holders(struct launched *launched);

/* root.c */
int root_plan(struct plan_builder *builder, const struct launch_spec *spec, struct error *err);

#endif
