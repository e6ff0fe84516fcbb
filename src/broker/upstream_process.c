/*
 * upstream_process.c - `bailey-engine host upstream`: reads its settings and runs the process that
 * speaks to the model server; see broker/host.h and upstream/upstream.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "broker/host.h"
#include "broker/uv_reactor.h"
#include "config/config.h"
#include "egress/egress.h"
#include "launcher/launcher.h"
#include "upstream/upstream.h"

static const char who[] = "the process that speaks to the model server";

struct job {
    struct reactor *reactor;
    int status;
};

static void on_left(void *ctx, int status)
{
    struct job *job = ctx;

    job->status = status;
    uv_reactor_stop(job->reactor);
}

/* Its text in the environment is overwritten: /proc/PID/environ would show it. */
static char *take_key(void)
{
    char *text = getenv(UPSTREAM_ENV_KEY);
    char *copy = text && text[0] ? strdup(text) : NULL;

    if (text)
        explicit_bzero(text, strlen(text));
    unsetenv(UPSTREAM_ENV_KEY);
    return copy;
}

static int run(const struct config *config, const char *key, struct error *err)
{
    struct job job = {0};
    struct upstream_spec spec = {.rendezvous_fd = HOST_RENDEZVOUS_FD,
                                 .url = config->upstream.url,
                                 .key = key,
                                 .timeout_ms = config->upstream.timeout_ms,
                                 .left = on_left,
                                 .ctx = &job};
    struct upstream *upstream;
    int r;

    if (!spec.url)
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG, "%s has no address", UPSTREAM_ENV_URL);
    r = uv_reactor_new(&job.reactor, err);
    if (r < 0)
        return r;
    r = upstream_open(job.reactor, &spec, &upstream, err);
    if (r == 0)
        r = egress_confine_files(who, err);
    if (r == 0)
        r = uv_reactor_run(job.reactor);
    return r < 0 ? r : job.status;
}

int upstream_process_main(void)
{
    struct config config = {0};
    CLEANUP(freep) char *key = take_key();
    struct error err = {0};
    int r;

    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* Ctrl-C of a terminal: the parent process ends this one */
    prctl(PR_SET_NAME, "upstream");
    prctl(PR_SET_DUMPABLE, 0);
    fcntl(HOST_RENDEZVOUS_FD, F_SETFD, FD_CLOEXEC);
    close(HOST_WARDEN_FD);
    r = egress_confine_calls(who, true, &err);
    if (r == 0)
        r = config_load_text(&config, "", 0, "settings", environ, &err);
    if (r == 0) {
        log_set_level(config.log_level);
        log_set_json(config.log_is_json);
        r = run(&config, key, &err);
    }
    if (r < 0)
        log_error("%s: %s", who, err.text);
    /* Freeing what is open would be useless, and exit handlers may need what the filter blocks. */
    _exit(r < 0 ? 1 : r);
}
