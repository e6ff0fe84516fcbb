/*
 * daemon.c - starts a daemon on demand.
 *
 * A daemon is running if a connection to its socket succeeds. If none is, `bailey serve
 * --on-demand` is started detached (a grandchild in its own session, standard streams on /dev/null)
 * with a pipe that carries "ready" or the error's text. If two clients do this at once, one daemon
 * gets the lock and the other one's error says so; its client then waits for the winner as long as
 * the lock is held.
 */
#include "cli/client/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/engine.h"
#include "launcher/launcher.h"

#define READY "ready\n"
#define RETRY_MS 20
#define LOG_TAIL_BYTES 2048

/* 0: a process accepts connections; -ECONNREFUSED or -ENOENT: none does. */
static int try_connect(const struct paths *paths, struct error *err)
{
    CLEANUP(fd_closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (fd < 0)
        return error_errno(err, "making a socket");
    str_copy(address.sun_path, sizeof(address.sun_path), paths->socket);
    while (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        if (errno == EINTR)
            continue;
        if (errno == EACCES || errno == EPERM)
            return error_set(err, -errno, ERROR_NO_DAEMON,
                             "the socket %.200s belongs to another user", paths->socket);
        return error_set(err, -errno, ERROR_NO_DAEMON,
                         "no daemon is running (no process listens on %.200s)", paths->socket);
    }
    return 0;
}

static bool is_nobody(int result)
{
    return result == -ECONNREFUSED || result == -ENOENT;
}

/* In the grandchild. Only async-signal-safe calls, between fork and exec. */
static _Noreturn void become_daemon(const char *program, char *const *argv, int ready_fd)
{
    static const char failed[] = "the program 'bailey' cannot be executed";
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    for (int fd = 0; fd <= 2 && null_fd >= 0; fd++)
        dup2(null_fd, fd);
    execve(program, argv, environ);
    fd_write_all(ready_fd, failed, sizeof(failed) - 1);
    _exit(127);
}

/* The child only forks the grandchild, so that the daemon becomes no zombie of this process. */
static int start_detached(const char *program, char *const *argv, int ready_fd, struct error *err)
{
    pid_t child = fork();

    if (child < 0)
        return error_errno(err, "starting the daemon");
    if (child == 0) {
        pid_t grandchild;

        setsid();
        fcntl(ready_fd, F_SETFD, 0);
        grandchild = fork();
        if (grandchild == 0)
            become_daemon(program, argv, ready_fd);
        _exit(grandchild < 0);
    }
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
    return 0;
}

static int start(const struct paths *paths, const char *config_file, int *ret_fd, struct error *err)
{
    CLEANUP(fd_closep) int read_fd = -1;
    CLEANUP(fd_closep) int write_fd = -1;
    char program[PATH_MAX], number[16];
    const char *argv[16] = {"bailey",  "serve",      "--on-demand", "--socket", paths->socket,
                            "--state", paths->state, "--ready-fd",  number};
    int fds[2], result = engine_find_bailey(program, err);

    if (result < 0)
        return result;
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_errno(err, "making a pipe");
    read_fd = fds[0];
    write_fd = fds[1];
    str_format(number, sizeof(number), "%d", write_fd);
    if (config_file) {
        argv[9] = "--config";
        argv[10] = config_file;
    }
    result = start_detached(program, (char *const *)argv, write_fd, err);
    if (result < 0)
        return result;
    *ret_fd = fd_take(&read_fd);
    return 0;
}

/* ---- a daemon that ended without a reason ---- */

static off_t log_size(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 ? status.st_size : 0;
}

/* The last line of `text` that does not repeat `known`; cuts `text`. NULL: none. */
static const char *last_line(char *text, const char *known)
{
    for (;;) {
        char *line = strrchr(text, '\n');

        line = line ? line + 1 : text;
        if (line[0] && !strstr(line, known))
            return line;
        if (line == text)
            return NULL;
        line[-1] = 0;
    }
}

/*
 * Replaces "its log says why" by the log's name and the last line that this daemon wrote. `from` is
 * the size of the log before: older lines belong to another daemon.
 */
static void add_reason(char *text, size_t size, const char *log, off_t from)
{
    CLEANUP(fd_closep) int fd = -1;
    size_t end;
    char tail[LOG_TAIL_BYTES + 1];
    const char *line;
    off_t now;
    ssize_t count;

    if (!str_ends(text, LOG_SAYS_WHY))
        return;
    end = strlen(text) - strlen(LOG_SAYS_WHY);
    text[end] = 0;
    fd = open(log, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    now = log_size(log);
    if (now < from)
        from = 0; /* the log was started anew */
    count = fd < 0 ? -1 : pread(fd, tail, LOG_TAIL_BYTES, MAX(from, now - LOG_TAIL_BYTES));
    tail[MAX(count, 0)] = 0;
    line = last_line(tail, text);
    str_format(text + end, size - end,
               line ? ": \"%.200s\". The log is %.300s" : "%s. The log is %.300s", line ? line : "",
               log);
}

/* Waits for "ready" or the error's text. */
static int wait_ready(int fd, const char *log, off_t log_from, struct error *err)
{
    uint64_t give_up_ms = clock_now_ms() + DAEMON_PATIENCE_MS;
    char text[ERROR_TEXT_MAX];
    size_t length = 0;

    while (length < sizeof(text) - 1) {
        uint64_t now_ms = clock_now_ms();
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        int ready = poll(&poller, 1, now_ms < give_up_ms ? (int)(give_up_ms - now_ms) : 0);
        ssize_t count;

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return error_set(err, -ETIMEDOUT, ERROR_NO_DAEMON,
                             "the daemon was started and is not ready after %d s; 'bailey daemon "
                             "log' shows what it does",
                             DAEMON_PATIENCE_MS / 1000);
        count = read(fd, text + length, sizeof(text) - 1 - length);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            break;
        length += (size_t)count;
        text[length] = 0;
        if (str_starts(text, READY))
            return 0;
    }
    text[length] = 0;
    add_reason(text, sizeof(text), log, log_from);
    return error_set(err, -EIO, ERROR_NO_DAEMON, "the daemon could not be started: %s",
                     length > 0 ? text : "it ended without an error message; try 'bailey serve'");
}

/* Another client's daemon is starting: waits as long as it holds the lock. */
static int wait_for_winner(struct paths *paths, struct error *err)
{
    uint64_t give_up_ms = clock_now_ms() + DAEMON_PATIENCE_MS;
    struct error last = {0};

    while (paths_is_locked(paths) && clock_now_ms() < give_up_ms) {
        int result = paths_adopt(paths, &last);

        if (result == 0)
            result = try_connect(paths, &last);
        if (!is_nobody(result)) {
            if (result < 0)
                *err = last;
            return result;
        }
        poll(NULL, 0, RETRY_MS);
    }
    return -ESRCH;
}

/* The daemon that won the lock may end at that moment: two attempts are enough. */
int daemon_reach(struct paths *paths, const char *config_file, bool starts, struct error *err)
{
    char log[PATH_MAX];
    int result = paths_path(paths, "daemon.log", log, sizeof(log), err);

    if (result == 0)
        result = paths_adopt(paths, err);
    if (result == 0)
        result = paths_check_owner(paths, err);
    if (result == 0)
        result = try_connect(paths, err);
    for (int attempt = 0; is_nobody(result) && starts && attempt < 2; attempt++) {
        CLEANUP(fd_closep) int ready_fd = -1;
        off_t log_from = log_size(log);

        result = wait_for_winner(paths, err);
        if (result != -ESRCH)
            return result;
        result = start(paths, config_file, &ready_fd, err);
        if (result < 0)
            return result;
        result = wait_ready(ready_fd, log, log_from, err);
        if (result < 0 && paths_is_locked(paths) && wait_for_winner(paths, err) == 0)
            return 0;
        if (result < 0)
            return result;
        result = try_connect(paths, err);
    }
    return result;
}
