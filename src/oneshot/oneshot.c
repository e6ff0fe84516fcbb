/* oneshot.c - one run in one fresh box, from request to result; see oneshot.h. */
#include "oneshot/oneshot.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "interpreter/language.h"
#include "oneshot/built.h"
#include "oneshot/drive.h"
#include "oneshot/transfer.h"
#include "recipe/import_report.h"
#include "recipe/recipe.h"
#include "runtime/host/hosted.h"
#include "runtime/local/local.h"
#include "runtime/outcome.h"
#include "runtime/provider.h"
#include "runtime/runtime.h"
#include "store/artifact.h"
#include "template/template.h"

/* Everything one run holds; freed in one place. */
struct run {
    const struct oneshot *shot;
    struct result *result;
    const struct language_row *language;
    struct interpreter interpreter;
    struct interpreter python; /* the box's own, where it is not the language's; may be none */
    char fingerprint[INTERPRETER_FINGERPRINT]; /* for `elsewhere` */
    struct built_template built;
    struct recipe recipe;
    struct input_files *input_files;
    const struct provider_row *provider; /* that makes the box */
    struct box_facts facts;
    struct usage told; /* the warden's word about the program */
    struct drive drive;
    bool is_elsewhere; /* the other executor filled the whole result */
};

static void run_free(struct run *run)
{
    if (run->drive.box)
        run->provider->ops->destroy(run->drive.box, &run->facts);
    if (!run->is_elsewhere) {
        outcome_isolation(run->result, &run->facts);
        outcome_usage(run->result, &run->facts);
        outcome_told(run->result, &run->told);
    }
    drive_free(&run->drive);
    interpreter_free(&run->interpreter);
    interpreter_free(&run->python);
    built_free(&run->built);
    recipe_free(&run->recipe);
    input_files_free(&run->input_files);
}

/* What the run leaves must have a place to go before anything is done for it. */
static int check_out(const char *out, struct error *err)
{
    char parent[LIMIT_PATH_BYTES + 1];
    struct stat status;

    if (!out)
        return 0;
    if (!str_copy(parent, sizeof(parent), out))
        return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "--out: the path is too long");
    if (stat(out, &status) == 0 && !S_ISDIR(status.st_mode))
        return error_set(err, -ENOTDIR, ERROR_BAD_INPUT,
                         "--out %s: not a folder; name a folder, it is made when it is missing",
                         out);
    if (access(out, W_OK | X_OK) == 0 || (errno == ENOENT && access(dirname(parent), W_OK) == 0))
        return 0;
    return error_set(err, -errno, ERROR_BAD_INPUT, "--out %s: %s; name a folder you may write to",
                     out, strerror(errno));
}

static bool is_python(const struct run *run)
{
    return run->language && str_equal(run->language->name, "python");
}

/*
 * Bash and programs start Python too, as `python`; and a template links to the machine's own.
 * Without a template a machine that has none is no error: then the box has none either.
 */
static int find_python(struct run *run, struct error *err)
{
    struct error why = {0};

    if (is_python(run) || provider_can(run->provider, PROVIDER_OWN_FILESYSTEM))
        return 0;
    if (interpreter_find(language_find("python"), run->shot->config, &run->python, &why) == 0)
        return 0;
    if (!run->built.layer && why.num != -ENOMEM)
        return 0;
    *err = why;
    return why.num;
}

static int find_template(struct run *run, struct error *err)
{
    const struct oneshot *shot = run->shot;
    bool has_layers = provider_can(run->provider, PROVIDER_CAN_LAYERS);
    int r = has_layers ? built_find(shot->config, shot->state, &run->built, err) : 0;

    return r < 0 ? r : find_python(run, err);
}

/* Where the box has programs of its own, the interpreter is only a name. */
static int find_interpreter(struct run *run, struct error *err)
{
    if (!provider_can(run->provider, PROVIDER_OWN_FILESYSTEM))
        return interpreter_find(run->language, run->shot->config, &run->interpreter, err);
    run->interpreter = (struct interpreter){.path = strdup(run->language->program)};
    return run->interpreter.path ? 0 : error_memory(err);
}

static int make_recipe(struct run *run, struct error *err)
{
    const struct oneshot *shot = run->shot;
    struct recipe_spec spec = {
        .config = shot->config,
        .arguments = shot->argv,
        .template_env = (const char *const *)run->built.env,
        .env = shot->env,
        .has_input = shot->stdin_fd >= 0,
        .timeout_ms = shot->config->limits.timeout_ms,
    };

    if (run->language) {
        spec.language = run->language->name;
        spec.program = recipe_program(run->language->name, run->interpreter.path, run->built.layer);
        spec.name = shot->name ? shot->name : run->language->script;
        spec.code = shot->code;
        spec.code_length = shot->code_length;
    }
    return recipe_make(&run->recipe, &spec, err);
}

static int prepare(struct run *run, struct error *err)
{
    const struct oneshot *shot = run->shot;
    int r = provider_find(shot->config->type, &run->provider, err);

    if (r == 0)
        r = check_out(shot->out, err);
    if (r == 0 && run->provider->check_run)
        r = run->provider->check_run(shot->config, err);
    if (r < 0)
        return r;
    if (shot->language) {
        run->language = language_find(shot->language);
        if (!run->language)
            return error_set(err, -EINVAL, ERROR_BAD_INPUT, "unknown language '%s'",
                             shot->language);
        r = find_interpreter(run, err);
        if (r < 0)
            return r;
        if (shot->elsewhere && !provider_can(run->provider, PROVIDER_OWN_FILESYSTEM))
            interpreter_fingerprint(&run->interpreter, shot->config, run->fingerprint);
    }
    r = find_template(run, err);
    if (r < 0)
        return r;
    r = make_recipe(run, err);
    return r < 0 ? r : input_files_load(shot, &run->input_files, err);
}

/* Each folder once: a mount over itself would only cost time. */
static size_t add_binds(const struct interpreter *from, struct box_bind *binds, size_t count)
{
    for (size_t i = 0; i < from->bind_count; i++) {
        size_t at = 0;

        while (at < count && !str_equal(binds[at].host, from->binds[i]))
            at++;
        if (at == count)
            binds[count++] = (struct box_bind){.host = from->binds[i]};
    }
    return count;
}

static int make_box(struct run *run, struct error *err)
{
    struct box_bind binds[2 * INTERPRETER_BINDS_MAX];
    const struct config *config = run->shot->config;
    bool is_hosted = provider_can(run->provider, PROVIDER_HOSTED);
    CLEANUP(strv_freep)
    char **host_env = is_hosted ? hosted_env(config, run->shot->shows_progress) : NULL;
    struct box_spec spec = {
        .limits = config->limits,
        .minimum = config->isolation,
        .root = config->root,
        .binds = binds,
        .id_base = config->id_base,
        .layer = run->built.layer,
        .engine = run->shot->engine,
        .warden = run->shot->warden,
        .engine_env = (const char *const *)host_env,
        .cancel_fd = run->shot->cancel_fd,
    };

    if (is_hosted && !host_env)
        return error_memory(err);
    run->result->runtime = run->provider->name;
    spec.bind_count = add_binds(&run->interpreter, binds, 0);
    spec.bind_count = add_binds(&run->python, binds, spec.bind_count);
    if (!provider_can(run->provider, PROVIDER_OWN_FILESYSTEM))
        spec.python = is_python(run) ? run->interpreter.path : run->python.path;
    return run->provider->ops->create(run->provider, &spec, &run->drive.box, &run->facts, err);
}

/* With "auto", a box that cannot have a template uses the Python of the machine. */
static int without_template(struct run *run, struct error *err)
{
    int r;

    *err = (struct error){0};
    built_free(&run->built);
    recipe_free(&run->recipe);
    r = make_recipe(run, err);
    return r < 0 ? r : make_box(run, err);
}

/* The provider is unavailable and SANDBOX_FALLBACK allows another; the result says so. */
static int fall_back(struct run *run, struct error *err)
{
    struct error why = *err;
    int r;

    *err = (struct error){0};
    r = provider_find(PROVIDER_LOCAL, &run->provider, err);
    if (r == 0 && run->language) {
        interpreter_free(&run->interpreter);
        run->interpreter = (struct interpreter){0};
        r = find_interpreter(run, err);
    }
    if (r == 0)
        r = find_python(run, err);
    if (r < 0)
        return r;
    if (recipe_fall_back(&run->recipe, run->result, run->shot->config->type, why.text,
                         run->language ? run->interpreter.path : NULL) < 0)
        return error_memory(err);
    return make_box(run, err);
}

/* Reads the parse tree in the box, with Python's own parser; nothing of the code runs. */
static int check_imports(struct run *run, struct error *err)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT(IMPORT_CHECK_OUTPUT_MAX);
    CLEANUP(import_checker_free) struct import_checker checker = {0};
    int r = import_checker_make(&checker, run->recipe.argv[0], recipe_name(&run->recipe),
                                run->shot->config->blocked_imports, err);

    if (r < 0)
        return r;
    run->drive.is_captured_only = true;
    run->drive.captured = &line;
    r = drive_exec(&run->drive,
                   &(struct exec_spec){.argv = checker.argv, .timeout_ms = IMPORT_CHECK_MS});
    run->drive.is_captured_only = false;
    if (r < 0) {
        *err = run->drive.failure;
        return r;
    }
    return import_line_judge(&line, &run->result->blocked_imports, err);
}

static int cancelled(const struct run *run, struct error *err)
{
    if (run->drive.is_sink_dead)
        return error_set(err, -ECANCELED, ERROR_CANCELLED, "the reader of the output has gone");
    return recipe_cancelled(err);
}

static int run_program(struct run *run, struct error *err)
{
    struct exec_spec spec = recipe_exec(&run->recipe);

    if (drive_exec(&run->drive, &spec) < 0) {
        *err = run->drive.failure;
        if (run->drive.is_cancelled) /* killed before it became the program: not the box's fault */
            return cancelled(run, err);
        return recipe_not_started(&run->recipe, run->provider, run->facts.layers, err);
    }
    recipe_ended(&run->recipe, run->result, &run->drive.end);
    run->told = run->drive.end.usage;
    return run->drive.is_cancelled ? cancelled(run, err) : 0;
}

static int do_step(struct run *run, enum recipe_step step, struct error *err)
{
    const struct recipe *recipe = &run->recipe;

    switch (step) {
    case RECIPE_FILES:
        return input_files_send(run->input_files, &run->drive, err);
    case RECIPE_SOURCE:
        return transfer_put(&run->drive, recipe->path, 0644, recipe->code, recipe->code_length,
                            err);
    case RECIPE_IMPORTS:
        return check_imports(run, err);
    case RECIPE_PROGRAM:
        return run_program(run, err);
    case RECIPE_OUTPUT:
        return transfer_collect(&run->drive, err);
    case RECIPE_OVER:
        break;
    }
    return 0;
}

static void copy_timings(const struct run *run, struct oneshot_extra *extra)
{
    const struct launched *launched = provider_can(run->provider, PROVIDER_CAN_TIME_BRINGUP)
                                          ? local_launched(run->drive.box)
                                          : NULL;

    for (size_t i = 0; launched && i < launched->timing_count; i++) {
        if (extra->timing_count < ONESHOT_TIMINGS_MAX)
            extra->timings[extra->timing_count++] = (struct oneshot_timing){
                .stage = launched->timings[i].name, .ns = launched->timings[i].ns};
    }
}

/* Adds the time since *since to the list and starts the next one. */
static void note_timing(struct oneshot_extra *extra, const char *stage, uint64_t *since)
{
    uint64_t now = clock_now_ns();

    if (extra->timing_count < ONESHOT_TIMINGS_MAX)
        extra->timings[extra->timing_count++] =
            (struct oneshot_timing){.stage = stage, .ns = now - *since};
    *since = now;
}

/* Only a daemon has the installer of SANDBOX_AUTO_INSTALL: without one it is not dropped. */
static int check_install(const struct run *run, const char *why, struct error *err)
{
    const struct config *config = run->shot->config;

    if (!config->auto_install || !run->language || !str_equal(run->language->name, "python"))
        return 0;
    if (!provider_can(run->provider, PROVIDER_CAN_INSTALL) && run->provider->no_install)
        return error_set(err, -ENOTSUP, ERROR_BAD_CONFIG,
                         "SANDBOX_AUTO_INSTALL: %s; set it to false for this run",
                         run->provider->no_install);
    return error_set(err, -ENOTSUP, ERROR_BAD_CONFIG,
                     "SANDBOX_AUTO_INSTALL: only a daemon installs missing modules, and it does "
                     "not do this run (%s); 'bailey session new' starts one, or set "
                     "SANDBOX_AUTO_INSTALL=false",
                     why);
}

/* 1: there is no other executor. */
static int run_elsewhere(struct run *run, struct error *err)
{
    const struct oneshot_elsewhere *elsewhere = run->shot->elsewhere;
    const struct oneshot_found found = {.fingerprint = run->fingerprint,
                                        .layer = run->built.layer,
                                        .name = run->language ? recipe_name(&run->recipe) : ""};
    char why[ONESHOT_WHY_MAX] = "it is not asked";
    int r = elsewhere ? elsewhere->run(elsewhere->ctx, run->shot, &found, run->result, why) : 1;

    run->is_elsewhere = r <= 0;
    if (r > 0 && check_install(run, why, err) < 0)
        return err->num;
    return r;
}

static int run_all(struct run *run, struct oneshot_extra *extra, struct error *err)
{
    const struct config *config = run->shot->config;
    uint64_t since = clock_now_ns();
    enum recipe_step step;
    int r = prepare(run, err);

    note_timing(extra, "prepare", &since);
    if (r == 0) {
        r = run_elsewhere(run, err);
        if (r <= 0)
            return r;
        r = make_box(run, err);
        if (r < 0 && err->code == ERROR_REFUSED && run->built.layer &&
            str_equal(config->template_name, TEMPLATE_AUTO))
            r = without_template(run, err);
        if (r < 0 && err->code == ERROR_PROVIDER_UNAVAILABLE && config->falls_back)
            r = fall_back(run, err);
    }
    if (r < 0)
        return r;
    copy_timings(run, extra);
    since = clock_now_ns();
    for (step = RECIPE_FILES; step != RECIPE_OVER && r == 0;
         step = recipe_next(&run->recipe, step)) {
        if (step == RECIPE_PROGRAM)
            note_timing(extra, "inputs", &since);
        r = do_step(run, step, err);
    }
    if (step <= RECIPE_PROGRAM)
        note_timing(extra, "inputs", &since);
    note_timing(extra, "run the program", &since);
    return r;
}

static void store_artifact(const struct oneshot *shot, const struct result *result,
                           struct oneshot_extra *extra)
{
    struct artifact artifact = {
        .folder = shot->artifact_folder ? shot->artifact_folder : "artifacts",
        .language = shot->language,
        .code = shot->code,
        .code_length = shot->code_length,
        .env = shot->env,
        .result = result,
    };

    if (shot->keep_artifact)
        recipe_store(shot->config, &artifact, &extra->artifact_path, &extra->artifact_error);
}

int oneshot_run(const struct oneshot *shot, struct result *result, struct oneshot_extra *extra)
{
    struct run run = {
        .shot = shot,
        .result = result,
        .drive = {.shot = shot, .result = result, .stdin_fd = -1},
    };
    uint64_t since;
    int r;

    recipe_begin(shot->config, result);
    r = run_all(&run, extra, &result->error);
    since = clock_now_ns();
    run_free(&run);
    note_timing(extra, "end the box", &since);
    outcome_failed(result);
    store_artifact(shot, result, extra);
    return r;
}

void oneshot_extra_free(struct oneshot_extra *extra)
{
    free(extra->artifact_path);
    extra->artifact_path = NULL;
}
