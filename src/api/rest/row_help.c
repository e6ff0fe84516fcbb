/* row_help.c - see row_help.h. */
#include "api/rest/row_help.h"

#include "api/front/row_text.h"

/* ---- members of bodies ---- */

#define SETTINGS_FIELDS                                                             \
    {"type", "Which runtime makes the box (`SANDBOX_TYPE`)."},                      \
        {"isolation", "The isolation that it has at least (`SANDBOX_ISOLATION`)."}, \
        {"limits", "Limits of the box, within those of the daemon."},               \
        {"limits.memory", "Bytes, or text such as `1g`."},                          \
        {"limits.cpus", "Processors, such as 0.5."},                                \
        {"limits.pids", "Processes and threads at once."},                          \
        {"limits.disk", "Bytes of files, or text such as `512m`."},                 \
    {                                                                               \
        "limits.timeout", "Seconds for each execution, or text such as `2m`."       \
    }

const struct door_field rest_reload_fields[] = {
    {"settings", "Variables that the configuration file sets, by name."},
    {"environment", "Variables that the caller's environment sets; they win over `settings`."},
    {"tls", "A new certificate for TCP."},
    {"tls.certificate", "The chain as PEM."},
    {"tls.key", "Its private key as PEM."},
    {NULL, NULL},
};

const struct door_field rest_run_fields[] = {
    {"code", "The source."},
    {"language", "Which interpreter runs it."},
    {"timeout", "Seconds of wall time; default `SANDBOX_TIMEOUT_SEC`."},
    {"env", "Variables for the program."},
    {"stdin", "Text for its standard input; without it the input is empty."},
    {"template", "Name of a template; default `SANDBOX_TEMPLATE`."},
    SETTINGS_FIELDS,
    {"name", "File name of the source in `/workspace`."},
    {"arguments", "Arguments of the program, after its name."},
    {"store", "`false`: the code is not stored for debugging."},
    {"like", "The configuration that the run needs, as `bailey run` sends it; a daemon that "
             "differs answers `run_differs`."},
    {NULL, NULL},
};

const struct door_field rest_session_fields[] = {
    {"name", "A name that no other live session has; it can be used instead of the id."},
    {"template", "Name of a template; default `SANDBOX_TEMPLATE`."},
    SETTINGS_FIELDS,
    {"env", "Variables for everything that runs in the session."},
    {"idle_timeout_s",
     "Seconds without use after which the session ends; over TCP at most the daemon's."},
    {"max_age_s",
     "Seconds after which the session ends, used or not; over TCP at most the daemon's."},
    {"datasets", "Files for `/tmp/data`, read-only in the session; each has one of `content`, "
                 "`content_base64` and `path`."},
    {"datasets.name", "Name of the dataset; the file gets the ending `.csv` if the name has none."},
    {"datasets.content", "The content as text."},
    {"datasets.content_base64", "The content as base64, for bytes that are not text."},
    {"datasets.path",
     "Absolute path of a file in one of the folders that the daemon is configured to read."},
    {NULL, NULL},
};

const struct door_field rest_extend_fields[] = {
    {"seconds", "How much longer the session may live."},
    {NULL, NULL},
};

const struct door_field rest_command_fields[] = {
    {"argv", "The program and its arguments, one string each; no shell is involved."},
    {"env", "Variables besides those of the session."},
    {"cwd", "Working folder; default `/workspace`."},
    {"stdin", "Text for the standard input; `true` keeps it open for `POST .../stdin`."},
    {"timeout", "Seconds of wall time; 0: no limit."},
    {"background", "`true`: the reply is 202 and the process, at once."},
    {"collect", "`false`: new files of `/tmp/output` are not fetched."},
    {"pty", "A terminal of this size."},
    {"pty.rows", "Lines of the terminal."},
    {"pty.columns", "Characters in a line."},
    {NULL, NULL},
};

const struct door_field rest_cell_fields[] = {
    {"code", "The source."},
    {"language", "Which interpreter runs it, if `context` does not say."},
    {"context", "Id or name of a context; default that of the language."},
    {"timeout", "Seconds of wall time, after which the cell is interrupted; 0: no limit."},
    {"stdin", "Text that `input()` reads."},
    {"env", "Variables for this cell."},
    {"background", "`true`: the reply is 202 and the process, at once."},
    {"collect", "`false`: new files of `/tmp/output` are not fetched."},
    {NULL, NULL},
};

const struct door_field rest_codebox_fields[] = {
    {"code", "The source."},
    {"language", "Which interpreter runs it, if `context` does not say."},
    {"context", "Id or name of a context; default that of the language."},
    {"timeout", "Seconds of wall time, after which the cell is interrupted; 0: no limit."},
    {NULL, NULL},
};

const struct door_field rest_signal_fields[] = {
    {"signal", "A name such as `TERM` or `SIGTERM`, or a number."},
    {NULL, NULL},
};

const struct door_field rest_resize_fields[] = {
    {"rows", "Lines of the terminal."},
    {"columns", "Characters in a line."},
    {NULL, NULL},
};

const struct door_field rest_context_fields[] = {
    {"language", "Which interpreter runs its cells."},
    {"name", "A name that no other context of the session has."},
    {"cwd", "Working folder of its interpreter."},
    {NULL, NULL},
};

const struct door_field rest_packages_fields[] = {
    {"packages", "Names as pip takes them, with versions where they matter."},
    {NULL, NULL},
};

const struct door_field rest_mkdir_fields[] = {
    {"path", "Absolute path in the box."},
    {"mode", "Octal; default 0755."},
    {NULL, NULL},
};

const struct door_field rest_move_fields[] = {
    {"from", "Absolute path in the box."},
    {"to", "The new path, not the folder above it."},
    {NULL, NULL},
};

const struct door_field rest_chmod_fields[] = {
    {"path", "Absolute path in the box."},
    {"mode", "Octal, such as `0644`."},
    {NULL, NULL},
};

const struct door_field rest_link_fields[] = {
    {"seconds", "How long the link works; at most and by default `SANDBOX_LINK_TIME`."},
    {NULL, NULL},
};

const struct door_field rest_port_link_fields[] = {
    {"port", "The port on the loopback of the sandbox."},
    {"seconds", "How long the link works; at most and by default `SANDBOX_LINK_TIME`."},
    {NULL, NULL},
};

const struct door_field rest_keep_fields[] = {
    {"keep", "`false`: it is not kept any longer. Default `true`."},
    {NULL, NULL},
};

const struct door_field rest_template_fields[] = {
    {"name", "Its name."},
    {"description", "A sentence for people who choose one."},
    {"python", "A version that the interpreter must have, such as `3.12`."},
    {"packages", "Names as pip takes them."},
    {"lock", "Instead of `packages`: the text of a requirements file, every line with its hash."},
    {"tiers", "Modules to import before a session needs them, in groups."},
    {"tiers.name", "Name of the group."},
    {"tiers.modules", "Modules that are imported."},
    {"env", "Variables for everything that runs with the template."},
    {"files", "Base64 by path; in the box below `/bailey/template/files/`."},
    {"warm_up", "Modules that are imported once when it is built, so that their caches exist."},
    {NULL, NULL},
};

const struct door_field rest_key_fields[] = {
    {"name", "A name for people."},
    {"tenant", "Whose key it is; another tenant than the caller's needs the scope `operator`."},
    {"scopes", "What it may call; default `run`, `sessions` and `files`."},
    {"format", "How its text is spelled: `bailey` (`bly_...`), or `e2b` (`e2b_...`), which the "
               "clients of E2B accept."},
    {"expires_s", "Seconds until it expires; without it the key does not."},
    {NULL, NULL},
};

const struct door_field rest_rotate_fields[] = {
    {"grace_s", "Seconds that the old secret stays valid."},
    {NULL, NULL},
};

/* ---- events of replies ---- */

/* clang-format off */
#define E_PROCESS JSON({"execution_id":"s_7b1c.1","kind":"command","number":1,"state":"running"})
#define E_PRINTED JSON({"offset":0,"data":"42\n","encoding":"utf8"})
#define E_RUN_PRINTED JSON({"data":"42\n","encoding":"utf8"})
#define E_RESULT JSON({"stdout":"42\n","stderr":"","exit_code":0,"duration":0.03,"meta":{}})
#define E_VALUE JSON({"data":{"text/plain":"42"},"truncated":[],"count":1})
#define E_SHOWN JSON({"data":{"text/html":"<b>42</b>"},"truncated":[]})
#define E_EXCEPTION                                                                \
    JSON({"name":"ZeroDivisionError","value":"division by zero",                   \
          "traceback":"Cell In[1], line 1\nZeroDivisionError: division by zero\n"})
#define E_INSTALL JSON({"state":"installing","package":"tabulate"})
#define E_LINE JSON({"line":"Collecting tabulate==0.9.0"})
#define E_INSTALLED \
    JSON({"installed":[{"name":"tabulate","version":"0.9.0"}],"layer":"3f9a0c","ms":850})
#define E_FAILED JSON({"error":{"code":"install_failed","message":"no such package"}})
#define E_BUILT JSON({"name":"tables","state":"built"})
#define E_WATCHED JSON({"path":"/workspace"})
#define E_CHANGE JSON({"kind":"written","path":"/workspace/a.txt","type":"file"})
#define E_CLOSED JSON({"code":"unauthorized","message":"the key is no longer valid"})
#define E_HAPPENED(type) \
    "{\"id\":1794960000000000,\"time\":\"2026-11-15T08:15:04.123Z\",\"type\":\"" type \
    "\",\"session_id\":\"s_7b1c\"}"
#define R_INSTALLED                                      \
    OBJECT(MEMBER("installed", ARRAY_OF(REF("Package"))) \
           ALSO("layer", S_STRING)                       \
           ALSO("ms", S_COUNT),                          \
           "installed", "layer", "ms")
/* clang-format on */

#define CLOSED                                                      \
    {                                                               \
        "closed", REF("ClosedEvent"), E_CLOSED,                     \
            "The last event when the server ends the stream early." \
    }
#define END                    \
    {                          \
        NULL, NULL, NULL, NULL \
    }
#define STARTED_AND_OUTPUT                                                          \
    {"started", REF("Process"), E_PROCESS, "The first event: the execution runs."}, \
        {"stdout", REF("OutputEvent"), E_PRINTED, "Output."},                       \
    {                                                                               \
        "stderr", REF("OutputEvent"), E_PRINTED, "Output of the standard error."    \
    }

const struct door_event rest_run_events[] = {
    {"stdout", REF("RunOutputEvent"), E_RUN_PRINTED, "Output."},
    {"stderr", REF("RunOutputEvent"), E_RUN_PRINTED, "Output of the standard error."},
    {"exit", REF("Result"), E_RESULT, "The last event: the result."},
    CLOSED,
    END,
};

const struct door_event rest_command_events[] = {
    STARTED_AND_OUTPUT,
    {"exit", REF("Result"), E_RESULT, "The last event: the result."},
    CLOSED,
    END,
};

/* Of a cell, or of any execution. */
const struct door_event rest_execution_events[] = {
    STARTED_AND_OUTPUT,
    {"result", REF("ValueEvent"), E_VALUE, "Of a cell: the value of its last expression."},
    {"display", REF("ValueEvent"), E_SHOWN, "Of a cell: a value that it shows."},
    {"error", REF("ExceptionEvent"), E_EXCEPTION, "Of a cell: the exception that ended it."},
    {"install", REF("InstallEvent"), E_INSTALL, "Of a cell: a missing module is installed."},
    {"exit", REF("Result"), E_RESULT, "The last event: the result; of a cell a CellResult."},
    CLOSED,
    END,
};

const struct door_event rest_install_events[] = {
    {"progress", REF("ProgressEvent"), E_LINE, "A line of the installer."},
    {"installed", R_INSTALLED, E_INSTALLED, "The last event of an installation that succeeded."},
    {"error", REF("Error"), E_FAILED, "The last event of an installation that failed."},
    CLOSED,
    END,
};

const struct door_event rest_build_events[] = {
    {"progress", REF("ProgressEvent"), E_LINE, "A line of the installer."},
    {"built", REF("Template"), E_BUILT, "The last event of a build that succeeded."},
    {"error", REF("Error"), E_FAILED, "The last event of a build that failed."},
    CLOSED,
    END,
};

const struct door_event rest_watch_events[] = {
    {"ready", REF("WatchEvent"), E_WATCHED, "The first event: changes from now on are reported."},
    {"change", REF("ChangeEvent"), E_CHANGE, "A change; `overflow`: some were lost."},
    CLOSED,
    END,
};

#define HAPPENED(type, help)                       \
    {                                              \
        type, REF("Event"), E_HAPPENED(type), help \
    }

const struct door_event rest_bus_events[] = {
    HAPPENED("session.created", "A session was created; with its `name`."),
    HAPPENED("exec.started", "A command or a cell runs; with the members of Process."),
    HAPPENED("output",
             "With `execution_id`, `stdout_bytes` and `stderr_bytes`: its output so far."),
    HAPPENED("exec.exited", "A command or a cell has ended; with the members of Process."),
    HAPPENED("file.changed", "A call or a watch has seen it; with `kind`, `path` and `type`."),
    HAPPENED("visualization", "An image was saved; with `name`, `path`, `mime`, `bytes`, `url`."),
    HAPPENED("session.paused", "A session was paused; with its `name`."),
    HAPPENED("session.resumed", "A paused session was resumed; with its `name`."),
    HAPPENED("session.ended", "A session has ended; with its `reason` and `name`."),
    HAPPENED("gap", "Events were lost; with `missed`, where the number is known."),
    CLOSED,
    END,
};
