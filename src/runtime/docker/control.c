/*
 * control.c - the broker as the provider host hears it: launcher/protocol.h, as the launcher does.
 *
 * The broker talks to clients, so it may be anybody's by now. One that says anything but numbers is
 * not heard any more; its boxes stay for the next. While answers wait for it to read, nothing more
 * is read from it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "runtime/docker/docker_private.h"

#define MESSAGES_PER_TURN 16

struct note { /* a message that could not be sent yet */
    struct note *next;
    struct launcher_message message;
    int fd;
};

static void note_free(struct note *note)
{
    fd_closep(&note->fd);
    free(note);
}

void control_drop(struct docker_host *docker)
{
    struct control *control = &docker->control;

    if (control->fd < 0)
        return;
    docker->reactor->ops->watch_remove(control->watch);
    control->watch = NULL;
    fd_closep(&control->fd);
    control->fd = -1;
    control->has_said_hello = control->greets_later = false;
    while (control->notes) {
        struct note *note = control->notes;

        control->notes = note->next;
        note_free(note);
    }
    control->notes_end = &control->notes;
}

static void listen_again(struct docker_host *docker)
{
    struct control *control = &docker->control;
    short events = POLLIN;

    if (control->notes)
        events = POLLOUT;
    else if (control->greets_later)
        events = 0;
    docker->reactor->ops->watch_change(control->watch, events);
}

static void flush(struct docker_host *docker)
{
    struct control *control = &docker->control;

    while (control->notes) {
        struct note *note = control->notes;
        int r = launcher_send(control->fd, &note->message, note->fd);

        if (r == 0)
            break;
        if (r < 0) {
            control_drop(docker); /* the next one comes through the rendezvous socket */
            return;
        }
        control->notes = note->next;
        if (!control->notes)
            control->notes_end = &control->notes;
        note_free(note);
    }
    listen_again(docker);
}

void control_send(struct docker_host *docker, const struct launcher_message *message, int fd)
{
    struct control *control = &docker->control;
    struct note *note = control->fd < 0 ? NULL : malloc(sizeof(*note));

    if (!note) {
        fd_closep(&fd);
        control_drop(docker); /* it cannot be answered: the next one finds all in the inventory */
        return;
    }
    *note = (struct note){.message = *message, .fd = fd};
    *control->notes_end = note;
    control->notes_end = &note->next;
    flush(docker);
}

void control_ended(struct docker_host *docker, const struct container *box)
{
    struct launcher_message message = {.type = LAUNCHER_ENDED,
                                       .usage = {.number = box->facts.number,
                                                 .cpu_us = container_cpu_us(box),
                                                 .memory_bytes = box->peak_bytes,
                                                 .oom_kills = box->oom_kills,
                                                 .was_asked = box->was_asked,
                                                 .why = box->why,
                                                 .counted = box->counted}};

    /* One that has not asked yet learns it from the inventory. */
    if (docker->control.has_said_hello && !docker->control.greets_later)
        control_send(docker, &message, -1);
}

/* ---- hello ---- */

static void show_boxes(struct docker_host *docker)
{
    for (struct container *box = docker->boxes; box; box = box->next) {
        struct launcher_message message = {.type = LAUNCHER_BOX, .box = box->facts};
        int fd = -1;

        if (box->stage != BOX_GIVEN || docker->control.fd < 0)
            continue;
        fd = fcntl(box->given_fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0) {
            log_warning("docker: box %u could not be shown to the broker, continuing without it",
                        (unsigned)box->facts.number);
            continue;
        }
        message.box.kernel = 0; /* the warden knows what lives */
        message.box.warden_owns_kernel = false;
        box->is_told = true;
        control_send(docker, &message, fd);
    }
}

/* Each box is shown once: what an earlier broker asked for has to stand, or to have failed. */
static bool makes_for_others(const struct docker_host *docker)
{
    for (const struct container *box = docker->boxes; box; box = box->next) {
        if (!box->is_prewarmed && !box->is_told && box->generation != docker->generation)
            return true;
    }
    return false;
}

void control_check(struct docker_host *docker)
{
    struct launcher_message welcome = {.type = LAUNCHER_WELCOME, .number = docker->generation};

    if (!docker->control.greets_later || makes_for_others(docker))
        return;
    docker->control.greets_later = false;
    show_boxes(docker);
    control_send(docker, &welcome, -1);
}

/* ---- what it says ---- */

static void end_box(struct docker_host *docker, uint32_t number)
{
    struct launcher_message message = {.type = LAUNCHER_ENDED,
                                       .usage = {.number = number, .was_asked = true}};
    struct container *box = container_find(docker, number);

    if (!box) {
        control_send(docker, &message, -1);
        return;
    }
    box->was_asked = true;
    container_end(box);
}

static void no_kernel(struct docker_host *docker, const struct launcher_kernel *kernel)
{
    struct launcher_message message = {
        .type = LAUNCHER_KERNEL_MADE,
        .kernel_made = {.number = kernel->number, .kernel = kernel->kernel, .num = -EAGAIN}};

    control_send(docker, &message, -1);
}

static void no_commit_layer(struct docker_host *docker,
                            const struct launcher_commit_layer *commit_layer)
{
    struct launcher_message message = {.type = LAUNCHER_LAYER_COMMITTED,
                                       .layer_committed = {.serial = commit_layer->serial}};

    error_set(&message.layer_committed.error, -ENOTSUP, ERROR_BAD_INPUT,
              "packages of a Docker box are those of its image: 'bailey image build'");
    control_send(docker, &message, -1);
}

static void tell_state(struct docker_host *docker)
{
    struct launcher_message message = {
        .type = LAUNCHER_STATE, .state = {.tier = STATE_END, .pool_size = docker->spec.pool_size}};

    for (const struct container *box = docker->boxes; box; box = box->next)
        message.state.pooled += box->is_prewarmed && box->stage == BOX_IDLE;
    control_send(docker, &message, -1);
}

/* An upgrade left us behind. Nobody can be told of our boxes any more: they end, and so do we. */
static void be_outdated(struct docker_host *docker, uint32_t version)
{
    log_warning(
        "the broker speaks version %u and the Docker wall %u: its containers end, and one of "
        "the installed version is started",
        (unsigned)version, (unsigned)LAUNCHER_VERSION);
    docker->is_outdated = true;
    control_drop(docker);
    docker_host_leave(docker);
}

static bool answer_hello(struct docker_host *docker, const struct launcher_message *message)
{
    if (docker->control.has_said_hello)
        return false;
    if (message->number != LAUNCHER_VERSION) {
        be_outdated(docker, message->number);
        return true;
    }
    docker->control.has_said_hello = true;
    docker->control.greets_later = true;
    control_check(docker);
    return true;
}

/* False: that was nothing a broker says. */
static bool answer(struct docker_host *docker, const struct launcher_message *message)
{
    if (message->type == LAUNCHER_HELLO)
        return answer_hello(docker, message);
    if (message->type == LAUNCHER_FAILED)
        return true;
    if (!docker->control.has_said_hello)
        return false;
    switch (message->type) {
    case LAUNCHER_READY:
        docker->wants_pool = docker->spec.pool_size > 0;
        docker_pool_fill(docker);
        return true;
    case LAUNCHER_MAKE:
        container_make(docker, &message->make, false);
        return true;
    case LAUNCHER_END:
        end_box(docker, message->number);
        return true;
    case LAUNCHER_USAGE:
        container_usage(docker, message->number);
        return true;
    case LAUNCHER_QUIT:
        docker_host_leave(docker);
        return true;
    case LAUNCHER_KERNEL:
        no_kernel(docker, &message->kernel);
        return true;
    case LAUNCHER_COMMIT_LAYER:
        no_commit_layer(docker, &message->commit_layer);
        return true;
    case LAUNCHER_LOOK:
        tell_state(docker);
        return true;
    case LAUNCHER_DISCARD:
    case LAUNCHER_DEFAULT:
    case LAUNCHER_FORGET:
    case LAUNCHER_SETTINGS:
        return true; /* of layers and zygotes there are none here */
    default:
        return false;
    }
}

static void on_control(void *ctx, short events)
{
    struct docker_host *docker = ctx;
    struct control *control = &docker->control;

    if (events & POLLOUT)
        flush(docker);
    for (int i = 0; i < MESSAGES_PER_TURN && control->fd >= 0 && !control->notes; i++) {
        struct launcher_message message;
        int fd = -1, r;

        if (control->greets_later) {
            if (events & POLLHUP)
                control_drop(docker);
            return;
        }
        r = launcher_receive(control->fd, &message, &fd);
        fd_closep(&fd);
        if (r == 0)
            return;
        if (r < 0 || !answer(docker, &message)) {
            if (r != -EPIPE)
                log_warning("the broker says nonsense to the Docker wall, not hearing it any more");
            control_drop(docker);
            return;
        }
        if (control->fd >= 0)
            listen_again(docker);
    }
}

/* What an earlier broker's clients waited for is not waited for by the next one: it may take long.
 */
static void drop_pulled_for(struct docker_host *docker)
{
    for (struct container *box = docker->boxes, *next; box; box = next) {
        next = box->next;
        if (docker->pull.is_running && box->is_waiting && !box->is_prewarmed)
            container_end(box);
    }
}

void control_take(struct docker_host *docker, int fd)
{
    struct control *control = &docker->control;

    control_drop(docker);
    if (fd_set_nonblocking(fd, true) == 0)
        control->watch = reactor_watch(docker->reactor, fd, POLLIN, on_control, docker);
    if (!control->watch) {
        fd_closep(&fd);
        return;
    }
    control->fd = fd;
    docker->generation++;
    drop_pulled_for(docker);
}
