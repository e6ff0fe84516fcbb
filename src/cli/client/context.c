/* context.c - `bailey context ls|new|restart|interrupt|rm -s NAME`: interpreters of a session. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/action.h"
#include "cli/client/commands.h"
#include "cli/client/format.h"
#include "cli/client/table.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "model/text.h"

/* /v1/sessions/ID/contexts, and one of them with a tail. */
static int context_path(const struct action_job *job, const char *context, const char *tail,
                        struct buf *path, struct error *err)
{
    int r =
        client_session_path(path, job->request.session, context ? "/contexts/" : "/contexts", err);

    if (r == 0 && context && (http_encode(path, context) < 0 || buf_append_text(path, tail) < 0))
        r = error_set(err, -EFBIG, ERROR_BAD_INPUT, "a context's name is too long");
    return r;
}

static int print_table(json_t *contexts)
{
    static const char *const headings[] = {"ID",     "NAME",      "LANGUAGE", "STATE",
                                           ">CELLS", "LAST USED", "FOLDER",   NULL};
    CLEANUP(table_free) struct table table;
    int64_t now_s = format_now();
    json_t *context;
    size_t i;

    table_begin(&table, headings);
    json_array_foreach(contexts, i, context)
    {
        char cell[FORMAT_SIZE];

        table_cell(&table, member_text(context, "id"));
        table_cell(&table, member_text(context, "name"));
        table_cell(&table, member_text(context, "language"));
        table_cell(&table, member_text(context, "state"));
        str_format(cell, sizeof(cell), "%lld",
                   (long long)json_integer_value(json_object_get(context, "cells")));
        table_cell(&table, cell);
        format_when(member_text(context, "last_used_at"), now_s, cell);
        table_cell(&table, cell);
        table_cell(&table, member_text(context, "cwd"));
    }
    return table_show(&table);
}

/* Checks the session and the options that only `new` has; then connects to the daemon. */
static int begin(struct action_job *job, bool is_new, struct error *err)
{
    const struct client_request *request = &job->request;

    if (!request->session || !request->session[0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "which session? -s NAME ('bailey session ls' lists them)");
    if (!is_new && (request->language || request->name || request->cwd))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--language, --name and --cwd are for 'new'");
    return action_open(job, err);
}

static int action_ls(struct action_job *job)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep) json_t *reply = NULL;
    struct error err = {0};

    if (begin(job, false, &err) < 0 || context_path(job, NULL, NULL, &path, &err) < 0 ||
        client_call(&job->client, "GET", buf_text(&path), NULL, &reply, &err) < 0)
        return client_fail(job->request.is_json, &err);
    if (job->request.is_json)
        return print_json(json_incref(reply));
    return print_table(json_object_get(reply, "contexts"));
}

static int action_new(struct action_job *job)
{
    const struct client_request *request = &job->request;
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);
    CLEANUP(json_freep) json_t *context = NULL;
    struct error err = {0};
    json_t *body;

    if (begin(job, true, &err) < 0 || context_path(job, NULL, NULL, &path, &err) < 0)
        return client_fail(request->is_json, &err);
    body = json_pack("{s:s*, s:s*, s:s*}", "language", request->language, "name", request->name,
                     "cwd", request->cwd);
    if (!body)
        error_set(&err, -EINVAL, ERROR_BAD_INPUT, "an argument is not UTF-8");
    if (!body || client_call(&job->client, "POST", buf_text(&path), body, &context, &err) < 0)
        return client_fail(request->is_json, &err);
    if (request->is_json)
        return print_json(json_incref(context));
    buf_printf(&text, "%s\n", member_text(context, "id"));
    return print_text(&text);
}

/* The same call for each named context. */
static int each_context(struct action_job *job, const char *method, const char *tail)
{
    struct error err = {0};
    json_t *done;
    int status = 0;

    if (begin(job, false, &err) < 0)
        return client_fail(job->request.is_json, &err);
    done = json_array();
    for (size_t i = 0; i < job->operand_count; i++) {
        CLEANUP(buf_free) struct buf path = PATH_BUF;
        json_t *context = NULL;

        err = (struct error){0};
        if (context_path(job, job->operands[i], tail, &path, &err) < 0 ||
            client_call(&job->client, method, buf_text(&path), NULL, &context, &err) < 0)
            status = client_fail(job->request.is_json, &err);
        else
            json_array_append_new(done, context);
    }
    if (job->request.is_json && status == 0)
        return print_json(json_pack("{s:o}", "contexts", done));
    json_decref(done);
    return status;
}

static int action_restart(struct action_job *job)
{
    return each_context(job, "POST", "/restart");
}

static int action_interrupt(struct action_job *job)
{
    return each_context(job, "POST", "/interrupt");
}

static int action_rm(struct action_job *job)
{
    return each_context(job, "DELETE", "");
}

static const struct action actions[] = {
    {"ls", 0, 0, "ls -s NAME", NULL, .run = action_ls},
    {"new", 0, 0, "new -s NAME [-l LANGUAGE] [-n NAME] [--cwd DIR]", NULL, .run = action_new,
     .brings_settings = true},
    {"restart", 1, 32, "restart -s NAME CONTEXT...", NULL, .run = action_restart},
    {"interrupt", 1, 32, "interrupt -s NAME CONTEXT...", NULL, .run = action_interrupt},
    {"rm", 1, 32, "rm -s NAME CONTEXT...", NULL, .run = action_rm},
};

int context_run(const struct invocation *invocation)
{
    return action_run(invocation, actions, ARRAY_SIZE(actions));
}
