/*
 * help.h - the printers that read the rows: help, completion scripts, man pages. Pure: they print
 * into a buffer and fail only when it is full or memory is out (but help_print()).
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_HELP_H
#define BAILEY_CLI_HELP_H

#include "base/buf.h"
#include "cli/command.h"

int help_overview(struct buf *to); /* `bailey help` */
int help_short(struct buf *to);    /* `bailey` alone */
int help_command_text(const struct command *command, struct buf *to);

/* Prints a help on standard output, on a terminal with coloured headings; an exit status. */
int help_show(const struct buf *text);

int complete_bash(struct buf *to);
int complete_zsh(struct buf *to);
int complete_fish(struct buf *to);

int man_overview(struct buf *to);
int man_command_page(const struct command *command, struct buf *to);

/* What `bailey help` and `bailey man` do: one command's page, or the overview; an exit status. */
int help_print(const struct invocation *invocation,
               int (*command_page)(const struct command *command, struct buf *to),
               int (*overview)(struct buf *to));

/* The rows of a command, then the common ones; NULL after the last. */
const struct option_row *help_row_at(const struct command *command, size_t index);

/* " (default 30)" after an option's help if its key has a default; else empty. */
const char *help_default(const struct option_row *row, char *text, size_t size);

#endif
