/*
 * command.h - what the command line understands: commands and their options as constant rows.
 *
 * Parsing, help, completion and man pages all read the same rows, so that none of them can lie
 * about another. Rows are static; nothing here owns memory. Called by everything in cli/.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_COMMAND_H
#define BAILEY_CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "config/config.h"

struct invocation;
struct parsed;

/* The kind of an operand or value, for completion: a fixed set of words or a kind of name. */
enum words {
    WORDS_ANY, /* free text: nothing is offered */
    WORDS_FILE,
    WORDS_FOLDER,
    WORDS_PROGRAM,
    WORDS_COMMAND,
    WORDS_LANGUAGE,
    WORDS_ISOLATION,
    WORDS_SHELL,
    WORDS_TOOL,
    WORDS_SESSION_ACTION,
    WORDS_DAEMON_ACTION,
    WORDS_CONTEXT_ACTION,
    WORDS_TEMPLATE_ACTION,
    WORDS_KEY_ACTION,
    WORDS_KEY_FORMAT,
    WORDS_AUDIT_ACTION,
    WORDS_IMAGE_ACTION,
    WORDS_SESSION,      /* names of sessions; the daemon knows them, as the next three */
    WORDS_TEMPLATE,     /* names of templates */
    WORDS_SESSION_FILE, /* NAME:PATH */
    WORDS_EITHER_FILE,  /* NAME:PATH, or a file of the host */
    _WORDS_MAX,
};
#define WORDS_LIST_MAX 64

/* Fills a NULL-terminated list with the fixed words of a kind; empty for kinds without. */
void words_list(enum words words, const char *list[WORDS_LIST_MAX]);

struct option_row {
    const char *name;     /* "timeout", without dashes */
    char letter;          /* 't'; 0: no short form */
    const char *argument; /* "SECONDS"; NULL: a switch */
    enum words words;     /* what the argument may be */
    const char *help;     /* one line, no full stop */
    bool is_config;       /* true: the value goes to `key` through config_set() */
    enum config_key key;
    bool hides_default; /* the key's default is not what happens without the option */
    /* Otherwise: stores the value (NULL for a switch) in the command's own target. */
    int (*take)(void *target, const char *value, struct error *err);
};

/* The parts of `bailey help`, in its order. */
enum command_group {
    GROUP_RUN,
    GROUP_SESSIONS,
    GROUP_TEMPLATES,
    GROUP_SERVER,
    GROUP_AGENTS,
    GROUP_SELF,
    _GROUP_MAX,
};
extern const char *const group_titles[_GROUP_MAX];

/* What a command does when --url (BAILEY_URL) names a server. */
enum reach {
    REACH_SERVER, /* the same as with this user's daemon, there */
    REACH_HERE,   /* it is about this machine: refused by place_check() */
    REACH_NONE,   /* it asks no server: nothing changes */
};

struct command {
    const char *name;
    enum command_group group;
    const char *summary;     /* one line for `bailey help` */
    const char *usage;       /* what follows "bailey NAME " */
    const char *description; /* paragraphs separated by an empty line; a line
                                that begins with two blanks stays a line */
    const struct option_row *options;
    size_t option_count;
    const char *operand;       /* how messages and help call an operand; NULL: there are none */
    enum words operands;       /* what an operand may be; the first, if that is an action */
    enum words operands_after; /* what operands after an action may be */
    size_t operand_max;
    bool has_rest;               /* arguments after "--" belong to a program */
    bool rest_starts_at_operand; /* the first operand does what "--" does */
    /*
     * bailey-engine has the code: the row alone is here, for parsing, help and completion, and
     * `run` is NULL.
     */
    bool in_engine;
    enum reach reach;
    /* Of a command that is in both: do these arguments need bailey-engine? NULL: never. */
    bool (*hands_over)(const struct parsed *parsed);
    /* Returns the exit status. */
    int (*run)(const struct invocation *invocation);
    /* How to report invalid arguments when --json is among them; NULL: as text. */
    int (*refuse)(const struct error *err);
};

extern const struct command *const command_table[]; /* in the order of help */
extern const size_t command_count;

/* The rows are beside the code that runs them. */
extern const struct command run_command, exec_command, tool_command, doctor_command, config_command,
    version_command, help_command, completion_command, man_command, serve_command, prompt_command,
    upgrade_command;

/* The daemon's clients: rows in client_rows.c, code in client/. */
extern const struct command session_command, code_command, context_command, shell_command,
    port_command, cp_command, ls_command, cat_command, rm_command, outputs_command, logs_command,
    events_command, ps_command, daemon_command, reload_command, openapi_command, mcp_command,
    template_command, install_command, key_command, audit_command, image_command, ask_command;

/* For completion scripts; not in command_table, so that help does not list it. */
extern const struct command complete_command;

/* Options that every command has: --help, and those that name a server (place.h). */
extern const struct option_row common_options[];
extern const size_t common_option_count;

const struct command *command_find(const char *name); /* NULL when there is none */

/* An error that names the nearest command. Returns -EINVAL. */
int command_unknown(const char *name, struct error *err);

/* Exit statuses that are bailey's own: printed by help and man. */
struct status_row {
    int status;
    const char *meaning;
};
extern const struct status_row status_table[];
extern const size_t status_count;

#define STATUS_BAD_INPUT 125
#define STATUS_REFUSED 126
#define STATUS_NOT_RUNNING 3 /* `daemon status`: as the LSB's init scripts */

#endif
