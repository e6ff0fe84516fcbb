/* wall.c - the Docker wall as a whole: its meeting point, its beginning and its end; see wall.h. */
#include "runtime/docker/wall.h"

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
#include "runtime/docker/inside.h"
#include "sys/packet.h"

/* ---- leaving ---- */

static void leave_now(struct docker_wall *wall)
{
    if (wall->has_left)
        return;
    wall->has_left = true;
    wall->spec.left(wall->spec.ctx);
}

void wall_check_left(struct docker_wall *wall)
{
    if (wall->is_leaving && !wall->boxes && !wall->graves && wall->prepare.stage != PREPARE_RUNS)
        leave_now(wall);
}

static void on_patience_over(void *ctx)
{
    struct docker_wall *wall = ctx;

    log_warning("docker: containers could not be removed in time, continuing without it: the next "
                "engine does");
    leave_now(wall);
}

void docker_wall_leave(struct docker_wall *wall)
{
    struct wall_box *next;

    if (wall->is_leaving)
        return;
    wall->is_leaving = true;
    prepare_leave(wall);
    wall->leave_timer = reactor_timer(wall->reactor, on_patience_over, wall);
    if (wall->leave_timer)
        wall->reactor->ops->timer_set(wall->leave_timer, DOCKER_LEAVE_MS);
    for (struct wall_box *box = wall->boxes; box; box = next) {
        next = box->next;
        docked_end(box);
    }
    wall_check_left(wall);
}

/* ---- the meeting point ---- */

static void on_meeting(void *ctx, short events)
{
    struct docker_wall *wall = ctx;

    (void)events;
    for (;;) {
        uint8_t byte[8];
        int fd = -1;
        ssize_t length = packet_take(wall->spec.meeting_fd, byte, sizeof(byte), &fd);

        if (length == 0 || length == -EPROTO)
            return;
        if (length < 0) {
            wall->reactor->ops->watch_remove(wall->meeting);
            wall->meeting = NULL;
            control_drop(wall);
            docker_wall_leave(wall);
            return;
        }
        if (fd >= 0)
            control_take(wall, fd);
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

static int name_wall(struct docker_wall *wall, struct error *err)
{
    const char *engine = wall->spec.engine, *state = wall->spec.state;
    char made[ID_MAX];

    if (id_make(made, "l") < 0)
        return error_set(err, -EIO, ERROR_ENGINE, "no random number could be had");
    str_format(wall->life, sizeof(wall->life), "%.6s", made + 2);
    if (engine && engine[0]) {
        if (strspn(engine, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(engine) ||
            !str_copy(wall->engine, sizeof(wall->engine), engine))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%s' cannot name an engine", engine);
    } else if (id_make(made, "e") < 0 || !str_copy(wall->engine, sizeof(wall->engine), made + 2)) {
        return error_set(err, -EIO, ERROR_ENGINE, "no random number could be had");
    }
    if (!state || !state[0]) {
        wall->spec.state = NULL;
        str_copy(wall->state, sizeof(wall->state), "none");
        return 0;
    }
    name_state(state, wall->spec.identity ? wall->spec.identity : "", wall->state,
               sizeof(wall->state));
    return 0;
}

int docker_wall_open(struct reactor *reactor, const struct docker_wall_spec *spec,
                     struct docker_wall **ret, struct error *err)
{
    struct docker_wall *wall = calloc(1, sizeof(*wall));
    int r;

    if (!wall)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    wall->spec = *spec;
    wall->reactor = reactor;
    wall->control.fd = -1;
    wall->control.notes_end = &wall->control.notes;
    r = name_wall(wall, err);
    if (r == 0)
        r = volume_describe(&wall->volume, spec->program_fd, err);
    if (r == 0)
        r = api_open(&wall->api, reactor, &wall->spec, err);
    if (r == 0) {
        fd_set_nonblocking(spec->meeting_fd, true);
        wall->meeting = reactor_watch(reactor, spec->meeting_fd, POLLIN, on_meeting, wall);
        if (!wall->meeting)
            r = error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    }
    if (r < 0) {
        docker_wall_close(wall);
        return r;
    }
    prepare_look(wall);
    *ret = wall;
    return 0;
}

bool docker_wall_is_outdated(const struct docker_wall *wall)
{
    return wall->is_outdated;
}

void docker_wall_close(struct docker_wall *wall)
{
    const struct reactor_ops *ops;

    if (!wall)
        return;
    ops = wall->reactor->ops;
    control_drop(wall);
    while (wall->boxes)
        docked_free(wall->boxes);
    prepare_stop(wall);
    sweep_stop(wall);
    ops->watch_remove(wall->meeting);
    if (wall->pool_timer)
        ops->timer_remove(wall->pool_timer);
    if (wall->leave_timer)
        ops->timer_remove(wall->leave_timer);
    api_close(&wall->api);
    buf_free(&wall->volume.tar);
    free(wall);
}
