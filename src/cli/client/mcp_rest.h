/*
 * mcp_rest.h - calls to the daemon beside each other, for the MCP front: started, answered later,
 * made again when a broker went away and the call may be made twice.
 *
 * One thread. done() comes from rest_wait() only, exactly once unless the call is cancelled, and
 * may start and cancel others. The daemon is reached (and started) by the first call, which blocks
 * for that.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_MCP_REST_H
#define BAILEY_CLI_CLIENT_MCP_REST_H

#include <poll.h>

#include "cli/client/client.h"

struct rest_call;

struct rest_reply {
    unsigned status; /* 0: there was no answer */
    const char *body;
    size_t length;
    bool is_too_large;       /* the body was longer than the maximum and is not here */
    const struct error *err; /* why there was no answer; NULL: there was one */
};

struct rest {
    struct client client; /* opened with CLIENT_NO_CALL; the daemon comes at first use */
    const char *config_file;
    struct rest_call *calls;
};

struct rest_spec {
    const char *method;
    const char *path; /* copied */
    json_t *body;     /* may be NULL; borrowed */
    size_t maximum;   /* of the reply */
    bool may_repeat;  /* twice is as good as once */
    void (*done)(void *ctx, const struct rest_reply *reply);
    void *ctx;
};
int mcp_rest_start(struct rest *rest, const struct rest_spec *spec, struct rest_call **ret,
                   struct error *err);
void rest_cancel(struct rest_call *call); /* NULL is fine */

/* Waits for calls and descriptors until one of them has something, or `until_ms` of clock_now. */
void rest_wait(struct rest *rest, struct pollfd *fds, size_t fd_count, uint64_t until_ms);

void rest_close(struct rest *rest); /* cancels everything */

#endif
