/* daemon_command.c - `bailey daemon status|stop|log`. None of them starts a daemon. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/action.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client/format.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "sys/calls.h"
#include "sys/cgroup.h"
#include "sys/owner.h"

#define TURN_MS 100
#define LOOK_MS 10000 /* to wait for the list of live sessions */
#define FORCED_LOOK_MS 2000

struct daemon_job {
    struct client_request request;
    struct client client;
};

static void job_free(struct daemon_job *job)
{
    client_close(&job->client);
    client_request_free(&job->request);
}

static int not_running(const struct daemon_job *job)
{
    if (job->request.is_json)
        print_json(json_pack("{s:b, s:s, s:s}", "running", 0, "socket", job->client.paths.socket,
                             "state", job->client.paths.state));
    else
        message_print("no daemon is running; the next command that needs one starts it");
    return STATUS_NOT_RUNNING;
}

/* ---- status ---- */

/* One line about what is kept warm; nothing if the daemon does not report it. */
static void warm_text(json_t *warm, struct buf *text)
{
    json_t *zygotes = json_object_get(warm, "zygotes"), *pool = json_object_get(warm, "pool");
    size_t ready = 0, i;
    char memory[32];
    json_t *one;

    if (!json_is_array(zygotes) || !json_is_object(pool))
        return;
    json_array_foreach(zygotes, i, one) ready += json_is_true(json_object_get(one, "ready"));
    str_from_bytes((uint64_t)json_integer_value(json_object_get(pool, "memory_bytes")), memory,
                   sizeof(memory));
    buf_printf(text, "%-13s %zu of %zu ready\n", "zygotes", ready, json_array_size(zygotes));
    buf_printf(text, "%-13s %lld of %lld boxes, %s\n", "pool",
               (long long)json_integer_value(json_object_get(pool, "boxes")),
               (long long)json_integer_value(json_object_get(pool, "size")), memory);
}

static int status_text(json_t *info)
{
    static const char *const names[] = {"version", "launcher_pid", "broker_pid",  "socket",
                                        "state",   "sessions",     "max_sessions"};
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    char when[FORMAT_SIZE];
    int64_t started_s;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        json_t *value = json_object_get(info, names[i]);

        if (json_is_string(value))
            buf_printf(&text, "%-13s %s\n", names[i], json_string_value(value));
        else if (json_is_integer(value))
            buf_printf(&text, "%-13s %lld\n", names[i], (long long)json_integer_value(value));
    }
    if (format_parse_time(member_text(info, "started_at"), &started_s) == 0) {
        format_span(format_now() - started_s, when);
        buf_printf(&text, "%-13s %s\n", "uptime", when);
    }
    warm_text(json_object_get(info, "warm"), &text);
    return print_guest_text(&text);
}

/* Checks the lock first: the configuration and the socket's folder may not even exist. */
static int action_status(struct daemon_job *job, const struct invocation *invocation)
{
    CLEANUP(json_freep) json_t *info = NULL;
    CLEANUP(json_freep) json_t *warm = NULL;
    struct error err = {0};
    int64_t started_s;

    client_close(&job->client);
    if (client_open(&job->client, job->request.config_file, invocation->env, CLIENT_LOOKS, &err) <
        0) {
        if (err.code != ERROR_NO_DAEMON)
            return client_fail(job->request.is_json, &err);
        client_open(&job->client, job->request.config_file, invocation->env, CLIENT_NO_CALL, &err);
        return not_running(job);
    }
    if (client_call(&job->client, "GET", "/v1/info", NULL, &info, &err) < 0)
        return client_fail(job->request.is_json, &err);
    if (client_call(&job->client, "GET", "/v1/warm", NULL, &warm, &err) == 0)
        json_object_set(info, "warm", warm);
    if (!job->request.is_json)
        return status_text(info);
    json_object_set_new(info, "running", json_true());
    if (format_parse_time(member_text(info, "started_at"), &started_s) == 0)
        json_object_set_new(info, "uptime", json_integer(format_now() - started_s));
    return print_json(json_incref(info));
}

/* ---- stop ---- */

/*
 * The pid in daemon.json is trusted only while the lock is held, and the lock is checked again once
 * a pidfd of the process is open: then it cannot be another process.
 */
static int open_daemon(const struct paths *paths, int *ret_fd, struct daemon_record *record,
                       struct error *err)
{
    int result = paths_read_record(paths, record, err);

    if (result < 0)
        return result;
    if (record->pid_namespace && record->pid_namespace != owner_pid_namespace())
        return error_set(err, -EXDEV, ERROR_BAD_INPUT,
                         "the daemon of this state folder (its pid there is %d) runs in another "
                         "pid namespace, as in a container: stop it there, or stop the container",
                         (int)record->pid);
    *ret_fd = (int)syscall(SYS_pidfd_open, record->pid, 0);
    if (*ret_fd < 0)
        return error_errno(err, "opening process %d", (int)record->pid);
    return paths_is_locked(paths)
               ? 0
               : error_set(err, -ESRCH, ERROR_NO_DAEMON, "the daemon has just ended");
}

static void progress(const char *text)
{
    if (isatty(STDERR_FILENO))
        stream_write(STDERR_FILENO, text, strlen(text), -1);
}

/*
 * The engine dropped its rights and could not remove its own control groups; this process has the
 * caller's. The locks on them are released before the end of the process can be seen.
 */
static void sweep_groups(void)
{
    struct cgroup_site site;

    cgroup_find(&site);
    cgroup_sweep(&site);
}

/* "demo (s_4f1c...)", or the id of one that has no name. */
static void add_session(struct buf *text, json_t *session)
{
    const char *name = json_string_value(json_object_get(session, "name"));

    buf_printf(text, name ? "%s%s (%s)" : "%s%s%s", text->length > 0 ? ", " : "", name ? name : "",
               member_text(session, "id"));
}

/*
 * The live sessions, new reference; NULL: the daemon does not answer. A daemon that hangs can be
 * stopped by force only, and its answer is waited for only shortly then.
 */
static json_t *live_sessions(struct daemon_job *job)
{
    CLEANUP(buf_free) struct buf reply = BUF_INIT(LIMIT_REPLY_JSON);
    CLEANUP(json_freep) json_t *json = NULL;
    struct http_client *http = NULL;
    struct error ignored = {0};
    unsigned status = 0;

    if (paths_adopt(&job->client.paths, &ignored) < 0 ||
        http_client_open(job->client.paths.socket, &http, &ignored) < 0)
        return NULL;
    if (http_call(
            http,
            &(struct http_call){.method = "GET",
                                .path = "/v1/sessions",
                                .body_total = -1,
                                .timeout_ms = job->request.is_forced ? FORCED_LOOK_MS : LOOK_MS},
            &status, &reply, &ignored) == 0 &&
        status == 200)
        json = json_loadb(buf_text(&reply), reply.length, 0, NULL);
    http_client_close(http);
    return json_incref(json_object_get(json, "sessions"));
}

/* Whether the person at the terminal says yes. */
static bool agrees(const char *names, size_t count)
{
    char answer[16] = "";
    ssize_t length;

    message_print("%zu live session%s would end, with all files: %s", count, count == 1 ? "" : "s",
                  names);
    stream_write(STDERR_FILENO, "Stop the daemon? [y/N] ", 23, -1);
    length = read(STDIN_FILENO, answer, sizeof(answer) - 1);
    return length > 0 && (answer[0] == 'y' || answer[0] == 'Y');
}

/* 0: it may be stopped; else the exit status. */
static int check_sessions(struct daemon_job *job, json_t *sessions, const char *names)
{
    size_t count = json_array_size(sessions);
    struct error err = {0};

    if (job->request.is_forced || (sessions && count == 0))
        return 0;
    if (!sessions) {
        error_set(&err, -EBUSY, ERROR_ENGINE,
                  "the daemon does not answer, so it is not known whether sessions would end with "
                  "it; 'bailey daemon stop --force' stops it");
        return client_fail(job->request.is_json, &err);
    }
    if (!job->request.is_json && isatty(STDIN_FILENO) && isatty(STDERR_FILENO)) {
        if (agrees(names, count))
            return 0;
        message_print("the daemon was not stopped");
        return 1;
    }
    error_set(&err, -EBUSY, ERROR_BAD_INPUT,
              "%zu live session%s would end, with all files: %.600s. 'bailey daemon stop --force' "
              "ends them; 'bailey session rm' ends one",
              count, count == 1 ? "" : "s", names);
    return client_fail(job->request.is_json, &err);
}

static int say_stopped(const struct daemon_job *job, int pid, json_t *sessions, const char *names)
{
    json_t *ended = json_array(), *session;
    size_t i;

    json_array_foreach(sessions, i, session)
        json_array_append(ended, json_object_get(session, "id"));
    if (job->request.is_json)
        return print_json(
            json_pack("{s:b, s:i, s:o}", "stopped", 1, "pid", pid, "ended_sessions", ended));
    if (json_array_size(ended) > 0)
        message_print("ended %zu session%s: %s", json_array_size(ended),
                      json_array_size(ended) == 1 ? "" : "s", names);
    json_decref(ended);
    return 0;
}

static int action_stop(struct daemon_job *job)
{
    CLEANUP(buf_free) struct buf names = BUF_INIT(64 * KIB);
    CLEANUP(json_freep) json_t *sessions = NULL;
    CLEANUP(fd_closep) int pid_fd = -1;
    struct pollfd poller = {.events = POLLIN};
    struct daemon_record record;
    struct error err = {0};
    uint64_t give_up_ms;
    json_t *session;
    size_t i;
    int result;

    if (!paths_is_locked(&job->client.paths)) {
        /* A daemon that ended in another way left its control groups. */
        if (paths_read_record(&job->client.paths, &record, &err) == 0) {
            sweep_groups();
            paths_remove_record(&job->client.paths);
        }
        not_running(job);
        return 0;
    }
    result = open_daemon(&job->client.paths, &pid_fd, &record, &err);
    if (result == -ESRCH)
        return 0;
    if (result < 0)
        return client_fail(job->request.is_json, &err);
    sessions = live_sessions(job);
    json_array_foreach(sessions, i, session) add_session(&names, session);
    result = check_sessions(job, sessions, buf_text(&names));
    if (result != 0)
        return result;
    give_up_ms = clock_now_ms() + job->client.config.stop_grace_ms + DAEMON_PATIENCE_MS;
    if (sys_pidfd_send_signal(pid_fd, SIGTERM) < 0 && errno != ESRCH) {
        error_errno(&err, "stopping the daemon (pid %d)", (int)record.pid);
        return client_fail(job->request.is_json, &err);
    }
    poller.fd = pid_fd;
    progress("stopping the daemon ");
    while ((result = poll(&poller, 1, TURN_MS)) <= 0 && clock_now_ms() < give_up_ms)
        progress(result == 0 ? "." : "");
    progress("\r\033[K");
    if (result <= 0) {
        error_set(&err, -ETIMEDOUT, ERROR_ENGINE,
                  "the daemon (pid %d) has not ended; 'kill -9 %d' ends it and all that runs in it",
                  (int)record.pid, (int)record.pid);
        return client_fail(job->request.is_json, &err);
    }
    sweep_groups();
    paths_remove_record(&job->client.paths);
    return say_stopped(job, (int)record.pid, sessions, buf_text(&names));
}

/* ---- log ---- */

static int copy_log(int fd, struct output *output)
{
    char chunk[16 * 1024];
    ssize_t count;

    while ((count = read(fd, chunk, sizeof(chunk))) > 0)
        if (output_write(output, STDOUT_FILENO, chunk, (size_t)count) < 0)
            return output->failure;
    return count < 0 ? -errno : 0;
}

/* Whether the name refers to another file now: the log was started anew. */
static bool is_replaced(int fd, const char *path)
{
    struct stat ours, now;

    return fstat(fd, &ours) == 0 && stat(path, &now) == 0 && ours.st_ino != now.st_ino;
}

static int follow_log(const char *path, int *fd, int cancel_fd, struct output *output)
{
    for (;;) {
        struct pollfd poller = {.fd = cancel_fd, .events = POLLIN};
        int result = copy_log(*fd, output);

        if (result < 0)
            return result;
        if (is_replaced(*fd, path)) {
            int next = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

            if (next >= 0) {
                fd_closep(fd);
                *fd = next;
                continue;
            }
        }
        if (poll(&poller, 1, TURN_MS) > 0)
            return -ECANCELED;
    }
}

static int action_log(struct daemon_job *job)
{
    CLEANUP(fd_closep) int fd = -1;
    CLEANUP(fd_closep) int cancel_fd = -1;
    struct daemon_record record;
    struct output output;
    struct error err = {0};
    char path[PATH_MAX];
    int result = paths_path(&job->client.paths, "daemon.log", path, sizeof(path), &err);

    if (result < 0 || (job->request.follows && signals_open(&cancel_fd, &err) < 0))
        return client_fail(false, &err);
    if (paths_is_locked(&job->client.paths) &&
        paths_read_record(&job->client.paths, &record, &err) == 0 && !record.has_log)
        message_print(
            "the daemon (pid %d) was started by 'bailey serve' and logs to its own standard error",
            (int)record.pid);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY);
    if (fd < 0 && errno == ENOENT) {
        message_print("there is no log yet (%s)", path);
        return 0;
    }
    if (fd < 0) {
        error_errno(&err, "opening %.300s", path);
        return client_fail(false, &err);
    }
    output_init(&output, false, cancel_fd);
    result =
        job->request.follows ? follow_log(path, &fd, cancel_fd, &output) : copy_log(fd, &output);
    if (result == -ECANCELED)
        return 128 + MAX(signals_taken(cancel_fd), 2);
    if (result == -EPIPE)
        return 128 + SIGPIPE;
    if (result < 0)
        message_print("reading the log: %s", strerror(-result));
    return result < 0 ? STATUS_BAD_INPUT : 0;
}

int daemon_run(const struct invocation *invocation)
{
    CLEANUP(job_free) struct daemon_job job = {0};
    const char *action = invocation->parsed.operands[0];
    struct error err = {0};

    if (client_request_load(invocation, &job.request, &err) < 0 ||
        client_open(&job.client, job.request.config_file, invocation->env, CLIENT_NO_CALL, &err) <
            0)
        return client_fail(job.request.is_json, &err);
    if (str_equal(action, "status"))
        return action_status(&job, invocation);
    if (str_equal(action, "stop"))
        return action_stop(&job);
    if (str_equal(action, "log"))
        return action_log(&job);
    action_unknown(&daemon_command, action, &err);
    return client_fail(job.request.is_json, &err);
}
