/*
 * progress.h - a long call to the daemon that reports progress: building a template, installing
 * packages. For cli/client only.
 *
 * Progress is one changing line on a terminal, and several lines elsewhere. Blocks until the end or
 * a signal; closing the connection cancels the work.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_PROGRESS_H
#define BAILEY_CLI_CLIENT_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct json_t json_t;
struct client;

struct progress_call {
    const char *path;
    json_t *body;        /* borrowed */
    const char *end;     /* the event whose data is the result: "built" */
    const char *hung_up; /* the error if there is no result */
    const char *failed;  /* the error if all of its lines were printed as progress */
    size_t packages;     /* how many will be installed; 0: unknown before the installer says it */
    bool is_silent;
};
/* 0 with the result (new reference), a negative errno with err, or 128 + the signal received. */
int progress_post(struct client *client, const struct progress_call *call, json_t **ret,
                  struct error *err);

#endif
