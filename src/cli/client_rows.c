/*
 * client_rows.c - the rows of the commands that talk to the daemon; their code is in client/.
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
TEXT(local)
TEXT(tenant)
TEXT(scopes)
TEXT(format)
SWITCH(has_stdin)
SWITCH(is_json)
SWITCH(is_quiet)
SWITCH(is_raw)
SWITCH(is_all)
SWITCH(is_recursive)
SWITCH(follows)
SWITCH(is_forced)
SWITCH(has_no_history)

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

static int take_file(void *target, const char *value, struct error *err)
{
    struct client_request *request = target;

    if (strv_length(request->files) >= LIMIT_FILE_IDS)
        return error_set(err, -E2BIG, ERROR_BAD_INPUT, "more than %d --file", LIMIT_FILE_IDS);
    return strv_push(&request->files, value) < 0 ? error_memory(err) : 0;
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
#define ROW_SESSION(help_)                                                 \
    {                                                                      \
        "session", 's', "NAME", WORDS_SESSION, help_, .take = take_session \
    }
#define ROW_RAW                                                                        \
    {                                                                                  \
        "raw", 0, NULL, WORDS_ANY, "pass control sequences to the terminal unchanged", \
            .take = take_is_raw                                                        \
    }
#define ROW_KEY(name_, letter_, argument_, words_, help_, key_)                    \
    {                                                                              \
        name_, letter_, argument_, words_, help_, .is_config = true, .key = (key_) \
    }
/* What a session has to have already. */
#define ROW_MADE_WITH(name_, argument_, words_, what_, key_)                              \
    {                                                                                     \
        name_, 0, argument_, words_, "fail unless the session was made with this " what_, \
            .is_config = true, .key = (key_), .hides_default = true                       \
    }
/* What belongs to a session; `when_` says where it counts. */
#define ROWS_SESSION(when_)                                                                  \
    ROW_KEY("memory", 0, "SIZE", WORDS_ANY, when_ "memory of its box, with its files: 512m", \
            KEY_MEMORY),                                                                     \
        ROW_KEY("cpus", 0, "NUMBER", WORDS_ANY, when_ "processor cores: 0.5, 2", KEY_CPUS),  \
        ROW_KEY("pids", 0, "NUMBER", WORDS_ANY, when_ "processes and threads", KEY_PIDS),    \
        ROW_KEY("disk", 0, "SIZE", WORDS_ANY, when_ "space for files, part of the memory",   \
                KEY_DISK),                                                                   \
        ROW_KEY("type", 0, "NAME", WORDS_ANY,                                                \
                when_ "how its box is made: a value of SANDBOX_TYPE", KEY_SANDBOX_TYPE),     \
        ROW_KEY("isolation", 0, "LEVEL", WORDS_ISOLATION,                                    \
                when_ "lowest isolation level that is accepted", KEY_ISOLATION)
#define OPTIONS(rows) .options = (rows), .option_count = ARRAY_SIZE(rows)
#define ROW_OF_SESSION ROW_SESSION("the session; the argument is then a PATH in it")
#define ID_HELP                                                                              \
    "NAME is a session's name, its id, or the beginning of the id if that is unique. Every " \
    "command that works in a session takes it as -s NAME; files are also written NAME:PATH."

#define ALIAS_HELP "'list', 'create' and 'delete' can be written for 'ls', 'new' and 'rm'."

static const struct option_row session_options[] = {
    ROW_SESSION("show, extend, pause, resume, rm: the session; new: its name"),
    {"name", 'n', "NAME", WORDS_ANY, "new: its name, as -s", .take = take_name},
    {"template", 0, "NAME", WORDS_TEMPLATE, "new: its template", .is_config = true,
     .key = KEY_TEMPLATE, .take = take_template_name},
    {"data", 0, "NAME=FILE", WORDS_FILE,
     "new: make this file available as /tmp/data/NAME.csv; NAME.parquet and other kinds keep their "
     "ending; may be repeated",
     .take = take_data},
    {"env", 'e', "NAME[=VALUE]", WORDS_ANY,
     "new: set a variable for every command in it; may be repeated", .take = take_env},
    {"idle", 0, "TIME", WORDS_ANY, "new: end it after this time without use: 30m",
     .take = take_idle},
    {"max-age", 0, "TIME", WORDS_ANY, "new: end it at this age: 8h", .take = take_max_age},
    ROWS_SESSION("new: "),
    {"timeout", 't', "TIME", WORDS_ANY,
     "new: timeout of commands and cells that have none of their own: 30, 5m (default 60, of the "
     "tool run_code 30)",
     .is_config = true, .key = KEY_TIMEOUT, .hides_default = true},
    {"all", 'a', NULL, WORDS_ANY, "ls: also ended ones", .take = take_is_all},
    {"quiet", 'q', NULL, WORDS_ANY, "new: no progress; ls: print ids only", .take = take_is_quiet},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command session_command = {
    .name = "session",
    .group = GROUP_SESSIONS,
    .summary = "create, list, show, extend, pause, resume and remove sessions",
    .usage = "new [options] | ls | show|extend|pause|resume|rm -s NAME",
    .description =
        "A session is a sandbox that keeps files, datasets, processes and variables between "
        "commands, until it is removed, has been idle for SANDBOX_SESSION_IDLE or reaches "
        "SANDBOX_SESSION_MAX_AGE. 'new' prints its id, 'rm' ends it and removes everything but "
        "saved outputs, 'extend -s NAME TIME' postpones its end.\n\n'pause' stops everything in "
        "it: processes and "
        "variables stay as they are and use no CPU time, deadlines of commands stand still, and "
        "commands for the session fail until 'resume'. A paused session ends at its age limit, or "
        "after SANDBOX_PAUSED_TIME.\n\n" ID_HELP " Here it can also be written "
        "without -s: 'rm NAME...' takes several. " ALIAS_HELP "\n\n"
        "Example:\n  bailey session new -s work --data sales=sales.csv"
        "\n  bailey exec -s work -- head /tmp/data/sales.csv\n  bailey session rm -s work",
    OPTIONS(session_options),
    .operand = "ACTION",
    .operands = WORDS_SESSION_ACTION,
    .operands_after = WORDS_SESSION,
    .operand_max = 64,
    .in_engine = true,
};

static const struct option_row code_options[] = {
    ROW_SESSION("the session; at a prompt the default is your session 'default'"),
    {"code", 'c', "CODE", WORDS_ANY, "run this source instead of a file", .take = take_code},
    {"language", 'l', "NAME", WORDS_LANGUAGE,
     "language of the source (default: by the file's extension, else Python)",
     .take = take_language},
    {"context", 0, "NAME", WORDS_ANY,
     "id or name of the context (default: the language's default context)", .take = take_context},
    {"timeout", 't', "TIME", WORDS_ANY,
     "timeout: 30, 0.5, 250ms, 5m; 0: until the session ends (default 60)", .take = take_timeout},
    {"env", 'e', "NAME[=VALUE]", WORDS_ANY, "set a variable for this cell; may be repeated",
     .take = take_env},
    {"stdin", 0, NULL, WORDS_ANY, "pass standard input to the cell, for input()",
     .take = take_has_stdin},
    {"out", 'o', "DIR", WORDS_FOLDER, "save pictures in this folder", .take = take_out},
    {"no-history", 0, NULL, WORDS_ANY, "at a prompt: neither read nor store typed lines",
     .take = take_has_no_history},
    ROW_MADE_WITH("memory", "SIZE", WORDS_ANY, "memory: 512m", KEY_MEMORY),
    ROW_MADE_WITH("cpus", "NUMBER", WORDS_ANY, "number of processor cores: 0.5, 2", KEY_CPUS),
    ROW_MADE_WITH("pids", "NUMBER", WORDS_ANY, "number of processes and threads", KEY_PIDS),
    ROW_MADE_WITH("disk", "SIZE", WORDS_ANY, "space for files: 256m", KEY_DISK),
    ROW_MADE_WITH("type", "NAME", WORDS_ANY, "value of SANDBOX_TYPE", KEY_SANDBOX_TYPE),
    ROW_MADE_WITH("isolation", "LEVEL", WORDS_ISOLATION, "lowest isolation level", KEY_ISOLATION),
    ROW_MADE_WITH("template", "NAME", WORDS_TEMPLATE, "template", KEY_TEMPLATE),
    ROW_RAW,
    {"quiet", 'q', NULL, WORDS_ANY, "print errors only", .take = take_is_quiet},
    {"json", 'j', NULL, WORDS_ANY, "print only the result, as JSON", .take = take_is_json},
    ROW_CONFIG,
};

const struct command code_command = {
    .name = "code",
    .group = GROUP_SESSIONS,
    .summary = "run code in a session, where variables are kept",
    .usage = "[-s NAME] [options] [FILE | - | -c CODE]",
    .description =
        "Runs a piece of code (a cell) in an interpreter of a session that keeps variables, "
        "imports and functions for the next cell. Output is shown as it is written, then the value "
        "of the last expression; an exception is printed on standard error with exit status "
        "1. The code cells of a Jupyter notebook (FILE.ipynb) run one after another, until one "
        "fails.\n\nOn a terminal, without code, it is a prompt: what is typed runs when it is a "
        "whole "
        "statement, an empty line ends a block, and Ctrl-D leaves. Arrow keys edit the line and "
        "fetch earlier lines, which Ctrl-R "
        "searches. Lines are stored in the file code_history of the state "
        "folder; BAILEY_HISTORY names another file, or none if it is empty. Without -s "
        "it works in your session 'default', which is made when it is needed.\n\nCtrl-C interrupts "
        "the cell and "
        "keeps the variables; a second Ctrl-C ends the "
        "interpreter. 'bailey context' manages contexts: interpreters with their own "
        "variables.\n\nExample:\n  bailey code -s work -c 'x = 41'\n  bailey code -s work -c 'x + "
        "1'",
    OPTIONS(code_options),
    .operand = "FILE",
    .operands = WORDS_FILE,
    .operand_max = 1,
    .in_engine = true,
};

static const struct option_row ask_options[] = {
    {"file", 'f', "FILE", WORDS_FILE, "give this file to the code; may be repeated",
     .take = take_file},
    {"out", 'o', "DIR", WORDS_FOLDER, "save the files that the code made in this folder",
     .take = take_out},
    ROW_SESSION("go on in this session: what was said, files and variables (default: a new one)"),
    {"verbose", 'v', NULL, WORDS_ANY, "with --json: all messages and the tokens of the model",
     .take = take_is_all},
    ROW_RAW,
    {"quiet", 'q', NULL, WORDS_ANY, "print the answer only", .take = take_is_quiet},
    {"json", 'j', NULL, WORDS_ANY, "print the whole answer, as JSON", .take = take_is_json},
    ROW_CONFIG,
};

const struct command ask_command = {
    .name = "ask",
    .group = GROUP_AGENTS,
    .summary = "ask a model that answers by running code in a session",
    .usage = "[options] MESSAGE",
    .description =
        "A model server answers the message; the code that it writes runs in a session, where "
        "files and variables are kept for the next message. The answer is printed on standard "
        "output as it comes, code and its output on standard error. Files that the code made or "
        "changed are saved with --out.\n\nThe daemon needs a model server: start 'bailey serve' "
        "with BAILEY_UPSTREAM_URL, the base address of a Chat Completions API with its /v1, and "
        "BAILEY_UPSTREAM_KEY if it needs one. Ctrl-C stops the answer and its code.\n\nExample:\n  "
        "bailey ask 'Plot the sales' --file sales.csv --out results",
    OPTIONS(ask_options),
    .operand = "MESSAGE",
    .operand_max = 1,
    .in_engine = true,
};

static const struct option_row context_options[] = {
    ROW_SESSION("the session; required"),
    {"language", 'l', "NAME", WORDS_LANGUAGE, "new: its language (default Python)",
     .take = take_language},
    {"name", 'n', "NAME", WORDS_ANY, "new: its name", .take = take_name},
    {"cwd", 0, "DIR", WORDS_ANY, "new: working folder (default /workspace)", .take = take_cwd},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command context_command = {
    .name = "context",
    .group = GROUP_SESSIONS,
    .summary = "list, create, restart, interrupt and remove contexts of a session",
    .usage = "ls|new|restart|interrupt|rm -s NAME [CONTEXT...]",
    .description = "A context is an interpreter of a session that keeps its variables between "
                   "cells. Each language has a default context, created by its first cell; 'new' "
                   "creates more. 'restart' ends the interpreter and loses its variables, "
                   "'interrupt' ends only the running cell, 'rm' removes the context. " ALIAS_HELP,
    OPTIONS(context_options),
    .operand = "ACTION",
    .operands = WORDS_CONTEXT_ACTION,
    .operand_max = 33,
    .in_engine = true,
};

static const struct option_row install_options[] = {
    ROW_SESSION("the session; required"),
    {"quiet", 'q', NULL, WORDS_ANY, "no progress, errors only", .take = take_is_quiet},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command install_command = {
    .name = "install",
    .group = GROUP_SESSIONS,
    .summary = "install Python packages into a session",
    .usage = "-s NAME [options] [PACKAGE...]",
    .description =
        "Installs packages and their dependencies into a session until it ends. Running "
        "interpreters find them too, and variables are kept. Names are written as for pip: "
        "requests, 'numpy>=2,<3', 'polars[excel]'. Without a name it lists the installed "
        "packages.\n\nA separate box that reaches only the package index downloads them; the "
        "session's box never has network access. Only wheels are installed. This works also if "
        "SANDBOX_AUTO_INSTALL is false; SANDBOX_INSTALL_ALLOW and SANDBOX_INSTALL_DENY restrict "
        "what may be installed. Ctrl-C cancels it.\n\nExample:\n  bailey install -s work "
        "requests\n  "
        "bailey code -s work -c 'import requests'",
    OPTIONS(install_options),
    .operand = "PACKAGE",
    .operands = WORDS_ANY,
    .operand_max = LIMIT_PACKAGES,
    .in_engine = true,
};

static const struct option_row shell_options[] = {
    ROW_SESSION("the session; required"),
    {"attach", 0, "EXEC", WORDS_ANY, "attach to the terminal with this number in 'bailey ps'",
     .take = take_attach},
    {"env", 'e', "NAME[=VALUE]", WORDS_ANY, "set an environment variable; may be repeated",
     .take = take_env},
    {"cwd", 0, "DIR", WORDS_ANY, "working folder (default /workspace)", .take = take_cwd},
    ROW_CONFIG,
};

const struct command shell_command = {
    .name = "shell",
    .group = GROUP_SESSIONS,
    .summary = "open a terminal in a session",
    .usage = "-s NAME [options] [-- PROGRAM [ARGS...]]",
    .description =
        "Opens a terminal in a session's box, with Bash or the given program. All keys, including "
        "Ctrl-C, are sent to it, and changes of the window size too.\n\nCtrl-] d detaches and "
        "leaves it running ('--attach EXEC' returns to it); Ctrl-] k kills it; Ctrl-] twice sends "
        "one Ctrl-]. Programs in it can write any control sequence to your terminal: use it only "
        "for sessions that you trust.",
    OPTIONS(shell_options),
    .operand = "PROGRAM",
    .operands = WORDS_ANY,
    .has_rest = true,
    .in_engine = true,
};

static const struct option_row port_options[] = {
    ROW_SESSION("the session; required"),
    {"local", 0, "PORT", WORDS_ANY, "the port of this machine (default: the same; 0: any free one)",
     .take = take_local},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command port_command = {
    .name = "port",
    .group = GROUP_SESSIONS,
    .summary = "open a port of this machine that leads to a server in a session",
    .usage = "-s NAME [PORT] [--local PORT]",
    .description =
        "Listens on 127.0.0.1 and passes every connection on to the port of the session, where a "
        "server of its code listens, until Ctrl-C. Any protocol over TCP passes. Nothing else of "
        "the session becomes reachable, and the session reaches nothing through it.\n\nWithout a "
        "PORT it lists the ports that processes of the session listen on.\n\nExample, after which "
        "http://127.0.0.1:8080 is the server on port 3000:\n  bailey port -s work 3000 --local "
        "8080",
    OPTIONS(port_options),
    .operand = "PORT",
    .operands = WORDS_ANY,
    .operand_max = 1,
    .in_engine = true,
};

static const struct option_row cp_options[] = {
    ROW_SESSION("the session; its file is then written :PATH"),
    {"quiet", 'q', NULL, WORDS_ANY, "no progress, errors only", .take = take_is_quiet},
    ROW_CONFIG,
};

const struct command cp_command = {
    .name = "cp",
    .group = GROUP_SESSIONS,
    .summary = "copy files and folders into a session and back",
    .usage = "HOST NAME:PATH | NAME:PATH HOST",
    .description =
        "Copies a file, or a folder with its contents. If the target is a folder or "
        "ends in '/', the copy keeps its name. Files are replaced atomically and keep "
        "their mode; links and special files are skipped and listed.\n\nA PATH that "
        "does not begin with '/' is below /workspace; a host file with a colon in its "
        "name is written ./a:b; '-' is standard input or output.\n\n" ID_HELP
        "\n\nExample:\n  bailey cp sales.csv work:\n  bailey cp -s work :/tmp/plot.png .",
    OPTIONS(cp_options),
    .operand = "FROM",
    .operands = WORDS_EITHER_FILE,
    .operand_max = 2,
    .in_engine = true,
};

static const struct option_row ls_options[] = {
    ROW_OF_SESSION,
    {"recursive", 'r', NULL, WORDS_ANY, "include everything below", .take = take_is_recursive},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command ls_command = {
    .name = "ls",
    .group = GROUP_SESSIONS,
    .summary = "list files of a session",
    .usage = "[options] NAME[:PATH] | -s NAME [PATH]",
    .description = "Lists a folder of a session's box (default /workspace).\n\n" ID_HELP,
    OPTIONS(ls_options),
    .operand = "NAME:PATH",
    .operands = WORDS_SESSION_FILE,
    .operand_max = 1,
    .in_engine = true,
};

static const struct option_row cat_options[] = {
    ROW_OF_SESSION,
    ROW_RAW,
    ROW_CONFIG,
};

const struct command cat_command = {
    .name = "cat",
    .group = GROUP_SESSIONS,
    .summary = "print files of a session",
    .usage = "[options] NAME:PATH... | -s NAME PATH...",
    .description = "Prints files of a session's box unchanged; on a terminal control characters "
                   "are made visible.\n\n" ID_HELP,
    OPTIONS(cat_options),
    .operand = "NAME:PATH",
    .operands = WORDS_SESSION_FILE,
    .operand_max = 64,
    .in_engine = true,
};

static const struct option_row rm_options[] = {
    ROW_OF_SESSION,
    {"recursive", 'r', NULL, WORDS_ANY, "also folders and their contents",
     .take = take_is_recursive},
    ROW_CONFIG,
};

const struct command rm_command = {
    .name = "rm",
    .group = GROUP_SESSIONS,
    .summary = "remove files of a session",
    .usage = "[options] NAME:PATH... | -s NAME PATH...",
    .description = "Removes files of a session's box. To end the session itself: bailey session rm "
                   "-s NAME\n\n" ID_HELP,
    OPTIONS(rm_options),
    .operand = "NAME:PATH",
    .operands = WORDS_SESSION_FILE,
    .operand_max = 64,
    .in_engine = true,
};

static const struct option_row outputs_options[] = {
    ROW_SESSION("the session"),
    ROW_JSON,
    ROW_CONFIG,
};

const struct command outputs_command = {
    .name = "outputs",
    .group = GROUP_SESSIONS,
    .summary = "list the files of a session's /tmp/output",
    .usage = "[options] -s NAME",
    .description = "Lists the files that commands of a session left in /tmp/output, and where they "
                   "were saved on this machine. Text, tables and images are saved; binaries stay "
                   "in the box, where 'bailey cp' gets them. Works also for ended sessions.",
    OPTIONS(outputs_options),
    .operand = "NAME",
    .operands = WORDS_SESSION,
    .operand_max = 1,
    .in_engine = true,
};

static const struct option_row logs_options[] = {
    ROW_SESSION("the session"),
    {"follow", 'f', NULL, WORDS_ANY, "follow until the command has ended", .take = take_follows},
    ROW_RAW,
    ROW_CONFIG,
};

const struct command logs_command = {
    .name = "logs",
    .group = GROUP_SESSIONS,
    .summary = "print the output of a command of a session",
    .usage = "[options] -s NAME EXEC | NAME EXEC | ID.EXEC",
    .description = "Prints the kept standard output and standard error of an execution, each on "
                   "its own stream. EXEC is the number that 'bailey ps' and 'bailey exec -d' show.",
    OPTIONS(logs_options),
    .operand = "EXEC",
    .operands = WORDS_ANY,
    .operand_max = 2,
    .in_engine = true,
};

static const struct option_row events_options[] = {
    {"follow", 'f', NULL, WORDS_ANY, "follow new events", .take = take_follows},
    ROW_SESSION("only of this session"),
    ROW_JSON,
    ROW_CONFIG,
};

const struct command events_command = {
    .name = "events",
    .group = GROUP_SESSIONS,
    .summary = "show events of sessions",
    .usage = "[options]",
    .description = "Shows the events that the daemon remembers: created and ended sessions, "
                   "commands, changed files, images. With --json each is one line. Events from "
                   "before a restart of the broker are not remembered.",
    OPTIONS(events_options),
    .in_engine = true,
};

static const struct option_row ps_options[] = {
    {"all", 'a', NULL, WORDS_ANY, "also ended ones", .take = take_is_all},
    ROW_SESSION("only of this session"),
    ROW_JSON,
    ROW_CONFIG,
};

const struct command ps_command = {
    .name = "ps",
    .group = GROUP_SESSIONS,
    .summary = "list the running commands of all sessions",
    .usage = "[options]",
    .description = "Lists the running commands of all sessions, with the numbers that 'bailey "
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
    .group = GROUP_TEMPLATES,
    .summary = "build, list, show, verify and remove templates",
    .usage = "build [NAME|FOLDER] | ls | show NAME | verify|rm NAME...",
    .description =
        "A template is what a box contains besides the system: Python packages in chosen versions, "
        "modules that are kept loaded, files and variables. 'run', 'exec' and 'session new' take "
        "--template NAME; SANDBOX_TEMPLATE sets the default.\n\n'build' takes the name of a "
        "template that ships with bailey (data: Polars, NumPy, Matplotlib, seaborn and "
        "scikit-learn), or a folder with a template.yaml (default: the working folder). Packages "
        "are installed in a separate box that reaches only the package index. A template that is "
        "already built and up to date is not built again.\n\n'verify' reads all its files again "
        "and compares "
        "their hash. The template 'python' is this machine's own Python and needs no "
        "build. 'list' and 'delete' can be written for 'ls' and 'rm'.\n\nExample:\n  bailey "
        "template "
        "build data\n  bailey run --template data plot.py",
    OPTIONS(template_options),
    .operand = "ACTION",
    .operands = WORDS_TEMPLATE_ACTION,
    .operands_after = WORDS_TEMPLATE,
    .operand_max = 64,
    .in_engine = true,
};

static const struct option_row key_options[] = {
    {"name", 'n', "NAME", WORDS_ANY, "new: its name in lists", .take = take_name},
    {"tenant", 't', "NAME", WORDS_ANY,
     "new: its tenant: small letters, digits and '-' (default: default)", .take = take_tenant},
    {"scopes", 0, "LIST", WORDS_ANY,
     "new: its scopes, of run, sessions, files, metrics, admin, operator (default "
     "run,sessions,files)",
     .take = take_scopes},
    {"format", 0, "NAME", WORDS_KEY_FORMAT,
     "new: its spelling: bailey (bly_...), or e2b, which E2B's clients accept (default: bailey)",
     .take = take_format},
    {"expires", 0, "TIME", WORDS_ANY, "new: how long the key is valid, e.g. 24h (default: forever)",
     .take = take_expires},
    {"grace", 0, "TIME", WORDS_ANY,
     "rotate: how long the old secret stays valid, e.g. 1h (default: not at all)",
     .take = take_grace},
    {"quiet", 'q', NULL, WORDS_ANY, "new, rotate: print only the key; ls: print only ids",
     .take = take_is_quiet},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command key_command = {
    .name = "key",
    .group = GROUP_SERVER,
    .summary = "create, list, rotate and remove API keys",
    .usage = "new [options] | ls | rm ID... | rotate ID [--grace TIME]",
    .description =
        "Requests over TCP need a key, as 'Authorization: Bearer KEY' or 'X-API-Key: KEY'. A key "
        "belongs to a tenant, which sees only its own sessions, files, outputs and events, and has "
        "scopes: run (one-shot runs and tools), sessions, files, metrics, admin (keys and audit of "
        "its tenant), operator (keys and audit of all tenants, and templates).\n\n'new' and "
        "'rotate' print the "
        "key on standard output, once; a salted hash "
        "is stored. 'rotate' replaces a key's secret, 'rm' revokes it at once. All of them talk to "
        "the daemon over its unix socket, which needs no key; with --url they need one with the "
        "scope admin. " ALIAS_HELP "\n\nExample:\n  bailey key new --tenant "
        "acme --scopes run,files --expires 720h",
    OPTIONS(key_options),
    .operand = "ACTION",
    .operands = WORDS_KEY_ACTION,
    .operand_max = 64,
    .in_engine = true,
};

static const struct option_row daemon_options[] = {
    {"follow", 'f', NULL, WORDS_ANY, "log: follow new lines", .take = take_follows},
    {"force", 0, NULL, WORDS_ANY, "stop: end live sessions without asking", .take = take_is_forced},
    ROW_JSON,
    ROW_CONFIG,
};

const struct command daemon_command = {
    .name = "daemon",
    .group = GROUP_SERVER,
    .summary = "show or stop the daemon, or print its log",
    .usage = "status | stop [--force] | log [-f]",
    .description =
        "The daemon keeps sessions alive between commands. It starts when a command needs it and "
        "exits after 10 minutes without a session and a client.\n\n'status' has exit status 3 when "
        "no daemon is running. 'stop' ends the daemon and all its sessions, lists them, and waits "
        "until the daemon is gone. If sessions are live, it asks first at a "
        "terminal and needs --force elsewhere; SIGTERM to the daemon never "
        "asks. The next command that needs a daemon starts one, with the settings of "
        "that command. "
        "'log' prints the daemon's log.",
    OPTIONS(daemon_options),
    .operand = "ACTION",
    .operands = WORDS_DAEMON_ACTION,
    .operand_max = 1,
    .in_engine = true,
    .reach = REACH_HERE,
};

static const struct option_row reload_options[] = {
    ROW_JSON,
    ROW_CONFIG,
};

const struct command reload_command = {
    .name = "reload",
    .group = GROUP_SERVER,
    .summary = "apply new settings and certificates to the running server",
    .usage = "[--config FILE]",
    .description =
        "Reads the server's bailey.yaml and the certificate files with your rights, and sends "
        "them to the running daemon. Keys that the server has from its own environment or from a "
        "flag stay, unless your environment sets them. Quotas, host names, origins, log level, "
        "audit and certificates change at once, for new connections and requests; nothing is "
        "interrupted. It prints which keys changed, and which need a restart.",
    OPTIONS(reload_options),
    .in_engine = true,
    .reach = REACH_HERE,
};

const struct command openapi_command = {
    .name = "openapi",
    .group = GROUP_AGENTS,
    .summary = "print the OpenAPI document of the REST API",
    .usage = "[--help]",
    .description = "Prints the OpenAPI 3.1 document of the daemon's REST API, from the tables that "
                   "the server itself uses. No daemon is needed.",
    .in_engine = true,
};

const struct command complete_command = {
    .name = "complete",
    .group = GROUP_SELF,
    .summary = "print names for the completion of shells",
    .usage = "sessions|templates",
    .description = "Prints the names of sessions or templates, one per line, for the scripts of "
                   "'bailey completion'. No daemon is started; without one nothing is printed.",
    .operand = "KIND",
    .operand_max = 1,
    .in_engine = true,
};

int client_request_load(const struct invocation *invocation, struct client_request *request,
                        struct error *err)
{
    *request = (struct client_request){.caller_env = invocation->env};
    /* Evaluated first: it decides how errors of the other options are printed. */
    request->is_json = option_given(&invocation->parsed, "json", NULL);
    return options_take(&invocation->parsed, request, err);
}

void client_request_free(struct client_request *request)
{
    strv_free(request->env);
    strv_free(request->data);
    strv_free(request->files);
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

/* ---- mcp ---- */

static const struct option_row mcp_options[] = {
    {.name = "session",
     .letter = 's',
     .argument = "NAME",
     .words = WORDS_SESSION,
     .help = "use the session of this name (created if it does not exist) and keep it at the end"},
    {.name = "template",
     .argument = "NAME",
     .words = WORDS_TEMPLATE,
     .help = "template of the session",
     .is_config = true,
     .key = KEY_TEMPLATE,
     .take = take_template_name},
    {.name = "data",
     .argument = "NAME=FILE",
     .words = WORDS_FILE,
     .help = "make this file available as /tmp/data/NAME.csv; may be repeated",
     .take = take_data},
    {.name = "structured", .help = "return results as structured content too, for programs"},
    ROWS_SESSION("of its session: "),
    ROW_KEY("timeout", 't', "TIME", WORDS_ANY, "timeout of code that has none of its own: 30, 5m",
            KEY_TIMEOUT),
    {.name = "config", .argument = "FILE", .words = WORDS_FILE, .help = "read this bailey.yaml"},
};

const struct command mcp_command = {
    .name = "mcp",
    .group = GROUP_AGENTS,
    .summary = "serve the tools to an MCP client on standard input and output",
    .usage = "[options]",
    .description =
        "Speaks the Model Context Protocol, one message a line: 2026-07-28 and, after initialize, "
        "2024-11-05 to 2025-11-25. MCP clients start it. Most are configured "
        "with\n\n{\"mcpServers\": {\"bailey\": {\"command\": \"bailey\", \"args\": "
        "[\"mcp\"]}}}\n\ndocs/mcp.md describes others.\n\nThe tools are those of 'bailey tool'. "
        "Calls that name no session share one, which is created by the first "
        "such call and deleted when the input ends. With --template or --data "
        "it is created at the start. An existing session that --session names "
        "keeps its template and gets the datasets. Files that a command writes to "
        "/tmp/output are returned as pictures or as links to resources.\n\nWhen the input ends, or "
        "on SIGINT or SIGTERM, running calls are "
        "cancelled. Only protocol messages are written to standard output.",
    .options = mcp_options,
    .option_count = ARRAY_SIZE(mcp_options),
    .in_engine = true,
};

/* ---- audit ---- */

static const struct option_row audit_options[] = {
    {.name = "session",
     .letter = 's',
     .argument = "NAME",
     .words = WORDS_SESSION,
     .help = "tail, query: only lines about this session"},
    {.name = "tenant", .argument = "NAME", .help = "tail, query: only lines of this tenant"},
    {.name = "action",
     .argument = "WORD",
     .help = "tail, query: only run, exec, cell, file, key, denied, ...; 'session.' matches all "
             "that begin with it"},
    {.name = "since",
     .argument = "TIME",
     .help = "query: only since 2026-11-15T08:15:04Z, or since 90s, 30m, 8h ago"},
    {.name = "lines", .letter = 'n', .argument = "N", .help = "tail: number of lines (default 20)"},
    {.name = "follow", .letter = 'f', .help = "tail: follow new lines"},
    {.name = "folder",
     .argument = "FOLDER",
     .words = WORDS_FOLDER,
     .help = "verify: folder of the audit (default: logs in the state folder)"},
    {.name = "json", .letter = 'j', .help = "verify: print JSON"},
    {.name = "config", .argument = "FILE", .words = WORDS_FILE, .help = "read this bailey.yaml"},
};

const struct command audit_command = {
    .name = "audit",
    .group = GROUP_SERVER,
    .summary = "verify and read the audit log",
    .usage = "verify | tail [-f] | query [options]",
    .description =
        "Every run, command, cell, change of a file or of a key, and every refusal is a line of "
        "JSON: caller, action, result, isolation layers. Each line has the hash of the previous "
        "one.\n\n'verify' reads the files, with or without a daemon, and reports the first line "
        "that was changed, removed or cut off, with exit status 1. It prints the hash of the last "
        "line. Keep that hash somewhere else: it "
        "proves later that no line up to there was changed. docs/audit.md says what it cannot "
        "detect.\n\n'tail' and 'query' ask the daemon and print the lines unchanged.\n\nExample:\n "
        " "
        "bailey audit query --action denied --since 8h",
    .options = audit_options,
    .option_count = ARRAY_SIZE(audit_options),
    .operand = "ACTION",
    .operands = WORDS_AUDIT_ACTION,
    .operand_max = 1,
    .in_engine = true,
};

/* ---- image ---- */

/* --tag and --package are read where they are needed: option_given(). */
static const struct option_row image_options[] = {
    {.name = "template",
     .argument = "NAME",
     .words = WORDS_TEMPLATE,
     .help = "build: include the packages of this template, which must be built",
     .take = take_template_name},
    {.name = "tag",
     .letter = 't',
     .argument = "NAME[:TAG]",
     .help = "build: name of the image (default DOCKER_IMAGE)"},
    {.name = "package",
     .argument = "NAME",
     .help = "build: an additional Debian package, such as git; may be repeated"},
    {.name = "quiet",
     .letter = 'q',
     .help = "build: print only the id; ls: print only names",
     .take = take_is_quiet},
    {.name = "json", .letter = 'j', .help = "print JSON", .take = take_is_json},
    {.name = "config",
     .argument = "FILE",
     .words = WORDS_FILE,
     .help = "read this bailey.yaml",
     .take = take_config_file},
};

const struct command image_command = {
    .name = "image",
    .group = GROUP_TEMPLATES,
    .summary = "build, list and remove container images for boxes",
    .usage = "build [--template NAME] [--tag NAME] | ls | rm NAME...",
    .description =
        "With SANDBOX_TYPE=docker a box is a container of the image DOCKER_IMAGE. Any image with a "
        "Linux userland works; 'build' makes one with what a box needs, without a registry and "
        "without the docker command: Bash, Python, Node.js if it is installed here, and the usual "
        "programs.\n\nIt is assembled from the packages of this Debian or Ubuntu machine: "
        "installed and unchanged files are copied, others are downloaded by 'apt-get download'. "
        "Nothing of /etc, /home, /root or /var is copied, and root is not needed. On other "
        "machines build deploy/Dockerfile.sandbox.\n\nWith --template NAME (run 'bailey template "
        "build NAME' first) the image has the template's packages and variables too: containers "
        "see no folder of this machine, so packages have to be in the image.\n\n'ls' lists images "
        "that were built this way, 'rm' removes them; it does not remove other images. 'list' and "
        "'delete' can be written for them.\n\nExample:\n  "
        "bailey template build data\n  bailey image build --template data\n  SANDBOX_TYPE=docker "
        "bailey run plot.py",
    .options = image_options,
    .option_count = ARRAY_SIZE(image_options),
    .operand = "ACTION",
    .operands = WORDS_IMAGE_ACTION,
    .operand_max = 64,
    .in_engine = true,
    .reach = REACH_HERE,
};
