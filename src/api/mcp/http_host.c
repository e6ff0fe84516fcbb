/*
 * http_host.c - connects MCP over HTTP to the session manager: keys, tool calls, a conversation's
 * session. Files are in http_files.c.
 */
#include "api/mcp/http_host.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "api/front/auth.h"
#include "api/mcp/mcp_http.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "session/session.h"
#include "session/session_manager.h"
#include "session/template.h"
#include "session/tenant.h"
#include "tool/call.h"
#include "tool/prompt.h"

#define PACKAGES_TAIL 48 /* bytes for how many more packages there are */
#define TAIL 2048        /* bytes of output that are searched for the last line */

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
    char (*own)[LIMIT_NAME + 1]; /* NULL: none */
    char word[LIMIT_NAME + 1];   /* the session that was requested; empty: none */
    struct tool_call *call;
};

/* Forgets a session that has ended: the next call creates a new one. */
static void forget_session(struct call *call, const struct tool_reply *reply)
{
    const char *code = reply ? tool_reply_error(reply) : NULL;

    if (call->own && str_equal(*call->own, call->word) &&
        (str_equal(code, ERROR_SESSION_ENDED) || str_equal(code, ERROR_SESSION_NOT_FOUND)))
        (*call->own)[0] = '\0';
}

static void on_done(void *ctx, const struct tool_reply *reply)
{
    struct call *call = ctx;
    struct mcp_work *work = call->task.work;

    forget_session(call, reply);
    free(call);
    if (reply)
        mcp_work_called(work, reply->session_id[0] ? reply->session_id : NULL, reply);
    else
        mcp_work_failed(work, &(struct error){.num = -ENOMEM, .text = "out of memory"});
}

static void end_session(struct mcp_engine *host, const struct principal *who,
                        const struct caller *caller, const char *id, void (*done)(void *ctx),
                        void *ctx)
{
    struct session *found;
    struct error ignored;

    if (auth_session(host->auth, who, id, false, &found, &ignored) == 0)
        session_end_by(found, caller, "deleted", done, ctx);
    else if (done)
        done(ctx);
}

static void call_cancel(struct mcp_engine *host, struct mcp_task *task, bool is_left)
{
    struct call *call = (struct call *)task;
    const char *made = tool_call_made(call->call);
    struct execution *execution = tool_call_execution(call->call);
    char id[ID_MAX] = "";

    if (made && is_left)
        str_copy(id, sizeof(id), made);
    if (execution && call->asker->keeps_commands && is_left)
        execution_signal(execution, SIGKILL,
                         NULL); /* a background command would outlive the call */
    tool_cancel(call->call);
    if (id[0])
        end_session(host, &call->asker->caller.who, &call->asker->caller, id, NULL, NULL);
    free(call);
}

/*
 * Whether the conversation's session is one that can be used, or a name that makes one. An id that
 * the client itself pinned is taken literally: a call for an ended one fails.
 */
static bool has_own(struct mcp_engine *host, const struct mcp_asker *asker)
{
    const char *own = *asker->own;
    struct session *session;
    struct error ignored;

    return own[0] &&
           (asker->is_pinned || !str_starts(own, "s_") ||
            auth_session(host->auth, &asker->caller.who, own, false, &session, &ignored) == 0);
}

/*
 * The conversation's own session, created at its first use; and again where it has ended: the model
 * asked for no session, so it gets one, and the note says what is gone.
 */
static int own_session(struct mcp_engine *host, const struct mcp_asker *asker,
                       char note[SUCCESSION_NOTE], struct error *err)
{
    const struct session_spec spec = {.caller = &asker->caller, .tenant = asker->caller.who.tenant};
    struct session *session;
    int r;

    if (has_own(host, asker))
        return 0;
    r = (*asker->own)[0]
            ? session_manager_succeed(host->manager, *asker->own, &spec, &session, note, err)
            : session_manager_create(host->manager, &spec, &session, err);
    if (r == 0 && (*asker->own)[0] && !note[0])
        str_copy(note, SUCCESSION_NOTE,
                 "the earlier session is gone, with its files, variables and running commands; "
                 "this is a new one");
    if (r == 0)
        str_copy(*asker->own, sizeof(*asker->own), session_id(session));
    return r;
}

/* The command that this call started before its answer was lost; NULL: it never began. */
static struct execution *find_lost(struct mcp_engine *host, struct mcp_asker *asker,
                                   const char *session, json_t *arguments, uint64_t lost_ms)
{
    struct execution *execution;
    struct session *found;
    struct error ignored;

    if (!session ||
        auth_session(host->auth, &asker->caller.who, session, false, &found, &ignored) < 0)
        return NULL;
    execution =
        session_find_command(found, json_object_get(arguments, "command"), lost_ms, asker->found);
    if (execution)
        asker->found = execution_number(execution);
    return execution;
}

/*
 * A call whose answer was lost. A command that runs or ran is waited for, an idempotent call is
 * repeated; otherwise the model gets an error. 1: continue with *tool and *arguments.
 */
static int recover(struct mcp_engine *host, struct mcp_asker *asker, struct mcp_work *work,
                   const struct tool_row **tool, const char *session, json_t **arguments,
                   struct error *err)
{
    bool is_background = json_is_true(json_object_get(*arguments, "background"));
    struct execution *execution;
    char id[ID_MAX + 24];

    if ((*tool)->is_idempotent || (*tool)->is_read_only)
        return 1;
    if (!(*tool)->is_found_again)
        return error_set(err, -EIO, ERROR_ENGINE,
                         "The answer of %s was lost: the daemon's broker went away. It may have "
                         "been done or not; look at the files before calling it again",
                         (*tool)->name);
    execution = find_lost(host, asker, session, *arguments, mcp_work_lost_ms(work));
    if (!execution || is_background)
        return 1;
    str_format(id, sizeof(id), "%s.%u", session_id(execution_session(execution)),
               execution_number(execution));
    *tool = tool_of(TOOL_SANDBOX_WAIT);
    *arguments = json_pack("{s:s, s:i}", "execution_id", id, "timeout", LIMIT_EXEC_TIMEOUT_S);
    return *arguments ? 1 : error_memory(err);
}

static int start(struct mcp_engine *host, struct mcp_asker *asker, struct mcp_work *work,
                 const struct tool_row *tool, const char *session, const char *note,
                 json_t *arguments, struct error *err)
{
    struct call *call = calloc(1, sizeof(*call));
    struct execution *execution;
    struct tool_call *started;

    if (!call)
        return error_memory(err);
    *call = (struct call){
        .task = {.work = work, .cancel = call_cancel}, .asker = asker, .own = asker->own};
    str_copy(call->word, sizeof(call->word), session ? session : "");
    mcp_work_attach(work, call);
    tool_start(host->tools, &asker->caller, tool, arguments, call->word[0] ? call->word : NULL,
               note[0] ? note : NULL, on_done, call, &started);
    if (!started)
        return 0; /* it was answered, and `call` is freed */
    call->call = started;
    execution = tool_call_execution(started);
    if (execution && asker->keeps_commands && tool->is_found_again)
        execution_set_background(execution);
    return 0;
}

static int host_call(void *ctx, struct mcp_asker *asker, struct mcp_work *work,
                     const struct tool_row *tool, const char *session, json_t *arguments,
                     struct error *err)
{
    struct mcp_engine *host = ctx;
    char note[SUCCESSION_NOTE] = "";
    json_t *given = arguments;
    int r = 1;

    if (!session && tool->needs_session && asker->own) {
        r = own_session(host, asker, note, err);
        if (r < 0)
            return r;
        session = *asker->own;
    }
    if (mcp_work_lost_ms(work))
        r = recover(host, asker, work, &tool, session, &arguments, err);
    if (r >= 0)
        r = start(host, asker, work, tool, session, note, arguments, err);
    if (arguments != given)
        json_decref(arguments);
    return r;
}

static void host_cancel(void *ctx, struct mcp_work *work, bool is_left)
{
    struct mcp_task *task = mcp_work_attached(work);

    if (task)
        task->cancel(ctx, task, is_left);
}

/*
 * Names without versions, as many as fit: clients cut instructions that are long. The host's own
 * Python and a container's are not looked into.
 */
static void add_packages(json_t *template, struct buf *text)
{
    json_t *packages = json_object_get(template, "packages"), *one;
    size_t i, left = json_array_size(packages);

    if (left == 0) {
        buf_append_text(text, "\nPython has the standard library and what is installed on this "
                              "machine; [\"pip\", \"list\"] lists it.");
        return;
    }
    buf_append_text(text, "\nPython has these packages: ");
    json_array_foreach(packages, i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));

        if (text->length + strlen(name ? name : "") + PACKAGES_TAIL > text->maximum)
            break;
        buf_printf(text, "%s%s", i > 0 ? ", " : "", name ? name : "");
        left--;
    }
    if (left > 0)
        buf_printf(text, " and %zu more ([\"pip\", \"list\"])", left);
    buf_append_text(text, ".");
}

/* The configuration that a session of this caller would have; the server's own, if it has none. */
static const struct config *config_of(const struct mcp_engine *host, const struct mcp_asker *asker)
{
    const struct config *config = NULL;
    struct error ignored = {0};

    return session_manager_config_of(host->manager, &asker->caller, &config, &ignored) == 0
               ? config
               : session_manager_config(host->manager);
}

/* The template of the conversation's session, or of one that would be made; new reference or NULL.
 */
static json_t *template_of(struct mcp_engine *host, const struct mcp_asker *asker)
{
    CLEANUP(json_decrefp) json_t *session = NULL;
    struct session_template found = {0};
    json_t *template = NULL;
    struct error ignored = {0};
    struct session *own;

    if (asker->own && (*asker->own)[0] &&
        auth_session(host->auth, &asker->caller.who, *asker->own, true, &own, &ignored) == 0)
        session = session_json(own);
    if (session_manager_template_of(host->manager, config_of(host, asker),
                                    json_string_value(json_object_get(session, "template")), &found,
                                    &ignored) == 0 &&
        template_json(host->manager, found.name, &template, &ignored) == 0)
        return template;
    return NULL;
}

static void host_about(void *ctx, const struct mcp_asker *asker, struct buf *text)
{
    CLEANUP(json_decrefp) json_t *template = template_of(ctx, asker);

    if (template)
        add_packages(template, text);
}

/* Its example uses packages that this template has. */
static void host_prompt(void *ctx, const struct mcp_asker *asker, struct buf *text)
{
    CLEANUP(json_decrefp) json_t *template = template_of(ctx, asker);
    struct mcp_engine *host = ctx;
    bool has_data = template_has_package(template, "polars") &&
                    template_has_package(template, "matplotlib") &&
                    template_has_package(template, "scikit-learn");

    if (prompt_write(&(struct prompt_spec){.config = config_of(host, asker),
                                           .has_data = has_data,
                                           .is_mcp = true},
                     text) < 0)
        buf_clear(text);
}

/* Reports the end of its output, from the stream that has some. */
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
                      const char *session, void (*done)(void *ctx), void *done_ctx)
{
    end_session(ctx, who, caller, session, done, done_ctx);
}

static void host_speak(void *ctx, const struct caller *caller, const char *session)
{
    (void)ctx;
    if (caller)
        auth_speak(caller, session);
    else
        auth_leave();
}

static int host_count(void *ctx, const struct caller *caller, struct error *err)
{
    struct mcp_engine *host = ctx;
    struct tenants *tenants = session_manager_tenants(host->manager);
    int r = 0;

    if (caller->who.is_local)
        return 0;
    r = tenant_take(tenants, caller->who.tenant, QUOTA_REQUESTS, 1, err);
    return r < 0 ? r : tenant_take(tenants, caller->who.tenant, QUOTA_BYTES, 0, err);
}

const struct mcp_http_ops mcp_engine_ops = {
    .call = host_call,
    .list = mcp_engine_list,
    .read = mcp_engine_read,
    .about = host_about,
    .prompt = host_prompt,
    .cancel = host_cancel,
    .look = host_look,
    .left = host_left,
    .speak = host_speak,
    .count = host_count,
};
