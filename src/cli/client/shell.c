/*
 * shell.c - `bailey shell -s NAME`: a terminal in a session.
 *
 * The local terminal is in raw mode meanwhile: every key is sent to the guest, except for the
 * escape sequences of keys.h. The guest's output goes to the terminal unchanged. The command runs
 * in the background of its session, so that neither the detach key nor a broken connection ends it;
 * the loss of the local terminal (SIGHUP) does.
 */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client/follow.h"
#include "cli/client/input.h"
#include "cli/client/keys.h"
#include "cli/client/report.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/output.h"

#define REPLAY_BYTES (16 * 1024) /* of past output that --attach shows */

struct shell {
    struct client_request request;
    struct client client;
    struct follow follow;
    struct input input;
    struct keys keys;
    struct termios saved;
    bool is_raw;
    int signal_fd;
    int signal; /* the signal that ended this program */
    bool is_detached;
    char number[32]; /* number of the execution */
};

static void restore(struct shell *shell)
{
    if (shell->is_raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &shell->saved);
    shell->is_raw = false;
}

static void shell_free(struct shell *shell)
{
    restore(shell);
    input_free(&shell->input);
    follow_free(&shell->follow);
    client_close(&shell->client);
    client_request_free(&shell->request);
    fd_closep(&shell->signal_fd);
}

static int make_raw(struct shell *shell, struct error *err)
{
    struct termios raw;

    if (tcgetattr(STDIN_FILENO, &shell->saved) < 0)
        return error_errno(err, "reading the terminal's settings");
    raw = shell->saved;
    cfmakeraw(&raw);
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
        return error_errno(err, "setting the terminal");
    shell->is_raw = true;
    return 0;
}

static int open_signals(struct shell *shell, struct error *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGQUIT);
    sigaddset(&set, SIGWINCH);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return error_errno(err, "blocking signals");
    shell->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return shell->signal_fd < 0 ? error_errno(err, "opening a signalfd") : 0;
}

static void window(unsigned *rows, unsigned *columns)
{
    struct winsize size;
    bool is_known = ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row && size.ws_col;

    *rows = is_known ? MIN(size.ws_row, LIMIT_TERMINAL) : 24;
    *columns = is_known ? MIN(size.ws_col, LIMIT_TERMINAL) : 80;
}

static void resize(struct shell *shell)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    struct error ignored = {0};
    unsigned rows, columns;

    window(&rows, &columns);
    if (shell->follow.path.length > 0 &&
        buf_printf(&path, "%s/resize", buf_text(&shell->follow.path)) == 0)
        client_call(&shell->client, "POST", buf_text(&path),
                    json_pack("{s:i, s:i}", "rows", (int)rows, "columns", (int)columns), NULL,
                    &ignored);
}

static void on_started(void *ctx, json_t *process)
{
    struct shell *shell = ctx;

    shell->input.path = buf_text(&shell->follow.path);
    str_format(shell->number, sizeof(shell->number), "%lld",
               (long long)json_integer_value(json_object_get(process, "number")));
}

static int on_output(void *ctx, int stream, const void *data, size_t length)
{
    (void)ctx;
    (void)stream; /* a terminal has one stream */
    return stream_write(STDOUT_FILENO, data, length, -1);
}

/* ---- starting ---- */

static int make_env(struct shell *shell, json_t **ret, struct error *err)
{
    int result = report_env(shell->request.env, ret, err);

    for (char *const *at = shell->request.caller_env; result == 0 && at && *at; at++)
        if (str_starts(*at, "TERM=") && !json_object_get(*ret, "TERM"))
            json_object_set_new(*ret, "TERM", json_string(*at + strlen("TERM=")));
    return result;
}

static int start(struct shell *shell, const struct invocation *invocation, struct error *err)
{
    static const char *const usual[] = {
        "/bin/sh", "-c", "command -v bash >/dev/null 2>&1 && exec bash -i; exec sh -i", NULL};
    const char *const *words = invocation->parsed.rest[0] ? invocation->parsed.rest : usual;
    CLEANUP(json_freep) json_t *argv = NULL;
    CLEANUP(json_freep) json_t *env = NULL;
    unsigned rows, columns;
    json_t *body;
    int result = report_words(words, &argv, err);

    if (result == 0)
        result = make_env(shell, &env, err);
    if (result < 0)
        return result;
    window(&rows, &columns);
    body =
        json_pack("{s:O, s:O, s:i, s:b, s:b, s:{s:i, s:i}}", "argv", argv, "env", env, "timeout", 0,
                  "background", 1, "collect", 0, "pty", "rows", (int)rows, "columns", (int)columns);
    if (body && shell->request.cwd)
        json_object_set_new(body, "cwd", json_string(shell->request.cwd));
    return follow_exec(&shell->follow, shell->request.session, body, err);
}

/* Begins a little before the end of the stored output, so that the screen is not empty. */
static int attach(struct shell *shell, struct error *err)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep) json_t *process = NULL;
    json_int_t bytes;
    int result = client_session_path(&path, shell->request.session, "/processes/", err);

    if (result == 0 && http_encode(&path, shell->request.attach) < 0)
        result = error_set(err, -EFBIG, ERROR_BAD_INPUT, "an argument is too long");
    if (result == 0)
        result = client_call(&shell->client, "GET", buf_text(&path), NULL, &process, err);
    if (result < 0)
        return result;
    if (!json_is_true(json_object_get(process, "pty")) &&
        !json_is_object(json_object_get(process, "pty")))
        return error_set(err, -ENOTTY, ERROR_NOT_A_TERMINAL,
                         "execution %.40s has no terminal; 'bailey logs -f' follows it",
                         shell->request.attach);
    bytes = json_integer_value(json_object_get(process, "stdout_bytes"));
    if (bytes > REPLAY_BYTES) {
        shell->follow.at[0] = (uint64_t)(bytes - REPLAY_BYTES);
        str_format(shell->follow.last_id, sizeof(shell->follow.last_id), "%llu-0",
                   (unsigned long long)shell->follow.at[0]);
    }
    result = follow_attach(&shell->follow, shell->request.session, shell->request.attach, err);
    if (result < 0)
        return result;
    on_started(shell, process);
    shell->follow.has_started = true;
    resize(shell);
    return 0;
}

/* ---- while it runs ---- */

static void kill_guest(struct shell *shell, const char *signal)
{
    struct error ignored = {0};

    if (shell->follow.path.length > 0)
        follow_signal(&shell->follow, signal, &ignored);
}

static void read_keys(struct shell *shell)
{
    CLEANUP(buf_free) struct buf keys = BUF_INIT(2 * INPUT_CHUNK);
    char data[4096];
    ssize_t count = read(STDIN_FILENO, data, sizeof(data));

    if (count < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (count <= 0) {
        shell->signal = SIGHUP; /* the local terminal is gone */
        return;
    }
    switch (keys_feed(&shell->keys, data, (size_t)count, &keys)) {
    case KEYS_DETACH:
        shell->is_detached = true;
        break;
    case KEYS_KILL:
        kill_guest(shell, "KILL");
        break;
    case KEYS_NONE:
        break;
    }
    input_put(&shell->input, buf_text(&keys), keys.length);
}

static void read_signals(struct shell *shell)
{
    struct signalfd_siginfo info;

    while (read(shell->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGWINCH)
            resize(shell);
        else
            shell->signal = (int)info.ssi_signo;
    }
}

/* 1: it has ended; 0: stop; negative: follow.err says why. */
static int watch(struct shell *shell)
{
    while (!shell->signal && !shell->is_detached) {
        struct pollfd fds[2] = {
            {.fd = shell->signal_fd, .events = POLLIN},
            {.fd = input_has_room(&shell->input) ? STDIN_FILENO : -1, .events = POLLIN}};
        int result;

        if (shell->input.is_over && !shell->input.err.code)
            shell->input.path = NULL; /* it has ended; its exit event follows */
        if (shell->input.err.code) {  /* the broker went away: keys typed meanwhile are lost */
            shell->input.err = (struct error){0};
            shell->input.is_over = false;
        }
        input_turn(&shell->input);
        result = follow_turn(&shell->follow, fds, ARRAY_SIZE(fds), -1);
        if (result != 0)
            return result;
        if (fds[0].revents)
            read_signals(shell);
        if (fds[1].revents)
            read_keys(shell);
    }
    return 0;
}

static int finish(struct shell *shell, int ended)
{
    restore(shell);
    if (shell->is_detached) {
        message_print("detached; 'bailey shell -s %s --attach %s' returns to it",
                      shell->request.session, shell->number);
        return 0;
    }
    if (shell->signal) {
        kill_guest(shell, "HUP");
        return 128 + shell->signal;
    }
    if (ended < 0)
        return client_fail(false, &shell->follow.err);
    return report_result(shell->follow.result, true);
}

static int check(const struct client_request *request, struct error *err)
{
    if (!request->session || !request->session[0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "which session? -s NAME ('bailey session new' makes one)");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return error_set(
            err, -ENOTTY, ERROR_BAD_INPUT,
            "a shell needs a terminal here; without one: bailey exec -s NAME --stdin -- "
            "bash");
    return 0;
}

int shell_run(const struct invocation *invocation)
{
    static const struct follow_events events = {.started = on_started, .output = on_output};
    CLEANUP(shell_free) struct shell shell = {.signal_fd = -1};
    struct error err = {0};

    if (client_request_load(invocation, &shell.request, &err) < 0 ||
        check(&shell.request, &err) < 0 ||
        client_open(&shell.client, shell.request.config_file, invocation->env, CLIENT_STARTS,
                    &err) < 0 ||
        client_bring_settings(&shell.client, invocation, &err) < 0)
        return client_fail(false, &err);
    follow_init(&shell.follow, &shell.client, &events, &shell);
    input_init(&shell.input, &shell.client);
    if (open_signals(&shell, &err) < 0 ||
        (shell.request.attach ? attach(&shell, &err) : start(&shell, invocation, &err)) < 0 ||
        make_raw(&shell, &err) < 0)
        return client_fail(false, &err);
    return finish(&shell, watch(&shell));
}
