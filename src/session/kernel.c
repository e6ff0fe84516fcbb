/*
 * kernel.c - interpreter processes of a session's box: started, received from the provider,
 * adopted, ended.
 *
 * Order of fallbacks: the kernel that came with the box, a kernel forked by a zygote, a cold start;
 * nothing fails because a warm kernel is missing. The box reports the exit status of a kernel that
 * it started itself; the provider reports it for a kernel from a zygote, before or after the box
 * reports the loss, and is waited for STATUS_PATIENCE_MS.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "observe/metrics.h"
#include "recipe/recipe.h"
#include "session/session_private.h"

#define STATUS_PATIENCE_MS 1000

const char *warm_name(enum warm warm)
{
    static const char *const names[_WARM_MAX] = {
        [WARM_COLD] = "cold", [WARM_ZYGOTE] = "zygote", [WARM_POOL] = "pool"};

    return names[warm < _WARM_MAX ? warm : WARM_COLD];
}

static struct kernel *kernel_new(struct session *session, struct context *context)
{
    struct kernel *kernel = calloc(1, sizeof(*kernel));

    if (!kernel)
        return NULL;
    kernel->session = session;
    kernel->context = context;
    kernel->next = session->kernels;
    session->kernels = kernel;
    context->kernel = kernel;
    context->started_ms = session_manager_now_ms();
    return kernel;
}

static void kernel_free(struct kernel *kernel)
{
    struct session_manager *manager = kernel->session->manager;

    LIST_UNLINK(kernel->session->kernels, kernel);
    if (kernel->is_asked && manager->provider->ops->forget)
        manager->provider->ops->forget(manager->provider, kernel);
    if (kernel->timer)
        manager->spec.reactor->ops->timer_remove(kernel->timer);
    free(kernel);
}

void kernels_free(struct session *session)
{
    while (session->kernels)
        kernel_free(session->kernels);
}

/* ---- the end of a kernel ---- */

void kernel_release(struct kernel *kernel)
{
    if (kernel->has_ended && kernel->has_status && !kernel->cell && !kernel->is_asked)
        kernel_free(kernel);
}

/* The kernel is gone, and its exit status is known or given up. */
static void gone(struct kernel *kernel)
{
    struct context *context = kernel->context;
    struct execution *cell = kernel->cell;

    if (!kernel->is_dying || !kernel->has_status)
        return;
    kernel->context = NULL;
    if (context)
        context_kernel_gone(context, kernel);
    if (cell)
        cell_kernel_status(
            cell); /* releases it, unless the box has not reported the cell's end yet */
    else
        kernel_release(kernel);
    if (context)
        context_advance(context);
}

static void on_due(void *ctx)
{
    struct kernel *kernel = ctx;

    if (kernel->has_status)
        return;
    kernel->has_status = true;
    kernel->exit_code = kernel->signal = -1;
    gone(kernel);
}

static void wait_for_status(struct kernel *kernel)
{
    const struct reactor *reactor = kernel->session->manager->spec.reactor;

    kernel->is_dying = true;
    if (!kernel->has_status && !kernel->timer) {
        kernel->timer = reactor_timer(kernel->session->manager->spec.reactor, on_due, kernel);
        if (kernel->timer)
            reactor->ops->timer_set(kernel->timer, STATUS_PATIENCE_MS);
        else
            on_due(kernel);
    } else {
        gone(kernel);
    }
}

static void learn(struct kernel *kernel, int exit_code, int number)
{
    if (kernel->has_status)
        return;
    kernel->has_status = true;
    kernel->exit_code = exit_code;
    kernel->signal = number;
}

void kernel_died_under(struct kernel *kernel, const struct exec_end *end)
{
    if (end && !end->status_external && !kernel->from_zygote)
        learn(kernel, end->exit_code, end->signal);
    wait_for_status(kernel);
}

static void on_ended(void *ctx, const struct exec_end *end)
{
    struct kernel *kernel = ctx;

    kernel->has_ended = true;
    if (!end->status_external && !kernel->from_zygote)
        learn(kernel, end->exit_code, end->signal);
    wait_for_status(kernel);
}

static void on_failed(void *ctx, const struct error *err)
{
    struct kernel *kernel = ctx;
    struct context *context = kernel->context;

    kernel->has_ended = true;
    kernel->failure = *err;
    if (context && recipe_no_interpreter(kernel->session->manager->spec.config,
                                         kernel->session->provider, context->language->name,
                                         context->language->program, &kernel->failure))
        err = &kernel->failure;
    learn(kernel, -1, -1);
    /* Waiting cells would fail the same way, so they fail with this reason. */
    if (context && kernel->cells == 0)
        context_fail_waiting(context, err);
    wait_for_status(kernel);
}

static size_t on_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    (void)ctx;
    (void)stream;
    (void)data;
    return length; /* the box never sends any: all output belongs to cells */
}

/* A cell may have been sent already: it waits in the box and is notified here. */
static void on_forked(void *ctx)
{
    struct kernel *kernel = ctx;

    kernel->warm = WARM_ZYGOTE;
    if (kernel->cell)
        kernel->cell->cell->warm = WARM_ZYGOTE;
    if (kernel->context)
        context_save(kernel->context);
}

static void on_started(void *ctx)
{
    struct kernel *kernel = ctx;

    if (kernel->warm == WARM_COLD)
        kernel->is_placed = kernel->has_env = true;
}

static const struct exec_events kernel_events = {.forked = on_forked,
                                                 .started = on_started,
                                                 .output = on_output,
                                                 .ended = on_ended,
                                                 .failed = on_failed};

void session_manager_kernel_ended(struct session_manager *manager, const struct kernel_end *end)
{
    for (struct session *session = manager->sessions; session; session = session->next) {
        if (!session->box || session->number != end->number)
            continue;
        for (struct kernel *kernel = session->kernels; kernel; kernel = kernel->next) {
            if (kernel->id != end->kernel || !kernel->from_zygote)
                continue;
            kernel->usage = end->usage;
            if (WIFSIGNALED(end->status))
                learn(kernel, 0, WTERMSIG(end->status));
            else
                learn(kernel, WEXITSTATUS(end->status), 0);
            /* The box does not report the end of a kernel without cells. */
            if (kernel->cells == 0 && !kernel->was_adopted && !kernel->has_ended) {
                box_forget(session->box, kernel->id);
                kernel->has_ended = true;
            }
            wait_for_status(kernel);
            return;
        }
        return;
    }
    run_kernel_ended(manager, end);
}

void kernel_discard(struct kernel *kernel)
{
    kernel->context = NULL;
    if (kernel->cell)
        kernel->cell->was_killed = true;
    if (!kernel->is_asked && !kernel->is_dying && kernel->session->box)
        box_signal(kernel->session->box, kernel->id, SIGKILL);
}

/* ---- the start of a kernel ---- */

/*
 * Started by a process of the box itself: a new interpreter or, in a container, a fork of the
 * container's zygote.
 */
static void start_inside(struct context *context)
{
    struct session *session = context->session;
    const char *argv[] = {session_program(session, context->language), context->language->driver,
                          NULL};
    CLEANUP(strv_freep) char **env = session_env(session, NULL);
    struct exec_spec spec = {
        .argv = argv,
        .env = (const char *const *)env,
        .cwd = context->cwd,
        .may_fork = !provider_can(session->provider, PROVIDER_CAN_ZYGOTE) &&
                    session->manager->spec.config->is_warm &&
                    str_equal(context->language->name, "python"),
    };
    struct kernel *kernel = kernel_new(session, context);
    struct error err = {0};
    int r = -ENOMEM;

    if (kernel && env)
        r = box_kernel(session->box, &spec, &kernel_events, kernel, &kernel->id, &err);
    else
        error_set(&err, r, ERROR_ENGINE, "out of memory");
    if (r == 0) {
        kernel->is_placed = kernel->has_env = !spec.may_fork; /* else on_started() sets them */
        context_save(context);
        return;
    }
    context->kernel = NULL;
    if (kernel)
        kernel_free(kernel);
    context_fail_waiting(context, &err);
}

/* The provider has put a kernel into the box; on an error a cold one is started. */
static void on_given(void *ctx, int num)
{
    struct kernel *kernel = ctx;
    struct session *session = kernel->session;
    struct context *context = kernel->context;

    kernel->is_asked = false;
    session->asked--;
    if (num == 0 && context) {
        context_save(context);
        context_advance(context);
    } else if (num == 0) {
        kernel_discard(kernel); /* its context no longer wants it */
    } else {
        if (context)
            context->kernel = NULL;
        if (session->box)
            box_forget(session->box, kernel->id);
        kernel_free(kernel);
        metrics_add(session->manager->spec.metrics, METRIC_RETRIES, &(const char *){"zygote"}, 1);
        if (context)
            context_advance(context);
    }
}

static int ask_provider(struct context *context)
{
    struct session *session = context->session;
    struct provider *provider = session->manager->provider;
    struct kernel *kernel;
    struct error err = {0};
    int tier = session->tier;

    if (!provider->ops->kernel || !provider_can(session->provider, PROVIDER_CAN_ZYGOTE) ||
        !session->manager->spec.config->is_warm || !str_equal(context->language->name, "python") ||
        context->was_refused ||
        session_manager_other_python(session->manager, session_config(session)))
        return -ENOTSUP;
    kernel = kernel_new(session, context);
    if (!kernel)
        return -ENOMEM;
    kernel->from_zygote = true;
    kernel->warm = WARM_ZYGOTE;
    kernel->id = box_next_id(session->box);
    if (box_kernel_given(session->box, kernel->id, false, &kernel_events, kernel, &err) < 0) {
        context->kernel = NULL;
        kernel_free(kernel);
        return -EIO;
    }
    kernel->is_asked = true;
    context->was_refused = true; /* until it has started: a retry is a cold start */
    session->asked++;
    provider->ops->kernel(provider, session->number, kernel->id, tier, on_given, kernel);
    return 0;
}

void kernel_start(struct context *context)
{
    if (ask_provider(context) < 0)
        start_inside(context);
}

void kernel_came(struct session *session, const struct made *made)
{
    struct error err = {0};
    struct context *context;
    struct kernel *kernel;

    if (session_find_context(session, NULL, "python", &context, &err) < 0 || context->kernel)
        return;
    kernel = kernel_new(session, context);
    if (!kernel)
        return;
    kernel->id = made->kernel;
    kernel->from_zygote = !made->warden_owns_kernel;
    kernel->warm = made->is_pooled ? WARM_POOL : WARM_ZYGOTE;
    if (box_kernel_given(session->box, kernel->id, made->warden_owns_kernel, &kernel_events, kernel,
                         &err) < 0) {
        log_warning("session %s: its kernel: %s, continuing without it", session->id, err.text);
        context->kernel = NULL;
        kernel_free(kernel);
        return;
    }
    context_save(context);
}

void kernel_adopt(struct context *context, uint32_t id, bool from_zygote, enum warm warm)
{
    uint64_t started_ms = context->started_ms;
    struct kernel *kernel = kernel_new(context->session, context);
    struct error err = {0};

    if (!kernel)
        return;
    context->started_ms = started_ms;
    kernel->id = id;
    kernel->from_zygote = from_zygote;
    kernel->warm = warm;
    kernel->has_env = kernel->is_placed =
        !from_zygote && warm == WARM_COLD; /* else the end of its cells reports it */
    kernel->was_adopted = true;
    if (box_adopt_kernel(context->session->box, id, &kernel_events, kernel, &err) < 0) {
        context->kernel = NULL;
        kernel_free(kernel);
    }
}
