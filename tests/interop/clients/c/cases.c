/*
 * cases.c - one function of libbailey after the other, as its header promises: `cases NAME [URL]`,
 * with "env" for the server of the environment.
 *
 * Prints what the test compares.
 */
#include <bailey.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct bailey_error err;

static void tell(const char *what, int r)
{
    printf("%s %s %s %s\n", what, r < 0 ? strerror(-r) : "ok", r < 0 ? err.code : "-",
           r < 0 ? err.text : "-");
}

static bailey_spec *code_of(const char *code)
{
    bailey_spec *spec = bailey_spec_new();

    bailey_spec_code(spec, NULL, code, strlen(code));
    return spec;
}

/* Endings: of the program, of its time, of the configuration. */
static void endings(bailey_engine *engine)
{
    static const char *const settings[][2] = {
        {"timeout", "1"}, {"memory", "far too much"}, {"colour", "red"}};
    bailey_result *result = NULL;
    int r = bailey_run_code(engine, "bash", "echo out; echo err >&2; exit 3", &result, &err);

    tell("bash", r);
    printf("%d %s%s", bailey_result_exit_code(result), bailey_result_stdout(result, NULL),
           bailey_result_stderr(result, NULL));
    bailey_result_free(result);
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        bailey_spec *spec = code_of("import time; time.sleep(60)");

        result = NULL;
        bailey_spec_set(spec, settings[i][0], settings[i][1]);
        tell(settings[i][0], bailey_run(engine, spec, &result, &err));
        if (result)
            printf("timed out: %d\n", bailey_result_timed_out(result));
        bailey_result_free(result);
        bailey_spec_free(spec);
    }
}

/* What one way or the other cannot do is said. */
static void limits(bailey_engine *engine)
{
    bailey_spec *spec = code_of("1");
    bailey_sandbox *sandbox = NULL;

    bailey_spec_set(spec, "cwd", "/");
    tell("cwd", bailey_run(engine, spec, NULL, &err));
    bailey_spec_free(spec);
    spec = code_of("1");
    bailey_spec_set(spec, "type", "docker");
    tell("type", bailey_run(engine, spec, NULL, &err));
    tell("sandbox", bailey_sandbox_new(engine, NULL, &sandbox, &err));
    bailey_spec_free(spec);
    spec = bailey_spec_new();
    tell("nothing", bailey_run(engine, spec, NULL, &err));
    bailey_spec_code(spec, NULL, "\xff", 1);
    tell("not UTF-8", bailey_run(engine, spec, NULL, &err));
    bailey_spec_free(spec);
}

/* Engines and jobs may end while a box runs: it is gone then. */
static void abandoned(bailey_engine *engine)
{
    bailey_spec *spec = code_of("import time; time.sleep(60)");
    bailey_job *job = NULL;

    tell("start", bailey_start(engine, spec, &job, &err));
    printf("done: %d, result: %s\n", bailey_job_is_done(job),
           bailey_job_result(job) ? "yes" : "no");
    bailey_job_free(job);
    tell("start", bailey_start(engine, spec, &job, &err)); /* left to bailey_close() */
    bailey_spec_free(spec);
}

static void on_output(void *ctx, int stream, const void *data, size_t length)
{
    (void)stream;
    (void)data;
    *(size_t *)ctx += length;
}

/* More than the result keeps, and than any buffer between holds. */
static void flood(bailey_engine *engine)
{
    bailey_spec *spec = code_of("import sys; sys.stdout.write('x' * 3000000)");
    bailey_result *result = NULL;
    size_t seen = 0, kept = 0;

    bailey_spec_on_output(spec, on_output, &seen);
    tell("flood", bailey_run(engine, spec, &result, &err));
    bailey_result_stdout(result, &kept);
    printf("%zu %s\n", seen, kept < 20000 ? "kept less" : "kept too much");
    bailey_result_free(result);
    bailey_spec_free(spec);
}

/* Sessions: found again, errors of the server with its code and status. */
static void server(bailey_engine *engine)
{
    bailey_sandbox *sandbox = NULL, *again = NULL;
    bailey_spec *settings = bailey_spec_new();
    char *data = NULL;
    size_t length = 0;

    bailey_spec_set(settings, "timeout", "7");
    bailey_spec_set(settings, "memory", "128m");
    tell("new", bailey_sandbox_new(engine, settings, &sandbox, &err));
    tell("connect", bailey_sandbox_connect(engine, bailey_sandbox_id(sandbox), &again, &err));
    tell("write", bailey_sandbox_write(sandbox, "a b", "\0\1", 2, &err));
    tell("read", bailey_sandbox_read(again, "/workspace/a b", &data, &length, &err));
    printf("%zu %d\n", length, data[1]);
    bailey_free(data);
    tell("read", bailey_sandbox_read(again, "not there", &data, &length, &err));
    printf("status %u\n", err.status);
    tell("call", bailey_call(engine, "GET", "/v1/info", NULL, &data, &length, &err));
    bailey_free(data);
    bailey_sandbox_free(again);
    tell("end", bailey_sandbox_end(sandbox, &err));
    bailey_spec_free(settings);
}

/* A command is killed when its job is cancelled, code is interrupted; the session stays usable. */
static void cancel(bailey_engine *engine)
{
    static const char *const argv[] = {"sleep", "1000", NULL};
    bailey_spec *specs[2] = {code_of("print(1, flush=True)\nimport time; time.sleep(1000)"),
                             bailey_spec_new()};
    bailey_sandbox *sandbox = NULL;
    bailey_result *result = NULL;
    size_t seen = 0;

    bailey_sandbox_new(engine, NULL, &sandbox, &err);
    bailey_spec_program(specs[1], argv);
    for (int i = 0; i < 2; i++) {
        bailey_job *job = NULL;

        bailey_spec_on_output(specs[i], on_output, &seen);
        bailey_sandbox_start(sandbox, specs[i], &job, &err);
        while (i == 0 && seen == 0)
            bailey_step(engine, -1, &err);
        bailey_job_cancel(job);
        tell("cancelled", bailey_job_wait(job, NULL, &err));
        bailey_job_free(job);
        bailey_spec_free(specs[i]);
    }
    tell("then", bailey_sandbox_run_code(sandbox, NULL, "6*7", &result, &err));
    printf("%s\n", bailey_result_text(result));
    bailey_result_free(result);
    bailey_sandbox_end(sandbox, &err);
}

/* A program without standard error, or that keeps it to itself, gets its boxes as any other. */
static void no_stderr(bailey_engine *engine)
{
    for (int i = 0; i < 2; i++) {
        bailey_result *result = NULL;

        if (i == 0)
            fcntl(2, F_SETFD, FD_CLOEXEC);
        else
            close(2);
        tell("run", bailey_run_code(engine, "bash", "echo out; echo err >&2", &result, &err));
        printf("%s%s", bailey_result_stdout(result, NULL), bailey_result_stderr(result, NULL));
        bailey_result_free(result);
    }
}

static void json(bailey_engine *engine)
{
    bailey_result *result = NULL;
    int r = bailey_run_code(engine, NULL, "1", &result, &err);

    puts(r < 0 ? err.text : bailey_result_json(result));
    bailey_result_free(result);
}

static const struct {
    const char *name;
    void (*run)(bailey_engine *engine);
} cases[] = {{"endings", endings}, {"limits", limits},      {"abandoned", abandoned},
             {"flood", flood},     {"server", server},      {"cancel", cancel},
             {"json", json},       {"no_stderr", no_stderr}};

int main(int argc, char **argv)
{
    bailey_engine *engine = NULL;
    const char *url = argc > 2 && strcmp(argv[2], "env") != 0 ? argv[2] : NULL;
    int r = argc > 2 ? bailey_open(&engine, url, NULL, &err) : bailey_open_local(&engine, &err);

    if (r < 0) {
        tell("open", r);
        return 1;
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name) == 0)
            cases[i].run(engine);
    }
    bailey_close(engine);
    return 0;
}
