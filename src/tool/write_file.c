/*
 * write_file.c - the tool sandbox_write_file {file_path, content}: writes a text file atomically.
 */
#include <errno.h>

#include "tool/file_path.h"
#include "tool/tool_private.h"

static void written(struct tool_call *call, const struct error *err)
{
    if (err) {
        call_fail(call, err, NULL);
        return;
    }
    call_reply_file(call, "File written successfully. Use sandbox_exec to run it.");
}

static void on_file_locked(struct tool_call *call)
{
    json_t *content = call_parameter(call, "content");

    call_put(call, json_string_value(content), json_string_length(content), written);
}

void sandbox_write_file_start(struct tool_call *call)
{
    json_t *path = call_parameter(call, "file_path");
    size_t length = json_string_length(call_parameter(call, "content"));
    struct error err = {0};

    if (file_path_for_tool(json_string_value(path), json_string_length(path), call->path, &err) <
        0) {
        call->path[0] = '\0';
        call_fail(call, &err, NULL);
        return;
    }
    if (length > LIMIT_CONTENT_BYTES) {
        error_set(&err, -EFBIG, ERROR_TOO_LARGE,
                  "content is too large: %zu bytes, at most %llu (5 MB) are allowed", length,
                  LIMIT_CONTENT_BYTES);
        call_fail(call, &err, "Write it in parts, or make it with a script in the sandbox.");
        return;
    }
    if (call_session(call))
        call_lock_file(call, on_file_locked);
}
