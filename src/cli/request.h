/*
 * request.h - the options of `run`, `exec` and their like, taken from the rows into one struct.
 *
 * Borrows strings from argv but for what it had to make (env). request_free() in the end.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_REQUEST_H
#define BAILEY_CLI_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/command.h"
#include "cli/options.h"
#include "oneshot/oneshot.h"

struct request {
    char *const *caller_env; /* where `--env NAME` looks */
    const char *code;        /* -c; NULL: none */
    const char *language;
    const char *out;
    const char *config_file;
    const char *session, *cwd; /* exec in a session */
    char **env;                /* strv of "K=V" */
    struct oneshot_file *files;
    char **file_names; /* strv: the halves of every HOST:BOX, owned here for `files` */
    size_t file_count;
    bool has_stdin, is_raw, is_json, has_timing, has_explain, is_quiet, is_detached;
    bool is_alone; /* no daemon is asked */
};

/* What doctor, config, version and tool understand: a prefix or a part of these rows. */
struct report_request {
    bool is_json, wants_profile;
    const char *config_file;
};
#define REPORT_OPTION_COUNT 2 /* --json, --config */
#define DOCTOR_OPTION_COUNT 3 /* and --seccomp-profile */
extern const struct option_row report_options[DOCTOR_OPTION_COUNT];

/*
 * Options into `request` and `config`. Both belong to the caller, also after an error: then is_json
 * is right, and `config` is what was read until then, maybe nothing.
 */
int request_load(const struct invocation *invocation, struct request *request,
                 struct config *config, struct error *err);

/* config_load() for a command's --config: a missing file is an error that says what to do. */
int request_config(struct config *config, const char *file, char *const *env, struct error *err);
void request_free(struct request *request);

#endif
