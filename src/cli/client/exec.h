/*
 * exec.h - one command of a session from its start to its end, as if it ran here: `bailey exec -s`,
 * and `bailey run` and `bailey exec` on a server (run_remote.c).
 *
 * Blocks in exec_watch(). One thread. exec_job_free() in the end; .cancel_fd is -1 before
 * exec_begin().
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_EXEC_H
#define BAILEY_CLI_CLIENT_EXEC_H

#include "cli/client/client.h"
#include "cli/client/follow.h"
#include "cli/client/input.h"
#include "cli/output.h"
#include "cli/request.h"

struct exec_job {
    struct client client;
    struct request request;
    struct follow follow;
    struct input input;
    struct output output;
    int cancel_fd;
    int signal;          /* the first signal received */
    unsigned interrupts; /* number of interrupts */
};
void exec_job_free(struct exec_job *job);

/* The body for POST .../exec. New reference. */
int exec_body(const struct invocation *invocation, const struct request *request,
              const char *const *argv, json_t **ret, struct error *err);

/* Takes the body over. From now on signals are for the command. */
int exec_begin(struct exec_job *job, const char *session, json_t *body, struct error *err);
/* 1: it has ended; 0: stop waiting before that; negative: follow.err says why. */
int exec_watch(struct exec_job *job);
/* After exec_watch(): the output has no reader any more, or the caller left: it is killed. */
void exec_leave(struct exec_job *job);

#endif
