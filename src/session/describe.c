/* describe.c - sessions and executions as JSON (docs/rest.md), and the result of an execution. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "runtime/outcome.h"
#include "session/session_private.h"

json_t *time_json(uint64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    char text[48];
    struct tm time;
    size_t length;

    if (ms == 0)
        return json_null();
    gmtime_r(&seconds, &time);
    length = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &time);
    str_format(text + length, sizeof(text) - length, ".%03uZ", (unsigned)(ms % 1000));
    return json_string(text);
}

static json_t *layer_names(uint32_t layers)
{
    json_t *list = json_array();

    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++) {
        if (layers & ISOLATION_LAYER_BIT(i))
            json_array_append_new(list, json_string(isolation_layer_table[i].name));
    }
    return list;
}

static json_t *isolation_json(const struct session *session)
{
    const struct box_facts *facts = &session->facts;

    if (facts->layers == 0) /* no box yet, or a box of an older daemon that did not report it */
        return json_null();
    return json_pack("{s:s, s:o, s:o}", "level", isolation_name(isolation_of_layers(facts->layers)),
                     "layers", layer_names(facts->layers), "missing", layer_names(facts->missing));
}

static json_t *settings_json(const struct session *session)
{
    return session->settings ? json_incref(session->settings->given) : json_object();
}

json_t *session_json(struct session *session)
{
    const struct limits *limits = &session->limits;
    uint64_t expires = session->state < SESSION_ENDING ? session_deadline_ms(session) : 0;

    return json_pack(
        "{s:s, s:s, s:s?, s:s?, s:s, s:o, s:o, s:o, s:o, s:f, s:o, s:s?, s:s*, s:o, s:o, s:I, s:I, "
        "s:s, "
        "s:{s:I, s:I, s:I, s:I}, s:o, s:s, s:o, s:o, s:s?}",
        "id", session->id, "tenant", session->tenant, "name", session->name, "template",
        session->template_name, "state", session_state_name(session->state), "created_at",
        time_json(session->created_ms), "last_used_at",
        time_json(MIN(session->used_ms, session_manager_now_ms())), "expires_at",
        time_json(expires), "age_limit_at", time_json(session->expires_ms), "idle_timeout_s",
        (double)session->idle_ms / 1000, "ended_at", time_json(session->ended_ms), "end_reason",
        session->reason, "provider", session_gone_provider(session), "env",
        json_incref(session->env), "datasets", session_datasets_json(session), "running",
        (json_int_t)session->running, "executions", (json_int_t)(session->next_execution - 1),
        "output_folder", session_output_folder(session), "limits", "memory_bytes",
        (json_int_t)limits->memory_bytes, "disk_bytes", (json_int_t)limits->disk_bytes, "pids",
        (json_int_t)limits->pids, "cpu_millis", (json_int_t)limits->cpu_millis, "isolation",
        isolation_json(session), "type", session_config(session)->type, "settings",
        settings_json(session), "paused_at", time_json(session->paused_ms), "paused_by",
        session->paused_ms && session->box ? "signals" : NULL);
}

static const char *state_word(const struct execution *execution)
{
    static const char *const words[_EXECUTION_STATE_MAX] = {
        [EXECUTION_WAITING] = "waiting", [EXECUTION_SENT] = "waiting",
        [EXECUTION_RUNNING] = "running", [EXECUTION_CLOSING] = "running",
        [EXECUTION_EXITED] = "exited",   [EXECUTION_FAILED] = "failed",
    };

    return words[execution->state];
}

/*
 * From the execution's flags: the answer about memory may come after the end, and after a restart
 * everything comes from the index.
 */
static struct exec_end end_of(const struct execution *execution)
{
    struct exec_end end = execution->end;

    end.timed_out = execution->flags & EXECUTION_TIMED_OUT;
    end.disk_full = execution->flags & EXECUTION_DISK_FULL;
    end.memory_watchdog = execution->flags & EXECUTION_OOM;
    return end;
}

static void execution_id(const struct execution *execution, char id[ID_MAX])
{
    str_format(id, ID_MAX, "%s.%u", execution->session->id, execution->number);
}

json_t *execution_json(const struct execution *execution)
{
    bool has_exited = execution->state == EXECUTION_EXITED;
    const struct error *error = execution_error(execution);
    const struct exec_end end = end_of(execution);
    bool has_signal = has_exited && end.signal;
    char id[ID_MAX];

    execution_id(execution, id);
    return json_pack(
        "{s:s, s:s, s:s*, s:I, s:o, s:s, s:o, s:o, s:o, s:o, s:b, s:b, s:b, s:b, s:I, s:I, s:o}",
        "execution_id", id, "kind", execution->cell ? "cell" : "command", "context",
        execution->cell ? execution->cell->context_id : NULL, "number",
        (json_int_t)execution->number, "argv", execution_words(execution), "state",
        state_word(execution), "started_at", time_json(execution->started_ms), "ended_at",
        time_json(execution->ended_ms), "exit_code",
        has_exited ? json_integer(outcome_exit_code(&end)) : json_null(), "signal",
        has_signal ? json_integer(end.signal) : json_null(), "timed_out", end.timed_out,
        "oom_killed", end.memory_watchdog, "background",
        (execution->flags & EXECUTION_BACKGROUND) != 0, "pty",
        (execution->flags & EXECUTION_PTY) != 0, "stdout_bytes",
        (json_int_t)execution_written(execution, 1), "stderr_bytes",
        (json_int_t)execution_written(execution, 2), "error",
        error->code
            ? json_pack("{s:s, s:o, s:s*}", "code", error->code, "message",
                        text_to_json(error->text, strlen(error->text)), "provider", error->provider)
            : json_null());
}

/* Bytes [at, end) of a stream as stored. */
static void add_stored(const struct execution *execution, int stream, uint64_t at, uint64_t end,
                       uint64_t limit, struct capture *capture)
{
    char data[16384];

    while (at < end) {
        ssize_t length = execution_read(execution, stream, at, data,
                                        (size_t)MIN((uint64_t)sizeof(data), end - at));

        if (length <= 0)
            break;
        capture_add(capture, data, (size_t)length, limit);
        at += (uint64_t)length;
    }
}

/* The beginning of a stream as stored, up to the limit, and the end of a longer one. */
static void fill_capture(const struct execution *execution, int stream, uint64_t limit,
                         struct capture *capture)
{
    uint64_t base = execution->cell ? execution->cell->base[stream - 1] : 0;
    uint64_t written = execution_written(execution, stream), total = written - MIN(written, base);
    uint64_t half = limit - limit / 2;

    add_stored(execution, stream, base, base + MIN(total, limit), limit, capture);
    if (total > limit && capture->keeps_end)
        add_stored(execution, stream, base + MAX(limit, total - half), base + total, limit,
                   capture);
    capture->is_truncated = total > capture->kept.length;
    capture->total_bytes = total;
}

uint64_t execution_window(const struct execution *execution, int stream, uint64_t offset,
                          uint64_t limit, struct capture *capture)
{
    uint64_t base = execution->cell ? execution->cell->base[stream - 1] : 0;
    uint64_t written = execution_written(execution, stream), total = written - MIN(written, base);
    uint64_t first = execution_first(execution, stream);
    char byte;

    offset = MIN(offset, total);
    /* Of very long output the middle is not kept: it goes on where it is kept again. */
    if (offset < total && execution_read(execution, stream, base + offset, &byte, 1) < 0)
        offset = MIN(MAX(first, base) - base, total);
    capture_free(capture);
    *capture = (struct capture){.kept = BUF_INIT(limit)};
    add_stored(execution, stream, base + offset, base + MIN(total, offset + limit), limit, capture);
    if (offset + capture->kept.length < total) {
        capture->is_truncated = true;
        capture->kept.length = utf8_floor(buf_text(&capture->kept), capture->kept.length);
    }
    capture->total_bytes = total;
    return offset;
}

static void fill_end(const struct execution *execution, struct result *result)
{
    const struct exec_end end = end_of(execution);

    outcome_end(result, &end);
    result->usage = end.usage;
    if (execution->state == EXECUTION_FAILED) {
        result->error = *execution_error(execution);
        result->exit_code = outcome_error_code(&result->error);
    }
}

void execution_result(const struct execution *execution, uint64_t output_bytes,
                      struct result *result)
{
    const struct session *session = execution->session;
    struct limits limits = session->limits;

    limits.timeout_ms = execution->timeout_ms;
    limits.output_bytes = output_bytes;
    result_init(result, &limits);
    /* If no box could be made: the provider that should have made it. */
    result->runtime =
        session->provider ? provider_runtime(session->provider) : session_config(session)->type;
    if (session->fallback)
        result_set_fallback(result, session->wanted->name, session->fallback);
    execution_id(execution, result->execution_id);
    str_copy(result->session_id, sizeof(result->session_id), session->id);
    str_copy(result->trace_id, sizeof(result->trace_id), execution->trace);
    fill_capture(execution, 1, output_bytes, &result->out);
    fill_capture(execution, 2, output_bytes, &result->err);
    outcome_isolation(result, &session->facts);
    fill_end(execution, result);
    if (execution->cell)
        result->install = json_incref(execution->cell->install_meta);
    if (execution->flags & EXECUTION_UNKEPT) {
        result->out.is_truncated = result->err.is_truncated = true;
        result_note(result,
                    "output from byte %llu of stdout and %llu of stderr on could not be "
                    "kept: no space in the state folder",
                    (unsigned long long)execution->out[0].length,
                    (unsigned long long)execution->out[1].length);
    }
}
