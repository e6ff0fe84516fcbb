/*
 * account.c - records the ends of programs, boxes and sessions in the metrics and the audit log;
 * see account.h.
 */
#include "session/account.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/isolation.h"
#include "base/str.h"
#include "model/text.h"
#include "observe/audit.h"
#include "observe/metrics.h"
#include "runtime/outcome.h"
#include "session/run_private.h"

/* ---- the start of a program ---- */

static struct account *make(const struct config *config, const struct caller *caller,
                            const char *data, size_t length, size_t most)
{
    struct account *account = calloc(1, sizeof(*account));
    uint8_t digest[SHA256_BYTES];

    if (!account)
        return NULL;
    account->caller = caller ? *caller : caller_engine;
    sha256(data, length, digest);
    sha256_text(digest, account->hash);
    account->store = config->store_code;
    if (account->store != STORE_NEVER && length <= most) {
        account->code = malloc(length + 1);
        account->length = length;
        if (account->code)
            memcpy(account->code, data, length);
    }
    return account;
}

struct account *account_new(const struct config *config, const struct caller *caller,
                            const char *code, size_t length, size_t most)
{
    return make(config, caller, code, length, most);
}

struct account *account_words(const struct config *config, const struct caller *caller,
                              const char *const *words)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_ARGV_BYTES);
    struct account *account;

    for (; *words; words++) {
        if (buf_append(&text, *words, strlen(*words) + 1) < 0)
            return NULL;
    }
    account = make(config, caller, buf_text(&text), text.length, LIMIT_ARGV_BYTES);
    if (account)
        account->is_words = true;
    return account;
}

void account_free(struct account *account)
{
    if (!account)
        return;
    free(account->code);
    free(account);
}

/* Takes over `fields`. */
static void record_start(struct session_manager *manager, const char *action,
                         const struct account *account, json_t *fields)
{
    if (fields && account) {
        json_object_set_new(fields, "code_sha256", json_string(account->hash));
        caller_describe(&account->caller, fields);
    }
    if (fields)
        audit_write(manager->spec.audit, action, fields);
}

void account_run_started(struct run *run)
{
    record_start(run->manager, "run.started", run->account,
                 json_pack("{s:s, s:s, s:s}", "execution_id", run->result.execution_id, "language",
                           run->language->name, "tenant", run->tenant));
}

void account_execution_started(struct execution *execution)
{
    struct session *session = execution->session;
    char id[ID_MAX];

    str_format(id, sizeof(id), "%s.%u", session->id, execution->number);
    record_start(session->manager, execution->cell ? "cell.started" : "exec.started",
                 execution->account,
                 json_pack("{s:s, s:s, s:s}", "execution_id", id, "session_id", session->id,
                           "tenant", session_tenant(session)));
}

/* ---- the end of a program ---- */

static bool is_refusal(const char *code)
{
    const char *const codes[] = {ERROR_REFUSED,       ERROR_BLOCKED_IMPORT, ERROR_INSTALL_DENIED,
                                 ERROR_QUOTA,         ERROR_BUSY,           ERROR_TOO_MANY_SESSIONS,
                                 ERROR_SHUTTING_DOWN, ERROR_NO_INTERPRETER, ERROR_FORBIDDEN};

    for (size_t i = 0; code && i < ARRAY_SIZE(codes); i++)
        if (str_equal(codes[i], code))
            return true;
    return false;
}

struct ending {
    const char *kind; /* "run", "exec", "cell" */
    const char *tenant;
    const char *error; /* NULL: none */
    bool timed_out, oom_killed;
    int exit_code, signal;
    uint64_t duration_ns, bytes;
    uint32_t layers;
};

static const char *result_word(const struct ending *ending)
{
    if (ending->timed_out)
        return "timeout";
    if (ending->oom_killed)
        return "oom";
    if (is_refusal(ending->error))
        return "refused";
    return ending->error || ending->exit_code != 0 || ending->signal ? "error" : "ok";
}

static void count(struct session_manager *manager, const struct ending *ending)
{
    struct metrics *metrics = manager->spec.metrics;
    const char *const times[] = {ending->kind, ending->tenant};
    const char *const results[] = {ending->kind, result_word(ending), ending->tenant};

    metrics_add(metrics, METRIC_RESULTS, results, 1);
    if (ending->duration_ns > 0)
        metrics_observe(metrics, METRIC_RUN, times, (double)ending->duration_ns / 1e9);
    metrics_add(metrics, METRIC_OUTPUT_BYTES, &ending->tenant, ending->bytes);
}

int account_refused(struct session_manager *manager, const char *kind, const char *tenant,
                    const struct error *err)
{
    const char *const values[] = {kind, "refused", tenant ? tenant : TENANT_LOCAL};

    if (is_refusal(err->code))
        metrics_add(manager->spec.metrics, METRIC_RESULTS, values, 1);
    return err->num;
}

static json_t *layers_json(uint32_t layers)
{
    json_t *array = json_array();

    for (int i = 0; array && i < _ISOLATION_LAYER_MAX; i++)
        if (layers & ISOLATION_LAYER_BIT(i))
            json_array_append_new(array, json_string(isolation_layer_table[i].name));
    return array;
}

/* A string for source code, an array of strings for a command line. */
static json_t *code_json(const struct account *account)
{
    json_t *list;

    if (!account->is_words)
        return text_to_json(account->code, account->length);
    list = json_array();
    for (size_t at = 0; list && at < account->length;) {
        size_t length = strnlen(account->code + at, account->length - at);

        json_array_append_new(list, text_to_json(account->code + at, length));
        at += length + 1;
    }
    return list;
}

/* Adds the code itself, where SANDBOX_STORE_CODE asks for it and account_new() copied it. */
static void add_code(json_t *fields, const struct account *account, const char *result)
{
    enum store_code wanted = account->store;

    if (account->code && account->length <= LIMIT_AUDIT_CODE &&
        (wanted == STORE_ALWAYS || (wanted == STORE_ON_ERROR && !str_equal(result, "ok"))))
        json_object_set_new(fields, account->is_words ? "argv" : "code", code_json(account));
}

/* Takes over `fields`, the members that only this kind of record has. */
static void record(struct session_manager *manager, const struct account *account,
                   const struct ending *ending, json_t *fields)
{
    const char *result = result_word(ending);
    json_t *all =
        json_pack("{s:s, s:s, s:i, s:s*, s:I, s:o*, s:s*}", "result", result, "tenant",
                  ending->tenant, "exit_code", ending->exit_code, "error", ending->error,
                  "duration_ms", (json_int_t)(ending->duration_ns / 1000000), "layers",
                  layers_json(ending->layers), "code_sha256", account ? account->hash : NULL);

    if (all && fields)
        json_object_update_missing(all, fields);
    if (all && ending->signal)
        json_object_set_new(all, "signal", json_integer(ending->signal));
    if (all && account) {
        caller_describe(&account->caller, all);
        add_code(all, account, result);
    }
    json_decref(fields);
    if (all)
        audit_write(manager->spec.audit, ending->kind, all);
}

void account_run(struct run *run)
{
    struct result *result = &run->result;
    const struct account *account = run->account;
    struct ending ending = {
        .kind = "run",
        .tenant = run->tenant,
        .error = result->error.code,
        .timed_out = result->timed_out,
        .oom_killed = result->oom_killed,
        .exit_code = result->exit_code,
        .signal = result->signal,
        .duration_ns = result->duration_ns,
        .bytes = result->out.total_bytes + result->err.total_bytes,
        .layers = result->layers,
    };

    if (account)
        str_copy(result->trace_id, sizeof(result->trace_id), account->caller.trace.id);
    count(run->manager, &ending);
    record(run->manager, account, &ending,
           json_pack("{s:s, s:s, s:s*}", "execution_id", result->execution_id, "language",
                     run->language->name, "warm", result->warm));
}

void account_execution(struct execution *execution)
{
    struct session *session = execution->session;
    const struct error *error = execution_error(execution);
    const struct exec_end *end = &execution->end;
    struct ending ending = {
        .kind = execution->cell ? "cell" : "exec",
        .tenant = session_tenant(session),
        .error = error->code,
        .timed_out = execution->flags & EXECUTION_TIMED_OUT,
        .oom_killed = execution->flags & EXECUTION_OOM,
        .exit_code = error->code ? 1 : outcome_exit_code(end),
        .signal = error->code ? 0 : end->signal,
        .duration_ns = end->duration_ns,
        .bytes = execution_written(execution, 1) + execution_written(execution, 2),
        .layers = session->facts.layers,
    };
    char id[ID_MAX];

    str_format(id, sizeof(id), "%s.%u", session->id, execution->number);
    count(session->manager, &ending);
    record(session->manager, execution->account, &ending,
           json_pack("{s:s, s:s, s:s*}", "session_id", session->id, "execution_id", id, "language",
                     execution->cell ? execution->cell->language : NULL));
    code_store(execution);
    account_free(ptr_take(&execution->account)); /* execution->trace stays: results name it */
}

/* ---- boxes and sessions ---- */

void account_box(struct session_manager *manager, const struct made *made, uint64_t asked_ns)
{
    const char *origin = made->is_pooled ? "pool" : made->kernel ? "zygote" : "cold";

    if (asked_ns > 0)
        metrics_observe(manager->spec.metrics, METRIC_BOX_MADE, &origin,
                        (double)(clock_now_ns() - asked_ns) / 1e9);
}

void account_session(const struct session *session, const char *action, const struct caller *caller)
{
    json_t *fields = json_pack("{s:s, s:s, s:s*, s:s*}", "session_id", session->id, "tenant",
                               session_tenant(session), "reason", session->reason, "provider",
                               session_gone_provider(session));

    caller_describe(caller, fields);
    if (fields)
        audit_write(session->manager->spec.audit, action, fields);
}
