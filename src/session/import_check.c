/*
 * import_check.c - SANDBOX_BLOCK_DANGEROUS_IMPORTS: Python's own parser reads the code in the box,
 * from its standard input, and nothing of it runs. A lint against accidents, not a security
 * boundary.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "recipe/import_report.h"
#include "session/session_private.h"

/* Lives until the box has reported its end, also when the caller has cancelled. */
struct import_check {
    struct box *box;
    uint32_t call;
    char *code; /* bytes that are not sent yet; NULL: none */
    size_t length, sent;
    struct buf line;
    void (*done)(void *ctx, const struct error *err); /* NULL: the caller cancelled */
    void *ctx;
    char ***modules; /* NULL: not wanted */
};

static void finish(struct import_check *import_check, const struct error *err)
{
    void (*done)(void *, const struct error *) = import_check->done;
    void *ctx = import_check->ctx;

    buf_free(&import_check->line);
    free(import_check->code);
    free(import_check);
    if (done)
        done(ctx, err && err->num < 0 ? err : NULL);
}

static size_t on_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct import_check *import_check = ctx;

    if (stream == BOX_STDOUT)
        import_line_add(&import_check->line, data, length);
    return length;
}

static void on_ended(void *ctx, const struct exec_end *end)
{
    struct import_check *import_check = ctx;
    CLEANUP(strv_freep) char **modules = NULL;
    struct error err = {0};

    (void)end;
    import_line_judge(&import_check->line, &modules, &err);
    if (modules && import_check->modules && import_check->done)
        *import_check->modules = ptr_take(&modules);
    finish(import_check, &err);
}

static void on_failed(void *ctx, const struct error *err)
{
    finish(ctx, err);
}

static void push(void *ctx)
{
    struct import_check *import_check = ctx;

    while (import_check->code && import_check->sent < import_check->length) {
        long taken = box_stdin(import_check->box, import_check->call,
                               import_check->code + import_check->sent,
                               import_check->length - import_check->sent);

        if (taken < 0)
            break;
        if (taken == 0)
            return; /* the box reports room later */
        import_check->sent += (size_t)taken;
    }
    if (!import_check->code)
        return;
    box_stdin_end(import_check->box, import_check->call);
    free(ptr_take(&import_check->code));
}

static const struct exec_events events = {
    .output = on_output, .ended = on_ended, .failed = on_failed, .stdin_ready = push};

static int start(struct import_check *import_check, const struct config *config,
                 const char *program, struct error *err)
{
    CLEANUP(import_checker_free) struct import_checker checker = {0};
    int r = import_checker_make(&checker, program, "-", config->blocked_imports, err);

    if (r < 0)
        return r;
    return box_exec(import_check->box,
                    &(struct exec_spec){
                        .argv = checker.argv, .timeout_ms = IMPORT_CHECK_MS, .stdin_open = true},
                    &events, import_check, &import_check->call, err);
}

int import_check_start(struct box *box, const struct import_check_spec *spec,
                       struct import_check **ret, struct error *err)
{
    struct import_check *import_check = calloc(1, sizeof(*import_check));
    int r;

    if (import_check)
        *import_check = (struct import_check){.box = box,
                                              .code = malloc(spec->length + 1),
                                              .length = spec->length,
                                              .line = BUF_INIT(IMPORT_CHECK_OUTPUT_MAX),
                                              .done = spec->done,
                                              .ctx = spec->ctx,
                                              .modules = spec->modules};
    if (!import_check || !import_check->code) {
        free(import_check);
        return error_memory(err);
    }
    memcpy(import_check->code, spec->code, spec->length);
    r = start(import_check, spec->config, spec->program, err);
    if (r < 0) {
        import_check->done = NULL;
        finish(import_check, NULL);
        return r;
    }
    *ret = import_check;
    push(import_check);
    return 0;
}

void import_check_leave(struct import_check *import_check)
{
    if (!import_check)
        return;
    import_check->done = NULL;
    box_signal(import_check->box, import_check->call, SIGKILL);
}
