/* error.c - filling the one error shape; see error.h. Keeps errno, never allocates. */
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const char ERROR_BAD_INPUT[] = "bad_input";
const char ERROR_BAD_CONFIG[] = "bad_config";
const char ERROR_NOT_FOUND[] = "not_found";
const char ERROR_COMMAND_NOT_FOUND[] = "command_not_found";
const char ERROR_NOT_EXECUTABLE[] = "not_executable";
const char ERROR_NO_INTERPRETER[] = "no_interpreter";
const char ERROR_REFUSED[] = "refused";
const char ERROR_BLOCKED_IMPORT[] = "blocked_import";
const char ERROR_BOX_FAILED[] = "box_failed";
const char ERROR_BOX_LOST[] = "box_lost";
const char ERROR_TOO_LARGE[] = "too_large";
const char ERROR_CANCELLED[] = "cancelled";
const char ERROR_ENGINE[] = "engine";
const char ERROR_BAD_JSON[] = "bad_json";
const char ERROR_UNKNOWN_PARAMETER[] = "unknown_parameter";
const char ERROR_UNKNOWN_TOOL[] = "unknown_tool";
const char ERROR_NO_ROUTE[] = "not_found";
const char ERROR_METHOD[] = "method_not_allowed";
const char ERROR_SESSION_NOT_FOUND[] = "session_not_found";
const char ERROR_SESSION_AMBIGUOUS[] = "session_ambiguous";
const char ERROR_SESSION_ENDED[] = "session_ended";
const char ERROR_SESSION_PAUSED[] = "session_paused";
const char ERROR_NAME_TAKEN[] = "name_taken";
const char ERROR_TOO_MANY_SESSIONS[] = "too_many_sessions";
const char ERROR_EXECUTION_NOT_FOUND[] = "execution_not_found";
const char ERROR_EXECUTION_ENDED[] = "execution_ended";
const char ERROR_NOT_A_TERMINAL[] = "not_a_terminal";
const char ERROR_OFFSET_GONE[] = "offset_gone";
const char ERROR_PATH_INVALID[] = "path_invalid";
const char ERROR_PATH_NOT_FOUND[] = "path_not_found";
const char ERROR_PATH_REFUSED[] = "path_refused";
const char ERROR_PATH_IS_FOLDER[] = "path_is_folder";
const char ERROR_PATH_NOT_FOLDER[] = "path_not_folder";
const char ERROR_PATH_EXISTS[] = "path_exists";
const char ERROR_FOLDER_NOT_EMPTY[] = "folder_not_empty";
const char ERROR_READ_ONLY[] = "read_only";
const char ERROR_DATASET_TAKEN[] = "dataset_taken";
const char ERROR_DISK_FULL[] = "disk_full";
const char ERROR_SHUTTING_DOWN[] = "shutting_down";
const char ERROR_NO_DAEMON[] = "no_daemon";
const char ERROR_CONTEXT_NOT_FOUND[] = "context_not_found";
const char ERROR_CONTEXT_TAKEN[] = "context_taken";
const char ERROR_TOO_MANY_CONTEXTS[] = "too_many_contexts";
const char ERROR_TEMPLATE_NOT_FOUND[] = "template_not_found";
const char ERROR_TEMPLATE_NOT_BUILT[] = "template_not_built";
const char ERROR_SETTING_DIFFERS[] = "setting_differs";
const char ERROR_RUN_DIFFERS[] = "run_differs";
const char ERROR_TEMPLATE_IN_USE[] = "template_in_use";
const char ERROR_INSTALL_FAILED[] = "install_failed";
const char ERROR_INSTALL_DENIED[] = "install_denied";
const char ERROR_NO_NETWORK[] = "no_network";
const char ERROR_UNAUTHORIZED[] = "unauthorized";
const char ERROR_FORBIDDEN[] = "forbidden";
const char ERROR_QUOTA[] = "quota_exceeded";
const char ERROR_BUSY[] = "busy";
const char ERROR_KEY_NOT_FOUND[] = "key_not_found";
const char ERROR_LINK_EXPIRED[] = "link_expired";
const char ERROR_UPGRADE[] = "upgrade_required";
const char ERROR_KEY_REUSED[] = "idempotency_key_reused";
const char ERROR_KEY_RUNNING[] = "idempotency_key_running";
const char ERROR_REPLY_GONE[] = "idempotent_reply_gone";
const char ERROR_MEDIA_TYPE[] = "unsupported_media_type";
const char ERROR_RANGE[] = "range_not_satisfiable";
const char ERROR_PROVIDER_UNAVAILABLE[] = "provider_unavailable";
const char ERROR_IMAGE_NOT_FOUND[] = "image_not_found";
const char ERROR_IMAGE_UNUSABLE[] = "image_unusable";
const char ERROR_CONTAINER_NOT_FOUND[] = "container_not_found";
const char ERROR_CONTAINER_EXPIRED[] = "container_expired";
const char ERROR_FILE_NOT_FOUND[] = "file_not_found";
const char ERROR_RESPONSE_NOT_FOUND[] = "response_not_found";
const char ERROR_PREVIOUS_NOT_FOUND[] = "previous_response_not_found";
const char ERROR_UPSTREAM[] = "model_server_error";
const char ERROR_NO_UPSTREAM[] = "no_model_server";
const char ERROR_PORT_CLOSED[] = "port_closed";
const char ERROR_PORT_REPLY[] = "port_bad_reply";
const char ERROR_NOT_SUPPORTED[] = "not_supported";

/*
 * The numbers are sent between programs: new codes are added at the end. ERROR_NO_ROUTE has the
 * text of ERROR_NOT_FOUND.
 */
static const char *const codes[] = {
    ERROR_BAD_INPUT,
    ERROR_BAD_CONFIG,
    ERROR_NOT_FOUND,
    ERROR_COMMAND_NOT_FOUND,
    ERROR_NOT_EXECUTABLE,
    ERROR_NO_INTERPRETER,
    ERROR_REFUSED,
    ERROR_BLOCKED_IMPORT,
    ERROR_BOX_FAILED,
    ERROR_BOX_LOST,
    ERROR_TOO_LARGE,
    ERROR_CANCELLED,
    ERROR_ENGINE,
    ERROR_BAD_JSON,
    ERROR_UNKNOWN_PARAMETER,
    ERROR_UNKNOWN_TOOL,
    ERROR_METHOD,
    ERROR_SESSION_NOT_FOUND,
    ERROR_SESSION_AMBIGUOUS,
    ERROR_SESSION_ENDED,
    ERROR_NAME_TAKEN,
    ERROR_TOO_MANY_SESSIONS,
    ERROR_EXECUTION_NOT_FOUND,
    ERROR_EXECUTION_ENDED,
    ERROR_NOT_A_TERMINAL,
    ERROR_OFFSET_GONE,
    ERROR_PATH_INVALID,
    ERROR_PATH_NOT_FOUND,
    ERROR_PATH_REFUSED,
    ERROR_PATH_IS_FOLDER,
    ERROR_PATH_NOT_FOLDER,
    ERROR_PATH_EXISTS,
    ERROR_FOLDER_NOT_EMPTY,
    ERROR_READ_ONLY,
    ERROR_DATASET_TAKEN,
    ERROR_DISK_FULL,
    ERROR_SHUTTING_DOWN,
    ERROR_NO_DAEMON,
    ERROR_CONTEXT_NOT_FOUND,
    ERROR_CONTEXT_TAKEN,
    ERROR_TOO_MANY_CONTEXTS,
    ERROR_TEMPLATE_NOT_FOUND,
    ERROR_TEMPLATE_NOT_BUILT,
    ERROR_TEMPLATE_IN_USE,
    ERROR_INSTALL_FAILED,
    ERROR_INSTALL_DENIED,
    ERROR_NO_NETWORK,
    ERROR_SETTING_DIFFERS,
    ERROR_RUN_DIFFERS,
    ERROR_UNAUTHORIZED,
    ERROR_FORBIDDEN,
    ERROR_QUOTA,
    ERROR_BUSY,
    ERROR_KEY_NOT_FOUND,
    ERROR_LINK_EXPIRED,
    ERROR_UPGRADE,
    ERROR_MEDIA_TYPE,
    ERROR_RANGE,
    ERROR_PROVIDER_UNAVAILABLE,
    ERROR_IMAGE_NOT_FOUND,
    ERROR_IMAGE_UNUSABLE,
    ERROR_KEY_REUSED,
    ERROR_KEY_RUNNING,
    ERROR_REPLY_GONE,
    ERROR_CONTAINER_NOT_FOUND,
    ERROR_CONTAINER_EXPIRED,
    ERROR_FILE_NOT_FOUND,
    ERROR_RESPONSE_NOT_FOUND,
    ERROR_PREVIOUS_NOT_FOUND,
    ERROR_UPSTREAM,
    ERROR_NO_UPSTREAM,
    ERROR_SESSION_PAUSED,
    ERROR_PORT_CLOSED,
    ERROR_PORT_REPLY,
    ERROR_NOT_SUPPORTED,
};
#define CODE_COUNT (sizeof(codes) / sizeof(codes[0]))

unsigned error_code_number(const char *word)
{
    unsigned engine = 0;

    for (unsigned i = 0; word && i < CODE_COUNT; i++) {
        if (strcmp(codes[i], word) == 0)
            return i + 1;
        if (codes[i] == ERROR_ENGINE)
            engine = i + 1;
    }
    return engine;
}

const char *error_code_word(unsigned number)
{
    return number > 0 && number <= CODE_COUNT ? codes[number - 1] : NULL;
}

const char *error_code_find(const char *word)
{
    return word ? error_code_word(error_code_number(word)) : ERROR_ENGINE;
}

__attribute__((format(printf, 4, 0))) static void fill(struct error *err, int num, const char *code,
                                                       const char *format, va_list args)
{
    err->num = num;
    err->code = code;
    err->stage = NULL;
    err->quota = NULL;
    err->provider = NULL;
    err->retry_s = 0;
    if (vsnprintf(err->text, sizeof(err->text), format, args) < 0)
        err->text[0] = '\0';
}

/* Appends to the text; what does not fit is cut. */
static void append(struct error *err, const char *text)
{
    size_t have = strlen(err->text);

    snprintf(err->text + have, sizeof(err->text) - have, "%s", text);
}

int error_set(struct error *err, int num, const char *code, const char *format, ...)
{
    int saved_errno = errno;
    va_list args;

    if (err) {
        va_start(args, format);
        fill(err, num, code, format, args);
        va_end(args);
    }
    errno = saved_errno;
    return num;
}

int error_errno(struct error *err, const char *format, ...)
{
    /* A caller that gets here without errno still has to see a failure, not a 0. */
    int num = errno > 0 ? errno : EIO;
    va_list args;

    if (err) {
        va_start(args, format);
        fill(err, -num, ERROR_ENGINE, format, args);
        va_end(args);
        append(err, ": ");
        append(err, strerrordesc_np(num) ?: error_name(num));
    }
    errno = num;
    return -num;
}

int error_memory(struct error *err)
{
    return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
}

int error_stage(struct error *err, const char *stage, int num)
{
    int positive = num < 0 ? -num : num;

    if (positive == 0)
        positive = EIO;
    error_set(err, -positive, ERROR_BOX_FAILED, "%s: %s (%s)", stage, error_name(positive),
              strerrordesc_np(positive) ?: "unknown error");
    if (err)
        err->stage = stage;
    return -positive;
}

void error_prefix(struct error *err, const char *prefix)
{
    char text[ERROR_TEXT_MAX];

    if (!err)
        return;
    memcpy(text, err->text, sizeof(text));
    snprintf(err->text, sizeof(err->text), "%s: ", prefix);
    append(err, text);
}

const char *error_name(int positive_errno)
{
    static _Thread_local char unknown[32];
    const char *name = strerrorname_np(positive_errno);

    if (name)
        return name;
    snprintf(unknown, sizeof(unknown), "errno %d", positive_errno);
    return unknown;
}
