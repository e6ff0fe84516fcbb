/*
 * errors.c - every error code that a client can see, with its HTTP status; docs/rest.md is printed
 * from it.
 */
#include "api/front/reply.h"
#include "base/cleanup.h"
#include "base/str.h"

const struct front_error_row front_errors[] = {
    {ERROR_BAD_JSON, 400, "The body is not valid JSON: `line`, `column`."},
    {ERROR_BAD_INPUT, 400, "A member or argument has the wrong type or value: `field`."},
    {ERROR_UNKNOWN_PARAMETER, 400,
     "A member or argument that this address does not have: `field`, `nearest`."},
    {ERROR_PATH_INVALID, 400,
     "A path that is empty, too long, has a NUL, or is not below `/tmp`, `/workspace` or "
     "`/home/user`."},
    {ERROR_BAD_CONFIG, 500, "The configuration is wrong."},
    {ERROR_UNAUTHORIZED, 401,
     "Over TCP: no key, or one that is not valid; header `WWW-Authenticate`."},
    {ERROR_FORBIDDEN, 403,
     "The key lacks the scope that the message names, or a web page may not ask."},
    {ERROR_PATH_REFUSED, 403,
     "A symbolic link leads out of the allowed folders, or the kernel refused the path."},
    {ERROR_READ_ONLY, 403, "Datasets in `/tmp/data` are read-only."},
    {ERROR_NO_ROUTE, 404, "No such address (`nearest`), or no such output."},
    {ERROR_SESSION_NOT_FOUND, 404, "No session has this id or name."},
    {ERROR_EXECUTION_NOT_FOUND, 404, "The session has no such execution."},
    {ERROR_PATH_NOT_FOUND, 404, "No such file or folder in the sandbox."},
    {ERROR_KEY_NOT_FOUND, 404, "No API key has this id."},
    {ERROR_UNKNOWN_TOOL, 404, "No such tool: `nearest`."},
    {ERROR_METHOD, 405, "The address has other methods; header `Allow`."},
    {ERROR_SESSION_AMBIGUOUS, 409, "A shortened id that several sessions begin with."},
    {ERROR_SESSION_PAUSED, 409,
     "The session is paused: resume it first with `POST /v1/sessions/{id}/resume`."},
    {ERROR_NAME_TAKEN, 409, "Another live session has this name."},
    {ERROR_DATASET_TAKEN, 409, "Two datasets would have the same file name."},
    {ERROR_EXECUTION_ENDED, 409, "Input or a signal for a process that has ended."},
    {ERROR_NOT_A_TERMINAL, 409, "Resize of a process that has no terminal."},
    {ERROR_PATH_EXISTS, 409, "The path exists already."},
    {ERROR_PATH_IS_FOLDER, 409, "The path is a folder, and a file is needed."},
    {ERROR_PATH_NOT_FOLDER, 409, "The path is not a folder, and one is needed."},
    {ERROR_FOLDER_NOT_EMPTY, 409, "The folder is not empty: delete it with `recursive=true`."},
    {ERROR_COMMAND_NOT_FOUND, 409, "The program does not exist in the sandbox."},
    {ERROR_NOT_EXECUTABLE, 409, "The program exists in the sandbox and cannot be executed."},
    {ERROR_NO_INTERPRETER, 409,
     "No interpreter for the language, or the language is switched off."},
    {ERROR_BLOCKED_IMPORT, 409,
     "The code imports a module that `SANDBOX_BLOCK_DANGEROUS_IMPORTS` blocks."},
    {ERROR_CANCELLED, 409, "The caller ended it."},
    {ERROR_KEY_RUNNING, 409,
     "The first request with this `Idempotency-Key` is still under way: `retry_after_s`."},
    {ERROR_REPLY_GONE, 409,
     "The first request with this `Idempotency-Key` was carried out, or the server stopped in the "
     "middle of it, and there is no reply to send again."},
    {ERROR_KEY_REUSED, 422, "This `Idempotency-Key` came with another request before."},
    {ERROR_SESSION_ENDED, 410, "The session has ended: `ended_at`, `reason`."},
    {ERROR_TOO_LARGE, 413, "Over a limit, which the message names."},
    {ERROR_OFFSET_GONE, 416, "Output before this offset is no longer kept: `first`."},
    {ERROR_TOO_MANY_SESSIONS, 429, "No place for another session: `retry_after_s`."},
    {ERROR_QUOTA, 429,
     "A quota of the tenant is used up: `quota`, `retry_after_s`, header `Retry-After` "
     "([keys.md](keys.md#quotas))."},
    {ERROR_BOX_FAILED, 500, "The sandbox could not be created: `stage`, `errno`."},
    {ERROR_BOX_LOST, 500, "The sandbox's own process died or broke the protocol."},
    {ERROR_ENGINE, 500, "Any other failure of the server."},
    {ERROR_REFUSED, 503, "This machine cannot give the isolation that the configuration asks for."},
    {ERROR_LINK_EXPIRED, 403, "A signed link that is too old, or was changed."},
    {ERROR_BUSY, 503,
     "More sandboxes wait to be created than `SANDBOX_QUEUE`, or their image is still being "
     "pulled, or a session has 128 connections to its ports; header `Retry-After`."},
    {ERROR_SHUTTING_DOWN, 503, "The daemon is stopping."},
    {ERROR_NO_DAEMON, 503, "No daemon listens on the socket; only the command line says this."},
    {ERROR_CONTEXT_NOT_FOUND, 404, "The session has no such context."},
    {ERROR_CONTEXT_TAKEN, 409, "Another context of the session has this name."},
    {ERROR_TOO_MANY_CONTEXTS, 429, "A session has at most 32 contexts."},
    {ERROR_TEMPLATE_NOT_FOUND, 404, "No template has this name: `nearest`."},
    {ERROR_TEMPLATE_NOT_BUILT, 409, "The template is not built: `bailey template build NAME`."},
    {ERROR_SETTING_DIFFERS, 409,
     "A setting of the caller differs from that of the session or of the daemon. `message` has the "
     "key, both values and what to do."},
    {ERROR_RUN_DIFFERS, 409, "`POST /v1/run` with `like`: this daemon is configured differently."},
    {ERROR_TEMPLATE_IN_USE, 409, "A session uses the template."},
    {ERROR_INSTALL_FAILED, 409, "The installation failed; the message ends with pip's last lines."},
    {ERROR_INSTALL_DENIED, 403, "The allow or deny list forbids the package."},
    {ERROR_NO_NETWORK, 503, "The package index cannot be reached."},
    {ERROR_DISK_FULL, 507, "The sandbox's disk, or the state folder's, is full."},
    {ERROR_RANGE, 416,
     "The file does not have the bytes of `Range`; header `Content-Range` has its size."},
    {ERROR_MEDIA_TYPE, 415,
     "The `Content-Type` says that the body is not JSON. None, and the one that `curl -d` sends, "
     "are accepted."},
    {ERROR_PROVIDER_UNAVAILABLE, 503,
     "The sandbox provider of SANDBOX_TYPE does not answer; `provider` names it."},
    {ERROR_IMAGE_NOT_FOUND, 503,
     "The image DOCKER_IMAGE does not exist; build it with `bailey image build`."},
    {ERROR_IMAGE_UNUSABLE, 503,
     "The image DOCKER_IMAGE exists, but no sandbox can be created from it."},
    {ERROR_NOT_SUPPORTED, 501,
     "What makes the sandboxes (`SANDBOX_TYPE`) cannot do this; the message names it."},
    {ERROR_CONTAINER_NOT_FOUND, 404, "No container has this id."},
    {ERROR_CONTAINER_EXPIRED, 404, "The container was idle too long; its data is gone."},
    {ERROR_FILE_NOT_FOUND, 404, "No uploaded file, or no file of the container, has this id."},
    {ERROR_RESPONSE_NOT_FOUND, 404, "No stored response has this id."},
    {ERROR_PREVIOUS_NOT_FOUND, 404, "No stored response has the id of `previous_response_id`."},
    {ERROR_UPSTREAM, 502, "The model server cannot be reached, or answers with an error."},
    {ERROR_NO_UPSTREAM, 503, "No model server is configured (`BAILEY_UPSTREAM_URL`)."},
    {ERROR_PORT_CLOSED, 502, "No server listens on this port of the session's sandbox."},
    {ERROR_PORT_REPLY, 502,
     "The server on this port of the session's sandbox closed the connection, or its reply is not "
     "valid HTTP."},
    {ERROR_UPGRADE, 426, "The address accepts only WebSockets: [websocket.md](websocket.md)."},
};
const size_t front_error_count = ARRAY_SIZE(front_errors);

unsigned front_error_status(const char *code)
{
    for (size_t i = 0; i < front_error_count; i++)
        if (str_equal(front_errors[i].code, code))
            return front_errors[i].status;
    return 500;
}
