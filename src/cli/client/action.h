/*
 * action.h - commands whose first operand is an action (`bailey session new|ls|...`): a row each.
 *
 * action_run() takes the options, finds the row, checks how many operands there are and which
 * options were written, and calls the row; an error names the action that was probably meant. The
 * names are those of the command's `operands` (command.h). list, create and delete are also ls, new
 * and rm.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_ACTION_H
#define BAILEY_CLI_CLIENT_ACTION_H

#include <stddef.h>

#include "cli/client/client.h"
#include "cli/client_request.h"

struct action_job {
    const struct invocation *invocation;
    const struct action *action;
    struct client_request request;
    struct client client;  /* action_open() */
    const char **operands; /* after the action; NULL-terminated */
    size_t operand_count;
};

struct action {
    const char *name;
    size_t operands_min, operands_max;
    const char *usage; /* what follows "bailey COMMAND "; NULL: the command's own */
    /*
     * Options that it takes beside --json and --config; NULL: all. An action with operands that
     * names "session" gets the session of -s NAME as its first operand.
     */
    const char *options;
    int (*run)(struct action_job *job); /* returns the exit status */
    bool brings_settings; /* the caller's settings go with its calls, and are honoured or refused */
};

/*
 * The error for an action that a command does not have, or for none (name NULL): the nearest, or
 * all of them. Returns -EINVAL.
 */
int action_unknown(const struct command *command, const char *name, struct error *err);

/* Returns the exit status. */
int action_run(const struct invocation *invocation, const struct action *rows, size_t count);

/* Connects to the daemon, and starts one if none is running. */
int action_open(struct action_job *job, struct error *err);

/*
 * `ls`: the list under `member` of the reply to GET `path`, as a table, as JSON, or with --quiet
 * one `name` per line. Returns the exit status.
 */
int action_list(struct action_job *job, const char *path, const char *member, const char *name,
                int (*table)(json_t *list));

#endif
