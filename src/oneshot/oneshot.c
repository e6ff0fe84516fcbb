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
#include "runtime/host/hosted.h"
#include "runtime/local/local.h"
#include "runtime/outcome.h"
#include "runtime/provider.h"
#include "runtime/runtime.h"
#include "session/import_report.h"
#include "store/artifact.h"

/* Everything one run holds; freed in one place. */
struct run {
    const struct oneshot *shot;
    struct result *result;
    const struct language_row *language;
    struct interpreter interpreter;
    char fingerprint[INTERPRETER_FINGERPRINT]; /* for `elsewhere` */
    struct built_template built;
    char **env; /* strv: the template's and the caller's */
    struct input_files *input_files;
    const struct provider_row *provider; /* that makes the box */
    struct box_facts facts;
    struct usage told; /* the warden's word about the program */
    struct drive drive;
    char name[256]; /* of the script in /workspace */
    const char **argv;
    bool is_elsewhere; /* all of the result is told by somebody else */
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
    built_free(&run->built);
    strv_free(run->env);
    input_files_free(&run->input_files);
    free(run->argv);
}

/* The program's argument vector: an interpreter and its script, or what was asked for. */
static int make_argv(struct run *run, struct error *err)
{
    const struct oneshot *shot = run->shot;
    size_t count = 0, at = 0;

    while (shot->argv && shot->argv[count])
        count++;
    run->argv = calloc(count + 3, sizeof(char *));
    if (!run->argv)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    if (run->language) {
        run->argv[at++] = run->interpreter.path;
        run->argv[at++] = run->name;
    }
    for (size_t i = 0; i < count; i++)
        run->argv[at++] = shot->argv[i];
    return 0;
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

/* The template's layer, and its interpreter in place of the machine's, which it links to. */
static int find_template(struct run *run, struct error *err)
{
    const struct oneshot *shot = run->shot;
    struct interpreter *found = &run->interpreter;
    bool has_layers = provider_can(run->provider, PROVIDER_CAN_LAYERS);
    int r = has_layers ? built_find(shot->config, shot->state, &run->built, err) : 0;

    if (r < 0)
        return r;
    run->env = built_env(&run->built, shot->env);
    if (!run->env)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    if (!run->built.layer)
        return 0;
    if (!run->language || !str_equal(run->language->name, "python")) {
        CLEANUP(interpreter_free) struct interpreter other = *found;

        *found = (struct interpreter){0};
        r = interpreter_find(language_find("python"), shot->config, found, err);
        if (r < 0)
            return r;
        if (run->language) { /* Bash stays Bash; only the folders of Python are needed */
            free(found->path);
            found->path = ptr_take(&other.path);
        }
        return 0;
    }
    free(found->path);
    found->path = strdup(BUILT_PYTHON);
    return found->path ? 0 : error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
}

/* Where the box has programs of its own, the interpreter is only a name. */
static int find_interpreter(struct run *run, struct error *err)
{
    if (!provider_can(run->provider, PROVIDER_OWN_FILESYSTEM))
        return interpreter_find(run->language, run->shot->config, &run->interpreter, err);
    run->interpreter = (struct interpreter){.path = strdup(run->language->program)};
    return run->interpreter.path ? 0 : error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
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
        const char *name = shot->name;

        run->language = language_find(shot->language);
        if (!run->language)
            return error_set(err, -EINVAL, ERROR_BAD_INPUT, "unknown language '%s'",
                             shot->language);
        if (!name)
            name = run->language->script;
        /* A name that begins like an option would be taken for one. */
        if (str_format(run->name, sizeof(run->name), "%s%s", name[0] == '-' ? "./" : "", name) < 0)
            return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "the file's name is too long");
        r = find_interpreter(run, err);
        if (r < 0)
            return r;
        if (shot->elsewhere && !provider_can(run->provider, PROVIDER_OWN_FILESYSTEM))
            interpreter_fingerprint(&run->interpreter, shot->config, run->fingerprint);
    }
    r = find_template(run, err);
    if (r < 0)
        return r;
    r = make_argv(run, err);
    return r < 0 ? r : input_files_load(shot, &run->input_files, err);
}

static int make_box(struct run *run, struct error *err)
{
    struct box_bind binds[INTERPRETER_BINDS_MAX];
    const struct config *config = run->shot->config;
    bool is_hosted = provider_can(run->provider, PROVIDER_HOSTED);
    CLEANUP(strv_freep)
    char **host_env = is_hosted ? hosted_env(config, run->shot->shows_progress) : NULL;
    struct box_spec spec = {
        .limits = config->limits,
        .minimum = config->isolation,
        .root = config->root,
        .binds = binds,
        .bind_count = run->interpreter.bind_count,
        .id_base = config->id_base,
        .layer = run->built.layer,
        .engine = run->shot->engine,
        .warden = run->shot->warden,
        .engine_env = (const char *const *)host_env,
        .cancel_fd = run->shot->cancel_fd,
    };

    if (is_hosted && !host_env)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    run->result->runtime = run->provider->name;
    for (size_t i = 0; i < spec.bind_count; i++)
        binds[i] = (struct box_bind){.host = run->interpreter.binds[i]};
    return run->provider->ops->create(run->provider, &spec, &run->drive.box, &run->facts, err);
}

/* The provider is not there, and that is not to matter: the result says so. */
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
        if (r == 0)
            run->argv[0] = run->interpreter.path;
    }
    if (r < 0)
        return r;
    result_set_fallback(run->result, run->shot->config->type, why.text);
    return make_box(run, err);
}

static int add_template(struct run *run, struct error *err)
{
    const struct oneshot *shot = run->shot;
    char path[300];
    int r = input_files_send(run->input_files, &run->drive, err);

    if (r < 0 || !run->language)
        return r;
    str_format(path, sizeof(path), "/workspace/%s",
               str_starts(run->name, "./") ? run->name + 2 : run->name);
    return transfer_put(&run->drive, path, 0644, shot->code, shot->code_length, err);
}

/* Reads the parse tree in the box, with Python's own parser; nothing of the code runs. */
static int check_imports(struct run *run, struct error *err)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT(IMPORT_CHECK_OUTPUT_MAX);
    CLEANUP(buf_free) struct buf message = BUF_INIT(IMPORT_REPORT_MAX);
    CLEANUP(import_checker_free) struct import_checker checker = {0};
    int r = import_checker_make(&checker, run->interpreter.path, run->name,
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
    r = import_report_parse(buf_text(&line), line.length, &run->result->blocked_imports, &message,
                            err);
    if (r > 0)
        return error_set(err, -EPERM, ERROR_BLOCKED_IMPORT, "%s", buf_text(&message));
    return r;
}

/* Without a mount namespace an interpreter cannot be shown past a folder that only its owner
 * enters. */
static void explain_unreachable(const struct run *run, struct error *err)
{
    if (err->num == -EACCES && run->language &&
        !(run->facts.layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_MOUNTNS)))
        error_set(err, -EACCES, ERROR_NOT_EXECUTABLE,
                  "%s is in a folder that the guest's id may not enter, and without namespaces it "
                  "cannot be mounted elsewhere; name another with SANDBOX_PYTHON=/usr/bin/python3",
                  run->interpreter.path);
}

static int cancelled(const struct run *run, struct error *err)
{
    return error_set(err, -ECANCELED, ERROR_CANCELLED, "%s",
                     run->drive.is_sink_dead ? "the reader of the output has gone"
                                             : "the run was ended by its caller");
}

static int run_program(struct run *run, struct error *err)
{
    struct exec_spec spec = {
        .argv = run->argv,
        .env = (const char *const *)run->env,
        .stdin_open = run->shot->stdin_fd >= 0,
        .ends_box = true,
        .timeout_ms = run->shot->config->limits.timeout_ms,
    };
    int r = drive_exec(&run->drive, &spec);

    if (r < 0) {
        *err = run->drive.failure;
        if (run->drive.is_cancelled) /* killed before it became the program: not the box's fault */
            return cancelled(run, err);
        if (err->code == ERROR_COMMAND_NOT_FOUND || err->code == ERROR_NOT_EXECUTABLE)
            error_prefix(err, run->argv[0]);
        if (run->language && run->provider->no_program && err->code == ERROR_COMMAND_NOT_FOUND)
            run->provider->no_program(run->shot->config, run->language->program,
                                      run->language->title, err);
        explain_unreachable(run, err);
        return r;
    }
    outcome_end(run->result, &run->drive.end);
    run->told = run->drive.end.usage;
    if (run->drive.is_cancelled)
        return cancelled(run, err);
    return run->drive.end.has_output ? transfer_collect(&run->drive, err) : 0;
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

/* 1: nobody else does it. */
static int run_elsewhere(struct run *run)
{
    const struct oneshot_elsewhere *elsewhere = run->shot->elsewhere;
    const struct oneshot_found found = {
        .fingerprint = run->fingerprint, .layer = run->built.layer, .name = run->name};
    int r = elsewhere ? elsewhere->run(elsewhere->ctx, run->shot, &found, run->result) : 1;

    run->is_elsewhere = r <= 0;
    return r;
}

static int run_all(struct run *run, struct oneshot_extra *extra, struct error *err)
{
    const struct config *config = run->shot->config;
    uint64_t since = clock_now_ns();
    int r = prepare(run, err);

    note_timing(extra, "prepare", &since);
    if (r == 0) {
        r = run_elsewhere(run);
        if (r <= 0)
            return r;
        r = make_box(run, err);
        if (r < 0 && err->code == ERROR_PROVIDER_UNAVAILABLE && config->falls_back)
            r = fall_back(run, err);
    }
    if (r < 0)
        return r;
    copy_timings(run, extra);
    since = clock_now_ns();
    r = add_template(run, err);
    if (r == 0 && config->block_imports && run->language &&
        str_equal(run->language->name, "python"))
        r = check_imports(run, err);
    note_timing(extra, "furnish", &since);
    if (r == 0)
        r = run_program(run, err);
    note_timing(extra, "run the program", &since);
    return r;
}

/* Was it the request that was wrong, so that there is no execution to keep? */
static bool is_callers_fault(const char *code)
{
    return code == ERROR_BAD_INPUT || code == ERROR_BAD_CONFIG || code == ERROR_NOT_FOUND ||
           code == ERROR_NO_INTERPRETER || code == ERROR_TOO_LARGE;
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

    if (!shot->keep_artifact || !shot->language || is_callers_fault(result->error.code) ||
        !config_stores(shot->config, result))
        return;
    artifact_write(&artifact, &extra->artifact_path, &extra->artifact_error);
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

    result->runtime = shot->config->type;
    id_make(result->execution_id, "exec");
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
