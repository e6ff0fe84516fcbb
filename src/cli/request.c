/*
 * request.c - the options of `run` and `exec`: one row each, and what takes it.
 *
 * The rows are all there is: help, completion and man pages print them. `run` has all but the last
 * EXEC_ONLY, `exec` all but the first RUN_ONLY.
 */
#include "cli/request.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client_request.h"
#include "cli/option_setters.h"
#include "cli/run.h"

#define TEXT(member) OPTION_SETS_TEXT(take_##member, struct request, member)
#define SWITCH(member) OPTION_SETS_SWITCH(take_##member, struct request, member)

TEXT(code)
TEXT(language)
TEXT(config_file)
TEXT(session)
TEXT(cwd)
SWITCH(is_detached)
SWITCH(has_stdin)
SWITCH(is_raw)
SWITCH(is_json)
SWITCH(has_timing)
SWITCH(has_explain)
SWITCH(is_quiet)
SWITCH(is_alone)

static int take_out(void *target, const char *value, struct error *err)
{
    if (!value[0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "--out needs a folder: --out DIR");
    ((struct request *)target)->out = value;
    return 0;
}

/* The length of the name at the start: [A-Za-z_][A-Za-z0-9_]*; 0 when there is none. */
static size_t name_length(const char *text)
{
    size_t length = 0;

    while (text[length] == '_' || isalpha((unsigned char)text[length]) ||
           (length > 0 && isdigit((unsigned char)text[length])))
        length++;
    return length;
}

int env_push(char ***list, char *const *caller_env, const char *value, struct error *err)
{
    size_t length = name_length(value);

    if (length == 0 || (value[length] && value[length] != '='))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--env '%.100s': a name has letters, digits and '_' and does not begin "
                         "with a digit; write --env NAME=VALUE",
                         value);
    if (!value[length]) {
        const char *found = env_value(caller_env, value);

        if (!found)
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "--env %.100s: no such variable is set here; write --env NAME=VALUE",
                             value);
        value = found - length - 1; /* where its name begins */
    }
    if (strv_length(*list) >= LIMIT_ENV_COUNT)
        return error_set(err, -E2BIG, ERROR_BAD_INPUT, "more than %d --env", LIMIT_ENV_COUNT);
    if (strv_push(list, value) < 0)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory keeping the options");
    return 0;
}

static int take_env(void *target, const char *value, struct error *err)
{
    struct request *request = target;

    return env_push(&request->env, request->caller_env, value, err);
}

/* HOST[:BOX], split at the last colon: a name with a colon in it is written with both halves. */
static int take_file(void *target, const char *value, struct error *err)
{
    struct request *request = target;
    const char *colon = strrchr(value, ':');
    size_t host_length = colon ? (size_t)(colon - value) : strlen(value);
    struct oneshot_file *files;
    size_t at = strv_length(request->file_names);

    if (host_length == 0 || (colon && !colon[1]))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--file '%.100s': write --file HOST or --file HOST:BOX", value);
    if (request->file_count >= LIMIT_COPY_FILES)
        return error_set(err, -E2BIG, ERROR_BAD_INPUT,
                         "more than %d --file; put them in one folder and give that",
                         LIMIT_COPY_FILES);
    files = reallocarray(request->files, request->file_count + 1, sizeof(*files));
    if (!files)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory keeping the options");
    request->files = files;
    if (strv_push_n(&request->file_names, value, host_length) < 0 ||
        (colon && strv_push(&request->file_names, colon + 1) < 0))
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory keeping the options");
    files[request->file_count++] = (struct oneshot_file){
        .host = request->file_names[at], .box = colon ? request->file_names[at + 1] : NULL};
    return 0;
}

#define CONFIG_KEY(key_) .is_config = true, .key = (key_)
#define RUN_ONLY 3
#define EXEC_ONLY 3

static const struct option_row options[] = {
    {"code", 'c', "CODE", WORDS_ANY, "run this source instead of a file", .take = take_code},
    {"language", 'l', "NAME", WORDS_LANGUAGE,
     "language of the source (default: by the file's extension, else Python)",
     .take = take_language},
    {"no-daemon", 0, NULL, WORDS_ANY, "do not use a running daemon", .take = take_is_alone},
    {"timeout", 't', "TIME", WORDS_ANY, "timeout: 30, 0.5, 250ms, 5m", CONFIG_KEY(KEY_TIMEOUT)},
    {"memory", 'm', "SIZE", WORDS_ANY, "memory of the box, including its files: 512m, 1g",
     CONFIG_KEY(KEY_MEMORY)},
    {"cpus", 0, "NUMBER", WORDS_ANY, "processor cores: 0.5, 2", CONFIG_KEY(KEY_CPUS)},
    {"pids", 0, "NUMBER", WORDS_ANY, "processes and threads", CONFIG_KEY(KEY_PIDS)},
    {"disk", 0, "SIZE", WORDS_ANY, "space for files, part of the memory", CONFIG_KEY(KEY_DISK)},
    {"max-output", 0, "KB", WORDS_ANY, "output of each stream that the result keeps",
     CONFIG_KEY(KEY_MAX_OUTPUT)},
    {"env", 'e', "NAME[=VALUE]", WORDS_ANY,
     "set an environment variable, or pass the caller's; may be repeated", .take = take_env},
    {"file", 'f', "HOST[:BOX]", WORDS_FILE,
     "copy a file or folder in, to /workspace or to BOX; may be repeated", .take = take_file},
    {"out", 'o', "DIR", WORDS_FOLDER, "copy the files of /tmp/output to this folder",
     .take = take_out},
    {"isolation", 'i', "LEVEL", WORDS_ISOLATION, "lowest isolation level that is accepted",
     CONFIG_KEY(KEY_ISOLATION)},
    {"root", 0, "DIR", WORDS_FOLDER, "use this folder as the box's root instead of /usr",
     CONFIG_KEY(KEY_ROOT)},
    {"template", 'T', "NAME", WORDS_TEMPLATE, "use this template: data", CONFIG_KEY(KEY_TEMPLATE)},
    {"type", 0, "NAME", WORDS_ANY, "how the box is made: a value of SANDBOX_TYPE",
     CONFIG_KEY(KEY_SANDBOX_TYPE)},
    {"stdin", 0, NULL, WORDS_ANY, "pass standard input to the program", .take = take_has_stdin},
    {"raw", 0, NULL, WORDS_ANY, "pass control sequences to the terminal unchanged",
     .take = take_is_raw},
    {"json", 'j', NULL, WORDS_ANY, "print only the result, as JSON", .take = take_is_json},
    {"timing", 0, NULL, WORDS_ANY, "print the time of each step on standard error",
     .take = take_has_timing},
    {"explain", 0, NULL, WORDS_ANY, "print on standard error what isolated the run",
     .take = take_has_explain},
    {"config", 0, "FILE", WORDS_FILE, "read this bailey.yaml", .take = take_config_file},
    {"quiet", 'q', NULL, WORDS_ANY, "print errors only", .take = take_is_quiet},
    {"session", 's', "NAME", WORDS_SESSION, "run it in this session instead of a fresh box",
     .take = take_session},
    {"detach", 'd', NULL, WORDS_ANY, "with -s: run in the background and print the execution id",
     .take = take_is_detached},
    {"cwd", 0, "DIR", WORDS_ANY, "with -s: working folder (default /workspace)", .take = take_cwd},
};

/* In a session the daemon has it; without one it is a fresh box of our own. */
static bool exec_hands_over(const struct parsed *parsed)
{
    return option_given(parsed, "session", NULL);
}

const struct command run_command = {
    .name = "run",
    .group = GROUP_RUN,
    .summary = "run source code in a fresh box",
    .usage = "[options] FILE | - | -c CODE [-- ARGS...]",
    .description =
        "Runs Python, JavaScript or Bash source in a fresh box, which is removed afterwards. "
        "Output is shown as it is written; the exit status is the program's. The code cells of a "
        "Jupyter notebook (FILE.ipynb) run in their order as one Python program. A file with the "
        "extension of another language or of data (.R, .sql, .html, .csv) is refused unless "
        "--language is given; a file without an extension is Python.\n\nThe working folder "
        "is /workspace, which contains only the source and the files of --file. There is no "
        "network. --out fetches the files that the code leaves in /tmp/output.\n\nIf a daemon of "
        "this user is running, Python code runs in one of its warm boxes, with the same result; no "
        "daemon is started for it. A run with --stdin, --file, --out, --env, --root or --timing, "
        "with another interpreter than the daemon's, or with higher limits than the daemon "
        "allows, does not use the daemon.",
    .options = options,
    .option_count = ARRAY_SIZE(options) - EXEC_ONLY,
    .operand = "FILE",
    .operands = WORDS_FILE,
    .operand_max = 1,
    .has_rest = true,
    .run = run_main,
    .refuse = run_refuse,
};

const struct command exec_command = {
    .name = "exec",
    .group = GROUP_RUN,
    .summary = "run any program in a fresh box, or in a session",
    .usage = "[options] -- PROGRAM [ARGS...]",
    .description =
        "Runs a program of the box's root (this machine's /usr, or --root DIR) in a fresh box, "
        "with the limits and the result of 'bailey run'.\n\nWith -s NAME it runs in that session, "
        "which keeps files and processes. There the default timeout is 60 seconds (0: until the "
        "session ends), Ctrl-C interrupts the program and a second Ctrl-C kills it, and -d leaves "
        "it running: 'bailey logs' shows its output. Options about the box cannot be used with a "
        "session, whose box exists already.",
    .options = options + RUN_ONLY,
    .option_count = ARRAY_SIZE(options) - RUN_ONLY,
    .operand = "PROGRAM",
    .operands = WORDS_PROGRAM,
    .has_rest = true,
    .rest_starts_at_operand = true,
    .hands_over = exec_hands_over,
    .run = exec_main,
    .refuse = run_refuse,
};

OPTION_SETS_SWITCH(report_json, struct report_request, is_json)
OPTION_SETS_TEXT(report_config, struct report_request, config_file)
OPTION_SETS_SWITCH(report_profile, struct report_request, wants_profile)

const struct option_row report_options[DOCTOR_OPTION_COUNT] = {
    {"json", 'j', NULL, WORDS_ANY, "print JSON", .take = report_json},
    {"config", 0, "FILE", WORDS_FILE, "read this bailey.yaml", .take = report_config},
    {"seccomp-profile", 0, NULL, WORDS_ANY,
     "print the seccomp profile for a container in which bailey runs, and do nothing else",
     .take = report_profile},
};

int request_config(struct config *config, const char *file, char *const *env, struct error *err)
{
    int result = config_load(config, file, env, err);
    struct error cause = *err;

    if (result != -ENOENT)
        return result;
    return error_set(err, result, cause.code, "%.300s; check the name %s, or leave it out",
                     cause.text, file ? "behind --config" : "in BAILEY_CONFIG");
}

int request_load(const struct invocation *invocation, struct request *request,
                 struct config *config, struct error *err)
{
    const struct parsed *parsed = &invocation->parsed;
    int result;

    *request = (struct request){.caller_env = invocation->env};
    /* Evaluated first: it decides how errors of the other options are printed. */
    for (size_t i = 0; i < parsed->use_count; i++)
        request->is_json |= parsed->uses[i].row->take == take_is_json;
    result = options_take(parsed, request, err);
    if (result < 0)
        return result;
    result = request_config(config, request->config_file, invocation->env, err);
    if (result < 0)
        return result;
    return options_configure(parsed, config, err);
}

void request_free(struct request *request)
{
    strv_free(request->env);
    strv_free(request->file_names);
    free(request->files);
    *request = (struct request){0};
}
