/*
 * result.c - what the server says of an end, as a warden says it: the event `exit` of a command or
 * a cell, and the errors of calls; see remote_private.h.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "runtime/remote/remote_private.h"
#include "sandbox/guest_stage.h"

#define SECONDS_MAX 1e9 /* a server may say anything */

int remote_result_errno(const struct error *err)
{
    static const struct {
        const char *code;
        int number;
    } rows[] = {
        {ERROR_COMMAND_NOT_FOUND, ENOENT},
        {ERROR_NOT_EXECUTABLE, EACCES},
        {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_PATH_EXISTS, EEXIST},
        {ERROR_PATH_IS_FOLDER, EISDIR},
        {ERROR_PATH_NOT_FOLDER, ENOTDIR},
        {ERROR_FOLDER_NOT_EMPTY, ENOTEMPTY},
        {ERROR_DISK_FULL, ENOSPC},
        {ERROR_PATH_REFUSED, EXDEV},
        {ERROR_READ_ONLY, EROFS},
        {ERROR_PATH_INVALID, EINVAL},
        {ERROR_TOO_LARGE, EAGAIN},
        {ERROR_TOO_MANY_CONTEXTS, EAGAIN},
        {ERROR_BUSY, EAGAIN},
        {ERROR_NO_INTERPRETER, ENOENT},
        {ERROR_EXECUTION_ENDED, ESRCH},
        {ERROR_CONTEXT_NOT_FOUND, ESRCH},
        {ERROR_SESSION_PAUSED, EBUSY},
        {ERROR_RANGE, ERANGE},
        {ERROR_UNKNOWN_PARAMETER, ENOTSUP},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (err->code == rows[i].code)
            return -rows[i].number;
    }
    return err->num < 0 && err->num >= -133 ? err->num : -EIO;
}

static uint64_t nanoseconds(double seconds)
{
    return seconds > 0 ? (uint64_t)(MIN(seconds, SECONDS_MAX) * 1e9) : 0;
}

static uint64_t number_at(const json_t *json, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(json, name));

    return value > 0 ? (uint64_t)value : 0;
}

/* It was not started, or the box was lost while it ran. */
static void read_error(struct remote_run *run, const json_t *error)
{
    struct error err = {.num = -EIO};
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *message = json_string_value(json_object_get(error, "message"));
    bool is_folder = message && str_starts(message, "the working folder");

    err.code = error_code_find(code ? code : "");
    if (err.code == ERROR_BOX_LOST || err.code == ERROR_SESSION_ENDED) {
        remote_box_lose(run->box, false, message ? message : "its session ended");
        return;
    }
    if (is_folder)
        err = (struct error){.num = -ENOENT, .code = ERROR_PATH_NOT_FOUND};
    run->has_failed = !run->is_started;
    run->fail = (struct message_fail){.stage = is_folder ? GUEST_STAGE_FOLDER : GUEST_STAGE_EXEC,
                                      .error = (uint16_t)-remote_result_errno(&err)};
}

static void read_flags(struct remote_run *run, const json_t *result, const json_t *meta)
{
    struct message_exited *exited = &run->exited;
    const json_t *usage = json_object_get(meta, "usage");

    if (json_is_true(json_object_get(meta, "disk_full")))
        exited->flags |= EXITED_DISK_FULL;
    exited->flags |= EXITED_HAS_OUTPUT; /* perhaps: the broker looks for itself */
    exited->cpu_us = number_at(usage, "cpu_ms") * 1000;
    exited->max_rss_bytes = number_at(usage, "max_rss_bytes");
    exited->duration_ns = nanoseconds(json_number_value(json_object_get(result, "duration")));
    if (json_is_true(json_object_get(meta, "oom_killed")))
        host_box_oom(&run->box->box);
}

/* Variables that are gone without a word would be a lie. */
static void note_changes(struct remote_run *run, const json_t *meta)
{
    const char *note = json_string_value(json_object_get(meta, "kernel_note"));

    if (note && str_equal(json_string_value(json_object_get(meta, "kernel")), "replaced"))
        remote_follow_note(run, note);
    if (json_is_true(json_object_get(meta, "results_truncated")))
        remote_follow_note(run,
                           "the server of SANDBOX_URL left out values of this cell, which has too "
                           "many or too large ones");
}

void remote_result_read(struct remote_run *run, const json_t *result)
{
    const json_t *meta = json_object_get(result, "meta");
    const json_t *error = json_object_get(meta, "error");
    json_int_t code = json_integer_value(json_object_get(result, "exit_code"));
    uint64_t number = number_at(meta, "signal");

    run->is_over = true;
    run->exited = (struct message_exited){.signal = number <= 64 ? (uint32_t)number : 0,
                                          .exit_code = number > 0 ? 0 : (int32_t)(code & 0xff)};
    if (json_is_object(error)) {
        read_error(run, error);
        if (run->has_failed || run->box->is_lost)
            return;
    }
    read_flags(run, result, meta);
    if (run->kind != RUN_CELL)
        return;
    note_changes(run, meta);
    if (json_is_true(json_object_get(meta, "kernel_lost")) || number > 0 || code > 1)
        remote_run_kernel_died(run);
}
