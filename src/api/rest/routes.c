/*
 * routes.c - every address of the REST door as a row: read by the servers, the checks of
 * front/dispatch.c, the OpenAPI document and the tables of docs/rest.md.
 */
#include "api/front/row_text.h"
#include "api/rest/rest_private.h"
#include "api/rest/row_help.h"
#include "api/simple_output.h"
#include "api/start.h"
#include "base/cleanup.h"

/* clang-format off */

/* Types of members and arguments that only these rows have. */
#define S_STREAM JSON({"type":"string","enum":["stdout","stderr"]})
#define S_WAIT   JSON({"type":"number","minimum":0,"maximum":86400})
#define S_LENGTH JSON({"type":"integer","minimum":1})
#define S_DEPTH  JSON({"type":"integer","minimum":0,"maximum":4096})
#define S_TAIL   JSON({"type":"integer","minimum":0,"maximum":100000})
#define S_YEARS  JSON({"type":"number","minimum":1,"maximum":315360000})
#define S_GRACE  JSON({"type":"number","minimum":0,"maximum":31536000})
#define S_SCOPES                                    \
    JSON({"type":"array","minItems":1,"maxItems":6, \
          "items":{"type":"string","enum":["run","sessions","files","metrics","admin","operator"]}})

/* Settings of a session or a run: sizes as text ("64m") or bytes. */
#define S_AMOUNT JSON({"type":["string","integer"],"minimum":1})
#define S_CORES  JSON({"type":["string","number"],"exclusiveMinimum":0})
#define S_SPAN   JSON({"type":["string","number"],"exclusiveMinimum":0,"maximum":86400})
#define S_LEVEL  JSON({"type":"string","enum":["process","standard","strict"]})
#define B_LIMITS                       \
    OBJECT(MEMBER("memory", S_AMOUNT)  \
           ALSO("cpus", S_CORES)       \
           ALSO("pids", S_AMOUNT)      \
           ALSO("disk", S_AMOUNT)      \
           ALSO("timeout", S_SPAN))

/* Bodies of requests. */
#define B_RUN                           \
    OBJECT(MEMBER("code", S_TEXT)       \
           ALSO("language", S_LANGUAGE) \
           ALSO("timeout", S_SECONDS)   \
           ALSO("env", S_ENV)           \
           ALSO("stdin", S_TEXT)        \
           ALSO("template", S_NAME)     \
           ALSO("type", S_NAME)         \
           ALSO("isolation", S_LEVEL)   \
           ALSO("limits", B_LIMITS)     \
           ALSO("name", S_NAME)         \
           ALSO("arguments", S_WORDS)   \
           ALSO("store", S_BOOLEAN)     \
           ALSO("like", S_STRING),      \
           "code")
#define B_DATASET                           \
    OBJECT(MEMBER("name", S_NAME)           \
           ALSO("content", S_TEXT)          \
           ALSO("content_base64", S_STRING) \
           ALSO("path", S_NAME),            \
           "name")
#define B_SESSION                            \
    OBJECT(MEMBER("name", S_NAME)            \
           ALSO("template", S_NAME)          \
           ALSO("type", S_NAME)              \
           ALSO("isolation", S_LEVEL)        \
           ALSO("limits", B_LIMITS)          \
           ALSO("env", S_ENV)                \
           ALSO("idle_timeout_s", S_SECONDS) \
           ALSO("max_age_s", S_SECONDS)      \
           ALSO("datasets", ARRAY_UP_TO(B_DATASET, 256)))
#define B_EXTEND OBJECT(MEMBER("seconds", S_SECONDS), "seconds")
#define B_CONTEXT                         \
    OBJECT(MEMBER("language", S_LANGUAGE) \
           ALSO("name", S_NAME)           \
           ALSO("cwd", S_NAME))
#define B_PACKAGES OBJECT(MEMBER("packages", ARRAY_FROM_TO(S_NAME, 1, 64)), "packages")
#define B_MKDIR OBJECT(MEMBER("path", S_STRING) ALSO("mode", S_MODE), "path")
#define B_MOVE OBJECT(MEMBER("from", S_STRING) ALSO("to", S_STRING), "from", "to")
#define B_CHMOD OBJECT(MEMBER("path", S_STRING) ALSO("mode", S_MODE), "path", "mode")
#define B_TIER OBJECT(MEMBER("name", S_NAME) ALSO("modules", S_WORDS), "name", "modules")
#define B_TEMPLATE                               \
    OBJECT(MEMBER("name", S_NAME)                \
           ALSO("description", S_STRING)         \
           ALSO("python", S_NAME)                \
           ALSO("packages", S_WORDS)             \
           ALSO("lock", S_STRING)                \
           ALSO("tiers", ARRAY_UP_TO(B_TIER, 7)) \
           ALSO("env", S_ENV)                    \
           ALSO("files", S_ENV)                  \
           ALSO("warm_up", S_WORDS),             \
           "name")
#define S_FORMAT JSON({"type":"string","enum":["bailey","e2b"],"default":"bailey"})
#define B_KEY                       \
    OBJECT(MEMBER("name", S_STRING) \
           ALSO("tenant", S_NAME)   \
           ALSO("scopes", S_SCOPES) \
           ALSO("format", S_FORMAT) \
           ALSO("expires_s", S_YEARS))
#define B_ROTATE OBJECT(MEMBER("grace_s", S_GRACE))
#define B_CODEBOX                                                                \
    OBJECT(MEMBER("code", S_TEXT)                                                \
           ALSO("language", S_LANGUAGE)                                          \
           ALSO("context", S_NAME)                                               \
           ALSO("timeout", S_TIMEOUT), "code")
#define B_RELOAD                                                                 \
    OBJECT(MEMBER("settings", S_ENV)                                             \
           ALSO("environment", S_ENV)                                            \
           ALSO("tls", OBJECT(MEMBER("certificate", S_NAME) ALSO("key", S_NAME), \
                              "certificate", "key")),                            \
           "settings")

/* Examples of bodies. */
#define E_RELOAD JSON({"settings":{"SANDBOX_TIMEOUT_SEC":"120"}})
#define E_TOOL JSON({"command":["ls","-l","/tmp/data"],"session":"analysis"})
#define E_RUN JSON({"code":"print(6 * 7)","language":"python","timeout":30})
#define E_SESSION                                                        \
    JSON({"name":"analysis","idle_timeout_s":600,"limits":{"memory":"512m"}, \
          "datasets":[{"name":"sales","content":"month,total\nJan,42\n"}]})
#define E_EXTEND JSON({"seconds":3600})
#define E_COMMAND JSON({"argv":["/bin/sh","-c","wc -l < /tmp/data/sales.csv"],"timeout":60})
#define E_SIGNAL JSON({"signal":"TERM"})
#define E_RESIZE JSON({"rows":40,"columns":120})
#define E_CELL JSON({"code":"x = 6\nx * 7","language":"python"})
#define E_CONTEXT JSON({"language":"python","name":"second"})
#define E_PACKAGES JSON({"packages":["tabulate==0.9.0"]})
#define E_MKDIR JSON({"path":"/workspace/reports","mode":"0755"})
#define E_MOVE JSON({"from":"/workspace/draft.txt","to":"/workspace/final.txt"})
#define E_CHMOD JSON({"path":"/workspace/run.sh","mode":"0755"})
#define E_LINK JSON({"seconds":600})
#define E_PORT_LINK JSON({"port":3000,"seconds":600})
#define E_KEEP JSON({"keep":true})
#define E_TEMPLATE                                                        \
    JSON({"name":"tables","description":"Tables as text","packages":["tabulate==0.9.0"], \
          "tiers":[{"name":"base","modules":["tabulate"]}]})
#define E_KEY JSON({"name":"ci","tenant":"acme","scopes":["run","sessions"],"expires_s":2592000})
#define E_ROTATE JSON({"grace_s":3600})

/* Bodies of replies. */
#define R_PATH OBJECT(MEMBER("path", S_STRING), "path")
#define R_WRITTEN OBJECT(MEMBER("path", S_STRING) ALSO("bytes", S_COUNT), "path", "bytes")
#define S_PORT JSON({"type":"integer","minimum":1,"maximum":65535})
#define R_PORTS                                                                           \
    OBJECT(MEMBER("ports", JSON({"type":"array","items":REF("Port")}))                    \
           ALSO("truncated", S_BOOLEAN), "ports", "truncated")
#define R_LINK OBJECT(MEMBER("url", S_STRING) ALSO("expires_at", S_STRING), "url", "expires_at")
#define R_ENTRIES                                         \
    OPEN_OBJECT(MEMBER("entries", ARRAY_OF(REF("Entry"))) \
                ALSO("truncated", S_BOOLEAN),             \
                "entries", "truncated")
#define R_OUTPUTS                                         \
    OPEN_OBJECT(MEMBER("folder", S_STRING)                \
                ALSO("total", JSON({"type":"integer"}))   \
                ALSO("outputs", ARRAY_OF(REF("Output"))), \
                "folder", "total", "outputs")
#define R_PACKAGES                                       \
    OBJECT(MEMBER("installed", ARRAY_OF(REF("Package"))) \
           ALSO("layer", S_STRING)                       \
           ALSO("ms", S_COUNT),                          \
           "installed", "layer", "ms")
#define R_VERIFIED                                            \
    OBJECT(MEMBER("name", S_STRING)                           \
           ALSO("intact", S_BOOLEAN)                          \
           ALSO("problem", JSON({"type":["string","null"]})), \
           "name", "intact")
#define R_WARM                                       \
    OBJECT(MEMBER("zygotes", ARRAY_OF(S_ANY_OBJECT)) \
           ALSO("pool", S_ANY_OBJECT),               \
           "zygotes", "pool")
#define R_RELOADED                         \
    OBJECT(MEMBER("changed", S_NAMES)      \
           ALSO("restart", S_NAMES)        \
           ALSO("certificate", S_BOOLEAN), \
           "changed", "restart", "certificate")

/* Arguments. */
#define ARTIFACT IN_THE_PATH("id", "id of an output")
#define CONTEXT IN_THE_PATH("context", "id or name of a context")
#define TEMPLATE IN_THE_PATH("name", "a template")
#define KEY_ID IN_THE_PATH("id", "the key's id: the part before the dot")
#define PATH                                                                  \
    {.name = "path", .in = IN_QUERY, .is_required = true, .schema = S_STRING, \
     .help = "absolute path in the box"}

/* clang-format on */

/* Codes of errors. */
#define FILE_ERRORS \
    BOX_ERRORS " path_invalid path_refused path_not_found path_is_folder path_not_folder"
#define WRITE_ERRORS FILE_ERRORS " read_only disk_full path_exists"
#define INSTALL_ERRORS                                                                          \
    "install_failed no_network no_interpreter too_large disk_full box_failed box_lost refused " \
    "cancelled shutting_down"

static const struct door_route routes[] = {
    /* ---- the server ---- */
    {
        .method = "GET",
        .path = "/healthz",
        .name = "health",
        .summary = "Whether the daemon answers",
        .tag = "Server",
        .description = "Needs no key and touches no session: for load balancers and for scripts "
                       "that wait for the daemon.",
        .status = 200,
        .type = TYPE_JSON,
        .reply = OBJECT(MEMBER("status", S_STRING), "status"),
        .label = "health",
        .is_open = true,
        .handle = info_health,
    },
    {
        .method = "GET",
        .path = "/v1/info",
        .name = "info",
        .summary = "What this daemon is",
        .tag = "Server",
        .description =
            "Version, processes, limits and languages of the daemon, and how many sessions it has. "
            "Paths and process ids of the machine are told over the unix socket only.",
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Info"),
        .scope = SCOPE_RUN,
        .handle = info_get,
    },
    {
        .method = "GET",
        .path = "/v1/warm",
        .name = "warm",
        .summary = "Zygotes and prewarmed boxes, with their memory",
        .tag = "Server",
        .description = "What is kept ready so that a session starts quickly: warm interpreters "
                       "(zygotes) and boxes that wait for a session.",
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_WARM,
        .scope = SCOPE_OPERATOR,
        .handle = warm_get,
    },
    {
        .method = "POST",
        .path = "/v1/reload",
        .name = "reload",
        .summary = "Loads new configuration and certificates, over the daemon's own socket only; "
                   "says what changed and what needs a restart",
        .tag = "Server",
        .description =
            "What `bailey reload` sends. Sessions that exist keep their settings; a setting that "
            "needs a restart is named in `restart`. Over TCP the answer is always 403.",
        .body = BODY_JSON,
        .request = B_RELOAD,
        .fields = rest_reload_fields,
        .example = E_RELOAD,
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_RELOADED,
        .errors = "forbidden",
        .scope = SCOPE_OPERATOR,
        .handle = reload_post,
    },

    /* ---- one-shot runs and tools ---- */
    {
        .method = "GET",
        .path = "/v1/tools",
        .name = "listTools",
        .summary = "The tools with their schemas",
        .tag = "Tools",
        .description = "The same tools that MCP clients see, each with the JSON Schema of its "
                       "parameters and with hints for a model.",
        .status = 200,
        .type = TYPE_JSON,
        .reply = LIST_OF("tools", "Tool"),
        .scope = SCOPE_RUN,
        .handle = tools_list,
    },
    {
        .method = "POST",
        .path = "/v1/tools/{name}",
        .name = "callTool",
        .summary =
            "Calls a tool with parameters or the envelope; an error of the tool is a reply of 200",
        .tag = "Tools",
        .description =
            "The body is what the tool's schema asks for (`GET /v1/tools`), or the envelope of "
            "docs/tools.md. A tool that fails says so in `success`, with `error`, `code` and "
            "`hint`. Without a session the call makes one of its own, which the reply names.",
        .params = {IN_THE_PATH("name", "the tool"),
                   QUERY("session", S_NAME, "session to use if the parameters name none"),
                   PINNED_SESSION},
        .body = BODY_JSON,
        .request = S_ANY_OBJECT,
        .example = E_TOOL,
        .status = 200,
        .type = TYPE_JSON,
        .reply = S_ANY_OBJECT,
        .errors = "unknown_tool",
        .scope = SCOPE_RUN,
        .handle = tools_call,
    },
    {
        .method = "POST",
        .path = "/v1/run",
        .name = "run",
        .summary =
            "Runs code in a fresh box: its result, or its events (Accept: text/event-stream)",
        .tag = "Runs",
        .description = "The box is made for this run and removed after it; nothing is kept but the "
                       "result. A program that fails is a reply of 200 with its `exit_code`. The "
                       "header `Bailey-Execution` of the reply names the run. With `Accept: "
                       "text/event-stream` the output arrives while the program runs.",
        .body = BODY_JSON,
        .request = B_RUN,
        .fields = rest_run_fields,
        .example = E_RUN,
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Result"),
        .events = rest_run_events,
        .errors = "too_large no_interpreter refused box_failed shutting_down template_not_found "
                  "template_not_built run_differs",
        .scope = SCOPE_RUN,
        .handle = run_start,
    },
    {
        .method = "DELETE",
        .path = "/v1/run/{execution}",
        .name = "stopRun",
        .summary = "Ends a running run; the request that started it gets its result",
        .tag = "Runs",
        .description =
            "Every process of the run is killed. The reply comes before the run has ended.",
        .params = {IN_THE_PATH("execution", "the run's id, from the header Bailey-Execution")},
        .status = 202,
        .type = TYPE_JSON,
        .reply = S_ANY_OBJECT,
        .errors = "execution_not_found",
        .scope = SCOPE_RUN,
        .handle = run_stop,
    },

    /* ---- sessions ---- */
    {
        .method = "POST",
        .path = "/v1/sessions",
        .name = "createSession",
        .summary = "Creates a session; its box is made at its first use",
        .tag = "Sessions",
        .description = "A session keeps files, processes and variables until it is deleted, unused "
                       "for `idle_timeout_s` or older than `max_age_s`. Every member is optional: "
                       "`{}` makes a session with the daemon's settings. `name` can be used "
                       "instead of the id in every address.",
        .body = BODY_JSON,
        .request = B_SESSION,
        .fields = rest_session_fields,
        .example = E_SESSION,
        .status = 201,
        .type = TYPE_JSON,
        .reply = REF("Session"),
        .errors = "name_taken dataset_taken too_many_sessions path_not_found disk_full "
                  "shutting_down template_not_found template_not_built",
        .scope = SCOPE_SESSIONS,
        .handle = sessions_create,
    },
    {
        .method = "GET",
        .path = "/v1/sessions",
        .name = "listSessions",
        .summary = "Sessions, newest first",
        .tag = "Sessions",
        .description =
            "Sessions of the caller's tenant; over the unix socket those of all tenants.",
        .params = {QUERY("all", S_BOOLEAN, "include ended sessions")},
        .status = 200,
        .type = TYPE_JSON,
        .reply = LIST_OF("sessions", "Session"),
        .scope = SCOPE_SESSIONS,
        .handle = sessions_list,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}",
        .name = "getSession",
        .summary = "One session, live or ended",
        .tag = "Sessions",
        .description = "An ended session is described too, with `end_reason`; its files are gone.",
        .params = {SESSION_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Session"),
        .errors = "session_not_found session_ambiguous",
        .scope = SCOPE_SESSIONS,
        .handle = sessions_get,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/extend",
        .name = "extendSession",
        .summary = "Postpones the end of a session",
        .tag = "Sessions",
        .description = "Moves the session's idle limit and its age limit by up to a day.",
        .params = {SESSION_ID},
        .body = BODY_JSON,
        .request = B_EXTEND,
        .fields = rest_extend_fields,
        .example = E_EXTEND,
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Session"),
        .errors = SESSION_ERRORS,
        .scope = SCOPE_SESSIONS,
        .handle = sessions_extend,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/pause",
        .name = "pauseSession",
        .summary = "Pauses a session",
        .tag = "Sessions",
        .description =
            "Stops its processes where they are. They keep their memory and use no CPU time, their "
            "deadlines stop; the session's age does not. Streams and waiting requests end.",
        .params = {SESSION_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Session"),
        .errors = BOX_ERRORS " too_many_sessions",
        .scope = SCOPE_SESSIONS,
        .handle = sessions_pause,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/resume",
        .name = "resumeSession",
        .summary = "Resumes a paused session",
        .tag = "Sessions",
        .description = "Its processes go on. A session that is not paused stays as it is.",
        .params = {SESSION_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Session"),
        .errors = SESSION_ERRORS " box_lost too_many_sessions",
        .scope = SCOPE_SESSIONS,
        .handle = sessions_resume,
    },
    {
        .method = "DELETE",
        .path = "/v1/sessions/{id}",
        .name = "deleteSession",
        .summary = "Ends a session with all that runs in it",
        .tag = "Sessions",
        .description =
            "Ends its processes and removes its files and its outputs; outputs that are kept stay.",
        .params = {SESSION_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Session"),
        .errors = SESSION_ERRORS,
        .scope = SCOPE_SESSIONS,
        .handle = sessions_delete,
    },

    /* ---- commands ---- */
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/exec",
        .name = "exec",
        .summary = "Runs a command: its result, its events (Accept: text/event-stream), or 202 at "
                   "once in the background",
        .tag = "Commands",
        .description =
            "The words of `argv` are given to the program as they are: for pipes and variables use "
            "`[\"/bin/sh\", \"-c\", \"...\"]`. A program that fails is a reply of 200 with its "
            "`exit_code`. A client that leaves ends the command, unless it runs in the background.",
        .params = {SESSION_ID},
        .body = BODY_JSON,
        .request = START_COMMAND_SCHEMA,
        .fields = rest_command_fields,
        .example = E_COMMAND,
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Result"),
        .events = rest_command_events,
        .has_background = true,
        .errors = BOX_ERRORS " too_large disk_full",
        .scope = SCOPE_SESSIONS,
        .handle = exec_start,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/processes",
        .name = "listProcesses",
        .summary = "Executions, newest first",
        .tag = "Commands",
        .description = "Commands and cells of the session, those that have ended included.",
        .params = {SESSION_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = LIST_OF("processes", "Process"),
        .errors = "session_not_found session_ambiguous",
        .scope = SCOPE_SESSIONS,
        .handle = processes_list,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/processes/{execution}",
        .name = "getProcess",
        .summary = "One execution",
        .tag = "Commands",
        .description =
            "With `wait` the reply comes when the execution has ended, or after so many seconds.",
        .params = {SESSION_ID, EXECUTION, QUERY("wait", S_WAIT, "seconds to wait for its end")},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Process"),
        .errors = EXECUTION_ERRORS,
        .scope = SCOPE_SESSIONS,
        .handle = processes_get,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/processes/{execution}/output",
        .name = "getOutput",
        .summary =
            "Bytes of a stream so far; headers Bailey-Offset, -Next-Offset, -Total, -Running",
        .tag = "Commands",
        .description = "Also works while the execution runs: ask again from `Bailey-Next-Offset`. "
                       "The newest 64 MiB of each stream are kept.",
        .params = {SESSION_ID, EXECUTION, QUERY("stream", S_STREAM, "default stdout"),
                   QUERY("offset", S_COUNT, "where to begin"),
                   QUERY("length", S_COUNT, "at most so many")},
        .status = 200,
        .type = TYPE_BYTES,
        .errors = EXECUTION_ERRORS " offset_gone",
        .scope = SCOPE_SESSIONS,
        .handle = processes_output,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/processes/{execution}/events",
        .name = "followProcess",
        .summary =
            "Events started, stdout, stderr, exit, of a cell result, display and error; resumable",
        .tag = "Commands",
        .description =
            "Begins with the oldest output that is kept. A client that lost its connection sends "
            "the id of the last event it has seen as `Last-Event-ID` and gets what follows.",
        .params = {SESSION_ID, EXECUTION, LAST_EVENT},
        .status = 200,
        .type = TYPE_EVENTS,
        .events = rest_execution_events,
        .errors = EXECUTION_ERRORS " offset_gone",
        .scope = SCOPE_SESSIONS,
        .handle = processes_events,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/processes/{execution}/signal",
        .name = "signalProcess",
        .summary = "Sends a signal",
        .tag = "Commands",
        .description =
            "An execution that has not begun yet is ended by any signal. `INT` interrupts a cell.",
        .params = {SESSION_ID, EXECUTION},
        .body = BODY_JSON,
        .request = START_SIGNAL_SCHEMA,
        .fields = rest_signal_fields,
        .example = E_SIGNAL,
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Process"),
        .errors = EXECUTION_ERRORS " execution_ended",
        .scope = SCOPE_SESSIONS,
        .handle = processes_signal,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/processes/{execution}/stdin",
        .name = "writeInput",
        .summary = "Bytes for the standard input",
        .tag = "Commands",
        .description = "For a command that was started with `stdin: true` or with a terminal. The "
                       "reply comes when the process has room for all bytes.",
        .params = {SESSION_ID, EXECUTION,
                   QUERY("end", S_BOOLEAN, "close the standard input after these bytes")},
        .body = BODY_BYTES,
        .status = 200,
        .type = TYPE_JSON,
        .reply = OBJECT(MEMBER("bytes", S_COUNT), "bytes"),
        .errors = EXECUTION_ERRORS " execution_ended",
        .scope = SCOPE_SESSIONS,
        .handle = processes_stdin,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/processes/{execution}/resize",
        .name = "resizeTerminal",
        .summary = "The size of its terminal",
        .tag = "Commands",
        .description = "For a command that was started with `pty`; its program gets SIGWINCH.",
        .params = {SESSION_ID, EXECUTION},
        .body = BODY_JSON,
        .request = START_RESIZE_SCHEMA,
        .fields = rest_resize_fields,
        .example = E_RESIZE,
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Process"),
        .errors = EXECUTION_ERRORS " execution_ended not_a_terminal",
        .scope = SCOPE_SESSIONS,
        .handle = processes_resize,
    },

    /* ---- cells, contexts and packages ---- */
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/code",
        .name = "runCell",
        .summary = "Runs code that keeps its variables: its result, its events (Accept: "
                   "text/event-stream), or 202 at once in the background",
        .tag = "Cells",
        .description = "Variables, imports and functions stay for the next cell of the same "
                       "context. Without `context` the cell runs in the default context of its "
                       "language. An exception is a reply of 200 with `error`.",
        .params = {SESSION_ID},
        .body = BODY_JSON,
        .request = START_CELL_SCHEMA,
        .fields = rest_cell_fields,
        .example = E_CELL,
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("CellResult"),
        .events = rest_execution_events,
        .has_background = true,
        .errors = BOX_ERRORS
        " context_not_found too_many_contexts no_interpreter too_large disk_full blocked_import",
        .scope = SCOPE_SESSIONS,
        .handle = code_start,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/codebox",
        .name = "runCodebox",
        .summary = "Runs code that keeps its variables, and gives one thing back",
        .tag = "Cells",
        .description = "`error` with the traceback, else the first picture as `image/png` in "
                       "base64, else as `text` what it printed or the value of its last "
                       "expression.",
        .params = {SESSION_ID},
        .body = BODY_JSON,
        .request = B_CODEBOX,
        .fields = rest_codebox_fields,
        .example = E_CELL,
        .status = 200,
        .type = TYPE_JSON,
        .reply = SIMPLE_OUTPUT_SCHEMA,
        .errors = BOX_ERRORS
        " context_not_found too_many_contexts no_interpreter too_large disk_full blocked_import",
        .scope = SCOPE_SESSIONS,
        .handle = codebox_run,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/contexts",
        .name = "listContexts",
        .summary = "Contexts, oldest first",
        .tag = "Cells",
        .description = "Each language has a default context, which cells without `context` use.",
        .params = {SESSION_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = LIST_OF("contexts", "Context"),
        .errors = SESSION_ERRORS,
        .scope = SCOPE_SESSIONS,
        .handle = contexts_list,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/contexts",
        .name = "createContext",
        .summary = "Creates a context; its kernel starts with its first cell",
        .tag = "Cells",
        .description = "Contexts of one session share its files, not their variables.",
        .params = {SESSION_ID},
        .body = BODY_JSON,
        .request = B_CONTEXT,
        .fields = rest_context_fields,
        .example = E_CONTEXT,
        .status = 201,
        .type = TYPE_JSON,
        .reply = REF("Context"),
        .errors = SESSION_ERRORS " context_taken too_many_contexts no_interpreter disk_full",
        .scope = SCOPE_SESSIONS,
        .handle = contexts_create,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/contexts/{context}/restart",
        .name = "restartContext",
        .summary = "Ends its kernel with all variables; the next cell starts a new one",
        .tag = "Cells",
        .description = "The cell that runs is ended, and cells that wait in the context fail.",
        .params = {SESSION_ID, CONTEXT},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Context"),
        .errors = SESSION_ERRORS " context_not_found",
        .scope = SCOPE_SESSIONS,
        .handle = contexts_restart,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/contexts/{context}/interrupt",
        .name = "interruptContext",
        .summary = "Interrupts the running cell; variables stay",
        .tag = "Cells",
        .description = "Like Ctrl-C in a terminal: in Python the cell gets a KeyboardInterrupt.",
        .params = {SESSION_ID, CONTEXT},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Context"),
        .errors = SESSION_ERRORS " context_not_found execution_ended",
        .scope = SCOPE_SESSIONS,
        .handle = contexts_interrupt,
    },
    {
        .method = "DELETE",
        .path = "/v1/sessions/{id}/contexts/{context}",
        .name = "deleteContext",
        .summary = "Removes a context with its kernel",
        .tag = "Cells",
        .description = "The cell that runs is ended, and cells that wait in the context fail.",
        .params = {SESSION_ID, CONTEXT},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Context"),
        .errors = SESSION_ERRORS " context_not_found",
        .scope = SCOPE_SESSIONS,
        .handle = contexts_delete,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/packages",
        .name = "listPackages",
        .summary = "Packages installed into the session",
        .tag = "Packages",
        .description = "What was installed into this session; the packages of its template are not "
                       "among them.",
        .params = {SESSION_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = LIST_OF("packages", "Package"),
        .errors = SESSION_ERRORS,
        .scope = SCOPE_SESSIONS,
        .handle = packages_list,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/packages",
        .name = "installPackages",
        .summary = "Installs packages, with the progress as events (Accept: text/event-stream)",
        .tag = "Packages",
        .description =
            "Names as pip takes them, such as `polars` or `tabulate==0.9.0`, within the allow and "
            "deny lists of the daemon. With `Accept: text/event-stream` the lines of the installer "
            "arrive as they are printed. A client that leaves cancels the installation.",
        .params = {SESSION_ID},
        .body = BODY_JSON,
        .request = B_PACKAGES,
        .fields = rest_packages_fields,
        .example = E_PACKAGES,
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_PACKAGES,
        .events = rest_install_events,
        .errors = SESSION_ERRORS " " INSTALL_ERRORS
                                 " install_denied template_not_found template_not_built",
        .scope = SCOPE_SESSIONS,
        .handle = packages_install,
    },

    /* ---- files ---- */
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/files",
        .name = "readFile",
        .summary = "A file's bytes",
        .tag = "Files",
        .description =
            "Paths are those inside of the box, below `/tmp`, `/workspace` or `/home/user`.",
        .params = {SESSION_ID, PATH, QUERY("offset", S_COUNT, "where to begin"),
                   QUERY("length", S_LENGTH, "at most so many")},
        .status = 200,
        .type = TYPE_BYTES,
        .errors = FILE_ERRORS,
        .scope = SCOPE_FILES,
        .handle = files_get,
    },
    {
        .method = "PUT",
        .path = "/v1/sessions/{id}/files",
        .name = "writeFile",
        .summary = "Writes a file atomically; with offset, writes into the existing file",
        .tag = "Files",
        .description = "The body is the file. Folders above it are created.",
        .params = {SESSION_ID, PATH,
                   QUERY("mode", S_MODE, "octal; default that of the file it replaces, else 0644"),
                   QUERY("new", S_BOOLEAN, "fail if the file exists"),
                   QUERY("offset", S_COUNT, "in place, from here")},
        .body = BODY_BYTES,
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_WRITTEN,
        .errors = WRITE_ERRORS " too_large",
        .scope = SCOPE_FILES,
        .handle = files_put,
    },
    {
        .method = "DELETE",
        .path = "/v1/sessions/{id}/files",
        .name = "deleteFile",
        .summary = "Deletes a file or folder",
        .tag = "Files",
        .description = "A folder that is not empty needs `recursive`.",
        .params = {SESSION_ID, PATH, QUERY("recursive", S_BOOLEAN, "with all below it")},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_PATH,
        .errors = WRITE_ERRORS " folder_not_empty",
        .scope = SCOPE_FILES,
        .handle = files_delete,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/files/stat",
        .name = "statFile",
        .summary = "One entry",
        .tag = "Files",
        .description = "Of a symbolic link it describes the link.",
        .params = {SESSION_ID, PATH},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Entry"),
        .errors = FILE_ERRORS,
        .scope = SCOPE_FILES,
        .handle = files_stat,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/files/list",
        .name = "listFiles",
        .summary = "Entries of a folder",
        .tag = "Files",
        .description = "Names are relative to the folder. `truncated` says that there are more "
                       "entries than one reply can have.",
        .params = {SESSION_ID, PATH, QUERY("depth", S_DEPTH, "levels below it; 0: all; default 1")},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_ENTRIES,
        .errors = FILE_ERRORS,
        .scope = SCOPE_FILES,
        .handle = files_list,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/files/watch",
        .name = "watchFiles",
        .summary = "Events ready, then change",
        .tag = "Files",
        .description = "The stream stays open until the client leaves or the session ends.",
        .params = {SESSION_ID, PATH, QUERY("recursive", S_BOOLEAN, "folders below too")},
        .status = 200,
        .type = TYPE_EVENTS,
        .events = rest_watch_events,
        .errors = FILE_ERRORS,
        .scope = SCOPE_FILES,
        .handle = files_watch,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/files/mkdir",
        .name = "makeFolder",
        .summary = "Creates a folder and its parents",
        .tag = "Files",
        .description = "It is no error if the folder exists.",
        .params = {SESSION_ID},
        .body = BODY_JSON,
        .request = B_MKDIR,
        .fields = rest_mkdir_fields,
        .example = E_MKDIR,
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_PATH,
        .errors = WRITE_ERRORS,
        .scope = SCOPE_FILES,
        .handle = files_mkdir,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/files/move",
        .name = "moveFile",
        .summary = "Moves a file or folder",
        .tag = "Files",
        .description = "A file that exists at `to` is replaced.",
        .params = {SESSION_ID},
        .body = BODY_JSON,
        .request = B_MOVE,
        .fields = rest_move_fields,
        .example = E_MOVE,
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_PATH,
        .errors = WRITE_ERRORS " folder_not_empty",
        .scope = SCOPE_FILES,
        .handle = files_move,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/files/chmod",
        .name = "changeMode",
        .summary = "Changes the mode",
        .tag = "Files",
        .description = "Of one file or folder, not of what is below it.",
        .params = {SESSION_ID},
        .body = BODY_JSON,
        .request = B_CHMOD,
        .fields = rest_chmod_fields,
        .example = E_CHMOD,
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_PATH,
        .errors = WRITE_ERRORS,
        .scope = SCOPE_FILES,
        .handle = files_chmod,
    },

    /* ---- datasets and outputs ---- */
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/datasets",
        .name = "listDatasets",
        .summary = "The session's datasets",
        .tag = "Datasets and outputs",
        .description = "Datasets are read-only for the code in the session.",
        .params = {SESSION_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = LIST_OF("datasets", "Dataset"),
        .errors = "session_not_found session_ambiguous",
        .scope = SCOPE_FILES,
        .handle = datasets_list,
    },
    {
        .method = "PUT",
        .path = "/v1/sessions/{id}/datasets/{name}",
        .name = "giveDataset",
        .summary = "Uploads a dataset; it appears as /tmp/data/{name}.csv, or with its own ending",
        .tag = "Datasets and outputs",
        .description = "The body is the file. A dataset of the same name is replaced. Code reads "
                       "it from the `path` of the reply.",
        .params = {SESSION_ID, IN_THE_PATH("name", "the dataset's name")},
        .body = BODY_BYTES,
        .status = 201,
        .type = TYPE_JSON,
        .reply = REF("Dataset"),
        .errors = SESSION_ERRORS " dataset_taken disk_full too_large",
        .scope = SCOPE_FILES,
        .handle = datasets_put,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/outputs",
        .name = "listOutputs",
        .summary = "Files of /tmp/output",
        .tag = "Datasets and outputs",
        .description = "What code has left in `/tmp/output`: files that were saved have an `id`, "
                       "others say in `skipped` why they were not.",
        .params = {SESSION_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_OUTPUTS,
        .errors = "session_not_found session_ambiguous",
        .scope = SCOPE_FILES,
        .handle = outputs_list,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/outputs/{name*}",
        .name = "readOutput",
        .summary = "Bytes of a saved output",
        .tag = "Datasets and outputs",
        .description = "Ranges (`Range: bytes=0-99`) are supported.",
        .params = {SESSION_ID, IN_THE_PATH("name", "its name, relative to /tmp/output")},
        .status = 200,
        .type = TYPE_BYTES,
        .errors = "session_not_found session_ambiguous not_found range_not_satisfiable",
        .scope = SCOPE_FILES,
        .handle = outputs_get,
    },

    /* ---- ports ---- */
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/ports",
        .name = "listPorts",
        .summary = "Ports that processes of the session listen on",
        .tag = "Ports",
        .description =
            "On the loopback of its sandbox, over TCP. Requests to `url` are answered by the "
            "server that listens there: any method and any path below it, HTTP and WebSocket; "
            "the page docs/ports.md has the details. At most 1024; `truncated`: there are more.",
        .params = {SESSION_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_PORTS,
        .errors = BOX_ERRORS " port_closed",
        .scope = SCOPE_SESSIONS,
        .handle = ports_list,
    },
    {
        .method = "POST",
        .path = "/v1/sessions/{id}/ports",
        .name = "linkPort",
        .summary = "A link to a port of the session that works without a key for a limited time",
        .tag = "Ports",
        .description = "Everyone who has the link can send requests to the server on this port, "
                       "and to nothing else. It ends with the session. Nothing has to listen yet.",
        .params = {SESSION_ID},
        .body = BODY_JSON,
        .request = OBJECT(MEMBER("port", S_PORT) ALSO("seconds", S_SECONDS), "port"),
        .fields = rest_port_link_fields,
        .example = E_PORT_LINK,
        .status = 201,
        .type = TYPE_JSON,
        .reply = R_LINK,
        .errors = SESSION_ERRORS,
        .scope = SCOPE_SESSIONS,
        .handle = ports_link,
    },

    /* ---- outputs by id ---- */
    {
        .method = "GET",
        .path = "/v1/artifacts",
        .name = "listArtifacts",
        .summary =
            "Outputs by id, newest first, at most 1000; includes kept outputs of ended sessions",
        .tag = "Artifacts",
        .description = "Outputs of all sessions of the caller's tenant.",
        .params = {QUERY("kept", S_BOOLEAN, "only kept outputs")},
        .status = 200,
        .type = TYPE_JSON,
        .reply = LIST_OF("artifacts", "Artifact"),
        .scope = SCOPE_FILES,
        .handle = artifacts_list_all,
    },
    {
        .method = "GET",
        .path = "/v1/artifacts/{id}",
        .name = "readArtifact",
        .summary = "Bytes of an output by its id, with a key or by a signed link; supports ranges",
        .tag = "Artifacts",
        .description = "The `url` of an output and the links of `POST .../link` lead here.",
        .params = {ARTIFACT, QUERY("expires", S_STRING, "of a signed link"),
                   QUERY("signature", S_STRING, "of a signed link")},
        .status = 200,
        .type = TYPE_BYTES,
        .errors = "not_found link_expired unauthorized forbidden range_not_satisfiable",
        .scope = SCOPE_FILES,
        .is_open = true,
        .handle = artifacts_get,
    },
    {
        .method = "GET",
        .path = "/v1/artifacts/{id}/info",
        .name = "getArtifact",
        .summary = "Describes an output: size, type, hash, expiry time",
        .tag = "Artifacts",
        .description =
            "`expires_at` is when it is removed, unless it is kept or its session ends before.",
        .params = {ARTIFACT},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Artifact"),
        .errors = "not_found",
        .scope = SCOPE_FILES,
        .handle = artifacts_info,
    },
    {
        .method = "POST",
        .path = "/v1/artifacts/{id}/link",
        .name = "linkArtifact",
        .summary = "A link to an output that works without a key for a limited time",
        .tag = "Artifacts",
        .description = "Everyone who has the link can read this output, and nothing else. It ends "
                       "with the output.",
        .params = {ARTIFACT},
        .body = BODY_JSON,
        .request = OBJECT(MEMBER("seconds", S_SECONDS)),
        .fields = rest_link_fields,
        .example = E_LINK,
        .status = 201,
        .type = TYPE_JSON,
        .reply = R_LINK,
        .errors = "not_found",
        .scope = SCOPE_FILES,
        .handle = artifacts_link,
    },
    {
        .method = "POST",
        .path = "/v1/artifacts/{id}/keep",
        .name = "keepArtifact",
        .summary =
            "Keeps an output after its session's end and its expiry time, or stops keeping it",
        .tag = "Artifacts",
        .description = "Kept outputs count in the disk quota of the tenant.",
        .params = {ARTIFACT},
        .body = BODY_JSON,
        .request = OBJECT(MEMBER("keep", S_BOOLEAN)),
        .fields = rest_keep_fields,
        .example = E_KEEP,
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Artifact"),
        .errors = "not_found disk_full",
        .scope = SCOPE_FILES,
        .handle = artifacts_keep,
    },
    {
        .method = "DELETE",
        .path = "/v1/artifacts/{id}",
        .name = "deleteArtifact",
        .summary = "Removes an output by its id",
        .tag = "Artifacts",
        .description = "Links to it stop working.",
        .params = {ARTIFACT},
        .status = 200,
        .type = TYPE_JSON,
        .reply = S_ANY_OBJECT,
        .errors = "not_found disk_full",
        .scope = SCOPE_FILES,
        .handle = artifacts_delete,
    },

    /* ---- events ---- */
    {
        .method = "GET",
        .path = "/v1/events",
        .name = "events",
        .summary = "All events; resumable",
        .tag = "Events",
        .description = "Of all sessions of the caller's tenant. The stream stays open until the "
                       "client leaves.",
        .params = {LAST_EVENT},
        .status = 200,
        .type = TYPE_EVENTS,
        .events = rest_bus_events,
        .scope = SCOPE_SESSIONS,
        .handle = events_all,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/events",
        .name = "sessionEvents",
        .summary = "A session's events; resumable",
        .tag = "Events",
        .description = "The stream ends with the session.",
        .params = {SESSION_ID, LAST_EVENT},
        .status = 200,
        .type = TYPE_EVENTS,
        .events = rest_bus_events,
        .errors = "session_not_found session_ambiguous",
        .scope = SCOPE_SESSIONS,
        .handle = events_session,
    },

    /* ---- templates ---- */
    {
        .method = "GET",
        .path = "/v1/templates",
        .name = "listTemplates",
        .summary = "Templates, built or not",
        .tag = "Templates",
        .description = "A session or a run names one as `template`.",
        .status = 200,
        .type = TYPE_JSON,
        .reply = LIST_OF("templates", "Template"),
        .scope = SCOPE_SESSIONS,
        .handle = templates_list,
    },
    {
        .method = "POST",
        .path = "/v1/templates",
        .name = "buildTemplate",
        .summary = "Builds a template, with its progress as events (Accept: text/event-stream)",
        .tag = "Templates",
        .description = "Downloads the packages and installs them into a read-only layer that all "
                       "its sessions share. With `Accept: text/event-stream` the lines of the "
                       "installer arrive as they are printed.",
        .body = BODY_JSON,
        .request = B_TEMPLATE,
        .fields = rest_template_fields,
        .example = E_TEMPLATE,
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Template"),
        .events = rest_build_events,
        .errors = INSTALL_ERRORS,
        .scope = SCOPE_OPERATOR,
        .handle = templates_build,
    },
    {
        .method = "GET",
        .path = "/v1/templates/{name}",
        .name = "getTemplate",
        .summary = "One template",
        .tag = "Templates",
        .description = "With its packages and the size of its layer.",
        .params = {TEMPLATE},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Template"),
        .errors = "template_not_found",
        .scope = SCOPE_SESSIONS,
        .handle = templates_get,
    },
    {
        .method = "DELETE",
        .path = "/v1/templates/{name}",
        .name = "deleteTemplate",
        .summary = "Removes a template, and its layer when it is unused",
        .tag = "Templates",
        .description = "Refused while a session uses it.",
        .params = {TEMPLATE},
        .status = 200,
        .type = TYPE_JSON,
        .reply = OBJECT(MEMBER("name", S_STRING), "name"),
        .errors = "template_not_found template_not_built template_in_use",
        .scope = SCOPE_OPERATOR,
        .handle = templates_delete,
    },
    {
        .method = "POST",
        .path = "/v1/templates/{name}/verify",
        .name = "verifyTemplate",
        .summary = "Hashes its layer again and compares the hash with the layer's name",
        .tag = "Templates",
        .description = "`intact` says whether a file of the layer was changed since it was built.",
        .params = {TEMPLATE},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_VERIFIED,
        .errors = "template_not_found template_not_built",
        .scope = SCOPE_OPERATOR,
        .handle = templates_verify,
    },

    /* ---- keys ---- */
    {
        .method = "GET",
        .path = "/v1/keys",
        .name = "listKeys",
        .summary = "API keys of the caller's tenant, without their secrets; for an operator of all "
                   "tenants",
        .tag = "Keys",
        .description = "Secrets are not stored, only hashes of them.",
        .status = 200,
        .type = TYPE_JSON,
        .reply = LIST_OF("keys", "Key"),
        .scope = SCOPE_ADMIN,
        .handle = keys_list,
    },
    {
        .method = "POST",
        .path = "/v1/keys",
        .name = "createKey",
        .summary = "Creates an API key of the caller's tenant, for an operator of any; only this "
                   "reply contains its text",
        .tag = "Keys",
        .description = "Without members the key has the scopes `run`, `sessions` and `files`, and "
                       "does not expire.",
        .body = BODY_JSON,
        .request = B_KEY,
        .fields = rest_key_fields,
        .example = E_KEY,
        .status = 201,
        .type = TYPE_JSON,
        .reply = REF("Key"),
        .errors = "too_large disk_full",
        .scope = SCOPE_ADMIN,
        .handle = keys_create,
    },
    {
        .method = "POST",
        .path = "/v1/keys/{id}/rotate",
        .name = "rotateKey",
        .summary =
            "Gives a key a new secret; the old one stays valid for grace_s seconds (default 0)",
        .tag = "Keys",
        .description = "The reply has the new text of the key; its id, tenant and scopes stay.",
        .params = {KEY_ID},
        .body = BODY_JSON,
        .request = B_ROTATE,
        .fields = rest_rotate_fields,
        .example = E_ROTATE,
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Key"),
        .errors = "key_not_found disk_full",
        .scope = SCOPE_ADMIN,
        .handle = keys_rotate_one,
    },
    {
        .method = "DELETE",
        .path = "/v1/keys/{id}",
        .name = "deleteKey",
        .summary = "Removes a key, which is invalid at once",
        .tag = "Keys",
        .description = "Streams that were opened with it end.",
        .params = {KEY_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = OBJECT(MEMBER("id", S_STRING), "id"),
        .errors = "key_not_found disk_full",
        .scope = SCOPE_ADMIN,
        .handle = keys_delete,
    },

    /* ---- metrics and audit ---- */
    {
        .method = "GET",
        .path = "/metrics",
        .name = "metrics",
        .summary = "Metrics for Prometheus, in its text format 0.0.4",
        .tag = "Metrics and audit",
        .description = "The page docs/metrics.md has the names and what they mean.",
        .status = 200,
        .type = "text/plain",
        .label = "metrics",
        .scope = SCOPE_METRICS,
        .handle = metrics_get,
    },
    {
        .method = "GET",
        .path = "/v1/audit",
        .name = "audit",
        .summary = "Lines of the audit log of the caller's tenant, for an operator of all tenants; "
                   "oldest first, one JSON object each",
        .tag = "Metrics and audit",
        .description = "The page docs/audit.md has the members of a line.",
        .params = {QUERY("session", S_NAME, "only of this session, by its full id"),
                   QUERY("tenant", S_NAME, "only of this tenant"),
                   QUERY("action", S_NAME,
                         "only this action; with a trailing dot, all actions with this prefix"),
                   QUERY("since", S_NAME, "only from this time on, in UTC: 2026-11-15T08:15:04Z"),
                   QUERY("tail", S_TAIL,
                         "only the last lines of the newest file, at most this many"),
                   QUERY("follow", S_BOOLEAN, "continue with new lines as they are written")},
        .status = 200,
        .type = TYPE_LINES,
        .scope = SCOPE_ADMIN,
        .handle = audit_get,
    },

    /* ---- documents ---- */
    {
        .method = "GET",
        .path = "/openapi.json",
        .name = "openapi",
        .summary = "This document",
        .tag = "Documents",
        .description = "OpenAPI 3.1, printed from the table that the server uses; `bailey openapi` "
                       "prints the same.",
        .status = 200,
        .type = TYPE_JSON,
        .reply = S_ANY_OBJECT,
        .label = "docs",
        .is_open = true,
        .handle = docs_openapi,
    },
    {
        .method = "GET",
        .path = "/docs",
        .name = "docs",
        .summary = "A page that lists the operations and lets a person try one",
        .tag = "Documents",
        .description = "One page without external resources.",
        .status = 200,
        .type = "text/html",
        .label = "docs",
        .is_open = true,
        .handle = docs_page,
    },
};

static const struct door_tag tags[] = {
    {"Server", "What this daemon is, what it keeps warm, its configuration."},
    {"Runs", "Code in a fresh sandbox that is removed after it."},
    {"Tools", "The operations that models call by name, as over MCP."},
    {"Sessions", "Sandboxes that keep files, processes and variables until they end."},
    {"Commands", "Programs in a session: results, output, signals, input."},
    {"Cells", "Code that keeps its variables, in Python, JavaScript or Bash."},
    {"Packages", "Packages of a session."},
    {"Files", "Files of a session, by their paths in the box."},
    {"Datasets and outputs", "Data given to a session, and files that its code made."},
    {"Ports", "Servers that run in a session, reached from outside."},
    {"Artifacts", "Saved outputs of all sessions, by id."},
    {"Events", "What happens in sessions, as it happens."},
    {"Templates", "Interpreters and packages for sessions and runs, built once."},
    {"Keys", "API keys: who may call what over TCP."},
    {"Metrics and audit", "What the daemon counts, and who did what."},
    {"Documents", "This description, for programs and for people."},
    {NULL, NULL},
};

const struct door_ops rest_door = {
    .name = "rest",
    .tags = tags,
    .prefix = "/v1/",
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .schemas = rest_nouns,
    .schema_fields = rest_noun_fields,
};
