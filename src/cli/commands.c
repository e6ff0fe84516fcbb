/* commands.c - the list of commands, and the words that options and operands accept. */
#include "cli/command.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/isolation.h"
#include "base/str.h"
#include "interpreter/language.h"
#include "tool/tool.h"

const struct command *const command_table[] = {
    &run_command,     &exec_command,    &tool_command,     &session_command,    &code_command,
    &context_command, &install_command, &shell_command,    &port_command,       &cp_command,
    &ls_command,      &cat_command,     &rm_command,       &outputs_command,    &logs_command,
    &events_command,  &ps_command,      &template_command, &image_command,      &serve_command,
    &key_command,     &upgrade_command, &daemon_command,   &audit_command,      &reload_command,
    &mcp_command,     &ask_command,     &prompt_command,   &openapi_command,    &doctor_command,
    &config_command,  &version_command, &help_command,     &completion_command, &man_command,
};
const size_t command_count = ARRAY_SIZE(command_table);

const char *const group_titles[_GROUP_MAX] = {
    [GROUP_RUN] = "Run code",
    [GROUP_SESSIONS] = "Sessions",
    [GROUP_TEMPLATES] = "Templates and images",
    [GROUP_SERVER] = "Server",
    [GROUP_AGENTS] = "Agents and API",
    [GROUP_SELF] = "Bailey itself",
};

const struct option_row common_options[] = {
    {.name = "help", .letter = 'h', .help = "show this help"},
    {.name = "url",
     .argument = "URL",
     .help = "use this server instead of this machine: http://HOST:PORT, https://HOST:PORT "
             "(BAILEY_URL)"},
    {.name = "key",
     .argument = "KEY",
     .help = "API key of that server; other users of this machine can see it in the list of "
             "processes, so better use BAILEY_API_KEY or --key-file"},
    {.name = "key-file",
     .argument = "FILE",
     .words = WORDS_FILE,
     .help = "file with the API key of that server (BAILEY_API_KEY_FILE)"},
    {.name = "ca-file",
     .argument = "FILE",
     .words = WORDS_FILE,
     .help = "certificate authorities for https:// instead of the system's (BAILEY_CA_FILE)"},
};
const size_t common_option_count = ARRAY_SIZE(common_options);

const struct status_row status_table[] = {
    {0, "success; otherwise the program's own status, or 128 + N when signal N ended it"},
    {124, "timed out"},
    {125, "bad input, bad configuration, or an error of bailey itself"},
    {126, "refused: isolation below the minimum, a blocked import, or not executable"},
    {127, "the program does not exist in the box"},
};
const size_t status_count = ARRAY_SIZE(status_table);

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (str_equal(command_table[i]->name, name))
            return command_table[i];
    return str_equal(name, complete_command.name) ? &complete_command : NULL;
}

int command_unknown(const char *name, struct error *err)
{
    const char *names[WORDS_LIST_MAX];
    const char *nearest;

    if (name[0] == '-')
        return error_set(
            err, -EINVAL, ERROR_BAD_INPUT,
            "'%.60s' before the command: options of a command follow it, as in "
            "'bailey run --quiet FILE' ('bailey help' lists those that may come first)",
            name);
    words_list(WORDS_COMMAND, names);
    nearest = str_nearest(name, names);
    if (nearest)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "unknown command '%.60s'; did you mean '%s'? ('bailey help' lists all)",
                         name, nearest);
    return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                     "unknown command '%.60s'; 'bailey help' lists the known ones", name);
}

/* The index-th word of a kind; NULL after the last. */
static const char *word_at(enum words words, size_t index)
{
    static const char *const shells[] = {"bash", "zsh", "fish"};
    static const char *const session_actions[] = {"new",    "ls",    "show",  "rm",
                                                  "extend", "pause", "resume"};
    static const char *const daemon_actions[] = {"status", "stop", "log"};
    static const char *const context_actions[] = {"ls", "new", "restart", "interrupt", "rm"};
    static const char *const key_actions[] = {"new", "ls", "rm", "rotate"};
    static const char *const key_formats[] = {"bailey", "e2b"};
    static const char *const template_actions[] = {"build", "ls", "show", "verify", "rm"};
    static const char *const image_actions[] = {"build", "ls", "rm"};
    static const char *const audit_actions[] = {"verify", "tail", "query"};

    switch (words) {
    case WORDS_COMMAND:
        return index < command_count ? command_table[index]->name : NULL;
    case WORDS_LANGUAGE:
        return index < language_count ? language_table[index].name : NULL;
    case WORDS_ISOLATION:
        return index < _ISOLATION_MAX ? isolation_name((enum isolation)index) : NULL;
    case WORDS_SHELL:
        return index < ARRAY_SIZE(shells) ? shells[index] : NULL;
    case WORDS_TOOL:
        return index < tool_count ? tool_table[index].name : NULL;
    case WORDS_SESSION_ACTION:
        return index < ARRAY_SIZE(session_actions) ? session_actions[index] : NULL;
    case WORDS_DAEMON_ACTION:
        return index < ARRAY_SIZE(daemon_actions) ? daemon_actions[index] : NULL;
    case WORDS_CONTEXT_ACTION:
        return index < ARRAY_SIZE(context_actions) ? context_actions[index] : NULL;
    case WORDS_KEY_ACTION:
        return index < ARRAY_SIZE(key_actions) ? key_actions[index] : NULL;
    case WORDS_KEY_FORMAT:
        return index < ARRAY_SIZE(key_formats) ? key_formats[index] : NULL;
    case WORDS_TEMPLATE_ACTION:
        return index < ARRAY_SIZE(template_actions) ? template_actions[index] : NULL;
    case WORDS_IMAGE_ACTION:
        return index < ARRAY_SIZE(image_actions) ? image_actions[index] : NULL;
    case WORDS_AUDIT_ACTION:
        return index < ARRAY_SIZE(audit_actions) ? audit_actions[index] : NULL;
    default:
        return NULL;
    }
}

void words_list(enum words words, const char *list[WORDS_LIST_MAX])
{
    size_t count = 0;

    while (count < WORDS_LIST_MAX - 1 && (list[count] = word_at(words, count)))
        count++;
    list[count] = NULL;
}
