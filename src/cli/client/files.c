/* files.c - `bailey ls`, `bailey cat` and `bailey rm`: files of a session. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/commands.h"
#include "cli/client/format.h"
#include "cli/client/path_arg.h"
#include "cli/client/remote.h"
#include "cli/client/table.h"
#include "cli/client/transfer.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/output.h"

struct files_job {
    struct client_request request;
    struct client client;
};

static void job_free(struct files_job *job)
{
    client_close(&job->client);
    client_request_free(&job->request);
}

/* The file that an operand names: NAME:PATH, or PATH beside -s NAME. */
static int target_at(const struct files_job *job, const struct invocation *invocation, size_t index,
                     struct path_arg *ret, struct error *err)
{
    bool is_ls = invocation->command == &ls_command;
    const char *word =
        index < invocation->parsed.operand_count ? invocation->parsed.operands[index] : "";
    const char *session = job->request.session;

    if (!session)
        return path_arg_parse_box(word, is_ls, ret, err);
    if (!word[0] && !is_ls)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "an empty name; give a file of the session");
    return path_arg_parse_in(session, word, ret, err);
}

/* Parses options, then connects: no daemon is started for wrong arguments. */
static int job_load(struct files_job *job, const struct invocation *invocation, struct error *err)
{
    const struct parsed *parsed = &invocation->parsed;
    int result = client_request_load(invocation, &job->request, err);

    for (size_t i = 0; i < parsed->operand_count && result == 0; i++) {
        struct path_arg target;

        result = target_at(job, invocation, i, &target, err);
    }
    if (result == 0 && parsed->operand_count == 0 &&
        !(job->request.session && invocation->command == &ls_command))
        result = error_set(err, -EINVAL, ERROR_BAD_INPUT, "usage: bailey %s %s",
                           invocation->command->name, invocation->command->usage);
    return result < 0 ? result
                      : client_open(&job->client, job->request.config_file, invocation->env,
                                    CLIENT_STARTS, err);
}

/* "drwxr-xr-x" would be wrong for links and special files: the type is a word. */
static void entry_row(struct table *table, json_t *entry, int64_t now_s)
{
    char text[FORMAT_SIZE];
    const char *type = member_text(entry, "type");
    bool is_folder = str_equal(type, "folder");
    CLEANUP(buf_free) struct buf name = BUF_INIT(LIMIT_PATH_BYTES + 2);

    table_cell(table, type);
    table_cell(table, member_text(entry, "mode"));
    format_bytes((uint64_t)json_integer_value(json_object_get(entry, "bytes")), text);
    table_cell(table, is_folder ? "-" : text);
    format_when(member_text(entry, "modified_at"), now_s, text);
    table_cell(table, text);
    buf_printf(&name, "%s%s", member_text(entry, "name"), is_folder ? "/" : "");
    table_cell(table, buf_text(&name));
}

static int by_name(const void *a, const void *b)
{
    return strcmp(member_text(*(json_t *const *)a, "name"),
                  member_text(*(json_t *const *)b, "name"));
}

/* Borrowed entries sorted by name; NULL: none, or no memory. */
static json_t **sorted(json_t *entries)
{
    size_t count = json_array_size(entries);
    json_t **list = count > 0 ? calloc(count, sizeof(json_t *)) : NULL;

    for (size_t i = 0; list && i < count; i++)
        list[i] = json_array_get(entries, i);
    if (list)
        qsort(list, count, sizeof(json_t *), by_name);
    return list;
}

static int list_table(json_t *reply)
{
    static const char *const headings[] = {"TYPE", "MODE", ">SIZE", "CHANGED", "NAME", NULL};
    CLEANUP(table_free) struct table table;
    json_t *entries = json_object_get(reply, "entries");
    CLEANUP(freep) json_t **list = sorted(entries);
    int64_t now_s = format_now();
    int status;

    table_begin(&table, headings);
    for (size_t i = 0; i < json_array_size(entries); i++)
        entry_row(&table, list ? list[i] : json_array_get(entries, i), now_s);
    status = table_show(&table);
    if (json_is_true(json_object_get(reply, "truncated")))
        message_print("there are more; name a folder below to see them");
    return status;
}

/* A file is listed as one entry. */
static int list(struct files_job *job, const struct path_arg *target, json_t **ret,
                struct error *err)
{
    json_t *entry = NULL;
    int result = remote_list(&job->client, target->session, target->path,
                             job->request.is_recursive ? 0 : 1, ret, err);

    if (result == 0 || err->code != ERROR_PATH_NOT_FOLDER)
        return result;
    result = remote_stat(&job->client, target->session, target->path, &entry, err);
    if (result == 0 && entry)
        *ret = json_pack("{s:[o], s:b}", "entries", entry, "truncated", 0);
    return result;
}

int ls_run(const struct invocation *invocation)
{
    CLEANUP(job_free) struct files_job job = {0};
    CLEANUP(json_freep) json_t *reply = NULL;
    struct path_arg target;
    struct error err = {0};

    if (job_load(&job, invocation, &err) < 0 || target_at(&job, invocation, 0, &target, &err) < 0 ||
        list(&job, &target, &reply, &err) < 0)
        return client_fail(job.request.is_json, &err);
    return job.request.is_json ? print_json(json_incref(reply)) : list_table(reply);
}

static int write_output(void *ctx, const void *data, size_t length)
{
    return output_write(ctx, STDOUT_FILENO, data, length);
}

int cat_run(const struct invocation *invocation)
{
    CLEANUP(job_free) struct files_job job = {0};
    struct output output;
    struct error err = {0};
    int status = 0;

    if (job_load(&job, invocation, &err) < 0)
        return client_fail(false, &err);
    output_init(&output, job.request.is_raw, -1);
    for (size_t i = 0; i < invocation->parsed.operand_count; i++) {
        CLEANUP(buf_free) struct buf path = PATH_BUF;
        struct path_arg target;

        err = (struct error){0};
        if ((target_at(&job, invocation, i, &target, &err) < 0 ||
             remote_path(&path, target.session, "", target.path, &err) < 0 ||
             transfer_receive(&job.client, buf_text(&path), -1, NULL, NULL, write_output, &output,
                              &err) < 0) &&
            output.failure == 0)
            status = client_fail(false, &err);
        if (output.failure == -EPIPE)
            return 128 + SIGPIPE;
        if (output.failure < 0) {
            message_print("writing standard output: %s", strerror(-output.failure));
            return STATUS_BAD_INPUT;
        }
    }
    output_finish(&output);
    return status;
}

int rm_run(const struct invocation *invocation)
{
    CLEANUP(job_free) struct files_job job = {0};
    struct error err = {0};
    int status = 0;

    if (job_load(&job, invocation, &err) < 0)
        return client_fail(false, &err);
    for (size_t i = 0; i < invocation->parsed.operand_count; i++) {
        CLEANUP(buf_free) struct buf path = PATH_BUF;
        struct path_arg target;

        err = (struct error){0};
        if (target_at(&job, invocation, i, &target, &err) < 0 ||
            remote_path(&path, target.session, "", target.path, &err) < 0 ||
            (job.request.is_recursive && client_query(&path, "recursive", "true", &err) < 0) ||
            client_call(&job.client, "DELETE", buf_text(&path), NULL, NULL, &err) < 0) {
            bool is_folder = err.code == ERROR_FOLDER_NOT_EMPTY || err.code == ERROR_PATH_IS_FOLDER;

            status = client_fail(false, &err);
            if (is_folder)
                message_print("-r removes a folder with its contents");
        }
    }
    return status;
}
