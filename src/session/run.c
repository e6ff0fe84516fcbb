/*
 * run.c - a one-shot run in the daemon: the recipe (recipe/recipe.h), carried out on the reactor in
 * a fresh box, of which nothing is left. A command without a daemon has oneshot/oneshot.c instead.
 *
 * A box that came with a warm kernel gets the source as one cell, which ends with its kernel: how
 * is the provider's to say (run_kernel_ended), before or after the box tells that all output is
 * there. One that lacks a module may get it and run a second time, in a second box (run_retry.c).
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/worker.h"
#include "recipe/output.h"
#include "runtime/outcome.h"
#include "session/run_private.h"
#include "store/artifact.h"

#define STATUS_PATIENCE_MS 1000 /* for the provider's word about a kernel that has ended */

/* What its tenant may have: one more that runs, and its memory. */
static int run_take(struct run *run, struct error *err)
{
    uint64_t memory = run->result.limits.memory_bytes;
    int r = usage_take(run->manager, run->tenant, QUOTA_CPU, 0, err);

    if (r == 0)
        r = usage_take(run->manager, run->tenant, QUOTA_MEMORY, memory, err);
    if (r < 0)
        return r;
    run->held_memory = memory;
    r = usage_take(run->manager, run->tenant, QUOTA_RUNS, 1, err);
    run->is_counted = r == 0;
    if (run->is_counted) {
        tenant_works(run->manager->tenants, run->tenant);
        usage_watch(run->manager);
    }
    return r;
}

static void run_give_back(struct run *run)
{
    tenant_give(run->manager->tenants, run->tenant, QUOTA_MEMORY, run->held_memory);
    tenant_give(run->manager->tenants, run->tenant, QUOTA_RUNS, run->is_counted);
    if (run->is_counted)
        tenant_rests(run->manager->tenants, run->tenant);
    run->held_memory = 0;
    run->is_counted = false;
}

static void run_free(struct run *run)
{
    for (struct run **at = &run->manager->runs; *at; at = &(*at)->next) {
        if (*at == run) {
            *at = run->next;
            break;
        }
    }
    run_give_back(run);
    run->manager->spec.reactor->ops->timer_remove(run->timer);
    pump_stop(&run->pump);
    import_check_leave(run->import_check);
    run_packages_free(run);
    run_leave(run);
    run_files_free(run);
    box_free(run->box);
    result_free(&run->result);
    recipe_free(&run->recipe);
    account_free(run->account);
    if (!run->keeper) {
        free((char *)run->code);
        free((char *)run->input);
    }
    json_decref(run->keeper);
    settings_release(run->settings);
    free(run);
}

void runs_free(struct session_manager *manager)
{
    for (struct run *run = manager->runs; run; run = run->next)
        run->done = NULL;
    if (manager->writer)
        worker_finish(manager->writer); /* frees those whose record was still to be written */
    while (manager->runs)
        run_free(manager->runs);
}

/* ---- the end ---- */

static void stored(void *ctx)
{
    struct run *run = ctx;
    struct session_manager *manager = run->manager;

    if (run->done)
        run->done(run->ctx, &run->result);
    run_free(run);
    session_manager_later(manager);
}

/* What is remembered of it; its end is told afterwards. */
static void run_store(struct run *run)
{
    const struct recipe *recipe = &run->recipe;
    struct artifact artifact = {
        .language = recipe->language,
        .code = recipe->code,
        .code_length = recipe->code_length,
        .env = (const char *const *)recipe->env + recipe->env_given,
        .result = &run->result,
    };

    if (run->keeps_nothing || !recipe->language || !recipe_stores(recipe->config, &run->result))
        stored(run);
    else
        code_write(run->manager, run->tenant, &artifact,
                   &(struct code_write_spec){.done = stored, .ctx = run});
}

static void tell(struct run *run)
{
    usage_run(run);
    outcome_failed(&run->result);
    if (run_install(run))
        return;
    run->result.install = ptr_take(&run->install);
    account_run(run);
    run_store(run);
}

/* What the box used: by now, or in all. */
static void on_used(void *ctx, const struct box_facts *facts)
{
    struct run *run = ctx;

    if (facts)
        outcome_usage(&run->result, facts);
    tell(run);
}

/* All of it is known; but it may be that its end leads to something. */
static void run_ended(struct run *run)
{
    if (!run_look(run))
        run_step_done(run, RECIPE_PROGRAM);
}

/* A warm kernel has ended: the provider reports the status, or it stays unknown. */
static void kernel_ended(struct run *run)
{
    outcome_status(&run->result, run->has_status ? &run->status : NULL);
    run_ended(run);
}

/*
 * A control group has counted everything when the program ends, so the end of the box is not waited
 * for: it takes as long as many a program. Both are asked for at once; the provider keeps the
 * order.
 */
static void end_box(struct run *run)
{
    struct provider *provider = run->manager->provider;
    struct box *box = ptr_take(&run->box);
    uint32_t number = run->number;
    bool is_counted = run->result.memory_by == LIMIT_BY_CGROUP_V1 ||
                      run->result.memory_by == LIMIT_BY_CGROUP_V2 ||
                      run->result.memory_by == LIMIT_BY_CONTAINER;

    fair_queue_over(run->manager->fair_queue, number);
    if (is_counted)
        provider->ops->usage(provider, number, on_used, run); /* it may be freed by this */
    provider->ops->end(provider, number, box, is_counted ? NULL : on_used, run);
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
        !run->list) { /* the status did not come in time */
        kernel_ended(run);
        return;
    }
    if (!run->is_over)
        return;
    pump_stop(&run->pump);
    import_check_leave(ptr_take(&run->import_check));
    local_module_leave(ptr_take(&run->look));
    run_packages_free(run);
    run_list_leave(run);
    if (run->make_serial)
        fair_queue_cancel(run->manager->fair_queue, run->make_serial);
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
    run->manager->spec.reactor->ops->timer_set(run->timer, 0);
}

static void on_lost(void *ctx, const struct error *err)
{
    struct run *run = ctx;

    run_over(run, run->look || run->list ? NULL : err); /* the program had ended before */
}

void session_manager_run_cancel(struct run *run)
{
    struct error err = {0};

    run->done = NULL;
    run->sink = NULL; /* output that is on its way may come before the turn in which it ends */
    recipe_cancelled(&err);
    run_over(run, &err);
}

void runs_fail(struct session_manager *manager, const struct error *err)
{
    for (struct run *run = manager->runs; run; run = run->next)
        run_over(run, err);
}

void run_box_ended(struct session_manager *manager, uint32_t number, unsigned why)
{
    struct error err = {0};

    for (struct run *run = manager->runs; run; run = run->next) {
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

    if (stream == BOX_EVENTS) /* a script has none: a guest forged them */
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

    recipe_ended(&run->recipe, &run->result, end);
    usage_told(run, &end->usage);
    run->is_running = false;
    if (!run->kernel || run->warden_owns_kernel || (!end->status_external && !end->kernel_died)) {
        run_ended(run);
        return;
    }
    run->has_ended = true;
    if (run->has_status || end->timed_out) {
        kernel_ended(run);
    } else {
        run->manager->spec.reactor->ops->timer_set(run->timer, STATUS_PATIENCE_MS);
    }
}

void run_kernel_ended(struct session_manager *manager, const struct kernel_end *end)
{
    usage_kernel(manager, end); /* of one that is over */
    for (struct run *run = manager->runs; run; run = run->next) {
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
            kernel_ended(run);
        }
        return;
    }
}

static void on_failed(void *ctx, const struct error *err)
{
    struct run *run = ctx;
    struct error told = *err;

    recipe_not_started(&run->recipe, run->provider, run->result.layers, &told);
    run_over(run, &told);
}

static const struct exec_events exec_events = {
    .output = on_output, .ended = on_ended, .failed = on_failed, .stdin_ready = push_input};

static void start_program(struct run *run)
{
    struct exec_spec spec = recipe_exec(&run->recipe);
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
        .code = run->recipe.code,
        .code_length = run->recipe.code_length,
        .input = run->input,
        .input_length = run->input_length,
        .env = (const char *const *)env,
        .timeout_ms = run->recipe.timeout_ms,
        .is_script = true,
    };

    if (!env || box_cell(run->box, &spec, &exec_events, run, &run->call, &err) < 0)
        run_over(run, &err);
    else
        run->is_running = true;
}

static void start(struct run *run)
{
    if (run->recipe.has_kernel)
        start_cell(run);
    else
        start_program(run);
}

static void on_checked(void *ctx, const struct error *err)
{
    struct run *run = ctx;

    run->import_check = NULL;
    if (err)
        run_over(run, err);
    else
        run_step_done(run, RECIPE_IMPORTS);
}

static void check_imports(struct run *run)
{
    struct import_check_spec spec = {.program = run->recipe.argv[0],
                                     .code = run->recipe.code,
                                     .length = run->recipe.code_length,
                                     .done = on_checked,
                                     .ctx = run,
                                     .modules = &run->result.blocked_imports,
                                     .config = run_config(run)};
    struct error err = {0};

    if (import_check_start(run->box, &spec, &run->import_check, &err) < 0)
        run_over(run, &err);
}

/* ---- the source ---- */

static void on_put(void *ctx, const struct error *err)
{
    struct run *run = ctx;
    struct error told = *err;

    if (told.num == 0) {
        run_step_done(run, RECIPE_SOURCE);
        return;
    }
    recipe_not_put(run->recipe.path, &told);
    run_over(run, &told);
}

static void push_code(void *ctx)
{
    struct run *run = ctx;

    const struct recipe *recipe = &run->recipe;

    while (run->code_sent < recipe->code_length) {
        long taken = box_put_data(run->box, run->call, recipe->code + run->code_sent,
                                  recipe->code_length - run->code_sent);

        if (taken <= 0)
            return;
        run->code_sent += (size_t)taken;
    }
    box_put_end(run->box, run->call);
}

static const struct put_events put_events = {.done = on_put, .more = push_code};

static void put_code(struct run *run)
{
    struct put_spec put = {.path = run->recipe.path, .mode = 0644};
    struct error err = {0};

    if (box_put(run->box, &put, &put_events, run, &run->call, &err) < 0)
        run_over(run, &err);
    else
        push_code(run);
}

/* ---- the order ---- */

static void begin_step(struct run *run, enum recipe_step step)
{
    switch (step) {
    case RECIPE_FILES:
        run_files_put(run);
        break;
    case RECIPE_SOURCE:
        put_code(run);
        break;
    case RECIPE_IMPORTS:
        check_imports(run);
        break;
    case RECIPE_PROGRAM:
        start(run);
        break;
    case RECIPE_OUTPUT:
        if (!run_list(run))
            run_over(run, NULL);
        break;
    case RECIPE_OVER:
        run_over(run, NULL);
        break;
    }
}

void run_step_done(struct run *run, enum recipe_step step)
{
    struct error err = {0};

    if (step == RECIPE_PROGRAM && run->is_stopped) {
        recipe_cancelled(&err);
        run_over(run, &err);
    }
    if (!run->is_over)
        begin_step(run, recipe_next(&run->recipe, step));
}

static void on_pip_ready(struct run *run)
{
    if (!run->is_over)
        begin_step(run, RECIPE_FILES);
}

static void on_made(void *ctx, const struct made *made)
{
    struct run *run = ctx;
    struct error err = {0};

    run->make_serial = 0;
    run->number = made->number;
    run->box = made->box;
    account_box(run->manager, made, run->make_asked_ns);
    outcome_isolation(&run->result, &made->facts);
    run->provider = made->provider;
    run->result.runtime = provider_runtime(made->provider);
    if (made->fallback && run_fall_back(run, made) < 0) {
        error_memory(&err);
        run_over(run, &err);
    } else if (pump_start(&run->pump, run->manager->spec.reactor, run->box, on_lost, run) < 0) {
        error_memory(&err);
        run_over(run, &err);
    } else {
        run_take_kernel(run, made);
        if (!guest_install_of_run(run, on_pip_ready))
            begin_step(run, RECIPE_FILES);
    }
}

static void on_refused(void *ctx, const struct error *err, const struct box_facts *facts)
{
    struct run *run = ctx;

    run->make_serial = 0;
    outcome_isolation(&run->result, facts);
    run_over(run, err);
}

static const struct make_events make_events = {.made = on_made, .refused = on_refused};

static int check_spec(struct session_manager *manager, const struct run_spec *spec,
                      const struct config *config, const struct session_language **ret,
                      struct error *err)
{
    const char *program;

    *ret = session_manager_language(manager, spec->language);
    if (!*ret)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "language: '%.40s' is not one that may run here", spec->language);
    if (session_manager_interpreter(manager, config, config_provider(config), *ret, &program, NULL,
                                    err) < 0)
        return err->num;
    if (spec->code_length > LIMIT_CODE_BYTES)
        return error_set(err, -EFBIG, ERROR_TOO_LARGE, "code: at most %llu MB",
                         (unsigned long long)(LIMIT_CODE_BYTES / MIB));
    if (manager->is_stopping)
        return error_set(err, -ESHUTDOWN, ERROR_SHUTTING_DOWN, "the daemon is stopping");
    return 0;
}

static char **words_of(json_t *arguments)
{
    CLEANUP(strv_freep) char **words = strv_new();
    int r = words ? 0 : -ENOMEM;

    for (size_t i = 0; i < json_array_size(arguments) && r == 0; i++)
        r = strv_push(&words, json_string_value(json_array_get(arguments, i)));
    return r < 0 ? NULL : ptr_take(&words);
}

static int copy_spec(struct run *run, const struct run_spec *spec,
                     const struct session_template *found_template, struct error *err)
{
    const struct session_language *language = run->language;
    CLEANUP(strv_freep) char **env = env_vector(NULL, spec->env);
    CLEANUP(strv_freep) char **words = words_of(spec->arguments);

    run->keeps_nothing = spec->keeps_nothing;
    run->sink = spec->sink;
    run->keeper = json_incref(spec->keeper);
    run->code = spec->keeper ? spec->code : text_copy(spec->code, spec->code_length);
    if (spec->input)
        run->input = spec->keeper ? spec->input : text_copy(spec->input, spec->input_length);
    run->input_length = spec->input_length;
    if (!env || !words || !run->code || (spec->input && !run->input) || !run->timer)
        return error_memory(err);
    return recipe_make(&run->recipe,
                       &(struct recipe_spec){
                           .config = run_config(run),
                           .language = language->name,
                           .program = template_env_program(run->manager, run_config(run), language,
                                                           found_template->layer,
                                                           config_provider(run_config(run))),
                           .name = spec->name ? spec->name : language->script,
                           .code = run->code,
                           .code_length = spec->code_length,
                           .arguments = (const char *const *)words,
                           .template_env = found_template->env,
                           .env = (const char *const *)env,
                           .has_input = spec->input,
                           .timeout_ms = run->result.limits.timeout_ms,
                       },
                       err);
}

int run_make(struct run *run, struct error *err)
{
    struct session_manager *manager = run->manager;
    const struct config *config = run_config(run);
    struct make_request request = {
        .key = run->key,
        .provider = config_provider(config),
        .fallback = config_fallback(config),
        .limits = run->result.limits,
        .minimum = config->isolation,
        .has_packages = run->package_layer[0] || run->hears_pip,
        .layer = run->layer[0] ? run->layer : NULL,
        .is_warm = manager->spec.config->is_warm && run->language->driver &&
                   str_equal(run->language->name, "python"),
    };

    request.is_warm &= request_interpreters(manager, config, &request);
    if (run_packages_folder(run, err) < 0)
        return err->num;
    request.tier = request.is_warm ? run->tier : 0;
    run->has_input = run->input;
    run->make_asked_ns = clock_now_ns();
    return fair_queue_make(manager->fair_queue, run->tenant, &request, &make_events, run,
                           &run->make_serial, err);
}

static void begin_result(struct run *run, const struct limits *limits)
{
    result_init(&run->result, limits);
    recipe_begin(run_config(run), &run->result);
    run->result.warm = warm_name(WARM_COLD);
}

int session_manager_run(struct session_manager *manager, const struct run_spec *spec,
                        void (*done)(void *ctx, struct result *result), void *ctx, struct run **ret,
                        struct error *err)
{
    const struct session_language *language = NULL;
    struct session_template found_template = {0};
    struct settings *settings = NULL;
    const struct config *config;
    struct limits limits;
    struct run *run;
    int r = settings_of_caller(manager, spec->caller, &settings, err);

    config = settings ? &settings->config : manager->spec.config;
    if (r == 0)
        r = check_spec(manager, spec, config, &language, err);
    if (r == 0)
        r = session_manager_template_of(manager, config, spec->template_name, &found_template, err);
    if (r < 0)
        return account_refused(manager, "run", spec->tenant, err);
    run = calloc(1, sizeof(*run));
    if (!run)
        return error_memory(err);
    limits = config->limits;
    run->settings = settings_hold(settings);
    if (spec->timeout_ms)
        limits.timeout_ms = spec->timeout_ms;
    if (spec->output_bytes)
        limits.output_bytes = spec->output_bytes;
    run->manager = manager;
    str_copy(run->tenant, sizeof(run->tenant), spec->tenant ? spec->tenant : TENANT_LOCAL);
    run->language = language;
    run->timer = reactor_timer(manager->spec.reactor, on_turn, run);
    begin_result(run, &limits);
    id_make(run->key, "r");
    str_copy(run->layer, sizeof(run->layer), found_template.layer ? found_template.layer : "");
    run->tier = session_manager_tier(manager, &found_template, spec->code, spec->code_length);
    run->account =
        account_new(config, spec->caller, spec->code, spec->code_length, LIMIT_AUDIT_CODE);
    run->next = manager->runs;
    manager->runs = run;
    run->hears_pip = run_packages_wanted(run, spec);
    r = copy_spec(run, spec, &found_template, err);
    if (r == 0)
        r = run_files_new(run, spec, err);
    if (r == 0)
        r = run_take(run, err);
    if (r == 0)
        r = run_files_needs(run) ? run_files_install(run, err) : run_make(run, err);
    if (r < 0) {
        run_free(run);
        return account_refused(manager, "run", spec->tenant, err);
    }
    account_run_started(run);
    run->done = done;
    run->ctx = ctx;
    *ret = run;
    return 0;
}

/* ---- the words of a warm kernel ---- */

char **run_cell_env(const struct run *run, struct error *err)
{
    CLEANUP(strv_freep) char **env = strv_copy((const char *const *)run->recipe.env);
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_ARGV_BYTES);
    int r = env ? 0 : -ENOMEM;

    /* No variable has an empty name: what begins with '=' is a word (docs/kernels.md). */
    for (char **word = run->recipe.argv + 1; *word && r == 0; word++) {
        buf_clear(&text);
        r = buf_printf(&text, "=%s", *word);
        if (r == 0)
            r = strv_push(&env, buf_text(&text));
    }
    if (r < 0)
        error_set(err, r, r == -EFBIG ? ERROR_TOO_LARGE : ERROR_ENGINE, "its arguments: %s",
                  strerror(-r));
    return r < 0 ? NULL : ptr_take(&env);
}

/* ---- the kernel that came with the box ---- */

static size_t on_kernel_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    (void)ctx;
    (void)stream;
    (void)data;
    return length;
}

static void on_kernel_ended(void *ctx, const struct exec_end *end)
{
    (void)ctx, (void)end; /* its end is the cell's, and the provider's to explain */
}

static void on_kernel_failed(void *ctx, const struct error *err)
{
    (void)ctx, (void)err;
}

const struct exec_events run_kernel_events = {
    .output = on_kernel_output, .ended = on_kernel_ended, .failed = on_kernel_failed};

void run_take_kernel(struct run *run, const struct made *made)
{
    struct error err = {0};

    if (!made->kernel || !str_equal(run->language->name, "python") ||
        box_kernel_given(run->box, made->kernel, made->warden_owns_kernel, &run_kernel_events, run,
                         &err) < 0)
        return;
    run->warden_owns_kernel = made->warden_owns_kernel;
    run->kernel = made->kernel;
    run->recipe.has_kernel = true;
    run->result.warm = warm_name(made->is_pooled ? WARM_POOL : WARM_ZYGOTE);
}

/* ---- a box of another kind ---- */

int run_fall_back(struct run *run, const struct made *made)
{
    return recipe_fall_back(
        &run->recipe, &run->result, made->wanted->name, made->fallback,
        template_env_program(run->manager, run_config(run), run->language, false, made->provider));
}

/* ---- who reads along, and who has enough ---- */

void session_manager_run_resume(struct run *run, int stream)
{
    run->has_room[stream - 1] = true;
    session_manager_later(run->manager); /* we may be inside of a callback of the box */
}

void runs_resume(struct session_manager *manager)
{
    for (struct run *run = manager->runs; run; run = run->next) {
        for (int i = 0; i < 2; i++) {
            if (!run->has_room[i])
                continue;
            run->has_room[i] = false;
            if (run->box && run->call && !run->is_over)
                box_resume(run->box, run->call, (enum box_stream)(i + 1));
        }
    }
}

const char *session_manager_run_id(const struct run *run)
{
    return run->result.execution_id;
}

const char *session_manager_run_tenant(const struct run *run)
{
    return run->tenant;
}

const char *session_manager_box_tenant(const struct session_manager *manager, uint32_t number)
{
    for (const struct session *session = manager->sessions; session; session = session->next) {
        if (session->box && session->number == number)
            return session->tenant;
    }
    for (const struct run *run = manager->runs; run; run = run->next) {
        if (run->box && run->number == number)
            return run->tenant;
    }
    return NULL;
}

struct run *session_manager_run_find(struct session_manager *manager, const char *id)
{
    struct run *run = manager->runs;

    while (run && !str_equal(run->result.execution_id, id))
        run = run->next;
    return run;
}

void session_manager_run_stop(struct run *run)
{
    struct error err = {0};

    if (run->is_over || run->is_stopped)
        return;
    run->is_stopped = true;
    if (run->is_running) {
        box_signal(run->box, run->call, SIGKILL);
        return;
    }
    recipe_cancelled(&err);
    run_over(run, &err);
}

/* ---- what it left ---- */

struct run_list {
    uint32_t op;
    struct output_listing listing;
};

static void list_free(struct run *run)
{
    if (run->list)
        output_listing_free(&run->list->listing);
    free(ptr_take(&run->list));
}

static void on_entry(void *ctx, const struct box_entry *entry)
{
    struct run *run = ctx;

    if (S_ISDIR(entry->mode))
        return;
    if (run_files_entry(run, entry))
        run->result.total_output_files++;
    else
        output_listing_add(&run->list->listing, entry);
}

/* A folder that the guest removed has no files: not an error. */
static void on_listed(void *ctx, const struct error *ignored)
{
    struct run *run = ctx;

    (void)ignored;
    run->list->op = 0;
    if (!run_files_fetch(run))
        run_listed(run);
}

void run_listed(struct run *run)
{
    struct error err = {0};
    int r = output_listing_report(&run->list->listing, &err);

    list_free(run);
    run_over(run, r < 0 ? &err : NULL);
}

bool run_list(struct run *run)
{
    static const struct list_events events = {.entry = on_entry, .done = on_listed};
    struct error err = {0};

    if (run->list)
        return true;
    run->list = calloc(1, sizeof(*run->list));
    if (!run->list)
        return false;
    run->list->listing.result = &run->result;
    if (box_list(run->box, OUTPUT_FOLDER, 0, &events, run, &run->list->op, &err) == 0)
        return true;
    free(ptr_take(&run->list));
    return false;
}

void run_list_leave(struct run *run)
{
    if (run->list && run->list->op && run->box)
        box_cancel(run->box, run->list->op);
    run_files_leave(run);
    list_free(run);
}
