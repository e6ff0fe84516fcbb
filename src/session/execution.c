/*
 * execution.c - one command of a session, from the request to its recorded end; see session.h. Also
 * has the functions that commands and cells share.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "session/session_private.h"

#define OUTPUT_EVENT_MS 250

/* What is needed to start a command once the box is ready. */
struct exec_request {
    char **argv, **env;
    char *cwd;
    unsigned rows, columns;
};

static void request_free(struct exec_request *request)
{
    if (!request)
        return;
    strv_free(request->argv);
    strv_free(request->env);
    free(request->cwd);
    free(request);
}

struct execution *execution_new(struct session *session, uint32_t number)
{
    struct execution *execution = calloc(1, sizeof(*execution));

    if (!execution)
        return NULL;
    execution->session = session;
    execution->number = number;
    execution->input_fd = -1;
    for (int i = 0; i < BOX_STREAMS; i++) {
        execution->out[i].fd = -1;
        execution->early[i] = BUF_INIT(LIMIT_EARLY_OUTPUT);
    }
    execution->next = session->executions;
    if (execution->next)
        execution->next->previous = execution;
    else
        session->oldest = execution;
    session->executions = execution;
    session->execution_count++;
    return execution;
}

void execution_works(struct execution *execution)
{
    execution->is_awaited = !(execution->flags & (EXECUTION_BACKGROUND | EXECUTION_PTY));
    if (execution->is_awaited)
        tenant_works(execution->session->manager->tenants, execution->session->tenant);
}

static void execution_rests(struct execution *execution)
{
    if (execution->is_awaited)
        tenant_rests(execution->session->manager->tenants, execution->session->tenant);
    execution->is_awaited = false;
}

void execution_free(struct execution *execution)
{
    struct session *session = execution->session;

    execution_rests(execution);
    *(execution->previous ? &execution->previous->next : &session->executions) = execution->next;
    *(execution->next ? &execution->next->previous : &session->oldest) = execution->previous;
    session->execution_count--;
    while (execution->watchers) {
        struct execution_watcher *watcher = execution->watchers;

        execution->watchers = watcher->next;
        free(watcher);
    }
    while (execution->input_waiters) { /* no waiter is being called here: during a call the
                                          execution has a user */
        struct completion *waiter = execution->input_waiters;

        execution->input_waiters = waiter->next;
        free(waiter);
    }
    request_free(execution->asked);
    account_free(execution->account);
    usage_log_over(execution);
    usage_request_over(execution);
    settings_release(execution->settings);
    output_free(execution);
    cell_free(execution);
    input_write_leave(execution);
    fd_closep(&execution->input_fd);
    free(execution->argv);
    json_decref(execution->words);
    free(execution->error);
    free(execution);
}

int execution_record(struct execution *execution, struct error *err)
{
    const struct error *error = execution_error(execution);
    CLEANUP(freep) char *cell = execution->cell ? cell_text(execution) : NULL;
    CLEANUP(freep)
    char *argv = execution->argv ? NULL
                                 : index_read_argv(execution->session->manager->spec.index,
                                                   execution->session->id, execution->number);
    const struct exec_end *end = &execution->end;
    struct index_execution row = {
        .number = execution->number,
        .call = execution->call,
        .argv = execution->argv ? execution->argv : argv,
        .started_ms = execution->started_ms,
        .deadline_ms = execution->timeout_ms,
        .paused_ms = execution->paused_ms,
        .flags = execution->flags,
        .ended_ms = execution->ended_ms,
        .exit_code = end->exit_code,
        .signal = end->signal,
        .duration_ns = end->duration_ns,
        .out_bytes = execution->out[0].length,
        .err_bytes = execution->out[1].length,
        .error_code = error->code,
        .error_text = error->code ? error->text : NULL,
        .cpu_us = end->usage.cpu_us,
        .max_rss_bytes = end->usage.max_rss_bytes,
        .event_bytes = execution->out[2].length,
        .cell = cell,
    };
    int r;

    str_copy(row.session, sizeof(row.session), execution->session->id);
    for (int i = 0; i < BOX_STREAMS && execution->ended_ms; i++) {
        if (execution->early[i].length == 0)
            continue;
        row.data[i].bytes = execution->early[i].data;
        row.data[i].length = execution->early[i].length;
    }
    r = index_put_execution(execution->session->manager->spec.index, &row, err);
    for (int i = 0; i < BOX_STREAMS && r == 0; i++)
        execution->is_in_row[i] |= row.data[i].bytes != NULL;
    return r;
}

void execution_save(struct execution *execution)
{
    struct error err = {0};

    if (execution_record(execution, &err) < 0)
        log_error("execution %s.%u could not be recorded: %s, continuing without it",
                  execution->session->id, execution->number, err.text);
}

bool execution_has_ended(const struct execution *execution)
{
    return execution->state >= EXECUTION_EXITED;
}

/* ---- the end of an execution ---- */

const struct error *execution_error(const struct execution *execution)
{
    static const struct error none, unknown = {
                                        .num = -ENOMEM,
                                        .code = ERROR_ENGINE,
                                        .text = "out of memory",
                                    };

    if (execution->error)
        return execution->error;
    return execution->state == EXECUTION_FAILED ? &unknown : &none;
}

void execution_set_error(struct execution *execution, const struct error *err)
{
    if (!execution->error)
        execution->error = malloc(sizeof(*err));
    if (execution->error)
        *execution->error = *err;
}

void execution_end(struct execution *execution, enum execution_state state)
{
    struct session *session = execution->session;

    execution->state = state;
    execution->ended_ms = session_manager_now_ms();
    execution_rests(execution);
    if (execution->cell)
        cell_install_flush(execution);
    fd_closep(&execution->input_fd);
    execution->input_fd = -1;
    output_close(execution); /* there may be thousands, so files are closed */
    session->running--;
    usage_execution_over(session, &execution->end);
    account_execution(execution);
    execution_save(execution);
    session->spooled += execution_kept(execution);
    input_remove(execution);
    executions_drop_output(session);
    if (session->box && execution->call)
        box_forget(session->box, execution->call);
    session_touch(session);
    session_manager_expect(session->manager);
    bus_publish(session->manager->spec.bus, EVENT_EXEC_EXITED, session->tenant, session->id,
                execution_json(execution));
    input_tell(execution);
    execution_tell(execution, false);
    if (execution->cell)
        cell_over(execution);
    execution_forget(execution);
    if (session->manager->is_stopping)
        session_manager_later(session->manager);
}

void execution_fail(struct execution *execution, const struct error *err)
{
    if (execution_has_ended(execution))
        return;
    execution_set_error(execution, err);
    execution_end(execution, EXECUTION_FAILED);
}

static void on_usage(void *ctx, const struct box_facts *facts)
{
    struct execution *execution = ctx;
    struct session *session = execution->session;

    execution->users--;
    if (facts && facts->oom_kills > session->facts.oom_kills) {
        execution->flags |= EXECUTION_OOM;
        session->facts.oom_kills = facts->oom_kills;
    }
    if (!execution_has_ended(execution))
        execution_end(execution, EXECUTION_EXITED);
}

void execution_ask_memory(struct execution *execution)
{
    struct provider *provider = execution->session->manager->provider;

    execution->state = EXECUTION_CLOSING;
    execution->users++;
    provider->ops->usage(provider, execution->session->number, on_usage, execution);
}

static void on_ended(void *ctx, const struct exec_end *end)
{
    struct execution *execution = ctx;
    struct session *session = execution->session;

    execution->end = *end;
    execution->flags |= (end->timed_out ? EXECUTION_TIMED_OUT : 0) |
                        (end->disk_full ? EXECUTION_DISK_FULL : 0) |
                        (end->memory_watchdog ? EXECUTION_OOM : 0);
    if (end->signal != SIGKILL || end->timed_out || end->memory_watchdog || execution->was_killed ||
        session->state >= SESSION_ENDING) {
        execution_end(execution, EXECUTION_EXITED);
        return;
    }
    /* Killed, but not by the engine: the launcher knows whether memory was the reason. */
    execution_ask_memory(execution);
}

static void on_failed(void *ctx, const struct error *err)
{
    struct execution *execution = ctx;
    struct error own = *err;
    CLEANUP(json_decrefp) json_t *argv = execution_words(execution);
    const char *program = json_string_value(json_array_get(argv, 0));

    if (err->code == ERROR_COMMAND_NOT_FOUND || err->code == ERROR_NOT_EXECUTABLE)
        error_prefix(&own, program ? program : "");
    execution_fail(execution, &own);
}

/* ---- while an execution runs ---- */

static void on_stdin_ready(void *ctx);

static void on_started(void *ctx)
{
    struct execution *execution = ctx;
    struct session *session = execution->session;

    execution->state = EXECUTION_RUNNING;
    execution->flags |= EXECUTION_STARTED;
    execution->pid = box_pid(session->box, execution->call);
    bus_publish(session->manager->spec.bus, EVENT_EXEC_STARTED, session->tenant, session->id,
                execution_json(execution));
    if (execution->rows)
        box_resize(session->box, execution->call, execution->rows, execution->columns);
    if (execution->ends_input)
        box_stdin_end(session->box, execution->call);
    on_stdin_ready(execution);
    execution_tell(execution, true);
}

static void tell_output(struct execution *execution)
{
    struct session *session = execution->session;
    uint64_t now = session_manager_now_ms();
    char id[ID_MAX];

    if (now - execution->told_ms < OUTPUT_EVENT_MS)
        return;
    execution->told_ms = now;
    str_format(id, sizeof(id), "%s.%u", session->id, execution->number);
    bus_publish(session->manager->spec.bus, EVENT_OUTPUT, session->tenant, session->id,
                json_pack("{s:s, s:I, s:I}", "execution_id", id, "stdout_bytes",
                          (json_int_t)execution->out[0].length, "stderr_bytes",
                          (json_int_t)execution->out[1].length));
}

size_t execution_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct execution *execution = ctx;
    int index = (int)stream - 1;
    size_t taken = (size_t)MIN((uint64_t)length, execution_room(execution, index));
    struct error err = {0};

    if (taken < length)
        execution->is_held[index] = true;
    if (taken == 0)
        return 0;
    if (!(execution->flags & EXECUTION_UNKEPT) &&
        (usage_log(execution, taken, &err) < 0 ||
         output_append(execution, index, data, taken, &err) < 0)) {
        /* A full disk, or a quota, must not stop the command: it goes on, and the result says that
         * output is missing. */
        execution->flags |= EXECUTION_UNKEPT;
        log_error("output of %s.%u: %s, continuing without it", execution->session->id,
                  execution->number, err.text);
    }
    usage_log_written(execution);
    tell_output(execution);
    execution_tell(execution, false);
    return taken;
}

static void on_stdin_ready(void *ctx)
{
    struct execution *execution = ctx;

    if (execution->input_fd >= 0)
        input_push(execution);
    else
        input_tell(execution);
}

const struct exec_events execution_exec_events = {
    .started = on_started,
    .output = execution_output,
    .ended = on_ended,
    .failed = on_failed,
    .stdin_ready = on_stdin_ready,
};

/* ---- the start of an execution ---- */

/* A broker that takes over finds the execution by this id in the box. */
void execution_number_now(struct execution *execution, const struct box *box)
{
    execution->call = box_next_id(box);
    execution->started_ms = session_manager_now_ms();
}

static void on_box(void *ctx, struct box *box, const struct error *err)
{
    struct execution *execution = ctx;
    struct exec_request *asked = execution->asked;
    struct exec_spec spec = {
        .argv = (const char *const *)asked->argv,
        .env = (const char *const *)asked->env,
        .cwd = asked->cwd,
        .stdin_open = execution->flags & EXECUTION_STDIN,
        .timeout_ms = execution->timeout_ms,
        .keeps = true,
        .is_pty = execution->flags & EXECUTION_PTY,
        .rows = asked->rows,
        .columns = asked->columns,
    };
    struct error own = {0};

    if (execution_has_ended(execution))
        return;
    if (!box) {
        execution_fail(execution, err);
        return;
    }
    if (execution->call == 0) {
        execution_number_now(execution, box);
        execution_save(execution);
    }
    execution->state = EXECUTION_SENT;
    if (box_exec(box, &spec, &execution_exec_events, execution, &execution->call, &own) < 0)
        execution_fail(execution, &own);
    request_free(execution->asked);
    execution->asked = NULL;
}

void execution_ask_box(struct execution *execution)
{
    session_box(execution->session, on_box, execution);
}

char **env_vector(json_t *base, json_t *over)
{
    CLEANUP(strv_freep) char **list = strv_new();
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_ARGV_BYTES);
    const char *name;
    json_t *value;
    int r = list ? 0 : -ENOMEM;

    for (int i = 0; i < 2; i++) {
        json_object_foreach(i == 0 ? base : over, name, value)
        {
            if (r < 0 || (i == 0 && json_object_get(over, name)))
                continue;
            buf_clear(&text);
            r = buf_printf(&text, "%s=%s", name, json_string_value(value));
            if (r == 0)
                r = strv_push(&list, buf_text(&text));
        }
    }
    return r < 0 ? NULL : ptr_take(&list);
}

static int request_new(struct session *session, const struct execution_spec *spec,
                       struct execution *execution)
{
    struct exec_request *asked = calloc(1, sizeof(*asked));
    CLEANUP(json_decrefp) json_t *words = json_array();

    execution->asked = asked;
    if (!asked)
        return -ENOMEM;
    asked->argv = strv_copy(spec->argv);
    asked->env = session_env(session, spec->env);
    asked->cwd = spec->cwd ? strdup(spec->cwd) : NULL;
    asked->rows = spec->rows;
    asked->columns = spec->columns;
    for (size_t i = 0; spec->argv[i]; i++) {
        if (json_array_append_new(words, json_string(spec->argv[i])) < 0)
            json_array_append_new(words, json_string("(not UTF-8)"));
    }
    execution->argv = json_dumps(words, JSON_COMPACT);
    execution->words = json_incref(words);
    return !execution->argv || !asked->argv || !asked->env || (spec->cwd && !asked->cwd) ? -ENOMEM
                                                                                         : 0;
}

int execution_may_start(struct session *session, struct error *err)
{
    int r;

    if (session->state >= SESSION_ENDING)
        return session_ended_error(session, err);
    if (session->manager->is_stopping)
        return error_set(err, -ESHUTDOWN, ERROR_SHUTTING_DOWN, "the daemon is stopping");
    r = session_check_pause(session, err);
    if (r < 0)
        return r;
    if (session->running >= LIMIT_COMMANDS)
        return error_set(err, -EAGAIN, ERROR_BAD_INPUT,
                         "%u commands run in this session, which is the most it may have; wait for "
                         "one to end, or end one",
                         session->running);
    executions_trim(session, LIMIT_EXECUTIONS - 1); /* the oldest ended ones are dropped */
    return usage_execution(session, err);
}

void execution_by(struct execution *execution, struct account *account)
{
    execution->account = account;
    if (account)
        str_copy(execution->trace, sizeof(execution->trace), account->caller.trace.id);
}

int session_exec(struct session *session, const struct execution_spec *spec, struct execution **ret,
                 struct error *err)
{
    struct settings *settings = NULL;
    struct execution *execution;
    int r = settings_of_call(session, spec->caller, &settings, err);

    if (r == 0)
        r = execution_may_start(session, err);
    if (r < 0) {
        settings_release(settings);
        return account_refused(session->manager, "exec", session_tenant(session), err);
    }
    execution = execution_new(session, session->next_execution);
    if (!execution) {
        settings_release(settings);
        usage_execution_over(session, NULL);
        return error_memory(err);
    }
    execution->settings = settings;
    guest_install_call(session, execution_config(execution));
    execution->flags = (spec->is_background ? EXECUTION_BACKGROUND : 0) |
                       (spec->is_pty ? EXECUTION_PTY : 0) |
                       (spec->stdin_open || spec->input || spec->is_pty ? EXECUTION_STDIN : 0);
    execution->timeout_ms = spec->timeout_ms;
    execution_by(execution, account_words(execution_config(execution), spec->caller, spec->argv));
    r = request_new(session, spec, execution);
    if (r < 0)
        error_set(err, r, ERROR_ENGINE, "out of memory");
    if (r == 0)
        r = usage_request(execution, strlen(execution->argv), spec->input ? spec->input_length : 0,
                          err);
    if (r == 0 && spec->input)
        r = input_store(execution, spec, err);
    if (r == 0 && session->state == SESSION_READY && !execution->input_write)
        execution_number_now(execution, session->box);
    /* Stored first: if the broker dies now, its successor finds a row, and the warden knows the
     * rest. */
    if (r == 0)
        r = execution_record(execution, err);
    if (r < 0) {
        usage_execution_over(session, NULL);
        execution_free(execution);
        return r;
    }
    session->next_execution++;
    session->running++;
    *ret = execution;
    execution_works(execution);
    account_execution_started(execution);
    if (!execution->input_write)
        execution_ask_box(execution);
    return 0;
}
