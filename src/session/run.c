/*
 * run.c - a one-shot run in the daemon: a fresh box, the source put into it, the interpreter, the
 * result; then nothing is left. The blocking twin is tool/oneshot.c, which makes its box itself.
 *
 * A box that came with a warm kernel gets the source as one cell, which ends with its kernel: how
 * is the maker's to say (run_kernel_ended), before or after the box tells that all output is there.
 * One that lacks a module may get it and run a second time, in a second box (run_again.c).
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "runtime/outcome.h"
#include "session/missing_job.h"

#define STATUS_PATIENCE_MS 1000 /* for the maker's word about a kernel that has ended */

/* What its tenant may have: one more that runs, and its memory. */
static int run_take(struct run *run, struct error *err)
{
    uint64_t memory = run->result.limits.memory_bytes;
    int r = usage_take(run->engine, run->tenant, QUOTA_CPU, 0, err);

    if (r == 0)
        r = usage_take(run->engine, run->tenant, QUOTA_MEMORY, memory, err);
    if (r < 0)
        return r;
    run->held_memory = memory;
    r = usage_take(run->engine, run->tenant, QUOTA_RUNS, 1, err);
    run->is_counted = r == 0;
    return r;
}

static void run_give_back(struct run *run)
{
    tenant_give(run->engine->tenants, run->tenant, QUOTA_MEMORY, run->held_memory);
    tenant_give(run->engine->tenants, run->tenant, QUOTA_RUNS, run->is_counted);
    run->held_memory = 0;
    run->is_counted = false;
}

static void run_free(struct run *run)
{
    for (struct run **at = &run->engine->runs; *at; at = &(*at)->next) {
        if (*at == run) {
            *at = run->next;
            break;
        }
    }
    run_give_back(run);
    run->engine->spec.reactor->ops->timer_remove(run->timer);
    pump_stop(&run->pump);
    check_leave(run->check);
    run_leave(run);
    run_cargo_free(run);
    box_free(run->box);
    result_free(&run->result);
    strv_free(run->env);
    strv_free(run->words);
    account_free(run->account);
    free(run->code);
    free(run->input);
    free(run);
}

void runs_free(struct engine *engine)
{
    while (engine->runs)
        run_free(engine->runs);
}

/* ---- the end ---- */

static void tell(struct run *run)
{
    struct engine *engine = run->engine;
    struct result *result = &run->result;

    usage_run(run);
    if (result->error.code && result->error.code != ERROR_CANCELLED && result->duration_ns == 0)
        result->exit_code = 1;
    if (run_install(run))
        return;
    result->install = ptr_take(&run->install);
    account_run(run);
    run_store(run);
    if (run->done)
        run->done(run->ctx, result);
    run_free(run);
    engine_later(engine);
}

/* What the box used: by now, or in all. */
static void on_used(void *ctx, const struct box_facts *facts)
{
    struct run *run = ctx;

    if (facts)
        outcome_usage(&run->result, facts);
    tell(run);
}

/* How a warm kernel ended: the maker's word, or nobody's. */
static void note_exit(struct run *run)
{
    struct result *result = &run->result;

    if (result->timed_out)
        return;
    result->signal = 0;
    if (!run->has_status) {
        result->exit_code = 1;
        result_note(result, "the program ended, and nobody could tell how");
    } else if (WIFSIGNALED(run->status)) {
        result->signal = WTERMSIG(run->status);
        result->exit_code = 128 + result->signal;
    } else {
        result->exit_code = WEXITSTATUS(run->status);
    }
}

/* All of it is known; but it may be that its end leads to something. */
static void run_ended(struct run *run)
{
    if (!run_look(run) && !run_list(run))
        run_over(run, NULL);
}

/*
 * A control group has counted everything when the program ends, so nobody waits for the box's end,
 * which takes as long as many a program. Both are asked for at once; the maker keeps the order.
 */
static void end_box(struct run *run)
{
    struct maker *maker = run->engine->maker;
    struct box *box = ptr_take(&run->box);
    uint32_t number = run->number;
    bool is_counted = run->result.memory_by == LIMIT_BY_CGROUP_V1 ||
                      run->result.memory_by == LIMIT_BY_CGROUP_V2 ||
                      run->result.memory_by == LIMIT_BY_CONTAINER;

    if (is_counted)
        maker->ops->usage(maker, number, on_used, run); /* it may be freed by this */
    maker->ops->end(maker, number, box, is_counted ? NULL : on_used, run);
}

/* In a turn of its own: the box may not be freed under its callbacks. */
static void on_turn(void *ctx)
{
    struct run *run = ctx;

    if (!run->is_over && run->link) {
        run_link(run);
        return;
    }
    if (!run->is_over && run->has_ended && !run->look &&
        !run->list) { /* nobody told the status in time */
        note_exit(run);
        run_ended(run);
        return;
    }
    if (!run->is_over)
        return;
    pump_stop(&run->pump);
    check_leave(ptr_take(&run->check));
    local_module_leave(ptr_take(&run->look));
    run_list_leave(run);
    if (run->make_serial)
        turns_cancel(run->engine->turns, run->make_serial);
    run->make_serial = 0;
    if (run->box)
        end_box(run);
    else
        tell(run);
}

void run_over(struct run *run, const struct error *err)
{
    if (run->is_over)
        return;
    if (err)
        run->result.error = *err;
    run->is_over = true;
    run->engine->spec.reactor->ops->timer_set(run->timer, 0);
}

static void on_lost(void *ctx, const struct error *err)
{
    struct run *run = ctx;

    run_over(run, run->look || run->list ? NULL : err); /* the program had ended before */
}

void engine_run_cancel(struct run *run)
{
    struct error err = {0};

    run->done = NULL;
    run->sink = NULL; /* output that is on its way may come before the turn in which it ends */
    error_set(&err, -ECANCELED, ERROR_CANCELLED, "the run was ended by its caller");
    run_over(run, &err);
}

void runs_fail(struct engine *engine, const struct error *err)
{
    for (struct run *run = engine->runs; run; run = run->next)
        run_over(run, err);
}

void run_box_ended(struct engine *engine, uint32_t number, unsigned why)
{
    struct error err = {0};

    for (struct run *run = engine->runs; run; run = run->next) {
        if (!run->box || run->number != number)
            continue;
        box_blame(run->box, why);
        box_lost_error(run->box, &err);
        if (run->call == 0)
            run_over(run, &err); /* else its channel tells, behind its last output */
    }
}

/* ---- the program ---- */

static size_t on_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct run *run = ctx;
    struct result *result = &run->result;

    if (stream == BOX_EVENTS) /* a script has none: whoever sends some is lying */
        return length;
    if (run->sink)
        length = run->sink(run->ctx, (int)stream, data, length);
    capture_add(stream == BOX_STDOUT ? &result->out : &result->err, data, length,
                result->limits.output_bytes);
    return length;
}

static void push_input(void *ctx)
{
    struct run *run = ctx;
    long taken = 0;

    if (!run->has_input)
        return;
    while (run->input_sent < run->input_length) {
        taken = box_stdin(run->box, run->call, run->input + run->input_sent,
                          run->input_length - run->input_sent);
        if (taken <= 0)
            break;
        run->input_sent += (size_t)taken;
    }
    if (run->input_sent == run->input_length || taken < 0) {
        box_stdin_end(run->box, run->call);
        run->has_input = false;
    }
}

static void on_ended(void *ctx, const struct exec_end *end)
{
    struct run *run = ctx;

    outcome_end(&run->result, end);
    usage_told(run, &end->usage);
    run->is_running = false;
    run->has_output = end->has_output;
    if (!run->kernel || run->kernel_is_wardens || (!end->is_unseen && !end->kernel_died)) {
        run_ended(run);
        return;
    }
    run->has_ended = true;
    if (run->has_status || end->timed_out) {
        note_exit(run);
        run_ended(run);
    } else {
        run->engine->spec.reactor->ops->timer_set(run->timer, STATUS_PATIENCE_MS);
    }
}

void run_kernel_ended(struct engine *engine, const struct kernel_end *end)
{
    usage_kernel(engine, end); /* of one that is over */
    for (struct run *run = engine->runs; run; run = run->next) {
        if (run->number != end->number || run->kernel != end->kernel)
            continue;
        usage_told(run, &end->usage);
        if (!run->box) { /* it was given back */
            run->kernel = 0;
            return;
        }
        run->has_status = true;
        run->status = end->status;
        if (run->has_ended && !run->is_over && !run->look && !run->list) {
            note_exit(run);
            run_ended(run);
        }
        return;
    }
}

static void on_failed(void *ctx, const struct error *err)
{
    struct run *run = ctx;
    struct error told = *err;

    furniture_explain(run->engine, run->language, run->is_wall, &told);
    run_over(run, &told);
}

static const struct exec_events exec_events = {
    .output = on_output, .ended = on_ended, .failed = on_failed, .stdin_ready = push_input};

static void start_program(struct run *run)
{
    struct exec_spec spec = {
        .argv = (const char *const *)run->words,
        .env = (const char *const *)run->env,
        .stdin_open = run->has_input,
        .ends_box = true,
        .timeout_ms = run->result.limits.timeout_ms,
    };
    struct error err = {0};

    if (box_exec(run->box, &spec, &exec_events, run, &run->call, &err) < 0) {
        run_over(run, &err);
        return;
    }
    run->is_running = true;
    push_input(run);
}

/* The source in a kernel that was there before it. */
static void start_cell(struct run *run)
{
    struct error err = {0};
    CLEANUP(strv_freep) char **env = run_cell_env(run, &err);
    struct cell_spec spec = {
        .kernel = run->kernel,
        .code = run->code,
        .code_length = run->code_length,
        .input = run->input,
        .input_length = run->input_length,
        .env = (const char *const *)env,
        .timeout_ms = run->result.limits.timeout_ms,
        .is_script = true,
    };

    if (!env || box_cell(run->box, &spec, &exec_events, run, &run->call, &err) < 0)
        run_over(run, &err);
    else
        run->is_running = true;
}

static void start(struct run *run)
{
    if (run->kernel)
        start_cell(run);
    else
        start_program(run);
}

static void on_checked(void *ctx, const struct error *err)
{
    struct run *run = ctx;

    run->check = NULL;
    if (err)
        run_over(run, err);
    else
        start(run);
}

static void check_or_start(struct run *run)
{
    struct check_spec spec = {.program = run->program,
                              .code = run->code,
                              .length = run->code_length,
                              .done = on_checked,
                              .ctx = run,
                              .modules = &run->result.blocked_imports};
    struct error err = {0};

    if (!run->engine->spec.config->block_imports || !str_equal(run->language->name, "python"))
        start(run);
    else if (check_start(run->engine, run->box, &spec, &run->check, &err) < 0)
        run_over(run, &err);
}

/* ---- the source ---- */

static void on_put(void *ctx, const struct error *err)
{
    struct run *run = ctx;

    if (err->num < 0)
        run_over(run, err);
    else
        check_or_start(run);
}

static void push_code(void *ctx)
{
    struct run *run = ctx;

    while (run->code_sent < run->code_length) {
        long taken = box_put_data(run->box, run->call, run->code + run->code_sent,
                                  run->code_length - run->code_sent);

        if (taken <= 0)
            return;
        run->code_sent += (size_t)taken;
    }
    box_put_end(run->box, run->call);
}

static const struct put_events put_events = {.done = on_put, .more = push_code};

static void put_code(struct run *run)
{
    char path[300];
    struct put_spec put = {.path = path, .mode = 0644};
    struct error err = {0};

    str_format(path, sizeof(path), "/workspace/%s", run->words[1]);
    if (box_put(run->box, &put, &put_events, run, &run->call, &err) < 0)
        run_over(run, &err);
    else
        push_code(run);
}

void run_source(struct run *run)
{
    if (run->kernel)
        check_or_start(run); /* a kernel writes it down itself */
    else
        put_code(run);
}

static void on_made(void *ctx, const struct made *made)
{
    struct run *run = ctx;
    struct error err = {0};

    run->make_serial = 0;
    run->number = made->number;
    run->box = made->box;
    account_box(run->engine, made, run->make_asked_ns);
    outcome_walls(&run->result, &made->facts);
    run->is_wall = made->is_wall;
    if (made->fallback && run_fall_back(run, made->fallback) < 0) {
        error_set(&err, -ENOMEM, ERROR_ENGINE, "out of memory");
        run_over(run, &err);
    } else if (pump_start(&run->pump, run->engine->spec.reactor, run->box, on_lost, run) < 0) {
        error_set(&err, -ENOMEM, ERROR_ENGINE, "out of memory");
        run_over(run, &err);
    } else {
        run_take_kernel(run, made);
        run_cargo_put(run);
    }
}

static void on_refused(void *ctx, const struct error *err, const struct box_facts *facts)
{
    struct run *run = ctx;

    run->make_serial = 0;
    outcome_walls(&run->result, facts);
    run_over(run, err);
}

static const struct make_events make_events = {.made = on_made, .refused = on_refused};

static int check_spec(struct engine *engine, const struct run_spec *spec,
                      const struct engine_language **ret, struct error *err)
{
    *ret = engine_language(engine, spec->language);
    if (!*ret)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "language: '%.40s' is not one that may run here", spec->language);
    if (!(*ret)->program)
        return error_set(err, -ENOENT, ERROR_NO_INTERPRETER, "%s", (*ret)->missing);
    if (spec->code_length > LIMIT_CODE_BYTES)
        return error_set(err, -EFBIG, ERROR_TOO_LARGE, "code: at most %llu MB",
                         (unsigned long long)(LIMIT_CODE_BYTES / MIB));
    if (engine->is_stopping)
        return error_set(err, -ESHUTDOWN, ERROR_SHUTTING_DOWN, "the daemon is stopping");
    return 0;
}

static int copy_spec(struct run *run, const struct run_spec *spec,
                     const struct engine_template *furniture)
{
    CLEANUP(json_decrefp) json_t *given = furniture_env(furniture);

    run->env = env_vector(given, spec->env);
    run->words = run_words(run, spec);
    run->keeps_nothing = spec->keeps_nothing;
    run->sink = spec->sink;
    run->code = malloc(spec->code_length + 1);
    run->code_length = spec->code_length;
    if (spec->input)
        run->input = malloc(spec->input_length + 1);
    run->input_length = spec->input_length;
    if (!run->env || !run->words || !run->code || (spec->input && !run->input) || !run->timer)
        return -ENOMEM;
    memcpy(run->code, spec->code, spec->code_length);
    if (spec->input)
        memcpy(run->input, spec->input, spec->input_length);
    return 0;
}

int run_make(struct run *run, struct error *err)
{
    struct engine *engine = run->engine;
    struct make_request request = {
        .key = run->key,
        .limits = run->result.limits,
        .minimum = engine->spec.config->isolation,
        .has_packages = run->package_layer[0],
        .layer = run->layer[0] ? run->layer : NULL,
        .is_warm = engine->spec.config->is_warm && run->language->driver &&
                   str_equal(run->language->name, "python"),
    };

    request.tier = request.is_warm ? run->tier : 0;
    run->has_input = run->input;
    run->make_asked_ns = clock_now_ns();
    return turns_make(engine->turns, run->tenant, &request, &make_events, run, &run->make_serial,
                      err);
}

static void begin_result(struct run *run, const struct limits *limits)
{
    result_init(&run->result, limits);
    run->result.runtime = run->engine->spec.config->type;
    run->result.warm = warm_name(WARM_COLD);
    id_make(run->result.execution_id, "exec");
}

int engine_run(struct engine *engine, const struct run_spec *spec,
               void (*done)(void *ctx, struct result *result), void *ctx, struct run **ret,
               struct error *err)
{
    struct limits limits = engine->spec.config->limits;
    const struct engine_language *language;
    struct engine_template furniture = {0};
    struct run *run;
    int r = check_spec(engine, spec, &language, err);

    if (r == 0)
        r = engine_template(engine, spec->template_name, &furniture, err);
    if (r < 0)
        return account_refused(engine, "run", spec->tenant, err);
    run = calloc(1, sizeof(*run));
    if (!run)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    if (spec->timeout_ms)
        limits.timeout_ms = spec->timeout_ms;
    if (spec->output_bytes)
        limits.output_bytes = spec->output_bytes;
    run->engine = engine;
    str_copy(run->tenant, sizeof(run->tenant), spec->tenant ? spec->tenant : TENANT_LOCAL);
    run->language = language;
    run->program = furniture_program(language, furniture.layer, false);
    run->timer = reactor_timer(engine->spec.reactor, on_turn, run);
    begin_result(run, &limits);
    id_make(run->key, "r");
    str_copy(run->layer, sizeof(run->layer), furniture.layer ? furniture.layer : "");
    run->tier = engine_tier(engine, &furniture, spec->code, spec->code_length);
    run->account = account_new(engine, spec->code, spec->code_length);
    run->next = engine->runs;
    engine->runs = run;
    r = copy_spec(run, spec, &furniture);
    if (r < 0)
        error_set(err, r, ERROR_ENGINE, "out of memory");
    else
        r = run_cargo_new(run, spec, err);
    if (r == 0)
        r = run_take(run, err);
    if (r == 0)
        r = run_cargo_needs(run) ? run_cargo_install(run, err) : run_make(run, err);
    if (r < 0) {
        run_free(run);
        return account_refused(engine, "run", spec->tenant, err);
    }
    account_run_started(run);
    run->done = done;
    run->ctx = ctx;
    *ret = run;
    return 0;
}
