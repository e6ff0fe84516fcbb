/* await.c - waiting for an execution's end, its outputs and its result; see await.h. */
#include "session/await.h"

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "session/session_private.h"

/* The outputs that changed as files of the result. */
static void add_files(struct session *session, const struct execution_outcome *outcome,
                      uint64_t total, struct result *result)
{
    char path[LIMIT_PATH_BYTES + 1];

    result->total_output_files = total;
    for (size_t i = 0; i < outcome->changed_count && result->file_count < LIMIT_OUTPUT_FILES; i++) {
        const struct session_output *output = &outcome->changed[i];
        bool has_path =
            output->is_saved && str_format(path, sizeof(path), "%s/%s",
                                           session_output_folder(session), output->name) == 0;

        if (result_add_file(result, output->name, has_path ? path : NULL, output->bytes,
                            has_path ? NULL : output->skipped) < 0)
            return; /* no memory: the list is shorter, but file_count is right */
    }
}

static void finish(struct execution_await *await, struct execution_outcome *outcome, uint64_t total,
                   const struct error *err)
{
    struct session *session = await->execution->session;
    struct result *result = &outcome->result;

    await->is_collecting = false;
    if (await->timer)
        session->manager->spec.reactor->ops->timer_remove(ptr_take(&await->timer));
    execution_result(await->execution, execution_config(await->execution)->limits.output_bytes,
                     result);
    str_copy(result->session_id, sizeof(result->session_id), session->id);
    if (err && err->num < 0)
        result_note(result, "bailey: the files of /tmp/output could not be fetched: %s", err->text);
    else
        add_files(session, outcome, total, result);
    await->spec.done(await->spec.ctx, outcome);
    if (!outcome->is_taken) /* `await` may be gone by now */
        result_free(result);
}

static void on_collected(void *ctx, const struct session_output *changed, size_t count,
                         uint64_t total, const struct error *err)
{
    struct execution_outcome outcome = {
        .has_ended = true, .changed = changed, .changed_count = count};

    finish(ctx, &outcome, total, err);
}

static void on_due(void *ctx)
{
    struct execution_outcome outcome = {0};

    finish(ctx, &outcome, 0, NULL);
}

/* A session without a box has nothing to fetch from; a session whose box is being adopted has. */
static bool has_outputs(const struct execution_await *await)
{
    struct session *session = await->execution->session;

    return await->spec.collects &&
           (session->state == SESSION_READY || session->state == SESSION_STARTING) &&
           session_has_output(session, await->execution);
}

static void on_paused(void *ctx)
{
    struct execution_await *await = ctx;

    if (!await->is_collecting) /* a collection is about to fail, and then it is over */
        on_due(await);
}

static void on_more(void *ctx)
{
    struct execution_await *await = ctx;
    struct session *session = await->execution->session;

    if (await->is_collecting || !execution_has_ended(await->execution))
        return;
    if (await->timer)
        session->manager->spec.reactor->ops->timer_remove(ptr_take(&await->timer));
    if (!has_outputs(await)) {
        on_collected(await, NULL, 0, 0, NULL);
        return;
    }
    await->is_collecting = true;
    session_collect(session, on_collected, await);
}

int execution_await(struct execution_await *await, struct execution *execution,
                    const struct execution_await_spec *spec, struct error *err)
{
    static const struct execution_watch_events events = {.more = on_more, .paused = on_paused};
    struct reactor *reactor = execution->session->manager->spec.reactor;
    bool waits = !execution_has_ended(execution);
    bool has_timer = waits && spec->timeout_ms != UINT64_MAX;

    *await = (struct execution_await){.execution = execution, .spec = *spec};
    await->watcher = execution_watch(execution, false, &events, await);
    if (await->watcher && has_timer)
        await->timer = reactor_timer(reactor, on_due, await);
    if (!await->watcher || (has_timer && !await->timer)) {
        execution_await_end(await);
        return error_memory(err);
    }
    if (has_timer)
        reactor->ops->timer_set(await->timer, spec->timeout_ms);
    if (!waits)
        on_more(await);
    return 0;
}

void execution_await_end(struct execution_await *await)
{
    struct session *session = await->execution ? await->execution->session : NULL;

    if (!session)
        return;
    if (await->is_collecting)
        session_collect_cancel(session, await);
    if (await->timer)
        session->manager->spec.reactor->ops->timer_remove(ptr_take(&await->timer));
    if (await->watcher)
        execution_unwatch(ptr_take(&await->watcher), true);
    *await = (struct execution_await){0};
}
