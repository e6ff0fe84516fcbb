/* plan_builder.c - writing a plan: strings, steps, limits and the guest's environment. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "boxes/plan_builder.h"
#include "sandbox/filter.h"

#define GUEST_FILES_MAX 4096

__attribute__((format(printf, 2, 0))) static const char *
plan_builder_vtext(struct plan_builder *builder, const char *format, va_list arguments)
{
    char *start = builder->text + builder->text_used;
    size_t room = sizeof(builder->text) - builder->text_used;
    int length = vsnprintf(start, room, format, arguments);

    if (length < 0 || (size_t)length >= room) {
        builder->is_full = true;
        return "";
    }
    builder->text_used += (size_t)length + 1;
    return start;
}

const char *plan_builder_text(struct plan_builder *builder, const char *format, ...)
{
    const char *text;
    va_list arguments;

    va_start(arguments, format);
    text = plan_builder_vtext(builder, format, arguments);
    va_end(arguments);
    return text;
}

struct plan_step *plan_builder_step(struct plan_builder *builder, enum step_kind kind,
                                    const char *target, const char *source, mode_t mode)
{
    static struct plan_step nowhere;
    struct plan_step *step;

    if (builder->plan.step_count == PLAN_BUILDER_STEPS_MAX) {
        builder->is_full = true;
        return &nowhere;
    }
    step = &builder->steps[builder->plan.step_count++];
    *step = (struct plan_step){
        .kind = kind, .target = target, .source = source, .source_fd = -1, .mode = mode};
    return step;
}

/* ---- overlays ---- */

#define MOUNTS_MAX (64 * KIB)

/*
 * The mounts that there were at the first question: those of the host that come later do not reach
 * us. NULL: not known.
 */
static const char *all_mounts(void)
{
    static char text[MOUNTS_MAX];
    static bool was_read, is_known;

    if (!was_read)
        is_known = fd_read_text_at(AT_FDCWD, "/proc/self/mountinfo", text, sizeof(text)) >= 0 &&
                   strlen(text) < sizeof(text) - 1;
    was_read = true;
    return is_known ? text : NULL;
}

static bool is_at_or_below(const char *path, size_t length, const char *folder)
{
    size_t above = str_equal(folder, "/") ? 0 : strlen(folder);

    return length >= above && strncmp(path, folder, above) == 0 &&
           (length == above || path[above] == '/');
}

/* An overlay does not show what is mounted below its folder. */
static bool has_mount(const char *lower, const char *source)
{
    const char *line = all_mounts();

    if (!line)
        return true;
    for (; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *at = line;
        size_t length;

        for (int i = 0; i < 4 && at; i++) { /* number, parent, device, root */
            at = strchr(at, ' ');
            at = at ? at + 1 : NULL;
        }
        length = at ? strcspn(at, " \n") : 0;
        if (length <= strlen(lower) || !is_at_or_below(at, length, lower))
            continue;
        if (is_at_or_below(at, length, source) ||
            (strncmp(source, at, length) == 0 && source[length] == '/'))
            return true;
    }
    return false;
}

/* Whether the plan's overlay is one of `lower`, which the first to ask decides. */
static bool is_of_overlay(struct plan_builder *builder, const char *lower, bool clone_here)
{
    struct plan_overlay *overlay = &builder->plan.overlay;

    if (!overlay->lower)
        *overlay = (struct plan_overlay){.lower = lower,
                                         .lower_fd = clone_here ? root_clone_tree(lower) : -1};
    return str_equal(overlay->lower, lower);
}

void plan_builder_overlay(struct plan_builder *builder, const char *lower, bool clone_here,
                          bool is_optional)
{
    struct plan_step *step = &builder->steps[builder->plan.step_count - 1];
    size_t length = lower ? strlen(lower) : 0;

    if (builder->is_full)
        return;
    if (lower && builder->plan.aside && !has_mount(lower, step->source) &&
        is_of_overlay(builder, lower, clone_here)) {
        step->inodes = INODES_OF_PART;
        step->within = step->source + length + (step->source[length] == '/');
    } else if (step->kind == STEP_BIND_DIR && builder->plan.aside &&
               !has_mount(step->source, step->source)) {
        step->inodes = INODES_OF_OWN;
    } else {
        builder->plan.has_shared |= !is_optional;
    }
}

void plan_builder_rule(struct plan_builder *builder, enum rule_kind kind, const char *path)
{
    if (builder->plan.rule_count == PLAN_BUILDER_RULES_MAX) {
        builder->is_full = true;
        return;
    }
    builder->rules[builder->plan.rule_count++] = (struct plan_rule){.kind = kind, .path = path};
}

void plan_builder_env(struct plan_builder *builder, const char *format, ...)
{
    va_list arguments;

    if (builder->env_count == PLAN_BUILDER_ENV_MAX) {
        builder->is_full = true;
        return;
    }
    va_start(arguments, format);
    builder->env[builder->env_count++] = plan_builder_vtext(builder, format, arguments);
    va_end(arguments);
}

void plan_builder_close(struct plan_builder *builder)
{
    for (size_t i = 0; i < builder->plan.step_count; i++) {
        fd_closep(&builder->steps[i].source_fd);
        builder->steps[i].source_fd = -1;
    }
    if (builder->plan.overlay.lower)
        fd_closep(&builder->plan.overlay.lower_fd);
    builder->plan.overlay.lower_fd = -1;
}

static void plan_builder_rlimit(struct plan_builder *builder, int resource, uint64_t value)
{
    builder->rlimits[builder->plan.rlimit_count++] =
        (struct plan_rlimit){.resource = resource, .value = value};
}

void plan_builder_rlimits(struct plan_builder *builder)
{
    plan_builder_rlimit(builder, RLIMIT_CORE, 0);
    plan_builder_rlimit(builder, RLIMIT_NOFILE, GUEST_FILES_MAX);
    plan_builder_rlimit(builder, RLIMIT_MEMLOCK, 64 * KIB);
    plan_builder_rlimit(builder, RLIMIT_RTPRIO, 0);
    plan_builder_rlimit(builder, RLIMIT_NICE, 0);
    /* Counted for the host's user too: a guest must not use up the user's share. */
    plan_builder_rlimit(builder, RLIMIT_SIGPENDING, 1024);
    plan_builder_rlimit(builder, RLIMIT_MSGQUEUE, 256 * KIB);
}

/* What holds without a control group; plan_builder_grouped() takes back what one makes needless. */
void plan_builder_limits(struct plan_builder *builder, const struct launch_spec *spec,
                         struct launched *launched)
{
    struct sandbox_plan *plan = &builder->plan;

    plan_builder_rlimits(builder);
    launched->memory = HELD_BY_WARDEN;
    plan->watch_memory_bytes = spec->memory_bytes;
    launched->pids = HELD_BY_RLIMIT;
    if (plan->has_namespaces) {
        launched->disk = HELD_BY_TMPFS;
        /* Since Linux 5.14 the count is per user namespace: the box's own. */
        plan_builder_rlimit(builder, RLIMIT_NPROC, spec->pids);
    } else {
        launched->disk = HELD_BY_WARDEN;
        plan->watch_disk_bytes = spec->disk_bytes;
        plan_builder_rlimit(builder, RLIMIT_FSIZE, spec->disk_bytes);
        /*
         * The count is that of the host's user: processes that the user already runs do not belong
         * to the box.
         */
        plan_builder_rlimit(builder, RLIMIT_NPROC, spec->pids + private_tasks(plan->warden_id));
    }
    if (spec->cpu_millis > 0) {
        plan->cpu_count = (spec->cpu_millis + 999) / 1000;
        launched->cpu = HELD_BY_AFFINITY;
    }
}

void plan_builder_grouped(struct sandbox_plan *plan, const struct cgroup *group)
{
    plan->group = group;
    plan->watch_memory_bytes = 0;
    if (group->join_fd[CONTROLLER_CPU] >= 0 || group->path[CONTROLLER_CPU][0])
        plan->cpu_count = 0;
}

void plan_builder_holders(struct launched *launched)
{
    if (launched->group.flavour == CGROUP_NONE)
        return;
    launched->memory = launched->pids = HELD_BY_GROUP;
    if (launched->group.path[CONTROLLER_CPU][0] && launched->cpu != HELD_BY_NOTHING)
        launched->cpu = HELD_BY_GROUP; /* without a limit the group only divides */
}

/* Programs read one or the other; pip reads the lower-case ones first. */
static const char *const proxies[] = {"http_proxy", "https_proxy", "all_proxy",
                                      "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"};

/*
 * The short list. Python must not buffer: what was printed before a timeout or a kill has to be
 * there, and output has to stream.
 */
void plan_builder_short_list(struct plan_builder *builder, const char *language)
{
    const struct sandbox_plan *plan = &builder->plan;

    plan_builder_env(builder, "HOME=%s", plan->share_path[SHARE_HOME]);
    plan_builder_env(builder, "TMPDIR=%s", plan->share_path[SHARE_TMP]);
    plan_builder_env(builder, "OUTPUT_DIR=%s/output", plan->share_path[SHARE_TMP]);
    plan_builder_env(builder, "USER=user");
    plan_builder_env(builder, "LOGNAME=user");
    plan_builder_env(builder, "LANG=%s", language);
    plan_builder_env(builder, "PYTHONUNBUFFERED=1");
    plan_builder_env(builder, "PYTHONDONTWRITEBYTECODE=1");
    plan_builder_env(builder, "MPLBACKEND=Agg");
}

static void plan_builder_environment(struct plan_builder *builder, const struct launch_spec *spec)
{
    plan_builder_env(builder, "PATH=%s%s%s" PLAN_BUILDER_PATH,
                     box_mounts_has_template(spec) ? "/bailey/template/bin:" : "",
                     builder->own_programs ? builder->own_programs : "",
                     builder->own_programs ? ":" : "");
    plan_builder_short_list(builder, PLAN_BUILDER_LANGUAGE);
    if (box_mounts_has_template(spec))
        plan_builder_env(builder, "VIRTUAL_ENV=/bailey/template");
    if (builder->own_programs) /* its pip comes before another one among the packages */
        plan_builder_env(builder, "PYTHONPATH=%s/modules%s", builder->own_programs,
                         spec->packages ? ":/bailey/packages" : "");
    else if (spec->packages)
        plan_builder_env(builder, "PYTHONPATH=/bailey/packages");
    for (size_t i = 0; i < ARRAY_SIZE(proxies) && staging_fetches(spec->stages); i++)
        plan_builder_env(builder, "%s=http://127.0.0.1:%d", proxies[i], LAUNCH_EGRESS_PORT);
}

void plan_builder_finish(struct plan_builder *builder)
{
    struct sandbox_plan *plan = &builder->plan;

    plan->steps = builder->steps;
    plan->rules = builder->rules;
    plan->rlimits = builder->rlimits;
    plan->env = builder->env;
}

void plan_builder_common(struct plan_builder *builder, const struct launch_spec *spec,
                         struct launched *launched)
{
    struct sandbox_plan *plan = &builder->plan;

    plan->guest_id = GUEST_ID;
    plan->hostname = "bailey";
    plan->warden_filter = &filter_warden;
    plan->guest_filter = plan->has_namespaces ? &filter_guest : &filter_guest_offline;
    plan->hands_ruleset = spec->wants_ruleset;
    plan_builder_limits(builder, spec, launched);
    plan_builder_environment(builder, spec);
    plan_builder_finish(builder);
}
