/* host.c - a provider host: its rendezvous socket, start and end; see host.h. */
#include "runtime/host/host.h"

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
#include "runtime/host/host_private.h"
#include "sys/packet.h"

/* ---- stopping ---- */

static void leave_now(struct host *host)
{
    if (host->has_left)
        return;
    host->has_left = true;
    host->spec.left(host->spec.ctx);
}

void host_check_left(struct host *host)
{
    if (host->is_leaving && !host->boxes && !host->ops->is_busy(host))
        leave_now(host);
}

static void on_patience_over(void *ctx)
{
    struct host *host = ctx;

    log_warning("%s: boxes could not be removed in time, continuing without it: the next engine "
                "removes them",
                host->row->name);
    leave_now(host);
}

void host_leave(struct host *host)
{
    struct host_box *next;

    if (host->is_leaving)
        return;
    host->is_leaving = true;
    host->ops->leave(host);
    host->leave_timer = reactor_timer(host->reactor, on_patience_over, host);
    if (host->leave_timer)
        host->reactor->ops->timer_set(host->leave_timer, HOST_LEAVE_MS);
    for (struct host_box *box = host->boxes; box; box = next) {
        next = box->next;
        host_box_end(box);
    }
    host_check_left(host);
}

/* ---- the rendezvous socket ---- */

static void on_rendezvous(void *ctx, short events)
{
    struct host *host = ctx;

    (void)events;
    for (;;) {
        uint8_t byte[8];
        int fd = -1;
        ssize_t length = packet_take(host->spec.rendezvous_fd, byte, sizeof(byte), &fd);

        if (length == 0 || length == -EPROTO)
            return;
        if (length < 0) {
            host->reactor->ops->watch_remove(host->rendezvous);
            host->rendezvous = NULL;
            control_drop(host);
            host_leave(host);
            return;
        }
        if (fd >= 0)
            control_take(host, fd);
    }
}

/* ---- start and end ---- */

/*
 * Several machines, and several containers on one machine, may share a provider: /var/lib/bailey is
 * a different folder in each. So the name contains the machine, the folder and the identity stored
 * in it, or one engine would remove the boxes of another. Path, machine and inode alone are the
 * same in two containers of one image: overlayfs shows the inode of the image's folder, and
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

static int name_host(struct host *host, struct error *err)
{
    const char *engine = host->spec.engine, *state = host->spec.state;
    char made[ID_MAX];

    if (id_make(made, "l") < 0)
        return error_set(err, -EIO, ERROR_ENGINE, "no random number could be had");
    str_format(host->life, sizeof(host->life), "%.6s", made + 2);
    if (engine && engine[0]) {
        if (strspn(engine, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(engine) ||
            !str_copy(host->engine, sizeof(host->engine), engine))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%s' cannot name an engine", engine);
    } else if (id_make(made, "e") < 0 || !str_copy(host->engine, sizeof(host->engine), made + 2)) {
        return error_set(err, -EIO, ERROR_ENGINE, "no random number could be had");
    }
    if (!state || !state[0]) {
        host->spec.state = NULL;
        str_copy(host->state, sizeof(host->state), "none");
        return 0;
    }
    name_state(state, host->spec.identity ? host->spec.identity : "", host->state,
               sizeof(host->state));
    return 0;
}

int host_open(struct reactor *reactor, const struct host_spec *spec,
              const struct backend_row *backend, const struct config *config, struct host **ret,
              struct error *err)
{
    struct host *host = calloc(1, sizeof(*host));
    int r;

    if (!host)
        return error_memory(err);
    host->spec = *spec;
    host->row = provider_known(backend->name);
    host->ops = backend->ops;
    host->reactor = reactor;
    host->control.fd = -1;
    host->control.notes_end = &host->control.notes;
    r = name_host(host, err);
    if (r == 0)
        r = host->ops->open(host, config, &host->backend, err);
    if (r == 0) {
        fd_set_nonblocking(spec->rendezvous_fd, true);
        host->rendezvous = reactor_watch(reactor, spec->rendezvous_fd, POLLIN, on_rendezvous, host);
        if (!host->rendezvous)
            r = error_memory(err);
    }
    if (r < 0) {
        host_close(host);
        return r;
    }
    if (host->ops->sweep)
        host->ops->sweep(host);
    *ret = host;
    return 0;
}

bool host_is_outdated(const struct host *host)
{
    return host->is_outdated;
}

void host_close(struct host *host)
{
    const struct reactor_ops *ops;

    if (!host)
        return;
    ops = host->reactor->ops;
    control_drop(host);
    while (host->boxes)
        host_box_free(host->boxes);
    ops->watch_remove(host->rendezvous);
    if (host->pool_timer)
        ops->timer_remove(host->pool_timer);
    if (host->leave_timer)
        ops->timer_remove(host->leave_timer);
    if (host->backend)
        host->ops->close(host);
    free(host);
}

/* ---- for backends ---- */

void *host_backend(const struct host *host)
{
    return host->backend;
}

struct reactor *host_reactor(const struct host *host)
{
    return host->reactor;
}

const struct host_spec *host_spec(const struct host *host)
{
    return &host->spec;
}

struct host_box *host_boxes(const struct host *host)
{
    return host->boxes;
}

const char *host_engine(const struct host *host)
{
    return host->engine;
}

const char *host_state(const struct host *host)
{
    return host->state;
}

bool host_is_leaving(const struct host *host)
{
    return host->is_leaving;
}

void host_set_cpu_count(struct host *host, uint32_t count)
{
    host->cpu_count = count;
}
