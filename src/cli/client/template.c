/*
 * template.c - `bailey template build|ls|show|verify|rm`.
 *
 * Ctrl-C closes the connection, and the daemon cancels a build that has no other client.
 */
#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/action.h"
#include "cli/client/commands.h"
#include "cli/client/format.h"
#include "cli/client/progress.h"
#include "cli/client/table.h"
#include "cli/client/template_folder.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "model/text.h"

static int template_path(struct buf *path, const char *name, const char *tail, struct error *err)
{
    if (buf_append_text(path, "/v1/templates/") < 0 || http_encode(path, name) < 0 ||
        buf_append_text(path, tail) < 0)
        return error_set(err, -EFBIG, ERROR_BAD_INPUT, "a template's name is too long");
    return 0;
}

/* ---- build ---- */

static int print_built(const struct action_job *job, json_t *built)
{
    char size[FORMAT_SIZE];

    if (job->request.is_json)
        return print_json(json_incref(built));
    format_bytes((uint64_t)json_integer_value(json_object_get(built, "bytes")), size);
    if (!job->request.is_quiet)
        message_print("the template '%s' is %s: Python %s, %zu packages, %s",
                      member_text(built, "name"),
                      json_is_true(json_object_get(built, "was_there")) ? "there already" : "built",
                      member_text(built, "python"),
                      json_array_size(json_object_get(built, "packages")), size);
    return 0;
}

/* The packages of a lock file: lines that begin with a name; hashes and comments do not. */
static size_t locked_count(const char *lock)
{
    size_t count = 0;

    while (*lock) {
        count += isalnum((unsigned char)*lock) != 0;
        lock += strcspn(lock, "\n");
        lock += *lock == '\n';
    }
    return count;
}

static int action_build(struct action_job *job)
{
    CLEANUP(json_freep) json_t *template = NULL;
    CLEANUP(json_freep) json_t *built = NULL;
    struct progress_call call = {.path = "/v1/templates",
                                 .end = "built",
                                 .failed = "the template was not built; the lines above say why",
                                 .hung_up = "the daemon hung up; the template was not built",
                                 .is_silent = job->request.is_quiet || job->request.is_json};
    struct error err = {0};
    int r;

    if (template_load(job->operand_count ? job->operands[0] : NULL, &template, &err) < 0 ||
        action_open(job, &err) < 0)
        return client_fail(job->request.is_json, &err);
    call.body = template;
    call.packages = locked_count(member_text(template, "lock"));
    r = progress_post(&job->client, &call, &built, &err);
    if (r > 0)
        message_print("interrupted: the template was not built");
    if (r != 0)
        return r > 0 ? r : client_fail(job->request.is_json, &err);
    return print_built(job, built);
}

/* ---- ls, show ---- */

static int list_table(json_t *templates)
{
    static const char *const headings[] = {"NAME",  "STATE", "PYTHON",      ">PACKAGES",
                                           ">SIZE", "BUILT", "DESCRIPTION", NULL};
    CLEANUP(table_free) struct table table;
    int64_t now_s = format_now();
    json_t *template;
    size_t i;

    table_begin(&table, headings);
    json_array_foreach(templates, i, template)
    {
        json_int_t bytes = json_integer_value(json_object_get(template, "bytes"));
        size_t count = json_array_size(json_object_get(template, "packages"));
        char words[FORMAT_SIZE];

        table_cell(&table, member_text(template, "name"));
        table_cell(&table, member_text(template, "state"));
        table_cell(&table, member_text(template, "python"));
        str_format(words, sizeof(words), "%zu", count);
        table_cell(&table, count ? words : NULL);
        format_bytes((uint64_t)bytes, words);
        table_cell(&table, bytes ? words : NULL);
        format_when(member_text(template, "built_at"), now_s, words);
        table_cell(&table, words);
        table_cell(&table, member_text(template, "description"));
    }
    return table_show(&table);
}

static int action_ls(struct action_job *job)
{
    return action_list(job, "/v1/templates", "templates", "name", list_table);
}

/* "numpy 2.4.6", one per line; other members as they are. */
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

static int action_show(struct action_job *job)
{
    static const char *const headings[] = {"KEY", "VALUE", NULL};
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep) json_t *template = NULL;
    CLEANUP(table_free) struct table table = {0};
    struct error err = {0};
    const char *key;
    json_t *value;

    if (action_open(job, &err) < 0 || template_path(&path, job->operands[0], "", &err) < 0 ||
        client_call(&job->client, "GET", buf_text(&path), NULL, &template, &err) < 0)
        return client_fail(job->request.is_json, &err);
    if (job->request.is_json)
        return print_json(json_incref(template));
    table_begin(&table, headings);
    json_object_foreach(template, key, value)
    {
        show_member(&table, key, value);
    }
    return table_show(&table);
}

/* ---- verify, rm: for each name ---- */

static int each_named(struct action_job *job, const char *method, const char *tail,
                      int (*report)(struct action_job *job, const char *name, json_t *reply))
{
    struct error err = {0};
    int status = 0;

    if (action_open(job, &err) < 0)
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

static int report_verify(struct action_job *job, const char *name, json_t *reply)
{
    bool is_intact = json_is_true(json_object_get(reply, "intact"));

    if (job->request.is_json)
        print_json(json_incref(reply));
    else if (!is_intact)
        message_print(
            "the template '%s' is damaged: %s; build it again: bailey template rm %s && bailey "
            "template build %s",
            name, member_text(reply, "problem"), name, name);
    else if (!job->request.is_quiet)
        message_print("the template '%s' is what it was when it was built", name);
    return is_intact ? 0 : 1;
}

static int report_rm(struct action_job *job, const char *name, json_t *reply)
{
    (void)name;
    return job->request.is_json ? print_json(json_incref(reply)) : 0;
}

static int action_verify(struct action_job *job)
{
    return each_named(job, "POST", "/verify", report_verify);
}

static int action_rm(struct action_job *job)
{
    return each_named(job, "DELETE", "", report_rm);
}

/* ---- the table of actions ---- */

static const struct action actions[] = {
    {"build", 0, 1, "build [NAME|FOLDER]", NULL, .run = action_build, .brings_settings = true},
    {"ls", 0, 0, "ls", NULL, .run = action_ls, .brings_settings = true},
    {"show", 1, 1, "show NAME", NULL, .run = action_show, .brings_settings = true},
    {"verify", 1, 63, "verify NAME...", NULL, .run = action_verify, .brings_settings = true},
    {"rm", 1, 63, "rm NAME...", NULL, .run = action_rm},
};

int template_run(const struct invocation *invocation)
{
    return action_run(invocation, actions, ARRAY_SIZE(actions));
}
