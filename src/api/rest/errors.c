/* errors.c - every code that a client can see, and its HTTP status; docs/rest.md has the same. */
#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/str.h"

const struct rest_error_row rest_errors[] = {
    {ERROR_BAD_JSON, 400, "the body is not JSON; with position"},
    {ERROR_BAD_INPUT, 400, "a member or argument has the wrong type or value"},
    {ERROR_UNKNOWN_PARAMETER, 400, "an unknown member or argument"},
    {ERROR_PATH_INVALID, 400, "empty, too long, or not below a folder that files may be named in"},
    {ERROR_BAD_CONFIG, 500, "the configuration is wrong"},
    {ERROR_UNAUTHORIZED, 401, "no valid key; WWW-Authenticate says how to send one"},
    {ERROR_FORBIDDEN, 403, "the key lacks the scope, or the Host or Origin is not allowed"},
    {ERROR_PATH_REFUSED, 403, "a symbolic link leads out, or the kernel refused it"},
    {ERROR_READ_ONLY, 403, "datasets are read-only"},
    {ERROR_NO_ROUTE, 404, "no such address or output"},
    {ERROR_SESSION_NOT_FOUND, 404, "no session by that id or name"},
    {ERROR_EXECUTION_NOT_FOUND, 404, "no such execution in the session"},
    {ERROR_PATH_NOT_FOUND, 404, "no such file in the box"},
    {ERROR_KEY_NOT_FOUND, 404, "no API key by that id"},
    {ERROR_UNKNOWN_TOOL, 404, "there is no such tool"},
    {ERROR_METHOD, 405, "the address has other methods"},
    {ERROR_SESSION_AMBIGUOUS, 409, "a shortened id that fits several"},
    {ERROR_NAME_TAKEN, 409, "another live session has this name"},
    {ERROR_DATASET_TAKEN, 409, "two datasets would have one file name"},
    {ERROR_EXECUTION_ENDED, 409, "input or a signal for a process that has ended"},
    {ERROR_NOT_A_TERMINAL, 409, "resize of something without a pty"},
    {ERROR_PATH_EXISTS, 409, "it exists already"},
    {ERROR_PATH_IS_FOLDER, 409, "it is a folder; a file is needed"},
    {ERROR_PATH_NOT_FOLDER, 409, "it is not a folder"},
    {ERROR_FOLDER_NOT_EMPTY, 409, "the folder has entries; remove it recursively"},
    {ERROR_COMMAND_NOT_FOUND, 409, "the program does not exist in the box"},
    {ERROR_NOT_EXECUTABLE, 409, "it exists there and cannot be executed"},
    {ERROR_NO_INTERPRETER, 409, "this machine has no interpreter for the language"},
    {ERROR_BLOCKED_IMPORT, 409, "the code imports a module that the configuration blocks"},
    {ERROR_CANCELLED, 409, "the caller ended it"},
    {ERROR_SESSION_ENDED, 410, "the session has ended; `reason` and `ended_at`"},
    {ERROR_TOO_LARGE, 413, "over a limit"},
    {ERROR_OFFSET_GONE, 416, "output before this offset is not kept any more"},
    {ERROR_TOO_MANY_SESSIONS, 429,
     "the limit of live sessions; `retry_after_s` says when one ends"},
    {ERROR_QUOTA, 429,
     "a quota of the tenant; `quota` names it, Retry-After says when to try again"},
    {ERROR_BOX_FAILED, 500, "the box could not be made"},
    {ERROR_BOX_LOST, 500, "the box's own process died or broke the protocol"},
    {ERROR_ENGINE, 500, "anything else"},
    {ERROR_REFUSED, 503, "this machine cannot provide the required isolation"},
    {ERROR_LINK_EXPIRED, 403, "a signed link that is too old, or was changed"},
    {ERROR_BUSY, 503,
     "too many boxes wait to be made, or their image is still being pulled; Retry-After"},
    {ERROR_SHUTTING_DOWN, 503, "the daemon is stopping"},
    {ERROR_NO_DAEMON, 503, "no daemon listens on the socket; reported by the command line only"},
    {ERROR_CONTEXT_NOT_FOUND, 404, "no such context in the session"},
    {ERROR_CONTEXT_TAKEN, 409, "another context of the session has this name"},
    {ERROR_TOO_MANY_CONTEXTS, 429, "a session has at most 32"},
    {ERROR_TEMPLATE_NOT_FOUND, 404, "no template by that name; `nearest`"},
    {ERROR_TEMPLATE_NOT_BUILT, 409, "build it first: bailey template build NAME"},
    {ERROR_RUN_DIFFERS, 409,
     "this daemon's configuration differs from what the run needs (`like`)"},
    {ERROR_TEMPLATE_IN_USE, 409, "a session has it"},
    {ERROR_INSTALL_FAILED, 409, "the message has pip's last lines"},
    {ERROR_INSTALL_DENIED, 403, "refused by the allow or deny list"},
    {ERROR_NO_NETWORK, 503, "the package index cannot be reached"},
    {ERROR_DISK_FULL, 507, "the box's disk, or the state folder's"},
    {ERROR_RANGE, 416, "the file does not have these bytes"},
    {ERROR_MEDIA_TYPE, 415, "the Content-Type says that the body is not JSON"},
    {ERROR_DOCKER_UNAVAILABLE, 503, "SANDBOX_TYPE=docker, and Docker does not answer"},
    {ERROR_IMAGE_NOT_FOUND, 503, "DOCKER_IMAGE is not there; bailey image build"},
    {ERROR_IMAGE_UNUSABLE, 503, "DOCKER_IMAGE is there, and no box can be made of it"},
    {ERROR_UPGRADE, 426, "this address is a WebSocket's; docs/websocket.md"},
};
const size_t rest_error_count = ARRAY_SIZE(rest_errors);

unsigned rest_error_status(const char *code)
{
    for (size_t i = 0; i < rest_error_count; i++)
        if (str_equal(rest_errors[i].code, code))
            return rest_errors[i].status;
    return 500;
}
