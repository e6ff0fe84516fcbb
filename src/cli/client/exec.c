/*
 * exec.c - `bailey exec -s NAME -- ARGV`: runs a command in a session, as if it ran here.
 *
 * Output is shown as it is written, standard input is sent with --stdin, the exit status is the
 * command's. Ctrl-C goes to the command: the first one interrupts it, the second kills it.
 */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/commands.h"
#include "cli/client/exec.h"
#include "cli/client/report.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/place.h"
#include "cli/signals.h"

/* Options of a box: a session's box exists already. */
static const char *const box_options[] = {"memory",    "cpus", "pids",   "disk",    "file", "out",
                                          "isolation", "root", "timing", "explain", NULL};

void exec_job_free(struct exec_job *job)
{
    input_free(&job->input);
    follow_free(&job->follow);
    client_close(&job->client);
    request_free(&job->request);
    fd_closep(&job->cancel_fd);
}

static int check_options(const struct invocation *invocation, const struct request *request,
                         struct error *err)
{
    for (size_t i = 0; box_options[i]; i++)
        if (option_given(&invocation->parsed, box_options[i], NULL))
            return error_set(
                err, -EINVAL, ERROR_BAD_INPUT,
                "--%s is for a fresh box, and a session's box exists already: omit it, or omit -s",
                box_options[i]);
    if (!request->session[0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "-s needs a session; 'bailey session ls' lists them");
    if (request->is_detached && request->has_stdin)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "-d and --stdin cannot be used together: a background command has no "
                         "client to send input");
    if (!invocation->parsed.rest[0] || !invocation->parsed.rest[0][0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "nothing to run: name a program, as in 'bailey exec -s NAME -- ls -l'");
    return 0;
}

/* Seconds of --timeout; 0: until the session ends; <0 in *ret: not given. */
static int find_timeout(const struct invocation *invocation, double *ret, struct error *err)
{
    const char *text = NULL;
    uint64_t ms;

    *ret = -1;
    if (!option_given(&invocation->parsed, "timeout", &text))
        return 0;
    if (str_to_millis(text, &ms) < 0)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--timeout '%.40s': seconds, or a time such as 250ms, 5m; 0: until the "
                         "session ends",
                         text);
    *ret = (double)ms / 1000;
    return 0;
}

int exec_body(const struct invocation *invocation, const struct request *request,
              const char *const *argv, json_t **ret, struct error *err)
{
    CLEANUP(json_freep) json_t *body = json_object();
    CLEANUP(json_freep) json_t *words = NULL;
    CLEANUP(json_freep) json_t *env = NULL;
    double timeout_s;
    int result = find_timeout(invocation, &timeout_s, err);

    if (result == 0)
        result = report_words(argv, &words, err);
    if (result == 0)
        result = report_env(request->env, &env, err);
    if (result < 0)
        return result;
    if (timeout_s < 0 && request->is_detached)
        timeout_s = 0; /* a background command may run as long as its session lives */
    json_object_set(body, "argv", words);
    if (json_object_size(env) > 0)
        json_object_set(body, "env", env);
    if (timeout_s >= 0)
        json_object_set_new(body, "timeout", json_real(timeout_s));
    if (request->cwd)
        json_object_set_new(body, "cwd", json_string(request->cwd));
    if (request->has_stdin)
        json_object_set_new(body, "stdin", json_true());
    if (request->is_detached)
        json_object_set_new(body, "background", json_true());
    *ret = ptr_take(&body);
    return 0;
}

static void on_started(void *ctx, json_t *process)
{
    struct exec_job *job = ctx;

    (void)process;
    job->input.path = buf_text(&job->follow.path);
}

static int on_output(void *ctx, int stream, const void *data, size_t length)
{
    struct exec_job *job = ctx;

    return job->request.is_json ? 0 : output_write(&job->output, stream, data, length);
}

/* Kills it and waits only for the reply: the output has no reader any more. */
static void kill_now(struct exec_job *job)
{
    struct error ignored = {0};

    if (job->follow.path.length > 0)
        follow_signal(&job->follow, "KILL", &ignored);
}

/* Whether there is anything to wait for. */
static bool on_signal(struct exec_job *job, int number)
{
    struct error err = {0};
    const char *name = number != SIGINT || job->interrupts > 0 ? "KILL" : "INT";

    if (!job->signal)
        job->signal = number;
    job->interrupts++;
    if (job->follow.path.length == 0)
        return false; /* it has not begun: closing the connection ends it */
    if (!job->request.is_json && !job->request.is_quiet)
        message_print(str_equal(name, "INT") ? "interrupting the command; Ctrl-C again kills it"
                                             : "killing the command");
    if (follow_signal(&job->follow, name, &err) < 0 && err.code != ERROR_EXECUTION_ENDED)
        message_error(&err);
    return job->interrupts < 3;
}

/* Reads standard input; its end is sent to the command. */
static void read_stdin(struct exec_job *job)
{
    char chunk[INPUT_CHUNK];
    ssize_t count = read(STDIN_FILENO, chunk, sizeof(chunk));

    if (count < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (count <= 0)
        input_end(&job->input);
    else
        input_put(&job->input, chunk, (size_t)count);
}

int exec_watch(struct exec_job *job)
{
    for (;;) {
        bool reads =
            job->request.has_stdin && job->follow.has_started && input_has_room(&job->input);
        struct pollfd fds[2] = {{.fd = job->cancel_fd, .events = POLLIN},
                                {.fd = reads ? STDIN_FILENO : -1, .events = POLLIN}};
        int result, number;

        if (job->request.has_stdin)
            input_turn(&job->input);
        result = follow_turn(&job->follow, fds, ARRAY_SIZE(fds), -1);
        if (result != 0)
            return result;
        if (fds[1].revents)
            read_stdin(job);
        number = fds[0].revents ? signals_taken(job->cancel_fd) : 0;
        if (number && !on_signal(job, number))
            return 0;
    }
}

void exec_leave(struct exec_job *job)
{
    output_finish(&job->output);
    if (!job->signal)
        job->signal = signals_taken(job->cancel_fd);
    if (job->output.failure == -EPIPE || job->output.failure == -ECANCELED)
        kill_now(job);
}

static int finish(struct exec_job *job, int ended)
{
    const struct request *request = &job->request;

    exec_leave(job);
    if (job->output.failure == -EPIPE)
        return 128 + SIGPIPE;
    if (ended == 1 && request->is_json) {
        int printed = print_json(json_incref(job->follow.result));

        return printed ? printed : report_status(job->follow.result, job->signal);
    }
    if (job->signal) {
        message_print("interrupted: the command was ended");
        return 128 + job->signal;
    }
    if (job->output.failure < 0) {
        message_print("writing standard %s: %s; the command was ended",
                      job->output.failed_stream == 2 ? "error" : "output",
                      strerror(-job->output.failure));
        kill_now(job);
        return STATUS_BAD_INPUT;
    }
    if (ended < 0)
        return client_fail(request->is_json, &job->follow.err);
    if (job->input.err.code)
        message_print("standard input did not reach the command whole: %s", job->input.err.text);
    report_missed(&job->follow);
    return report_result(job->follow.result, request->is_quiet);
}

static int detach(struct exec_job *job, json_t *body)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);
    json_t *process = NULL;
    struct error err = {0};

    if (client_session_path(&path, job->request.session, "/exec", &err) < 0) {
        json_decref(body);
        return client_fail(job->request.is_json, &err);
    }
    if (client_call(&job->client, "POST", buf_text(&path), body, &process, &err) < 0)
        return client_fail(job->request.is_json, &err);
    if (job->request.is_json)
        return print_json(process);
    buf_printf(&text, "%s\n", member_text(process, "execution_id"));
    json_decref(process);
    return print_text(&text);
}

int exec_begin(struct exec_job *job, const char *session, json_t *body, struct error *err)
{
    static const struct follow_events events = {.started = on_started, .output = on_output};
    int result;

    follow_init(&job->follow, &job->client, &events, job);
    input_init(&job->input, &job->client);
    result = signals_open(&job->cancel_fd, err);
    if (result < 0) {
        json_decref(body);
        return result;
    }
    output_init(&job->output, job->request.is_raw, job->cancel_fd);
    return follow_exec(&job->follow, session, body, err);
}

int exec_run(const struct invocation *invocation)
{
    CLEANUP(exec_job_free) struct exec_job job = {.cancel_fd = -1};
    CLEANUP(json_freep) json_t *body = NULL;
    struct error err = {0};

    if (place_url(invocation->env) && !option_given(&invocation->parsed, "session", NULL))
        return exec_remote(invocation);
    job.request.caller_env = invocation->env;
    job.request.is_json = option_given(&invocation->parsed, "json", NULL);
    if (options_take(&invocation->parsed, &job.request, &err) < 0 ||
        check_options(invocation, &job.request, &err) < 0 ||
        exec_body(invocation, &job.request, invocation->parsed.rest, &body, &err) < 0 ||
        client_open(&job.client, job.request.config_file, invocation->env, CLIENT_STARTS, &err) <
            0 ||
        client_bring_settings(&job.client, invocation, &err) < 0)
        return client_fail(job.request.is_json, &err);
    if (job.request.is_detached)
        return detach(&job, ptr_take(&body));
    if (exec_begin(&job, job.request.session, ptr_take(&body), &err) < 0)
        return client_fail(job.request.is_json, &err);
    return finish(&job, exec_watch(&job));
}
