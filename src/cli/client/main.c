/* main.c - finds the command of bailey-engine and parses its arguments by the rows of `bailey`. */
#include "cli/client/main.h"

#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/client/commands.h"
#include "cli/message.h"
#include "cli/place.h"

static const struct client_row {
    const char *name;
    int (*run)(const struct invocation *invocation);
} client_table[] = {
    {"run", run_remote},
    {"session", session_run},
    {"exec", exec_run},
    {"code", code_run},
    {"ask", ask_run},
    {"context", context_run},
    {"shell", shell_run},
    {"port", port_run},
    {"cp", cp_run},
    {"ls", ls_run},
    {"cat", cat_run},
    {"rm", rm_run},
    {"outputs", outputs_run},
    {"logs", logs_run},
    {"events", events_run},
    {"ps", ps_run},
    {"tool", tool_run},
    {"daemon", daemon_run},
    {"reload", reload_run},
    {"openapi", openapi_run},
    {"mcp", mcp_run},
    {"template", template_run},
    {"key", key_run},
    {"install", install_run},
    {"audit", audit_run},
    {"image", image_run},
    {"doctor", doctor_providers_run},
    {"complete", complete_run},
    {"prompt", prompt_remote},
};

static const struct client_row *row_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(client_table); i++)
        if (str_equal(client_table[i].name, name))
            return &client_table[i];
    return NULL;
}

int client_main(int argc, char **argv)
{
    const struct client_row *row = argc > 1 ? row_find(argv[1]) : NULL;
    struct invocation invocation = {.env = environ};
    struct error err = {0};
    int status;

    signal(SIGPIPE,
           SIG_IGN); /* writing to a closed pipe returns an errno instead of ending the process */
    if (!row) {
        message_print("bailey-engine is a part of bailey: call that, as in 'bailey help'");
        return STATUS_BAD_INPUT;
    }
    invocation.command = command_find(row->name);
    if (options_parse(invocation.command, argc - 2, (const char *const *)argv + 2,
                      &invocation.parsed, &err) < 0 ||
        place_take(&invocation.parsed, &err) < 0) {
        status = message_bad_input(&err);
    } else {
        invocation.env = environ; /* with the server's options */
        status = row->run(&invocation);
    }
    parsed_free(&invocation.parsed);
    return status;
}
