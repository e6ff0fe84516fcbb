/*
 * options.h - argv into a checked list of options and operands, by the rows of a command.
 *
 * Pure: no I/O, no configuration; fuzzed. A parsed struct borrows every string from argv and owns
 * only its arrays: parsed_free() in the end, also after an error.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_OPTIONS_H
#define BAILEY_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/command.h"

struct option_use {
    const struct option_row *row;
    const char *value; /* NULL for a switch */
};

struct parsed {
    struct option_use *uses; /* in the order they were written */
    size_t use_count;
    const char **operands; /* NULL-terminated */
    size_t operand_count;
    const char *const *rest; /* after "--"; NULL-terminated, never NULL */
    size_t rest_count;
    bool has_rest;   /* "--" was there, or an operand that did its work */
    bool wants_help; /* --help: nothing else matters */
};

/* One command about to run. */
struct invocation {
    const struct command *command;
    struct parsed parsed;
    char *const *env;     /* environ */
    bool stdin_is_closed; /* descriptor 0 was closed when bailey started */
};

/* Every option of a command, its own first; NULL after the last. */
const struct option_row *options_row_at(const struct command *command, size_t index);

/* `argv` starts after the command's name and is NULL-terminated. Errors are ERROR_BAD_INPUT. */
int options_parse(const struct command *command, int argc, const char *const *argv,
                  struct parsed *ret, struct error *err);
void parsed_free(struct parsed *parsed);

/* Calls take() of every option that has one. */
int options_take(const struct parsed *parsed, void *target, struct error *err);

/* Lays every option that names a configuration key over `config`, then checks the whole. */
int options_configure(const struct parsed *parsed, struct config *config, struct error *err);

#endif
