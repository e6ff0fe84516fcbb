/*
 * mcp.c - `bailey mcp`: the Model Context Protocol on standard input and output, a message a line.
 *
 * Standard output carries nothing but protocol. Reading goes on while calls run. It leaves when its
 * input ends, on SIGINT, SIGTERM and SIGHUP, when nobody reads its output, and when its parent is
 * gone: what it runs is cancelled then, and the session that it made is deleted.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/client/commands.h"
#include "cli/client/mcp_host.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/signals.h"
#include "tool/prompt.h"
#include "tool/tool.h"

#define READ_STEP (64 * KIB)
#define PARENT_MS 2000 /* between two looks at the parent */

struct front {
    struct mcp_host host;
    struct mcp_peer *peer;
    struct buf input;
    bool is_skipping; /* the rest of a line that was too long */
    struct buf output;
    int signal_fd;
    int signal; /* that came */
    pid_t parent;
    bool is_over;
};

/* Looks whether anybody wants us. */
static void check_wanted(struct front *front)
{
    int signal = signals_taken(front->signal_fd);

    if (signal)
        front->signal = signal;
    if (signal || getppid() != front->parent)
        front->is_over = true;
}

/*
 * Pieces of PIPE_BUF never block where poll(2) saw room, so that a client that does not read cannot
 * keep us from hearing a signal. A short line is one write.
 */
static void write_all(struct front *front, const char *data, size_t length)
{
    while (length > 0 && !front->is_over) {
        struct pollfd fds[] = {{.fd = STDOUT_FILENO, .events = POLLOUT},
                               {.fd = front->signal_fd, .events = POLLIN}};
        ssize_t count;

        if (poll(fds, ARRAY_SIZE(fds), PARENT_MS) < 0 && errno != EINTR)
            front->is_over = true;
        if (!(fds[0].revents & (POLLOUT | POLLERR | POLLHUP | POLLNVAL))) {
            check_wanted(front);
            continue;
        }
        count = write(STDOUT_FILENO, data, MIN(length, (size_t)PIPE_BUF));
        if (count < 0 && errno != EINTR && errno != EAGAIN)
            front->is_over = true;
        if (count <= 0)
            continue;
        data += count;
        length -= (size_t)count;
    }
}

static void front_send(void *ctx, const char *message, size_t length, int kind)
{
    /* The host is the first member: the ops have one pointer for both. */
    struct front *front = ctx;

    (void)kind;
    buf_clear(&front->output);
    if (buf_append(&front->output, message, length) < 0 ||
        buf_append_text(&front->output, "\n") < 0) {
        message_print("out of memory writing an answer");
        front->is_over = true;
        return;
    }
    write_all(front, front->output.data, front->output.length);
    if (front->output.capacity > MIB)
        buf_free(&front->output);
}

/* Hands on every whole line; what is left of the last one stays. */
static void take_lines(struct front *front)
{
    size_t at = 0;

    while (at < front->input.length && !front->is_over) {
        const char *line = front->input.data + at;
        const char *end = memchr(line, '\n', front->input.length - at);

        if (!end)
            break;
        if (!front->is_skipping)
            mcp_peer_message(front->peer, line, (size_t)(end - line), clock_now_ms());
        front->is_skipping = false;
        at += (size_t)(end - line) + 1;
    }
    buf_consume(&front->input, at);
    if (front->input.length == 0 && front->input.capacity > MIB)
        buf_free(&front->input);
}

static void take_input(struct front *front)
{
    char piece[READ_STEP];
    ssize_t count = read(STDIN_FILENO, piece, sizeof(piece));
    int r;

    if (count < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (count <= 0) {
        front->is_over = true;
        return;
    }
    r = buf_append(&front->input, piece, (size_t)count);
    if (r < 0) { /* no line is that long */
        if (!front->is_skipping)
            mcp_peer_too_long(front->peer, buf_text(&front->input), front->input.length);
        buf_free(&front->input);
        front->is_skipping = true;
        r = buf_append(&front->input, piece, (size_t)count);
    }
    if (r == 0)
        take_lines(front);
    if (front->is_skipping)
        buf_clear(&front->input);
}

static void serve(struct front *front)
{
    while (!front->is_over) {
        struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = front->signal_fd, .events = POLLIN}};
        uint64_t now_ms = clock_now_ms();
        uint64_t until_ms = MIN(mcp_peer_tick(front->peer, now_ms), now_ms + PARENT_MS);

        rest_wait(&front->host.rest, fds, ARRAY_SIZE(fds), until_ms);
        if (fds[0].revents)
            take_input(front);
        check_wanted(front);
    }
}

static int begin(struct front *front, const struct invocation *invocation,
                 struct mcp_settings *settings, struct buf *prompt, struct error *err)
{
    struct rest *rest = &front->host.rest;
    int r;

    option_given(&invocation->parsed, "session", &front->host.name);
    option_given(&invocation->parsed, "config", &rest->config_file);
    settings->is_structured = option_given(&invocation->parsed, "structured", NULL);
    if (front->host.name && (!front->host.name[0] || strlen(front->host.name) > LIMIT_NAME))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "--session: a name has 1 to %d bytes",
                         LIMIT_NAME);
    r = client_open(&rest->client, rest->config_file, invocation->env, CLIENT_NO_CALL, err);
    if (r < 0)
        return r;
    if (prompt_write(&rest->client.config, prompt) < 0)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    settings->prompt = buf_text(prompt);
    return signals_open(&front->signal_fd, err);
}

int mcp_run(const struct invocation *invocation)
{
    static const struct mcp_ops ops = {front_send, host_call, host_list, host_read, host_cancel};
    CLEANUP(buf_free) struct buf prompt = BUF_INIT(PROMPT_MAX);
    CLEANUP(mcp_server_freep) struct mcp_server *server = NULL;
    CLEANUP(freep) struct mcp_tool *tools = mcp_tool_rows();
    struct mcp_settings settings = {.tools = tools, .tool_count = tool_count};
    struct front front = {.input = BUF_INIT(LIMIT_MCP_LINE),
                          .output = BUF_INIT(LIMIT_MCP_ANSWER + 1),
                          .signal_fd = -1,
                          .parent = getppid()};
    struct error err = {0};
    int status = 0;

    if (!tools)
        status = message_bad_input(&(struct error){.code = ERROR_ENGINE, .text = "out of memory"});
    else if (begin(&front, invocation, &settings, &prompt, &err) < 0 ||
             mcp_server_new(&settings, &server, &err) < 0 ||
             mcp_peer_new(server, &ops, &front, &front.peer, &err) < 0)
        status = message_bad_input(&err);
    if (front.peer) {
        front.host.peer = front.peer;
        serve(&front);
        status = front.signal ? 128 + front.signal : 0;
        mcp_peer_freep(&front.peer);
    }
    host_end(&front.host);
    buf_free(&front.input);
    buf_free(&front.output);
    fd_closep(&front.signal_fd);
    return status;
}
