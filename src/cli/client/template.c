/*
 * template.c - `bailey template build|ls|show|verify|rm`.
 *
 * A build's progress is one line that changes on a terminal, and lines elsewhere. Ctrl-C hangs up,
 * and the daemon gives up a build that nobody waits for.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client/table.h"
#include "cli/client/template_folder.h"
#include "cli/client/words.h"
#include "cli/client_request.h"
#include "cli/sanitize.h"
#include "cli/say.h"
#include "cli/signals.h"
#include "http/sse.h"
#include "model/text.h"

struct template_job {
    const struct invocation *invocation;
    struct client_request request;
    struct client client;
    const char *const *operands; /* behind the action */
    size_t operand_count;
};

static void job_free(struct template_job *job)
{
    client_close(&job->client);
    client_request_free(&job->request);
}

static int open_daemon(struct template_job *job, struct error *err)
{
    return client_open(&job->client, job->request.config_file, job->invocation->env, CLIENT_STARTS,
                       err);
}

static int template_path(struct buf *path, const char *name, const char *tail, struct error *err)
{
    if (buf_append_text(path, "/v1/templates/") < 0 || http_encode(path, name) < 0 ||
        buf_append_text(path, tail) < 0)
        return error_set(err, -EFBIG, ERROR_BAD_INPUT, "a template's name is too long");
    return 0;
}

/* ---- build ---- */

struct building {
    struct template_job *job;
    struct http_exchange *exchange;
    struct sse_reader reader;
    struct buf body, reply;
    unsigned status;
    json_t *built;
    struct error err;
    bool is_terminal, has_line; /* a line stands there that can be overwritten */
    int cancel_fd;
};

static void building_free(struct building *building)
{
    if (building->exchange)
        http_call_cancel(building->exchange);
    sse_reader_free(&building->reader);
    buf_free(&building->body);
    buf_free(&building->reply);
    json_decref(building->built);
    fd_closep(&building->cancel_fd);
}

static size_t terminal_columns(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

static void clear_line(struct building *building)
{
    if (building->has_line)
        fd_write_all(STDERR_FILENO, "\r\033[K", 4);
    building->has_line = false;
}

/* The line, harmless and as long as it may be. */
static void show_progress(struct building *building, const char *line)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(8 * KIB);
    size_t length = strlen(line), room = terminal_columns() - 1;

    if (building->job->request.is_quiet || building->job->request.is_json)
        return;
    if (!building->is_terminal) {
        say("%s", line);
        return;
    }
    clear_line(building);
    length = utf8_floor(line, MIN(length, room));
    buf_append(&text, line, length);
    for (size_t i = 0; i < text.length; i++)
        if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f ||
            (unsigned char)text.data[i] >= 0x80)
            text.data[i] = '?';
    fd_write_all(STDERR_FILENO, buf_text(&text), text.length);
    building->has_line = true;
}

static void take_event(void *ctx, const char *id, const char *event, const char *data,
                       size_t length)
{
    struct building *building = ctx;
    CLEANUP(json_freep) json_t *json = json_loadb(data, length, 0, NULL);

    (void)id;
    if (str_equal(event, "progress"))
        show_progress(building, member_text(json, "line"));
    else if (str_equal(event, "built") && !building->built)
        building->built = json_incref(json);
    else if (str_equal(event, "error"))
        client_api_error(500, data, length, &building->err);
}

static void on_status(void *ctx, unsigned status)
{
    ((struct building *)ctx)->status = status;
}

static int on_data(void *ctx, const void *data, size_t length)
{
    struct building *building = ctx;

    if (building->status >= 400)
        return buf_append(&building->reply, data, length) < 0 ? -ECANCELED : 0;
    return sse_read(&building->reader, data, length, take_event, building) < 0 ? -ECANCELED : 0;
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct building *building = ctx;

    building->exchange = NULL;
    if (status >= 400)
        client_api_error(status, buf_text(&building->reply), building->reply.length,
                         &building->err);
    else if (!building->built && !building->err.code) {
        if (err->num < 0)
            building->err = *err;
        else
            error_set(&building->err, -ECONNRESET, ERROR_ENGINE, "the answer has no end");
        error_prefix(&building->err, "the daemon hung up; the template was not built");
    }
}

static int start_build(struct building *building, json_t *template, struct error *err)
{
    static const struct http_call_events events = {
        .status = on_status, .data = on_data, .done = on_done};
    static const char *const headers[] = {"Content-Type: application/json",
                                          "Accept: text/event-stream", NULL};

    if (text_of_json(template, JSON_COMPACT, &building->body) < 0)
        return error_set(err, -EFBIG, ERROR_TOO_LARGE, "the template is too large");
    return http_call_start(building->job->client.http,
                           &(struct http_call){.method = "POST",
                                               .path = "/v1/templates",
                                               .headers = headers,
                                               .body = buf_text(&building->body),
                                               .body_length = building->body.length,
                                               .body_total = -1},
                           &events, building, &building->exchange, err);
}

/* 0, or the status of a signal that ended the waiting. */
static int wait_build(struct building *building)
{
    while (building->exchange) {
        struct pollfd poller = {.fd = building->cancel_fd, .events = POLLIN};
        int result = http_client_wait(building->job->client.http, &poller, 1, -1);
        int number = poller.revents ? signals_taken(building->cancel_fd) : 0;

        if (number)
            return 128 + number;
        if (result < 0 && result != -EINTR) {
            error_set(&building->err, result, ERROR_ENGINE, "waiting: %s", strerror(-result));
            return 0;
        }
    }
    return 0;
}

static int print_built(struct building *building)
{
    json_t *built = building->built;
    char size[WORDS_SIZE];

    if (building->job->request.is_json)
        return print_json(json_incref(built));
    words_bytes((uint64_t)json_integer_value(json_object_get(built, "bytes")), size);
    if (!building->job->request.is_quiet)
        say("the template '%s' is %s: Python %s, %zu packages, %s", member_text(built, "name"),
            json_is_true(json_object_get(built, "was_there")) ? "there already" : "built",
            member_text(built, "python"), json_array_size(json_object_get(built, "packages")),
            size);
    return 0;
}

static int action_build(struct template_job *job)
{
    CLEANUP(building_free)
    struct building building = {.job = job,
                                .reader = SSE_READER_INIT(MIB),
                                .body = BUF_INIT(LIMIT_REQUEST_JSON),
                                .reply = BUF_INIT(MIB),
                                .is_terminal = isatty(STDERR_FILENO),
                                .cancel_fd = -1};
    CLEANUP(json_freep) json_t *template = NULL;
    struct error err = {0};
    int status;

    if (template_load(job->operand_count ? job->operands[0] : NULL, &template, &err) < 0 ||
        open_daemon(job, &err) < 0 || signals_open(&building.cancel_fd, &err) < 0 ||
        start_build(&building, template, &err) < 0)
        return client_fail(job->request.is_json, &err);
    status = wait_build(&building);
    clear_line(&building);
    if (status) {
        say("interrupted: the template was not built");
        return status;
    }
    if (!building.built)
        return client_fail(job->request.is_json, &building.err);
    return print_built(&building);
}

/* ---- ls, show ---- */

static int list_table(json_t *templates)
{
    static const char *const headings[] = {"NAME",  "STATE", "PYTHON",      ">PACKAGES",
                                           ">SIZE", "BUILT", "DESCRIPTION", NULL};
    CLEANUP(table_free) struct table table;
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_REPLY_JSON);
    int64_t now_s = words_now();
    json_t *template;
    size_t i;

    table_begin(&table, headings);
    json_array_foreach(templates, i, template)
    {
        json_int_t bytes = json_integer_value(json_object_get(template, "bytes"));
        size_t count = json_array_size(json_object_get(template, "packages"));
        char words[WORDS_SIZE];

        table_cell(&table, member_text(template, "name"));
        table_cell(&table, member_text(template, "state"));
        table_cell(&table, member_text(template, "python"));
        str_format(words, sizeof(words), "%zu", count);
        table_cell(&table, count ? words : NULL);
        words_bytes((uint64_t)bytes, words);
        table_cell(&table, bytes ? words : NULL);
        words_when(member_text(template, "built_at"), now_s, words);
        table_cell(&table, words);
        table_cell(&table, member_text(template, "description"));
    }
    if (table_print(&table, &text) < 0) {
        say("out of memory printing the table");
        return STATUS_BAD_INPUT;
    }
    return print_text(&text);
}

static int action_ls(struct template_job *job)
{
    CLEANUP(buf_free) struct buf names = BUF_INIT(MIB);
    CLEANUP(json_freep) json_t *reply = NULL;
    json_t *templates, *template;
    struct error err = {0};
    size_t i;

    if (open_daemon(job, &err) < 0 ||
        client_call(&job->client, "GET", "/v1/templates", NULL, &reply, &err) < 0)
        return client_fail(job->request.is_json, &err);
    if (job->request.is_json)
        return print_json(json_incref(reply));
    templates = json_object_get(reply, "templates");
    if (!job->request.is_quiet)
        return list_table(templates);
    json_array_foreach(templates, i, template)
    {
        buf_printf(&names, "%s\n", member_text(template, "name"));
    }
    return print_text(&names);
}

/* "numpy 2.4.6" a line; other members as they are. */
static void show_member(struct table *table, const char *key, json_t *value)
{
    CLEANUP(buf_free) struct buf cell = BUF_INIT(256 * KIB);
    json_t *item;
    size_t i;

    if (json_is_string(value))
        buf_append_text(&cell, json_string_value(value));
    else if (str_equal(key, "packages"))
        json_array_foreach(value, i, item)
        {
            buf_printf(&cell, "%s%s %s", i ? ", " : "", member_text(item, "name"),
                       member_text(item, "version"));
        }
    else if (!json_is_null(value))
        text_of_json(value, JSON_ENCODE_ANY, &cell);
    table_cell(table, key);
    table_cell(table, buf_text(&cell));
}

static int action_show(struct template_job *job)
{
    static const char *const headings[] = {"KEY", "VALUE", NULL};
    CLEANUP(buf_free) struct buf path = PATH_BUF, text = BUF_INIT(MIB);
    CLEANUP(json_freep) json_t *template = NULL;
    CLEANUP(table_free) struct table table = {0};
    struct error err = {0};
    const char *key;
    json_t *value;

    if (open_daemon(job, &err) < 0 || template_path(&path, job->operands[0], "", &err) < 0 ||
        client_call(&job->client, "GET", buf_text(&path), NULL, &template, &err) < 0)
        return client_fail(job->request.is_json, &err);
    if (job->request.is_json)
        return print_json(json_incref(template));
    table_begin(&table, headings);
    json_object_foreach(template, key, value)
    {
        show_member(&table, key, value);
    }
    if (table_print(&table, &text) < 0) {
        say("out of memory printing the template");
        return STATUS_BAD_INPUT;
    }
    return print_text(&text);
}

/* ---- verify, rm: each that is named ---- */

static int each_named(struct template_job *job, const char *method, const char *tail,
                      int (*report)(struct template_job *job, const char *name, json_t *reply))
{
    struct error err = {0};
    int status = 0;

    if (open_daemon(job, &err) < 0)
        return client_fail(job->request.is_json, &err);
    for (size_t i = 0; i < job->operand_count; i++) {
        CLEANUP(buf_free) struct buf path = PATH_BUF;
        CLEANUP(json_freep) json_t *reply = NULL;
        int result;

        err = (struct error){0};
        if (template_path(&path, job->operands[i], tail, &err) < 0 ||
            client_call(&job->client, method, buf_text(&path), NULL, &reply, &err) < 0)
            result = client_fail(job->request.is_json, &err);
        else
            result = report(job, job->operands[i], reply);
        status = status ? status : result;
    }
    return status;
}

static int report_verify(struct template_job *job, const char *name, json_t *reply)
{
    bool is_intact = json_is_true(json_object_get(reply, "intact"));

    if (job->request.is_json)
        print_json(json_incref(reply));
    else if (!is_intact)
        say("the template '%s' is damaged: %s; build it again: bailey template rm %s && bailey "
            "template build %s",
            name, member_text(reply, "problem"), name, name);
    else if (!job->request.is_quiet)
        say("the template '%s' is what it was when it was built", name);
    return is_intact ? 0 : 1;
}

static int report_rm(struct template_job *job, const char *name, json_t *reply)
{
    (void)name;
    return job->request.is_json ? print_json(json_incref(reply)) : 0;
}

static int action_verify(struct template_job *job)
{
    return each_named(job, "POST", "/verify", report_verify);
}

static int action_rm(struct template_job *job)
{
    return each_named(job, "DELETE", "", report_rm);
}

/* ---- which ---- */

static const struct action {
    const char *name;
    size_t operands_min, operands_max;
    const char *usage;
    int (*run)(struct template_job *job);
} actions[] = {
    {"build", 0, 1, "build [NAME|FOLDER]", action_build},
    {"ls", 0, 0, "ls", action_ls},
    {"show", 1, 1, "show NAME", action_show},
    {"verify", 1, 63, "verify NAME...", action_verify},
    {"rm", 1, 63, "rm NAME...", action_rm},
};

static const struct action *action_find(const char *name, struct error *err)
{
    const char *names[WORDS_LIST_MAX];
    const char *nearest;

    for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
        if (str_equal(actions[i].name, name))
            return &actions[i];
    words_list(WORDS_TEMPLATE_ACTION, names);
    nearest = name ? str_nearest(name, names) : NULL;
    if (nearest)
        error_set(err, -EINVAL, ERROR_BAD_INPUT,
                  "unknown action '%.60s'; did you mean 'bailey template %s'?", name, nearest);
    else
        error_set(err, -EINVAL, ERROR_BAD_INPUT, "usage: bailey template %s",
                  template_command.usage);
    return NULL;
}

int template_run(const struct invocation *invocation)
{
    CLEANUP(job_free) struct template_job job = {.invocation = invocation};
    const struct action *action;
    struct error err = {0};

    if (client_request_load(invocation, &job.request, &err) < 0)
        return client_fail(job.request.is_json, &err);
    action = action_find(invocation->parsed.operands[0], &err);
    if (!action)
        return client_fail(job.request.is_json, &err);
    job.operands = invocation->parsed.operands + 1;
    job.operand_count = invocation->parsed.operand_count - 1;
    if (job.operand_count < action->operands_min || job.operand_count > action->operands_max) {
        error_set(&err, -EINVAL, ERROR_BAD_INPUT, "usage: bailey template %s", action->usage);
        return client_fail(job.request.is_json, &err);
    }
    return action->run(&job);
}
