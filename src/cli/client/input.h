/*
 * input.h - sends bytes to a command's standard input or terminal while its output is read.
 *
 * One request at a time, in the order of the bytes; only the next request waits for it, so a
 * command that writes without reading cannot block the client. Callbacks come from
 * http_client_wait() only.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_INPUT_H
#define BAILEY_CLI_CLIENT_INPUT_H

#include <stdbool.h>

#include "cli/client/client.h"

#define INPUT_CHUNK (64 * 1024)
#define INPUT_QUEUE_MAX (256 * 1024) /* no more is read before some of it was sent */

struct input {
    struct client *client;
    const char *path;   /* of the execution; borrowed */
    struct buf queue;   /* not sent yet */
    struct buf sending; /* lives as long as its request */
    bool wants_end;     /* no more bytes follow */
    bool has_ended;     /* and the daemon was told so */
    bool is_over;       /* nothing can be sent any more */
    struct error err;   /* .code set: the error, if it is not the command's own end */
    struct http_exchange *exchange;
    struct buf reply;
};

void input_init(struct input *input, struct client *client);

/* Whether more may be read from the source. */
bool input_has_room(const struct input *input);

/* Queues bytes; refused with -EFBIG if they do not fit. */
int input_put(struct input *input, const void *data, size_t length);
void input_end(struct input *input); /* after the queued bytes */

/* Sends if no request is under way; call it in each turn once `path` is set. */
void input_turn(struct input *input);

void input_free(struct input *input); /* for CLEANUP() */

#endif
