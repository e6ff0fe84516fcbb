/*
 * context.c - the contexts of a session: names for kernels, and the queues of cells before them;
 * see session.h.
 *
 * A context outlives its kernels, and the broker: its row says which kernel of the box is its own.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "session/session_private.h"

#define LOST_NOTE "the kernel ended while the engine was being restarted; its variables are gone"

struct context *context_new(struct session *session, const struct session_language *language,
                            uint32_t number)
{
    struct context *context = calloc(1, sizeof(*context));

    if (!context)
        return NULL;
    context->session = session;
    context->language = language;
    context->number = number;
    LIST_APPEND(session->contexts, context);
    session->next_context = MAX(session->next_context, number + 1);
    return context;
}

static void context_free(struct context *context)
{
    LIST_UNLINK(context->session->contexts, context);
    if (context->waits_for_box)
        session_box_cancel(context->session, context);
    free(context->name);
    free(context->cwd);
    free(context);
}

void contexts_free(struct session *session)
{
    while (session->contexts)
        context_free(session->contexts);
}

void context_id(const struct context *context, char id[CONTEXT_ID_MAX])
{
    str_format(id, CONTEXT_ID_MAX, "c%u", context->number);
}

static int record(struct context *context, struct error *err)
{
    const struct kernel *kernel = context->kernel;
    struct index_context row = {
        .number = context->number,
        .language = context->language->name,
        .name = context->name,
        .cwd = context->cwd,
        .is_default = context->is_default,
        .kernel = kernel && !kernel->is_asked ? kernel->id : 0,
        .warm = kernel ? kernel->warm : WARM_COLD,
        .cells = context->cells,
        .started_ms = context->started_ms,
        .used_ms = context->used_ms,
        .note = context->note[0] ? context->note : NULL,
    };

    str_copy(row.session, sizeof(row.session), context->session->id);
    return index_put_context(context->session->manager->spec.index, &row, err);
}

void context_save(struct context *context)
{
    struct error err = {0};

    if (context->session->state >= SESSION_ENDING)
        return;
    if (record(context, &err) < 0)
        log_error("context c%u of %s could not be recorded: %s, continuing without it",
                  context->number, context->session->id, err.text);
}

/* ---- creating and finding ---- */

static int find_language(struct session *session, const char *name,
                         const struct session_language **ret, struct error *err)
{
    const char *wanted = name ? name : "python";
    const struct config *config = session->manager->spec.config;
    const char *program;
    bool is_enabled = false;

    for (size_t i = 0; i < strv_length(config->languages); i++)
        is_enabled |= str_equal(config->languages[i], wanted);
    *ret = session_manager_language(session->manager, wanted);
    if (!*ret)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "language: '%.40s' is not supported here",
                         wanted);
    if (!is_enabled)
        return error_set(err, -EPERM, ERROR_NO_INTERPRETER,
                         "%s is switched off here: it is not among SANDBOX_SUPPORTED_LANGUAGES",
                         wanted);
    if (!(*ret)->driver)
        return error_set(err, -ENOENT, ERROR_NO_INTERPRETER, "%s",
                         (*ret)->missing ? (*ret)->missing
                                         : "there is no kernel for this language");
    return session_manager_interpreter(session->manager, session_config(session),
                                       config_provider(session_config(session)), *ret, &program,
                                       NULL, err);
}

static bool is_name(const char *name)
{
    size_t length = strlen(name);

    return id_is_name(name) &&
           !(name[0] == 'c' && length > 1 && strspn(name + 1, "0123456789") == length - 1);
}

static struct context *find(struct session *session, const char *word)
{
    for (struct context *at = session->contexts; at; at = at->next) {
        char id[CONTEXT_ID_MAX];

        context_id(at, id);
        if (str_equal(id, word) || str_equal(at->name, word))
            return at;
    }
    return NULL;
}

static int check_spec(struct session *session, const struct context_spec *spec, struct error *err)
{
    unsigned count = 0;

    for (const struct context *at = session->contexts; at; at = at->next)
        count++;
    if (spec->name && !is_name(spec->name))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "name: 1 to %d letters, digits, '.', '_' or '-', and not like \"c1\"",
                         LIMIT_NAME);
    if (spec->cwd && (spec->cwd[0] != '/' || strlen(spec->cwd) > LIMIT_PATH_BYTES))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "cwd: an absolute path of the box");
    if (spec->name && find(session, spec->name))
        return error_set(err, -EEXIST, ERROR_CONTEXT_TAKEN,
                         "the session has a context '%s' already; use it, or another name",
                         spec->name);
    if (count >= LIMIT_CONTEXTS)
        return error_set(err, -EAGAIN, ERROR_TOO_MANY_CONTEXTS,
                         "the session has %u contexts, which is the most it may have; remove one",
                         count);
    return 0;
}

static int create(struct session *session, const struct context_spec *spec, bool is_default,
                  struct context **ret, struct error *err)
{
    const struct session_language *language = NULL;
    struct context *context;
    int r = session->state >= SESSION_ENDING ? session_ended_error(session, err) : 0;

    if (r == 0)
        r = find_language(session, spec->language, &language, err);
    if (r == 0)
        r = check_spec(session, spec, err);
    if (r < 0)
        return r;
    context = context_new(session, language, MAX(session->next_context, 1u));
    if (!context || (spec->name && !(context->name = strdup(spec->name))) ||
        (spec->cwd && !(context->cwd = strdup(spec->cwd)))) {
        if (context)
            context_free(context);
        return error_memory(err);
    }
    context->is_default = is_default;
    context->used_ms = session_manager_now_ms();
    r = record(context, err);
    if (r < 0) {
        context_free(context);
        return r;
    }
    session_touch(session);
    *ret = context;
    return 0;
}

int session_create_context(struct session *session, const struct context_spec *spec,
                           struct context **ret, struct error *err)
{
    const char *language = spec->language ? spec->language : "python";

    for (struct context *at = session->contexts; at && spec->is_default; at = at->next) {
        if (at->is_default && str_equal(at->language->name, language)) {
            *ret = at;
            return 0;
        }
    }
    return create(session, spec, spec->is_default, ret, err);
}

int session_find_context(struct session *session, const char *word, const char *language,
                         struct context **ret, struct error *err)
{
    struct context *context = word ? find(session, word) : NULL;

    if (word && !context)
        return error_set(err, -ENOENT, ERROR_CONTEXT_NOT_FOUND,
                         "the session %s has no context '%.64s'", session->id, word);
    if (word && language && !str_equal(context->language->name, language))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "the context '%.64s' runs %s, not %.40s",
                         word, context->language->name, language);
    for (struct context *at = session->contexts; at && !context; at = at->next) {
        if (at->is_default && str_equal(at->language->name, language ? language : "python"))
            context = at;
    }
    if (!context)
        return create(session, &(struct context_spec){.language = language}, true, ret, err);
    *ret = context;
    return 0;
}

void session_each_context(struct session *session, void (*each)(void *ctx, struct context *context),
                          void *ctx)
{
    struct context *next;

    for (struct context *at = session->contexts; at; at = next) {
        next = at->next;
        each(ctx, at);
    }
}

static const char *state_word(const struct context *context)
{
    if (context->running || context->waiting)
        return "busy";
    if (context->kernel)
        return "idle";
    return context->note[0] ? "dead" : "new";
}

json_t *context_json(const struct context *context)
{
    const struct kernel *kernel = context->kernel;
    char id[CONTEXT_ID_MAX];

    context_id(context, id);
    return json_pack("{s:s, s:s?, s:s, s:s, s:I, s:n, s:b, s:o, s:o, s:b, s:s, s:s?}", "id", id,
                     "name", context->name, "language", context->language->name, "state",
                     state_word(context), "cells", (json_int_t)context->cells, "pid", "warm",
                     kernel && kernel->warm != WARM_COLD, "started_at",
                     time_json(kernel ? context->started_ms : 0), "last_used_at",
                     time_json(context->used_ms), "default", context->is_default, "cwd",
                     context->cwd ? context->cwd : "/workspace", "note",
                     context->note[0] ? context->note : NULL);
}

/* ---- a context's kernel and cells ---- */

void context_kernel_gone(struct context *context, const struct kernel *kernel)
{
    context->kernel = NULL;
    context->was_refused = false;
    if (kernel->failure.code)
        str_format(context->note, sizeof(context->note), "the kernel could not be started (%.80s)",
                   kernel->failure.text);
    else if (kernel->signal > 0)
        str_format(context->note, sizeof(context->note),
                   "the kernel was ended by signal %d; its variables are gone", kernel->signal);
    else if (kernel->exit_code >= 0)
        str_format(context->note, sizeof(context->note),
                   "the kernel exited with status %d; its variables are gone", kernel->exit_code);
    else
        str_copy(context->note, sizeof(context->note),
                 "the kernel has ended; its variables are lost");
    context_save(context);
}

void context_fail_waiting(struct context *context, const struct error *err)
{
    while (context->waiting)
        cell_cancel(context->waiting, err);
}

static void on_box(void *ctx, struct box *box, const struct error *err)
{
    struct context *context = ctx;

    context->waits_for_box = false;
    if (box)
        context_advance(context);
    else
        context_fail_waiting(context, err);
}

void context_advance(struct context *context)
{
    struct session *session = context->session;
    struct execution *execution;

    if (context->running || !context->waiting || context->waits_for_box ||
        session->state >= SESSION_ENDING)
        return;
    if (session_is_paused(session) && !session_resumes_by_use(session))
        return; /* it goes on when the session is resumed */
    if (!session_is_ready(session)) {
        context->waits_for_box = true;
        session_box(session, on_box, context);
        return;
    }
    execution = context->waiting;
    if (!execution->cell->is_checked && cell_check(execution))
        return;
    if (!context->kernel)
        kernel_start(context);
    if (!context->waiting || !context->kernel || context->kernel->is_asked ||
        context->kernel->is_dying)
        return; /* the kernel or cell that is waited for calls context_advance() again */
    execution = context->waiting;
    context->waiting = execution->cell->next;
    execution->cell->next = NULL;
    context->running = execution;
    cell_send(execution, context->kernel);
}

/* Ends the context's kernel; the running cell loses it, waiting cells fail with `why`. */
static void give_up_kernel(struct context *context, const char *why)
{
    struct kernel *kernel = context->kernel;
    struct error err = {0};

    error_set(&err, -ECANCELED, ERROR_CANCELLED, "%s", why);
    context_fail_waiting(context, &err);
    if (context->running)
        context->running->cell->context = NULL;
    context->running = NULL;
    context->kernel = NULL;
    context->was_refused = false;
    context->note[0] = '\0';
    if (kernel)
        kernel_discard(kernel);
}

void context_restart(struct context *context)
{
    session_touch(context->session);
    give_up_kernel(context, "the context was restarted before the cell began");
    context_save(context);
}

int context_interrupt(struct context *context, struct error *err)
{
    session_touch(context->session);
    if (!context->running || context->running->state == EXECUTION_CLOSING)
        return error_set(err, -ESRCH, ERROR_EXECUTION_ENDED, "nothing runs in the context c%u",
                         context->number);
    return execution_signal(context->running, SIGINT, err);
}

void context_remove(struct context *context)
{
    struct session *session = context->session;
    struct error err = {0};

    session_touch(session);
    give_up_kernel(context, "the context was removed before the cell began");
    if (index_drop_context(session->manager->spec.index, session->id, context->number, &err) < 0)
        log_error("context c%u of %s could not be removed from the index: %s", context->number,
                  session->id, err.text);
    context_free(context);
}

/* ---- adopting after a restart of the broker ---- */

static void load(void *ctx, const struct index_context *row)
{
    struct session *session = ctx;
    const struct session_language *language =
        session_manager_language(session->manager, row->language);
    struct context *context = language ? context_new(session, language, row->number) : NULL;

    if (!context)
        return; /* the language is no longer installed: the kernel is ended */
    context->name = row->name ? strdup(row->name) : NULL;
    context->cwd = row->cwd ? strdup(row->cwd) : NULL;
    context->is_default = row->is_default;
    context->cells = row->cells;
    context->started_ms = row->started_ms;
    context->used_ms = row->used_ms;
    context->found_kernel = row->kernel;
    context->found_warm = row->warm < _WARM_MAX ? (enum warm)row->warm : WARM_COLD;
    str_copy(context->note, sizeof(context->note), row->note ? row->note : "");
}

void contexts_load(struct session *session)
{
    struct error err = {0};

    if (index_each_context(session->manager->spec.index, session->id, load, session, &err) < 0)
        log_error("contexts of %s: %s, continuing without them", session->id, err.text);
}

void contexts_found(struct session *session, const struct box_found *found)
{
    for (struct context *at = session->contexts; at; at = at->next) {
        if (at->found_kernel != found->id || found->has_exited)
            continue;
        if (found->is_forked && at->found_warm == WARM_COLD)
            at->found_warm = WARM_ZYGOTE; /* the row was written by an older version */
        kernel_adopt(at, found->id, found->from_zygote, at->found_warm);
    }
}

/*
 * Sets the number of cells and the kernel from the newest cell, which is more recent than the
 * context's row.
 */
static void count_cells(struct context *context)
{
    char id[CONTEXT_ID_MAX];

    context_id(context, id);
    for (const struct execution *at = context->session->executions; at; at = at->next) {
        if (!at->cell || !str_equal(at->cell->context_id, id))
            continue;
        if (context->kernel && at->call && at->started_ms >= context->started_ms &&
            at->state != EXECUTION_FAILED)
            context->kernel->is_placed = true;
        if (at->cell->count < context->cells)
            continue;
        context->cells = at->cell->count;
        context->used_ms = MAX(context->used_ms, at->started_ms);
        if (context->kernel && at->started_ms >= context->started_ms)
            context->kernel->cells = at->cell->number;
    }
}

void contexts_settle(struct session *session)
{
    for (struct context *at = session->contexts; at; at = at->next) {
        if (at->found_kernel && !at->kernel) {
            str_copy(at->note, sizeof(at->note), LOST_NOTE);
            context_save(at);
        }
        at->found_kernel = 0;
        count_cells(at);
    }
    for (struct execution *at = session->executions; at; at = at->next) {
        if (at->cell && at->is_adopted && !execution_has_ended(at))
            cell_attach(at);
    }
}
