/*
 * complete.c - `bailey completion bash|zsh`: scripts printed from the same rows that parse.
 *
 * Words come from constant tables of ours (letters, digits, dashes), so nothing needs quoting but
 * the help texts in zsh's brackets.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/help.h"
#include "cli/message.h"
#include "cli/options.h"

/* What fills COMPREPLY for a kind of word in bash; NULL: a list of words does. */
static const char *const bash_generators[_WORDS_MAX] = {
    [WORDS_ANY] = "",
    [WORDS_FILE] = "-f",
    [WORDS_FOLDER] = "-d",
    [WORDS_PROGRAM] = "-c",
};

static int bash_reply(enum words words, struct buf *to)
{
    const char *list[WORDS_LIST_MAX];
    const char *generator = bash_generators[words];
    int failed = 0;

    if (generator && !generator[0])
        return buf_append_text(to, "return");
    if (generator)
        return buf_printf(to, "_bailey_reply %s -- \"$current\"", generator);
    words_list(words, list);
    failed |= buf_append_text(to, "_bailey_reply -W '");
    for (size_t i = 0; list[i]; i++)
        failed |= buf_printf(to, "%s%s", i > 0 ? " " : "", list[i]);
    return failed | buf_append_text(to, "' -- \"$current\"");
}

/* "run --timeout" and the like: what completes the word after an option that takes one. */
static int bash_option_values(const struct command *command, struct buf *to)
{
    const struct option_row *row;
    int failed = 0;

    for (size_t i = 0; (row = help_row_at(command, i)); i++) {
        if (!row->argument)
            continue;
        failed |= buf_printf(to, "    '%s --%s'", command->name, row->name);
        if (row->letter)
            failed |= buf_printf(to, " | '%s -%c'", command->name, row->letter);
        failed |= buf_append_text(to, ")\n        ");
        failed |= bash_reply(row->words, to);
        failed |= buf_append_text(to, "\n        return\n        ;;\n");
    }
    return failed;
}

static int bash_command(const struct command *command, struct buf *to)
{
    const struct option_row *row;
    int failed = 0;

    failed |= buf_printf(to,
                         "    %s)\n        if [[ $current == -* ]]; then\n"
                         "            _bailey_reply -W '",
                         command->name);
    for (size_t i = 0; (row = help_row_at(command, i)); i++)
        failed |= buf_printf(to, "%s--%s", i > 0 ? " " : "", row->name);
    failed |= buf_append_text(to, "' -- \"$current\"\n        else\n            ");
    failed |= bash_reply(command->operands, to);
    return failed | buf_append_text(to, "\n        fi\n        ;;\n");
}

int complete_bash(struct buf *to)
{
    int failed = 0;

    failed |= buf_append_text(
        to, "# bash completion for bailey; load it with: source <(bailey completion bash)\n"
            "_bailey_reply()\n{\n    mapfile -t COMPREPLY < <(compgen \"$@\")\n}\n\n"
            "_bailey()\n{\n"
            "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}\n"
            "    local command=${COMP_WORDS[1]} word\n"
            "    COMPREPLY=()\n"
            "    if [[ $COMP_CWORD -eq 1 ]]; then\n        ");
    failed |= bash_reply(WORDS_COMMAND, to);
    failed |=
        buf_append_text(to, "\n        return\n    fi\n"
                            "    for word in \"${COMP_WORDS[@]:2:COMP_CWORD - 2}\"; do\n"
                            "        if [[ $word == -- ]]; then\n"
                            "            _bailey_reply -f -- \"$current\"\n            return\n"
                            "        fi\n    done\n"
                            "    case \"$command $previous\" in\n");
    for (size_t i = 0; i < command_count; i++)
        failed |= bash_option_values(command_table[i], to);
    failed |= buf_append_text(to, "    esac\n    case \"$command\" in\n");
    for (size_t i = 0; i < command_count; i++)
        failed |= bash_command(command_table[i], to);
    failed |= buf_append_text(to, "    esac\n}\n\ncomplete -o filenames -F _bailey bailey\n");
    return failed < 0 ? failed : 0;
}

/* A text inside the quotes of an _arguments specification; `special` is what its place escapes. */
static int zsh_text(const char *text, const char *special, struct buf *to)
{
    int failed = 0;

    for (; *text; text++) {
        if (*text == '\'')
            failed |= buf_append_text(to, "'\\''");
        else if (strchr(special, *text))
            failed |= buf_printf(to, "\\%c", *text);
        else
            failed |= buf_append(to, text, 1);
    }
    return failed;
}

/* The action of an _arguments specification. */
static int zsh_action(enum words words, struct buf *to)
{
    static const char *const actions[_WORDS_MAX] = {
        [WORDS_ANY] = " ",
        [WORDS_FILE] = "_files",
        [WORDS_FOLDER] = "_files -/",
        [WORDS_PROGRAM] = "_command_names -e",
    };
    const char *list[WORDS_LIST_MAX];
    int failed = 0;

    if (actions[words])
        return buf_append_text(to, actions[words]);
    words_list(words, list);
    failed |= buf_append_text(to, "(");
    for (size_t i = 0; list[i]; i++)
        failed |= buf_printf(to, "%s%s", i > 0 ? " " : "", list[i]);
    return failed | buf_append_text(to, ")");
}

static int zsh_option(const struct option_row *row, bool is_short, struct buf *to)
{
    int failed = 0;

    if (is_short)
        failed |= buf_printf(to, "            '*-%c", row->letter);
    else
        failed |= buf_printf(to, "            '*--%s%s", row->name, row->argument ? "=" : "");
    failed |= buf_append_text(to, "[");
    failed |= zsh_text(row->help, "[]:\\", to);
    failed |= buf_append_text(to, "]");
    if (row->argument) {
        failed |= buf_append_text(to, ":");
        failed |= zsh_text(row->argument, ":\\", to);
        failed |= buf_append_text(to, ":");
        failed |= zsh_action(row->words, to);
    }
    return failed | buf_append_text(to, "' \\\n");
}

static int zsh_command(const struct command *command, struct buf *to)
{
    const struct option_row *row;
    int failed = buf_printf(to, "    %s)\n        _arguments -s -S \\\n", command->name);

    for (size_t i = 0; (row = help_row_at(command, i)); i++) {
        if (row->letter)
            failed |= zsh_option(row, true, to);
        failed |= zsh_option(row, false, to);
    }
    if (command->operand) {
        failed |= buf_printf(to, "            '*:%s:", command->operand);
        failed |= zsh_action(command->operands, to);
        failed |= buf_append_text(to, "' \\\n");
    }
    return failed | buf_append_text(to, "            && return\n        ;;\n");
}

int complete_zsh(struct buf *to)
{
    int failed = 0;

    failed |= buf_append_text(to, "#compdef bailey\n"
                                  "# zsh completion for bailey; put it in a folder of $fpath as "
                                  "_bailey\n"
                                  "_bailey()\n{\n    local -a commands\n    commands=(\n");
    for (size_t i = 0; i < command_count; i++) {
        failed |= buf_printf(to, "        '%s:", command_table[i]->name);
        failed |= zsh_text(command_table[i]->summary, ":\\", to);
        failed |= buf_append_text(to, "'\n");
    }
    failed |= buf_append_text(to, "    )\n"
                                  "    if ((CURRENT == 2)); then\n"
                                  "        _describe command commands\n        return\n    fi\n"
                                  "    shift words\n    ((CURRENT--))\n"
                                  "    case ${words[1]} in\n");
    for (size_t i = 0; i < command_count; i++)
        failed |= zsh_command(command_table[i], to);
    failed |= buf_append_text(to, "    esac\n}\n\n"
                                  "if [[ $funcstack[1] == _bailey ]]; then\n    _bailey \"$@\"\n"
                                  "else\n    compdef _bailey bailey\nfi\n");
    return failed < 0 ? failed : 0;
}

static int run_completion(const struct invocation *invocation)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(256 * KIB);
    const char *shell = invocation->parsed.operands[0];
    int result;

    if (str_equal(shell, "bash")) {
        result = complete_bash(&text);
    } else if (str_equal(shell, "zsh")) {
        result = complete_zsh(&text);
    } else {
        message_print("no completion for the shell '%.60s'; usage: bailey completion bash|zsh",
                      shell ? shell : "");
        return STATUS_BAD_INPUT;
    }
    if (result < 0) {
        message_print("out of memory printing the script");
        return STATUS_BAD_INPUT;
    }
    return print_text(&text);
}

const struct command completion_command = {
    .name = "completion",
    .group = GROUP_SELF,
    .summary = "print a completion script for a shell",
    .usage = "bash|zsh",
    .description =
        "Prints a script that completes bailey's commands and options. Bash: source "
        "<(bailey completion bash). Zsh: bailey completion zsh > _bailey, in a folder of "
        "$fpath.",
    .operand = "SHELL",
    .operands = WORDS_SHELL,
    .operand_max = 1,
    .run = run_completion,
};
