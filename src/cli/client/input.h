/*
 * input.h - bytes for a command's standard input or terminal, sent beside its output.
 *
 * One request at a time, in the order of the bytes; nothing waits for it but the next one, so a
 * command that writes while it does not read cannot block us. Callbacks come from
 * http_client_wait() only.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_INPUT_H
#define BAILEY_CLI_CLIENT_INPUT_H

#include <stdbool.h>

#include "cli/client/client.h"

#define INPUT_CHUNK (64 * 1024)
#define INPUT_QUEUE_MAX (256 * 1024) /* more is not read before some of it was sent */

struct input {
    struct client *client;
    const char *path;   /* of the execution; borrowed */
    struct buf queue;   /* not sent yet */
    struct buf sending; /* lives as long as its request */
    bool wants_end;     /* no more will be put */
    bool has_ended;     /* and the command was told so */
    bool is_over;       /* nothing can be sent any more */
    struct error err;   /* .code set: why, when it was not the command's own end */
    struct http_exchange *exchange;
    struct buf reply;
};

void input_init(struct input *input, struct client *client);

/* May more be read from wherever it comes? */
bool input_has_room(const struct input *input);

/* Queues bytes; what does not fit is refused: -EFBIG. */
int input_put(struct input *input, const void *data, size_t length);
void input_end(struct input *input); /* behind what is queued */

/* Sends when nothing is under way; call it in each turn once `path` is known. */
void input_turn(struct input *input);

void input_free(struct input *input); /* for CLEANUP() */

#endif
