/*
 * check.c - SANDBOX_BLOCK_DANGEROUS_IMPORTS: Python's own parser reads the code in the box, from
 * its standard input, and nothing of it runs. A lint against accidents, not a wall.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "guest_files.h"
#include "session/imports.h"
#include "session/inside.h"

#define CHECK_TIMEOUT_MS 10000
#define CHECK_OUTPUT_MAX (256 * KIB)

/* Lives until the box has told its end, also when whoever wanted it is gone. */
struct check {
    struct box *box;
    uint32_t call;
    char *code; /* what is not sent yet; NULL: nothing */
    size_t length, sent;
    struct buf line;
    void (*done)(void *ctx, const struct error *err); /* NULL: nobody waits */
    void *ctx;
    char ***modules; /* NULL: not wanted */
};

static void finish(struct check *check, const struct error *err)
{
    void (*done)(void *, const struct error *) = check->done;
    void *ctx = check->ctx;

    buf_free(&check->line);
    free(check->code);
    free(check);
    if (done)
        done(ctx, err && err->num < 0 ? err : NULL);
}

static size_t on_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct check *check = ctx;

    if (stream == BOX_STDOUT && buf_append(&check->line, data, length) < 0)
        buf_append_text(&check->line, "!"); /* cut: it will not parse */
    return length;
}

static void on_ended(void *ctx, const struct exec_end *end)
{
    struct check *check = ctx;
    CLEANUP(buf_free) struct buf message = BUF_INIT(IMPORTS_MESSAGE_MAX);
    CLEANUP(strv_freep) char **modules = NULL;
    struct error err = {0};
    int r = imports_parse(buf_text(&check->line), check->line.length, &modules, &message, &err);

    (void)end;
    if (r > 0)
        error_set(&err, -EPERM, ERROR_BLOCKED_IMPORT, "%s", buf_text(&message));
    if (r > 0 && check->modules && check->done)
        *check->modules = ptr_take(&modules);
    finish(check, &err);
}

static void on_failed(void *ctx, const struct error *err)
{
    finish(ctx, err);
}

static void push(void *ctx)
{
    struct check *check = ctx;

    while (check->code && check->sent < check->length) {
        long taken = box_stdin(check->box, check->call, check->code + check->sent,
                               check->length - check->sent);

        if (taken < 0)
            break;
        if (taken == 0)
            return; /* more room will be told */
        check->sent += (size_t)taken;
    }
    if (!check->code)
        return;
    box_stdin_end(check->box, check->call);
    free(ptr_take(&check->code));
}

static const struct exec_events events = {
    .output = on_output, .ended = on_ended, .failed = on_failed, .stdin_ready = push};

static int start(struct check *check, const struct config *config, const char *program,
                 struct error *err)
{
    CLEANUP(buf_free) struct buf list = BUF_INIT(LIMIT_CONFIG_BYTES);
    CLEANUP(buf_free) struct buf checker = BUF_INIT(LIMIT_CONFIG_BYTES);
    const char *argv[] = {program, "-I", "-S", "-c", NULL, "-", NULL, NULL};
    int r = buf_append(&checker, guest_check_imports_py, guest_check_imports_py_length);

    for (char **at = config->blocked_imports; at && *at && r == 0; at++)
        r = buf_printf(&list, "%s%s", list.length ? "," : "", *at);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "the list of blocked imports is too long");
    argv[4] = buf_text(&checker);
    argv[6] = buf_text(&list);
    return box_exec(
        check->box,
        &(struct exec_spec){.argv = argv, .timeout_ms = CHECK_TIMEOUT_MS, .stdin_open = true},
        &events, check, &check->call, err);
}

int check_start(struct engine *engine, struct box *box, const struct check_spec *spec,
                struct check **ret, struct error *err)
{
    struct check *check = calloc(1, sizeof(*check));
    int r;

    if (check)
        *check = (struct check){.box = box,
                                .code = malloc(spec->length + 1),
                                .length = spec->length,
                                .line = BUF_INIT(CHECK_OUTPUT_MAX),
                                .done = spec->done,
                                .ctx = spec->ctx,
                                .modules = spec->modules};
    if (!check || !check->code) {
        free(check);
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    }
    memcpy(check->code, spec->code, spec->length);
    r = start(check, engine->spec.config, spec->program, err);
    if (r < 0) {
        check->done = NULL;
        finish(check, NULL);
        return r;
    }
    *ret = check;
    push(check);
    return 0;
}

void check_leave(struct check *check)
{
    if (!check)
        return;
    check->done = NULL;
    box_signal(check->box, check->call, SIGKILL);
}
