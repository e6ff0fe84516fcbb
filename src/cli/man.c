/* man.c - `bailey man [COMMAND]`: manual pages in roff, printed from the same rows that parse. */
#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/help.h"
#include "cli/options.h"
#include "cli/version.h"

/*
 * Text into roff: backslashes and dashes are escaped (a plain - may become a typographic hyphen,
 * which a shell does not understand), and a line that begins with a control character gets a \&
 * before it.
 */
static int roff(const char *text, struct buf *to)
{
    bool is_line_start = true;
    int failed = 0;

    for (; *text; text++) {
        if (text[0] == '\n' && text[1] == '\n') {
            failed |= buf_append_text(to, "\n.PP\n");
            text++;
            is_line_start = true;
            continue;
        }
        if (is_line_start && (*text == '.' || *text == '\''))
            failed |= buf_append_text(to, "\\&");
        is_line_start = *text == '\n';
        if (*text == '-')
            failed |= buf_append_text(to, "\\-");
        else if (*text == '\\')
            failed |= buf_append_text(to, "\\e");
        else
            failed |= buf_append(to, text, 1);
    }
    return failed;
}

static int title(const char *name, const char *summary, struct buf *to)
{
    int failed = buf_append_text(to, ".TH BAILEY");

    if (name) {
        failed |= buf_append_text(to, "\\-");
        for (const char *at = name; *at; at++)
            failed |= buf_printf(to, "%c", toupper((unsigned char)*at));
    }
    failed |= buf_printf(to, " 1 \"\" \"bailey %s\" \"Bailey manual\"\n.SH NAME\n", BAILEY_VERSION);
    failed |= buf_printf(to, "bailey%s%s \\- ", name ? "\\-" : "", name ? name : "");
    failed |= roff(summary, to);
    return failed | buf_append_text(to, "\n");
}

static int option_entry(const struct option_row *row, struct buf *to)
{
    char fallback[128], allowed[CONFIG_ALLOWED_MAX];
    int failed = buf_append_text(to, ".TP\n");

    if (row->letter)
        failed |= buf_printf(to, "\\fB\\-%c\\fR, ", row->letter);
    failed |= buf_append_text(to, "\\fB\\-\\-");
    failed |= roff(row->name, to);
    failed |= buf_append_text(to, "\\fR");
    if (row->argument) {
        failed |= buf_append_text(to, " \\fI");
        failed |= roff(row->argument, to);
        failed |= buf_append_text(to, "\\fR");
    }
    failed |= buf_append_text(to, "\n");
    failed |= roff(row->help, to);
    failed |= roff(help_default(row, fallback, sizeof(fallback)), to);
    failed |= buf_append_text(to, ".\n");
    if (row->is_config && config_allowed(row->key, allowed)) {
        failed |= buf_append_text(to, "Allowed: ");
        failed |= roff(config_allowed(row->key, allowed), to);
        failed |= buf_append_text(to, ".\n");
    }
    if (row->is_config && config_table[row->key].env)
        failed |= buf_printf(to, "Also \\fB%s\\fR.\n", config_table[row->key].env);
    return failed;
}

static int statuses(struct buf *to)
{
    int failed = buf_append_text(to, ".SH EXIT STATUS\n");

    for (size_t i = 0; i < status_count; i++) {
        failed |= buf_printf(to, ".TP\n\\fB%d\\fR\n", status_table[i].status);
        failed |= roff(status_table[i].meaning, to);
        failed |= buf_append_text(to, ".\n");
    }
    return failed;
}

int man_command_page(const struct command *command, struct buf *to)
{
    const struct option_row *row;
    int failed = title(command->name, command->summary, to);

    failed |= buf_printf(to, ".SH SYNOPSIS\n\\fBbailey %s\\fR ", command->name);
    failed |= roff(command->usage, to);
    failed |= buf_append_text(to, "\n.SH DESCRIPTION\n");
    failed |= roff(command->description, to);
    failed |= buf_append_text(to, "\n.SH OPTIONS\n");
    for (size_t i = 0; (row = help_row_at(command, i)); i++)
        failed |= option_entry(row, to);
    if (command->has_rest)
        failed |= statuses(to);
    failed |= buf_append_text(to, ".SH SEE ALSO\n.BR bailey (1)\n");
    return failed < 0 ? failed : 0;
}

static int variables(struct buf *to)
{
    int failed = buf_append_text(to, ".SH ENVIRONMENT\nFlags go over the environment, the "
                                     "environment over \\fBbailey.yaml\\fR.\n");

    for (size_t i = 0; i < _KEY_MAX; i++) {
        const struct config_row *row = &config_table[i];
        char list[CONFIG_ALLOWED_MAX];
        const char *allowed = config_allowed((enum config_key)i, list);

        failed |= buf_append_text(to, ".TP\n\\fB");
        failed |= roff(row->env ? row->env : row->yaml, to);
        failed |= buf_append_text(to, "\\fR");
        if (row->env && row->yaml) {
            failed |= buf_append_text(to, " (");
            failed |= roff(row->yaml, to);
            failed |= buf_append_text(to, ")");
        }
        failed |= buf_append_text(to, "\n");
        failed |= roff(row->help ? row->help : "", to);
        if (allowed) {
            failed |= buf_append_text(to, "; allowed: ");
            failed |= roff(allowed, to);
        }
        if (row->fallback && row->fallback[0]) {
            failed |= buf_append_text(to, "; default: ");
            failed |= roff(row->fallback, to);
        }
        failed |= buf_printf(to, "; belongs to: %s.\n", config_place_name(row->place));
    }
    return failed;
}

int man_overview(struct buf *to)
{
    int failed = title(NULL, "run code that an AI agent wrote, in a sandbox", to);

    failed |= buf_append_text(to, ".SH SYNOPSIS\n\\fBbailey\\fR \\fICOMMAND\\fR [options]\n"
                                  ".SH COMMANDS\n");
    for (size_t i = 0; i < command_count; i++) {
        failed |= buf_printf(to, ".TP\n\\fB%s\\fR ", command_table[i]->name);
        failed |= roff(command_table[i]->usage, to);
        failed |= buf_append_text(to, "\n");
        failed |= roff(command_table[i]->summary, to);
        failed |= buf_append_text(to, ".\n");
    }
    failed |= buf_append_text(to, ".SH OPTIONS\nBefore or after COMMAND, for a server on another "
                                  "machine:\n");
    for (size_t i = 1; i < common_option_count; i++)
        failed |= option_entry(&common_options[i], to);
    failed |= statuses(to);
    failed |= variables(to);
    failed |= buf_append_text(to, ".SH FILES\n\\fB$BAILEY_CONFIG\\fR, \\fB./bailey.yaml\\fR, "
                                  "\\fB~/.config/bailey/bailey.yaml\\fR, "
                                  "\\fB/etc/bailey/bailey.yaml\\fR: the first that exists.\n"
                                  ".SH SEE ALSO\n");
    for (size_t i = 0; i < command_count; i++)
        failed |= buf_printf(to, ".BR bailey\\-%s (1)%s\n", command_table[i]->name,
                             i + 1 < command_count ? "," : "");
    return failed < 0 ? failed : 0;
}

static int run_man(const struct invocation *invocation)
{
    return help_print(invocation, man_command_page, man_overview);
}

const struct command man_command = {
    .name = "man",
    .group = GROUP_SELF,
    .summary = "print a manual page",
    .usage = "[COMMAND]",
    .description =
        "Prints the manual page of bailey or of one command, in roff. To read one: bailey "
        "man run | man -l -",
    .operand = "COMMAND",
    .operands = WORDS_COMMAND,
    .operand_max = 1,
    .run = run_man,
    .reach = REACH_NONE,
};
