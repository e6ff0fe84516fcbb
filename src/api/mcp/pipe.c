/*
 * pipe.c - the broker's side of `bailey mcp`: one MCP peer for each connection; see pipe.h.
 *
 * Theory of operation. A pipe is one conversation with its own session, like a conversation over
 * HTTP, and is served by the same host (mcp_http_ops). When its connection is lost without the
 * message "e", the command may have been killed, or may come back: running calls go on for
 * GRACE_MS. A connection that names the same session in that time takes over; else everything ends
 * as with "e". A broker that stops ends nothing: the command finds its executions again through the
 * next broker.
 */
#include "api/mcp/pipe.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "api/mcp/mcp_http_private.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/str.h"
#include "http/websocket.h"
#include "tool/tool.h"

#define GRACE_MS 2000
#define OUT_MAX (LIMIT_MCP_ANSWER + MIB)

struct mcp_pipe {
    struct mcp_pipe *next;
    struct mcp_http *door;
    struct websocket *socket; /* NULL: the connection was lost */
    struct mcp_server *server;
    struct mcp_peer *peer;
    struct mcp_asker asker;
    struct reactor_timer *timer; /* next progress message, or end of the grace time */
    char name[LIMIT_NAME + 1];   /* the session that was requested; empty: its own */
    char own[LIMIT_NAME + 1];
    char told[MCP_PIPE_HEAD_MAX];         /* the last "s" message */
    uint64_t answered;                    /* SEQ of the last answer */
    struct mcp_pipe_frame *frames, **end; /* frames that wait for room */
    size_t queued;                        /* their bytes */
    bool ends;                            /* "e" arrived, or the grace time is over */
    struct ending *ending;                /* its session is being ended; NULL: no */
};

/* Waits for a session's end; may outlive the pipe. */
struct ending {
    struct mcp_pipe *pipe;
};

struct mcp_pipe_frame {
    struct mcp_pipe_frame *next;
    size_t length;
    char data[];
};

/* ---- to the command ---- */

static void drop_frames(struct mcp_pipe *pipe)
{
    while (pipe->frames) {
        struct mcp_pipe_frame *frame = pipe->frames;

        pipe->frames = frame->next;
        free(frame);
    }
    pipe->end = &pipe->frames;
    pipe->queued = 0;
}

static void on_drained(void *ctx)
{
    struct mcp_pipe *pipe = ctx;

    while (pipe->frames && pipe->socket) {
        struct mcp_pipe_frame *frame = pipe->frames;

        if (websocket_send(pipe->socket, false, frame->data, frame->length) == -EAGAIN)
            return;
        pipe->frames = frame->next;
        if (!pipe->frames)
            pipe->end = &pipe->frames;
        pipe->queued -= frame->length;
        websocket_owns(pipe->socket, pipe->queued);
        free(frame);
    }
    if (pipe->socket)
        websocket_hold(pipe->socket, false);
}

/*
 * Without memory the connection is closed: the command sends its requests again through the next
 * one.
 */
static void send_frame(struct mcp_pipe *pipe, const char *head, const char *text, size_t length)
{
    size_t before = strlen(head);
    struct mcp_pipe_frame *frame;

    if (!pipe->socket)
        return;
    frame = malloc(sizeof(*frame) + before + 1 + length);
    if (!frame) {
        websocket_close(pipe->socket, 1011, "out of memory");
        return;
    }
    *frame = (struct mcp_pipe_frame){.length = before + 1 + length};
    memcpy(frame->data, head, before);
    frame->data[before] = '\n';
    if (length > 0)
        memcpy(frame->data + before + 1, text, length);
    *pipe->end = frame;
    pipe->end = &frame->next;
    pipe->queued += frame->length;
    websocket_owns(pipe->socket, pipe->queued);
    if (!websocket_has_room(pipe->socket))
        websocket_hold(pipe->socket,
                       true); /* a client that does not read gets no further requests handled */
    else
        on_drained(pipe);
}

static void send_settled(struct mcp_pipe *pipe, uint64_t sequence)
{
    char head[MCP_PIPE_HEAD_MAX];

    str_format(head, sizeof(head), "d %" PRIu64, sequence);
    send_frame(pipe, head, NULL, 0);
}

/* Sends what the next connection must know, if it changed. */
static void send_state(struct mcp_pipe *pipe)
{
    char head[MCP_PIPE_HEAD_MAX];

    if (str_format(head, sizeof(head), "s %s %s", pipe->peer->version,
                   pipe->own[0] && !pipe->name[0] ? pipe->own : "-") < 0 ||
        str_equal(head, pipe->told))
        return;
    str_copy(pipe->told, sizeof(pipe->told), head);
    mcp_peer_session(pipe->peer, pipe->own);
    send_frame(pipe, head, NULL, 0);
}

/* ---- operations of the peer ---- */

static void on_send(void *ctx, const char *message, size_t length, int kind)
{
    struct mcp_pipe *pipe = ctx;
    char head[MCP_PIPE_HEAD_MAX] = "n";

    send_state(pipe); /* sent first: a command that has the answer can then go on in its session */
    if (kind != MCP_NOTICE) {
        pipe->answered = pipe->peer->answering;
        str_format(head, sizeof(head), "a %" PRIu64, pipe->answered);
    }
    send_frame(pipe, head, message, length);
}

static int on_call(void *ctx, struct mcp_work *work, const struct tool_row *tool,
                   const char *session, json_t *arguments, struct error *err)
{
    struct mcp_pipe *pipe = ctx;
    const struct mcp_http_spec *spec = &pipe->door->spec;

    if (pipe->name[0])
        str_copy(pipe->own, sizeof(pipe->own), pipe->name);
    return spec->ops->call(spec->host, &pipe->asker, work, tool, session, arguments, err);
}

static int on_list(void *ctx, struct mcp_work *work, struct error *err)
{
    struct mcp_pipe *pipe = ctx;
    const struct mcp_http_spec *spec = &pipe->door->spec;

    if (pipe->name[0])
        str_copy(pipe->own, sizeof(pipe->own), pipe->name);
    return spec->ops->list(spec->host, &pipe->asker, work, err);
}

static int on_read(void *ctx, struct mcp_work *work, const char *session, const char *path,
                   size_t maximum, struct error *err)
{
    struct mcp_pipe *pipe = ctx;
    const struct mcp_http_spec *spec = &pipe->door->spec;

    return spec->ops->read(spec->host, &pipe->asker, work, session, path, maximum, err);
}

static void on_cancel(void *ctx, struct mcp_work *work)
{
    struct mcp_pipe *pipe = ctx;

    /* A pipe that was taken over, or whose broker stops, leaves running commands as they are. */
    pipe->door->spec.ops->cancel(pipe->door->spec.host, work, pipe->socket || pipe->ends);
    if (pipe->socket && !pipe->ends)
        send_settled(pipe, work->origin.sequence);
}

static void on_about(void *ctx, struct buf *text)
{
    struct mcp_pipe *pipe = ctx;
    const struct mcp_http_spec *spec = &pipe->door->spec;

    if (pipe->name[0])
        str_copy(pipe->own, sizeof(pipe->own), pipe->name);
    if (spec->ops->about)
        spec->ops->about(spec->host, &pipe->asker, text);
}

static void on_prompt(void *ctx, struct buf *text)
{
    struct mcp_pipe *pipe = ctx;
    const struct mcp_http_spec *spec = &pipe->door->spec;

    if (spec->ops->prompt)
        spec->ops->prompt(spec->host, &pipe->asker, text);
}

static const struct mcp_ops peer_ops = {on_send,   on_call,  on_list,  on_read,
                                        on_cancel, on_about, on_prompt};

/* ---- life ---- */

static void pipe_free(struct mcp_pipe *pipe)
{
    LIST_UNLINK(pipe->door->pipes, pipe);
    mcp_peer_freep(&pipe->peer);
    mcp_server_freep(&pipe->server);
    if (pipe->timer)
        pipe->door->spec.reactor->ops->timer_remove(pipe->timer);
    if (pipe->ending)
        pipe->ending->pipe = NULL;
    drop_frames(pipe);
    free(pipe);
}

static void finish(struct mcp_pipe *pipe)
{
    pipe->ending = NULL;
    if (pipe->socket)
        websocket_close(pipe->socket, 1000, NULL);
    else
        pipe_free(pipe);
}

static void on_ended(void *ctx)
{
    struct ending *ending = ctx;

    if (ending->pipe)
        finish(ending->pipe);
    free(ending);
}

/* The conversation has ended: kills running commands, and ends its own session with its files. */
static void end_all(struct mcp_pipe *pipe)
{
    const struct mcp_http_spec *spec = &pipe->door->spec;

    pipe->ends = true;
    mcp_peer_freep(&pipe->peer);
    if (pipe->own[0] && !pipe->name[0])
        pipe->ending = malloc(sizeof(*pipe->ending));
    if (!pipe->ending) {
        finish(pipe);
        return;
    }
    pipe->ending->pipe = pipe;
    spec->ops->left(spec->host, &pipe->asker.caller.who, &pipe->asker.caller, pipe->own, on_ended,
                    pipe->ending);
}

static void tick(struct mcp_pipe *pipe)
{
    const struct mcp_http_spec *spec = &pipe->door->spec;
    uint64_t now_ms = clock_now_ms(), next_ms;

    for (struct mcp_work *work = pipe->peer->works; work; work = work->next)
        if (work->progress_token && now_ms >= work->due_ms)
            spec->ops->look(spec->host, work);
    next_ms = mcp_peer_tick(pipe->peer, now_ms);
    spec->reactor->ops->timer_set(
        pipe->timer, next_ms == UINT64_MAX ? UINT64_MAX : next_ms - MIN(now_ms, next_ms));
}

static void on_due(void *ctx)
{
    struct mcp_pipe *pipe = ctx;

    if (!pipe->socket)
        end_all(pipe); /* the grace time is over */
    else if (pipe->peer)
        tick(pipe);
}

static void on_closed(void *ctx, unsigned status)
{
    struct mcp_pipe *pipe = ctx;

    (void)status;
    pipe->socket = NULL;
    drop_frames(pipe);
    if (pipe->ending)
        return; /* on_ended() frees it */
    if (pipe->ends)
        pipe_free(pipe);
    else
        pipe->door->spec.reactor->ops->timer_set(pipe->timer, GRACE_MS);
}

/* ---- from the command ---- */

static bool has_work(const struct mcp_pipe *pipe, uint64_t sequence)
{
    for (const struct mcp_work *work = pipe->peer->works; work; work = work->next)
        if (work->origin.sequence == sequence)
            return true;
    return false;
}

/* "m 12", "r 12 1700000000000": reads the numbers after the letter. */
static bool read_head(const char *head, uint64_t *ret_sequence, uint64_t *ret_began_ms)
{
    char first[32];
    const char *blank;

    if (head[0] == '\0' || head[1] != ' ')
        return false;
    blank = strchrnul(head + 2, ' ');
    if (str_format(first, sizeof(first), "%.*s", (int)(blank - head - 2), head + 2) < 0 ||
        str_to_u64(first, ret_sequence) < 0)
        return false;
    return *blank == '\0' || str_to_u64(blank + 1, ret_began_ms) == 0;
}

static void take(struct mcp_pipe *pipe, const char *head, const char *text, size_t length)
{
    uint64_t sequence = 0, began_ms = 0;

    if (str_equal(head, "e")) {
        end_all(pipe);
        return;
    }
    if (!read_head(head, &sequence, &began_ms) || !strchr("mrl", head[0])) {
        websocket_close(pipe->socket, 1002, "unknown command of pipe.h");
        return;
    }
    pipe->peer->sequence = sequence;
    pipe->peer->lost_ms = head[0] == 'r' ? MAX(began_ms, (uint64_t)1) : 0;
    pipe->answered = 0;
    if (head[0] == 'l')
        mcp_peer_too_long(pipe->peer, text, length);
    else
        mcp_peer_message(pipe->peer, text, length, clock_now_ms());
    pipe->peer->sequence = pipe->peer->lost_ms = 0;
    send_state(pipe);
    if (pipe->answered != sequence && !has_work(pipe, sequence))
        send_settled(pipe, sequence);
    tick(pipe);
}

static void on_message(void *ctx, bool is_text, const void *data, size_t length)
{
    struct mcp_pipe *pipe = ctx;
    const struct mcp_http_spec *spec = &pipe->door->spec;
    const char *end =
        length > 0 ? memchr(data, '\n', MIN(length, (size_t)MCP_PIPE_HEAD_MAX)) : NULL;
    char head[MCP_PIPE_HEAD_MAX];

    if (pipe->ends)
        return;
    if (is_text || !end) {
        websocket_close(pipe->socket, 1002, "not a message of pipe.h");
        return;
    }
    str_format(head, sizeof(head), "%.*s", (int)(end - (const char *)data), (const char *)data);
    if (spec->ops->speak)
        spec->ops->speak(spec->host, &pipe->asker.caller, pipe->own);
    take(pipe, head, end + 1, length - (size_t)(end + 1 - (const char *)data));
    if (spec->ops->speak)
        spec->ops->speak(spec->host, NULL, "");
}

/* ---- opening ---- */

/* A lost pipe with this session: its command has come back. */
static void take_over(struct mcp_http *door, const char *own)
{
    struct mcp_pipe *pipe = door->pipes;

    while (pipe && (pipe->socket || pipe->ending || !str_equal(pipe->own, own)))
        pipe = pipe->next;
    if (pipe && own[0])
        pipe_free(pipe);
}

static struct mcp_pipe *pipe_new(struct mcp_http *door, struct http_request *http,
                                 const struct caller *caller, struct error *err)
{
    const char *name = http_query(http, "session"), *version = http_query(http, "version");
    const char *own = http_query(http, "own");
    struct mcp_pipe *pipe = calloc(1, sizeof(*pipe));
    struct mcp_settings settings = {.tools = door->spec.server->tools,
                                    .tool_count = door->spec.server->tool_count,
                                    .can_install = door->spec.server->can_install,
                                    .prompt = door->spec.server->prompt,
                                    .is_structured = http_query(http, "structured")};

    if (!pipe) {
        error_memory(err);
        return NULL;
    }
    *pipe =
        (struct mcp_pipe){.door = door,
                          .asker = {.caller = *caller, .own = &pipe->own, .keeps_commands = true},
                          .timer = reactor_timer(door->spec.reactor, on_due, pipe),
                          .end = &pipe->frames};
    str_copy(pipe->name, sizeof(pipe->name), name ? name : "");
    str_copy(pipe->own, sizeof(pipe->own), own && !name ? own : "");
    if (!pipe->timer || mcp_server_new(&settings, &pipe->server, err) < 0 ||
        mcp_peer_new(pipe->server, &peer_ops, pipe, &pipe->peer, err) < 0) {
        pipe_free(pipe);
        return NULL;
    }
    if (version && mcp_is_legacy(version))
        str_copy(pipe->peer->version, sizeof(pipe->peer->version), version);
    mcp_peer_session(pipe->peer, pipe->own);
    return pipe;
}

void mcp_pipe_open(struct mcp_http *door, struct http_request *http, const struct caller *caller)
{
    static const struct websocket_events events = {
        .message = on_message, .drained = on_drained, .closed = on_closed};
    struct mcp_pipe *pipe;
    struct error err = {0};

    if (!http_is_local(http) || http_wants_websocket(http) != 1) {
        mcp_refuse(http, 403, NULL, MCP_INVALID_REQUEST, NULL,
                   "this address is for 'bailey mcp', over the daemon's own socket");
        return;
    }
    pipe = pipe_new(door, http, caller, &err);
    if (!pipe || http_upgrade(http,
                              &(struct websocket_spec){
                                  .message_max = LIMIT_MCP_LINE + MCP_PIPE_HEAD_MAX,
                                  .events = &events,
                                  .ctx = pipe,
                              },
                              &pipe->socket, &err) < 0) {
        if (pipe)
            pipe_free(pipe);
        mcp_refuse(http, 503, NULL, MCP_INTERNAL, NULL, "%s", err.text);
        return;
    }
    take_over(door, pipe->own);
    pipe->next = door->pipes;
    door->pipes = pipe;
}

void mcp_pipes_free(struct mcp_http *door)
{
    while (door->pipes)
        pipe_free(door->pipes);
}
