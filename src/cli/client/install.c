/*
 * install.c - `bailey install -s NAME PACKAGE...`: installs packages into a session, until it ends.
 *
 * Ctrl-C closes the connection, and the daemon cancels the installation.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client/progress.h"
#include "cli/client/table.h"
#include "cli/client_request.h"
#include "cli/message.h"

struct install_job {
    struct client_request request;
    struct client client;
};

static void job_free(struct install_job *job)
{
    client_close(&job->client);
    client_request_free(&job->request);
}

/* "installed requests 2.32.3, idna 3.10" */
static int print_installed(const struct install_job *job, json_t *answer)
{
    json_t *installed = json_object_get(answer, "installed"), *item;
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);
    size_t i;

    if (job->request.is_json)
        return print_json(json_incref(answer));
    json_array_foreach(installed, i, item)
    {
        buf_printf(&text, "%s%s %s", i ? ", " : "", member_text(item, "name"),
                   member_text(item, "version"));
    }
    if (!job->request.is_quiet && text.length)
        message_print("installed %s", buf_text(&text));
    else if (!job->request.is_quiet)
        message_print("already installed");
    return 0;
}

/* Without a package: lists the session's packages. */
static int list(struct install_job *job, const char *path, struct error *err)
{
    static const char *const headings[] = {"PACKAGE", "VERSION", NULL};
    CLEANUP(table_free) struct table table = {0};
    CLEANUP(json_freep) json_t *reply = NULL;
    json_t *item;
    size_t i;

    if (client_call(&job->client, "GET", path, NULL, &reply, err) < 0)
        return client_fail(job->request.is_json, err);
    if (job->request.is_json)
        return print_json(json_incref(reply));
    table_begin(&table, headings);
    json_array_foreach(json_object_get(reply, "packages"), i, item)
    {
        table_cell(&table, member_text(item, "name"));
        table_cell(&table, member_text(item, "version"));
    }
    return table_show(&table);
}

static int install(struct install_job *job, const char *path, const struct parsed *parsed,
                   struct error *err)
{
    CLEANUP(json_freep) json_t *body = json_object();
    CLEANUP(json_freep) json_t *answer = NULL;
    json_t *packages = json_array();
    struct progress_call call = {.path = path,
                                 .body = body,
                                 .end = "installed",
                                 .failed = "nothing was installed; the lines above say why",
                                 .hung_up = "the daemon hung up; nothing was installed",
                                 .is_silent = job->request.is_quiet || job->request.is_json};
    int r = 0;

    json_object_set_new(body, "packages", packages);
    for (size_t i = 0; i < parsed->operand_count && r == 0; i++) {
        if (json_array_append_new(packages, json_string(parsed->operands[i])) < 0)
            r = error_set(err, -EINVAL, ERROR_BAD_INPUT, "a package's name is not UTF-8");
    }
    if (r == 0)
        r = progress_post(&job->client, &call, &answer, err);
    if (r > 0)
        message_print("interrupted: nothing was installed");
    if (r != 0)
        return r > 0 ? r : client_fail(job->request.is_json, err);
    return print_installed(job, answer);
}

int install_run(const struct invocation *invocation)
{
    CLEANUP(job_free) struct install_job job = {0};
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    struct error err = {0};
    int r = client_request_load(invocation, &job.request, &err);

    if (r == 0 && (!job.request.session || !job.request.session[0]))
        r = error_set(&err, -EINVAL, ERROR_BAD_INPUT,
                      "which session? -s NAME ('bailey session ls' lists them); for packages of "
                      "many sessions use 'bailey template build'");
    if (r == 0)
        r = client_open(&job.client, job.request.config_file, invocation->env, CLIENT_STARTS, &err);
    if (r == 0)
        r = client_bring_settings(&job.client, invocation, &err);
    if (r == 0)
        r = client_session_path(&path, job.request.session, "/packages", &err);
    if (r < 0)
        return client_fail(job.request.is_json, &err);
    if (invocation->parsed.operand_count == 0)
        return list(&job, buf_text(&path), &err);
    return install(&job, buf_text(&path), &invocation->parsed, &err);
}
