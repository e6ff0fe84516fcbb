/*
 * warm.c - the JSON description of what the provider keeps warm: zygotes and the pool; see
 * session_manager.h.
 */
#include <stdlib.h>

#include "base/list.h"
#include "base/str.h"
#include "session/layers.h"
#include "session/session_private.h"

struct look {
    struct look *next;
    struct session_manager *manager;
    json_t *zygotes, *pool;
    void (*done)(void *ctx, json_t *state);
    void *ctx;
};

static void look_free(struct look *look)
{
    LIST_UNLINK(look->manager->looks, look);
    json_decref(look->zygotes);
    json_decref(look->pool);
    free(look);
}

static json_t *pool_json(const struct session_manager *manager, const struct warm_state *state)
{
    const struct config *config = manager->spec.config;

    return json_pack("{s:i, s:i, s:I, s:I}", "size", (int)(state ? state->pool_size : 0), "boxes",
                     (int)(state ? state->pooled : 0), "memory_bytes",
                     (json_int_t)(state ? state->memory_bytes : 0), "memory_limit_bytes",
                     (json_int_t)config->pool_memory_bytes);
}

static void on_state(void *ctx, const struct warm_state *state)
{
    struct look *look = ctx;

    if (state->tier < 0) {
        json_decref(look->pool);
        look->pool = pool_json(look->manager, state);
        return;
    }
    json_array_append_new(look->zygotes,
                          json_pack("{s:s?, s:i, s:b, s:i, s:i, s:i, s:I, s:I}", "layer",
                                    state->layer[0] ? state->layer : NULL, "tier", state->tier,
                                    "ready", state->is_ready, "pid", (int)state->pid, "forks",
                                    (int)state->forks, "pooled", (int)state->pooled, "memory_bytes",
                                    (json_int_t)state->memory_bytes, "start_ms",
                                    (json_int_t)state->start_ms));
}

static void on_seen(void *ctx)
{
    struct look *look = ctx;
    void (*done)(void *ctx, json_t *state) = look->done;
    void *done_ctx = look->ctx;
    json_t *state =
        json_pack("{s:O, s:o}", "zygotes", look->zygotes, "pool",
                  look->pool ? json_incref(look->pool) : pool_json(look->manager, NULL));

    look_free(look);
    done(done_ctx, state);
}

void session_manager_look(struct session_manager *manager, void (*done)(void *ctx, json_t *state),
                          void *ctx)
{
    struct look *look = calloc(1, sizeof(*look));

    if (!look) {
        done(ctx, NULL);
        return;
    }
    *look = (struct look){.next = manager->looks,
                          .manager = manager,
                          .zygotes = json_array(),
                          .done = done,
                          .ctx = ctx};
    manager->looks = look;
    if (manager->provider->ops->look)
        manager->provider->ops->look(manager->provider, on_state, on_seen, look);
    else
        on_seen(look);
}

void session_manager_look_cancel(struct session_manager *manager, void *ctx)
{
    struct look *next;

    for (struct look *look = manager->looks; look; look = next) {
        next = look->next;
        if (look->ctx != ctx)
            continue;
        manager->provider->ops->forget(manager->provider, look);
        look_free(look);
    }
}

void looks_free(struct session_manager *manager)
{
    while (manager->looks)
        look_free(manager->looks);
}
