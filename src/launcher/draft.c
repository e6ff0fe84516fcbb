/* draft.c - writing a plan: strings, steps, limits and the guest's environment. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "launcher/inside.h"
#include "sandbox/filter.h"

#define GUEST_FILES_MAX 4096

__attribute__((format(printf, 2, 0))) static const char *
draft_vtext(struct draft *draft, const char *format, va_list arguments)
{
    char *start = draft->text + draft->text_used;
    size_t room = sizeof(draft->text) - draft->text_used;
    int length = vsnprintf(start, room, format, arguments);

    if (length < 0 || (size_t)length >= room) {
        draft->is_full = true;
        return "";
    }
    draft->text_used += (size_t)length + 1;
    return start;
}

const char *draft_text(struct draft *draft, const char *format, ...)
{
    const char *text;
    va_list arguments;

    va_start(arguments, format);
    text = draft_vtext(draft, format, arguments);
    va_end(arguments);
    return text;
}

struct plan_step *draft_step(struct draft *draft, enum step_kind kind, const char *target,
                             const char *source, mode_t mode)
{
    static struct plan_step nowhere;
    struct plan_step *step;

    if (draft->plan.step_count == DRAFT_STEPS_MAX) {
        draft->is_full = true;
        return &nowhere;
    }
    step = &draft->steps[draft->plan.step_count++];
    *step = (struct plan_step){
        .kind = kind, .target = target, .source = source, .source_fd = -1, .mode = mode};
    return step;
}

void draft_rule(struct draft *draft, enum rule_kind kind, const char *path)
{
    if (draft->plan.rule_count == DRAFT_RULES_MAX) {
        draft->is_full = true;
        return;
    }
    draft->rules[draft->plan.rule_count++] = (struct plan_rule){.kind = kind, .path = path};
}

void draft_env(struct draft *draft, const char *format, ...)
{
    va_list arguments;

    if (draft->env_count == DRAFT_ENV_MAX) {
        draft->is_full = true;
        return;
    }
    va_start(arguments, format);
    draft->env[draft->env_count++] = draft_vtext(draft, format, arguments);
    va_end(arguments);
}

void draft_close(struct draft *draft)
{
    for (size_t i = 0; i < draft->plan.step_count; i++) {
        fd_closep(&draft->steps[i].source_fd);
        draft->steps[i].source_fd = -1;
    }
}

static void draft_rlimit(struct draft *draft, int resource, uint64_t value)
{
    draft->rlimits[draft->plan.rlimit_count++] =
        (struct plan_rlimit){.resource = resource, .value = value};
}

void draft_rlimits(struct draft *draft)
{
    draft_rlimit(draft, RLIMIT_CORE, 0);
    draft_rlimit(draft, RLIMIT_NOFILE, GUEST_FILES_MAX);
    draft_rlimit(draft, RLIMIT_MEMLOCK, 64 * KIB);
    draft_rlimit(draft, RLIMIT_RTPRIO, 0);
    draft_rlimit(draft, RLIMIT_NICE, 0);
    /* Counted for the host's user too: a guest must not use them up for him. */
    draft_rlimit(draft, RLIMIT_SIGPENDING, 1024);
    draft_rlimit(draft, RLIMIT_MSGQUEUE, 256 * KIB);
}

/* What holds without a control group; draft_grouped() takes back what one makes needless. */
void draft_limits(struct draft *draft, const struct launch_spec *spec, struct launched *launched)
{
    struct sandbox_plan *plan = &draft->plan;

    draft_rlimits(draft);
    launched->memory = HELD_BY_WARDEN;
    plan->watch_memory_bytes = spec->memory_bytes;
    launched->pids = HELD_BY_RLIMIT;
    if (plan->has_namespaces) {
        launched->disk = HELD_BY_TMPFS;
        /* Since Linux 5.14 the count is per user namespace: the box's own. */
        draft_rlimit(draft, RLIMIT_NPROC, spec->pids);
    } else {
        launched->disk = HELD_BY_WARDEN;
        plan->watch_disk_bytes = spec->disk_bytes;
        draft_rlimit(draft, RLIMIT_FSIZE, spec->disk_bytes);
        /* The count is that of the host's user: what he already runs does not belong to the box. */
        draft_rlimit(draft, RLIMIT_NPROC, spec->pids + private_tasks(plan->warden_id));
    }
    if (spec->cpu_millis > 0) {
        plan->cpu_count = (spec->cpu_millis + 999) / 1000;
        launched->cpu = HELD_BY_AFFINITY;
    }
}

void draft_grouped(struct sandbox_plan *plan, const struct cgroup *group)
{
    plan->group = group;
    plan->watch_memory_bytes = 0;
    if (group->join_fd[CONTROLLER_CPU] >= 0 || group->path[CONTROLLER_CPU][0])
        plan->cpu_count = 0;
}

void draft_holders(struct launched *launched)
{
    if (launched->group.flavour == CGROUP_NONE)
        return;
    launched->memory = launched->pids = HELD_BY_GROUP;
    if (launched->group.path[CONTROLLER_CPU][0])
        launched->cpu = HELD_BY_GROUP;
}

/* Programs look at one or the other; pip at the small ones first. */
static const char *const proxies[] = {"http_proxy", "https_proxy", "all_proxy",
                                      "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"};

/*
 * The short list. Python is told not to buffer: what was printed before a timeout or a kill has to
 * be there, and output has to stream.
 */
void draft_short_list(struct draft *draft, const char *language)
{
    const struct sandbox_plan *plan = &draft->plan;

    draft_env(draft, "HOME=%s", plan->share_path[SHARE_HOME]);
    draft_env(draft, "TMPDIR=%s", plan->share_path[SHARE_TMP]);
    draft_env(draft, "OUTPUT_DIR=%s/output", plan->share_path[SHARE_TMP]);
    draft_env(draft, "USER=user");
    draft_env(draft, "LOGNAME=user");
    draft_env(draft, "LANG=%s", language);
    draft_env(draft, "PYTHONUNBUFFERED=1");
    draft_env(draft, "PYTHONDONTWRITEBYTECODE=1");
    draft_env(draft, "MPLBACKEND=Agg");
}

static void draft_environment(struct draft *draft, const struct launch_spec *spec)
{
    draft_env(draft, "PATH=%s" DRAFT_PATH,
              furniture_has_template(spec) ? "/bailey/template/bin:" : "");
    draft_short_list(draft, DRAFT_LANGUAGE);
    if (furniture_has_template(spec))
        draft_env(draft, "VIRTUAL_ENV=/bailey/template");
    if (spec->packages)
        draft_env(draft, "PYTHONPATH=/bailey/packages");
    for (size_t i = 0; i < ARRAY_SIZE(proxies) && spec->stages != STAGING_NONE; i++)
        draft_env(draft, "%s=http://127.0.0.1:%d", proxies[i], LAUNCH_EGRESS_PORT);
}

void draft_finish(struct draft *draft)
{
    struct sandbox_plan *plan = &draft->plan;

    plan->steps = draft->steps;
    plan->rules = draft->rules;
    plan->rlimits = draft->rlimits;
    plan->env = draft->env;
}

void draft_common(struct draft *draft, const struct launch_spec *spec, struct launched *launched)
{
    struct sandbox_plan *plan = &draft->plan;

    plan->guest_id = GUEST_ID;
    plan->hostname = "bailey";
    plan->warden_filter = &filter_warden;
    plan->guest_filter = plan->has_namespaces ? &filter_guest : &filter_guest_offline;
    plan->hands_ruleset = spec->wants_ruleset;
    draft_limits(draft, spec, launched);
    draft_environment(draft, spec);
    draft_finish(draft);
}
