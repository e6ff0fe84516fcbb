/*
 * client.h - the command line's connection to the daemon: reaching it, calls in JSON, its errors.
 *
 * Blocks. One thread. client_open() starts a daemon if none is running and `start` asks for it.
 * With --url (cli/place.h) it is that server, nothing is started, and nothing falls back to this
 * machine.
 * Errors of the API become a struct error with the API's code and message.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_CLIENT_H
#define BAILEY_CLI_CLIENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/paths.h"
#include "config/config.h"
#include "http/client.h"

typedef struct json_t json_t;

struct client {
    struct http_client *http;
    struct config config;
    struct paths paths;
    struct buf settings; /* client_bring_settings(): the header's line; empty: none */
    const char *url;     /* --url: a server that may be on another machine; NULL: the daemon */
};

enum client_start {
    CLIENT_STARTS,  /* starts a daemon if none is running */
    CLIENT_LOOKS,   /* ERROR_NO_DAEMON if none is running */
    CLIENT_NO_CALL, /* only loads the configuration and paths: no connection is made */
};
int client_open(struct client *client, const char *config_file, char *const *env,
                enum client_start start, struct error *err);
void client_close(struct client *client); /* for CLEANUP(); may be called twice */

/*
 * From now on every call brings the caller's settings (config/settings.h): flags of the command
 * line, environment and file. For commands that make or use a session.
 */
struct invocation;
int client_bring_settings(struct client *client, const struct invocation *invocation,
                          struct error *err);

/*
 * One call. `body` (may be NULL) is taken over. The reply is a new reference. A call that changes
 * nothing is repeated if the broker went away meanwhile.
 */
int client_call(struct client *client, const char *method, const char *path, json_t *body,
                json_t **ret, struct error *err);

/* "{"error":{"code","message"}}" of a status of 400 and more into `err`. Returns err->num. */
int client_api_error(unsigned status, const char *body, size_t length, struct error *err);

/* Whether the daemon lives, even if its broker is being restarted. */
bool client_is_alive(const struct client *client);

/* "/v1/sessions/ID" followed by `tail`. 0 or -ENOMEM with err. */
int client_session_path(struct buf *path, const char *session, const char *tail, struct error *err);
/* "?name=value" or "&name=value", encoded. */
int client_query(struct buf *path, const char *name, const char *value, struct error *err);

/* Prints an error, as JSON if the caller wants JSON, and returns the exit status. */
int client_fail(bool is_json, const struct error *err);

/*
 * How many characters of "name" are needed to distinguish the members of `list`, FORMAT_ID at
 * least.
 */
size_t client_id_length(json_t *list, const char *name);

/* A string member; "" if it is missing. Borrowed. */
const char *member_text(json_t *json, const char *name);

void json_freep(json_t **json); /* for CLEANUP() */

#define PATH_BUF BUF_INIT(64 * 1024)

#endif
