/*
 * client_rows.c - the rows of the commands that speak to the daemon; their code is in client/.
 *
 * The rows are in both programs: `bailey` checks the arguments and prints the help without loading
 * a library of bailey-engine.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client_request.h"
#include "cli/option_setters.h"

#define TEXT(member) OPTION_SETS_TEXT(take_##member, struct client_request, member)
#define SWITCH(member) OPTION_SETS_SWITCH(take_##member, struct client_request, member)

TEXT(session)
TEXT(name)
TEXT(config_file)
TEXT(cwd)
TEXT(attach)
TEXT(template_name)
TEXT(language)
TEXT(context)
TEXT(code)
TEXT(out)
TEXT(timeout)
TEXT(tenant)
TEXT(scopes)
SWITCH(has_stdin)
SWITCH(is_json)
SWITCH(is_quiet)
SWITCH(is_raw)
SWITCH(is_all)
SWITCH(is_recursive)
SWITCH(follows)

static int take_env(void *target, const char *value, struct error *err)
{
    struct client_request *request = target;

    return env_push(&request->env, request->caller_env, value, err);
}

static int take_data(void *target, const char *value, struct error *err)
{
    struct client_request *request = target;
    const char *equals = strchr(value, '=');

    if (!equals || equals == value || !equals[1])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--data '%.100s': write --data NAME=FILE; it is /tmp/data/NAME.csv in the "
                         "box",
                         value);
    if (strv_length(request->data) >= LIMIT_DATASETS)
        return error_set(err, -E2BIG, ERROR_BAD_INPUT, "more than %d --data", LIMIT_DATASETS);
    if (strv_push(&request->data, value) < 0)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory keeping the options");
    return 0;
}

static int take_time(const char *flag, const char *value, uint64_t *ret, struct error *err)
{
    uint64_t ms;

    if (str_to_millis(value, &ms) < 0 || ms < 1000)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "%s '%.40s': a time of at least a second, such as 90, 30m or 8h", flag,
                         value);
    *ret = ms;
    return 0;
}

static int take_idle(void *target, const char *value, struct error *err)
{
    return take_time("--idle", value, &((struct client_request *)target)->idle_ms, err);
}

static int take_max_age(void *target, const char *value, struct error *err)
{
    return take_time("--max-age", value, &((struct client_request *)target)->max_age_ms, err);
}

static int take_expires(void *target, const char *value, struct error *err)
{
    return take_time("--expires", value, &((struct client_request *)target)->expires_ms, err);
}

static int take_grace(void *target, const char *value, struct error *err)
{
    return take_time("--grace", value, &((struct client_request *)target)->grace_ms, err);
}

#define ROW_JSON                                                         \
    {                                                                    \
        "json", 'j', NULL, WORDS_ANY, "print JSON", .take = take_is_json \
    }
#define ROW_CONFIG                                                                         \
    {                                                                                      \
        "config", 0, "FILE", WORDS_FILE, "read this bailey.yaml", .take = take_config_file \
    }
#define ROW_SESSION(help_)                                           \
    {                                                                \
        "session", 's', "ID", WORDS_ANY, help_, .take = take_session \
    }
#define ROW_RAW                                                                         \
    {                                                                                   \
        "raw", 0, NULL, WORDS_ANY, "leave control sequences as they are on a terminal", \
            .take = take_is_raw                                                         \
    }
#define OPTIONS(rows) .options = (rows), .option_count = ARRAY_SIZE(rows)
#define ID_HELP                                                                             \
    "A session is named by its id, by the beginning of it while that is unique, or by the " \
    "name it was given."

static const struct option_row session_options[] = {
    {"name", 'n', "NAME", WORDS_ANY, "new: a name to call it by", .take = take_name},
    {"template", 0, "NAME", WORDS_ANY,
     "new: what its box is furnished with, SANDBOX_TEMPLATE if "
     "not given",
     .take = take_template_name},
    {"data", 0, "NAME=FILE", WORDS_FILE,
     "new: give it this file as /tmp/data/NAME.csv; may be repeated", .take = take_data},
    {"env", 'e', "NAME[=VALUE]", WORDS_ANY,
     "new: set a variable for every command in it; may be repeated", .take = take_env},
    {"idle", 0, "TIME", WORDS_ANY, "new: end it when it was not used for so long: 30m",
     .take = take_idle},
    {"max-age", 0, "TIME", WORDS_ANY, "new: end it at this age: 8h", .take = take_max_age},
    {"all", 'a', NULL, WORDS_ANY, "ls: also those that have ended", .take = take_is_all},
    {"quiet", 'q', NULL, WORDS_ANY, "new: no progress; ls: print ids only", .take = take_is_quiet},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command session_command = {
    .name = "session",
    .summary = "make, list, show, extend and end sessions",
    .usage = "new [options] | ls | show ID | extend ID TIME | rm ID...",
    .description =
        "A session is a place that stays: its files, its datasets and what runs in it are there "
        "for the next command, until it is removed, was idle for SANDBOX_SESSION_IDLE or reaches "
        "SANDBOX_SESSION_MAX_AGE. 'new' prints its id, 'rm' ends it with all that is in it but "
        "saved outputs, 'extend' lets it live longer.\n\n" ID_HELP "\n\n"
        "Example: ID=$(bailey session new -q --data sales=sales.csv); bailey exec -s $ID -- head "
        "/tmp/data/sales.csv; bailey session rm $ID",
    OPTIONS(session_options),
    .operand = "ACTION",
    .operands = WORDS_SESSION_ACTION,
    .operand_max = 64,
    .in_engine = true,
};

static const struct option_row code_options[] = {
    ROW_SESSION("the session; required"),
    {"code", 'c', "CODE", WORDS_ANY, "run this source instead of a file", .take = take_code},
    {"language", 'l', "NAME", WORDS_LANGUAGE,
     "the source's language; without it the file's extension tells, else Python",
     .take = take_language},
    {"context", 0, "NAME", WORDS_ANY, "the context, by id or name; else the language's default one",
     .take = take_context},
    {"timeout", 't', "TIME", WORDS_ANY,
     "how long it may run: 30, 0.5, 250ms, 5m; 0: until the session ends; 60 s if not given",
     .take = take_timeout},
    {"env", 'e', "NAME[=VALUE]", WORDS_ANY, "set a variable for this cell; may be repeated",
     .take = take_env},
    {"stdin", 0, NULL, WORDS_ANY, "what standard input has is what input() reads",
     .take = take_has_stdin},
    {"out", 'o', "DIR", WORDS_FOLDER, "save its pictures in this folder", .take = take_out},
    ROW_RAW,
    {"quiet", 'q', NULL, WORDS_ANY, "no notices; errors are still told", .take = take_is_quiet},
    {"json", 'j', NULL, WORDS_ANY, "print the one result as JSON and nothing else",
     .take = take_is_json},
    ROW_CONFIG,
};

const struct command code_command = {
    .name = "code",
    .summary = "run code in a session, where variables are kept",
    .usage = "-s ID [options] FILE | - | -c CODE",
    .description =
        "Runs a piece of code (a cell) in a session's interpreter, which stays: variables, imports "
        "and functions are there for the next cell. Output comes as it is written, then the value "
        "of the last expression; an exception goes to standard error and is exit status 1.\n\n"
        "Ctrl-C interrupts the cell and keeps the variables; a second one ends the interpreter. "
        "'bailey context' lists, makes, restarts and removes contexts: interpreters with variables "
        "of their own.\n\n"
        "Example: bailey code -s $ID -c 'x = 41'; bailey code -s $ID -c 'x + 1'",
    OPTIONS(code_options),
    .operand = "FILE",
    .operands = WORDS_FILE,
    .operand_max = 1,
    .in_engine = true,
};

static const struct option_row context_options[] = {
    ROW_SESSION("the session; required"),
    {"language", 'l', "NAME", WORDS_LANGUAGE, "new: its language, Python if not given",
     .take = take_language},
    {"name", 'n', "NAME", WORDS_ANY, "new: a name to call it by", .take = take_name},
    {"cwd", 0, "DIR", WORDS_ANY, "new: the folder it starts in, /workspace if not given",
     .take = take_cwd},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command context_command = {
    .name = "context",
    .summary = "list, make, restart, interrupt and remove contexts of a session",
    .usage = "ls|new|restart|interrupt|rm -s ID [CONTEXT...]",
    .description =
        "A context is an interpreter of a session that keeps its variables between cells. Each "
        "language has a default one, made by its first cell; 'new' makes more. 'restart' ends the "
        "interpreter with all variables, 'interrupt' only what runs in it, 'rm' removes it.",
    OPTIONS(context_options),
    .operand = "ACTION",
    .operands = WORDS_CONTEXT_ACTION,
    .operand_max = 33,
    .in_engine = true,
};

static const struct option_row install_options[] = {
    ROW_SESSION("the session; required"),
    {"quiet", 'q', NULL, WORDS_ANY, "no progress; errors are still told", .take = take_is_quiet},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command install_command = {
    .name = "install",
    .summary = "install Python packages into a session",
    .usage = "-s ID [options] [PACKAGE...]",
    .description =
        "Installs packages and what they need into a session, for its life: everything that is "
        "run in it later finds them, and its variables stay. Names are written as pip takes them: "
        "requests, 'numpy>=2,<3', 'polars[excel]'. Without a name it lists what was installed.\n\n"
        "They are fetched by a box of their own that reaches the package index and nothing else; "
        "the session's box has no network at any time. Only wheels are taken. Works also where "
        "SANDBOX_AUTO_INSTALL is false; SANDBOX_INSTALL_ALLOW and SANDBOX_INSTALL_DENY say what "
        "may be installed. Ctrl-C gives it up.\n\n"
        "Example: bailey install -s $ID requests; bailey code -s $ID -c 'import requests'",
    OPTIONS(install_options),
    .operand = "PACKAGE",
    .operands = WORDS_ANY,
    .operand_max = LIMIT_PACKAGES,
    .in_engine = true,
};

static const struct option_row shell_options[] = {
    ROW_SESSION("the session; required"),
    {"attach", 0, "EXEC", WORDS_ANY, "go back to the one of this number in 'bailey ps'",
     .take = take_attach},
    {"env", 'e', "NAME[=VALUE]", WORDS_ANY, "set a variable in it; may be repeated",
     .take = take_env},
    {"cwd", 0, "DIR", WORDS_ANY, "the folder it starts in, /workspace if not given",
     .take = take_cwd},
    ROW_CONFIG,
};

const struct command shell_command = {
    .name = "shell",
    .summary = "open a terminal in a session",
    .usage = "-s ID [options] [-- PROGRAM [ARGS...]]",
    .description =
        "Opens a terminal in a session's box, with Bash unless a program is named. Every key goes "
        "there, Ctrl-C too, and the window's size follows.\n\n"
        "Ctrl-] and then d leaves it running and comes back here ('--attach EXEC' returns to it); "
        "Ctrl-] and then k kills it; Ctrl-] twice sends one Ctrl-]. What runs inside may write "
        "anything to this terminal: use it for sessions you trust with that.",
    OPTIONS(shell_options),
    .operand = "PROGRAM",
    .operands = WORDS_ANY,
    .has_rest = true,
    .in_engine = true,
};

static const struct option_row cp_options[] = {
    {"quiet", 'q', NULL, WORDS_ANY, "no progress, no notices; errors are still told",
     .take = take_is_quiet},
    ROW_CONFIG,
};

const struct command cp_command = {
    .name = "cp",
    .summary = "copy files and folders into a session and back",
    .usage = "HOST ID:PATH | ID:PATH HOST",
    .description =
        "Copies a file or a folder with all below it. A target that is a folder, or ends in '/', "
        "gets it under its own name. A file is replaced at once or not at all, and keeps its mode; "
        "links and special files are left out and named.\n\n"
        "A PATH that does not begin with '/' is below /workspace; a host name with a colon in it "
        "is written ./a:b; '-' is standard input or output.\n\n" ID_HELP,
    OPTIONS(cp_options),
    .operand = "FROM",
    .operands = WORDS_FILE,
    .operand_max = 2,
    .in_engine = true,
};

static const struct option_row ls_options[] = {
    {"recursive", 'r', NULL, WORDS_ANY, "all that is below", .take = take_is_recursive},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command ls_command = {
    .name = "ls",
    .summary = "list files of a session",
    .usage = "[options] ID[:PATH]",
    .description = "Lists a folder of a session's box, /workspace when no PATH is given.",
    OPTIONS(ls_options),
    .operand = "ID:PATH",
    .operands = WORDS_ANY,
    .operand_max = 1,
    .in_engine = true,
};

static const struct option_row cat_options[] = {
    ROW_RAW,
    ROW_CONFIG,
};

const struct command cat_command = {
    .name = "cat",
    .summary = "print files of a session",
    .usage = "[options] ID:PATH...",
    .description = "Prints files of a session's box, byte by byte; on a terminal what could steer "
                   "it is made visible.",
    OPTIONS(cat_options),
    .operand = "ID:PATH",
    .operands = WORDS_ANY,
    .operand_max = 64,
    .in_engine = true,
};

static const struct option_row rm_options[] = {
    {"recursive", 'r', NULL, WORDS_ANY, "folders too, with all they hold",
     .take = take_is_recursive},
    ROW_CONFIG,
};

const struct command rm_command = {
    .name = "rm",
    .summary = "remove files of a session",
    .usage = "[options] ID:PATH...",
    .description = "Removes files of a session's box. To end the session itself: bailey session rm "
                   "ID",
    OPTIONS(rm_options),
    .operand = "ID:PATH",
    .operands = WORDS_ANY,
    .operand_max = 64,
    .in_engine = true,
};

static const struct option_row json_options[] = {
    ROW_JSON,
    ROW_CONFIG,
};

const struct command outputs_command = {
    .name = "outputs",
    .summary = "list what a session left in /tmp/output",
    .usage = "[options] ID",
    .description =
        "Lists what commands of a session left in /tmp/output and where it was saved on this "
        "machine. Saved are text, tables and images; binaries stay in the box, where 'bailey cp' "
        "gets them. Also for sessions that have ended.",
    OPTIONS(json_options),
    .operand = "ID",
    .operands = WORDS_ANY,
    .operand_max = 1,
    .in_engine = true,
};

static const struct option_row logs_options[] = {
    {"follow", 'f', NULL, WORDS_ANY, "go on until the command has ended", .take = take_follows},
    ROW_RAW,
    ROW_CONFIG,
};

const struct command logs_command = {
    .name = "logs",
    .summary = "print what a command of a session wrote",
    .usage = "[options] ID EXEC | ID.EXEC",
    .description = "Prints standard output and standard error of an execution, from the beginning "
                   "of what is kept, each on its own stream. EXEC is the number that 'bailey ps' "
                   "and 'bailey exec -d' show.",
    OPTIONS(logs_options),
    .operand = "ID",
    .operands = WORDS_ANY,
    .operand_max = 2,
    .in_engine = true,
};

static const struct option_row events_options[] = {
    {"follow", 'f', NULL, WORDS_ANY, "go on with those that come", .take = take_follows},
    ROW_SESSION("only those of this session"),
    ROW_JSON,
    ROW_CONFIG,
};

const struct command events_command = {
    .name = "events",
    .summary = "show what happens in sessions",
    .usage = "[options]",
    .description = "Shows the events that the daemon remembers: sessions that came and ended, "
                   "commands, changed files, images. With --json each is one line. Those of "
                   "before its broker was restarted are not remembered.",
    OPTIONS(events_options),
    .in_engine = true,
};

static const struct option_row ps_options[] = {
    {"all", 'a', NULL, WORDS_ANY, "also those that have ended", .take = take_is_all},
    ROW_SESSION("only those of this session"),
    ROW_JSON,
    ROW_CONFIG,
};

const struct command ps_command = {
    .name = "ps",
    .summary = "list what runs in all sessions",
    .usage = "[options]",
    .description = "Lists the commands that run in all sessions, with the number that 'bailey "
                   "logs' and 'bailey shell --attach' take.",
    OPTIONS(ps_options),
    .in_engine = true,
};

static const struct option_row template_options[] = {
    {"quiet", 'q', NULL, WORDS_ANY, "build: no progress; ls: print names only",
     .take = take_is_quiet},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command template_command = {
    .name = "template",
    .summary = "build, list, show, verify and remove templates",
    .usage = "build [NAME|FOLDER] | ls | show NAME | verify|rm NAME...",
    .description =
        "A template is what a box is furnished with: Python packages in the versions that were "
        "chosen, modules that are kept loaded, files and variables. 'run', 'exec' and 'session "
        "new' take --template NAME; SANDBOX_TEMPLATE names one for all.\n\n"
        "'build' takes the name of one that ships with bailey (data: Polars, NumPy, Matplotlib, "
        "seaborn and scikit-learn), or a folder with a template.yaml, the working folder if none "
        "is given. Packages are installed in a box of their own that reaches the package index "
        "and nothing else. One that is built already and still fits is left as it is.\n\n"
        "'verify' reads everything in it again and compares. The template 'python' is this "
        "machine's own Python: there is nothing to build.\n\n"
        "Example: bailey template build data; bailey run --template data plot.py",
    OPTIONS(template_options),
    .operand = "ACTION",
    .operands = WORDS_TEMPLATE_ACTION,
    .operand_max = 64,
    .in_engine = true,
};

static const struct option_row key_options[] = {
    {"name", 'n', "NAME", WORDS_ANY, "new: what it is called in lists", .take = take_name},
    {"tenant", 't', "NAME", WORDS_ANY, "new: whose it is: small letters, digits and '-'; default",
     .take = take_tenant},
    {"scopes", 0, "LIST", WORDS_ANY,
     "new: what it may be used for: run, sessions, files, metrics, admin; run,sessions,files",
     .take = take_scopes},
    {"expires", 0, "TIME", WORDS_ANY, "new: it is good for so long: 24h; without it for ever",
     .take = take_expires},
    {"grace", 0, "TIME", WORDS_ANY, "rotate: the old text works for so long too: 1h",
     .take = take_grace},
    {"quiet", 'q', NULL, WORDS_ANY, "new, rotate: the text alone; ls: ids only",
     .take = take_is_quiet},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command key_command = {
    .name = "key",
    .summary = "make, list, rotate and remove API keys",
    .usage = "new [options] | ls | rm ID... | rotate ID [--grace TIME]",
    .description =
        "Whoever calls the server over TCP needs a key, as 'Authorization: Bearer KEY' or "
        "'X-API-Key: KEY'. A key belongs to a tenant, which sees its own sessions, files, outputs "
        "and events and nobody else's, and has scopes: run (one-shot runs and tools), sessions, "
        "files, metrics, admin (keys, templates, the audit).\n\n"
        "'new' and 'rotate' print the key's text on standard output, once; what is kept is a "
        "salted hash. 'rotate' gives a key a new text under its id, 'rm' ends it at once. All of "
        "them speak to the daemon over its own socket, whose owner needs no key.\n\n"
        "Example: bailey key new --tenant acme --scopes run,files --expires 720h",
    OPTIONS(key_options),
    .operand = "ACTION",
    .operands = WORDS_KEY_ACTION,
    .operand_max = 64,
    .in_engine = true,
};

static const struct option_row daemon_options[] = {
    {"follow", 'f', NULL, WORDS_ANY, "log: go on with what comes", .take = take_follows},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command daemon_command = {
    .name = "daemon",
    .summary = "show, stop and read the log of the daemon",
    .usage = "status | stop | log [-f]",
    .description =
        "The daemon keeps sessions alive between commands. It is started when a command needs it "
        "and leaves by itself when it had no session and no client for 10 minutes.\n\n"
        "'status' has exit status 3 when none is running. 'stop' ends it and every session in it, "
        "and waits until it is gone; the next command that needs one starts it with the settings "
        "of that moment. 'log' prints what it had to say.",
    OPTIONS(daemon_options),
    .operand = "ACTION",
    .operands = WORDS_DAEMON_ACTION,
    .operand_max = 1,
    .in_engine = true,
};

static const struct option_row reload_options[] = {
    ROW_JSON,
    ROW_CONFIG,
};

const struct command reload_command = {
    .name = "reload",
    .summary = "bring new settings and certificates into the running server",
    .usage = "[--config FILE]",
    .description =
        "Reads the configuration and the certificate files as 'bailey serve' would, with the "
        "rights of whoever calls it, and hands them to the daemon that is running. Quotas, host "
        "names, origins, log level, audit and certificates change at once, for new connections "
        "and requests; nothing ends. For everything else it says which keys need a restart.",
    OPTIONS(reload_options),
    .in_engine = true,
};

const struct command openapi_command = {
    .name = "openapi",
    .summary = "print the OpenAPI document of the REST API",
    .usage = "[--help]",
    .description = "Prints the OpenAPI 3.1 document of the daemon's REST API, from the rows that "
                   "the server uses. No daemon is needed.",
    .in_engine = true,
};

int client_request_load(const struct invocation *invocation, struct client_request *request,
                        struct error *err)
{
    *request = (struct client_request){.caller_env = invocation->env};
    /* First of all: it decides how an error of the others is told. */
    request->is_json = option_given(&invocation->parsed, "json", NULL);
    return options_take(&invocation->parsed, request, err);
}

void client_request_free(struct client_request *request)
{
    strv_free(request->env);
    strv_free(request->data);
    *request = (struct client_request){0};
}

bool option_given(const struct parsed *parsed, const char *name, const char **ret_value)
{
    bool is_given = false;

    for (size_t i = 0; i < parsed->use_count; i++)
        if (str_equal(parsed->uses[i].row->name, name)) {
            is_given = true;
            if (ret_value)
                *ret_value = parsed->uses[i].value;
        }
    return is_given;
}
