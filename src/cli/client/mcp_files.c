/*
 * mcp_files.c - outputs and files of sessions for the MCP door, over REST; see mcp_host.h.
 *
 * A file is asked of the box first, which has the newest; when it is not there, or the session is
 * over, a saved output of the same name will do.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/client/mcp_task.h"

#define OUTPUT_FOLDER "/tmp/output/"

static void read_done(struct task *task, enum mcp_read_kind kind, const struct rest_reply *reply)
{
    struct mcp_work *work = task->work;

    task_free(task);
    if (work)
        mcp_work_read(work, kind, reply->body, reply->length);
}

static void on_folder(void *ctx, const struct rest_reply *reply)
{
    struct task *task = ctx;

    task->call = NULL;
    if (reply->err)
        task_fail(task, reply->err);
    else
        read_done(task, reply->status < 400 ? MCP_READ_FOLDER : MCP_READ_MISSING, reply);
}

static void on_output(void *ctx, const struct rest_reply *reply)
{
    struct task *task = ctx;

    task->call = NULL;
    if (reply->err)
        task_fail(task, reply->err);
    else if (reply->is_too_large)
        read_done(task, MCP_READ_TOO_LARGE, reply);
    else
        read_done(task, reply->status < 400 ? MCP_READ_FILE : MCP_READ_MISSING, reply);
}

static void read_folder(struct task *task)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;

    task->maximum = 0;
    if (client_session_path(&path, task->session, "/files/list", NULL) < 0 ||
        client_query(&path, "path", task->path, NULL) < 0)
        task_fail(task, &(struct error){.text = "out of memory"});
    else
        task_send(task, "GET", &path, NULL, true, on_folder);
}

/* The name is several segments of the address. */
static int output_path(struct buf *path, const struct task *task)
{
    const char *name = task->path + strlen(OUTPUT_FOLDER);
    int failed = client_session_path(path, task->session, "/outputs", NULL);

    while (*name && failed == 0) {
        size_t length = strcspn(name, "/");
        CLEANUP(freep) char *segment = strndup(name, length);

        failed = segment ? buf_append_text(path, "/") : -ENOMEM;
        if (failed == 0)
            failed = http_encode(path, segment);
        name += length + (name[length] == '/');
    }
    return failed;
}

static void on_file(void *ctx, const struct rest_reply *reply)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep) json_t *json = NULL;
    struct task *task = ctx;
    const char *code;

    task->call = NULL;
    if (reply->err) {
        task_fail(task, reply->err);
        return;
    }
    if (reply->is_too_large || reply->status < 400) {
        read_done(task, reply->is_too_large ? MCP_READ_TOO_LARGE : MCP_READ_FILE, reply);
        return;
    }
    json = json_loadb(reply->body, reply->length, 0, NULL);
    code = member_text(json_object_get(json, "error"), "code");
    if (str_equal(code, ERROR_PATH_IS_FOLDER))
        read_folder(task);
    else if (str_starts(task->path, OUTPUT_FOLDER) && output_path(&path, task) == 0)
        task_send(task, "GET", &path, NULL, true, on_output);
    else
        read_done(task, MCP_READ_MISSING, reply);
}

/* ".../processes/3/output?stream=stdout" for /.log/3/stdout; <0: it is none, or no memory. */
static int log_path(struct buf *address, const struct task *task)
{
    const char *number = task->path + strlen(MCP_LOG_FOLDER);
    const char *slash = strchr(number, '/');
    CLEANUP(freep) char *execution = slash ? strndup(number, (size_t)(slash - number)) : NULL;

    if (!execution || !execution[0] ||
        (!str_equal(slash, "/stdout") && !str_equal(slash, "/stderr")) ||
        client_session_path(address, task->session, "/processes/", NULL) < 0 ||
        http_encode(address, execution) < 0 || buf_append_text(address, "/output") < 0 ||
        client_query(address, "stream", slash + 1, NULL) < 0)
        return -EINVAL;
    return buf_printf(address, "&length=%zu", task->maximum);
}

static int file_path(struct buf *address, const struct task *task)
{
    if (client_session_path(address, task->session, "/files", NULL) < 0)
        return -EFBIG;
    return client_query(address, "path", task->path, NULL);
}

int host_read(void *ctx, struct mcp_work *work, const char *session, const char *path,
              size_t maximum, struct error *err)
{
    CLEANUP(buf_free) struct buf address = PATH_BUF;
    struct task *task = task_new(ctx, work, err);
    bool is_log;

    if (!task)
        return -ENOMEM;
    str_copy(task->session, sizeof(task->session), session);
    str_copy(task->path, sizeof(task->path), path);
    task->maximum = maximum;
    is_log = str_starts(path, MCP_LOG_FOLDER);
    if ((is_log ? log_path(&address, task) : file_path(&address, task)) < 0)
        read_done(task, MCP_READ_MISSING, &(struct rest_reply){0});
    else
        task_send(task, "GET", &address, NULL, true, is_log ? on_output : on_file);
    return 0;
}

static void on_list(void *ctx, const struct rest_reply *reply)
{
    struct task *task = ctx;
    struct mcp_work *work = task->work;
    char session[sizeof(task->session)];

    task->call = NULL;
    if (reply->err) {
        task_fail(task, reply->err);
        return;
    }
    str_copy(session, sizeof(session), task->session);
    task_free(task);
    if (work)
        mcp_work_listed(work, session, reply->body, reply->length);
}

int host_list(void *ctx, struct mcp_work *work, struct error *err)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    struct mcp_host *host = ctx;
    const char *session = host->session[0] ? host->session : host->name;
    struct task *task;

    if (!session) { /* nothing was run yet: no daemon is started to say that there is nothing */
        mcp_work_listed(work, NULL, "", 0);
        return 0;
    }
    task = task_new(host, work, err);
    if (!task)
        return -ENOMEM;
    str_copy(task->session, sizeof(task->session), session);
    if (client_session_path(&path, session, "/outputs", err) < 0) {
        task_free(task);
        return -EFBIG;
    }
    task_send(task, "GET", &path, NULL, true, on_list);
    return 0;
}
