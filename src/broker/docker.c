/* docker.c - `bailey-engine docker`: reads the settings and runs the Docker wall; see docker.h. */
#include "broker/docker.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "broker/uv_reactor.h"
#include "config/config.h"
#include "runtime/docker/wall.h"

static void on_left(void *ctx)
{
    uv_reactor_stop(ctx);
}

static void fill_spec(struct docker_wall_spec *spec, const struct config *config)
{
    *spec = (struct docker_wall_spec){
        .meeting_fd = DOCKER_MEETING_FD,
        .program_fd = DOCKER_PROGRAM_FD,
        .image = config->docker.image,
        .host = config->docker.host,
        .cert_path = config->docker.cert_path,
        .verifies_tls = config->docker.verifies_tls,
        .runtime = config->docker.runtime,
        .has_network = config->docker.has_network,
        .pool_size = config->docker.pool_size,
        .engine = getenv("BAILEY_WALL_ENGINE"),
        .state = getenv("BAILEY_WALL_STATE"),
        .memory_bytes = config->limits.memory_bytes,
        .disk_bytes = config->limits.disk_bytes,
        .pids = config->limits.pids,
        .cpu_millis = config->limits.cpu_millis,
        .minimum = (uint8_t)config->isolation,
        .has_kernels = config->is_warm, /* SANDBOX_WARM */
        .left = on_left,
    };
}

/* Its status, or negative. */
static int run(const struct config *config, struct error *err)
{
    struct docker_wall_spec spec;
    struct docker_wall *wall;
    struct reactor *reactor;
    int r = uv_reactor_new(&reactor, err);

    if (r < 0)
        return r;
    fill_spec(&spec, config);
    spec.ctx = reactor;
    r = docker_wall_open(reactor, &spec, &wall, err);
    if (r == 0) {
        r = uv_reactor_run(reactor);
        if (r == 0 && docker_wall_is_outdated(wall))
            r = DOCKER_STATUS_OUTDATED;
        docker_wall_close(wall);
    }
    uv_reactor_free(reactor);
    return r;
}

int docker_main(void)
{
    struct config config = {0};
    struct error err = {0};
    int r;

    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* a terminal's: whoever started us says when it is over */
    prctl(PR_SET_DUMPABLE, 0);
    fcntl(DOCKER_MEETING_FD, F_SETFD, FD_CLOEXEC);
    fcntl(DOCKER_PROGRAM_FD, F_SETFD, FD_CLOEXEC);
    r = config_load_text(&config, "", 0, "settings", environ, &err);
    if (r == 0)
        r = config_check(&config, &err);
    if (r == 0) {
        log_set_level(config.log_level);
        log_set_json(config.log_is_json);
        r = run(&config, &err);
    }
    if (r < 0)
        log_error("docker: %s", err.text);
    config_free(&config);
    return r < 0 ? 1 : r;
}
