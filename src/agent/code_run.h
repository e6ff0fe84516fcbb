/*
 * code_run.h - one call of the code interpreter: a box within the time that is allowed for it,
 * packages, the cell, its outputs; and what the model is told of it.
 *
 * Whatever goes wrong is an outcome that the model reads. done() comes once, from the loop or
 * before code_run_start() returns. One thread, never blocks.
 *
 * Runs in: broker
 */
#ifndef BAILEY_AGENT_CODE_RUN_H
#define BAILEY_AGENT_CODE_RUN_H

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/reactor.h"

struct agent_place;
struct caller;
struct session_manager;
struct code_run;

struct code_run_spec {
    struct session_manager *manager;
    struct reactor *reactor;
    const struct caller *caller; /* copied */
    struct agent_place *place;   /* opened; borrowed */
    json_t *keeper;              /* the string of the source */
    json_t *requirements;        /* array of strings, or NULL */
};

struct code_outcome {
    bool is_failed;  /* it did not run: no box, no interpreter */
    bool has_raised; /* it ended with an error */
    struct buf logs; /* what it printed, and the value of its last expression */
    struct buf told; /* what the model reads */
    json_t *files;   /* array of {"id", "path", "name"}: what the code wrote */
    json_t *images;  /* array of {"id" of an artifact, "name", "mime"} */
    json_t *error;   /* {"name","value","traceback"}; NULL: none. Borrowed. */
};

int code_run_start(const struct code_run_spec *spec,
                   void (*done)(void *ctx, const struct code_outcome *outcome), void *ctx,
                   struct code_run **ret, struct error *err);
/* Before done(): the cell is interrupted, and done() does not come. Frees it. NULL is fine. */
void code_run_end(struct code_run *run);

#endif
