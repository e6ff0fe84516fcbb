/*
 * launcher_stage.h - counts the calls that a provider makes, and keeps what the last ones said.
 *
 * For tests that play the launcher (fake_launcher.h) and see what becomes of its answers.
 */
#ifndef BAILEY_UNIT_RUNTIME_LAUNCHER_STAGE_H
#define BAILEY_UNIT_RUNTIME_LAUNCHER_STAGE_H

#include "runtime/fake_launcher.h"

#include "base/str.h"
#include "runtime/box/box.h"
#include "runtime/provider_ops.h"

struct stage {
    struct poll_reactor loop;
    struct provider *provider;
    int launcher_fd, host_fd, twin_fd; /* our ends */
    unsigned found, ready, ended, stopping, gone, made, refused, done;
    uint32_t generation, ended_number, grace_ms;
    struct made box; /* the last that was found or made */
    char fallback[ERROR_TEXT_MAX];
    struct box_facts facts;
    struct error error;
    bool closes_in_stopping;
};

static void on_found(void *ctx, const struct made *made)
{
    struct stage *stage = ctx;

    stage->found++;
    stage->box = *made;
}

static void on_ready(void *ctx, uint32_t generation)
{
    struct stage *stage = ctx;

    stage->ready++;
    stage->generation = generation;
}

static void on_ended(void *ctx, uint32_t number, const struct box_facts *facts)
{
    struct stage *stage = ctx;

    stage->ended++;
    stage->ended_number = number;
    stage->facts = *facts;
}

static void on_stopping(void *ctx, uint32_t grace_ms)
{
    struct stage *stage = ctx;

    stage->stopping++;
    stage->grace_ms = grace_ms;
    if (stage->closes_in_stopping) {
        launched_close(stage->provider);
        stage->provider = NULL;
    }
}

static void on_gone(void *ctx)
{
    ((struct stage *)ctx)->gone++;
}

static void on_made(void *ctx, const struct made *made)
{
    struct stage *stage = ctx;

    stage->made++;
    stage->box = *made;
    str_copy(stage->fallback, sizeof(stage->fallback), made->fallback ? made->fallback : "");
}

static void on_refused(void *ctx, const struct error *err, const struct box_facts *facts)
{
    struct stage *stage = ctx;

    stage->refused++;
    stage->error = *err;
    stage->facts = *facts;
}

static void on_done(void *ctx, const struct box_facts *facts)
{
    struct stage *stage = ctx;

    stage->done++;
    stage->facts = *facts;
}

static const struct launched_events events = {.found = on_found,
                                              .ready = on_ready,
                                              .ended = on_ended,
                                              .stopping = on_stopping,
                                              .gone = on_gone};
static const struct make_events make_events = {.made = on_made, .refused = on_refused};

#endif
