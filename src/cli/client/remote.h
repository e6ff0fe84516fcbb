/*
 * remote.h - calls about files of a session, for ls, cat, rm and cp. Blocks.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_REMOTE_H
#define BAILEY_CLI_CLIENT_REMOTE_H

#include "cli/client/client.h"

/* "/v1/sessions/ID/files{tail}?path=P"; more arguments may be appended. */
int remote_path(struct buf *to, const char *session, const char *tail, const char *path,
                struct error *err);

/* One entry; *ret stays NULL if it does not exist and that is no error. */
int remote_stat(struct client *client, const char *session, const char *path, json_t **ret,
                struct error *err);

/* The listing's reply; depth 0: everything below. */
int remote_list(struct client *client, const char *session, const char *path, unsigned depth,
                json_t **ret, struct error *err);

int remote_mkdir(struct client *client, const char *session, const char *path, struct error *err);

#endif
