/* host.c - `bailey-engine host NAME`: reads the settings and runs a provider host; see host.h. */
#include "broker/host.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "broker/uv_reactor.h"
#include "config/config.h"
#include "launcher/launcher.h"
#include "runtime/host/host.h"
#include "runtime/host/hosted.h"

#define TELL_MS 30000 /* where there is no terminal, while it goes on */

struct job {
    const char *name; /* of the provider */
    struct reactor *reactor;
    bool shows, is_terminal, has_line;
    uint64_t shown_ms;
};

static void on_left(void *ctx)
{
    uv_reactor_stop(((struct job *)ctx)->reactor);
}

/* ---- an image that comes ---- */

/* The name was checked, the words are the provider host's own: nothing in them that a terminal
 * obeys. */
static void write_line(struct job *job, const char *image, const char *words)
{
    char text[512];

    str_format(text, sizeof(text), "\r\033[Kpulling %.300s: %s", image, words);
    fd_write_all(STDERR_FILENO, text, strlen(text));
    job->has_line = true;
}

static void clear_line(struct job *job)
{
    if (job->has_line)
        fd_write_all(STDERR_FILENO, "\r\033[K", 4);
    job->has_line = false;
}

/* One line that changes on a terminal; elsewhere its beginning, its end and a few in between. */
static void on_progress(void *ctx, enum host_progress what, const char *image, const char *words)
{
    static const char *const says[] = {[PROGRESS_BEGINS] = "is not there, pulling it",
                                       [PROGRESS_GOES_ON] = "comes",
                                       [PROGRESS_ENDS] = "came"};
    struct job *job = ctx;
    uint64_t now_ms = clock_now_ms();
    bool is_between = what == PROGRESS_GOES_ON;

    if (what == PROGRESS_FAILED) {
        clear_line(job); /* the error goes to the caller */
        return;
    }
    if (is_between && !(job->shows && job->is_terminal) && now_ms - job->shown_ms < TELL_MS)
        return;
    job->shown_ms = now_ms;
    if (!job->shows) {
        log_info("%s: image %s %s (%s)", job->name, image, says[what], words);
    } else if (!job->is_terminal) {
        char text[512];

        str_format(text, sizeof(text), "bailey: image %.300s %s%s%s%s\n", image, says[what],
                   what == PROGRESS_BEGINS ? "" : " (", what == PROGRESS_BEGINS ? "" : words,
                   what == PROGRESS_BEGINS ? "" : ")");
        fd_write_all(STDERR_FILENO, text, strlen(text));
    } else if (what == PROGRESS_ENDS) {
        clear_line(job);
    } else {
        write_line(job, image, words);
    }
}

static void fill_spec(struct host_spec *spec, const struct backend_row *backend,
                      const struct config *config)
{
    *spec = (struct host_spec){
        .rendezvous_fd = HOST_RENDEZVOUS_FD,
        .program_fd = HOST_WARDEN_FD,
        .engine = getenv(HOST_ENV_ENGINE),
        .state = getenv(HOST_ENV_STATE),
        .identity = getenv(HOST_ENV_IDENTITY),
        .memory_bytes = config->limits.memory_bytes,
        .disk_bytes = config->limits.disk_bytes,
        .pids = config->limits.pids,
        .cpu_millis = config->limits.cpu_millis,
        .minimum = (uint8_t)config->isolation,
        .has_no_ceiling = getenv(HOST_ENV_NO_CEILING),
        .progress = on_progress,
        .left = on_left,
    };
    if (!spec->state)
        return;                          /* one box for a command, which shows progress */
    spec->has_kernels = config->is_warm; /* SANDBOX_WARM */
    spec->python = getenv(HOST_ENV_PYTHON);
    if (backend->ops->fill)
        backend->ops->fill(config, spec);
}

/* Its status, or negative. */
static int run(const char *name, const struct config *config, struct error *err)
{
    const struct backend_row *backend = backend_find(name);
    struct host_spec spec;
    struct host *host;
    struct reactor *reactor;
    struct job job = {.name = name,
                      .shows = getenv(HOST_ENV_PROGRESS) != NULL,
                      .is_terminal = isatty(STDERR_FILENO)};
    int r;

    if (!backend)
        return error_set(err, -ENOSYS, ERROR_BAD_CONFIG, "no provider '%.64s' has a host", name);
    r = uv_reactor_new(&reactor, err);
    if (r < 0)
        return r;
    job.reactor = reactor;
    fill_spec(&spec, backend, config);
    spec.ctx = &job;
    r = host_open(reactor, &spec, backend, config, &host, err);
    if (r == 0) {
        r = uv_reactor_run(reactor);
        if (r == 0 && host_is_outdated(host))
            r = HOST_STATUS_OUTDATED;
        host_close(host);
        clear_line(&job);
    }
    uv_reactor_free(reactor);
    return r;
}

int host_main(const char *name)
{
    struct config config = {0};
    struct error err = {0};
    int r;

    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* Ctrl-C of a terminal: the parent process ends this one */
    prctl(PR_SET_DUMPABLE, 0);
    fcntl(HOST_RENDEZVOUS_FD, F_SETFD, FD_CLOEXEC);
    fcntl(HOST_WARDEN_FD, F_SETFD, FD_CLOEXEC);
    r = config_load_text(&config, "", 0, "settings", environ, &err);
    if (r == 0)
        r = config_check(&config, &err);
    if (r == 0) {
        log_set_level(config.log_level);
        log_set_json(config.log_is_json);
        r = run(name, &config, &err);
    }
    if (r < 0)
        log_error("%s: %s", name, err.text);
    config_free(&config);
    return r < 0 ? 1 : r;
}
