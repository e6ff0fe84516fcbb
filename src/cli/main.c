/* main.c - bailey: finds the command, parses its options by its rows, runs it. Nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "cli/engine.h"
#include "cli/help.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/place.h"
#include "launcher/launcher.h"

/*
 * A descriptor 0-2 that is closed would be given to the next file that is opened, and output would
 * go into it. Returns whether standard input was closed, or -1 when there is no /dev/null.
 */
static int fill_standard_streams(void)
{
    int stdin_is_closed = 0;

    for (int fd = 0; fd <= 2; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
            continue;
        /* The lowest free descriptor is `fd`; it stays open for programs of ours: no O_CLOEXEC. */
        if (open("/dev/null", O_RDWR) != fd)
            return -1;
        if (fd == 0)
            stdin_is_closed = 1;
    }
    return stdin_is_closed;
}

/* `--help` and `--version` before a command are the commands of that name. */
static const char *command_name(const char *word)
{
    if (str_equal(word, "--help") || str_equal(word, "-h"))
        return "help";
    if (str_equal(word, "--version") || str_equal(word, "-V"))
        return "version";
    return word;
}

static int show_help(const struct command *command)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);

    if (help_command_text(command, &text) < 0) {
        message_print("out of memory printing the help");
        return STATUS_BAD_INPUT;
    }
    return help_show(&text);
}

static int no_command(void)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);

    if (help_short(&text) < 0) {
        message_print("out of memory printing the help");
        return STATUS_BAD_INPUT;
    }
    return help_show(&text);
}

/* The parser stopped somewhere: --json is searched for as a plain word. */
static bool wants_json(const char *const *words)
{
    for (; *words && !str_equal(*words, "--"); words++)
        if (str_equal(*words, "--json") || str_equal(*words, "-j"))
            return true;
    return false;
}

static int bad_arguments(const struct command *command, const char *const *words,
                         const struct error *err)
{
    return command->refuse && wants_json(words) ? command->refuse(err) : message_bad_input(err);
}

/* Here, or in bailey-engine, which parses the same arguments by the same rows again. */
static int run_command_line(const struct invocation *invocation, char **argv)
{
    const struct command *command = invocation->command;
    bool is_remote = place_url(invocation->env) && command->reach == REACH_SERVER;

    if (command->in_engine || is_remote ||
        (command->hands_over && command->hands_over(&invocation->parsed)))
        return engine_execute(argv, invocation->env);
    return command->run(invocation);
}

int main(int argc, char **argv)
{
    struct invocation invocation = {.env = environ};
    struct error err = {0};
    int status, stdin_is_closed = fill_standard_streams();

    if (stdin_is_closed < 0)
        return STATUS_BAD_INPUT;
    invocation.stdin_is_closed = stdin_is_closed > 0;
    launch_remember_arguments(argc, argv, environ); /* for wardens, which wipe their copy */
    signal(SIGPIPE, SIG_IGN); /* a reader that left is an errno here, not the end */
    if (argc < 2)
        return no_command();
    if (argc == 2 && str_equal(argv[1], LAUNCHER_INSIDE_WORD))
        launcher_inside(); /* the launcher, executed by `bailey serve` */
    if (argc == 2 && str_equal(argv[1], WARDEN_INSIDE_WORD))
        warden_inside(); /* the warden, executed by a container's maker */
    if (argc == 2 && str_equal(argv[1], WARDEN_BESIDE_WORD))
        warden_beside(); /* the same beside the engine, in a container that is the only box */
    if (argc == 2 && str_equal(argv[1], LAUNCHER_PROBE_WORD))
        return launcher_probe(); /* can this program replace a launcher? */

    if (place_take_leading(&argc, &argv, &err) < 0)
        return message_bad_input(&err);
    if (argc < 2)
        return no_command();
    invocation.command = command_find(command_name(argv[1]));
    if (!invocation.command) {
        command_unknown(argv[1], &err);
        return message_bad_input(&err);
    }
    if (options_parse(invocation.command, argc - 2, (const char *const *)argv + 2,
                      &invocation.parsed, &err) < 0)
        status = bad_arguments(invocation.command, (const char *const *)argv + 2, &err);
    else if (invocation.parsed.wants_help)
        status = show_help(invocation.command);
    else if (place_take(&invocation.parsed, &err) < 0 ||
             place_check(invocation.command, environ, &err) < 0)
        status = bad_arguments(invocation.command, (const char *const *)argv + 2, &err);
    else {
        invocation.env = environ; /* with the server's options */
        status = run_command_line(&invocation, argv);
    }
    parsed_free(&invocation.parsed);
    return status;
}
