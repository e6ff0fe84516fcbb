/*
 * events.c - runs beside other work: an event loop over poll(2), output as it arrives, a run that
 * is cancelled.
 *
 *   cc events.c $(pkg-config --cflags --libs bailey) -o events && ./events
 *
 * With an argument ("http://HOST:PORT", "unix:///PATH") over that server, else in boxes that this
 * program makes itself.
 */
#include <bailey.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

struct runs {
    bailey_job *counts, *sleeps;
};

/* The first output of one run ends the other, which would sleep for a minute. */
static void on_output(void *ctx, int stream, const void *data, size_t length)
{
    struct runs *runs = ctx;

    fwrite(data, 1, length, stream == 1 ? stdout : stderr);
    fflush(stdout);
    bailey_job_cancel(runs->sleeps);
}

static int begin(bailey_engine *engine, const char *code, struct runs *runs, bailey_job **ret,
                 struct bailey_error *err)
{
    bailey_spec *spec = bailey_spec_new();
    int r;

    if (!spec)
        return -1;
    bailey_spec_code(spec, "python", code, strlen(code));
    if (runs)
        bailey_spec_on_output(spec, on_output, runs);
    r = bailey_start(engine, spec, ret, err);
    bailey_spec_free(spec);
    return r;
}

/* A program's own descriptors would be in the same poll(2). */
static int turn_until_done(bailey_engine *engine, struct bailey_error *err)
{
    int left;

    while ((left = bailey_step(engine, 0, err)) > 0) {
        struct pollfd polls[1] = {{.fd = bailey_fd(engine), .events = POLLIN, .revents = 0}};

        poll(polls, 1, -1);
    }
    return left;
}

int main(int argc, char **argv)
{
    struct bailey_error err = {0};
    struct runs runs = {NULL, NULL};
    bailey_engine *engine = NULL;
    const bailey_result *result = NULL;
    int r = argc > 1 ? bailey_open(&engine, argv[1], NULL, &err) : bailey_open_local(&engine, &err);

    if (r == 0)
        r = begin(engine, "import time; time.sleep(60)", NULL, &runs.sleeps, &err);
    if (r == 0)
        r = begin(engine, "for n in range(3): print(n, flush=True)", &runs, &runs.counts, &err);
    if (r == 0)
        r = turn_until_done(engine, &err);
    if (r == 0)
        r = bailey_job_wait(runs.counts, &result, &err);
    if (r == 0) {
        printf("exit code %d\n", bailey_result_exit_code(result));
        bailey_job_wait(runs.sleeps, NULL, &err);
        printf("the other: %s\n", err.code);
    } else {
        fprintf(stderr, "%s: %s\n", err.code, err.text);
    }
    bailey_job_free(runs.counts);
    bailey_job_free(runs.sleeps);
    bailey_close(engine);
    return r < 0;
}
