/*
 * edit_file.c - the tool sandbox_edit_file {file_path, old_string, new_string}: replaces exactly
 * one occurrence, compared as bytes; the file is replaced atomically.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "tool/file_path.h"
#include "tool/tool_private.h"

static void edited(struct tool_call *call, const struct error *err)
{
    if (err) {
        call_fail(call, err, NULL);
        return;
    }
    call_reply_file(call, "File edited successfully. Re-run with sandbox_exec.");
}

/* Replaces `length` bytes at `at`; afterwards the old content is no longer in memory. */
static int splice(struct tool_call *call, size_t at, size_t length, json_t *instead)
{
    struct buf file = BUF_INIT(call->file.maximum);
    int r = buf_append(&file, call->file.data, at);

    if (r == 0)
        r = buf_append(&file, json_string_value(instead), json_string_length(instead));
    if (r == 0)
        r = buf_append(&file, call->file.data + at + length, call->file.length - at - length);
    if (r < 0) {
        buf_free(&file);
        return r;
    }
    buf_free(&call->file);
    call->file = file;
    return 0;
}

static void read_whole(struct tool_call *call, const struct error *failed)
{
    json_t *old = call_parameter(call, "old_string");
    size_t at = 0, count;
    struct error err = {0};

    if (failed) {
        call_fail(call, failed, NULL);
        return;
    }
    count = bytes_count(buf_text(&call->file), call->file.length, json_string_value(old),
                        json_string_length(old), &at);
    if (count == 0) {
        error_set(&err, -ENOENT, ERROR_BAD_INPUT, "old_string not found");
        call_fail(call, &err,
                  "Edit failed - old_string not found. Read file first with sandbox_exec.");
    } else if (count > 1) {
        error_set(&err, -EINVAL, ERROR_BAD_INPUT,
                  "old_string found %s%zu times - not unique. Include more context.",
                  count > BYTES_COUNT_MAX ? "more than " : "", MIN(count, (size_t)BYTES_COUNT_MAX));
        call_fail(call, &err,
                  "Edit failed - old_string not unique. Include more surrounding context.");
    } else if (splice(call, at, json_string_length(old), call_parameter(call, "new_string")) < 0) {
        error_set(&err, -EFBIG, ERROR_TOO_LARGE, "the file would be too large");
        call_fail(call, &err, NULL);
    } else {
        call_put(call, buf_text(&call->file), call->file.length, edited);
    }
}

static void on_file_locked(struct tool_call *call)
{
    call_get(call, read_whole);
}

void sandbox_edit_file_start(struct tool_call *call)
{
    json_t *path = call_parameter(call, "file_path");
    json_t *old = call_parameter(call, "old_string"), *new = call_parameter(call, "new_string");
    struct error err = {0};

    if (file_path_for_tool(json_string_value(path), json_string_length(path), call->path, &err) <
        0) {
        call->path[0] = '\0';
        call_fail(call, &err, NULL);
    } else if (json_string_length(old) == 0) {
        error_set(&err, -EINVAL, ERROR_BAD_INPUT, "old_string is empty");
        call_fail(call, &err, "Give the text to replace. Use sandbox_write_file for a new file.");
    } else if (json_equal(old, new)) {
        error_set(&err, -EINVAL, ERROR_BAD_INPUT,
                  "old_string and new_string are the same: there is nothing to change");
        call_fail(call, &err, "Give a new_string that differs.");
    } else if (call_session(call)) {
        call_lock_file(call, on_file_locked);
    }
}
