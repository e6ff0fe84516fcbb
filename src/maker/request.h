/*
 * request.h - a run as libbailey sends it, checked: into a configuration and what oneshot_run()
 * takes. Owns all of it; request_free() in the end.
 *
 * Runs in: commands
 */
#ifndef BAILEY_MAKER_REQUEST_H
#define BAILEY_MAKER_REQUEST_H

#include "config/config.h"
#include "oneshot/oneshot.h"

typedef struct json_t json_t;

struct maker_request {
    json_t *json; /* owns the strings that `shot` points to */
    struct config config;
    char **env, **arguments; /* strv */
    struct oneshot_file *files;
    char *state;  /* the state folder; NULL: none was found, or no template needs it */
    int stdin_fd; /* -1: none */
    struct oneshot shot;
};

/* Also after an error request_free() is needed. The environment is read for the configuration. */
int maker_request_read(int fd, json_t **ret, struct error *err);
int maker_request_load(json_t *json, char *const *env, struct maker_request *ret,
                       struct error *err);
void maker_request_free(struct maker_request *request);

#endif
