/*
 * control.c - the broker as the wall hears it: launcher/protocol.h, as the launcher does.
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
#include "runtime/docker/inside.h"

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

void control_drop(struct docker_wall *wall)
{
    struct control *control = &wall->control;

    if (control->fd < 0)
        return;
    wall->reactor->ops->watch_remove(control->watch);
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

static void listen_again(struct docker_wall *wall)
{
    struct control *control = &wall->control;
    short events = POLLIN;

    if (control->notes)
        events = POLLOUT;
    else if (control->greets_later)
        events = 0;
    wall->reactor->ops->watch_change(control->watch, events);
}

static void flush(struct docker_wall *wall)
{
    struct control *control = &wall->control;

    while (control->notes) {
        struct note *note = control->notes;
        int r = launcher_send(control->fd, &note->message, note->fd);

        if (r == 0)
            break;
        if (r < 0) {
            control_drop(wall); /* the next one comes through the meeting point */
            return;
        }
        control->notes = note->next;
        if (!control->notes)
            control->notes_end = &control->notes;
        note_free(note);
    }
    listen_again(wall);
}

void control_send(struct docker_wall *wall, const struct launcher_message *message, int fd)
{
    struct control *control = &wall->control;
    struct note *note = control->fd < 0 ? NULL : malloc(sizeof(*note));

    if (!note) {
        fd_closep(&fd);
        control_drop(wall); /* it cannot be answered: the next one finds all in the inventory */
        return;
    }
    *note = (struct note){.message = *message, .fd = fd};
    *control->notes_end = note;
    control->notes_end = &note->next;
    flush(wall);
}

void control_ended(struct docker_wall *wall, const struct wall_box *box)
{
    struct launcher_message message = {.type = LAUNCHER_ENDED,
                                       .usage = {.number = box->facts.number,
                                                 .cpu_us = docked_cpu_us(box),
                                                 .memory_bytes = box->peak_bytes,
                                                 .oom_kills = box->oom_kills,
                                                 .was_asked = box->was_asked,
                                                 .why = box->why,
                                                 .counted = box->counted}};

    /* One that has not asked yet learns it from the inventory. */
    if (wall->control.has_said_hello && !wall->control.greets_later)
        control_send(wall, &message, -1);
}

/* ---- hello ---- */

static void show_boxes(struct docker_wall *wall)
{
    for (struct wall_box *box = wall->boxes; box; box = box->next) {
        struct launcher_message message = {.type = LAUNCHER_BOX, .box = box->facts};
        int fd = -1;

        if (box->stage != BOX_GIVEN || wall->control.fd < 0)
            continue;
        fd = fcntl(box->given_fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0) {
            log_warning("docker: box %u could not be shown to the broker, continuing without it",
                        (unsigned)box->facts.number);
            continue;
        }
        message.box.kernel = 0; /* the warden knows what lives */
        message.box.kernel_is_wardens = false;
        box->is_told = true;
        control_send(wall, &message, fd);
    }
}

/* Each box is shown once: what an earlier broker asked for has to stand, or to have failed. */
static bool makes_for_others(const struct docker_wall *wall)
{
    for (const struct wall_box *box = wall->boxes; box; box = box->next) {
        if (!box->is_ahead && !box->is_told && box->generation != wall->generation)
            return true;
    }
    return false;
}

void control_check(struct docker_wall *wall)
{
    struct launcher_message welcome = {.type = LAUNCHER_WELCOME, .number = wall->generation};

    if (!wall->control.greets_later || makes_for_others(wall))
        return;
    wall->control.greets_later = false;
    show_boxes(wall);
    control_send(wall, &welcome, -1);
}

/* ---- what it says ---- */

static void end_box(struct docker_wall *wall, uint32_t number)
{
    struct launcher_message message = {.type = LAUNCHER_ENDED,
                                       .usage = {.number = number, .was_asked = true}};
    struct wall_box *box = docked_find(wall, number);

    if (!box) {
        control_send(wall, &message, -1);
        return;
    }
    box->was_asked = true;
    docked_end(box);
}

static void no_kernel(struct docker_wall *wall, const struct launcher_kernel *kernel)
{
    struct launcher_message message = {
        .type = LAUNCHER_KERNEL_MADE,
        .kernel_made = {.number = kernel->number, .kernel = kernel->kernel, .num = -EAGAIN}};

    control_send(wall, &message, -1);
}

static void no_seal(struct docker_wall *wall, const struct launcher_seal *seal)
{
    struct launcher_message message = {.type = LAUNCHER_SEALED, .sealed = {.serial = seal->serial}};

    error_set(&message.sealed.error, -ENOTSUP, ERROR_BAD_INPUT,
              "packages of a Docker box are those of its image: 'bailey image build'");
    control_send(wall, &message, -1);
}

static void tell_state(struct docker_wall *wall)
{
    struct launcher_message message = {
        .type = LAUNCHER_STATE, .state = {.tier = STATE_END, .pool_size = wall->spec.pool_size}};

    for (const struct wall_box *box = wall->boxes; box; box = box->next)
        message.state.pooled += box->is_ahead && box->stage == BOX_IDLE;
    control_send(wall, &message, -1);
}

/* An upgrade left us behind. Nobody can be told of our boxes any more: they end, and so do we. */
static void be_outdated(struct docker_wall *wall, uint32_t version)
{
    log_warning(
        "the broker speaks version %u and the Docker wall %u: its containers end, and one of "
        "the installed version is started",
        (unsigned)version, (unsigned)LAUNCHER_VERSION);
    wall->is_outdated = true;
    control_drop(wall);
    docker_wall_leave(wall);
}

static bool answer_hello(struct docker_wall *wall, const struct launcher_message *message)
{
    if (wall->control.has_said_hello)
        return false;
    if (message->number != LAUNCHER_VERSION) {
        be_outdated(wall, message->number);
        return true;
    }
    wall->control.has_said_hello = true;
    wall->control.greets_later = true;
    control_check(wall);
    return true;
}

/* False: that was nothing a broker says. */
static bool answer(struct docker_wall *wall, const struct launcher_message *message)
{
    if (message->type == LAUNCHER_HELLO)
        return answer_hello(wall, message);
    if (message->type == LAUNCHER_FAILED)
        return true;
    if (!wall->control.has_said_hello)
        return false;
    switch (message->type) {
    case LAUNCHER_READY:
        wall->wants_pool = wall->spec.pool_size > 0;
        docker_pool_fill(wall);
        return true;
    case LAUNCHER_MAKE:
        docked_make(wall, &message->make, false);
        return true;
    case LAUNCHER_END:
        end_box(wall, message->number);
        return true;
    case LAUNCHER_USAGE:
        docked_usage(wall, message->number);
        return true;
    case LAUNCHER_QUIT:
        docker_wall_leave(wall);
        return true;
    case LAUNCHER_KERNEL:
        no_kernel(wall, &message->kernel);
        return true;
    case LAUNCHER_SEAL:
        no_seal(wall, &message->seal);
        return true;
    case LAUNCHER_LOOK:
        tell_state(wall);
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
    struct docker_wall *wall = ctx;
    struct control *control = &wall->control;

    if (events & POLLOUT)
        flush(wall);
    for (int i = 0; i < MESSAGES_PER_TURN && control->fd >= 0 && !control->notes; i++) {
        struct launcher_message message;
        int fd = -1, r;

        if (control->greets_later) {
            if (events & POLLHUP)
                control_drop(wall);
            return;
        }
        r = launcher_receive(control->fd, &message, &fd);
        fd_closep(&fd);
        if (r == 0)
            return;
        if (r < 0 || !answer(wall, &message)) {
            if (r != -EPIPE)
                log_warning("the broker says nonsense to the Docker wall, not hearing it any more");
            control_drop(wall);
            return;
        }
        if (control->fd >= 0)
            listen_again(wall);
    }
}

/* What an earlier broker's clients waited for is not waited for by the next one: it may take long.
 */
static void drop_pulled_for(struct docker_wall *wall)
{
    for (struct wall_box *box = wall->boxes, *next; box; box = next) {
        next = box->next;
        if (wall->pull.is_running && box->is_waiting && !box->is_ahead)
            docked_end(box);
    }
}

void control_take(struct docker_wall *wall, int fd)
{
    struct control *control = &wall->control;

    control_drop(wall);
    if (fd_set_nonblocking(fd, true) == 0)
        control->watch = reactor_watch(wall->reactor, fd, POLLIN, on_control, wall);
    if (!control->watch) {
        fd_closep(&fd);
        return;
    }
    control->fd = fd;
    wall->generation++;
    drop_pulled_for(wall);
}
