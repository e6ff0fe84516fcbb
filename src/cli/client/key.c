/*
 * key.c - `bailey key new|ls|rm|rotate`: API keys, over the daemon's own socket.
 *
 * The text of a key alone goes to standard output, so that a script can store it; it cannot be
 * shown again.
 */
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

static int key_path(struct buf *path, const char *id, const char *tail, struct error *err)
{
    if (buf_append_text(path, "/v1/keys/") < 0 || http_encode(path, id) < 0 ||
        buf_append_text(path, tail) < 0)
        return error_set(err, -EFBIG, ERROR_BAD_INPUT, "a key's id is too long");
    return 0;
}

/* "run,files" as an array; NULL: no memory. The daemon checks the names. */
static json_t *scopes_array(const char *text)
{
    json_t *list = json_array();

    while (list && *text) {
        size_t length = strcspn(text, ",");

        if (length > 0 && json_array_append_new(list, json_stringn(text, length)) < 0) {
            json_decref(list);
            return NULL;
        }
        text += length + (text[length] == ',');
    }
    return list;
}

static void list_words(json_t *list, struct buf *text)
{
    json_t *word;
    size_t i;

    json_array_foreach(list, i, word)
    {
        buf_printf(text, "%s%s", i ? "," : "", json_string_value(word));
    }
}

/* ---- new, rotate ---- */

static int print_key(const struct action_job *job, json_t *key)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);
    CLEANUP(buf_free) struct buf scopes = BUF_INIT(KIB);
    const char *expires = member_text(key, "expires_at");

    if (job->request.is_json)
        return print_json(json_incref(key));
    list_words(json_object_get(key, "scopes"), &scopes);
    if (!job->request.is_quiet)
        message_print(
            "the key %s of the tenant '%s' (%s%s%s); keep its text, it is not shown again",
            member_text(key, "id"), member_text(key, "tenant"), buf_text(&scopes),
            expires[0] ? ", until " : "", expires);
    if (buf_printf(&text, "%s\n", member_text(key, "key")) < 0)
        return 1;
    return print_text(&text);
}

static int action_new(struct action_job *job)
{
    const struct client_request *request = &job->request;
    CLEANUP(json_freep) json_t *body = json_object();
    CLEANUP(json_freep) json_t *key = NULL;
    struct error err = {0};

    if (request->name)
        json_object_set_new(body, "name", json_string(request->name));
    if (request->tenant)
        json_object_set_new(body, "tenant", json_string(request->tenant));
    if (request->scopes)
        json_object_set_new(body, "scopes", scopes_array(request->scopes));
    if (request->format)
        json_object_set_new(body, "format", json_string(request->format));
    if (request->expires_ms)
        json_object_set_new(body, "expires_s", json_real((double)request->expires_ms / 1000));
    if (action_open(job, &err) < 0 ||
        client_call(&job->client, "POST", "/v1/keys", ptr_take(&body), &key, &err) < 0)
        return client_fail(request->is_json, &err);
    return print_key(job, key);
}

static int action_rotate(struct action_job *job)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep) json_t *key = NULL;
    CLEANUP(json_freep)
    json_t *body = json_pack("{s:f}", "grace_s", (double)job->request.grace_ms / 1000);
    struct error err = {0};

    if (action_open(job, &err) < 0 || key_path(&path, job->operands[0], "/rotate", &err) < 0 ||
        client_call(&job->client, "POST", buf_text(&path), ptr_take(&body), &key, &err) < 0)
        return client_fail(job->request.is_json, &err);
    return print_key(job, key);
}

/* ---- ls ---- */

static int list_table(json_t *keys)
{
    static const char *const headings[] = {"ID",      "TENANT", "SCOPES", "CREATED",
                                           "EXPIRES", "USED",   "NAME",   NULL};
    static const char *const times[] = {"created_at", "expires_at", "used_at"};
    CLEANUP(table_free) struct table table;
    int64_t now_s = format_now();
    json_t *key;
    size_t i;

    table_begin(&table, headings);
    json_array_foreach(keys, i, key)
    {
        CLEANUP(buf_free) struct buf scopes = BUF_INIT(KIB);
        char words[FORMAT_SIZE];

        list_words(json_object_get(key, "scopes"), &scopes);
        table_cell(&table, member_text(key, "id"));
        table_cell(&table, member_text(key, "tenant"));
        table_cell(&table, buf_text(&scopes));
        for (size_t at = 0; at < ARRAY_SIZE(times); at++) {
            const char *time = member_text(key, times[at]);

            format_when(time, now_s, words);
            table_cell(&table, time[0] ? words : NULL);
        }
        table_cell(&table, member_text(key, "name"));
    }
    return table_show(&table);
}

static int action_ls(struct action_job *job)
{
    return action_list(job, "/v1/keys", "keys", "id", list_table);
}

/* ---- rm ---- */

static int action_rm(struct action_job *job)
{
    struct error err = {0};
    int status = 0;

    if (action_open(job, &err) < 0)
        return client_fail(job->request.is_json, &err);
    for (size_t i = 0; i < job->operand_count; i++) {
        CLEANUP(buf_free) struct buf path = PATH_BUF;
        CLEANUP(json_freep) json_t *reply = NULL;
        int result = 0;

        err = (struct error){0};
        if (key_path(&path, job->operands[i], "", &err) < 0 ||
            client_call(&job->client, "DELETE", buf_text(&path), NULL, &reply, &err) < 0)
            result = client_fail(job->request.is_json, &err);
        else if (job->request.is_json)
            result = print_json(json_incref(reply));
        status = status ? status : result;
    }
    return status;
}

/* ---- the table of actions ---- */

static const struct action actions[] = {
    {"new", 0, 0, "new [options]", "name tenant scopes format expires quiet", .run = action_new},
    {"ls", 0, 0, "ls", "quiet", .run = action_ls},
    {"rm", 1, 63, "rm ID...", "quiet", .run = action_rm},
    {"rotate", 1, 1, "rotate ID [--grace TIME]", "grace quiet", .run = action_rotate},
};

int key_run(const struct invocation *invocation)
{
    return action_run(invocation, actions, ARRAY_SIZE(actions));
}
