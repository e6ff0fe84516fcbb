/*
 * index_execution.c - the rows of executions, with their output where it is short; see index.h.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "store/index_private.h"

static int put_execution(struct index *index, const struct index_execution *execution,
                         struct error *err)
{
    struct place place = index_place(index, PUT_EXECUTION);

    index_put_text(&place, execution->session);
    index_put_number(&place, execution->number);
    index_put_number(&place, execution->call);
    index_put_text(&place, execution->argv ? execution->argv : "[]");
    index_put_number(&place, execution->started_ms);
    index_put_number(&place, execution->deadline_ms);
    index_put_number(&place, execution->flags);
    index_put_number(&place, execution->ended_ms);
    index_put_number(&place, (uint64_t)(int64_t)execution->exit_code);
    index_put_number(&place, (uint64_t)(int64_t)execution->signal);
    index_put_number(&place, execution->duration_ns);
    index_put_number(&place, execution->out_bytes);
    index_put_number(&place, execution->err_bytes);
    index_put_text(&place, execution->error_code);
    index_put_text(&place, execution->error_text);
    index_put_number(&place, execution->cpu_us);
    index_put_number(&place, execution->max_rss_bytes);
    index_put_number(&place, execution->event_bytes);
    index_put_text(&place, execution->cell);
    index_put_number(&place, execution->paused_ms);
    for (int i = 0; i < INDEX_STREAMS; i++)
        index_put_bytes(&place, execution->data[i].bytes, execution->data[i].length);
    return index_run(&place, err);
}

static int drop_executions(struct index *index, const char *session, uint32_t last,
                           struct error *err)
{
    struct place place = index_place(index, DROP_EXECUTIONS);

    index_put_text(&place, session);
    index_put_number(&place, last);
    return index_run(&place, err);
}

int index_put_execution(struct index *index, const struct index_execution *execution,
                        struct error *err)
{
    int r;

    if (execution->number <= LIMIT_EXECUTIONS)
        return put_execution(index, execution, err);
    r = index_run_plain(index, BEGIN, err);
    if (r < 0)
        return r;
    r = put_execution(index, execution, err);
    if (r == 0)
        r = drop_executions(index, execution->session, execution->number - LIMIT_EXECUTIONS, err);
    if (r == 0)
        r = index_run_plain(index, COMMIT, err);
    /* Some errors have ended the transaction already. */
    if (!sqlite3_get_autocommit(index->database.sql))
        index_run_plain(index, ROLLBACK, NULL);
    return r;
}

struct execution_call {
    void (*each)(void *ctx, const struct index_execution *execution);
    void *ctx;
};

static void execution_row(struct place *place, void *ctx)
{
    struct execution_call *call = ctx;
    struct index_execution execution = {0};

    index_take_id(place, execution.session);
    execution.number = (uint32_t)index_take_number(place);
    execution.call = (uint32_t)index_take_number(place);
    execution.argv = index_take_text(place);
    execution.started_ms = index_take_number(place);
    execution.deadline_ms = index_take_number(place);
    execution.flags = (uint32_t)index_take_number(place);
    execution.ended_ms = index_take_number(place);
    execution.exit_code = (int)index_take_number(place);
    execution.signal = (int)index_take_number(place);
    execution.duration_ns = index_take_number(place);
    execution.out_bytes = index_take_number(place);
    execution.err_bytes = index_take_number(place);
    execution.error_code = index_take_text(place);
    execution.error_text = index_take_text(place);
    execution.cpu_us = index_take_number(place);
    execution.max_rss_bytes = index_take_number(place);
    execution.event_bytes = index_take_number(place);
    execution.cell = index_take_text(place);
    execution.paused_ms = index_take_number(place);
    for (int i = 0; i < INDEX_STREAMS; i++)
        execution.has_data[i] = index_take_number(place) != 0;
    if (place->code == SQLITE_OK)
        call->each(call->ctx, &execution);
}

int index_each_execution(struct index *index, const char *session,
                         void (*each)(void *ctx, const struct index_execution *execution),
                         void *ctx, struct error *err)
{
    struct execution_call call = {.each = each, .ctx = ctx};
    struct place place = index_place(index, EACH_EXECUTION);
    int r = index_check_idle(index, EACH_EXECUTION, err);

    if (r < 0)
        return r;
    index_put_text(&place, session);
    return index_each_row(&place, execution_row, &call, err);
}

char *index_read_argv(struct index *index, const char *session, uint32_t number)
{
    struct place place = index_place(index, GET_ARGV);
    char *argv = NULL;

    index_put_text(&place, session);
    index_put_number(&place, number);
    if (place.code == SQLITE_OK && sqlite3_step(place.statement) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(place.statement, 0);

        argv = text ? strdup(text) : NULL;
    }
    index_reset(place.statement);
    return argv;
}

/* ---- output -----------------------------------------------------------------------------------
 */

ssize_t index_read_output(struct index *index, const char *session, uint32_t number, int stream,
                          uint64_t offset, void *data, size_t size)
{
    struct place place = index_place(index, GET_OUTPUT);
    ssize_t length = -ENOENT;
    int code;

    index_put_number(&place, (uint64_t)stream);
    index_put_number(&place, offset + 1);
    index_put_number(&place, size);
    index_put_text(&place, session);
    index_put_number(&place, number);
    code = place.code == SQLITE_OK ? sqlite3_step(place.statement) : place.code;
    if (code == SQLITE_ROW && sqlite3_column_type(place.statement, 0) != SQLITE_NULL) {
        const void *bytes = sqlite3_column_blob(place.statement, 0);

        length = MIN((ssize_t)sqlite3_column_bytes(place.statement, 0), (ssize_t)size);
        if (length > 0)
            memcpy(data, bytes, (size_t)length);
    } else if (code != SQLITE_ROW && code != SQLITE_DONE) {
        length = database_error(&index->database, code, NULL);
    }
    index_reset(place.statement);
    return length;
}

int index_drop_output(struct index *index, const char *session, uint32_t number, struct error *err)
{
    struct place place = index_place(index, DROP_OUTPUT);

    index_put_text(&place, session);
    index_put_number(&place, number);
    return index_run(&place, err);
}

int index_drop_outputs(struct index *index, const char *session, struct error *err)
{
    struct place place = index_place(index, DROP_OUTPUTS);

    index_put_text(&place, session);
    return index_run(&place, err);
}
