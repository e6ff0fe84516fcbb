/* context.c - `bailey context ls|new|restart|interrupt|rm -s ID`: interpreters of a session. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client/table.h"
#include "cli/client/words.h"
#include "cli/client_request.h"
#include "cli/say.h"
#include "model/text.h"

struct context_job {
    const struct invocation *invocation;
    struct client_request request;
    struct client client;
};

static void job_free(struct context_job *job)
{
    client_close(&job->client);
    client_request_free(&job->request);
}

/* /v1/sessions/ID/contexts, and one of them with a tail. */
static int context_path(const struct context_job *job, const char *context, const char *tail,
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
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);
    int64_t now_s = words_now();
    json_t *context;
    size_t i;

    table_begin(&table, headings);
    json_array_foreach(contexts, i, context)
    {
        char cell[WORDS_SIZE];

        table_cell(&table, member_text(context, "id"));
        table_cell(&table, member_text(context, "name"));
        table_cell(&table, member_text(context, "language"));
        table_cell(&table, member_text(context, "state"));
        str_format(cell, sizeof(cell), "%lld",
                   (long long)json_integer_value(json_object_get(context, "cells")));
        table_cell(&table, cell);
        words_when(member_text(context, "last_used_at"), now_s, cell);
        table_cell(&table, cell);
        table_cell(&table, member_text(context, "cwd"));
    }
    if (table_print(&table, &text) < 0) {
        say("out of memory printing the table");
        return STATUS_BAD_INPUT;
    }
    return print_text(&text);
}

static int action_ls(struct context_job *job, struct error *err)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep) json_t *reply = NULL;

    if (context_path(job, NULL, NULL, &path, err) < 0 ||
        client_call(&job->client, "GET", buf_text(&path), NULL, &reply, err) < 0)
        return client_fail(job->request.is_json, err);
    if (job->request.is_json)
        return print_json(json_incref(reply));
    return print_table(json_object_get(reply, "contexts"));
}

static int action_new(struct context_job *job, struct error *err)
{
    const struct client_request *request = &job->request;
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);
    CLEANUP(json_freep) json_t *context = NULL;
    json_t *body = json_pack("{s:s*, s:s*, s:s*}", "language", request->language, "name",
                             request->name, "cwd", request->cwd);

    if (!body)
        error_set(err, -EINVAL, ERROR_BAD_INPUT, "an argument is not UTF-8");
    if (!body || context_path(job, NULL, NULL, &path, err) < 0) {
        json_decref(body);
        return client_fail(request->is_json, err);
    }
    if (client_call(&job->client, "POST", buf_text(&path), body, &context, err) < 0)
        return client_fail(request->is_json, err);
    if (request->is_json)
        return print_json(json_incref(context));
    buf_printf(&text, "%s\n", member_text(context, "id"));
    return print_text(&text);
}

/* The same call for each that is named. */
static int each_context(struct context_job *job, const char *method, const char *tail)
{
    const struct parsed *parsed = &job->invocation->parsed;
    json_t *done = json_array();
    int status = 0;

    for (size_t i = 1; i < parsed->operand_count; i++) {
        CLEANUP(buf_free) struct buf path = PATH_BUF;
        json_t *context = NULL;
        struct error err = {0};

        if (context_path(job, parsed->operands[i], tail, &path, &err) < 0 ||
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

static int action_restart(struct context_job *job, struct error *err)
{
    (void)err;
    return each_context(job, "POST", "/restart");
}

static int action_interrupt(struct context_job *job, struct error *err)
{
    (void)err;
    return each_context(job, "POST", "/interrupt");
}

static int action_rm(struct context_job *job, struct error *err)
{
    (void)err;
    return each_context(job, "DELETE", "");
}

static const struct action {
    const char *name;
    size_t operands_min, operands_max; /* behind the action */
    bool is_new;                       /* takes --language, --name and --cwd */
    int (*run)(struct context_job *job, struct error *err);
} actions[] = {
    {"ls", 0, 0, false, action_ls},
    {"new", 0, 0, true, action_new},
    {"restart", 1, 32, false, action_restart},
    {"interrupt", 1, 32, false, action_interrupt},
    {"rm", 1, 32, false, action_rm},
};

static const struct action *action_find(const struct context_job *job, struct error *err)
{
    const struct parsed *parsed = &job->invocation->parsed;
    const struct client_request *request = &job->request;
    const struct action *found = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(actions) && parsed->operand_count > 0; i++) {
        if (str_equal(actions[i].name, parsed->operands[0]))
            found = &actions[i];
    }
    if (!found || parsed->operand_count - 1 < found->operands_min ||
        parsed->operand_count - 1 > found->operands_max)
        error_set(err, -EINVAL, ERROR_BAD_INPUT, "usage: bailey context %s", context_command.usage);
    else if (!request->session || !request->session[0])
        error_set(err, -EINVAL, ERROR_BAD_INPUT,
                  "-s needs a session; 'bailey session ls' lists them");
    else if (!found->is_new && (request->language || request->name || request->cwd))
        error_set(err, -EINVAL, ERROR_BAD_INPUT, "--language, --name and --cwd are for 'new'");
    else
        return found;
    return NULL;
}

int context_run(const struct invocation *invocation)
{
    CLEANUP(job_free) struct context_job job = {.invocation = invocation};
    const struct action *action;
    struct error err = {0};

    if (client_request_load(invocation, &job.request, &err) < 0)
        return client_fail(job.request.is_json, &err);
    action = action_find(&job, &err);
    if (!action ||
        client_open(&job.client, job.request.config_file, invocation->env, CLIENT_STARTS, &err) < 0)
        return client_fail(job.request.is_json, &err);
    return action->run(&job, &err);
}
