/*
 * usage.c - takes from a tenant's quotas and gives back, in one function each, so that what was
 * taken is given back exactly once, however a session ends; see tenant.h.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "runtime/outcome.h"
#include "session/artifacts.h"
#include "session/run_private.h"
#include "session/session_private.h"
#include "store/output_file.h"

#define LOOK_MS 2000 /* interval of reading the CPU time of live boxes, if it is limited */

int usage_take(struct session_manager *manager, const char *tenant, enum quota quota,
               uint64_t amount, struct error *err)
{
    return tenant_take(manager->tenants, tenant, quota, amount, err);
}

/* For the tenant's quota, and for its turn when boxes are made. */
void usage_cpu(struct session_manager *manager, const char *tenant, uint64_t cpu_us)
{
    tenant_used(manager->tenants, tenant, QUOTA_CPU, cpu_us);
    fair_queue_used(manager->fair_queue, tenant, cpu_us);
}

static void give(struct session *session, enum quota quota, uint64_t amount)
{
    tenant_give(session->manager->tenants, session->tenant, quota, amount);
}

/* ---- the session ---- */

int usage_session(struct session *session, struct error *err)
{
    int r = usage_take(session->manager, session->tenant, QUOTA_SESSIONS, 1, err);

    session->is_counted = r == 0;
    return r;
}

void usage_session_over(struct session *session)
{
    if (session->is_counted)
        give(session, QUOTA_SESSIONS, 1);
    session->is_counted = false;
}

/* ---- the session's box ---- */

/* Only if there is a quota for CPU time. */
void usage_watch(struct session_manager *manager)
{
    if (manager->is_usage_watched || !manager->spec.config->quota.cpu_seconds)
        return;
    manager->is_usage_watched = true;
    manager->spec.reactor->ops->timer_set(manager->usage, LOOK_MS);
}

int usage_box(struct session *session, struct error *err)
{
    uint64_t bytes = session_config(session)->limits.memory_bytes;
    int r;

    if (session->held_memory)
        return 0;
    r = usage_take(session->manager, session->tenant, QUOTA_MEMORY, bytes, err);
    if (r == 0)
        session->held_memory = bytes;
    if (r == 0)
        usage_watch(session->manager);
    return r;
}

/*
 * CPU time of a box is reported twice: by the warden for each execution, and as a sum by the
 * provider. The larger value counts.
 */
static void count_cpu(struct session *session, uint64_t used_us)
{
    if (used_us <= session->counted_cpu_us)
        return;
    usage_cpu(session->manager, session->tenant, used_us - session->counted_cpu_us);
    session->counted_cpu_us = used_us;
}

/* Counts CPU time that belongs to no execution: of background processes and of kernels. */
void usage_box_over(struct session *session, const struct box_facts *facts)
{
    uint64_t used = facts ? facts->usage.cpu_us : 0;

    count_cpu(session, used);
    give(session, QUOTA_MEMORY, session->held_memory);
    session->held_memory = 0;
    session->counted_cpu_us = session->told_cpu_us = 0;
}

/* ---- CPU time of live boxes ---- */

static void on_used(void *ctx, const struct box_facts *facts)
{
    struct session *session = ctx;

    session->asked--;
    if (facts && session->is_cpu_unknown) /* an earlier broker counted it */
        session->counted_cpu_us = facts->usage.cpu_us;
    else if (facts)
        count_cpu(session, facts->usage.cpu_us);
    session->is_cpu_unknown = false;
}

/* A question about a run's box. The run may be gone before the answer. */
struct run_look {
    struct run_look *next;
    struct session_manager *manager;
    uint32_t number; /* of the box */
};

static struct run *run_in(const struct session_manager *manager, uint32_t number)
{
    struct run *run = manager->runs;

    while (run && (!run->box || run->number != number))
        run = run->next;
    return run;
}

/* What is counted already is not counted again by usage_run(). */
static void count_run_cpu(struct run *run, uint64_t used_us)
{
    if (used_us <= run->counted_cpu_us)
        return;
    usage_cpu(run->manager, run->tenant, used_us - run->counted_cpu_us);
    run->counted_cpu_us = used_us;
}

static void on_run_used(void *ctx, const struct box_facts *facts)
{
    CLEANUP(freep) struct run_look *look = ctx;
    struct run *run = run_in(look->manager, look->number);

    for (struct run_look **at = &look->manager->run_looks; *at; at = &(*at)->next) {
        if (*at == look) {
            *at = look->next;
            break;
        }
    }
    if (run && facts)
        count_run_cpu(run, facts->usage.cpu_us);
}

static bool is_looked_at(const struct session_manager *manager, uint32_t number)
{
    const struct run_look *look = manager->run_looks;

    while (look && look->number != number)
        look = look->next;
    return look;
}

static void look_at_run(const struct run *run)
{
    struct session_manager *manager = run->manager;
    struct run_look *look;

    if (!run->box || run->is_over || is_looked_at(manager, run->number))
        return;
    look = calloc(1, sizeof(*look));
    if (!look)
        return; /* the next look has another chance, and the run's end counts it in any case */
    *look =
        (struct run_look){.next = manager->run_looks, .manager = manager, .number = run->number};
    manager->run_looks = look;
    manager->provider->ops->usage(manager->provider, look->number, on_run_used, look);
}

/*
 * CPU time of long-running programs, of background processes and of one-shot runs counts while they
 * run, not at their end.
 */
static void on_look(void *ctx)
{
    struct session_manager *manager = ctx;
    struct provider *provider = manager->provider;
    bool has_any = manager->runs;

    for (struct session *session = manager->sessions; session; session = session->next) {
        if (session->state != SESSION_READY || session->asked)
            continue;
        has_any = true;
        session->asked++;
        provider->ops->usage(provider, session->number, on_used, session);
    }
    for (const struct run *next, *run = manager->runs; run; run = next) {
        next = run->next;
        look_at_run(run);
    }
    manager->is_usage_watched = has_any;
    if (has_any)
        manager->spec.reactor->ops->timer_set(manager->usage, LOOK_MS);
}

int usage_start(struct session_manager *manager)
{
    manager->usage = reactor_timer(manager->spec.reactor, on_look, manager);
    return manager->usage ? 0 : -ENOMEM;
}

/* ---- programs ---- */

int usage_execution(struct session *session, struct error *err)
{
    struct session_manager *manager = session->manager;
    bool has_memory = session->held_memory;
    int r = usage_take(manager, session->tenant, QUOTA_CPU, 0, err);

    /* Checked here, and not when the box is made: a call that cannot be done must not begin. */
    if (r == 0 && session->state == SESSION_NEW)
        r = fair_queue_check(manager->fair_queue, session->tenant, err);
    if (r == 0 && session->state == SESSION_NEW)
        r = usage_box(session, err);
    if (r == 0 && !has_memory)
        usage_box_over(session, NULL); /* the call that makes the box takes it again at once */
    return r < 0 ? r : usage_take(manager, session->tenant, QUOTA_RUNS, 1, err);
}

void usage_execution_over(struct session *session, const struct exec_end *end)
{
    uint64_t used = end ? end->usage.cpu_us : 0;

    give(session, QUOTA_RUNS, 1);
    session->told_cpu_us += used;
    count_cpu(session, session->told_cpu_us);
}

/* ---- runs ---- */

/* The kernel of a run that was cancelled before the kernel's usage was reported. */
struct late_kernel {
    struct late_kernel *next;
    uint32_t number, kernel;
    uint64_t counted_us;
    char tenant[TENANT_MAX];
};

static void add_late(const struct run *run)
{
    struct session_manager *manager = run->manager;
    struct late_kernel *late = NULL;

    if (manager->late_count < LIMIT_LATE_KERNELS)
        late = calloc(1, sizeof(*late));
    if (!late)
        return;
    *late = (struct late_kernel){.next = manager->late,
                                 .number = run->number,
                                 .kernel = run->kernel,
                                 .counted_us = run->result.usage.cpu_us};
    str_copy(late->tenant, sizeof(late->tenant), run->tenant);
    manager->late = late;
    manager->late_count++;
}

/* Called twice for a warm kernel, in any order. */
void usage_told(struct run *run, const struct usage *usage)
{
    run->told.cpu_us = MAX(run->told.cpu_us, usage->cpu_us);
    run->told.max_rss_bytes = MAX(run->told.max_rss_bytes, usage->max_rss_bytes);
    run->told.by = MAX(run->told.by, usage->by);
}

void usage_run(struct run *run)
{
    struct usage *usage = &run->result.usage;

    outcome_told(&run->result, &run->told);
    count_run_cpu(run, usage->cpu_us); /* twice if a missing package could not be installed */
    if (run->kernel && !run->has_status) {
        add_late(run);
        run->kernel = 0; /* later reports about this kernel do not belong to the run */
    }
}

void usage_kernel(struct session_manager *manager, const struct kernel_end *end)
{
    for (struct late_kernel **at = &manager->late; *at; at = &(*at)->next) {
        CLEANUP(freep) struct late_kernel *late = *at;
        uint64_t used = end->usage.cpu_us;

        if (late->number != end->number || late->kernel != end->kernel) {
            late = NULL;
            continue;
        }
        *at = late->next;
        manager->late_count--;
        if (used > late->counted_us)
            usage_cpu(manager, late->tenant, used - late->counted_us);
        return;
    }
}

void session_manager_spent(struct session_manager *manager, const char *tenant, uint64_t cpu_us)
{
    tenant_used(manager->tenants, tenant, QUOTA_CPU, cpu_us);
}

void usage_free(struct session_manager *manager)
{
    if (manager->usage)
        manager->spec.reactor->ops->timer_remove(ptr_take(&manager->usage));
    while (manager->run_looks) {
        struct run_look *next = manager->run_looks->next;

        free(manager->run_looks);
        manager->run_looks = next;
    }
    while (manager->late) {
        struct late_kernel *next = manager->late->next;

        free(manager->late);
        manager->late = next;
    }
}

/* ---- the disk ---- */

int usage_data(struct session *session, uint64_t bytes, struct error *err)
{
    int r = usage_take(session->manager, session->tenant, QUOTA_DISK, bytes, err);

    /* Datasets of ended sessions are removed when their room is needed. */
    while (r < 0 && datasets_make_room(session->manager, session->tenant)) {
        *err = (struct error){0};
        r = usage_take(session->manager, session->tenant, QUOTA_DISK, bytes, err);
    }
    if (r == 0)
        session->held_data += bytes;
    return r;
}

void usage_data_over(struct session *session, uint64_t bytes)
{
    bytes = MIN(bytes, session->held_data);
    session->held_data -= bytes;
    give(session, QUOTA_DISK, bytes);
}

/* Counts a saved output of `now` bytes that replaces one of `before` bytes. */
int usage_keep(struct session *session, struct output_writer *writer, uint64_t before, uint64_t now)
{
    uint64_t more = now > before ? now - before : 0, less = before > now ? before - now : 0;
    int r = usage_take(session->manager, session->tenant, QUOTA_DISK, more, NULL);

    if (r < 0)
        return r;
    r = output_writer_end(writer);
    if (r < 0) {
        give(session, QUOTA_DISK, more);
        return r;
    }
    less = MIN(less, session->held_output);
    give(session, QUOTA_DISK, less);
    session->held_output += more;
    session->held_output -= less;
    return 0;
}

int usage_log(struct execution *execution, uint64_t more, struct error *err)
{
    struct session *session = execution->session;
    int r;

    do {
        r = usage_take(session->manager, session->tenant, QUOTA_DISK, more, err);
    } while (r < 0 && executions_drop_oldest(session));
    if (r == 0)
        execution->held += more;
    return r;
}

/* Of a long stream the oldest bytes are deleted meanwhile. */
void usage_log_written(struct execution *execution)
{
    uint64_t now = execution_stored(execution);

    if (execution->held <= now)
        return;
    give(execution->session, QUOTA_DISK, execution->held - now);
    execution->held = now;
}

void usage_log_over(struct execution *execution)
{
    give(execution->session, QUOTA_DISK, execution->held);
    execution->held = 0;
}

/* Drops the oldest ended execution, first of all only its output. */
static bool make_room(struct session *session)
{
    unsigned before = session->execution_count;

    if (executions_drop_oldest(session))
        return true;
    executions_trim(session, before > 0 ? before - 1 : 0);
    return session->execution_count < before;
}

int usage_request(struct execution *execution, uint64_t words, uint64_t input, struct error *err)
{
    struct session *session = execution->session;
    int r;

    do {
        r = usage_take(session->manager, session->tenant, QUOTA_DISK, words + input, err);
    } while (r < 0 && make_room(session));
    if (r == 0) {
        execution->held_words = words;
        execution->held_input = input;
    }
    return r;
}

void usage_input_over(struct execution *execution)
{
    give(execution->session, QUOTA_DISK, execution->held_input);
    execution->held_input = 0;
}

void usage_request_over(struct execution *execution)
{
    usage_input_over(execution);
    give(execution->session, QUOTA_DISK, execution->held_words);
    execution->held_words = 0;
}

const char *usage_why(int r)
{
    return r == -EDQUOT   ? "the quota 'disk' is used up"
           : r == -ENOSPC ? "no space in the state folder"
                          : "could not be read";
}

void usage_packages(struct session *session, uint64_t bytes)
{
    usage_data_over(session, session->held_packages);
    tenant_hold(session->manager->tenants, session->tenant, QUOTA_DISK, bytes);
    session->held_data += bytes;
    session->held_packages = bytes;
}

/* ---- adoption after a restart of the broker ---- */

static void add_data(void *ctx, const struct index_file *row)
{
    ((struct session *)ctx)->held_data += row->bytes;
}

static void add_output(void *ctx, const struct index_file *row)
{
    if (row->is_fetched)
        ((struct session *)ctx)->held_output += row->bytes;
}

void usage_adopt(struct session *session)
{
    struct session_manager *manager = session->manager;
    struct error err = {0};
    int r;

    if (session->state == SESSION_ENDED)
        return; /* its files are gone; artifacts_adopt() counts those that are kept */
    session->is_counted = session->is_cpu_unknown = true;
    usage_watch(manager);
    tenant_hold(manager->tenants, session->tenant, QUOTA_SESSIONS, 1);
    r = index_each_file(manager->spec.index, session->id, 'o', add_output, session, &err);
    if (r == 0)
        r = index_each_file(manager->spec.index, session->id, 'd', add_data, session, &err);
    if (r < 0)
        log_warning("files of %s: %s, continuing without counting them", session->id, err.text);
    tenant_hold(manager->tenants, session->tenant, QUOTA_DISK,
                session->held_data + session->held_output);
}

void usage_outputs_over(struct session *session)
{
    give(session, QUOTA_DISK, session->held_output);
    session->held_output = 0;
}

void usage_forget(struct session *session)
{
    usage_session_over(session);
    usage_box_over(session, NULL);
    usage_data_over(session, session->held_data);
    usage_outputs_over(session);
}
