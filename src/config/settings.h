/*
 * settings.h - the settings of a caller: what it sends to a daemon, and what a daemon's
 * configuration becomes with them.
 *
 * Settings are an object {KEY: text}, with the names of config_key_name(). A caller sends what it
 * set itself (flag, environment, file) and no defaults; config_row.place says what the daemon does
 * with it. A setting that cannot be honoured is an error that names its key; none is dropped. Pure.
 *
 * Runs in: broker, hosts, supervisor, commands
 */
#ifndef BAILEY_CONFIG_SETTINGS_H
#define BAILEY_CONFIG_SETTINGS_H

#include "config/config.h"

#define SETTINGS_HEADER "Bailey-Settings" /* of HTTP: the object as one line of ASCII */
#define SETTINGS_MAX (12 * 1024)          /* bytes of that line */

/* What the caller set itself; a new reference, NULL: no memory. */
json_t *settings_of(const struct config *config);

/*
 * The line "Bailey-Settings: {...}" for a request; empty without settings. -EFBIG (with an error
 * that says so), -ENOMEM. is_elsewhere: the server may be on another machine, and keys of a daemon,
 * which describe the one of this machine, are not sent unless a flag has them.
 */
int settings_header(const struct config *config, bool is_elsewhere, struct buf *line,
                    struct error *err);

struct settings_server {
    const struct config *config;
    const char *state;   /* the state folder in use; NULL: unknown, and not compared */
    bool only_tightens;  /* the caller may not ask for more than the configuration gives */
    bool has_no_ceiling; /* boxes may exceed the configuration's limits */
};
/*
 * The server's configuration with the settings applied, checked; the caller frees it. Errors:
 * bad_input (unknown key, wrong value, more than is allowed), setting_differs (a daemon's key).
 */
int settings_apply(const struct settings_server *server, json_t *settings, struct config *ret,
                   struct error *err);

/*
 * Gives keys of calls and sessions their defaults. For a daemon that a command started: it serves
 * other callers too, and each of them, its starter included, brings its own.
 */
int settings_keep_daemon(struct config *config, struct error *err);

/* The configuration for boxes of another type than its own; the caller frees it. */
int settings_for_type(const struct config *config, const char *type, struct config *ret,
                      struct error *err);

/*
 * Whether the session's configuration `have` has what the settings say about keys of sessions.
 * Error: setting_differs.
 */
int settings_check_session(const struct config *have, json_t *settings, const char *session,
                           struct error *err);

/* Whether the settings have a key; its text, or NULL. Borrowed. */
const char *settings_get(json_t *settings, enum config_key key);

/*
 * Sets the keys of `place` that `from` has; 0 or -ENOMEM. `from` NULL: none.
 */
int settings_add(json_t *settings, json_t *from, enum config_place place);

/* Sets every key of sessions to the text that the configuration has; 0 or -ENOMEM. */
int settings_fix(json_t *settings, const struct config *config);

#endif
