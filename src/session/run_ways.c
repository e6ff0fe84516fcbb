/*
 * run_ways.c - what a one-shot run does besides running: the words that start it, output to whoever
 * reads along, an end that its caller asked for, and a look at what it left in /tmp/output.
 *
 * What it left is counted and not fetched: the box goes with the run. Names come out of a box and
 * are hostile; store/output_file.h says which of them would not have been fetched.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "session/missing_job.h"
#include "store/artifact.h"
#include "store/output_file.h"

#define OUTPUT_FOLDER "/tmp/output"

/* ---- the words ---- */

char **run_words(const struct run *run, const struct run_spec *spec)
{
    CLEANUP(strv_freep) char **words = strv_new();
    int r = words ? strv_push(&words, run->program) : -ENOMEM;

    if (r == 0)
        r = strv_push(&words, spec->name ? spec->name : run->language->script);
    for (size_t i = 0; i < json_array_size(spec->arguments) && r == 0; i++)
        r = strv_push(&words, json_string_value(json_array_get(spec->arguments, i)));
    return r < 0 ? NULL : ptr_take(&words);
}

char **run_cell_env(const struct run *run, struct error *err)
{
    CLEANUP(strv_freep) char **env = strv_copy((const char *const *)run->env);
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_ARGV_BYTES);
    int r = env ? 0 : -ENOMEM;

    /* No variable has an empty name: what begins with '=' is a word (docs/kernels.md). */
    for (char **word = run->words + 1; *word && r == 0; word++) {
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
    (void)ctx, (void)end; /* its end is the cell's, and the maker's to explain */
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
        box_kernel_given(run->box, made->kernel, made->kernel_is_wardens, &run_kernel_events, run,
                         &err) < 0)
        return;
    run->kernel_is_wardens = made->kernel_is_wardens;
    run->kernel = made->kernel;
    run->result.warm = warm_name(made->is_pooled ? WARM_POOL : WARM_ZYGOTE);
}

/* ---- a box of another kind ---- */

int run_fall_back(struct run *run, const char *why)
{
    char *program;

    run->result.runtime = "local";
    result_set_fallback(&run->result, why);
    run->program = furniture_program(run->language, false, true);
    program = strdup(run->program);
    if (!program)
        return -ENOMEM;
    free(run->words[0]);
    run->words[0] = program;
    return 0;
}

/* ---- who reads along, and who has enough ---- */

void engine_run_resume(struct run *run, int stream)
{
    run->has_room[stream - 1] = true;
    engine_later(run->engine); /* we may be inside of a callback of the box */
}

void runs_resume(struct engine *engine)
{
    for (struct run *run = engine->runs; run; run = run->next) {
        for (int i = 0; i < 2; i++) {
            if (!run->has_room[i])
                continue;
            run->has_room[i] = false;
            if (run->box && run->call && !run->is_over)
                box_resume(run->box, run->call, (enum box_stream)(i + 1));
        }
    }
}

const char *engine_run_id(const struct run *run)
{
    return run->result.execution_id;
}

const char *engine_run_tenant(const struct run *run)
{
    return run->tenant;
}

const char *engine_box_tenant(const struct engine *engine, uint32_t number)
{
    for (const struct session *session = engine->sessions; session; session = session->next) {
        if (session->box && session->number == number)
            return session->tenant;
    }
    for (const struct run *run = engine->runs; run; run = run->next) {
        if (run->box && run->number == number)
            return run->tenant;
    }
    return NULL;
}

struct run *engine_run_find(struct engine *engine, const char *id)
{
    struct run *run = engine->runs;

    while (run && !str_equal(run->result.execution_id, id))
        run = run->next;
    return run;
}

static void stopped(struct run *run)
{
    struct error err = {0};

    error_set(&err, -ECANCELED, ERROR_CANCELLED, "the run was ended by its caller");
    run_over(run, &err);
}

void engine_run_stop(struct run *run)
{
    if (run->is_over || run->is_stopped)
        return;
    run->is_stopped = true;
    if (run->is_running)
        box_signal(run->box, run->call, SIGKILL);
    else
        stopped(run);
}

/* ---- what is remembered of it ---- */

void run_store(struct run *run)
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

    if (run->keeps_nothing || config->store_code == STORE_NEVER ||
        (config->store_code == STORE_ON_ERROR && !failed))
        return;
    if (artifact_write(&artifact, &path, &err) < 0)
        log_warning("artifact of %s: %s, continuing without it", result->execution_id, err.text);
}

/* ---- what it left ---- */

struct run_list {
    uint32_t op;
    uint64_t bytes; /* of files that could have been fetched */
    size_t count;
    bool has_no_memory;
};

static void on_entry(void *ctx, const struct box_entry *entry)
{
    struct run *run = ctx;
    struct run_list *list = run->list;
    const char *skipped;

    if (S_ISDIR(entry->mode))
        return;
    run->result.total_output_files++;
    if (run_cargo_entry(run, entry))
        return;
    if (list->count == LIMIT_OUTPUT_FILES)
        return;
    list->count++;
    skipped = output_kind_problem(entry->mode);
    if (!skipped)
        skipped = output_name_problem(entry->name);
    if (!skipped && entry->bytes > run->result.limits.disk_bytes - list->bytes)
        skipped = OUTPUT_SPARSE;
    if (!skipped)
        list->bytes += entry->bytes;
    else if (result_add_file(&run->result, entry->name, NULL, entry->bytes, skipped) < 0)
        list->has_no_memory = true;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct output_file *)a)->name, ((const struct output_file *)b)->name);
}

/* A folder that the guest removed has no files: not an error. */
static void on_listed(void *ctx, const struct error *ignored)
{
    struct run *run = ctx;

    (void)ignored;
    run->list->op = 0;
    if (!run_cargo_fetch(run))
        run_listed(run);
}

void run_listed(struct run *run)
{
    struct result *result = &run->result;
    struct error err = {0};

    if (result->file_count > 1)
        qsort(result->files, result->file_count, sizeof(*result->files), compare_names);
    if (run->list->has_no_memory)
        error_set(&err, -ENOMEM, ERROR_ENGINE, "out of memory");
    free(ptr_take(&run->list));
    run_over(run, err.num < 0 ? &err : NULL);
}

bool run_list(struct run *run)
{
    static const struct list_events events = {.entry = on_entry, .done = on_listed};
    struct error err = {0};

    if (run->is_stopped)
        stopped(run);
    if (!run->has_output || run->is_over || run->list)
        return run->is_over || run->list;
    run->list = calloc(1, sizeof(*run->list));
    if (run->list && box_list(run->box, OUTPUT_FOLDER, 0, &events, run, &run->list->op, &err) == 0)
        return true;
    free(ptr_take(&run->list));
    return false;
}

void run_list_leave(struct run *run)
{
    if (run->list && run->list->op && run->box)
        box_cancel(run->box, run->list->op);
    run_cargo_leave(run);
    free(ptr_take(&run->list));
}
