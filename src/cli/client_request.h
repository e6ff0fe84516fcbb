/*
 * client_request.h - the options of the commands that talk to the daemon, in one struct.
 *
 * Each command has its own rows (client_rows.c) and uses the members that they fill. Borrows
 * strings from argv except for the lists: client_request_free() frees them.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_REQUEST_H
#define BAILEY_CLI_CLIENT_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/options.h"

struct client_request {
    char *const *caller_env; /* where `--env NAME` looks */
    const char *session;
    const char *name;
    const char *config_file;
    const char *cwd;
    const char *attach; /* an execution that runs already */
    const char *template_name;
    const char *language, *context, *code; /* of a cell */
    const char *out;                       /* a folder for its pictures */
    const char *timeout;
    const char *local; /* a port of this machine */
    bool has_stdin, has_no_history;
    char **env;                    /* strv of "K=V" */
    char **data;                   /* strv of "NAME=FILE" */
    char **files;                  /* strv of --file */
    uint64_t idle_ms, max_age_ms;  /* 0: as configured */
    const char *tenant, *scopes;   /* of a key */
    const char *format;            /* its spelling */
    uint64_t expires_ms, grace_ms; /* of a key; 0: never, at once */
    bool is_json, is_quiet, is_raw, is_all, is_recursive, follows, is_forced;
};

int client_request_load(const struct invocation *invocation, struct client_request *request,
                        struct error *err);
void client_request_free(struct client_request *request);

/* A new --env in a list: NAME=VALUE, or NAME alone with the caller's value. */
int env_push(char ***list, char *const *caller_env, const char *value, struct error *err);

/* Was the option of this name written? Its last value in *ret_value (may be NULL). */
bool option_given(const struct parsed *parsed, const char *name, const char **ret_value);

#endif
