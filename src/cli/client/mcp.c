/*
 * mcp.c - `bailey mcp`: the Model Context Protocol on standard input and output, one message per
 * line.
 *
 * Theory of operation. The daemon's broker implements the protocol (api/mcp/pipe.h); this command
 * passes lines to it and back; with --url to a server's. It keeps each line until the broker has
 * settled it: if the connection is lost, it connects again (and starts a daemon again if it ended)
 * and sends those lines once more, marked as repeated.
 *
 * Only protocol messages go to standard output. The command ends when its input ends, on SIGINT,
 * SIGTERM and SIGHUP, when its output has no reader, and when its parent is gone: running calls are
 * then cancelled, and the session that was created for it is deleted.
 */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "api/mcp/pipe.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client/daemon.h"
#include "cli/client/datasets.h"
#include "cli/client/mcp_link.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/place.h"
#include "cli/signals.h"
#include "model/text.h"

#define READ_STEP (64 * KIB)
#define PARENT_MS 2000       /* interval of checking the parent */
#define RETRY_MS 100         /* interval of attempts to connect again */
#define END_PATIENCE_MS 3000 /* time for the broker to end what was begun */
#define UNSENT_MAX MIB       /* no more is read while the broker takes nothing */
#define INTERNAL_ERROR (-32603)

/* A line that the broker has not settled yet. */
struct line {
    struct line *next;
    uint64_t sequence;
    uint64_t began_ms; /* wall clock */
    bool is_long;      /* only the beginning of a line that is too long */
    bool was_sent;
    size_t length;
    char text[];
};

struct front {
    struct client client;
    struct http_client *http; /* of the daemon's socket; with --url it is the client's */
    const char *config_file;
    const char *name; /* --session; NULL: one is created at first use and deleted at the end */
    bool is_structured;
    struct mcp_link link;
    struct line *lines, **last;
    uint64_t sequence;
    char version[16], own[LIMIT_NAME + 1]; /* for the next connection; empty: unknown */
    uint64_t retry_ms;                     /* time of the next attempt to connect; 0: none */
    uint64_t give_up_ms;
    struct buf input;
    bool is_skipping; /* inside the rest of a line that was too long */
    struct buf output;
    int signal_fd;
    int signal; /* the signal received */
    pid_t parent;
    bool is_over;
    bool has_ended_input;
    bool is_silent; /* nothing is written any more */
};

/* ---- standard output ---- */

/* Checks whether the reader and the parent still exist. */
static void check_wanted(struct front *front)
{
    int signal = signals_taken(front->signal_fd);

    if (signal)
        front->signal = signal;
    if (signal || getppid() != front->parent)
        front->is_over = true;
}

/*
 * Pieces of PIPE_BUF never block after poll(2) reported room, so that a client that does not read
 * cannot delay signals. A short line is one write. When the input has ended too, a client that
 * reads nothing is not waited for.
 */
static void write_all(struct front *front, const char *data, size_t length)
{
    uint64_t stuck_ms = 0; /* since when; 0: the input is open, or there was room */

    while (length > 0 && !front->is_over) {
        struct pollfd fds[] = {{.fd = STDOUT_FILENO, .events = POLLOUT},
                               {.fd = front->signal_fd, .events = POLLIN},
                               {.fd = stuck_ms ? -1 : STDIN_FILENO}};
        ssize_t count;

        if (poll(fds, ARRAY_SIZE(fds), stuck_ms ? END_PATIENCE_MS : PARENT_MS) < 0 &&
            errno != EINTR)
            front->is_over = true;
        if (!(fds[0].revents & (POLLOUT | POLLERR | POLLHUP | POLLNVAL))) {
            check_wanted(front);
            if (!stuck_ms && (front->has_ended_input || fds[2].revents & POLLHUP))
                stuck_ms = clock_now_ms();
            else if (stuck_ms && clock_now_ms() - stuck_ms >= END_PATIENCE_MS)
                front->is_over = front->is_silent = true;
            continue;
        }
        stuck_ms = 0;
        count = write(STDOUT_FILENO, data, MIN(length, (size_t)PIPE_BUF));
        if (count < 0 && errno != EINTR && errno != EAGAIN)
            front->is_over = true;
        if (count <= 0)
            continue;
        data += count;
        length -= (size_t)count;
    }
}

static void write_message(struct front *front, const char *message, size_t length)
{
    if (front->is_silent)
        return;
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

/* ---- lines that are not settled ---- */

static void settle(struct front *front, uint64_t sequence)
{
    for (struct line **at = &front->lines; *at; at = &(*at)->next) {
        struct line *line = *at;

        if (line->sequence != sequence)
            continue;
        *at = line->next;
        if (front->last == &line->next)
            front->last = at;
        free(line);
        return;
    }
}

/* The broker cannot be reached: every request gets this error as its answer. */
static void fail_all(struct front *front, const struct error *err)
{
    if (!front->is_silent)
        message_print("%s", err->text);
    while (front->lines && !front->is_over) {
        struct line *line = front->lines;
        CLEANUP(json_freep)
        json_t *message = json_loadb(line->text, line->length, JSON_ALLOW_NUL, NULL);
        json_t *id = json_object_get(message, "id");
        CLEANUP(json_freep) json_t *answer = NULL;
        CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);

        if (id)
            answer =
                json_pack("{s:s,s:O,s:{s:i,s:o}}", "jsonrpc", "2.0", "id", id, "error", "code",
                          INTERNAL_ERROR, "message", text_to_json(err->text, strlen(err->text)));
        if (answer && text_of_json(answer, JSON_COMPACT, &text) == 0)
            write_message(front, text.data, text.length);
        settle(front, line->sequence);
    }
}

/* ---- the connection ---- */

static void lose(struct front *front)
{
    mcp_link_close(&front->link);
    front->retry_ms = clock_now_ms();
    front->give_up_ms = front->retry_ms + RECONNECT_PATIENCE_MS;
}

static void send_line(struct front *front, struct line *line)
{
    char head[MCP_PIPE_HEAD_MAX];

    if (line->was_sent && !line->is_long)
        str_format(head, sizeof(head), "r %" PRIu64 " %" PRIu64, line->sequence, line->began_ms);
    else
        str_format(head, sizeof(head), "%c %" PRIu64, line->is_long ? 'l' : 'm', line->sequence);
    line->was_sent = true;
    if (mcp_link_send(&front->link, head, line->text, line->length) < 0)
        lose(front);
}

static int write_target(const struct front *front, struct buf *target)
{
    int r = buf_append_text(target, MCP_PIPE_PATH);

    if (r == 0 && front->name)
        r = client_query(target, "session", front->name, NULL);
    if (r == 0 && front->is_structured)
        r = client_query(target, "structured", "1", NULL);
    if (r == 0 && front->version[0])
        r = client_query(target, "version", front->version, NULL);
    if (r == 0 && front->own[0])
        r = client_query(target, "own", front->own, NULL);
    return r;
}

static bool is_away(int result)
{
    return result == -ECONNREFUSED || result == -ENOENT || result == -ECONNRESET ||
           result == -EPIPE;
}

/*
 * One attempt. A broker restarts by itself. A daemon that ended or never ran is started only for a
 * waiting line: the user may have stopped it.
 */
static void connect_now(struct front *front)
{
    CLEANUP(buf_free) struct buf target = PATH_BUF;
    struct error err = {0};
    bool is_alive = client_is_alive(&front->client);
    int r = 0;

    if (!is_alive && !front->lines) {
        front->retry_ms = 0; /* the next line connects */
        return;
    }
    if (!is_alive)
        r = daemon_reach(&front->client.paths, front->config_file, true, &err);
    else if (!front->client.url)
        r = paths_adopt(&front->client.paths, &err); /* it may have another socket than ours */
    if (r == 0 && (r = write_target(front, &target)) < 0)
        error_set(&err, r, ERROR_ENGINE, "out of memory");
    if (r == 0 && !front->client.url) {
        http_client_close(front->http); /* a daemon that was started may have another socket */
        front->http = NULL;
        r = http_client_open(front->client.paths.socket, &front->http, &err);
    }
    if (r == 0)
        r = mcp_link_open(&front->link, front->client.url ? front->client.http : front->http,
                          buf_text(&target), buf_text(&front->client.settings), &err);
    if (r == 0) {
        front->retry_ms = 0;
        for (struct line *line = front->lines; line && front->link.fd >= 0; line = line->next)
            send_line(front, line);
    } else if (is_away(r) && clock_now_ms() < front->give_up_ms) {
        front->retry_ms = clock_now_ms() + RETRY_MS;
    } else {
        front->retry_ms = 0;
        fail_all(front, &err);
    }
}

/* "s VERSION OWN" */
static void take_state(struct front *front, const char *words)
{
    const char *blank = strchrnul(words, ' ');

    str_format(front->version, sizeof(front->version), "%.*s", (int)(blank - words), words);
    str_copy(front->own, sizeof(front->own), *blank && !str_equal(blank, " -") ? blank + 1 : "");
}

static void take_frame(struct front *front, const char *data, size_t length)
{
    const char *end = memchr(data, '\n', MIN(length, (size_t)MCP_PIPE_HEAD_MAX));
    char head[MCP_PIPE_HEAD_MAX] = "";
    uint64_t sequence = 0;

    if (!end)
        return;
    str_format(head, sizeof(head), "%.*s", (int)(end - data), data);
    end++;
    if (str_starts(head, "s "))
        take_state(front, head + 2);
    if (head[0] == 'a' || head[0] == 'n')
        write_message(front, end, length - (size_t)(end - data));
    if ((head[0] == 'a' || head[0] == 'd') && head[1] && str_to_u64(head + 2, &sequence) == 0)
        settle(front, sequence);
}

static void take_frames(struct front *front)
{
    int r = mcp_link_receive(&front->link);
    const char *data;
    size_t length;

    while (!front->is_over && mcp_link_next(&front->link, &data, &length) > 0)
        take_frame(front, data, length);
    if (r < 0 || (!front->is_over && mcp_link_next(&front->link, &data, &length) < 0))
        lose(front);
}

/* ---- standard input ---- */

static bool is_blank(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!memchr(" \t\r\n", text[i], 4))
            return false;
    return true;
}

static void take_line(struct front *front, const char *text, size_t length, bool is_long)
{
    struct line *line;

    if (is_blank(text, length))
        return;
    line = malloc(sizeof(*line) + length);
    if (!line) {
        message_print("out of memory reading a message");
        front->is_over = true;
        return;
    }
    *line = (struct line){.sequence = ++front->sequence,
                          .began_ms = clock_wall_ms(),
                          .is_long = is_long,
                          .length = length};
    memcpy(line->text, text, length);
    *front->last = line;
    front->last = &line->next;
    if (front->link.fd >= 0)
        send_line(front, line);
    else if (front->retry_ms == 0) {
        front->give_up_ms = clock_now_ms() + RECONNECT_PATIENCE_MS;
        connect_now(front);
    }
}

/* Passes on every complete line; the rest stays. */
static void take_lines(struct front *front)
{
    size_t at = 0;

    while (at < front->input.length && !front->is_over) {
        const char *line = front->input.data + at;
        const char *end = memchr(line, '\n', front->input.length - at);

        if (!end)
            break;
        if (!front->is_skipping)
            take_line(front, line, (size_t)(end - line), false);
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
        front->is_over = front->has_ended_input = true;
        return;
    }
    r = buf_append(&front->input, piece, (size_t)count);
    if (r < 0) { /* no message is that long */
        if (!front->is_skipping)
            take_line(front, front->input.data, MIN(front->input.length, (size_t)READ_STEP), true);
        buf_free(&front->input);
        front->is_skipping = true;
        r = buf_append(&front->input, piece, (size_t)count);
    }
    if (r == 0)
        take_lines(front);
    if (front->is_skipping)
        buf_clear(&front->input);
}

/* ---- the command ---- */

static int timeout_ms(const struct front *front, uint64_t until_ms)
{
    uint64_t now_ms = clock_now_ms();
    uint64_t wake_ms = MIN(until_ms, now_ms + PARENT_MS);

    if (front->retry_ms)
        wake_ms = MIN(wake_ms, front->retry_ms);
    return wake_ms > now_ms ? (int)(wake_ms - now_ms) : 0;
}

/* Moves bytes between the broker and this process once; `reads`: new lines are read too. */
static void turn(struct front *front, bool reads, uint64_t until_ms)
{
    bool is_full = front->link.out.length > UNSENT_MAX;
    struct pollfd fds[] = {
        {.fd = reads && !is_full ? STDIN_FILENO : -1, .events = POLLIN},
        {.fd = front->signal_fd, .events = POLLIN},
        {.fd = front->link.fd,
         .events = (short)(POLLIN | (mcp_link_wants_write(&front->link) ? POLLOUT : 0))},
    };

    poll(fds, ARRAY_SIZE(fds), timeout_ms(front, until_ms));
    if (front->link.fd >= 0 && fds[2].revents & POLLOUT && mcp_link_flush(&front->link) < 0)
        lose(front);
    if (front->link.fd >= 0 && fds[2].revents & ~POLLOUT)
        take_frames(front);
    if (front->retry_ms && front->retry_ms <= clock_now_ms())
        connect_now(front);
    if (fds[0].revents)
        take_input(front);
}

/*
 * The broker ends running calls and the command's own session, then closes the connection. Before
 * that it has answered all that takes no time: `echo MESSAGE | bailey mcp` prints the reply.
 */
static void end_all(struct front *front)
{
    uint64_t until_ms = clock_now_ms() + END_PATIENCE_MS;
    bool was_said = false;

    while (front->lines)
        settle(front, front->lines->sequence);
    if (front->link.fd < 0 && front->own[0])
        front->retry_ms = clock_now_ms();
    front->give_up_ms = until_ms;
    while ((front->link.fd >= 0 || front->retry_ms) && clock_now_ms() < until_ms) {
        if (front->link.fd >= 0 && !was_said) {
            was_said = true;
            if (mcp_link_send(&front->link, "e", NULL, 0) < 0)
                break;
        }
        front->is_over = false; /* further messages are read */
        turn(front, false, until_ms);
        if (was_said && front->link.fd < 0)
            break;
    }
    mcp_link_close(&front->link);
}

/* ---- --template and --data ---- */

/* The session of this name is there already; only what was asked for must fit. */
static int check_template(struct client *client, const char *name, const char *template,
                          struct error *err)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep) json_t *session = NULL;
    int r = client_session_path(&path, name, "", err);

    if (r == 0)
        r = client_call(client, "GET", buf_text(&path), NULL, &session, err);
    if (r < 0 || !template || str_equal(template, "auto") ||
        str_equal(template, member_text(session, "template")))
        return r;
    return error_set(err, -EEXIST, ERROR_BAD_INPUT,
                     "--template %.64s: the session '%s' has the template '%s'; choose another "
                     "--session, or end that one: bailey session rm %s",
                     template, name, member_text(session, "template"), name);
}

static void take_back(struct client *client, const char *name)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    struct error ignored = {0};

    if (client_session_path(&path, name, "", &ignored) == 0)
        client_call(client, "DELETE", buf_text(&path), NULL, NULL, &ignored);
}

/*
 * Makes the session with all that it shall have, before the first message. One without a name in
 * the options has one of its own, so that its datasets are there again if it expires, and is
 * deleted at the end like any that is made at first use.
 */
static int prepare_session(struct front *front, const struct client_request *request,
                           const struct invocation *invocation, struct error *err)
{
    CLEANUP(datasets_free) struct dataset *datasets = NULL;
    CLEANUP(client_close) struct client client = {0};
    const char *name = front->name ? front->name : front->own;
    const char *template = request->template_name;
    bool was_there = false;
    int r = front->name ? 0 : id_make(front->own, "mcp");

    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "no random numbers for a name");
    r = datasets_open(request->data, &datasets, err);
    if (r == 0)
        r = client_open(&client, front->config_file, invocation->env, CLIENT_STARTS, err);
    if (r == 0)
        r = client_bring_settings(&client, invocation, err);
    if (r == 0)
        r = client_call(&client, "POST", "/v1/sessions",
                        json_pack("{s:s, s:s*}", "name", name, "template", template), NULL, err);
    if (r < 0 && front->name && str_equal(err->code, ERROR_NAME_TAKEN)) {
        *err = (struct error){0};
        was_there = true;
        r = check_template(&client, name, template, err);
    }
    for (struct dataset *at = datasets; r == 0 && at->name; at++)
        r = dataset_send(&client, name, at, false, err);
    if (r < 0 && client.http && !was_there)
        take_back(&client, name);
    if (r < 0)
        front->own[0] = '\0';
    return r;
}

static int begin(struct front *front, const struct invocation *invocation, struct error *err)
{
    CLEANUP(client_request_free) struct client_request request = {0};
    int r = client_request_load(invocation, &request, err);

    if (r < 0)
        return r;
    option_given(&invocation->parsed, "session", &front->name);
    option_given(&invocation->parsed, "config", &front->config_file);
    front->is_structured = option_given(&invocation->parsed, "structured", NULL);
    if (front->name && !id_is_name(front->name))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--session: a name has 1 to %d letters, digits, '.', '_' and '-'",
                         LIMIT_NAME);
    r = client_open(&front->client, front->config_file, invocation->env,
                    place_url(invocation->env) ? CLIENT_LOOKS : CLIENT_NO_CALL, err);
    if (r == 0 && front->client.url) /* a key that is not good is said at once, and once */
        r = client_call(&front->client, "GET", "/v1/info", NULL, NULL, err);
    if (r == 0)
        r = client_bring_settings(&front->client, invocation, err);
    if (r == 0)
        r = signals_open(&front->signal_fd, err);
    if (r == 0 && (request.template_name || strv_length(request.data) > 0))
        r = prepare_session(front, &request, invocation, err);
    return r;
}

int mcp_run(const struct invocation *invocation)
{
    struct front front = {.link = {.fd = -1},
                          .input = BUF_INIT(LIMIT_MCP_LINE),
                          .output = BUF_INIT(LIMIT_MCP_ANSWER + 1),
                          .signal_fd = -1,
                          .parent = getppid()};
    struct error err = {0};
    int status = 0;

    front.last = &front.lines;
    if (begin(&front, invocation, &err) < 0) {
        status = message_bad_input(&err);
    } else {
        while (!front.is_over) {
            turn(&front, true, UINT64_MAX);
            check_wanted(&front);
        }
        status = front.signal ? 128 + front.signal : 0;
        front.is_silent |= !front.has_ended_input;
        end_all(&front);
    }
    http_client_close(front.http);
    client_close(&front.client);
    buf_free(&front.input);
    buf_free(&front.output);
    fd_closep(&front.signal_fd);
    return status;
}
