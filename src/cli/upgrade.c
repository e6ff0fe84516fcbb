/*
 * upgrade.c - `bailey upgrade`: the running daemon continues with this program, or another one.
 *
 * The programs are read here, with the caller's rights, and handed over as descriptors
 * (supervisor/supervisor.h). The broker is not involved: it must not be able to bring programs in.
 */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "cli/engine.h"
#include "cli/message.h"
#include "cli/option_setters.h"
#include "cli/options.h"
#include "cli/paths.h"
#include "cli/request.h"
#include "config/config.h"
#include "supervisor/supervisor.h"

struct upgrade_request {
    const char *program, *socket, *state, *config_file;
    bool is_json;
};

OPTION_SETS_TEXT(take_program, struct upgrade_request, program)
OPTION_SETS_TEXT(take_socket, struct upgrade_request, socket)
OPTION_SETS_TEXT(take_state, struct upgrade_request, state)
OPTION_SETS_TEXT(take_config, struct upgrade_request, config_file)
OPTION_SETS_SWITCH(take_json, struct upgrade_request, is_json)

static int find_programs(const struct upgrade_request *request, char program[PATH_MAX],
                         char engine[PATH_MAX], struct error *err)
{
    if (!realpath(request->program ? request->program : "/proc/self/exe", program))
        return error_errno(err, "finding the program '%.300s'",
                           request->program ? request->program : "/proc/self/exe");
    return engine_beside(program, engine, err);
}

/* The daemon of the state folder, wherever its socket is. */
static int find_daemon(const struct upgrade_request *request, char *const *env, struct paths *paths,
                       struct error *err)
{
    CLEANUP(config_free) struct config config = {0};
    int result = request_config(&config, request->config_file, env, err);

    if (result == 0)
        result = paths_choose(paths, &config, env, request->state, request->socket, err);
    if (result == 0 && !request->socket)
        result = paths_adopt(paths, err);
    if (result == 0 && !paths_is_locked(paths))
        return error_set(err, -ESRCH, ERROR_NO_DAEMON,
                         "no daemon is running; the next start has this program anyway");
    return result;
}

static int run_upgrade(const struct invocation *invocation)
{
    CLEANUP(paths_free) struct paths paths = {0};
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);
    struct upgrade_request request = {0};
    char program[PATH_MAX], engine[PATH_MAX], version[64];
    struct error err = {0};
    int result = options_take(&invocation->parsed, &request, &err);

    if (result == 0)
        result = find_programs(&request, program, engine, &err);
    if (result == 0)
        result = find_daemon(&request, invocation->env, &paths, &err);
    if (result == 0)
        result = supervisor_upgrade(paths.socket, program, engine, version, sizeof(version), &err);
    if (result < 0)
        return message_bad_input(&err);
    if (request.is_json)
        return print_json(json_pack("{s:s, s:s}", "version", version, "program", program));
    if (buf_printf(&text, "bailey %s has taken over\n", version) < 0)
        return STATUS_BAD_INPUT;
    return print_text(&text);
}

static const struct option_row options[] = {
    {"program", 0, "FILE", WORDS_FILE, "the new bailey; bailey-engine must be beside it",
     .take = take_program},
    {"socket", 0, "PATH", WORDS_FILE, "the daemon that listens here", .take = take_socket},
    {"state", 0, "DIR", WORDS_FOLDER, "the daemon of this state folder", .take = take_state},
    {"json", 'j', NULL, WORDS_ANY, "print JSON", .take = take_json},
    {"config", 0, "FILE", WORDS_FILE, "read this bailey.yaml", .take = take_config},
};

const struct command upgrade_command = {
    .name = "upgrade",
    .group = GROUP_SERVER,
    .summary = "upgrade the running daemon to a new version, keeping its sessions",
    .usage = "[--program FILE]",
    .description =
        "The running daemon continues with this program and the bailey-engine beside it. Sessions, "
        "commands, kernels and their output are kept; connections are closed once, and streams "
        "resume from their last id. If the new program cannot take over, the old one continues, "
        "and the exit status is 125.\n\nSettings do not change: 'bailey reload' applies new ones. "
        "Live boxes keep their wardens.\n\nAfter the new version was installed:\n  bailey upgrade",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run_upgrade,
    .reach = REACH_HERE,
};
