/*
 * control.c - the broker's control channel in a provider host: launcher/protocol.h, with the
 * launcher's semantics.
 *
 * The broker talks to clients and may have been taken over. A broker that sends an invalid message
 * is disconnected; its boxes stay for the next one. While answers wait to be read by the broker,
 * nothing more is read from it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "runtime/host/host_private.h"

#define MESSAGES_PER_TURN 16

struct note { /* a message that was not sent yet */
    struct note *next;
    struct launcher_message message;
    int fd;
};

static void note_free(struct note *note)
{
    fd_closep(&note->fd);
    free(note);
}

void control_drop(struct host *host)
{
    struct control *control = &host->control;

    if (control->fd < 0)
        return;
    host->reactor->ops->watch_remove(control->watch);
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

static void listen_again(struct host *host)
{
    struct control *control = &host->control;
    short events = POLLIN;

    if (control->notes)
        events = POLLOUT;
    else if (control->greets_later)
        events = 0;
    host->reactor->ops->watch_change(control->watch, events);
}

static void flush(struct host *host)
{
    struct control *control = &host->control;

    while (control->notes) {
        struct note *note = control->notes;
        int r = launcher_send(control->fd, &note->message, note->fd);

        if (r == 0)
            break;
        if (r < 0) {
            control_drop(host); /* the next broker connects through the rendezvous socket */
            return;
        }
        control->notes = note->next;
        if (!control->notes)
            control->notes_end = &control->notes;
        note_free(note);
    }
    listen_again(host);
}

void control_send(struct host *host, const struct launcher_message *message, int fd)
{
    struct control *control = &host->control;
    struct note *note = control->fd < 0 ? NULL : malloc(sizeof(*note));

    if (!note) {
        fd_closep(&fd);
        control_drop(
            host); /* it cannot be answered: the next broker gets everything in the inventory */
        return;
    }
    *note = (struct note){.message = *message, .fd = fd};
    *control->notes_end = note;
    control->notes_end = &note->next;
    flush(host);
}

void control_ended(struct host *host, const struct host_box *box)
{
    struct launcher_message message = {.type = LAUNCHER_ENDED,
                                       .usage = {.number = box->facts.number,
                                                 .cpu_us = host_box_cpu_us(box),
                                                 .memory_bytes = box->peak_bytes,
                                                 .oom_kills = box->oom_kills,
                                                 .was_asked = box->was_asked,
                                                 .why = box->why,
                                                 .counted = box->counted}};

    /* A broker that has not said HELLO yet gets it in the inventory. */
    if (host->control.has_said_hello && !host->control.greets_later)
        control_send(host, &message, -1);
}

/* ---- hello ---- */

static void show_boxes(struct host *host)
{
    for (struct host_box *box = host->boxes; box; box = box->next) {
        struct launcher_message message = {.type = LAUNCHER_BOX, .box = box->facts};
        int fd = -1;

        if (box->stage != BOX_GIVEN || host->control.fd < 0)
            continue;
        fd = fcntl(box->given_fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0) {
            log_warning("%s: box %u could not be shown to the broker, continuing without it",
                        host->row->name, (unsigned)box->facts.number);
            continue;
        }
        message.box.kernel = 0; /* the warden lists its kernels */
        message.box.warden_owns_kernel = false;
        box->is_told = true;
        control_send(host, &message, fd);
    }
}

/* Each box is listed once: requests of an earlier broker must be ready or failed first. */
static bool makes_for_others(const struct host *host)
{
    for (const struct host_box *box = host->boxes; box; box = box->next) {
        if (!box->is_prewarmed && !box->is_told && box->generation != host->generation)
            return true;
    }
    return false;
}

void host_check_greeting(struct host *host)
{
    struct launcher_message welcome = {.type = LAUNCHER_WELCOME, .number = host->generation};

    if (!host->control.greets_later || makes_for_others(host))
        return;
    host->control.greets_later = false;
    show_boxes(host);
    control_send(host, &welcome, -1);
}

/* ---- messages of the broker ---- */

static void end_box(struct host *host, uint32_t number)
{
    struct launcher_message message = {.type = LAUNCHER_ENDED,
                                       .usage = {.number = number, .was_asked = true}};
    struct host_box *box = host_box_find(host, number);

    if (!box) {
        control_send(host, &message, -1);
        return;
    }
    box->was_asked = true;
    host_box_end(box);
}

static void no_kernel(struct host *host, const struct launcher_kernel *kernel)
{
    struct launcher_message message = {
        .type = LAUNCHER_KERNEL_MADE,
        .kernel_made = {.number = kernel->number, .kernel = kernel->kernel, .num = -EAGAIN}};

    control_send(host, &message, -1);
}

static void no_commit_layer(struct host *host, const struct launcher_commit_layer *commit_layer)
{
    struct launcher_message message = {.type = LAUNCHER_LAYER_COMMITTED,
                                       .layer_committed = {.serial = commit_layer->serial}};

    host_no_packages(host, &message.layer_committed.error);
    control_send(host, &message, -1);
}

static void tell_state(struct host *host)
{
    struct launcher_message message = {
        .type = LAUNCHER_STATE, .state = {.tier = STATE_END, .pool_size = host->spec.pool_size}};

    for (const struct host_box *box = host->boxes; box; box = box->next)
        message.state.pooled += box->is_prewarmed && box->stage == BOX_IDLE;
    control_send(host, &message, -1);
}

/*
 * The installed version was upgraded. No broker can use these boxes any more: they end, and so does
 * this process.
 */
static void be_outdated(struct host *host, uint32_t version)
{
    log_warning(
        "the broker speaks version %u and the provider host of %s %u: its boxes end, and one of "
        "the installed version is started",
        (unsigned)version, host->row->name, (unsigned)LAUNCHER_VERSION);
    host->is_outdated = true;
    control_drop(host);
    host_leave(host);
}

static bool answer_hello(struct host *host, const struct launcher_message *message)
{
    if (host->control.has_said_hello)
        return false;
    if (message->number != LAUNCHER_VERSION) {
        be_outdated(host, message->number);
        return true;
    }
    host->control.has_said_hello = true;
    host->control.greets_later = true;
    host_check_greeting(host);
    return true;
}

/* False: not a message of a broker. */
static bool answer(struct host *host, const struct launcher_message *message)
{
    if (message->type == LAUNCHER_HELLO)
        return answer_hello(host, message);
    if (message->type == LAUNCHER_FAILED)
        return true;
    if (!host->control.has_said_hello)
        return false;
    switch (message->type) {
    case LAUNCHER_READY:
        host->wants_pool = host->spec.pool_size > 0;
        host_pool_fill(host);
        return true;
    case LAUNCHER_MAKE:
        host_box_make(host, &message->make, false);
        return true;
    case LAUNCHER_END:
        end_box(host, message->number);
        return true;
    case LAUNCHER_USAGE:
        host_box_usage(host, message->number);
        return true;
    case LAUNCHER_QUIT:
        host_leave(host);
        return true;
    case LAUNCHER_KERNEL:
        no_kernel(host, &message->kernel);
        return true;
    case LAUNCHER_COMMIT_LAYER:
        no_commit_layer(host, &message->commit_layer);
        return true;
    case LAUNCHER_LOOK:
        tell_state(host);
        return true;
    case LAUNCHER_DISCARD:
    case LAUNCHER_DEFAULT:
    case LAUNCHER_FORGET:
    case LAUNCHER_SETTINGS:
        return true; /* a provider host has no layers and zygotes */
    default:
        return false;
    }
}

static void on_control(void *ctx, short events)
{
    struct host *host = ctx;
    struct control *control = &host->control;

    if (events & POLLOUT)
        flush(host);
    for (int i = 0; i < MESSAGES_PER_TURN && control->fd >= 0 && !control->notes; i++) {
        struct launcher_message message;
        int fd = -1, r;

        if (control->greets_later) {
            if (events & POLLHUP)
                control_drop(host);
            return;
        }
        r = launcher_receive(control->fd, &message, &fd);
        fd_closep(&fd);
        if (r == 0)
            return;
        if (r < 0 || !answer(host, &message)) {
            if (r != -EPIPE)
                log_warning(
                    "the broker sent an invalid message to the provider host, disconnecting it");
            control_drop(host);
            return;
        }
        if (control->fd >= 0)
            listen_again(host);
    }
}

/* The next broker does not wait for slow requests of an earlier broker's clients. */
static void drop_slow(struct host *host)
{
    for (struct host_box *box = host->boxes, *next; box; box = next) {
        next = box->next;
        if (box->is_waiting && !box->is_prewarmed && host->ops->is_slow(host))
            host_box_end(box);
    }
}

void control_take(struct host *host, int fd)
{
    struct control *control = &host->control;

    control_drop(host);
    if (fd_set_nonblocking(fd, true) == 0)
        control->watch = reactor_watch(host->reactor, fd, POLLIN, on_control, host);
    if (!control->watch) {
        fd_closep(&fd);
        return;
    }
    control->fd = fd;
    host->generation++;
    drop_slow(host);
}
