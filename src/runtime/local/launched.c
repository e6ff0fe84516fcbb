/*
 * launched.c - the launcher as a provider of boxes, over its protocol; see provider.h.
 *
 * Requests wait in lists for their answers: makes by serial, ends and usages by the box's number.
 * Messages that the socket does not take at once wait in a queue, in order. The launcher answers
 * each END with exactly one ENDED with was_asked; an ENDED without it means that the box ended by
 * itself. Kernels and layers are in launched_warm.c.
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
#include "runtime/local/local.h"
#include "runtime/local/local_private.h"

/* ---- sending ---- */

static void watch_for(struct launched_provider *self)
{
    self->reactor->ops->watch_change(self->watch, (short)(POLLIN | (self->queue ? POLLOUT : 0)));
}

/* A launcher that cannot be written to counts as gone: the loop sees the connection end. */
static void give_up(struct launched_provider *self)
{
    shutdown(self->fd, SHUT_RDWR);
}

static void flush(struct launched_provider *self)
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

void launched_send(struct launched_provider *self, const struct launcher_message *message)
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

static void say_number(struct launched_provider *self, enum launcher_type type, uint32_t number)
{
    struct launcher_message message = {.type = type, .number = number};

    launched_send(self, &message);
}

/* ---- boxes ---- */

static struct box_record **find_known(struct launched_provider *self, uint32_t number)
{
    struct box_record **at = &self->box_records[number % LAUNCHED_BUCKETS];

    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

static struct box_record *remember(struct launched_provider *self, const struct launcher_box *box)
{
    struct box_record *box_record = calloc(1, sizeof(*box_record));
    struct box_record **bucket = &self->box_records[box->number % LAUNCHED_BUCKETS];

    if (!box_record)
        return NULL;
    box_record->number = box->number;
    box_record->facts = (struct box_facts){
        .layers = box->layers,
        .missing = box->missing,
        .memory_by = local_limit_by(box->memory_by, box->group),
        .pids_by = local_limit_by(box->pids_by, box->group),
        .cpu_by = local_limit_by(box->cpu_by, box->group),
        .disk_by = local_limit_by(box->disk_by, box->group),
    };
    box_record->next = *bucket;
    *bucket = box_record;
    return box_record;
}

/* The box of a message as the caller sees it, over its channel; takes the descriptor. */
static int make_known(struct launched_provider *self, const struct launcher_box *box, int fd,
                      struct made *ret, struct error *err)
{
    struct box_record *box_record;
    int r;

    *ret = (struct made){
        .number = box->number,
        .provider = self->row,
        .limits = {.memory_bytes = box->memory_bytes,
                   .disk_bytes = box->disk_bytes,
                   .pids = box->pids,
                   .cpu_millis = box->cpu_millis},
        .kernel = box->kernel,
        .is_pooled = box->is_pooled,
        .warden_owns_kernel = box->warden_owns_kernel,
    };
    str_copy(ret->key, sizeof(ret->key), box->key);
    str_copy(ret->layer, sizeof(ret->layer), box->layer);
    r = box_new(fd, NULL, &ret->box, err);
    if (r == 0)
        box_reserve(ret->box,
                    box->kernel); /* reserved, whether the caller uses the kernel or not */
    if (r < 0) {
        fd_closep(&fd);
        return r;
    }
    box_set_provider(ret->box, self->row);
    box_record = remember(self, box);
    if (!box_record) {
        box_free(ret->box);
        return error_memory(err);
    }
    ret->facts = box_record->facts;
    return 0;
}

static void on_box(struct launched_provider *self, const struct launcher_box *box, int fd)
{
    struct made made;

    if (make_known(self, box, fd, &made, NULL) < 0) {
        say_number(self, LAUNCHER_END, box->number); /* no caller could use it */
        return;
    }
    self->events.found(self->ctx, &made);
}

/* Removes the request of that serial from the list; NULL: none. */
static struct pending_make *take_pending_make(struct launched_provider *self, uint32_t serial)
{
    struct pending_make **at = &self->pending_makes, *found;

    while (*at && (*at)->serial != serial)
        at = &(*at)->next;
    found = *at;
    if (found)
        *at = found->next;
    return found;
}

static void on_made(struct launched_provider *self, const struct launcher_box *box, int fd)
{
    CLEANUP(freep) struct pending_make *pending_make = take_pending_make(self, box->serial);
    struct error err = {0};
    struct made made;

    if (!pending_make || !pending_make->events) {
        fd_closep(&fd);
        say_number(self, LAUNCHER_END, box->number);
        return;
    }
    if (make_known(self, box, fd, &made, &err) < 0) {
        say_number(self, LAUNCHER_END, box->number);
        pending_make->events->refused(pending_make->ctx, &err, &made.facts);
        return;
    }
    pending_make->events->made(pending_make->ctx, &made);
}

static void on_refused(struct launched_provider *self, const struct launcher_refused *refused)
{
    CLEANUP(freep) struct pending_make *pending_make = take_pending_make(self, refused->serial);
    struct box_facts facts = {.layers = refused->layers, .missing = refused->missing};
    struct error err = refused->error;

    if (err.code == ERROR_PROVIDER_UNAVAILABLE)
        err.provider = provider_runtime(self->row);
    if (pending_make && pending_make->events)
        pending_make->events->refused(pending_make->ctx, &err, &facts);
}

static void add_usage(struct box_facts *facts, const struct launcher_usage *usage)
{
    facts->oom_kills = usage->oom_kills;
    facts->usage.cpu_us = usage->cpu_us;
    facts->usage.max_rss_bytes = usage->memory_bytes;
    facts->usage.by = local_usage_by(usage->counted);
    facts->why = usage->why;
}

static void on_ended(struct launched_provider *self, const struct launcher_usage *usage)
{
    struct box_record **at = find_known(self, usage->number), *box_record = *at;

    if (!box_record)
        return; /* ended before the caller had it */
    if (!box_record->has_gone)
        add_usage(&box_record->facts, usage);
    if (!usage->was_asked) {
        box_record->has_gone = true;
        if (!box_record->is_awaited)
            self->events.ended(self->ctx, usage->number, &box_record->facts);
        return; /* it stays known until the caller returns it */
    }
    *at = box_record->next;
    if (box_record->done)
        box_record->done(box_record->ctx, &box_record->facts);
    free(box_record);
}

static void on_used(struct launched_provider *self, const struct launcher_usage *usage)
{
    struct box_record *box_record = *find_known(self, usage->number);
    struct box_facts facts = box_record ? box_record->facts : (struct box_facts){0};
    struct pending_usage **at = &self->pending_usages, *pending_usage;

    while (*at && (*at)->number != usage->number)
        at = &(*at)->next;
    pending_usage = *at;
    if (!pending_usage)
        return;
    *at = pending_usage->next;
    if (self->pending_usages_end == &pending_usage->next)
        self->pending_usages_end = at;
    if (!box_record || !box_record->has_gone)
        add_usage(&facts, usage);
    if (pending_usage->done)
        pending_usage->done(pending_usage->ctx, &facts);
    free(pending_usage);
}

/* ---- receiving ---- */

/* False: not a message of the launcher. */
static bool dispatch(struct launched_provider *self, const struct launcher_message *message, int fd)
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
    case LAUNCHER_PROVIDER_HOST:
        if (self->events.provider_host)
            self->events.provider_host(self->ctx, message->host, fd);
        else
            fd_closep(&fd);
        return true;
    default:
        return warm_dispatch(self, message);
    }
}

static void gone(struct launched_provider *self)
{
    self->is_gone = true;
    self->reactor->ops->watch_remove(self->watch);
    self->watch = NULL;
    self->events.gone(self->ctx);
}

static void free_all(struct launched_provider *self)
{
    while (self->pending_makes)
        free(take_pending_make(self, self->pending_makes->serial));
    while (self->pending_usages) {
        struct pending_usage *first = self->pending_usages;

        self->pending_usages = first->next;
        free(first);
    }
    warm_free(self);
    while (self->queue) {
        struct outgoing *first = self->queue;

        self->queue = first->next;
        free(first);
    }
    for (size_t i = 0; i < LAUNCHED_BUCKETS; i++) {
        while (self->box_records[i]) {
            struct box_record *first = self->box_records[i];

            self->box_records[i] = first->next;
            free(first);
        }
    }
    fd_closep(&self->fd);
    free(self);
}

static void on_ready(void *ctx, short events)
{
    struct launched_provider *self = ctx;
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

/* ---- provider_ops ---- */

bool launched_is_key(const char *key)
{
    size_t length = strlen(key);

    return length > 0 && length < ID_MAX &&
           strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_") == length;
}

static int launched_make(struct provider *provider, const struct make_request *request,
                         const struct make_events *events, void *ctx, uint32_t *ret_serial,
                         struct error *err)
{
    struct launched_provider *self = (struct launched_provider *)provider;
    struct launcher_message message = {
        .type = LAUNCHER_MAKE,
        .make = {.memory_bytes = request->limits.memory_bytes,
                 .disk_bytes = request->limits.disk_bytes,
                 .pids = request->limits.pids,
                 .cpu_millis = request->limits.cpu_millis,
                 .minimum = (uint8_t)request->minimum,
                 .has_data = request->has_data},
    };
    struct pending_make *pending_make;
    int r;

    if (self->is_gone)
        return error_set(err, -EPIPE, ERROR_ENGINE, "the launcher is gone");
    if (!launched_is_key(request->key))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%s' cannot name a box", request->key);
    r = warm_fill_make(request, &message.make, err);
    if (r < 0)
        return r;
    pending_make = calloc(1, sizeof(*pending_make));
    if (!pending_make)
        return error_memory(err);
    if (++self->next_serial == 0) /* 0 means a box of an inventory */
        self->next_serial = 1;
    *pending_make = (struct pending_make){
        .next = self->pending_makes, .serial = self->next_serial, .events = events, .ctx = ctx};
    self->pending_makes = pending_make;
    message.make.serial = pending_make->serial;
    str_copy(message.make.key, sizeof(message.make.key), request->key);
    *ret_serial = pending_make->serial;
    launched_send(self, &message);
    return 0;
}

static void launched_make_cancel(struct provider *provider, uint32_t serial)
{
    struct launched_provider *self = (struct launched_provider *)provider;

    for (struct pending_make *pending_make = self->pending_makes; pending_make;
         pending_make = pending_make->next) {
        if (pending_make->serial == serial)
            pending_make->events = NULL; /* if a box comes it is ended */
    }
}

static void launched_end(struct provider *provider, uint32_t number, struct box *box,
                         facts_done done, void *ctx)
{
    struct launched_provider *self = (struct launched_provider *)provider;
    struct box_record *box_record = *find_known(self, number);

    box_free(box);
    if (!box_record || box_record->is_awaited)
        return;
    box_record->is_awaited = true;
    box_record->done = done;
    box_record->ctx = ctx;
    if (!self->is_gone)
        say_number(self, LAUNCHER_END, number);
}

static void launched_usage(struct provider *provider, uint32_t number, facts_done done, void *ctx)
{
    struct launched_provider *self = (struct launched_provider *)provider;
    struct pending_usage *pending_usage = calloc(1, sizeof(*pending_usage));

    if (self->is_gone) {
        free(pending_usage);
        return; /* no process is left that knows */
    }
    if (!pending_usage) {
        done(ctx, NULL);
        return;
    }
    *pending_usage = (struct pending_usage){.number = number, .done = done, .ctx = ctx};
    *self->pending_usages_end = pending_usage;
    self->pending_usages_end = &pending_usage->next;
    say_number(self, LAUNCHER_USAGE, number);
}

static const struct provider_ops launched_ops = {
    .name = "local",
    .make = launched_make,
    .make_cancel = launched_make_cancel,
    .end = launched_end,
    .usage = launched_usage,
    .kernel = warm_kernel,
    .commit_layer = warm_commit_layer,
    .discard = warm_discard,
    .set_default = warm_set_default,
    .drop_layer = warm_drop_layer,
    .look = warm_look,
    .forget = warm_forget,
};

int launched_open(struct reactor *reactor, int control_fd, const struct provider_row *row,
                  const struct launched_events *events, void *ctx, struct provider **ret,
                  struct error *err)
{
    struct launched_provider *self = calloc(1, sizeof(*self));

    if (!self)
        return error_memory(err);
    self->provider.ops = &launched_ops;
    self->row = row;
    self->reactor = reactor;
    self->fd = control_fd;
    self->events = *events;
    self->ctx = ctx;
    self->pending_usages_end = &self->pending_usages;
    self->warm_asks_end = &self->warm_asks;
    self->queue_end = &self->queue;
    self->watch = reactor_watch(reactor, control_fd, POLLIN, on_ready, self);
    if (!self->watch) {
        free(self);
        return error_memory(err);
    }
    say_number(self, LAUNCHER_HELLO, LAUNCHER_VERSION);
    *ret = &self->provider;
    return 0;
}

static void say_bare(struct provider *provider, enum launcher_type type)
{
    struct launched_provider *self = (struct launched_provider *)provider;

    if (!self->is_gone)
        say_number(self, type, 0);
}

void launched_say_ready(struct provider *provider)
{
    say_bare(provider, LAUNCHER_READY);
}

void launched_quit(struct provider *provider)
{
    say_bare(provider, LAUNCHER_QUIT);
}

void launched_close(struct provider *provider)
{
    struct launched_provider *self = (struct launched_provider *)provider;

    if (!self || self->is_closed)
        return;
    self->is_closed = true;
    self->reactor->ops->watch_remove(self->watch);
    self->watch = NULL;
    if (!self->is_busy) /* else the function that is calling back frees it */
        free_all(self);
}
