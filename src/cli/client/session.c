/*
 * session.c - `bailey session new|ls|show|extend|pause|resume|rm`.
 *
 * Datasets are opened here, with the caller's own rights, and streamed; errors in their names or
 * files are found before the session is created.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/action.h"
#include "cli/client/commands.h"
#include "cli/client/datasets.h"
#include "cli/client/format.h"
#include "cli/client/report.h"
#include "cli/client/table.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "model/text.h"

/* ---- new ---- */

/* A session without its data would be misleading: it is deleted again. */
static void take_back(struct action_job *job, const char *id)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    struct error ignored = {0};

    if (client_session_path(&path, id, "", &ignored) == 0)
        client_call(&job->client, "DELETE", buf_text(&path), NULL, NULL, &ignored);
}

static int new_body(const struct client_request *request, json_t **ret, struct error *err)
{
    CLEANUP(json_freep) json_t *env = NULL;
    json_t *body = json_object();
    const char *name = request->name ? request->name : request->session;
    int result = report_env(request->env, &env, err);

    if (result == 0 && request->session && request->name &&
        !str_equal(request->session, request->name))
        result = error_set(err, -EINVAL, ERROR_BAD_INPUT,
                           "-s and --name both name the new session; give only one of them");
    if (result < 0) {
        json_decref(body);
        return result;
    }
    if (name)
        json_object_set_new(body, "name", text_to_json(name, strlen(name)));
    if (request->template_name)
        json_object_set_new(body, "template",
                            text_to_json(request->template_name, strlen(request->template_name)));
    if (json_object_size(env) > 0)
        json_object_set(body, "env", env);
    if (request->idle_ms)
        json_object_set_new(body, "idle_timeout_s",
                            json_integer((json_int_t)request->idle_ms / 1000));
    if (request->max_age_ms)
        json_object_set_new(body, "max_age_s",
                            json_integer((json_int_t)request->max_age_ms / 1000));
    *ret = body;
    return 0;
}

static int print_id(json_t *session)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);

    buf_printf(&text, "%s\n", member_text(session, "id"));
    return print_text(&text);
}

static int session_get(struct action_job *job, const char *id, json_t **ret, struct error *err)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    int result = client_session_path(&path, id, "", err);

    return result < 0 ? result : client_call(&job->client, "GET", buf_text(&path), NULL, ret, err);
}

static int action_new(struct action_job *job)
{
    CLEANUP(datasets_free) struct dataset *datasets = NULL;
    CLEANUP(json_freep) json_t *session = NULL;
    CLEANUP(json_freep) json_t *whole = NULL;
    json_t *body = NULL;
    struct error err = {0};

    if (datasets_open(job->request.data, &datasets, &err) < 0 ||
        new_body(&job->request, &body, &err) < 0 || action_open(job, &err) < 0) {
        json_decref(body);
        return client_fail(job->request.is_json, &err);
    }
    if (client_call(&job->client, "POST", "/v1/sessions", body, &session, &err) < 0)
        return client_fail(job->request.is_json, &err);
    for (struct dataset *at = datasets; at->name; at++)
        if (dataset_send(&job->client, member_text(session, "id"), at,
                         !job->request.is_quiet && !job->request.is_json, &err) < 0) {
            take_back(job, member_text(session, "id"));
            return client_fail(job->request.is_json, &err);
        }
    if (!job->request.is_json)
        return print_id(session);
    if (datasets->name && session_get(job, member_text(session, "id"), &whole, &err) < 0)
        return client_fail(true, &err);
    return print_json(json_incref(whole ? whole : session));
}

/* ---- ls, show ---- */

static void list_row(struct table *table, json_t *session, size_t id_length, bool has_tenants,
                     int64_t now_s)
{
    char when[FORMAT_SIZE], running[FORMAT_SIZE];
    bool has_ended = str_equal(member_text(session, "state"), "ended");

    format_id(member_text(session, "id"), id_length, when);
    table_cell(table, when);
    table_cell(table, member_text(session, "name"));
    if (has_tenants)
        table_cell(table, member_text(session, "tenant"));
    table_cell(table,
               has_ended ? member_text(session, "end_reason") : member_text(session, "state"));
    format_when(member_text(session, "created_at"), now_s, when);
    table_cell(table, when);
    format_when(member_text(session, "last_used_at"), now_s, when);
    table_cell(table, when);
    format_when(member_text(session, has_ended ? "ended_at" : "expires_at"), now_s, when);
    table_cell(table, when);
    str_format(running, sizeof(running), "%lld",
               (long long)json_integer_value(json_object_get(session, "running")));
    table_cell(table, running);
}

/* A server's owner sees those of all tenants, who may use the same names. */
static bool has_several_tenants(json_t *sessions)
{
    const char *first = member_text(json_array_get(sessions, 0), "tenant");

    for (size_t i = 1; i < json_array_size(sessions); i++)
        if (!str_equal(member_text(json_array_get(sessions, i), "tenant"), first))
            return true;
    return false;
}

static int list_table(json_t *sessions)
{
    static const char *const headings[] = {"ID",   "NAME",    "STATE",    "CREATED",
                                           "USED", "EXPIRES", ">RUNNING", NULL};
    static const char *const tenant_headings[] = {"ID",   "NAME",    "TENANT",   "STATE", "CREATED",
                                                  "USED", "EXPIRES", ">RUNNING", NULL};
    bool has_tenants = has_several_tenants(sessions);
    CLEANUP(table_free) struct table table;
    size_t i, id_length = client_id_length(sessions, "id");
    int64_t now_s = format_now();
    json_t *session;

    table_begin(&table, has_tenants ? tenant_headings : headings);
    json_array_foreach(sessions, i, session)
    {
        list_row(&table, session, id_length, has_tenants, now_s);
    }
    return table_show(&table);
}

static int action_ls(struct action_job *job)
{
    CLEANUP(buf_free) struct buf ids = BUF_INIT(MIB);
    CLEANUP(json_freep) json_t *reply = NULL;
    json_t *sessions, *session;
    struct error err = {0};
    size_t i;

    if (action_open(job, &err) < 0 ||
        client_call(&job->client, "GET",
                    job->request.is_all ? "/v1/sessions?all=true" : "/v1/sessions", NULL, &reply,
                    &err) < 0)
        return client_fail(job->request.is_json, &err);
    if (job->request.is_json)
        return print_json(json_incref(reply));
    sessions = json_object_get(reply, "sessions");
    if (!job->request.is_quiet)
        return list_table(sessions);
    json_array_foreach(sessions, i, session)
    {
        buf_printf(&ids, "%s\n", member_text(session, "id"));
    }
    return print_text(&ids);
}

/* Every member, one per line: all that the API reports. */
static int show_text(json_t *session)
{
    static const char *const headings[] = {"KEY", "VALUE", NULL};
    CLEANUP(table_free) struct table table;
    const char *key;
    json_t *value;

    table_begin(&table, headings);
    json_object_foreach(session, key, value)
    {
        CLEANUP(buf_free) struct buf cell = BUF_INIT(64 * KIB);

        if (json_is_string(value))
            buf_append_text(&cell, json_string_value(value));
        else if (!json_is_null(value))
            text_of_json(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6), &cell);
        table_cell(&table, key);
        table_cell(&table, buf_text(&cell));
    }
    return table_show(&table);
}

static int action_show(struct action_job *job)
{
    CLEANUP(json_freep) json_t *session = NULL;
    struct error err = {0};

    if (action_open(job, &err) < 0 || session_get(job, job->operands[0], &session, &err) < 0)
        return client_fail(job->request.is_json, &err);
    return job->request.is_json ? print_json(json_incref(session)) : show_text(session);
}

/* ---- extend, pause, resume, rm ---- */

static int action_extend(struct action_job *job)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep) json_t *session = NULL;
    struct error err = {0};
    char when[FORMAT_SIZE];
    uint64_t ms;

    if (str_to_millis(job->operands[1], &ms) < 0 || ms < 1000) {
        error_set(&err, -EINVAL, ERROR_BAD_INPUT,
                  "'%.40s' is no time to extend by: write 90, 30m or 2h", job->operands[1]);
        return client_fail(job->request.is_json, &err);
    }
    if (action_open(job, &err) < 0 ||
        client_session_path(&path, job->operands[0], "/extend", &err) < 0 ||
        client_call(&job->client, "POST", buf_text(&path),
                    json_pack("{s:I}", "seconds", (json_int_t)(ms / 1000)), &session, &err) < 0)
        return client_fail(job->request.is_json, &err);
    if (job->request.is_json)
        return print_json(json_incref(session));
    format_when(member_text(session, "expires_at"), format_now(), when);
    message_print("%s ends %s", member_text(session, "id"), when);
    return 0;
}

static int pause_or_resume(struct action_job *job, const char *what)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep) json_t *session = NULL;
    struct error err = {0};
    char when[FORMAT_SIZE];

    if (action_open(job, &err) < 0 ||
        client_session_path(&path, job->operands[0], what, &err) < 0 ||
        client_call(&job->client, "POST", buf_text(&path), NULL, &session, &err) < 0)
        return client_fail(job->request.is_json, &err);
    if (job->request.is_json)
        return print_json(json_incref(session));
    format_when(member_text(session, "expires_at"), format_now(), when);
    message_print("%s is %s, and ends %s", member_text(session, "id"),
                  member_text(session, "state"), when);
    return 0;
}

static int action_pause(struct action_job *job)
{
    return pause_or_resume(job, "/pause");
}

static int action_resume(struct action_job *job)
{
    return pause_or_resume(job, "/resume");
}

static int action_rm(struct action_job *job)
{
    struct error err = {0};
    json_t *ended = json_array();
    int status = 0;

    if (action_open(job, &err) < 0) {
        json_decref(ended);
        return client_fail(job->request.is_json, &err);
    }
    for (size_t i = 0; i < job->operand_count; i++) {
        CLEANUP(buf_free) struct buf path = PATH_BUF;
        json_t *session = NULL;

        err = (struct error){0};
        if (client_session_path(&path, job->operands[i], "", &err) < 0 ||
            client_call(&job->client, "DELETE", buf_text(&path), NULL, &session, &err) < 0)
            status = client_fail(job->request.is_json, &err);
        else
            json_array_append_new(ended, session);
    }
    if (job->request.is_json && status == 0)
        return print_json(json_pack("{s:o}", "sessions", ended));
    json_decref(ended);
    return status;
}

/* ---- the table of actions ---- */

static const struct action actions[] = {
    {"new", 0, 0, "new [-s NAME] [--data NAME=FILE] [--memory SIZE]...",
     "session name template data env idle max-age quiet memory cpus pids disk timeout type "
     "isolation",
     .run = action_new, .brings_settings = true},
    {"ls", 0, 0, "ls [-a]", "all quiet", .run = action_ls},
    {"show", 1, 1, "show -s NAME", "session", .run = action_show},
    {"extend", 2, 2, "extend -s NAME TIME", "session", .run = action_extend},
    {"pause", 1, 1, "pause -s NAME", "session", .run = action_pause},
    {"resume", 1, 1, "resume -s NAME", "session", .run = action_resume},
    {"rm", 1, 64, "rm -s NAME | rm NAME...", "session", .run = action_rm},
};

int session_run(const struct invocation *invocation)
{
    return action_run(invocation, actions, ARRAY_SIZE(actions));
}
