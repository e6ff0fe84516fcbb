/* help.c - `bailey help` and `bailey COMMAND --help`, printed from the rows that parse. */
#include "cli/help.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/colour.h"
#include "cli/message.h"
#include "cli/option_setters.h"
#include "cli/options.h"

#define HELP_WIDTH 80
#define HELP_COLUMN 28
#define HELP_SHORT_COLUMN 24

const struct option_row *help_row_at(const struct command *command, size_t index)
{
    if (index < command->option_count)
        return &command->options[index];
    index -= command->option_count;
    return index < 1 ? &common_options[index] : NULL; /* the others: server_lines() */
}

const char *help_default(const struct option_row *row, char *text, size_t size)
{
    bool has_default = row->is_config && !row->hides_default;
    const char *fallback = has_default ? config_table[row->key].fallback : NULL;

    text[0] = 0;
    if (fallback && fallback[0])
        str_format(text, size, " (default %s)", fallback);
    return text;
}

/* Words of `text` from column `at` on, broken at the width, continued at `indent`. */
static int wrap(struct buf *to, const char *text, size_t at, size_t indent)
{
    int failed = 0;
    bool is_first = true;

    while (*text) {
        size_t length = strcspn(text, " \n");

        if (!is_first && at + 1 + length > HELP_WIDTH) {
            failed |= buf_printf(to, "\n%*s", (int)indent, "");
            at = indent;
        } else if (!is_first) {
            failed |= buf_append_text(to, " ");
            at++;
        }
        failed |= buf_append(to, text, length);
        at += length;
        is_first = false;
        text += length;
        while (str_starts(text, "\n  ")) { /* a command to copy stays on a line of its own */
            length = 1 + strcspn(text + 1, "\n");
            failed |= buf_append(to, text, length);
            text += length;
        }
        if (text[0] == '\n' && text[1] == '\n') {
            failed |= buf_printf(to, "\n\n%*s", (int)indent, "");
            at = indent;
            is_first = true;
        }
        text += strspn(text, " \n");
    }
    return failed | buf_append_text(to, "\n");
}

static int option_lines(const struct option_row *row, struct buf *to)
{
    char left[64], fallback[128], help[512];
    char letter[8] = "    ";
    size_t length;
    int failed = 0;

    if (row->letter)
        str_format(letter, sizeof(letter), "-%c, ", row->letter);
    str_format(left, sizeof(left), "  %s--%s%s%s", letter, row->name, row->argument ? " " : "",
               row->argument ? row->argument : "");
    str_format(help, sizeof(help), "%s%s", row->help,
               help_default(row, fallback, sizeof(fallback)));
    length = strlen(left);
    failed |= buf_append_text(to, left);
    if (length + 2 > HELP_COLUMN) {
        failed |= buf_append_text(to, "\n");
        length = 0;
    }
    failed |= buf_printf(to, "%*s", (int)(HELP_COLUMN - length), "");
    return failed | wrap(to, help, HELP_COLUMN, HELP_COLUMN);
}

static int status_lines(struct buf *to)
{
    int failed = buf_append_text(to, "\nExit status:\n");

    for (size_t i = 0; i < status_count; i++) {
        failed |= buf_printf(to, "  %-5d", status_table[i].status);
        failed |= wrap(to, status_table[i].meaning, 7, 7);
    }
    return failed;
}

/* Options that name a server: every command has them, so they are shown once. */
static int server_lines(struct buf *to)
{
    int failed = buf_append_text(to, "\nOptions that name a server, before or after COMMAND:\n");

    for (size_t i = 1; i < common_option_count; i++)
        failed |= option_lines(&common_options[i], to);
    return failed;
}

int help_command_text(const struct command *command, struct buf *to)
{
    const struct option_row *row;
    int failed = 0;

    failed |= buf_printf(to, "Usage: bailey %s %s\n\n", command->name, command->usage);
    failed |= wrap(to, command->description, 0, 0);
    failed |= buf_append_text(to, "\nOptions:\n");
    for (size_t i = 0; (row = help_row_at(command, i)); i++)
        failed |= option_lines(row, to);
    if (command->reach == REACH_SERVER)
        failed |= buf_append_text(to, "\nWith --url URL it works on that server: 'bailey help' "
                                      "shows the options.\n");
    if (command->has_rest)
        failed |= status_lines(to);
    return failed < 0 ? failed : 0;
}

#define HELP_BEGINNING \
    "Bailey runs code that an AI agent wrote, in a sandbox.\n\nUsage: bailey COMMAND [options]\n"

int help_overview(struct buf *to)
{
    int failed = buf_append_text(to, HELP_BEGINNING);

    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = command_table[i];

        if (i == 0 || command->group != command_table[i - 1]->group)
            failed |= buf_printf(to, "\n%s:\n", group_titles[command->group]);
        failed |= buf_printf(to, "  %-12s%s\n", command->name, command->summary);
    }
    failed |= server_lines(to);
    failed |= status_lines(to);
    failed |= buf_append_text(to, "\n'bailey help COMMAND' shows a command's options.\n"
                                  "Try: bailey run -c \"print('Hello')\"\n");
    return failed < 0 ? failed : 0;
}

int help_short(struct buf *to)
{
    int failed = buf_append_text(to, HELP_BEGINNING "\n");

    for (size_t group = 0; group < _GROUP_MAX; group++) {
        CLEANUP(buf_free) struct buf names = BUF_INIT(4 * KIB);

        for (size_t i = 0; i < command_count; i++)
            if (command_table[i]->group == group)
                failed |= buf_printf(&names, "%s ", command_table[i]->name);
        failed |= buf_printf(to, "  %-*s", HELP_SHORT_COLUMN - 2, group_titles[group]);
        failed |= wrap(to, buf_text(&names), HELP_SHORT_COLUMN, HELP_SHORT_COLUMN);
    }
    failed |= buf_append_text(
        to, "\nTo begin:\n"
            "  bailey run -c \"print('Hello')\"     run code in a fresh box\n"
            "  bailey session new -s work         make a box that keeps files and variables\n"
            "  bailey code -s work -c 'x = 41'    run code in it\n"
            "  bailey doctor                      see what isolates code on this machine\n"
            "\n'bailey help' describes every command, 'bailey help COMMAND' its options.\n");
    return failed < 0 ? failed : 0;
}

/* "Options:" and the like, and what "Usage: ..." begins with. Returns the heading's length, or 0.
 */
static size_t heading_length(const char *line, size_t length)
{
    static const char *const others[] = {"Options", "Exit status", "To begin", "Example"};
    bool is_heading = false;

    if (str_starts(line, "Usage:"))
        return strlen("Usage:");
    if (length == 0 || line[length - 1] != ':')
        return 0;
    for (size_t i = 0; i < _GROUP_MAX; i++)
        is_heading |= strlen(group_titles[i]) == length - 1 && str_starts(line, group_titles[i]);
    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        is_heading |= strlen(others[i]) == length - 1 && str_starts(line, others[i]);
    return is_heading ? length : 0;
}

int help_show(const struct buf *text)
{
    CLEANUP(buf_free) struct buf coloured = BUF_INIT(512 * KIB);
    const char *begin = colour_begin(STDOUT_FILENO, COLOUR_HEADING);
    int failed = 0;

    if (!begin[0])
        return print_text(text);
    for (const char *line = buf_text(text); *line;) {
        size_t length = strcspn(line, "\n"), heading = heading_length(line, length);

        if (heading > 0)
            failed |= buf_printf(&coloured, "%s%.*s%s", begin, (int)heading, line,
                                 colour_end(STDOUT_FILENO));
        length += line[length] == '\n';
        failed |= buf_append(&coloured, line + heading, length - heading);
        line += length;
    }
    return print_text(failed < 0 ? text : &coloured);
}

int help_print(const struct invocation *invocation,
               int (*command_page)(const struct command *command, struct buf *to),
               int (*overview)(struct buf *to))
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(256 * KIB);
    const char *name = invocation->parsed.operands[0];
    const struct command *command = command_find(name);
    struct error err = {0};

    if (name && !command) {
        command_unknown(name, &err);
        return message_bad_input(&err);
    }
    if ((command ? command_page(command, &text) : overview(&text)) < 0) {
        message_print("out of memory printing the page");
        return STATUS_BAD_INPUT;
    }
    return help_show(&text);
}

struct help_request {
    bool names_only;
};
OPTION_SETS_SWITCH(take_names_only, struct help_request, names_only)

/* For scripts: a name per line. */
static int print_names(void)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(16 * KIB);
    int failed = 0;

    for (size_t i = 0; i < command_count; i++)
        failed |= buf_printf(&text, "%s\n", command_table[i]->name);
    if (failed < 0) {
        message_print("out of memory printing the names");
        return STATUS_BAD_INPUT;
    }
    return print_text(&text);
}

static int run_help(const struct invocation *invocation)
{
    struct help_request request = {0};
    struct error err = {0};

    if (options_take(&invocation->parsed, &request, &err) < 0)
        return message_bad_input(&err);
    if (request.names_only)
        return print_names();
    return help_print(invocation, help_command_text, help_overview);
}

static const struct option_row help_options[] = {
    {.name = "names",
     .help = "print only the names of the commands, one per line",
     .take = take_names_only},
};

const struct command help_command = {
    .name = "help",
    .group = GROUP_SELF,
    .summary = "show what a command does and its options",
    .usage = "[COMMAND] | --names",
    .description = "Shows the commands, or one command with all its options and their defaults.",
    .options = help_options,
    .option_count = ARRAY_SIZE(help_options),
    .operand = "COMMAND",
    .operands = WORDS_COMMAND,
    .operand_max = 1,
    .run = run_help,
    .reach = REACH_NONE,
};
