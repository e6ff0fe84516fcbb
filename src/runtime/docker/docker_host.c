/* docker_host.c - the Docker provider host as a whole: its rendezvous socket, its beginning and its
 * end; see docker_host.h. */
#include "runtime/docker/docker_host.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/str.h"
#include "runtime/docker/docker_private.h"
#include "sys/packet.h"

/* ---- leaving ---- */

static void leave_now(struct docker_host *docker)
{
    if (docker->has_left)
        return;
    docker->has_left = true;
    docker->spec.left(docker->spec.ctx);
}

void host_check_left(struct docker_host *docker)
{
    if (docker->is_leaving && !docker->boxes && !docker->leftovers &&
        docker->prepare.stage != PREPARE_RUNS)
        leave_now(docker);
}

static void on_patience_over(void *ctx)
{
    struct docker_host *docker = ctx;

    log_warning("docker: containers could not be removed in time, continuing without it: the next "
                "engine does");
    leave_now(docker);
}

void docker_host_leave(struct docker_host *docker)
{
    struct container *next;

    if (docker->is_leaving)
        return;
    docker->is_leaving = true;
    prepare_leave(docker);
    docker->leave_timer = reactor_timer(docker->reactor, on_patience_over, docker);
    if (docker->leave_timer)
        docker->reactor->ops->timer_set(docker->leave_timer, DOCKER_LEAVE_MS);
    for (struct container *box = docker->boxes; box; box = next) {
        next = box->next;
        container_end(box);
    }
    host_check_left(docker);
}

/* ---- the rendezvous socket ---- */

static void on_rendezvous(void *ctx, short events)
{
    struct docker_host *docker = ctx;

    (void)events;
    for (;;) {
        uint8_t byte[8];
        int fd = -1;
        ssize_t length = packet_take(docker->spec.rendezvous_fd, byte, sizeof(byte), &fd);

        if (length == 0 || length == -EPROTO)
            return;
        if (length < 0) {
            docker->reactor->ops->watch_remove(docker->rendezvous);
            docker->rendezvous = NULL;
            control_drop(docker);
            docker_host_leave(docker);
            return;
        }
        if (fd >= 0)
            control_take(docker, fd);
    }
}

/* ---- the whole ---- */

/*
 * Several machines may have one Docker, and several containers of one machine: /var/lib/bailey is
 * another folder in each. So the machine, the folder itself and the identity that is kept in it are
 * in its name, or one engine would remove the boxes of another. Path, machine and inode alone are
 * the same in two containers of one image: overlayfs shows the inode of the image's folder, and
 * /etc/machine-id is the image's too.
 */
static void name_state(const char *folder, const char *identity, char *ret, size_t size)
{
    char machine[64], text[SHA256_TEXT];
    struct stat status = {0};
    uint8_t digest[SHA256_BYTES];
    struct sha256 hash;
    uint64_t number;

    if (fd_read_text_at(AT_FDCWD, "/etc/machine-id", machine, sizeof(machine)) < 0)
        machine[0] = 0;
    number = stat(folder, &status) == 0 ? (uint64_t)status.st_ino : 0;
    sha256_begin(&hash);
    sha256_add(&hash, machine, strlen(machine) + 1);
    sha256_add(&hash, &number, sizeof(number));
    sha256_add(&hash, identity, strlen(identity) + 1);
    sha256_add(&hash, folder, strlen(folder));
    sha256_end(&hash, digest);
    sha256_text(digest, text);
    text[16] = 0;
    str_copy(ret, size, text);
}

static int name_host(struct docker_host *docker, struct error *err)
{
    const char *engine = docker->spec.engine, *state = docker->spec.state;
    char made[ID_MAX];

    if (id_make(made, "l") < 0)
        return error_set(err, -EIO, ERROR_ENGINE, "no random number could be had");
    str_format(docker->life, sizeof(docker->life), "%.6s", made + 2);
    if (engine && engine[0]) {
        if (strspn(engine, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(engine) ||
            !str_copy(docker->engine, sizeof(docker->engine), engine))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%s' cannot name an engine", engine);
    } else if (id_make(made, "e") < 0 ||
               !str_copy(docker->engine, sizeof(docker->engine), made + 2)) {
        return error_set(err, -EIO, ERROR_ENGINE, "no random number could be had");
    }
    if (!state || !state[0]) {
        docker->spec.state = NULL;
        str_copy(docker->state, sizeof(docker->state), "none");
        return 0;
    }
    name_state(state, docker->spec.identity ? docker->spec.identity : "", docker->state,
               sizeof(docker->state));
    return 0;
}

int docker_host_open(struct reactor *reactor, const struct docker_host_spec *spec,
                     struct docker_host **ret, struct error *err)
{
    struct docker_host *docker = calloc(1, sizeof(*docker));
    int r;

    if (!docker)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    docker->spec = *spec;
    docker->reactor = reactor;
    docker->control.fd = -1;
    docker->control.notes_end = &docker->control.notes;
    r = name_host(docker, err);
    if (r == 0)
        r = volume_describe(&docker->volume, spec->program_fd, err);
    if (r == 0)
        r = api_open(&docker->api, reactor, &docker->spec, err);
    if (r == 0) {
        fd_set_nonblocking(spec->rendezvous_fd, true);
        docker->rendezvous =
            reactor_watch(reactor, spec->rendezvous_fd, POLLIN, on_rendezvous, docker);
        if (!docker->rendezvous)
            r = error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    }
    if (r < 0) {
        docker_host_close(docker);
        return r;
    }
    prepare_look(docker);
    *ret = docker;
    return 0;
}

bool docker_host_is_outdated(const struct docker_host *docker)
{
    return docker->is_outdated;
}

void docker_host_close(struct docker_host *docker)
{
    const struct reactor_ops *ops;

    if (!docker)
        return;
    ops = docker->reactor->ops;
    control_drop(docker);
    while (docker->boxes)
        container_free(docker->boxes);
    prepare_stop(docker);
    sweep_stop(docker);
    ops->watch_remove(docker->rendezvous);
    if (docker->pool_timer)
        ops->timer_remove(docker->pool_timer);
    if (docker->leave_timer)
        ops->timer_remove(docker->leave_timer);
    api_close(&docker->api);
    buf_free(&docker->volume.tar);
    free(docker);
}
