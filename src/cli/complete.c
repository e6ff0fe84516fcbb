/*
 * complete.c - `bailey completion bash|zsh|fish`: scripts printed from the same rows that parse.
 *
 * Names of sessions and templates are asked for while a line is typed, from `bailey complete`.
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
    [WORDS_ANY] = "return",
    [WORDS_FILE] = "_bailey_reply -f -- \"$current\"",
    [WORDS_FOLDER] = "_bailey_reply -d -- \"$current\"",
    [WORDS_PROGRAM] = "_bailey_reply -c -- \"$current\"",
    [WORDS_SESSION] = "_bailey_names sessions",
    [WORDS_TEMPLATE] = "_bailey_names templates",
    [WORDS_SESSION_FILE] = "_bailey_names sessions :",
    [WORDS_EITHER_FILE] = "_bailey_reply -f -- \"$current\"; _bailey_names sessions :",
};

/* "new ls show" */
static int word_list(enum words words, struct buf *to)
{
    const char *list[WORDS_LIST_MAX];
    int failed = 0;

    words_list(words, list);
    for (size_t i = 0; list[i]; i++)
        failed |= buf_printf(to, "%s%s", i > 0 ? " " : "", list[i]);
    return failed;
}

static bool has_action(const struct command *command)
{
    return str_equal(command->operand, "ACTION");
}

static int bash_reply(enum words words, struct buf *to)
{
    const char *generator = bash_generators[words];
    int failed = 0;

    if (generator)
        return buf_append_text(to, generator);
    failed |= buf_append_text(to, "_bailey_reply -W '");
    failed |= word_list(words, to);
    return failed | buf_append_text(to, "' -- \"$current\"");
}

/* "run --timeout" and the like: what completes the word after an option that takes one. */
static int bash_option_values(const struct command *command, struct buf *to)
{
    const struct option_row *row;
    int failed = 0;

    for (size_t i = 0; (row = options_row_at(command, i)); i++) {
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
    for (size_t i = 0; (row = options_row_at(command, i)); i++)
        failed |= buf_printf(to, "%s--%s", i > 0 ? " " : "", row->name);
    failed |= buf_append_text(to, "' -- \"$current\"\n");
    if (has_action(command)) {
        failed |= buf_append_text(to, "        elif _bailey_has '");
        failed |= word_list(command->operands, to);
        failed |= buf_append_text(to, "'; then\n            ");
        failed |= bash_reply(command->operands_after, to);
        failed |= buf_append_text(to, "\n");
    }
    failed |= buf_append_text(to, "        else\n            ");
    failed |= bash_reply(command->operands, to);
    return failed | buf_append_text(to, "\n        fi\n        ;;\n");
}

int complete_bash(struct buf *to)
{
    int failed = 0;

    failed |= buf_append_text(
        to, "# bash completion for bailey; load it with: source <(bailey completion bash)\n"
            "_bailey_reply()\n{\n    mapfile -t COMPREPLY < <(compgen \"$@\")\n}\n\n"
            "# Adds the names of a kind, each followed by $2.\n"
            "_bailey_names()\n{\n    local names\n"
            "    names=$(\"${COMP_WORDS[0]}\" complete \"$1\" 2>/dev/null)\n"
            "    [[ $names ]] || return\n"
            "    if [[ ${#COMPREPLY[@]} -eq 0 ]]; then compopt +o filenames 2>/dev/null; fi\n"
            "    if [[ $2 ]]; then compopt -o nospace 2>/dev/null; fi\n"
            "    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <("
            "compgen -S \"$2\" -W \"$names\" -- \"$current\")\n}\n\n"
            "# Whether one of the words in $1 was written.\n"
            "_bailey_has()\n{\n    local word\n"
            "    for word in \"${COMP_WORDS[@]:2:COMP_CWORD - 2}\"; do\n"
            "        if [[ \" $1 \" == *\" $word \"* ]]; then return 0; fi\n"
            "    done\n    return 1\n}\n\n"
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
    /* After a space: _arguments does not put options of compadd between its words. */
    static const char *const actions[_WORDS_MAX] = {
        [WORDS_ANY] = " ",
        [WORDS_FILE] = "_files",
        [WORDS_FOLDER] = "_files -/",
        [WORDS_PROGRAM] = "_command_names -e",
        [WORDS_SESSION] = " _bailey_names sessions",
        [WORDS_TEMPLATE] = " _bailey_names templates",
        [WORDS_SESSION_FILE] = " _bailey_files",
        [WORDS_EITHER_FILE] = " _bailey_files host",
    };
    int failed = 0;

    if (actions[words])
        return buf_append_text(to, actions[words]);
    failed |= buf_append_text(to, "(");
    failed |= word_list(words, to);
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

    for (size_t i = 0; (row = options_row_at(command, i)); i++) {
        if (row->letter)
            failed |= zsh_option(row, true, to);
        failed |= zsh_option(row, false, to);
    }
    if (has_action(command)) {
        failed |= buf_append_text(to, "            '1:ACTION:");
        failed |= zsh_action(command->operands, to);
        failed |= buf_append_text(to, "' \\\n");
    }
    if (command->operand) {
        failed |= buf_append_text(to, "            '*:");
        failed |= zsh_text(command->operand, ":\\", to);
        failed |= buf_append_text(to, ":");
        failed |= zsh_action(has_action(command) ? command->operands_after : command->operands, to);
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
                                  "_bailey_names()\n{\n    local -a names\n"
                                  "    names=(${(f)\"$($program complete $1 2>/dev/null)\"})\n"
                                  "    compadd -S \"${2- }\" -- $names\n}\n\n"
                                  "_bailey_files()\n{\n    _bailey_names sessions :\n"
                                  "    if [[ $1 == host ]]; then _files; fi\n}\n\n"
                                  "_bailey()\n{\n    local program=$words[1]\n"
                                  "    local -a commands\n    commands=(\n");
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

/* A text in single quotes of fish. */
static int fish_text(const char *text, struct buf *to)
{
    int failed = buf_append_text(to, "'");

    for (; *text; text++)
        failed |= strchr("'\\", *text) ? buf_printf(to, "\\%c", *text) : buf_append(to, text, 1);
    return failed | buf_append_text(to, "'");
}

/* What an operand or the value of an option may be; `is_value`: it is needed. */
static int fish_words(enum words words, bool is_value, struct buf *to)
{
    static const char *const actions[_WORDS_MAX] = {
        [WORDS_ANY] = "",
        [WORDS_FILE] = " -F",
        [WORDS_FOLDER] = " -f -a '(__fish_complete_directories)'",
        [WORDS_PROGRAM] = " -f -a '(__fish_complete_command)'",
        [WORDS_SESSION] = " -f -a '(bailey complete sessions 2>/dev/null)'",
        [WORDS_TEMPLATE] = " -f -a '(bailey complete templates 2>/dev/null)'",
        [WORDS_SESSION_FILE] = " -f -a '(bailey complete sessions 2>/dev/null):'",
        [WORDS_EITHER_FILE] = " -F -a '(bailey complete sessions 2>/dev/null):'",
    };
    int failed = is_value ? buf_append_text(to, " -r") : 0;

    if (actions[words])
        return failed |
               buf_append_text(to, is_value && !actions[words][0] ? " -f" : actions[words]);
    failed |= buf_append_text(to, " -f -a '");
    failed |= word_list(words, to);
    return failed | buf_append_text(to, "'");
}

static int fish_command(const struct command *command, struct buf *to)
{
    const struct option_row *row;
    int failed =
        buf_printf(to, "complete -c bailey -n __bailey_needs_command -a %s -d ", command->name);

    failed |= fish_text(command->summary, to);
    failed |= buf_append_text(to, "\n");
    for (size_t i = 0; (row = options_row_at(command, i)); i++) {
        failed |= buf_printf(to, "complete -c bailey -n '__bailey_uses %s' -l %s", command->name,
                             row->name);
        if (row->letter)
            failed |= buf_printf(to, " -s %c", row->letter);
        if (row->argument)
            failed |= fish_words(row->words, true, to);
        failed |= buf_append_text(to, " -d ");
        failed |= fish_text(row->help, to);
        failed |= buf_append_text(to, "\n");
    }
    if (has_action(command)) {
        failed |= buf_printf(to, "complete -c bailey -n '__bailey_uses %s; and not __bailey_has ",
                             command->name);
        failed |= word_list(command->operands, to);
        failed |= buf_append_text(to, "'");
        failed |= fish_words(command->operands, false, to);
        failed |= buf_printf(to, "\ncomplete -c bailey -n '__bailey_uses %s; and __bailey_has ",
                             command->name);
        failed |= word_list(command->operands, to);
        failed |= buf_append_text(to, "'");
        failed |= fish_words(command->operands_after, false, to);
        failed |= buf_append_text(to, "\n");
    } else if (command->operand) {
        failed |= buf_printf(to, "complete -c bailey -n '__bailey_uses %s'", command->name);
        failed |= fish_words(command->operands, false, to);
        failed |= buf_append_text(to, "\n");
    }
    return failed;
}

int complete_fish(struct buf *to)
{
    int failed = buf_append_text(
        to, "# fish completion for bailey; put it in ~/.config/fish/completions/bailey.fish\n"
            "function __bailey_needs_command\n    test (count (commandline -opc)) -eq 1\nend\n\n"
            "function __bailey_uses\n    set -l words (commandline -opc)\n"
            "    test (count $words) -gt 1; and test $words[2] = $argv[1]\nend\n\n"
            "function __bailey_has\n    set -l words (commandline -opc)\n"
            "    for word in $words[3..-1]\n"
            "        if contains -- $word $argv\n            return 0\n        end\n    end\n"
            "    return 1\nend\n\ncomplete -c bailey -f\n");

    for (size_t i = 0; i < command_count; i++)
        failed |= fish_command(command_table[i], to);
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
    } else if (str_equal(shell, "fish")) {
        result = complete_fish(&text);
    } else {
        if (shell)
            message_print("no completion for the shell '%.60s'; usage: bailey completion "
                          "bash|zsh|fish",
                          shell);
        else
            message_print("which shell? usage: bailey completion bash|zsh|fish");
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
    .usage = "bash|zsh|fish",
    .description =
        "Prints a script that completes bailey's commands and options, and the names of sessions "
        "and templates if a daemon is running. Bash: source <(bailey completion bash). Zsh: bailey "
        "completion zsh > _bailey, in a folder of $fpath. Fish: bailey completion fish > "
        "~/.config/fish/completions/bailey.fish",
    .operand = "SHELL",
    .operands = WORDS_SHELL,
    .operand_max = 1,
    .run = run_completion,
    .reach = REACH_NONE,
};
