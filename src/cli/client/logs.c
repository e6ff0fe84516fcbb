/* logs.c - `bailey logs ID EXEC [-f]`: the output of a command of a session. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client/follow.h"
#include "cli/client/report.h"
#include "cli/client/transfer.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/signals.h"

struct logs_job {
    struct client_request request;
    struct client client;
    char session[128], execution[64];
    struct output output;
    int stream; /* the stream that is being read */
    int cancel_fd;
};

static void job_free(struct logs_job *job)
{
    client_close(&job->client);
    client_request_free(&job->request);
    fd_closep(&job->cancel_fd);
}

/* "ID EXEC", or both in one argument as exec -d prints them: "ID.EXEC". */
static int find_names(struct logs_job *job, const struct parsed *parsed, struct error *err)
{
    const char *first = job->request.session, *second = parsed->operands[0];
    const char *dot = !first && second ? strrchr(second, '.') : NULL;
    size_t length = first ? strlen(first) : 0;
    bool is_wrong = first && parsed->operand_count != 1;

    if (!first && parsed->operand_count == 2) {
        first = second;
        second = parsed->operands[1];
        length = strlen(first);
    } else if (dot) {
        first = second;
        second = dot + 1;
        length = (size_t)(dot - first);
    }
    if (is_wrong || length == 0 || !second || !second[0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "which execution? usage: bailey logs %s ('bailey ps -a' lists them)",
                         logs_command.usage);
    if (str_format(job->session, sizeof(job->session), "%.*s", (int)MIN(length, (size_t)1000),
                   first) < 0 ||
        !str_copy(job->execution, sizeof(job->execution), second))
        return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "'%.60s' is no execution", second);
    return 0;
}

static int write_piece(void *ctx, const void *data, size_t length)
{
    struct logs_job *job = ctx;

    return output_write(&job->output, job->stream, data, length);
}

static int on_output(void *ctx, int stream, const void *data, size_t length)
{
    return output_write(&((struct logs_job *)ctx)->output, stream, data, length);
}

/* Where the stored part begins, if its start was deleted. */
static int first_kept(struct logs_job *job, const char *stream, char first[32], struct error *err)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(buf_free) struct buf reply = BUF_INIT(64 * KIB);
    CLEANUP(json_freep) json_t *json = NULL;
    unsigned status = 0;
    json_t *member;
    int result = client_session_path(&path, job->session, "/processes/", err);

    if (result == 0 && (http_encode(&path, job->execution) < 0 ||
                        buf_printf(&path, "/output?stream=%s&offset=0&length=1", stream) < 0))
        result = -ENOMEM;
    if (result == 0)
        result = http_call(
            job->client.http,
            &(struct http_call){.method = "GET", .path = buf_text(&path), .body_total = -1},
            &status, &reply, err);
    if (result < 0)
        return result;
    json = json_loadb(buf_text(&reply), reply.length, 0, NULL);
    member = json_object_get(json_object_get(json, "error"), "first");
    if (status != 416 || !json_is_integer(member))
        return -ERANGE;
    str_format(first, 32, "%lld", (long long)json_integer_value(member));
    return 0;
}

static int print_stream(struct logs_job *job, const char *stream, const char *offset,
                        struct error *err)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    char first[32];
    int result = client_session_path(&path, job->session, "/processes/", err);

    if (result == 0 && (http_encode(&path, job->execution) < 0 ||
                        buf_printf(&path, "/output?stream=%s&offset=%s", stream, offset) < 0))
        return error_set(err, -EFBIG, ERROR_BAD_INPUT, "an argument is too long");
    if (result == 0)
        result =
            transfer_receive(&job->client, buf_text(&path), -1, NULL, NULL, write_piece, job, err);
    if (result < 0 && err->code == ERROR_OFFSET_GONE && str_equal(offset, "0") &&
        first_kept(job, stream, first, err) == 0) {
        message_print("the first %s bytes of %s are no longer stored", first, stream);
        return print_stream(job, stream, first, err);
    }
    return result;
}

/* Prints what is stored now: one stream, then the other. */
static int print_now(struct logs_job *job)
{
    static const char *const streams[] = {"stdout", "stderr"};
    struct error err = {0};

    for (int i = 0; i < 2; i++) {
        int result;

        job->stream = i + 1;
        result = print_stream(job, streams[i], "0", &err);
        if (job->output.failure == -EPIPE)
            return 128 + SIGPIPE;
        if (result < 0)
            return client_fail(false, &err);
    }
    output_finish(&job->output);
    return 0;
}

static int print_until_end(struct logs_job *job)
{
    static const struct follow_events events = {.output = on_output};
    CLEANUP(follow_free) struct follow follow;
    struct error err = {0};
    int result, number = 0;

    follow_init(&follow, &job->client, &events, job);
    result = follow_attach(&follow, job->session, job->execution, &err);
    if (result < 0)
        return client_fail(false, &err);
    while (result == 0 && !number) {
        struct pollfd poller = {.fd = job->cancel_fd, .events = POLLIN};

        result = follow_turn(&follow, &poller, 1, -1);
        number = poller.revents ? signals_taken(job->cancel_fd) : 0;
    }
    output_finish(&job->output);
    if (job->output.failure == -EPIPE)
        return 128 + SIGPIPE;
    if (number || job->output.failure == -ECANCELED)
        return 128 + (number ? number : SIGINT); /* the command goes on: it was only watched */
    if (result < 0)
        return client_fail(false, &follow.err);
    report_missed(&follow);
    return 0;
}

int logs_run(const struct invocation *invocation)
{
    CLEANUP(job_free) struct logs_job job = {.cancel_fd = -1};
    struct error err = {0};

    if (client_request_load(invocation, &job.request, &err) < 0 ||
        find_names(&job, &invocation->parsed, &err) < 0 ||
        client_open(&job.client, job.request.config_file, invocation->env, CLIENT_STARTS, &err) <
            0 ||
        (job.request.follows && signals_open(&job.cancel_fd, &err) < 0))
        return client_fail(false, &err);
    output_init(&job.output, job.request.is_raw, job.cancel_fd);
    return job.request.follows ? print_until_end(&job) : print_now(&job);
}
