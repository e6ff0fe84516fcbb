/* lists.c - `bailey outputs` and `bailey ps`: lists outputs and processes. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client/format.h"
#include "cli/client/report.h"
#include "cli/client/table.h"
#include "cli/client_request.h"
#include "cli/message.h"

/* ---- outputs ---- */

static int outputs_table(json_t *reply)
{
    static const char *const headings[] = {"NAME", ">SIZE", "KIND", "CHANGED", "WHERE", NULL};
    CLEANUP(table_free) struct table table;
    int64_t now_s = format_now();
    json_t *output;
    size_t i;

    table_begin(&table, headings);
    json_array_foreach(json_object_get(reply, "outputs"), i, output)
    {
        const char *skipped = member_text(output, "skipped");
        const char *path = member_text(output, "path");
        char text[FORMAT_SIZE], stays[128];

        table_cell(&table, member_text(output, "name"));
        format_bytes((uint64_t)json_integer_value(json_object_get(output, "bytes")), text);
        table_cell(&table, text);
        table_cell(&table, member_text(output, "kind"));
        format_when(member_text(output, "modified_at"), now_s, text);
        table_cell(&table, text);
        str_format(stays, sizeof(stays), "in the box%s%.60s%s", skipped[0] ? " (" : "", skipped,
                   skipped[0] ? ")" : "");
        /* Over TCP the path is an address of REST: 'bailey cp' takes this one. */
        if (str_starts(path, "/v1/"))
            str_format(stays, sizeof(stays), "/tmp/output/%.100s", member_text(output, "name"));
        table_cell(&table, path[0] && !str_starts(path, "/v1/") ? path : stays);
    }
    return table_show(&table);
}

int outputs_run(const struct invocation *invocation)
{
    CLEANUP(client_request_free) struct client_request request = {0};
    CLEANUP(client_close) struct client client = {0};
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep) json_t *reply = NULL;
    struct error err = {0};
    int status, result = client_request_load(invocation, &request, &err);
    const char *session = request.session ? request.session : invocation->parsed.operands[0];

    if (result == 0 && (!session || (request.session && invocation->parsed.operand_count > 0)))
        result = error_set(&err, -EINVAL, ERROR_BAD_INPUT,
                           "which session? usage: bailey outputs %s", outputs_command.usage);
    if (result < 0 ||
        client_open(&client, request.config_file, invocation->env, CLIENT_STARTS, &err) < 0 ||
        client_session_path(&path, session, "/outputs", &err) < 0 ||
        client_call(&client, "GET", buf_text(&path), NULL, &reply, &err) < 0)
        return client_fail(request.is_json, &err);
    if (request.is_json)
        return print_json(json_incref(reply));
    status = outputs_table(reply);
    if (client.url && json_array_size(json_object_get(reply, "outputs")) > 0)
        message_print(
            "the files are on the server; 'bailey cp %s:/tmp/output/NAME .' copies one here",
            session);
    return status;
}

/* ---- ps ---- */

/* Adds the processes of one session to `all`, each with "session_id" and "tenant". */
static int add_processes(struct client *client, json_t *of, bool with_ended, json_t *all,
                         struct error *err)
{
    const char *session = member_text(of, "id");
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep) json_t *reply = NULL;
    json_t *process;
    size_t i;
    int result = client_session_path(&path, session, "/processes", err);

    if (result == 0)
        result = client_call(client, "GET", buf_text(&path), NULL, &reply, err);
    /* It ended between the two calls: nothing runs in it. */
    if (result < 0 && (err->code == ERROR_SESSION_ENDED || err->code == ERROR_SESSION_NOT_FOUND))
        return 0;
    if (result < 0)
        return result;
    json_array_foreach(json_object_get(reply, "processes"), i, process)
    {
        if (!with_ended && !report_is_alive(process))
            continue;
        json_object_set_new(process, "session_id", json_string(session));
        json_object_set(process, "tenant", json_object_get(of, "tenant"));
        json_array_append(all, process);
    }
    return 0;
}

static int collect(struct client *client, const struct client_request *request, json_t *all,
                   struct error *err)
{
    CLEANUP(json_freep) json_t *reply = NULL;
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    json_t *session;
    size_t i;
    int result;

    if (request->session) { /* its full id, however the user wrote it */
        result = client_session_path(&path, request->session, "", err);
        if (result == 0)
            result = client_call(client, "GET", buf_text(&path), NULL, &reply, err);
        return result < 0 ? result : add_processes(client, reply, request->is_all, all, err);
    }
    result = client_call(client, "GET", "/v1/sessions", NULL, &reply, err);
    json_array_foreach(json_object_get(reply, "sessions"), i, session)
    {
        json_t *running = json_object_get(session, "running");

        if (!request->is_all && json_is_integer(running) && json_integer_value(running) == 0)
            continue;
        if (result == 0)
            result = add_processes(client, session, request->is_all, all, err);
    }
    return result;
}

static int ps_table(json_t *all)
{
    static const char *const headings[] = {"SESSION", "TENANT",  ">EXEC", "STATE",
                                           "STARTED", "COMMAND", NULL};
    CLEANUP(table_free) struct table table;
    size_t i, id_length = client_id_length(all, "session_id");
    int64_t now_s = format_now();
    json_t *process;

    table_begin(&table, headings);
    json_array_foreach(all, i, process)
    {
        CLEANUP(buf_free) struct buf command = BUF_INIT(64 * KIB);
        char text[FORMAT_SIZE];

        format_id(member_text(process, "session_id"), id_length, text);
        table_cell(&table, text);
        table_cell(&table, member_text(process, "tenant"));
        str_format(text, sizeof(text), "%lld",
                   (long long)json_integer_value(json_object_get(process, "number")));
        table_cell(&table, text);
        report_process_state(process, text);
        table_cell(&table, text);
        format_when(member_text(process, "started_at"), now_s, text);
        table_cell(&table, text);
        report_command(json_object_get(process, "argv"), &command);
        table_cell(&table, buf_text(&command));
    }
    return table_show(&table);
}

int ps_run(const struct invocation *invocation)
{
    CLEANUP(client_request_free) struct client_request request = {0};
    CLEANUP(client_close) struct client client = {0};
    CLEANUP(json_freep) json_t *all = json_array();
    struct error err = {0};

    if (client_request_load(invocation, &request, &err) < 0 ||
        client_open(&client, request.config_file, invocation->env, CLIENT_STARTS, &err) < 0 ||
        collect(&client, &request, all, &err) < 0)
        return client_fail(request.is_json, &err);
    return request.is_json ? print_json(json_pack("{s:O}", "processes", all)) : ps_table(all);
}
