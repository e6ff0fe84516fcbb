/*
 * port.c - `bailey port`: which ports of a session are listened on, and a port of this machine that
 * leads to one of them.
 *
 * Each connection to the local port, which is on 127.0.0.1 only, becomes a connection to the daemon
 * of its own that switches to plain bytes ("Upgrade: tcp"), so any protocol passes. Bytes wait in
 * two blocks per connection: a side that does not read slows the other one.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/signals.h"
#include "http/dial.h"

#define BLOCK (32 * KIB)
#define HEAD_MAX (16 * KIB)
#define BACKLOG 64

/* One local connection and its way to the session. */
struct pass {
    struct pass *next;
    struct http_dial *dial;
    int local_fd;
    bool is_open;            /* the daemon has switched */
    bool local_end, far_end; /* one side sends no more */
    bool is_shut;            /* the daemon knows of the first */
    struct buf out, in;      /* to the session; from it */
    short local_events, far_events;
};

struct port_job {
    struct client client;
    struct client_request request;
    const char *session;
    unsigned port, local_port;
    int listen_fd, cancel_fd;
    struct pass *passes;
    unsigned count;
};

static void pass_free(struct port_job *job, struct pass *pass)
{
    LIST_UNLINK(job->passes, pass);
    job->count--;
    http_dial_close(pass->dial);
    fd_closep(&pass->local_fd);
    buf_free(&pass->out);
    buf_free(&pass->in);
    free(pass);
}

static void job_free(struct port_job *job)
{
    while (job->passes)
        pass_free(job, job->passes);
    fd_closep(&job->listen_fd);
    fd_closep(&job->cancel_fd);
    client_close(&job->client);
    client_request_free(&job->request);
}

/* ---- the daemon's answer ---- */

/* The daemon did not switch; false: its answer is not whole yet. */
static bool tell_refusal(const struct pass *pass, const char *body, bool is_over)
{
    size_t length = pass->in.length - (size_t)(body - pass->in.data);
    json_t *json = json_loadb(body, length, 0, NULL);
    unsigned status = 0;
    struct error err = {0};

    if (!json && !is_over && pass->in.length < HEAD_MAX)
        return false;
    json_decref(json);
    if (sscanf(pass->in.data, "HTTP/1.%*1[01] %3u", &status) != 1)
        status = 500;
    client_api_error(status, body, length, &err);
    message_print("a connection was refused: %s", err.text);
    return true;
}

/* 1: it has switched, 0: not yet, -1: it has not. */
static int read_answer(struct pass *pass)
{
    const char *end =
        pass->in.length ? memmem(pass->in.data, pass->in.length, "\r\n\r\n", 4) : NULL;

    if (!end && !pass->far_end && pass->in.length < HEAD_MAX)
        return 0;
    if (!end) {
        message_print("a connection was refused: the daemon went away");
        return -1;
    }
    if (!str_starts(pass->in.data, "HTTP/1.1 101 "))
        return tell_refusal(pass, end + 4, pass->far_end) ? -1 : 0;
    buf_consume(&pass->in, (size_t)(end + 4 - pass->in.data));
    pass->is_open = true;
    return 1;
}

/* ---- bytes ---- */

static int read_local(struct pass *pass)
{
    char block[BLOCK];
    ssize_t count;

    if (!pass->is_open || pass->local_end || pass->out.length > 0)
        return 0;
    count = recv(pass->local_fd, block, sizeof(block), MSG_DONTWAIT);
    if (count < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    pass->local_end = count == 0;
    return buf_append(&pass->out, block, (size_t)count);
}

static int write_far(const struct port_job *job, struct pass *pass)
{
    while (pass->out.length > 0) {
        ssize_t count = http_dial_write(pass->dial, pass->out.data, pass->out.length);

        if (count == -EAGAIN)
            return 0;
        if (count < 0)
            return (int)count;
        buf_consume(&pass->out, (size_t)count);
    }
    if (!pass->local_end || pass->is_shut)
        return 0;
    pass->is_shut = true;
    /* TLS cannot end one direction alone here: what closes, closes both. */
    if (job->client.url && str_starts(job->client.url, "https:"))
        return -EPIPE;
    shutdown(http_dial_fd(pass->dial), SHUT_WR);
    return 0;
}

static int read_far(struct pass *pass)
{
    while (!pass->far_end && pass->in.length < BLOCK) {
        char block[BLOCK];
        ssize_t count = http_dial_read(pass->dial, block, sizeof(block));

        if (count == -EAGAIN)
            return 0;
        pass->far_end = count <= 0;
        if (count > 0 && buf_append(&pass->in, block, (size_t)count) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int write_local(struct pass *pass)
{
    while (pass->is_open && pass->in.length > 0) {
        ssize_t count =
            send(pass->local_fd, pass->in.data, pass->in.length, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (count < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        buf_consume(&pass->in, (size_t)count);
    }
    return 0;
}

/* From the session to the local client: bytes that TLS has decoded make no socket ready. */
static int move_in(struct pass *pass)
{
    bool was_full;
    int r;

    do {
        r = read_far(pass);
        was_full = pass->in.length >= BLOCK;
        if (r == 0 && !pass->is_open)
            r = read_answer(pass) < 0 ? -ECONNREFUSED : 0;
        if (r == 0)
            r = write_local(pass);
    } while (r == 0 && was_full && pass->in.length < BLOCK);
    return r;
}

/* Moves what can be moved; negative: it is over. */
static int pass_move(const struct port_job *job, struct pass *pass)
{
    int r = move_in(pass);

    if (r == 0)
        r = read_local(pass);
    if (r == 0)
        r = write_far(job, pass);
    if (r == 0 && pass->far_end && pass->in.length == 0)
        r = -ECONNRESET; /* the session's server has said all */
    pass->local_events =
        (short)((pass->is_open && !pass->local_end && pass->out.length == 0 ? POLLIN : 0) |
                (pass->is_open && pass->in.length > 0 ? POLLOUT : 0));
    pass->far_events = (short)((!pass->far_end && pass->in.length < BLOCK ? POLLIN : 0) |
                               (pass->out.length > 0 ? POLLOUT : 0));
    return r;
}

/* ---- connections ---- */

static int ask(struct port_job *job, struct pass *pass)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    struct error err = {0};
    char tail[32];
    int r;

    str_format(tail, sizeof(tail), "/ports/%u", job->port);
    r = client_session_path(&path, job->session, tail, &err);
    if (r == 0)
        r = http_dial_open(job->client.http, &pass->dial, &err);
    if (r < 0) {
        message_print("a connection was refused: %s", err.text);
        return r;
    }
    r = buf_printf(&pass->out, "GET %s HTTP/1.1\r\n", buf_text(&path));
    if (r == 0)
        r = http_dial_headers(pass->dial, &pass->out);
    if (r == 0)
        r = buf_append_text(&pass->out, "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n");
    return r;
}

static void take_connection(struct port_job *job)
{
    int fd = accept4(job->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct pass *pass = fd >= 0 ? calloc(1, sizeof(*pass)) : NULL;

    if (!pass) {
        if (fd >= 0)
            close(fd);
        return;
    }
    *pass = (struct pass){.next = job->passes,
                          .local_fd = fd,
                          .out = BUF_INIT(2 * HEAD_MAX + BLOCK),
                          .in = BUF_INIT(2 * BLOCK + HEAD_MAX)};
    job->passes = pass;
    job->count++;
    if (ask(job, pass) < 0 || pass_move(job, pass) < 0)
        pass_free(job, pass);
}

/* One turn; the signal that asks to end, or 0. */
static int turn(struct port_job *job, struct pollfd *fds)
{
    struct pass *next;
    size_t count = 2;

    fds[0] = (struct pollfd){.fd = job->cancel_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = job->count < LIMIT_PORT_STREAMS ? job->listen_fd : -1,
                             .events = POLLIN};
    for (struct pass *pass = job->passes; pass; pass = pass->next) {
        fds[count++] = (struct pollfd){.fd = pass->local_events ? pass->local_fd : -1,
                                       .events = pass->local_events};
        fds[count++] = (struct pollfd){.fd = pass->far_events ? http_dial_fd(pass->dial) : -1,
                                       .events = pass->far_events};
    }
    if (poll(fds, count, -1) < 0 && errno != EINTR)
        return SIGTERM;
    if (fds[0].revents)
        return signals_taken(job->cancel_fd);
    count = 2;
    for (struct pass *pass = job->passes; pass; pass = next, count += 2) {
        next = pass->next;
        if ((fds[count].revents || fds[count + 1].revents) && pass_move(job, pass) < 0)
            pass_free(job, pass);
    }
    if (fds[1].revents)
        take_connection(job);
    return 0;
}

/* ---- the command ---- */

static int open_local(struct port_job *job, struct error *err)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)job->local_port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int on = 1;

    job->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (job->listen_fd < 0)
        return error_errno(err, "opening a port of this machine");
    (void)setsockopt(job->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(job->listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(job->listen_fd, BACKLOG) < 0)
        return error_set(err, -errno, ERROR_BAD_INPUT,
                         "port %u of this machine: %s; choose another one with --local PORT",
                         job->local_port, strerror(errno));
    if (getsockname(job->listen_fd, (struct sockaddr *)&address, &length) == 0)
        job->local_port = ntohs(address.sin_port);
    return 0;
}

static int get_ports(struct port_job *job, json_t **ret, struct error *err)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    int r = client_session_path(&path, job->session, "/ports", err);

    return r < 0 ? r : client_call(&job->client, "GET", buf_text(&path), NULL, ret, err);
}

static int show_list(const struct port_job *job, json_t *reply)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    json_t *ports = json_object_get(reply, "ports"), *port;
    size_t i;
    int r = 0;

    if (job->request.is_json)
        return print_json(json_incref(reply));
    if (json_array_size(ports) == 0)
        message_print("nothing listens on a port of session %s", job->session);
    json_array_foreach(ports, i, port)
    {
        if (r == 0)
            r = buf_printf(&text, "%lld\n",
                           (long long)json_integer_value(json_object_get(port, "port")));
    }
    return print_text(&text);
}

static bool listens(json_t *reply, unsigned wanted)
{
    json_t *port;
    size_t i;

    json_array_foreach(json_object_get(reply, "ports"), i, port)
    {
        if (json_integer_value(json_object_get(port, "port")) == (json_int_t)wanted)
            return true;
    }
    return false;
}

static int forward(struct port_job *job, json_t *reply)
{
    CLEANUP(freep) struct pollfd *fds = calloc(2 + 2 * LIMIT_PORT_STREAMS, sizeof(*fds));
    struct error err = {0};
    int number = 0;

    if (!fds)
        error_memory(&err);
    if (!fds || signals_open(&job->cancel_fd, &err) < 0 || open_local(job, &err) < 0)
        return client_fail(job->request.is_json, &err);
    if (job->request.is_json) {
        int status = print_json(json_pack("{s:s, s:i, s:i}", "address", "127.0.0.1", "local",
                                          (int)job->local_port, "port", (int)job->port));

        if (status != 0)
            return status;
        fflush(stdout);
    } else {
        message_print("127.0.0.1:%u leads to port %u of session %s; Ctrl-C ends it",
                      job->local_port, job->port, job->session);
        if (!listens(reply, job->port))
            message_print("nothing listens on port %u of the session yet", job->port);
    }
    while (number == 0)
        number = turn(job, fds);
    return number == SIGINT || number == SIGTERM ? 0 : 128 + number; /* it was asked to end */
}

/* "3000" */
static int read_port(const char *text, bool may_be_any, unsigned *ret, struct error *err)
{
    uint64_t number;

    if (str_to_u64(text, &number) < 0 || number > UINT16_MAX || (number == 0 && !may_be_any))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "'%.40s' is no port: write a number from 1 to 65535", text);
    *ret = (unsigned)number;
    return 0;
}

static int read_words(struct port_job *job, const struct parsed *parsed, struct error *err)
{
    int r = 0;

    job->session = job->request.session;
    if (!job->session)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "which session? Add -s NAME");
    if (parsed->operand_count > 0)
        r = read_port(parsed->operands[0], false, &job->port, err);
    else if (job->request.local)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--local needs the session's port too: bailey port -s %.60s PORT",
                         job->session);
    job->local_port = job->port;
    if (r == 0 && job->request.local)
        r = read_port(job->request.local, true, &job->local_port, err);
    return r;
}

int port_run(const struct invocation *invocation)
{
    CLEANUP(job_free) struct port_job job = {.listen_fd = -1, .cancel_fd = -1};
    CLEANUP(json_freep) json_t *reply = NULL;
    struct error err = {0};

    if (client_request_load(invocation, &job.request, &err) < 0 ||
        read_words(&job, &invocation->parsed, &err) < 0 ||
        client_open(&job.client, job.request.config_file, invocation->env, CLIENT_STARTS, &err) <
            0 ||
        get_ports(&job, &reply, &err) < 0)
        return client_fail(job.request.is_json, &err);
    return job.port > 0 ? forward(&job, reply) : show_list(&job, reply);
}
