/*
 * http_host.c - what MCP over HTTP needs of the engine: keys, tool calls, a conversation's session.
 * Files are in http_files.c.
 */
#include "api/mcp/http_host.h"

#include <errno.h>
#include <string.h>

#include "api/front/auth.h"
#include "api/mcp/mcp_http.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "session/session.h"
#include "session/session_manager.h"
#include "tool/call.h"

#define TAIL 2048 /* bytes of output that are looked at for its last line */

struct mcp_engine *mcp_engine_new(struct session_manager *manager, struct tools *tools,
                                  const struct auth *auth)
{
    struct mcp_engine *host = calloc(1, sizeof(*host));

    if (host)
        *host = (struct mcp_engine){.manager = manager, .tools = tools, .auth = auth};
    return host;
}

void mcp_engine_free(struct mcp_engine *host)
{
    free(host);
}

/* ---- calls ---- */

struct call {
    struct mcp_task task;
    const struct mcp_asker *asker;
    char (*own)[LIMIT_NAME + 1]; /* NULL: there is none */
    char word[LIMIT_NAME + 1];   /* the session that was asked for; empty: none */
    struct tool_call *call;
};

/* A session that is gone is not asked again: the next call gets a new one. */
static void forget_session(struct call *call, json_t *reply)
{
    const char *code = json_string_value(json_object_get(reply, "code"));

    if (call->own && str_equal(*call->own, call->word) &&
        (str_equal(code, ERROR_SESSION_ENDED) || str_equal(code, ERROR_SESSION_NOT_FOUND)))
        (*call->own)[0] = '\0';
}

static void on_done(void *ctx, json_t *reply)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_REPLY_JSON);
    struct call *call = ctx;
    struct mcp_work *work = call->task.work;
    const char *session = json_string_value(json_object_get(reply, "session_id"));
    bool is_written = reply && text_of_json(reply, JSON_COMPACT, &text) == 0;

    forget_session(call, reply);
    free(call);
    if (is_written)
        mcp_work_called(work, session, buf_text(&text), text.length);
    else
        mcp_work_failed(work, &(struct error){.num = -ENOMEM, .text = "out of memory"});
}

static void end_session(struct mcp_engine *host, const struct principal *who,
                        const struct caller *caller, const char *id)
{
    struct session *found;
    struct error ignored;

    if (auth_session(host->auth, who, id, false, &found, &ignored) == 0)
        session_end_by(found, caller, "deleted", NULL, NULL);
}

static void call_cancel(struct mcp_engine *host, struct mcp_task *task, bool is_left)
{
    struct call *call = (struct call *)task;
    const char *made = tool_call_made(call->call);
    char id[ID_MAX] = "";

    if (made && is_left)
        str_copy(id, sizeof(id), made);
    tool_cancel(call->call);
    if (id[0])
        end_session(host, &call->asker->caller.who, &call->asker->caller, id);
    free(call);
}

/* The conversation's own session, made at its first use. */
static int own_session(struct mcp_engine *host, const struct mcp_asker *asker, struct error *err)
{
    struct session *session;
    int r;

    if ((*asker->own)[0])
        return 0;
    r = session_manager_create(
        host->manager,
        &(struct session_spec){.caller = &asker->caller, .tenant = asker->caller.who.tenant},
        &session, err);
    if (r == 0)
        str_copy(*asker->own, sizeof(*asker->own), session_id(session));
    return r;
}

static int host_call(void *ctx, const struct mcp_asker *asker, struct mcp_work *work,
                     const struct mcp_tool *tool, const char *session, json_t *arguments,
                     struct error *err)
{
    struct mcp_engine *host = ctx;
    const struct tool_row *row = tool_find(tool->name);
    struct call *call;
    struct tool_call *started;
    int r;

    if (!session && tool->needs_session && asker->own) {
        r = own_session(host, asker, err);
        if (r < 0)
            return r;
        session = *asker->own;
    }
    call = calloc(1, sizeof(*call));
    if (!call || !row) {
        free(call);
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    }
    *call = (struct call){
        .task = {.work = work, .cancel = call_cancel}, .asker = asker, .own = asker->own};
    str_copy(call->word, sizeof(call->word), session ? session : "");
    mcp_work_attach(work, call);
    tool_start(host->tools, &asker->caller, row, arguments, call->word[0] ? call->word : NULL,
               on_done, call, &started);
    if (started)
        call->call = started; /* else it was answered, and `call` is gone */
    return 0;
}

static void host_cancel(void *ctx, struct mcp_work *work, bool is_left)
{
    struct mcp_task *task = mcp_work_attached(work);

    if (task)
        task->cancel(ctx, task, is_left);
}

/* The end of what it has printed, of the stream that has something. */
static void host_look(void *ctx, struct mcp_work *work)
{
    struct mcp_task *task = mcp_work_attached(work);
    struct execution *execution;
    char tail[TAIL];

    (void)ctx;
    if (!task || task->cancel != call_cancel)
        return;
    execution = tool_call_execution(((struct call *)task)->call);
    for (int stream = 1; execution && stream <= 2; stream++) {
        uint64_t end = execution_written(execution, stream);
        uint64_t from = end > TAIL ? end - TAIL : 0;
        ssize_t length = execution_read(execution, stream, from, tail, sizeof(tail));

        if (length > 0) {
            mcp_work_printed(work, tail, (size_t)length);
            return;
        }
    }
}

static void host_left(void *ctx, const struct principal *who, const struct caller *caller,
                      const char *session)
{
    end_session(ctx, who, caller, session);
}

const struct mcp_http_ops mcp_engine_ops = {
    .call = host_call,
    .list = mcp_engine_list,
    .read = mcp_engine_read,
    .cancel = host_cancel,
    .look = host_look,
    .left = host_left,
};
