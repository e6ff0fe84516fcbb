/*
 * run.c - the driver of `bailey run` and `bailey exec`.
 *
 * Everything that may be wrong with the request is found before signals are blocked and before
 * anything is made: until then the default action of a signal is the right one. Then one call of
 * oneshot_run(), then the report (run_report.c).
 */
#include "cli/run.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/daemon_run.h"
#include "cli/engine.h"
#include "cli/message.h"
#include "cli/notebook.h"
#include "cli/output.h"
#include "cli/paths.h"
#include "cli/request.h"
#include "cli/run_report.h"
#include "cli/signals.h"
#include "cli/source.h"
#include "runtime/provider.h"
#include "template/template.h"
#include "tool/tool.h"

/* A checked request: what is left is to run it. */
struct job {
    const struct request *request;
    const struct config *config;
    const struct source *source;         /* NULL: exec */
    const struct language_row *language; /* NULL: exec */
    const char *const *argv;
    struct paths paths;
    bool asks_daemon;
};

static int usage_error(struct error *err, const char *text)
{
    return error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s", text);
}

static int check_size(const char *const *argv, char *const *env, struct error *err)
{
    size_t count = 0, bytes = 0;

    for (; *argv; argv++, count++)
        bytes += strlen(*argv) + 1;
    for (; env && *env; env++)
        bytes += strlen(*env) + 1;
    if (count > LIMIT_ARGV_COUNT)
        return error_set(
            err, -E2BIG, ERROR_TOO_LARGE,
            "%zu arguments are more than %d; put them in a file and pass it with --file", count,
            LIMIT_ARGV_COUNT);
    if (bytes > LIMIT_ARGV_BYTES)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE,
                         "arguments and --env have %zu bytes, more than %llu; put them in a file "
                         "and pass it with --file",
                         bytes, LIMIT_ARGV_BYTES);
    return 0;
}

static void say_missing_module(const struct job *job, const struct result *result)
{
    CLEANUP(buf_free) struct buf hint = BUF_INIT(4 * KIB);
    CLEANUP(interpreter_free) struct interpreter interpreter = {0};
    struct error ignored = {0};

    if (job->request->is_json || job->request->is_quiet || !job->language ||
        !str_equal(job->language->name, "python") ||
        !tool_missing_hint(result, job->config, job->paths.state, &hint) ||
        interpreter_find(job->language, job->config, &interpreter, &ignored) < 0)
        return;
    message_print("%s Or give it another interpreter than %s: activate a venv that has it, or "
                  "SANDBOX_PYTHON=/VENV/bin/python",
                  buf_text(&hint), interpreter.path);
}

static int execute(struct job *job)
{
    const struct oneshot_elsewhere elsewhere = {.run = run_in_daemon, .ctx = &job->paths};
    CLEANUP(fd_closep) int cancel_fd = -1;
    const struct request *request = job->request;
    struct run_report report = {.request = request};
    struct oneshot_extra extra = {0};
    struct oneshot_sink sink;
    struct result result;
    char engine[PATH_MAX] = "";
    struct error err = {0};
    int status;

    log_set_level(job->config->log_level);
    if (config_can(job->config, PROVIDER_HOSTED) && engine_program(engine, &err) < 0)
        return message_bad_input(&err);
    if (signals_open(&cancel_fd, &err) < 0)
        return message_bad_input(&err);
    output_init(&report.output, request->is_raw, cancel_fd);
    sink = (struct oneshot_sink){
        .write = output_write, .ctx = &report.output, .fd = {STDOUT_FILENO, STDERR_FILENO}};
    result_init(&result, &job->config->limits);

    oneshot_run(
        &(struct oneshot){
            .config = job->config,
            .language = job->language ? job->language->name : NULL,
            .code = job->source ? buf_text(&job->source->code) : NULL,
            .code_length = job->source ? job->source->code.length : 0,
            .name = job->source ? job->source->name : NULL,
            .argv = job->argv,
            .env = (const char *const *)request->env,
            .files = request->files,
            .file_count = request->file_count,
            .out = request->out,
            .stdin_fd = request->has_stdin ? STDIN_FILENO : -1,
            .sink = request->is_json ? NULL : &sink,
            .cancel_fd = cancel_fd,
            .keep_artifact = true,
            .shows_progress = !request->is_quiet && (!request->is_json || isatty(STDERR_FILENO)),
            .elsewhere = job->asks_daemon ? &elsewhere : NULL,
            .state = job->paths.state,
            .engine = engine,
            .warden = "/proc/self/exe",
        },
        &result, &extra);

    output_finish(&report.output);
    report.signal = signals_taken(cancel_fd);
    status = run_report_print(&report, &result, &extra);
    if (result.fallback && !request->is_quiet && !request->is_json)
        message_print("%s. It ran with the local runtime instead, as SANDBOX_FALLBACK allows",
                      result.fallback);
    say_missing_module(job, &result);
    oneshot_extra_free(&extra);
    result_free(&result);
    return status;
}

/* Bad input, whatever is wrong with it: with --json that is a result too. */
static int refuse(const struct request *request, const struct config *config,
                  const struct error *err)
{
    CLEANUP(config_free) struct config defaults = {0};
    struct run_report report = {.request = request};
    struct oneshot_extra extra = {0};
    struct error ignored = {0};
    struct result result;
    int status;

    /* The configuration itself may be what is wrong. */
    if (!config->type &&
        config_load_text(&defaults, "", 0, "", (char *const[]){NULL}, &ignored) == 0)
        config = &defaults;
    result_init(&result, &config->limits);
    result.runtime = config->type;
    id_make(result.execution_id, "exec");
    result.exit_code = 1;
    result.error = *err;
    status = run_report_print(&report, &result, &extra);
    result_free(&result);
    return status;
}

int run_refuse_with(const struct request *request, const struct config *config,
                    const struct error *err)
{
    return refuse(request, config, err);
}

int run_refuse(const struct error *err)
{
    return refuse(&(struct request){.is_json = true}, &(struct config){0}, err);
}

/* Which of FILE, - and -c it is. Borrowed; *ret_path stays NULL for -c. */
static int choose_source(const struct invocation *invocation, const struct request *request,
                         const char **ret_path, const char *const **ret_argv, struct error *err)
{
    const struct parsed *parsed = &invocation->parsed;
    const char *path = parsed->operands[0];
    const char *const *argv = parsed->rest;

    if (!path && !request->code && argv[0])
        path = *argv++; /* "bailey run -- -odd-name.py" */
    if (path && request->code)
        return usage_error(err, "a file and -c CODE together; give only one of them");
    if (!path && !request->code)
        return usage_error(err, "nothing to run: give a FILE, - for standard input, or -c CODE");
    if (str_equal(path, "-") && request->has_stdin)
        return usage_error(
            err,
            "- and --stdin both read standard input; put the code in a file or give it with -c");
    *ret_path = path;
    *ret_argv = argv;
    return 0;
}

static int load_source(struct job *job, struct source *source, const char *path,
                       const struct invocation *invocation, struct error *err)
{
    int result = source_language(job->request->language, path, job->config, &job->language, err);

    if (result < 0)
        return result;
    if (str_equal(path, "-") && invocation->stdin_is_closed)
        return error_set(err, -EBADF, ERROR_BAD_INPUT,
                         "standard input is closed; put the code in a file or give it with -c");
    if (!path)
        return source_from_text(source, job->request->code, err);
    result = source_read(source, path, err);
    return result == 0 && notebook_is(path) ? source_join_notebook(source, path, err) : result;
}

int run_find_source(const struct invocation *invocation, const struct request *request,
                    const struct config *config, struct run_source *ret, struct error *err)
{
    struct job job = {.request = request, .config = config};
    const char *path = NULL;
    int result = choose_source(invocation, request, &path, &ret->argv, err);

    if (result == 0)
        result = load_source(&job, &ret->source, path, invocation, err);
    if (result == 0)
        result = check_size(ret->argv, request->env, err);
    ret->language = job.language;
    return result;
}

/* Where templates are, if one is wanted, and where a daemon may be. */
static int find_place(struct job *job, const struct invocation *invocation, struct error *err)
{
    const struct request *request = job->request;
    const char *name = job->config->template_name;
    bool has_template = !str_equal(name, TEMPLATE_PLAIN), is_auto = str_equal(name, TEMPLATE_AUTO);
    struct error ignored = {0};
    int result;

    job->asks_daemon = job->language && !request->is_alone && !request->has_timing;
    if (!has_template && !job->asks_daemon)
        return 0;
    result = paths_choose(&job->paths, job->config, invocation->env, NULL, NULL,
                          has_template && !is_auto ? err : &ignored);
    if (result == 0 || (has_template && !is_auto))
        return result;
    job->asks_daemon = false; /* no home: then there is no daemon either */
    return 0;
}

static int finish(struct job *job)
{
    int status = execute(job);

    paths_free(&job->paths);
    return status;
}

int run_main(const struct invocation *invocation)
{
    CLEANUP(request_free) struct request request = {0};
    CLEANUP(config_free) struct config config = {0};
    CLEANUP(source_free) struct source source = {0};
    struct job job = {.request = &request, .config = &config, .source = &source};
    struct error err = {0};
    const char *path = NULL;

    if (request_load(invocation, &request, &config, &err) < 0 ||
        choose_source(invocation, &request, &path, &job.argv, &err) < 0 ||
        load_source(&job, &source, path, invocation, &err) < 0 ||
        check_size(job.argv, request.env, &err) < 0 || find_place(&job, invocation, &err) < 0)
        return refuse(&request, &config, &err);
    return finish(&job);
}

/* What only a session has: exec -s is bailey-engine's, so here there is none. */
static int check_fresh(const struct request *request, struct error *err)
{
    if (request->is_detached)
        return usage_error(err, "-d needs a session to leave it in: -s NAME ('bailey session new' "
                                "makes one)");
    if (request->cwd)
        return usage_error(err,
                           "--cwd is for a session: -s NAME; a fresh box starts in /workspace");
    return 0;
}

static int check_program(const char *const *argv, struct error *err)
{
    if (!argv[0] || !argv[0][0])
        return usage_error(err, "nothing to run: name a program, as in 'bailey exec -- ls -l'");
    return 0;
}

int run_check_program(const struct request *request, const char *const *argv, struct error *err)
{
    int result = check_fresh(request, err);

    if (result == 0)
        result = check_program(argv, err);
    return result < 0 ? result : check_size(argv, request->env, err);
}

int exec_main(const struct invocation *invocation)
{
    CLEANUP(request_free) struct request request = {0};
    CLEANUP(config_free) struct config config = {0};
    struct job job = {.request = &request, .config = &config, .argv = invocation->parsed.rest};
    struct error err = {0};

    if (request_load(invocation, &request, &config, &err) < 0 || check_fresh(&request, &err) < 0 ||
        check_program(job.argv, &err) < 0 || check_size(job.argv, request.env, &err) < 0 ||
        find_place(&job, invocation, &err) < 0)
        return refuse(&request, &config, &err);
    return finish(&job);
}
