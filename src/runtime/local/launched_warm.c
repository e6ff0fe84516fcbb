/*
 * launched_warm.c - operations of the launcher other than boxes: kernels from zygotes, layers, the
 * pool; see provider.h. Questions wait in one list, in order, for their answers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "runtime/local/local_private.h"

static int copy_layer(const char *layer, char ret[HASH_TEXT_MAX], struct error *err)
{
    if (!layer)
        return 0;
    if (strlen(layer) != HASH_TEXT_MAX - 1 ||
        strspn(layer, "0123456789abcdef") != HASH_TEXT_MAX - 1)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%.80s' cannot name a layer", layer);
    str_copy(ret, HASH_TEXT_MAX, layer);
    return 0;
}

_Static_assert(PROVIDER_PROGRAM_MAX == LAUNCHER_PROGRAM_MAX, "a path fits into the message");

int warm_fill_make(const struct make_request *request, struct launcher_make *make,
                   struct error *err)
{
    static const uint8_t staging[] = {[MAKE_ORDINARY] = STAGING_NONE,
                                      [MAKE_INSTALLER_TEMPLATE] = STAGING_TEMPLATE,
                                      [MAKE_INSTALLER_PACKAGES] = STAGING_PACKAGES,
                                      [MAKE_FINISH_TEMPLATE] = STAGING_FINISH_TEMPLATE,
                                      [MAKE_FINISH_PACKAGES] = STAGING_FINISH_PACKAGES};
    bool is_warm = request->is_warm && request->tier < TIERS_MAX;

    make->has_packages = request->has_packages;
    make->tier = is_warm ? (uint8_t)request->tier : TIER_NONE;
    make->kernel = is_warm ? KERNEL_FIRST : 0;
    make->staging = staging[request->staging];
    str_copy(make->tenant, sizeof(make->tenant), request->tenant ? request->tenant : "");
    str_copy(make->python, sizeof(make->python), request->python);
    str_copy(make->node, sizeof(make->node), request->node);
    return copy_layer(request->layer, make->layer, err);
}

/* ---- questions ---- */

/* NULL: out of memory. A question to a launcher that is gone gets no answer. */
static struct warm_ask *ask(struct launched_provider *self, enum launcher_type type, void *ctx)
{
    struct warm_ask *entry = calloc(1, sizeof(*entry));

    if (!entry)
        return NULL;
    entry->type = type;
    entry->ctx = ctx;
    *self->warm_asks_end = entry;
    self->warm_asks_end = &entry->next;
    return entry;
}

void warm_kernel(struct provider *provider, uint32_t number, uint32_t kernel, int tier,
                 void (*done)(void *ctx, int num), void *ctx)
{
    struct launched_provider *self = (struct launched_provider *)provider;
    struct launcher_message message = {
        .type = LAUNCHER_KERNEL,
        .kernel = {.number = number, .kernel = kernel, .tier = (uint8_t)tier}};
    struct warm_ask *entry;

    if (self->is_gone)
        return;
    if (tier < 0 || tier >= TIERS_MAX || kernel == 0) {
        done(ctx, -EINVAL);
        return;
    }
    entry = ask(self, LAUNCHER_KERNEL, ctx);
    if (!entry) {
        done(ctx, -ENOMEM);
        return;
    }
    entry->number = number;
    entry->kernel = kernel;
    entry->kernel_done = done;
    launched_send(self, &message);
}

static struct launcher_message commit_message(enum launcher_type type, const char *key)
{
    struct launcher_message message = {.type = type};

    str_copy(message.commit_layer.key, sizeof(message.commit_layer.key), key);
    return message;
}

void warm_commit_layer(struct provider *provider, const char *key,
                       void (*done)(void *ctx, const struct layer_committed *layer_committed,
                                    const struct error *err),
                       void *ctx)
{
    struct launched_provider *self = (struct launched_provider *)provider;
    struct launcher_message message;
    struct layer_committed nothing = {0};
    struct error err = {0};
    struct warm_ask *entry;

    if (self->is_gone)
        return;
    if (!launched_is_key(key)) {
        error_set(&err, -EINVAL, ERROR_BAD_INPUT, "'%.80s' cannot name a folder", key);
        done(ctx, &nothing, &err);
        return;
    }
    entry = ask(self, LAUNCHER_COMMIT_LAYER, ctx);
    if (!entry) {
        error_memory(&err);
        done(ctx, &nothing, &err);
        return;
    }
    message = commit_message(LAUNCHER_COMMIT_LAYER, key);
    if (++self->next_serial == 0)
        self->next_serial = 1;
    message.commit_layer.serial = entry->number = self->next_serial;
    entry->commit_done = done;
    launched_send(self, &message);
}

void warm_discard(struct provider *provider, const char *key, bool is_packages)
{
    struct launched_provider *self = (struct launched_provider *)provider;
    struct launcher_message message;

    if (self->is_gone || !launched_is_key(key))
        return;
    message = commit_message(LAUNCHER_DISCARD, key);
    message.commit_layer.is_packages = is_packages;
    launched_send(self, &message);
}

static void say_layer(struct provider *provider, enum launcher_type type, const char *layer)
{
    struct launched_provider *self = (struct launched_provider *)provider;
    struct launcher_message message = {.type = type};

    if (!self->is_gone && copy_layer(layer, message.layer, NULL) == 0)
        launched_send(self, &message);
}

void warm_set_default(struct provider *provider, const char *layer)
{
    say_layer(provider, LAUNCHER_DEFAULT, layer);
}

void warm_drop_layer(struct provider *provider, const char *layer)
{
    if (layer)
        say_layer(provider, LAUNCHER_FORGET, layer);
}

void warm_look(struct provider *provider, void (*each)(void *ctx, const struct warm_state *state),
               void (*done)(void *ctx), void *ctx)
{
    struct launched_provider *self = (struct launched_provider *)provider;
    struct launcher_message message = {.type = LAUNCHER_LOOK};
    struct warm_ask *entry;

    if (self->is_gone)
        return;
    entry = ask(self, LAUNCHER_LOOK, ctx);
    if (!entry) {
        done(ctx);
        return;
    }
    entry->each = each;
    entry->look_done = done;
    launched_send(self, &message);
}

/* Answers still arrive and are matched, but no callback is called. */
void warm_forget(struct provider *provider, const void *ctx)
{
    struct launched_provider *self = (struct launched_provider *)provider;

    for (struct warm_ask *entry = self->warm_asks; entry; entry = entry->next) {
        if (entry->ctx != ctx)
            continue;
        entry->kernel_done = NULL;
        entry->commit_done = NULL;
        entry->each = NULL;
        entry->look_done = NULL;
    }
    for (struct pending_usage *pending_usage = self->pending_usages; pending_usage;
         pending_usage = pending_usage->next) {
        if (pending_usage->ctx == ctx)
            pending_usage->done = NULL;
    }
    for (size_t i = 0; i < LAUNCHED_BUCKETS; i++) {
        for (struct box_record *box_record = self->box_records[i]; box_record;
             box_record = box_record->next) {
            if (box_record->ctx == ctx)
                box_record->done = NULL;
        }
    }
    for (struct pending_make *pending_make = self->pending_makes; pending_make;
         pending_make = pending_make->next) {
        if (pending_make->ctx == ctx)
            pending_make->events = NULL; /* if a box comes it is ended */
    }
}

void warm_free(struct launched_provider *self)
{
    while (self->warm_asks) {
        struct warm_ask *first = self->warm_asks;

        self->warm_asks = first->next;
        free(first);
    }
}

/* ---- answers ---- */

static struct warm_ask **find_ask(struct launched_provider *self, enum launcher_type type,
                                  uint32_t number, uint32_t kernel)
{
    struct warm_ask **at = &self->warm_asks;

    while (*at && ((*at)->type != type || (*at)->number != number || (*at)->kernel != kernel))
        at = &(*at)->next;
    return at;
}

/* Removes the question from the list; NULL: none matches. */
static struct warm_ask *take(struct launched_provider *self, struct warm_ask **at)
{
    struct warm_ask *entry = *at;

    if (!entry)
        return NULL;
    *at = entry->next;
    if (self->warm_asks_end == &entry->next)
        self->warm_asks_end = at;
    return entry;
}

static void on_kernel_made(struct launched_provider *self, const struct launcher_kernel_made *made)
{
    CLEANUP(freep)
    struct warm_ask *entry =
        take(self, find_ask(self, LAUNCHER_KERNEL, made->number, made->kernel));

    if (entry && entry->kernel_done)
        entry->kernel_done(entry->ctx, made->num);
}

static void on_kernel_ended(struct launched_provider *self,
                            const struct launcher_kernel_ended *ended)
{
    struct kernel_end end = {
        .number = ended->number,
        .kernel = ended->kernel,
        .status = ended->status,
        .usage = {.cpu_us = ended->cpu_us,
                  .max_rss_bytes = ended->max_rss_bytes,
                  .by = USAGE_BY_ENGINE},
    };

    if (self->events.kernel_ended)
        self->events.kernel_ended(self->ctx, &end);
}

static void on_layer_committed(struct launched_provider *self,
                               const struct launcher_layer_committed *layer_committed)
{
    CLEANUP(freep)
    struct warm_ask *entry =
        take(self, find_ask(self, LAUNCHER_COMMIT_LAYER, layer_committed->serial, 0));
    struct layer_committed told = {.bytes = layer_committed->bytes,
                                   .files = layer_committed->files,
                                   .was_there = layer_committed->was_there};

    if (!entry || !entry->commit_done)
        return;
    str_copy(told.layer, sizeof(told.layer), layer_committed->layer);
    entry->commit_done(entry->ctx, &told, &layer_committed->error);
}

static void on_state(struct launched_provider *self, const struct launcher_state *state)
{
    struct warm_ask **at = find_ask(self, LAUNCHER_LOOK, 0, 0), *entry = *at;
    bool is_last = state->tier == STATE_END;
    struct warm_state told = {
        .tier = is_last ? -1 : state->tier,
        .is_ready = state->is_ready,
        .pid = state->pid,
        .forks = state->forks,
        .pooled = state->pooled,
        .pool_size = state->pool_size,
        .memory_bytes = state->memory_bytes,
    };

    if (!entry)
        return;
    if (state->ready_ns > state->started_ns)
        told.start_ms = (state->ready_ns - state->started_ns) / 1000000;
    str_copy(told.layer, sizeof(told.layer), state->layer);
    if (entry->each)
        entry->each(entry->ctx, &told);
    if (!is_last)
        return;
    take(self, find_ask(self, LAUNCHER_LOOK, 0, 0));
    if (entry->look_done)
        entry->look_done(entry->ctx);
    free(entry);
}

static void on_verdict(struct launched_provider *self, const struct launcher_verdict *verdict)
{
    if (self->events.verdict)
        self->events.verdict(self->ctx, verdict->number, verdict->is_allowed, verdict->host,
                             verdict->port, verdict->reason);
}

bool warm_dispatch(struct launched_provider *self, const struct launcher_message *message)
{
    switch (message->type) {
    case LAUNCHER_KERNEL_MADE:
        on_kernel_made(self, &message->kernel_made);
        return true;
    case LAUNCHER_KERNEL_ENDED:
        on_kernel_ended(self, &message->kernel_ended);
        return true;
    case LAUNCHER_LAYER_COMMITTED:
        on_layer_committed(self, &message->layer_committed);
        return true;
    case LAUNCHER_STATE:
        on_state(self, &message->state);
        return true;
    case LAUNCHER_VERDICT:
        on_verdict(self, &message->verdict);
        return true;
    case LAUNCHER_SPENT:
        if (self->events.spent)
            self->events.spent(self->ctx, message->spent.tenant, message->spent.cpu_us);
        return true;
    default:
        return false;
    }
}
