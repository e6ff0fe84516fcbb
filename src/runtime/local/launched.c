/*
 * launched.c - the launcher as a maker of boxes, over its protocol; see maker.h.
 *
 * Requests wait in lists until their answer comes: makes by serial, ends and usages by the box's
 * number. What the socket does not take at once waits in a queue, in order. The launcher answers
 * each END with exactly one ENDED that says was_asked; one without is news. What concerns kernels
 * and layers is in launched_warm.c.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "runtime/box/box.h"
#include "runtime/local/inside.h"
#include "runtime/local/local.h"

/* ---- sending ---- */

static void watch_for(struct launched_maker *self)
{
    self->reactor->ops->watch_change(self->watch, (short)(POLLIN | (self->queue ? POLLOUT : 0)));
}

/* A launcher that cannot be spoken to is as good as gone: the loop hears it hang up. */
static void give_up(struct launched_maker *self)
{
    shutdown(self->fd, SHUT_RDWR);
}

static void flush(struct launched_maker *self)
{
    while (self->queue) {
        struct outgoing *first = self->queue;
        int r = launcher_send(self->fd, &first->message, -1);

        if (r == 0)
            break;
        if (r < 0 && r != -EPIPE)
            give_up(self);
        self->queue = first->next;
        if (!self->queue)
            self->queue_end = &self->queue;
        free(first);
    }
    watch_for(self);
}

void launched_send(struct launched_maker *self, const struct launcher_message *message)
{
    struct outgoing *entry = calloc(1, sizeof(*entry));

    if (!entry) {
        give_up(self);
        return;
    }
    entry->message = *message;
    *self->queue_end = entry;
    self->queue_end = &entry->next;
    flush(self);
}

static void say_number(struct launched_maker *self, enum launcher_type type, uint32_t number)
{
    struct launcher_message message = {.type = type, .number = number};

    launched_send(self, &message);
}

/* ---- boxes ---- */

static struct known **find_known(struct launched_maker *self, uint32_t number)
{
    struct known **at = &self->known[number % LAUNCHED_BUCKETS];

    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

static struct known *remember(struct launched_maker *self, const struct launcher_box *box)
{
    struct known *known = calloc(1, sizeof(*known));
    struct known **bucket = &self->known[box->number % LAUNCHED_BUCKETS];

    if (!known)
        return NULL;
    known->number = box->number;
    known->facts = (struct box_facts){
        .layers = box->layers,
        .missing = box->missing,
        .memory_by = local_limit_by(box->memory_by, box->group),
        .pids_by = local_limit_by(box->pids_by, box->group),
        .cpu_by = local_limit_by(box->cpu_by, box->group),
        .disk_by = local_limit_by(box->disk_by, box->group),
    };
    known->next = *bucket;
    *bucket = known;
    return known;
}

/* The message as the caller sees it, with a box over its channel; takes the descriptor. */
static int make_known(struct launched_maker *self, const struct launcher_box *box, int fd,
                      struct made *ret, struct error *err)
{
    struct known *known;
    int r;

    *ret = (struct made){
        .number = box->number,
        .limits = {.memory_bytes = box->memory_bytes,
                   .disk_bytes = box->disk_bytes,
                   .pids = box->pids,
                   .cpu_millis = box->cpu_millis},
        .kernel = box->kernel,
        .is_pooled = box->is_pooled,
        .kernel_is_wardens = box->kernel_is_wardens,
    };
    str_copy(ret->key, sizeof(ret->key), box->key);
    str_copy(ret->layer, sizeof(ret->layer), box->layer);
    r = box_new(fd, NULL, &ret->box, err);
    if (r == 0)
        box_reserve(ret->box, box->kernel); /* whether its owner takes the kernel or not */
    if (r < 0) {
        fd_closep(&fd);
        return r;
    }
    known = remember(self, box);
    if (!known) {
        box_free(ret->box);
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    }
    ret->facts = known->facts;
    return 0;
}

static void on_box(struct launched_maker *self, const struct launcher_box *box, int fd)
{
    struct made made;

    if (make_known(self, box, fd, &made, NULL) < 0) {
        say_number(self, LAUNCHER_END, box->number); /* nobody could ever use it */
        return;
    }
    self->events.found(self->ctx, &made);
}

/* The request of that serial, out of the list; NULL when there is none. */
static struct making *take_making(struct launched_maker *self, uint32_t serial)
{
    struct making **at = &self->makings, *found;

    while (*at && (*at)->serial != serial)
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    return found;
}

static void on_made(struct launched_maker *self, const struct launcher_box *box, int fd)
{
    CLEANUP(freep) struct making *making = take_making(self, box->serial);
    struct error err = {0};
    struct made made;

    if (!making || !making->events) {
        fd_closep(&fd);
        say_number(self, LAUNCHER_END, box->number);
        return;
    }
    if (make_known(self, box, fd, &made, &err) < 0) {
        say_number(self, LAUNCHER_END, box->number);
        making->events->refused(making->ctx, &err, &made.facts);
        return;
    }
    making->events->made(making->ctx, &made);
}

static void on_refused(struct launched_maker *self, const struct launcher_refused *refused)
{
    CLEANUP(freep) struct making *making = take_making(self, refused->serial);
    struct box_facts facts = {.layers = refused->layers, .missing = refused->missing};

    if (making && making->events)
        making->events->refused(making->ctx, &refused->error, &facts);
}

static void add_usage(struct box_facts *facts, const struct launcher_usage *usage)
{
    facts->oom_kills = usage->oom_kills;
    facts->usage.cpu_us = usage->cpu_us;
    facts->usage.max_rss_bytes = usage->memory_bytes;
    facts->usage.by = local_usage_by(usage->counted);
    facts->why = usage->why;
}

static void on_ended(struct launched_maker *self, const struct launcher_usage *usage)
{
    struct known **at = find_known(self, usage->number), *known = *at;

    if (!known)
        return; /* one that was ended before anybody had it */
    if (!known->has_gone)
        add_usage(&known->facts, usage);
    if (!usage->was_asked) {
        known->has_gone = true;
        if (!known->is_awaited)
            self->events.ended(self->ctx, usage->number, &known->facts);
        return; /* it stays known until the caller gives it back */
    }
    *at = known->next;
    if (known->done)
        known->done(known->ctx, &known->facts);
    free(known);
}

static void on_used(struct launched_maker *self, const struct launcher_usage *usage)
{
    struct known *known = *find_known(self, usage->number);
    struct box_facts facts = known ? known->facts : (struct box_facts){0};
    struct asking **at = &self->askings, *asking;

    while (*at && (*at)->number != usage->number)
        at = &(*at)->next;
    asking = *at;
    if (!asking)
        return;
    *at = asking->next;
    if (self->askings_end == &asking->next)
        self->askings_end = at;
    if (!known || !known->has_gone)
        add_usage(&facts, usage);
    if (asking->done)
        asking->done(asking->ctx, &facts);
    free(asking);
}

/* ---- hearing ---- */

/* False: the launcher does not say that. */
static bool dispatch(struct launched_maker *self, const struct launcher_message *message, int fd)
{
    switch (message->type) {
    case LAUNCHER_BOX:
        on_box(self, &message->box, fd);
        return true;
    case LAUNCHER_MADE:
        on_made(self, &message->box, fd);
        return true;
    case LAUNCHER_REFUSED:
        on_refused(self, &message->refused);
        return true;
    case LAUNCHER_ENDED:
        on_ended(self, &message->usage);
        return true;
    case LAUNCHER_USED:
        on_used(self, &message->usage);
        return true;
    case LAUNCHER_WELCOME:
        self->events.ready(self->ctx, message->number);
        return true;
    case LAUNCHER_STOPPING:
        self->events.stopping(self->ctx, message->number);
        return true;
    case LAUNCHER_WALL:
        if (self->events.wall)
            self->events.wall(self->ctx, fd);
        else
            fd_closep(&fd);
        return true;
    default:
        return warm_dispatch(self, message);
    }
}

static void gone(struct launched_maker *self)
{
    self->is_gone = true;
    self->reactor->ops->watch_remove(self->watch);
    self->watch = NULL;
    self->events.gone(self->ctx);
}

static void free_all(struct launched_maker *self)
{
    while (self->makings)
        free(take_making(self, self->makings->serial));
    while (self->askings) {
        struct asking *first = self->askings;

        self->askings = first->next;
        free(first);
    }
    warm_free(self);
    while (self->queue) {
        struct outgoing *first = self->queue;

        self->queue = first->next;
        free(first);
    }
    for (size_t i = 0; i < LAUNCHED_BUCKETS; i++) {
        while (self->known[i]) {
            struct known *first = self->known[i];

            self->known[i] = first->next;
            free(first);
        }
    }
    fd_closep(&self->fd);
    free(self);
}

static void on_ready(void *ctx, short events)
{
    struct launched_maker *self = ctx;
    int r = 1;

    self->is_busy = true;
    if (events & POLLOUT)
        flush(self);
    while (r > 0 && !self->is_closed) {
        struct launcher_message message;
        int fd = -1;

        r = launcher_receive(self->fd, &message, &fd);
        if (r > 0 && !dispatch(self, &message, fd))
            r = -EPROTO;
    }
    if (r < 0 && !self->is_closed)
        gone(self);
    self->is_busy = false;
    if (self->is_closed)
        free_all(self);
}

/* ---- what the broker calls ---- */

bool launched_is_key(const char *key)
{
    size_t length = strlen(key);

    return length > 0 && length < ID_MAX &&
           strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

static int launched_make(struct maker *maker, const struct make_request *request,
                         const struct make_events *events, void *ctx, uint32_t *ret_serial,
                         struct error *err)
{
    struct launched_maker *self = (struct launched_maker *)maker;
    struct launcher_message message = {
        .type = LAUNCHER_MAKE,
        .make = {.memory_bytes = request->limits.memory_bytes,
                 .disk_bytes = request->limits.disk_bytes,
                 .pids = request->limits.pids,
                 .cpu_millis = request->limits.cpu_millis,
                 .minimum = (uint8_t)request->minimum,
                 .has_data = request->has_data},
    };
    struct making *making;
    int r;

    if (self->is_gone)
        return error_set(err, -EPIPE, ERROR_ENGINE, "the launcher is gone");
    if (!launched_is_key(request->key))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%s' cannot name a box", request->key);
    r = warm_fill_make(request, &message.make, err);
    if (r < 0)
        return r;
    making = calloc(1, sizeof(*making));
    if (!making)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    if (++self->next_serial == 0) /* 0 is an inventory's */
        self->next_serial = 1;
    *making = (struct making){
        .next = self->makings, .serial = self->next_serial, .events = events, .ctx = ctx};
    self->makings = making;
    message.make.serial = making->serial;
    str_copy(message.make.key, sizeof(message.make.key), request->key);
    *ret_serial = making->serial;
    launched_send(self, &message);
    return 0;
}

static void launched_make_cancel(struct maker *maker, uint32_t serial)
{
    struct launched_maker *self = (struct launched_maker *)maker;

    for (struct making *making = self->makings; making; making = making->next) {
        if (making->serial == serial)
            making->events = NULL; /* a box that comes is ended */
    }
}

static void launched_end(struct maker *maker, uint32_t number, struct box *box, facts_done done,
                         void *ctx)
{
    struct launched_maker *self = (struct launched_maker *)maker;
    struct known *known = *find_known(self, number);

    box_free(box);
    if (!known || known->is_awaited)
        return;
    known->is_awaited = true;
    known->done = done;
    known->ctx = ctx;
    if (!self->is_gone)
        say_number(self, LAUNCHER_END, number);
}

static void launched_usage(struct maker *maker, uint32_t number, facts_done done, void *ctx)
{
    struct launched_maker *self = (struct launched_maker *)maker;
    struct asking *asking = calloc(1, sizeof(*asking));

    if (self->is_gone) {
        free(asking);
        return; /* nobody is left who knows */
    }
    if (!asking) {
        done(ctx, NULL);
        return;
    }
    *asking = (struct asking){.number = number, .done = done, .ctx = ctx};
    *self->askings_end = asking;
    self->askings_end = &asking->next;
    say_number(self, LAUNCHER_USAGE, number);
}

static const struct maker_ops launched_ops = {
    .name = "local",
    .make = launched_make,
    .make_cancel = launched_make_cancel,
    .end = launched_end,
    .usage = launched_usage,
    .kernel = warm_kernel,
    .seal = warm_seal,
    .discard = warm_discard,
    .set_default = warm_set_default,
    .drop_layer = warm_drop_layer,
    .look = warm_look,
    .forget = warm_forget,
};

int launched_open(struct reactor *reactor, int control_fd, const struct launched_events *events,
                  void *ctx, struct maker **ret, struct error *err)
{
    struct launched_maker *self = calloc(1, sizeof(*self));

    if (!self)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    self->maker.ops = &launched_ops;
    self->reactor = reactor;
    self->fd = control_fd;
    self->events = *events;
    self->ctx = ctx;
    self->askings_end = &self->askings;
    self->warm_asks_end = &self->warm_asks;
    self->queue_end = &self->queue;
    self->watch = reactor_watch(reactor, control_fd, POLLIN, on_ready, self);
    if (!self->watch) {
        free(self);
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    }
    say_number(self, LAUNCHER_HELLO, LAUNCHER_VERSION);
    *ret = &self->maker;
    return 0;
}

static void say_bare(struct maker *maker, enum launcher_type type)
{
    struct launched_maker *self = (struct launched_maker *)maker;

    if (!self->is_gone)
        say_number(self, type, 0);
}

void launched_say_ready(struct maker *maker)
{
    say_bare(maker, LAUNCHER_READY);
}

void launched_quit(struct maker *maker)
{
    say_bare(maker, LAUNCHER_QUIT);
}

void launched_close(struct maker *maker)
{
    struct launched_maker *self = (struct launched_maker *)maker;

    if (!self || self->is_closed)
        return;
    self->is_closed = true;
    self->reactor->ops->watch_remove(self->watch);
    self->watch = NULL;
    if (!self->is_busy) /* else by the one who called back */
        free_all(self);
}
