/*
 * ask.c - `bailey ask "Plot this" --file sales.csv --out results`: a message to a session that
 * answers by running code.
 *
 * The answer goes to standard output as it comes; code, its output and notes go to standard error,
 * so that the answer alone can be piped. Files are uploaded before and deleted afterwards: the
 * session has its own copies.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client/transfer.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "http/sse.h"
#include "model/text.h"
#include "store/output_file.h"

#define EVENT_MAX (32 * MIB)
#define BOUNDARY "bailey-ask-7d1f0c7b2a5e4f93"

struct ask {
    const struct invocation *invocation;
    struct client_request request;
    struct client client;
    struct output output;
    json_t *uploaded; /* ids of files */
    int cancel_fd, out_fd;
    int signal;

    struct http_exchange *exchange;
    struct sse_reader reader;
    struct buf body, reply; /* reply: of an error */
    unsigned status;
    bool is_over, ends_line;
    json_t *done;
    struct error err;
};

static void ask_free(struct ask *ask)
{
    if (ask->exchange)
        http_call_cancel(ask->exchange);
    sse_reader_free(&ask->reader);
    buf_free(&ask->body);
    buf_free(&ask->reply);
    json_decref(ask->uploaded);
    json_decref(ask->done);
    fd_closep(&ask->cancel_fd);
    fd_closep(&ask->out_fd);
    client_close(&ask->client);
    client_request_free(&ask->request);
}

static bool is_shown(const struct ask *ask)
{
    return !ask->request.is_quiet && !ask->request.is_json;
}

/* ---- files to the server ---- */

/* A form around a file: head, bytes, tail. */
struct form {
    struct buf head;
    const char *tail;
    size_t head_at, tail_at;
    int fd;
    int failure;
};

static long form_read(void *ctx, void *data, size_t size)
{
    struct form *form = ctx;
    size_t count = MIN(size, form->head.length - form->head_at);
    ssize_t length;

    if (count > 0) {
        memcpy(data, form->head.data + form->head_at, count);
        form->head_at += count;
        return (long)count;
    }
    length = fd_read_all(form->fd, data, size);
    if (length != 0) {
        form->failure = length < 0 ? (int)length : 0;
        return length < 0 ? -1 : (long)length;
    }
    count = MIN(size, strlen(form->tail) - form->tail_at);
    memcpy(data, form->tail + form->tail_at, count);
    form->tail_at += count;
    return (long)count;
}

/* The name in a form: quotes and line ends as browsers write them. */
static int add_name(struct buf *head, const char *name)
{
    const char *slash = strrchr(name, '/');
    int r = 0;

    for (const char *at = slash ? slash + 1 : name; *at && r == 0; at++)
        r = *at == '"'    ? buf_append_text(head, "%22")
            : *at == '\n' ? buf_append_text(head, "%0A")
            : *at == '\r' ? buf_append_text(head, "%0D")
                          : buf_append(head, at, 1);
    return r;
}

static int send_form(struct ask *ask, struct form *form, uint64_t bytes, struct error *err)
{
    static const char *const headers[] = {"Content-Type: multipart/form-data; boundary=" BOUNDARY,
                                          NULL};
    CLEANUP(buf_free) struct buf reply = BUF_INIT(MIB);
    CLEANUP(json_freep) json_t *json = NULL;
    const struct http_call call = {
        .method = "POST",
        .path = "/v1/files",
        .headers = headers,
        .body_read = form_read,
        .body_ctx = form,
        .body_total = (int64_t)(form->head.length + bytes + strlen(form->tail)),
    };
    unsigned status = 0;
    int r = http_call(ask->client.http, &call, &status, &reply, err);

    if (form->failure < 0)
        return error_set(err, form->failure, ERROR_BAD_INPUT, "reading a file: %s",
                         strerror(-form->failure));
    if (r == 0 && status >= 400)
        return client_api_error(status, buf_text(&reply), reply.length, err);
    json = r == 0 ? json_loads(buf_text(&reply), 0, NULL) : NULL;
    if (r == 0 && !member_text(json, "id")[0])
        r = error_set(err, -EPROTO, ERROR_ENGINE, "the server gave the file no id");
    if (r == 0)
        json_array_append(ask->uploaded, json_object_get(json, "id"));
    return r;
}

static int send_file(struct ask *ask, const char *path, struct error *err)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct form form = {.head = BUF_INIT(16 * KIB), .tail = "\r\n--" BOUNDARY "--\r\n", .fd = fd};
    struct stat status;
    int r;

    if (fd < 0 || fstat(fd, &status) < 0)
        return error_set(err, -errno, ERROR_NOT_FOUND, "--file '%.200s': %s", path,
                         strerror(errno));
    if (!S_ISREG(status.st_mode))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "--file '%.200s': not a regular file",
                         path);
    r = buf_append_text(&form.head, "--" BOUNDARY "\r\nContent-Disposition: form-data; "
                                    "name=\"purpose\"\r\n\r\nuser_data\r\n--" BOUNDARY
                                    "\r\nContent-Disposition: form-data; name=\"file\"; "
                                    "filename=\"");
    if (r == 0)
        r = add_name(&form.head, path);
    if (r == 0)
        r = buf_append_text(&form.head, "\"\r\n\r\n");
    r = r < 0 ? error_memory(err) : send_form(ask, &form, (uint64_t)status.st_size, err);
    if (r < 0 && err->code != ERROR_BAD_INPUT && err->code != ERROR_NOT_FOUND)
        error_prefix(err, path);
    buf_free(&form.head);
    return r;
}

/* The session has its own copies; a server that is gone keeps nothing either. */
static void delete_uploaded(struct ask *ask)
{
    json_t *id;
    size_t at;

    json_array_foreach(ask->uploaded, at, id)
    {
        CLEANUP(buf_free) struct buf path = PATH_BUF;
        json_t *reply = NULL;
        struct error ignored = {0};

        if (buf_printf(&path, "/v1/files/%s", json_string_value(id)) == 0 &&
            client_call(&ask->client, "DELETE", buf_text(&path), NULL, &reply, &ignored) == 0)
            json_decref(reply);
    }
}

/* ---- events ---- */

static void show_lines(struct ask *ask, const char *first, const char *next, const char *text)
{
    if (!ask->ends_line)
        output_write(&ask->output, 1, "\n", 1);
    ask->ends_line = true;
    while (*text) {
        size_t length = strcspn(text, "\n");

        output_write(&ask->output, 2, first, strlen(first));
        output_write(&ask->output, 2, text, length);
        output_write(&ask->output, 2, "\n", 1);
        text += length + (text[length] == '\n');
        first = next;
    }
}

static void show_output(struct ask *ask, json_t *output)
{
    const char *type = member_text(output, "type");

    if (str_equal(type, "image/png"))
        message_print("[a picture]");
    else
        show_lines(ask, "    ", "    ", member_text(output, "content"));
}

static void on_event(void *ctx, const char *id, const char *event, const char *data, size_t length)
{
    struct ask *ask = ctx;
    CLEANUP(json_freep) json_t *json = json_loadb(data, length, JSON_ALLOW_NUL, NULL);
    json_t *delta = json_object_get(json, "delta");

    (void)id;
    if (ask->done || ask->err.code)
        return;
    if (str_equal(event, "text") && json_string_length(delta) > 0 && !ask->request.is_json) {
        const char *text = json_string_value(delta);

        output_write(&ask->output, 1, text, json_string_length(delta));
        ask->ends_line = text[json_string_length(delta) - 1] == '\n';
    } else if (str_equal(event, "code") && is_shown(ask)) {
        show_lines(ask, ">>> ", "... ", member_text(json, "code"));
    } else if (str_equal(event, "output") && is_shown(ask)) {
        show_output(ask, json);
    } else if (str_equal(event, "error")) {
        error_set(&ask->err, -EREMOTEIO, error_code_find(member_text(json, "code")), "%s",
                  member_text(json, "message"));
    } else if (str_equal(event, "done")) {
        ask->done = json_incref(json);
    }
}

/* ---- the call ---- */

static void on_status(void *ctx, unsigned status)
{
    ((struct ask *)ctx)->status = status;
}

static int on_data(void *ctx, const void *data, size_t length)
{
    struct ask *ask = ctx;

    if (ask->status >= 400)
        return buf_append(&ask->reply, data, length) == -ENOMEM ? -ENOMEM : 0;
    return sse_read(&ask->reader, data, length, on_event, ask);
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct ask *ask = ctx;

    ask->exchange = NULL;
    ask->is_over = true;
    if (ask->done || ask->err.code)
        return;
    if (err->num < 0)
        ask->err = *err;
    else if (status >= 400)
        client_api_error(status, buf_text(&ask->reply), ask->reply.length, &ask->err);
    else
        error_set(&ask->err, -EPROTO, ERROR_ENGINE, "the answer broke off");
}

static int make_body(struct ask *ask, struct error *err)
{
    const struct parsed *parsed = &ask->invocation->parsed;
    CLEANUP(json_freep)
    json_t *body = json_pack("{s:s, s:O, s:b, s:b, s:s*}", "message", parsed->operands[0], "files",
                             ask->uploaded, "stream", 1, "verbose", ask->request.is_all, "session",
                             ask->request.session);

    if (!body)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "the message is not UTF-8");
    return text_of_json(body, JSON_COMPACT, &ask->body) < 0 ? error_memory(err) : 0;
}

static int converse(struct ask *ask)
{
    static const struct http_call_events events = {
        .status = on_status, .data = on_data, .done = on_done};
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Accept: text/event-stream", NULL};
    int r = make_body(ask, &ask->err);

    if (r == 0)
        r = http_call_start(ask->client.http,
                            &(struct http_call){.method = "POST",
                                                .path = "/v1/chat",
                                                .headers = headers,
                                                .body = buf_text(&ask->body),
                                                .body_length = ask->body.length,
                                                .body_total = -1},
                            &events, ask, &ask->exchange, &ask->err);
    while (r == 0 && !ask->is_over && !ask->signal) {
        struct pollfd poller = {.fd = ask->cancel_fd, .events = POLLIN};
        int running = http_client_wait(ask->client.http, &poller, 1, -1);

        if (running < 0 && running != -EINTR)
            r = error_set(&ask->err, running, ERROR_ENGINE, "waiting for the server: %s",
                          strerror(-running));
        else if (poller.revents)
            ask->signal = signals_taken(ask->cancel_fd);
        if (ask->output.failure < 0)
            ask->signal = SIGPIPE;
    }
    if (ask->exchange) /* a server whose client left interrupts the code */
        http_call_cancel(ptr_take(&ask->exchange));
    return ask->err.code ? ask->err.num : 0;
}

/* ---- files of the answer ---- */

static int write_piece(void *ctx, const void *data, size_t length)
{
    return output_writer_write(ctx, data, length);
}

static int save_file(struct ask *ask, json_t *file, struct error *err)
{
    struct output_writer writer = OUTPUT_WRITER_INIT;
    const char *name = member_text(file, "name"), *url = member_text(file, "url");
    const char *problem = output_name_problem(name);
    int r;

    if (problem || !str_starts(url, "/v1/containers/"))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "the file '%.100s' is not saved: %s", name,
                         problem ? problem : "its address is not one of this server");
    r = output_writer_begin(&writer, ask->out_fd, name, 0644);
    if (r < 0)
        return error_set(err, r, ERROR_BAD_INPUT, "writing %s/%s: %s", ask->request.out, name,
                         strerror(-r));
    r = transfer_receive(&ask->client, url, json_integer_value(json_object_get(file, "bytes")),
                         isatty(STDERR_FILENO) && is_shown(ask) ? name : NULL, NULL, write_piece,
                         &writer, err);
    if (r == 0) {
        r = output_writer_end(&writer);
        if (r < 0)
            error_set(err, r, ERROR_BAD_INPUT, "writing %s/%s: %s", ask->request.out, name,
                      strerror(-r));
    }
    output_writer_cancel(&writer);
    if (r == 0 && is_shown(ask))
        message_print("saved %s/%s", ask->request.out, name);
    return r;
}

static int save_files(struct ask *ask, struct error *err)
{
    json_t *files = json_object_get(ask->done, "files"), *file;
    size_t at, count = json_array_size(files);
    int r = 0;

    if (ask->out_fd < 0) {
        if (count > 0 && is_shown(ask))
            message_print("%zu file%s; --out DIR saves them", count, count == 1 ? "" : "s");
        return 0;
    }
    json_array_foreach(files, at, file)
    {
        if (r == 0)
            r = save_file(ask, file, err);
    }
    return r;
}

static int open_folder(struct ask *ask, struct error *err)
{
    if (!ask->request.out)
        return 0;
    if (mkdir(ask->request.out, 0777) == 0 || errno == EEXIST)
        ask->out_fd = open(ask->request.out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return ask->out_fd < 0 ? error_set(err, -errno, ERROR_BAD_INPUT, "--out '%.200s': %s",
                                       ask->request.out, strerror(errno))
                           : 0;
}

/* ---- the command ---- */

static int finish(struct ask *ask)
{
    struct error err = {0};
    int r;

    if (!ask->ends_line)
        output_write(&ask->output, 1, "\n", 1);
    output_finish(&ask->output);
    if (ask->signal) {
        if (ask->signal != SIGPIPE)
            message_print("interrupted: the code was stopped");
        return 128 + ask->signal;
    }
    if (ask->err.code)
        return client_fail(ask->request.is_json, &ask->err);
    r = save_files(ask, &err);
    if (r < 0)
        return client_fail(ask->request.is_json, &err);
    if (ask->request.is_json)
        return print_json(json_incref(ask->done));
    if (member_text(ask->done, "note")[0])
        message_print("%s", member_text(ask->done, "note"));
    if (is_shown(ask))
        message_print("session %s; 'bailey ask -s %s ...' goes on",
                      member_text(ask->done, "session"), member_text(ask->done, "session"));
    return 0;
}

static int read_arguments(struct ask *ask, struct error *err)
{
    const struct parsed *parsed = &ask->invocation->parsed;

    if (client_request_load(ask->invocation, &ask->request, err) < 0)
        return err->num;
    if (parsed->operand_count == 0 || !parsed->operands[0][0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "what is the question? usage: bailey ask %s", ask_command.usage);
    return open_folder(ask, err);
}

static int send_files(struct ask *ask, struct error *err)
{
    int r = 0;

    for (size_t i = 0; ask->request.files && ask->request.files[i] && r == 0; i++)
        r = send_file(ask, ask->request.files[i], err);
    return r;
}

int ask_run(const struct invocation *invocation)
{
    CLEANUP(ask_free)
    struct ask ask = {.invocation = invocation,
                      .cancel_fd = -1,
                      .out_fd = -1,
                      .ends_line = true,
                      .reader = SSE_READER_INIT(EVENT_MAX),
                      .body = BUF_INIT(LIMIT_REQUEST_JSON),
                      .reply = BUF_INIT(64 * KIB),
                      .uploaded = json_array()};
    struct error err = {0};

    if (read_arguments(&ask, &err) < 0 ||
        client_open(&ask.client, ask.request.config_file, invocation->env, CLIENT_STARTS, &err) <
            0 ||
        client_bring_settings(&ask.client, invocation, &err) < 0 ||
        signals_open(&ask.cancel_fd, &err) < 0)
        return client_fail(ask.request.is_json, &err);
    output_init(&ask.output, ask.request.is_raw, ask.cancel_fd);
    if (send_files(&ask, &ask.err) == 0)
        converse(&ask);
    delete_uploaded(&ask);
    return finish(&ask);
}
