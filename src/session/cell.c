/*
 * cell.c - a cell: an execution that a kernel runs; see session.h and docs/kernels.md.
 *
 * A cell waits in its context's queue, is sent to the kernel, and ends when the kernel reports its
 * end or dies. A cell that had not begun when its kernel died is sent to the next kernel, once.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "session/session_private.h"

bool execution_is_cell(const struct execution *execution)
{
    return execution->cell;
}

static void request_free(struct execution *execution)
{
    struct session *session = execution->session;
    struct cell *cell = execution->cell;

    session_manager_release(session->manager, session->tenant, cell->held);
    cell->held = 0;
    if (!cell->keeper) {
        free((char *)cell->code);
        free((char *)cell->input);
    }
    cell->code = cell->input = NULL;
    json_decref(ptr_take(&cell->keeper));
    json_decref(ptr_take(&cell->env));
}

void cell_free(struct execution *execution)
{
    struct cell *cell = execution->cell;

    if (!cell)
        return;
    if (cell->kernel)
        cell->kernel->cell = NULL;
    import_check_leave(cell->import_check);
    cell_install_free(execution);
    if (cell->timer)
        execution->session->manager->spec.reactor->ops->timer_remove(cell->timer);
    request_free(execution);
    json_decref(cell->install_meta);
    free(cell);
}

/* ---- the row in the index ---- */

char *cell_text(const struct execution *execution)
{
    const struct cell *cell = execution->cell;
    CLEANUP(json_decrefp)
    json_t *json = json_pack("{s:s, s:s, s:i, s:i, s:i, s:s*, s:s*, s:b, s:O*}", "context",
                             cell->context_id, "language", cell->language, "count",
                             (int)cell->count, "number", (int)cell->number, "warm", (int)cell->warm,
                             "kernel", cell->word, "note", cell->note[0] ? cell->note : NULL,
                             "lost", cell->has_lost, "install", cell->install_meta);

    if (json && cell->is_again)
        json_object_set_new(json, "base",
                            json_pack("[I, I, I]", (json_int_t)cell->base[0],
                                      (json_int_t)cell->base[1], (json_int_t)cell->base[2]));
    return json ? json_dumps(json, JSON_COMPACT) : NULL;
}

static const char *known_word(const char *word)
{
    static const char *const words[] = {"new", "kept", "replaced"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        if (str_equal(words[i], word))
            return words[i];
    }
    return NULL;
}

void cell_load(struct execution *execution, const char *text)
{
    CLEANUP(json_decrefp) json_t *json = json_loads(text, 0, NULL);
    struct cell *cell = calloc(1, sizeof(*cell));
    const char *context = NULL, *language = NULL, *word = NULL, *note = NULL;
    int count = 0, number = 0, warm = 0, lost = 0;

    if (!cell)
        return;
    json_unpack(json, "{s?s, s?s, s?i, s?i, s?i, s?s, s?s, s?b}", "context", &context, "language",
                &language, "count", &count, "number", &number, "warm", &warm, "kernel", &word,
                "note", &note, "lost", &lost);
    str_copy(cell->context_id, sizeof(cell->context_id), context ? context : "");
    str_copy(cell->language, sizeof(cell->language), language ? language : "");
    str_copy(cell->note, sizeof(cell->note), note ? note : "");
    cell->count = (uint32_t)count;
    cell->number = (uint32_t)number;
    cell->warm = warm > 0 && warm < _WARM_MAX ? (enum warm)warm : WARM_COLD;
    cell->word = known_word(word);
    cell->has_lost = lost;
    cell->install_meta = json_incref(json_object_get(json, "install"));
    cell->is_again = json_object_get(json, "base");
    for (size_t i = 0; i < BOX_STREAMS; i++)
        cell->base[i] = (uint64_t)json_integer_value(json_array_get(
            json_object_get(json, "base"), i)); /* the broker wrote this JSON itself */
    execution->cell = cell;
}

/* ---- the end of a cell ---- */

static void unqueue(struct execution *execution)
{
    struct context *context = execution->cell->context;
    struct execution **at = context ? &context->waiting : NULL;

    while (at && *at && *at != execution)
        at = &(*at)->cell->next;
    if (at && *at)
        *at = execution->cell->next;
    execution->cell->next = NULL;
}

static void leave_kernel(struct cell *cell)
{
    struct kernel *kernel = ptr_take(&cell->kernel);

    if (!kernel)
        return;
    kernel->cell = NULL;
    kernel_release(kernel);
}

void cell_over(struct execution *execution)
{
    struct cell *cell = execution->cell;
    struct context *context = cell->context;

    if (cell->timer)
        execution->session->manager->spec.reactor->ops->timer_remove(ptr_take(&cell->timer));
    import_check_leave(ptr_take(&cell->import_check));
    cell_install_free(execution);
    request_free(execution);
    unqueue(execution);
    leave_kernel(cell);
    if (!context)
        return;
    cell->context = NULL;
    if (context->running == execution)
        context->running = NULL;
    /* The reason of the kernel's death is known only now. */
    if (cell->has_lost && !context->kernel && context->note[0]) {
        if (execution->flags & EXECUTION_OOM)
            str_copy(context->note, sizeof(context->note),
                     "the kernel was ended because memory ran out; its variables are gone");
        else if (execution->flags & EXECUTION_TIMED_OUT)
            str_copy(context->note, sizeof(context->note),
                     "the kernel was ended because a cell did not stop at its timeout; its "
                     "variables are gone");
    }
    context_advance(context);
}

void cell_cancel(struct execution *execution, const struct error *err)
{
    unqueue(execution);
    execution_fail(execution, err);
}

/*
 * The box has reported the cell's end and, if its kernel is gone, the kernel's exit status is known
 * or given up.
 */
static void settle(struct execution *execution)
{
    struct cell *cell = execution->cell;
    const struct kernel *kernel = cell->kernel;
    struct exec_end *end = &execution->end;

    if (cell->is_settled)
        return; /* only the launcher's answer about memory is still missing */
    cell->is_settled = true;
    if (!end->kernel_died && cell_install_begin(execution))
        return;
    if (end->kernel_died && (kernel ? kernel->has_status : end->status_external)) {
        int signal = kernel ? kernel->signal : -1, exit_code = kernel ? kernel->exit_code : -1;

        end->signal = MAX(signal, 0);
        end->exit_code = signal > 0 ? 0 : exit_code < 0 ? 1 : exit_code;
    }
    if (!end->kernel_died || end->signal != SIGKILL || end->timed_out || end->memory_watchdog ||
        execution->was_killed || execution->session->state >= SESSION_ENDING)
        execution_end(execution, EXECUTION_EXITED);
    else
        execution_ask_memory(execution);
}

void cell_kernel_status(struct execution *execution)
{
    if (execution->state == EXECUTION_CLOSING)
        settle(execution);
}

/*
 * Nothing of the cell was run, so it is sent to the next kernel. Returns false if it was sent again
 * before.
 */
static bool send_again(struct execution *execution, const struct exec_end *end)
{
    struct cell *cell = execution->cell;
    struct context *context = cell->context;
    struct kernel *kernel = cell->kernel;

    if (execution->flags & EXECUTION_STARTED || cell->was_sent_again || !cell->code || !context ||
        !kernel || kernel->failure.code || execution->was_killed || execution->is_abandoned ||
        execution->session->state >= SESSION_ENDING)
        return false;
    cell->was_sent_again = true;
    box_forget(execution->session->box, execution->call);
    execution->state = EXECUTION_WAITING;
    kernel->cell = NULL;
    cell->kernel = NULL;
    cell->next = context->waiting;
    context->waiting = execution;
    context->running = NULL;
    kernel_died_under(kernel, end);
    context_advance(context);
    return true;
}

static void on_ended(void *ctx, const struct exec_end *end)
{
    struct execution *execution = ctx;
    struct cell *cell = execution->cell;

    execution->end = *end;
    execution->flags |= (end->timed_out ? EXECUTION_TIMED_OUT : 0) |
                        (end->disk_full ? EXECUTION_DISK_FULL : 0) |
                        (end->memory_watchdog ? EXECUTION_OOM : 0) |
                        (end->events_dropped ? EXECUTION_EVENTS_CUT : 0);
    if (!end->kernel_died) {
        settle(execution);
        return;
    }
    if (cell->kernel && cell->kernel->failure.code) { /* the kernel never started */
        execution_fail(execution, &cell->kernel->failure);
        return;
    }
    if (!end->timed_out && send_again(execution, end))
        return;
    cell->has_lost = true;
    execution->state = EXECUTION_CLOSING;
    if (cell->kernel)
        kernel_died_under(cell->kernel, end); /* cell_kernel_status() follows */
    else
        settle(execution);
}

static void on_failed(void *ctx, const struct error *err)
{
    struct execution *execution = ctx;
    const struct kernel *kernel = execution->cell->kernel;

    execution_fail(execution, kernel && kernel->failure.code ? &kernel->failure : err);
}

/* ---- while a cell runs ---- */

static void on_started(void *ctx)
{
    struct execution *execution = ctx;
    struct session *session = execution->session;

    execution->state = EXECUTION_RUNNING;
    execution->flags |= EXECUTION_STARTED;
    if (execution->cell->kernel)
        execution->cell->kernel->is_placed = true;
    if (!execution->cell->install) /* else the cell may run again after an installation */
        request_free(execution);
    bus_publish(session->manager->spec.bus, EVENT_EXEC_STARTED, session->tenant, session->id,
                execution_json(execution));
    execution_tell(execution, true);
}

/*
 * Events are kept from the beginning up to a limit, in whole lines: half a line of JSON is of no
 * use.
 */
size_t cell_keep(struct execution *execution, enum box_stream stream, const void *data,
                 size_t length)
{
    uint64_t left = LIMIT_CELL_EVENTS - MIN(LIMIT_CELL_EVENTS, execution->out[2].length);
    size_t taken;

    if (stream != BOX_EVENTS || length <= left)
        return execution_output(execution, stream, data, length);
    execution->flags |= EXECUTION_EVENTS_CUT;
    taken = left ? execution_output(execution, stream, data, (size_t)left) : 0;
    return taken < left ? taken : length;
}

static size_t on_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct execution *execution = ctx;

    if (stream == BOX_EVENTS && execution->cell->install)
        return cell_install_hold(execution, data, length);
    return cell_keep(execution, stream, data, length);
}

const struct exec_events cell_exec_events = {
    .started = on_started, .output = on_output, .ended = on_ended, .failed = on_failed};

/* The interrupt was not obeyed: interrupts once more, then kills; see box.h. */
static void on_grace(void *ctx)
{
    struct execution *execution = ctx;
    struct cell *cell = execution->cell;
    struct reactor *reactor = execution->session->manager->spec.reactor;

    if (cell->was_asked_twice || !cell->timer) {
        execution_signal(execution, SIGKILL, NULL);
        return;
    }
    cell->was_asked_twice = true;
    reactor->ops->timer_set(cell->timer, CELL_GRACE_MS / 2);
    execution_signal(execution, SIGINT, NULL);
}

void cell_abandon(struct execution *execution)
{
    struct reactor *reactor = execution->session->manager->spec.reactor;
    struct cell *cell = execution->cell;

    if (execution->state == EXECUTION_CLOSING || cell->timer)
        return;
    if (execution_signal(execution, SIGINT, NULL) < 0 || execution_has_ended(execution))
        return;
    cell->timer = reactor_timer(reactor, on_grace, execution);
    if (cell->timer)
        reactor->ops->timer_set(cell->timer, CELL_GRACE_MS / 2);
    else
        on_grace(execution);
}

/* ---- the start of a cell ---- */

static void choose_word(struct cell *cell, struct context *context, struct kernel *kernel)
{
    cell->number = ++kernel->cells;
    cell->warm = kernel->warm;
    if (cell->is_again && kernel->cells > 1)
        return; /* the second run keeps the number of the first */
    cell->word = kernel->cells > 1 || kernel->was_adopted ? "kept" : "new";
    if (kernel->cells > 1 || !context->note[0])
        return;
    cell->word = "replaced";
    str_copy(cell->note, sizeof(cell->note), context->note);
    context->note[0] = '\0';
}

void cell_send(struct execution *execution, struct kernel *kernel)
{
    struct session *session = execution->session;
    struct cell *cell = execution->cell;
    /* A kernel from a zygote or a pool started without the session's environment, so the cell
     * brings it. */
    CLEANUP(strv_freep)
    char **env = kernel->has_env ? env_vector(NULL, cell->env) : session_env(session, cell->env);
    struct cell_spec spec = {
        .kernel = kernel->id,
        .code = cell->code,
        .code_length = cell->code_length,
        .input = cell->input,
        .input_length = cell->input_length,
        .env = (const char *const *)env,
        .folder = kernel->is_placed ? NULL : cell->context->cwd,
        .timeout_ms = execution->timeout_ms,
        .keeps = true,
    };
    struct error err = {0};
    int r;

    choose_word(cell, cell->context, kernel);
    execution_number_now(execution, session->box);
    cell->kernel = kernel;
    kernel->cell = execution;
    r = env ? 0 : error_memory(&err);
    if (r == 0)
        r = execution_record(
            execution, &err); /* stored first: if the broker dies now, its successor finds a row */
    if (r == 0) {
        execution->state = EXECUTION_SENT;
        r = box_cell(session->box, &spec, &cell_exec_events, execution, &execution->call, &err);
    }
    if (r < 0 && !(r == -ESRCH && send_again(execution, NULL)))
        execution_fail(execution, &err);
}

static void on_checked(void *ctx, const struct error *err)
{
    struct execution *execution = ctx;
    struct cell *cell = execution->cell;
    struct context *context = cell->context;

    cell->import_check = NULL;
    cell->is_checked = true;
    if (err) {
        execution_fail(execution, err);
        return;
    }
    context->running = NULL;
    cell->next = context->waiting;
    context->waiting = execution;
    context_advance(context);
}

bool cell_check(struct execution *execution)
{
    struct session *session = execution->session;
    struct cell *cell = execution->cell;
    struct context *context = cell->context;
    struct error err = {0};

    if (cell->is_checked || !execution_config(execution)->block_imports ||
        !str_equal(cell->language, "python"))
        return false;
    context->waiting = cell->next;
    cell->next = NULL;
    context->running = execution;
    if (import_check_start(
            session->box,
            &(struct import_check_spec){.program = session_program(session, context->language),
                                        .code = cell->code,
                                        .length = cell->code_length,
                                        .done = on_checked,
                                        .ctx = execution,
                                        .config = execution_config(execution)},
            &cell->import_check, &err) < 0)
        execution_fail(execution, &err);
    return true;
}

static int copy_request(struct cell *cell, const struct cell_request *request)
{
    cell->code_length = request->code_length;
    cell->input_length = request->input_length;
    cell->env = json_incref(request->env);
    cell->keeper = json_incref(request->keeper);
    cell->code = request->keeper ? request->code : text_copy(request->code, request->code_length);
    if (request->input)
        cell->input =
            request->keeper ? request->input : text_copy(request->input, request->input_length);
    return !cell->code || (request->input && !cell->input) ? -ENOMEM : 0;
}

static int cell_new(struct execution *execution, const struct cell_request *request)
{
    struct context *context = request->context;
    struct cell *cell = calloc(1, sizeof(*cell));
    CLEANUP(json_decrefp) json_t *words = NULL;
    int r;

    execution->cell = cell;
    if (!cell)
        return -ENOMEM;
    r = copy_request(cell, request);
    context_id(context, cell->context_id);
    str_copy(cell->language, sizeof(cell->language), context->language->name);
    cell->count = context->cells + 1;
    execution->flags = EXECUTION_CELL | (request->is_background ? EXECUTION_BACKGROUND : 0);
    execution->timeout_ms = request->timeout_ms;
    words = json_pack("[s, s, s]", "<cell>", cell->language, cell->context_id);
    execution->argv = json_dumps(words, JSON_COMPACT);
    execution->words = json_incref(words);
    if (r == 0)
        r = cell_install_new(execution);
    return r < 0 || !execution->argv ? -ENOMEM : 0;
}

static void queue(struct execution *execution, struct context *context)
{
    struct execution **at = &context->waiting;

    while (*at)
        at = &(*at)->cell->next;
    *at = execution;
    execution->cell->context = context;
    context->cells++;
    context->used_ms = session_manager_now_ms();
}

int session_cell(struct session *session, const struct cell_request *request,
                 struct execution **ret, struct error *err)
{
    struct settings *settings = NULL;
    struct execution *execution;
    size_t held = request->code_length + request->input_length;
    int r = env_check(request->env, err);

    if (r == 0 && MAX(request->code_length, request->input_length) > LIMIT_CODE_BYTES)
        r = error_set(err, -EFBIG, ERROR_TOO_LARGE, "code and input: at most %llu MB each",
                      (unsigned long long)(LIMIT_CODE_BYTES / MIB));
    if (r == 0)
        r = settings_of_call(session, request->caller, &settings, err);
    if (r == 0)
        r = session_manager_hold(session->manager, session->tenant, held, err);
    if (r == 0) {
        r = execution_may_start(session, err);
        if (r < 0)
            session_manager_release(session->manager, session->tenant, held);
    }
    if (r < 0) {
        settings_release(settings);
        return account_refused(session->manager, "cell", session_tenant(session), err);
    }
    execution = execution_new(session, session->next_execution);
    if (execution)
        execution->settings = settings;
    else
        settings_release(settings);
    if (!execution || cell_new(execution, request) < 0) {
        usage_execution_over(session, NULL);
        session_manager_release(session->manager, session->tenant, held);
        if (execution)
            execution_free(execution);
        return error_memory(err);
    }
    execution->cell->held = held;
    guest_install_call(session, execution_config(execution));
    execution_by(execution, account_new(execution_config(execution), request->caller, request->code,
                                        request->code_length, LIMIT_CODE_BYTES));
    session->next_execution++;
    session->running++;
    session_touch(session);
    queue(execution, request->context);
    *ret = execution;
    execution_works(execution);
    account_execution_started(execution);
    context_advance(request->context);
    /* A cell that was sent has its row already; a waiting cell gets it here. */
    if (!execution_has_ended(execution) && execution->call == 0)
        execution_save(execution);
    return 0;
}

void cell_attach(struct execution *execution)
{
    struct session *session = execution->session;
    struct cell *cell = execution->cell;

    for (struct kernel *kernel = session->kernels; kernel; kernel = kernel->next) {
        if (kernel->id != cell->found_kernel || !kernel->context || kernel->cell)
            continue;
        cell->kernel = kernel;
        cell->context = kernel->context;
        kernel->cell = execution;
        kernel->context->running = execution;
    }
}
