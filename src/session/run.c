/*
 * run.c - a one-shot run in the daemon: a fresh box, the source put into it, the interpreter, the
 * result; then nothing is left. The blocking twin is tool/oneshot.c, which makes its box itself.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "guest_files.h"
#include "session/imports.h"
#include "session/inside.h"
#include "store/artifact.h"

#define CHECK_TIMEOUT_MS 10000
#define CHECK_OUTPUT_MAX (256 * 1024)

struct run {
    struct run *next;
    struct engine *engine;
    const struct engine_language *language;
    char *code, *input;
    size_t code_length, code_sent, input_length, input_sent;
    char **env;
    struct result result;
    void (*done)(void *ctx, struct result *result); /* NULL: cancelled */
    void *ctx;

    uint32_t make_serial, number;
    struct box *box;
    struct pump pump;
    uint32_t call;
    struct buf checked; /* what the import check said */
    bool is_over;       /* the box is to be given back */
    struct reactor_timer *timer;
};

static void run_free(struct run *run)
{
    for (struct run **at = &run->engine->runs; *at; at = &(*at)->next) {
        if (*at == run) {
            *at = run->next;
            break;
        }
    }
    run->engine->spec.reactor->ops->timer_remove(run->timer);
    pump_stop(&run->pump);
    box_free(run->box);
    result_free(&run->result);
    buf_free(&run->checked);
    strv_free(run->env);
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

static void store_artifact(struct run *run)
{
    const struct config *config = run->engine->spec.config;
    const struct result *result = &run->result;
    CLEANUP(freep) char *path = NULL;
    struct error err = {0};
    struct artifact artifact = {
        .folder = run->engine->spec.folders.artifacts,
        .folder_fd = &run->engine->spec.folders.artifacts_fd,
        .language = run->language->name,
        .code = run->code,
        .code_length = run->code_length,
        .env = (const char *const *)run->env,
        .result = result,
    };
    bool failed = result->exit_code != 0 || result->error.code;

    if (config->store_code == STORE_NEVER || (config->store_code == STORE_ON_ERROR && !failed))
        return;
    if (artifact_write(&artifact, &path, &err) < 0)
        log_warning("artifact of %s: %s, continuing without it", result->execution_id, err.text);
}

static void note_facts(struct result *result, const struct box_facts *facts)
{
    result->layers = facts->layers;
    result->missing = facts->missing;
    result->memory_by = facts->memory_by;
    result->pids_by = facts->pids_by;
    result->cpu_by = facts->cpu_by;
    result->disk_by = facts->disk_by;
}

static void tell(struct run *run)
{
    struct engine *engine = run->engine;
    struct result *result = &run->result;

    if (result->error.code && result->error.code != ERROR_CANCELLED && result->duration_ns == 0)
        result->exit_code = 1;
    store_artifact(run);
    if (run->done)
        run->done(run->ctx, result);
    run_free(run);
    engine_later(engine);
}

static void on_gone(void *ctx, const struct box_facts *facts)
{
    struct run *run = ctx;

    if (facts) {
        run->result.usage = facts->usage;
        run->result.oom_killed |= facts->oom_kills > 0;
    }
    tell(run);
}

/* In a turn of its own: the box may not be freed under its callbacks. */
static void on_turn(void *ctx)
{
    struct run *run = ctx;
    struct maker *maker = run->engine->maker;

    if (!run->is_over)
        return;
    pump_stop(&run->pump);
    if (run->make_serial)
        maker->ops->make_cancel(maker, run->make_serial);
    run->make_serial = 0;
    if (run->box)
        maker->ops->end(maker, run->number, ptr_take(&run->box), on_gone, run);
    else
        tell(run);
}

static void run_over(struct run *run, const struct error *err)
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
    run_over(ctx, err);
}

void engine_run_cancel(struct run *run)
{
    struct error err = {0};

    run->done = NULL;
    error_set(&err, -ECANCELED, ERROR_CANCELLED, "the run was ended by its caller");
    run_over(run, &err);
}

void runs_fail(struct engine *engine, const struct error *err)
{
    for (struct run *run = engine->runs; run; run = run->next)
        run_over(run, err);
}

void run_box_ended(struct engine *engine, uint32_t number)
{
    struct error err = {0};

    error_set(&err, -EPIPE, ERROR_BOX_LOST, "the box was lost: its warden is gone");
    for (struct run *run = engine->runs; run; run = run->next) {
        if (run->box && run->number == number && run->call == 0)
            run_over(run, &err); /* else its channel tells, behind its last output */
    }
}

/* ---- the program ---- */

static size_t on_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct run *run = ctx;
    struct result *result = &run->result;

    capture_add(stream == BOX_STDOUT ? &result->out : &result->err, data, length,
                result->limits.output_bytes);
    return length;
}

static void push_input(void *ctx)
{
    struct run *run = ctx;
    long taken = 0;

    if (!run->input)
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
        free(run->input);
        run->input = NULL;
    }
}

static void on_ended(void *ctx, const struct exec_end *end)
{
    struct run *run = ctx;
    struct result *result = &run->result;

    result->duration_ns = end->duration_ns;
    result->disk_full = end->disk_full;
    result->oom_killed = end->memory_watchdog;
    result->exit_code = end->exit_code;
    if (end->timed_out) {
        result->timed_out = true;
        result->exit_code = -1;
        result_note(result, "timed out after %g s", (double)result->limits.timeout_ms / 1000);
    } else if (end->signal) {
        result->signal = end->signal;
        result->exit_code = 128 + end->signal;
    }
    run_over(run, NULL);
}

static void on_failed(void *ctx, const struct error *err)
{
    run_over(ctx, err);
}

static const struct exec_events exec_events = {
    .output = on_output, .ended = on_ended, .failed = on_failed, .stdin_ready = push_input};

static void start_program(struct run *run)
{
    const char *argv[] = {run->language->program, run->language->script, NULL};
    struct exec_spec spec = {
        .argv = argv,
        .env = (const char *const *)run->env,
        .stdin_open = run->input != NULL,
        .ends_box = true,
        .timeout_ms = run->result.limits.timeout_ms,
    };
    struct error err = {0};

    if (box_exec(run->box, &spec, &exec_events, run, &run->call, &err) < 0)
        run_over(run, &err);
    else
        push_input(run);
}

/* ---- the import check: with Python's own parser, in the box; nothing of the code runs ---- */

static size_t on_checked_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct run *run = ctx;

    if (stream == BOX_STDOUT && buf_append(&run->checked, data, length) < 0)
        buf_append_text(&run->checked, "!"); /* cut: it will not parse */
    return length;
}

static void on_checked(void *ctx, const struct exec_end *end)
{
    struct run *run = ctx;
    CLEANUP(buf_free) struct buf message = BUF_INIT(IMPORTS_MESSAGE_MAX);
    struct error err = {0};
    int r;

    (void)end;
    r = imports_parse(buf_text(&run->checked), run->checked.length, &run->result.blocked_imports,
                      &message, &err);
    if (r > 0)
        error_set(&err, -EPERM, ERROR_BLOCKED_IMPORT, "%s", buf_text(&message));
    if (r != 0)
        run_over(run, &err);
    else
        start_program(run);
}

static const struct exec_events check_events = {
    .output = on_checked_output, .ended = on_checked, .failed = on_failed};

static void start_check(struct run *run)
{
    CLEANUP(buf_free) struct buf list = BUF_INIT(LIMIT_CONFIG_BYTES);
    CLEANUP(buf_free) struct buf checker = BUF_INIT(LIMIT_CONFIG_BYTES);
    const char *argv[] = {run->language->program, "-I", "-S", "-c", NULL,
                          run->language->script,  NULL, NULL};
    struct exec_spec spec = {.argv = argv, .timeout_ms = CHECK_TIMEOUT_MS};
    struct error err = {0};
    uint32_t call;
    int r = buf_append(&checker, guest_check_imports_py, guest_check_imports_py_length);

    for (char **at = run->engine->spec.config->blocked_imports; at && *at && r == 0; at++)
        r = buf_printf(&list, "%s%s", list.length ? "," : "", *at);
    if (r < 0)
        error_set(&err, r, ERROR_ENGINE, "the list of blocked imports is too long");
    argv[4] = buf_text(&checker);
    argv[6] = buf_text(&list);
    if (r == 0)
        r = box_exec(run->box, &spec, &check_events, run, &call, &err);
    if (r < 0)
        run_over(run, &err);
}

/* ---- the source ---- */

static void on_put(void *ctx, const struct error *err)
{
    struct run *run = ctx;

    if (err->num < 0)
        run_over(run, err);
    else if (run->engine->spec.config->block_imports && str_equal(run->language->name, "python"))
        start_check(run);
    else
        start_program(run);
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

static void on_made(void *ctx, const struct made *made)
{
    struct run *run = ctx;
    char path[300];
    struct put_spec put = {.path = path, .mode = 0644};
    struct error err = {0};

    run->make_serial = 0;
    run->number = made->number;
    run->box = made->box;
    note_facts(&run->result, &made->facts);
    str_format(path, sizeof(path), "/workspace/%s", run->language->script);
    if (pump_start(&run->pump, run->engine->spec.reactor, run->box, on_lost, run) < 0) {
        error_set(&err, -ENOMEM, ERROR_ENGINE, "out of memory");
        run_over(run, &err);
        return;
    }
    if (box_put(run->box, &put, &put_events, run, &run->call, &err) < 0)
        run_over(run, &err);
    else
        push_code(run);
}

static void on_refused(void *ctx, const struct error *err, const struct box_facts *facts)
{
    struct run *run = ctx;

    run->make_serial = 0;
    note_facts(&run->result, facts);
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

static int copy_spec(struct run *run, const struct run_spec *spec)
{
    run->env = env_vector(NULL, spec->env);
    run->code = malloc(spec->code_length + 1);
    run->code_length = spec->code_length;
    if (spec->input)
        run->input = malloc(spec->input_length + 1);
    run->input_length = spec->input_length;
    run->checked = BUF_INIT(CHECK_OUTPUT_MAX);
    if (!run->env || !run->code || (spec->input && !run->input) || !run->timer)
        return -ENOMEM;
    memcpy(run->code, spec->code, spec->code_length);
    if (spec->input)
        memcpy(run->input, spec->input, spec->input_length);
    return 0;
}

int engine_run(struct engine *engine, const struct run_spec *spec,
               void (*done)(void *ctx, struct result *result), void *ctx, struct run **ret,
               struct error *err)
{
    struct limits limits = engine->spec.config->limits;
    struct make_request request = {.minimum = engine->spec.config->isolation};
    const struct engine_language *language;
    char key[ID_MAX];
    struct run *run;
    int r = check_spec(engine, spec, &language, err);

    if (r < 0)
        return r;
    run = calloc(1, sizeof(*run));
    if (!run)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    if (spec->timeout_ms)
        limits.timeout_ms = spec->timeout_ms;
    run->engine = engine;
    run->language = language;
    run->timer = reactor_timer(engine->spec.reactor, on_turn, run);
    result_init(&run->result, &limits);
    run->result.runtime = engine->spec.config->type;
    id_make(run->result.execution_id, "exec");
    id_make(key, "r");
    request.key = key;
    request.limits = limits;
    run->next = engine->runs;
    engine->runs = run;
    r = copy_spec(run, spec);
    if (r < 0)
        error_set(err, r, ERROR_ENGINE, "out of memory");
    if (r == 0)
        r = engine->maker->ops->make(engine->maker, &request, &make_events, run, &run->make_serial,
                                     err);
    if (r < 0) {
        run_free(run);
        return r;
    }
    run->done = done;
    run->ctx = ctx;
    *ret = run;
    return 0;
}
