/*
 * mcp_host.c - the MCP door's world over REST; see mcp_host.h.
 *
 * Theory of operation. A work of the door is a task here, with at most one call to the daemon under
 * way. sandbox_exec is started in the background and then waited for in short waits: so its
 * execution id is known from the first moment, a broker that is restarted costs nothing, each wait
 * brings what was printed so far, and a cancellation names what it kills. When even the answer to
 * the start was lost, the session's processes say whether it was started.
 */
#include "cli/client/mcp_host.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/client/mcp_task.h"

#define FIRST_WAIT_S 0.8       /* a little less than until progress is sent, */
#define WAIT_S 4.0             /* and until it is sent again */
#define END_PATIENCE_MS 3000   /* for goodbyes at the end */
#define SMALL_REPLY (64 * KIB) /* of calls whose answer hardly matters */

static void start_call(struct task *task);
static void wait_exec(struct task *task);

/* ---- tasks ---- */

struct task *task_new(struct mcp_host *host, struct mcp_work *work, struct error *err)
{
    struct task *task = calloc(1, sizeof(*task));

    if (!task) {
        error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
        return NULL;
    }
    task->host = host;
    task->work = work;
    task->next = host->tasks;
    host->tasks = task;
    clock_iso(task->began, sizeof(task->began));
    if (work)
        mcp_work_attach(work, task);
    return task;
}

void task_free(struct task *task)
{
    struct task **at = &task->host->tasks;

    while (*at != task)
        at = &(*at)->next;
    *at = task->next;
    rest_cancel(task->call);
    json_decref(task->arguments);
    free(task);
}

/* The task is gone before the door hears of it: it may ask for something else at once. */
void task_fail(struct task *task, const struct error *err)
{
    struct mcp_work *work = task->work;
    struct error copy = *err;

    if (task->execution[0])
        str_format(copy.text, sizeof(copy.text),
                   "%.700s. The command may still run: call sandbox_wait with execution_id %s",
                   err->text, task->execution);
    task_free(task);
    if (work)
        mcp_work_failed(work, &copy);
}

int task_send(struct task *task, const char *method, const struct buf *path, json_t *body,
              bool may_repeat, void (*done)(void *ctx, const struct rest_reply *reply))
{
    const struct rest_spec spec = {.method = method,
                                   .path = buf_text(path),
                                   .body = body,
                                   .maximum = task->maximum ? task->maximum : LIMIT_REPLY_JSON,
                                   .may_repeat = may_repeat,
                                   .done = done,
                                   .ctx = task};
    struct error err = {0};
    int r = mcp_rest_start(&task->host->rest, &spec, &task->call, &err);

    if (r < 0)
        task_fail(task, &err);
    return r;
}

/* ---- the session ---- */

static void nobody_listens(void *ctx, const struct rest_reply *reply)
{
    (void)ctx;
    (void)reply;
}

static void session_end(struct mcp_host *host)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;

    if (host->name || !host->session[0] || client_session_path(&path, host->session, "", NULL) < 0)
        return;
    mcp_rest_start(&host->rest,
                   &(struct rest_spec){.method = "DELETE",
                                       .path = buf_text(&path),
                                       .maximum = SMALL_REPLY,
                                       .may_repeat = true,
                                       .done = nobody_listens},
                   NULL, NULL);
    host->session[0] = '\0';
}

static struct task *next_waiting(struct mcp_host *host)
{
    for (struct task *task = host->tasks; task; task = task->next)
        if (task->waits_for_session)
            return task;
    return NULL;
}

/* Every call that waited goes on, or gets the answer that came instead. */
static void on_session(void *ctx, const struct rest_reply *reply)
{
    CLEANUP(json_freep) json_t *json = json_loadb(reply->body, reply->length, 0, NULL);
    struct mcp_host *host = ctx;
    const char *id = member_text(json, "id");
    struct task *task;

    host->making = NULL;
    if (!reply->err && reply->status < 400 && id[0] &&
        str_copy(host->session, sizeof(host->session), id) && host->peer)
        mcp_peer_session(host->peer, host->session);
    while ((task = next_waiting(host))) {
        task->waits_for_session = false;
        if (host->session[0]) {
            str_copy(task->session, sizeof(task->session), host->session);
            start_call(task);
        } else if (reply->err) {
            task_fail(task, reply->err);
        } else {
            task_answer(task, reply);
        }
    }
}

/* Gives the task the front's own session, or makes it wait for that. */
static int own_session(struct task *task, struct error *err)
{
    struct mcp_host *host = task->host;
    json_t *body;
    int r = 0;

    if (host->name && !host->session[0]) {
        str_copy(host->session, sizeof(host->session), host->name); /* made by its first use */
        mcp_peer_session(host->peer, host->session);
    }
    if (host->session[0]) {
        str_copy(task->session, sizeof(task->session), host->session);
        return 0;
    }
    task->waits_for_session = true;
    if (host->making)
        return 0;
    body = json_object();
    r = mcp_rest_start(&host->rest,
                       &(struct rest_spec){.method = "POST",
                                           .path = "/v1/sessions",
                                           .body = body,
                                           .maximum = SMALL_REPLY,
                                           .done = on_session,
                                           .ctx = host},
                       &host->making, err);
    json_decref(body);
    return r;
}

/* A session that is gone is not asked again: the next call gets a new one. */
static void forget_session(struct task *task, json_t *reply)
{
    struct mcp_host *host = task->host;
    json_t *error = json_object_get(reply, "error");
    const char *code = member_text(json_is_object(error) ? error : reply, "code");

    if (!host->name && str_equal(task->session, host->session) &&
        (str_equal(code, ERROR_SESSION_ENDED) || str_equal(code, ERROR_SESSION_NOT_FOUND)))
        host->session[0] = '\0';
}

/* ---- calls ---- */

void task_answer(struct task *task, const struct rest_reply *reply)
{
    CLEANUP(json_freep) json_t *json = json_loadb(reply->body, reply->length, JSON_ALLOW_NUL, NULL);
    struct mcp_work *work = task->work;
    const char *used = member_text(json, "session_id");
    char session[sizeof(task->session)];

    forget_session(task, json);
    str_copy(session, sizeof(session), used[0] ? used : task->session);
    task_free(task);
    if (work)
        mcp_work_called(work, session[0] ? session : NULL, reply->body, reply->length);
}

static void kill_execution(struct mcp_host *host, const char *session, const char *execution)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep) json_t *body = json_pack("{s:s}", "signal", "KILL");

    if (client_session_path(&path, session, "/processes/", NULL) < 0 ||
        http_encode(&path, execution) < 0 || buf_append_text(&path, "/signal") < 0)
        return;
    mcp_rest_start(&host->rest,
                   &(struct rest_spec){.method = "POST",
                                       .path = buf_text(&path),
                                       .body = body,
                                       .maximum = SMALL_REPLY,
                                       .may_repeat = true,
                                       .done = nobody_listens},
                   NULL, NULL);
}

/* What was printed so far, for the next progress. */
static void tell_printed(struct task *task, json_t *json)
{
    static const char *const streams[] = {"stdout", "stderr"};

    for (size_t i = 0; i < ARRAY_SIZE(streams); i++) {
        json_t *text = json_object_get(json, streams[i]);
        char flag[32];

        str_format(flag, sizeof(flag), "%s_truncated", streams[i]);
        if (json_string_length(text) == 0 || json_is_true(json_object_get(json, flag)))
            continue; /* of a text that was cut we do not have the end */
        mcp_work_printed(task->work, json_string_value(text), json_string_length(text));
        return;
    }
}

static void on_wait(void *ctx, const struct rest_reply *reply)
{
    CLEANUP(json_freep) json_t *json = json_loadb(reply->body, reply->length, JSON_ALLOW_NUL, NULL);
    struct task *task = ctx;

    task->call = NULL;
    if (reply->err) {
        task_fail(task, reply->err);
        return;
    }
    if (!json_is_true(json_object_get(json, "running"))) {
        task_answer(task, reply);
        return;
    }
    if (task->work)
        tell_printed(task, json);
    wait_exec(task);
}

static void wait_exec(struct task *task)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep)
    json_t *body = json_pack("{s:s,s:f}", "execution_id", task->execution, "timeout",
                             task->has_waited ? WAIT_S : FIRST_WAIT_S);

    task->has_waited = true;
    if (buf_append_text(&path, "/v1/tools/sandbox_wait") == 0)
        task_send(task, "POST", &path, body, true, on_wait);
}

/* It runs, and we know its name. Somebody may have cancelled it before that. */
static void exec_started(struct task *task, const char *execution)
{
    if (!task->work) {
        kill_execution(task->host, task->session, execution);
        task_free(task);
        return;
    }
    str_copy(task->execution, sizeof(task->execution), execution);
    wait_exec(task);
}

static bool is_held(const struct mcp_host *host, const char *execution)
{
    for (const struct task *task = host->tasks; task; task = task->next)
        if (str_equal(task->execution, execution))
            return true;
    return false;
}

/* The answer to the start was lost: is there an execution of this command that nobody waits for? */
static void on_processes(void *ctx, const struct rest_reply *reply)
{
    CLEANUP(json_freep) json_t *json = json_loadb(reply->body, reply->length, JSON_ALLOW_NUL, NULL);
    struct task *task = ctx;
    json_t *command = json_object_get(task->arguments, "command"), *process;
    size_t index;

    task->call = NULL;
    if (reply->err) {
        task_fail(task, reply->err);
        return;
    }
    json_array_foreach(json_object_get(json, "processes"), index, process)
    {
        const char *execution = member_text(process, "execution_id");
        const char *started = member_text(process, "started_at"); /* none while it waits */

        if (execution[0] && json_equal(json_object_get(process, "argv"), command) &&
            (!started[0] || strcmp(started, task->began) >= 0) && !is_held(task->host, execution)) {
            exec_started(task, execution);
            return;
        }
    }
    start_call(task); /* nothing was started */
}

static void find_lost(struct task *task, const struct error *err)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;

    if (task->has_looked || client_session_path(&path, task->session, "/processes", NULL) < 0) {
        task_fail(task, err);
        return;
    }
    task->has_looked = true;
    task_send(task, "GET", &path, NULL, true, on_processes);
}

/* What a model can do when nobody knows whether it was done. */
static void call_lost(struct task *task, const struct error *err)
{
    struct error told = *err;

    str_format(told.text, sizeof(told.text),
               "The answer of %s was lost: %.500s. It may have been done or not; look at the files "
               "before calling it again",
               task->tool->name, err->text);
    task_fail(task, &told);
}

static void on_called(void *ctx, const struct rest_reply *reply)
{
    CLEANUP(json_freep) json_t *json = json_loadb(reply->body, reply->length, JSON_ALLOW_NUL, NULL);
    struct task *task = ctx;
    const char *execution = member_text(json, "execution_id");

    task->call = NULL;
    if (reply->err && task->is_exec)
        find_lost(task, reply->err);
    else if (reply->err)
        call_lost(task, reply->err);
    else if (task->is_exec && json_is_true(json_object_get(json, "running")) && execution[0])
        exec_started(task, execution);
    else
        task_answer(task, reply);
}

static void start_call(struct task *task)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;

    if (!task->work) { /* cancelled while its session or its traces were looked for */
        task_free(task);
        return;
    }
    if (buf_printf(&path, "/v1/tools/%s", task->tool->name) < 0 ||
        (task->session[0] && client_query(&path, "session", task->session, NULL) < 0))
        task_fail(task, &(struct error){.text = "out of memory"});
    else
        task_send(task, "POST", &path, task->arguments,
                  task->tool->is_idempotent || task->tool->is_read_only, on_called);
}

int host_call(void *ctx, struct mcp_work *work, const struct mcp_tool *tool, const char *session,
              json_t *arguments, struct error *err)
{
    struct task *task = task_new(ctx, work, err);
    int r = 0;

    if (!task)
        return -ENOMEM;
    task->tool = tool;
    task->arguments = json_incref(arguments);
    task->is_exec = str_equal(tool->name, "sandbox_exec") &&
                    !json_is_true(json_object_get(arguments, "background"));
    if (task->is_exec)
        json_object_set_new(arguments, "background", json_true());
    if (session)
        str_copy(task->session, sizeof(task->session), session);
    else if (tool->needs_session)
        r = own_session(task, err);
    if (r < 0)
        task_free(task);
    else if (!task->waits_for_session)
        start_call(task);
    return r;
}

void host_cancel(void *ctx, struct mcp_work *work)
{
    struct task *task = mcp_work_attached(work);

    if (!task)
        return;
    task->work = NULL;
    if (task->execution[0])
        kill_execution(ctx, task->session, task->execution);
    else if (task->is_exec && !task->waits_for_session)
        return;      /* it is being started: exec_started() ends it */
    task_free(task); /* a call that its client leaves is ended by the daemon */
}

void host_end(struct mcp_host *host)
{
    uint64_t give_up_ms = clock_now_ms() + END_PATIENCE_MS;

    host->peer = NULL;
    session_end(host);
    while (host->rest.calls && clock_now_ms() < give_up_ms) {
        rest_wait(&host->rest, NULL, 0, give_up_ms);
        if (!host->making)
            session_end(host); /* it came late */
    }
    while (host->tasks)
        task_free(host->tasks);
    rest_close(&host->rest);
}
