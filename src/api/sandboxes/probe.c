/*
 * probe.c - asks a sandbox something by a short command in it: where links lead, what its processes
 * use. Its output is the guest's word, and is used for nothing but an answer to the guest's owner.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"

#define PROBE_MS 10000
#define OUTPUT_MAX (4 * MIB)
#define PIECE (64 * KIB)

struct e2b_probe {
    struct execution *execution;
    struct execution_watcher *watcher;
    uint64_t offset[BOX_STREAMS];
    struct buf text;
    void (*done)(void *ctx, const char *text, size_t length);
    void *ctx;
};

static void read_all(struct e2b_probe *probe)
{
    CLEANUP(freep) char *data = malloc(PIECE);
    ssize_t count = 1;

    while (data && count > 0) {
        count = execution_read(probe->execution, 1, probe->offset[0], data, PIECE);
        if (count <= 0 || buf_append(&probe->text, data, (size_t)count) < 0)
            break;
        probe->offset[0] += (uint64_t)count;
    }
}

static void on_more(void *ctx)
{
    struct e2b_probe *probe = ctx;

    read_all(probe);
    if (!execution_has_ended(probe->execution))
        return;
    probe->done(probe->ctx, buf_text(&probe->text), probe->text.length);
}

void e2b_probe_free(struct e2b_probe *probe)
{
    if (!probe)
        return;
    execution_unwatch(probe->watcher, true);
    buf_free(&probe->text);
    free(probe);
}

struct e2b_probe *e2b_probe_new(struct session *session, const struct caller *caller,
                                const char *const *argv,
                                void (*done)(void *ctx, const char *text, size_t length), void *ctx,
                                struct error *err)
{
    static const struct execution_watch_events events = {.more = on_more};
    const struct execution_spec spec = {
        .caller = caller, .argv = argv, .cwd = "/", .timeout_ms = PROBE_MS};
    struct e2b_probe *probe = calloc(1, sizeof(*probe));

    if (!probe) {
        error_memory(err);
        return NULL;
    }
    probe->text = BUF_INIT(OUTPUT_MAX);
    probe->done = done;
    probe->ctx = ctx;
    if (session_exec(session, &spec, &probe->execution, err) < 0) {
        free(probe);
        return NULL;
    }
    probe->watcher = execution_watch(probe->execution, true, &events, probe);
    if (probe->watcher)
        return probe;
    error_memory(err);
    free(probe);
    return NULL;
}
