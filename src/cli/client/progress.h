/*
 * progress.h - a call of the daemon that takes a while and tells of it: building a template,
 * installing packages. Inside of client/.
 *
 * Its progress is one line that changes on a terminal, and lines elsewhere. Blocks until the end or
 * a signal; hanging up gives the work up.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_PROGRESS_H
#define BAILEY_CLI_CLIENT_PROGRESS_H

#include <stdbool.h>

#include "base/error.h"

typedef struct json_t json_t;
struct client;

struct progress_call {
    const char *path;
    json_t *body;        /* borrowed */
    const char *end;     /* the event whose data is the answer: "built" */
    const char *hung_up; /* what it means if there is no answer */
    bool is_silent;
};
/* 0 with the answer (new reference), a negative errno with err, or 128 + the signal that came. */
int progress_post(struct client *client, const struct progress_call *call, json_t **ret,
                  struct error *err);

#endif
