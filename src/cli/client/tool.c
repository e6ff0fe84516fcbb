/* tool.c - `bailey tool NAME [JSON|-] -s NAME`: calls a tool of the daemon, as an agent does. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/signals.h"
#include "tool/tool.h"

struct tool_job {
    struct client client;
    struct buf input, reply;
    unsigned status;
    bool is_over;
    bool makes_default; /* the session `default` is not there yet */
    struct error err;
    struct http_exchange *exchange;
    int cancel_fd;
};

static void job_free(struct tool_job *job)
{
    if (job->exchange)
        http_call_cancel(job->exchange);
    client_close(&job->client);
    buf_free(&job->input);
    buf_free(&job->reply);
    fd_closep(&job->cancel_fd);
}

static int read_input(const struct parsed *parsed, struct buf *input, struct error *err)
{
    const char *argument = parsed->operand_count > 1 ? parsed->operands[1] : "-";
    int result = str_equal(argument, "-") ? buf_read_fd(input, STDIN_FILENO)
                                          : buf_append_text(input, argument);

    if (result == -EFBIG)
        return error_set(err, result, ERROR_TOO_LARGE, "the parameters are larger than %llu MB",
                         LIMIT_REQUEST_JSON / MIB);
    if (result < 0)
        return error_set(err, result, ERROR_ENGINE, "reading the parameters: %s",
                         strerror(-result));
    return 0;
}

static void on_status(void *ctx, unsigned status)
{
    ((struct tool_job *)ctx)->status = status;
}

static int on_data(void *ctx, const void *data, size_t length)
{
    return buf_append(&((struct tool_job *)ctx)->reply, data, length);
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct tool_job *job = ctx;

    job->exchange = NULL;
    job->is_over = true;
    job->err = *err;
    if (!err->num && status >= 400)
        client_api_error(status, buf_text(&job->reply), job->reply.length, &job->err);
}

static int start(struct tool_job *job, const char *name, const char *session, struct error *err)
{
    static const struct http_call_events events = {
        .status = on_status, .data = on_data, .done = on_done};
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    int result = 0;

    if (buf_append_text(&path, "/v1/tools/") < 0 || http_encode(&path, name) < 0)
        result = error_set(err, -EFBIG, ERROR_BAD_INPUT, "an argument is too long");
    if (result == 0 && session)
        result = client_query(&path, "session", session, err);
    return result < 0 ? result
                      : http_call_start(job->client.http,
                                        &(struct http_call){.method = "POST",
                                                            .path = buf_text(&path),
                                                            .headers = headers,
                                                            .body = buf_text(&job->input),
                                                            .body_length = job->input.length,
                                                            .body_total = -1},
                                        &events, job, &job->exchange, err);
}

/* run_python_code always replies with a text, whatever is wrong; its caller may be a model. */
static int fail(const char *name, const struct error *err)
{
    CLEANUP(buf_free) struct buf reply = BUF_INIT(TOOL_REPLY_MAX);
    const struct tool_row *tool = tool_find(name);

    if (!tool || tool->id != TOOL_RUN_PYTHON_CODE || run_python_code_failed(err, &reply) < 0)
        return client_fail(false, err);
    return print_guest_text(&reply);
}

/* ---- the session of calls that name none ---- */

#define DEFAULT_SESSION "default"

/* Whether the parameters, bare or in the envelope, say which session they are for. */
static bool names_session(const struct buf *input, const char *tool)
{
    CLEANUP(json_freep)
    json_t *json = json_loadb(buf_text(input), input->length, JSON_ALLOW_NUL, NULL);
    json_t *inner = json_object_get(json, "parameters");
    json_t *parameters = json_is_object(inner) && json_object_get(json, "tool") ? inner : json;

    if (json_object_get(parameters, "session"))
        return true;
    /* An execution's id begins with its session's. */
    return str_equal(tool, "sandbox_wait") &&
           strchr(member_text(parameters, "execution_id"), '.') != NULL;
}

/* With --url also the tools that need no session are called here. */
static bool is_alone(const char *name)
{
    const struct tool_row *tool = tool_find(name);

    return tool && tool->is_alone;
}

static bool is_there(struct client *client)
{
    CLEANUP(json_freep) json_t *session = NULL;
    struct error ignored = {0};

    return client_call(client, "GET", "/v1/sessions/" DEFAULT_SESSION, NULL, &session, &ignored) ==
               0 &&
           json_is_null(json_object_get(session, "ended_at"));
}

/* A session that stays is said, on standard error: standard output is the tool's reply. */
static void say_made(const struct buf *reply)
{
    CLEANUP(json_freep)
    json_t *json = json_loadb(reply->data, reply->length, JSON_ALLOW_NUL, NULL);
    const char *id = member_text(json, "session_id");

    if (!id[0])
        id = member_text(json_object_get(json, "meta"), "session_id");
    if (id[0])
        message_print("made the session '" DEFAULT_SESSION
                      "' (%s); calls without -s go on in it, 'bailey session rm " DEFAULT_SESSION
                      "' ends it",
                      id);
}

/* Closing the connection ends an execution that only this call was waiting for. */
static int wait_reply(struct tool_job *job, const char *name)
{
    while (!job->is_over) {
        struct pollfd poller = {.fd = job->cancel_fd, .events = POLLIN};
        int result = http_client_wait(job->client.http, &poller, 1, -1);
        int number = poller.revents ? signals_taken(job->cancel_fd) : 0;

        if (number) {
            message_print("interrupted: the call was ended");
            return 128 + number;
        }
        if (result < 0 && result != -EINTR) {
            error_set(&job->err, result, ERROR_ENGINE, "waiting: %s", strerror(-result));
            break;
        }
    }
    if (job->err.code || job->err.num)
        return fail(name, &job->err);
    if (job->makes_default)
        say_made(&job->reply);
    if (job->reply.length > 0 && job->reply.data[job->reply.length - 1] != '\n')
        buf_append_text(&job->reply, "\n");
    return print_guest_text(&job->reply);
}

/* `bailey tool --list` of a server, which may have other tools. */
static int list_tools(const struct invocation *invocation, const char *config_file)
{
    CLEANUP(client_close) struct client client = {0};
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);
    CLEANUP(json_freep) json_t *reply = NULL;
    struct error err = {0};
    json_t *tool;
    size_t i;

    if (client_open(&client, config_file, invocation->env, CLIENT_STARTS, &err) < 0 ||
        client_call(&client, "GET", "/v1/tools", NULL, &reply, &err) < 0)
        return client_fail(false, &err);
    if (option_given(&invocation->parsed, "json", NULL))
        return print_json(json_incref(reply));
    json_array_foreach(json_object_get(reply, "tools"), i, tool)
    {
        buf_printf(&text, "%-20s %-16s %s\n", member_text(tool, "name"),
                   member_text(tool, "category"), member_text(tool, "title"));
    }
    return print_guest_text(&text);
}

int tool_run(const struct invocation *invocation)
{
    CLEANUP(job_free)
    struct tool_job job = {.input = {.maximum = LIMIT_REQUEST_JSON},
                           .reply = {.maximum = LIMIT_REPLY_JSON},
                           .cancel_fd = -1};
    const struct parsed *parsed = &invocation->parsed;
    const char *session = NULL, *config_file = NULL;
    struct error err = {0};

    option_given(parsed, "session", &session);
    option_given(parsed, "config", &config_file);
    if (option_given(parsed, "list", NULL))
        return list_tools(invocation, config_file);
    if (parsed->operand_count == 0) {
        error_set(&err, -EINVAL, ERROR_BAD_INPUT, "which tool? 'bailey tool --list' lists them");
        return client_fail(false, &err);
    }
    if (read_input(parsed, &job.input, &err) < 0 ||
        client_open(&job.client, config_file, invocation->env, CLIENT_STARTS, &err) < 0 ||
        client_bring_settings(&job.client, invocation, &err) < 0 ||
        signals_open(&job.cancel_fd, &err) < 0)
        return fail(parsed->operands[0], &err);
    if (!session && !is_alone(parsed->operands[0]) &&
        !names_session(&job.input, parsed->operands[0])) {
        session = DEFAULT_SESSION;
        job.makes_default = !is_there(&job.client);
    }
    if (start(&job, parsed->operands[0], session, &err) < 0)
        return fail(parsed->operands[0], &err);
    return wait_reply(&job, parsed->operands[0]);
}
