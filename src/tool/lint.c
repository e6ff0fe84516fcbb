/*
 * lint.c - SANDBOX_BLOCK_DANGEROUS_IMPORTS for code that runs in a session: Python's own parser
 * reads it in the box, nothing of it runs. A lint against accidents, not a wall.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "guest_files.h"
#include "session/imports.h"
#include "tool/inside.h"

#define CHECK_TIMEOUT_MS 10000
#define CHECK_OUTPUT_MAX (256 * KIB)

/* Lives until the box has told its end, also when the call that wanted it is gone. */
struct tool_lint {
    struct tool_call *call; /* NULL: nobody waits any more */
    struct box *box;
    uint32_t exec;
    struct buf line;
    void (*done)(struct tool_call *call, const struct error *err);
};

static void finish(struct tool_lint *lint, const struct error *err)
{
    struct tool_call *call = lint->call;
    void (*done)(struct tool_call *, const struct error *) = lint->done;

    buf_free(&lint->line);
    free(lint);
    if (!call)
        return;
    call->lint = NULL;
    done(call, err && err->num < 0 ? err : NULL);
}

static size_t on_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct tool_lint *lint = ctx;

    if (stream == BOX_STDOUT && buf_append(&lint->line, data, length) < 0)
        buf_append_text(&lint->line, "!"); /* cut: it will not parse */
    return length;
}

static void on_ended(void *ctx, const struct exec_end *end)
{
    struct tool_lint *lint = ctx;
    CLEANUP(buf_free) struct buf message = BUF_INIT(IMPORTS_MESSAGE_MAX);
    CLEANUP(strv_freep) char **modules = NULL;
    struct error err = {0};
    int r = imports_parse(buf_text(&lint->line), lint->line.length, &modules, &message, &err);

    (void)end;
    if (r > 0)
        error_set(&err, -EPERM, ERROR_BLOCKED_IMPORT, "%s", buf_text(&message));
    finish(lint, &err);
}

static void on_failed(void *ctx, const struct error *err)
{
    finish(ctx, err);
}

static int start(struct tool_lint *lint, const char *program, const struct config *config,
                 struct error *err)
{
    static const struct exec_events events = {
        .output = on_output, .ended = on_ended, .failed = on_failed};
    CLEANUP(buf_free) struct buf list = BUF_INIT(LIMIT_CONFIG_BYTES);
    CLEANUP(buf_free) struct buf checker = BUF_INIT(LIMIT_CONFIG_BYTES);
    const char *argv[] = {program, "-I", "-S", "-c", NULL, lint->call->path, NULL, NULL};
    int r = buf_append(&checker, guest_check_imports_py, guest_check_imports_py_length);

    for (char **at = config->blocked_imports; at && *at && r == 0; at++)
        r = buf_printf(&list, "%s%s", list.length ? "," : "", *at);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "the list of blocked imports is too long");
    argv[4] = buf_text(&checker);
    argv[6] = buf_text(&list);
    return box_exec(lint->box, &(struct exec_spec){.argv = argv, .timeout_ms = CHECK_TIMEOUT_MS},
                    &events, lint, &lint->exec, err);
}

void call_lint(struct tool_call *call, const char *program,
               void (*done)(struct tool_call *call, const struct error *err))
{
    struct tool_lint *lint = calloc(1, sizeof(*lint));
    struct error err = {0};

    if (!lint) {
        error_set(&err, -ENOMEM, ERROR_ENGINE, "out of memory");
        done(call, &err);
        return;
    }
    *lint = (struct tool_lint){
        .call = call, .box = call->box, .line = BUF_INIT(CHECK_OUTPUT_MAX), .done = done};
    call->lint = lint;
    if (start(lint, program, engine_config(call->tools->engine), &err) < 0)
        finish(lint, &err);
}

void call_leave_lint(struct tool_call *call)
{
    if (!call->lint)
        return;
    call->lint->call = NULL;
    box_signal(call->lint->box, call->lint->exec, SIGKILL);
    call->lint = NULL;
}
