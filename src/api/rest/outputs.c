/* outputs.c - what came out of a session's /tmp/output: the list, and the bytes of what was saved.
 */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/rest/inside.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "session/output_type.h"

#define PIECE (256 * KIB)

void outputs_list(struct rest_call *call)
{
    struct session *session;

    if (rest_session(call, true, &session))
        rest_reply(call->http, 200, session_outputs_json(session));
}

struct sending {
    struct rest_stream stream;
    int fd;
    uint64_t left;
};

static void on_fill(void *ctx)
{
    struct sending *sending = ctx;
    CLEANUP(freep) char *data = malloc(PIECE);
    ssize_t count = 0;

    if (data && sending->left > 0) {
        do {
            count = read(sending->fd, data, (size_t)MIN(sending->left, (uint64_t)PIECE));
        } while (count < 0 && errno == EINTR);
    }
    if (!data || (sending->left > 0 && count <= 0) ||
        buf_append(&sending->stream.text, data, (size_t)count) < 0) {
        sending->stream.is_broken = true;
        return;
    }
    sending->left -= (uint64_t)count;
    sending->stream.is_over = sending->left == 0;
}

static void on_freed(void *ctx)
{
    struct sending *sending = ctx;

    fd_closep(&sending->fd);
    free(sending);
}

void outputs_get(struct rest_call *call)
{
    /* A browser must neither guess a type nor run what a guest wrote. */
    static const char *const headers[] = {"X-Content-Type-Options: nosniff",
                                          "Content-Security-Policy: sandbox", NULL};
    const char *name = http_param(call->http, "name");
    struct session *session;
    struct sending *sending;
    struct stat status;
    struct error err = {0};
    int fd;

    if (!rest_session(call, true, &session))
        return;
    fd = session_output_open(session, name, &err);
    if (fd < 0) {
        if (fd == -ENOENT)
            error_set(&err, fd, ERROR_NO_ROUTE, "there is no saved output '%.200s'", name);
        rest_fail(call->rest, call->http, &err, NULL);
        return;
    }
    sending = calloc(1, sizeof(*sending));
    if (!sending || fstat(fd, &status) < 0) {
        close(fd);
        free(sending);
        rest_fail_memory(call->http);
        return;
    }
    *sending = (struct sending){
        .fd = fd,
        .left = (uint64_t)status.st_size,
        .stream = {.http = call->http,
                   .text = BUF_INIT(PIECE),
                   .fill = on_fill,
                   .freed = on_freed,
                   .ctx = sending},
    };
    rest_stream_start(&sending->stream, 200, output_type_find(name)->mime, headers, status.st_size);
}
