/*
 * index.c - the rows of sessions, executions and files; see index.h.
 *
 * Each call is one prepared statement, which is a transaction by itself, or statements between
 * BEGIN and COMMIT. Rows are changed in place (upsert) and never replaced: a replaced session would
 * take its executions and files with it. Unsigned 64-bit numbers are kept as the signed ones of the
 * same bits.
 */
#include "store/index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "store/database.h"

#define INDEX_FILE "index.db"
#define INDEX_APPLICATION 0x424c5931 /* "BLY1" */

/* ---- the schema -------------------------------------------------------------------------------
 */

static const char version_1[] =
    "CREATE TABLE session (id TEXT PRIMARY KEY NOT NULL, name TEXT, env TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,"
    " idle_ms INTEGER NOT NULL, next_execution INTEGER NOT NULL, has_box INTEGER NOT NULL,"
    " ended_ms INTEGER NOT NULL, reason TEXT);"
    "CREATE INDEX session_by_age ON session (created_ms, id);"
    "CREATE INDEX session_by_end ON session (ended_ms, created_ms) WHERE ended_ms <> 0;"
    "CREATE TABLE execution (session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,"
    " number INTEGER NOT NULL, call INTEGER NOT NULL, argv TEXT NOT NULL, started_ms INTEGER NOT "
    "NULL,"
    " deadline_ms INTEGER NOT NULL, flags INTEGER NOT NULL, ended_ms INTEGER NOT NULL,"
    " exit_code INTEGER NOT NULL, signal INTEGER NOT NULL, duration_ns INTEGER NOT NULL,"
    " out_bytes INTEGER NOT NULL, err_bytes INTEGER NOT NULL, error_code TEXT, error_text TEXT,"
    " cpu_us INTEGER NOT NULL, max_rss_bytes INTEGER NOT NULL, PRIMARY KEY (session, number));"
    "CREATE TABLE file (session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,"
    " kind INTEGER NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL, time_ns INTEGER NOT NULL,"
    " type TEXT, is_fetched INTEGER NOT NULL, PRIMARY KEY (session, kind, name));";

static const char *const migrations[] = {version_1, NULL};

static const struct database_schema schema = {.application = INDEX_APPLICATION,
                                              .migrations = migrations};

enum statement {
    PUT_SESSION,
    EACH_SESSION,
    PRUNE,
    PUT_EXECUTION,
    EACH_EXECUTION,
    DROP_EXECUTIONS,
    PUT_FILE,
    EACH_FILE,
    BEGIN,
    COMMIT,
    ROLLBACK,
    _STATEMENT_MAX,
};

#define SESSION_COLUMNS                                                                            \
    "id, name, env, created_ms, used_ms, expires_ms, idle_ms, next_execution, has_box, ended_ms, " \
    "reason"
#define EXECUTION_COLUMNS                                                                        \
    "session, number, call, argv, started_ms, deadline_ms, flags, ended_ms, exit_code, signal, " \
    "duration_ns, out_bytes, err_bytes, error_code, error_text, cpu_us, max_rss_bytes"
#define FILE_COLUMNS "session, kind, name, bytes, time_ns, type, is_fetched"

static const char *const texts[_STATEMENT_MAX] = {
    [PUT_SESSION] = "INSERT INTO session (" SESSION_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?)"
                    " ON CONFLICT (id) DO UPDATE SET name = excluded.name, env = excluded.env,"
                    " created_ms = excluded.created_ms, used_ms = excluded.used_ms,"
                    " expires_ms = excluded.expires_ms, idle_ms = excluded.idle_ms,"
                    " next_execution = excluded.next_execution, has_box = excluded.has_box,"
                    " ended_ms = excluded.ended_ms, reason = excluded.reason",
    /* The order comes from an index: sorting would hold every environment in memory. */
    [EACH_SESSION] = "SELECT " SESSION_COLUMNS " FROM session ORDER BY created_ms, id",
    [PRUNE] = "DELETE FROM session WHERE id IN (SELECT id FROM session WHERE ended_ms <> 0"
              " ORDER BY ended_ms DESC, created_ms DESC LIMIT -1 OFFSET ?)",
    [PUT_EXECUTION] =
        "INSERT INTO execution (" EXECUTION_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
        " ON CONFLICT (session, number) DO UPDATE SET call = excluded.call, argv = excluded.argv,"
        " started_ms = excluded.started_ms, deadline_ms = excluded.deadline_ms,"
        " flags = excluded.flags, ended_ms = excluded.ended_ms, exit_code = excluded.exit_code,"
        " signal = excluded.signal, duration_ns = excluded.duration_ns,"
        " out_bytes = excluded.out_bytes, err_bytes = excluded.err_bytes,"
        " error_code = excluded.error_code, error_text = excluded.error_text,"
        " cpu_us = excluded.cpu_us, max_rss_bytes = excluded.max_rss_bytes",
    [EACH_EXECUTION] =
        "SELECT " EXECUTION_COLUMNS " FROM execution WHERE session = ? ORDER BY number",
    [DROP_EXECUTIONS] = "DELETE FROM execution WHERE session = ? AND number <= ? AND ended_ms <> 0",
    [PUT_FILE] = "INSERT INTO file (" FILE_COLUMNS ") VALUES (?,?,?,?,?,?,?)"
                 " ON CONFLICT (session, kind, name) DO UPDATE SET bytes = excluded.bytes,"
                 " time_ns = excluded.time_ns, type = excluded.type,"
                 " is_fetched = excluded.is_fetched",
    [EACH_FILE] = "SELECT " FILE_COLUMNS " FROM file WHERE session = ? AND kind = ? ORDER BY name",
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
};

struct index {
    struct database database;
    sqlite3_stmt *statements[_STATEMENT_MAX];
};

/* ---- values into a statement, and out of a row ------------------------------------------------
 */

/* The next parameter, or the next column; the first trouble stays. */
struct place {
    struct index *index;
    sqlite3_stmt *statement;
    int at;
    int code;
};

static struct place place_in(struct index *index, enum statement which)
{
    return (struct place){.index = index, .statement = index->statements[which]};
}

static void put_text(struct place *place, const char *text)
{
    int code = sqlite3_bind_text(place->statement, ++place->at, text, -1, SQLITE_STATIC);

    if (place->code == SQLITE_OK)
        place->code = code;
}

static void put_number(struct place *place, uint64_t number)
{
    int code = sqlite3_bind_int64(place->statement, ++place->at, (sqlite3_int64)number);

    if (place->code == SQLITE_OK)
        place->code = code;
}

static const char *take_text(struct place *place)
{
    int column = place->at++;
    const char *text = (const char *)sqlite3_column_text(place->statement, column);

    /* It made a copy to have room for the NUL, and there was no memory. */
    if (!text && sqlite3_errcode(place->index->database.sql) == SQLITE_NOMEM)
        place->code = SQLITE_NOMEM;
    return text;
}

static uint64_t take_number(struct place *place)
{
    return (uint64_t)sqlite3_column_int64(place->statement, place->at++);
}

static void take_id(struct place *place, char id[ID_MAX])
{
    const char *text = take_text(place);

    if (!str_copy(id, ID_MAX, text ? text : ""))
        place->code = SQLITE_CORRUPT;
}

/* ---- running ----------------------------------------------------------------------------------
 */

/* Parameters point to the caller's memory: none of them stays. */
static void reset(sqlite3_stmt *statement)
{
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

/* Runs a statement that has no rows. */
static int run(struct place *place, struct error *err)
{
    int code = place->code == SQLITE_OK ? sqlite3_step(place->statement) : place->code;
    int r = code == SQLITE_DONE ? 0 : database_error(&place->index->database, code, err);

    reset(place->statement);
    return r;
}

static int run_plain(struct index *index, enum statement which, struct error *err)
{
    struct place place = place_in(index, which);

    return run(&place, err);
}

/* Parameters of it may still be in use by the call that is going on. */
static int check_idle(struct index *index, enum statement which, struct error *err)
{
    if (sqlite3_stmt_busy(index->statements[which]))
        return error_set(err, -EBUSY, ERROR_ENGINE, "the index is being listed already");
    return 0;
}

/* Calls row() for each row of a statement whose parameters are bound. */
static int each_row(struct place *place, void (*row)(struct place *place, void *ctx), void *ctx,
                    struct error *err)
{
    int code = place->code, r = 0;

    if (code == SQLITE_OK)
        code = sqlite3_step(place->statement);
    while (code == SQLITE_ROW) {
        place->at = 0;
        place->code = SQLITE_OK;
        row(place, ctx);
        code = place->code == SQLITE_OK ? sqlite3_step(place->statement) : place->code;
    }
    if (code != SQLITE_DONE)
        r = database_error(&place->index->database, code, err);
    reset(place->statement);
    return r;
}

/* ---- open and close ---------------------------------------------------------------------------
 */

static int prepare(struct index *index, struct error *err)
{
    for (int i = 0; i < _STATEMENT_MAX; i++) {
        int code = sqlite3_prepare_v3(index->database.sql, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                      &index->statements[i], NULL);

        /* Plain "error": a table or a column is not there. */
        if (code == SQLITE_ERROR)
            code = SQLITE_CORRUPT;
        if (code != SQLITE_OK)
            return database_error(&index->database, code, err);
    }
    return 0;
}

static void index_closep(struct index **index)
{
    index_close(*index);
}

int index_open(int folder_fd, struct index **ret, struct error *err)
{
    CLEANUP(index_closep) struct index *index = calloc(1, sizeof(*index));
    int r;

    if (!index)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    r = database_open(&index->database, folder_fd, INDEX_FILE, &schema, err);
    if (r == 0)
        r = prepare(index, err);
    if (r < 0)
        return r;
    *ret = ptr_take(&index);
    return 0;
}

void index_close(struct index *index)
{
    if (!index)
        return;
    for (int i = 0; i < _STATEMENT_MAX; i++)
        sqlite3_finalize(index->statements[i]);
    database_close(&index->database);
    free(index);
}

/* ---- sessions ---------------------------------------------------------------------------------
 */

int index_put_session(struct index *index, const struct index_session *session, struct error *err)
{
    struct place place = place_in(index, PUT_SESSION);

    put_text(&place, session->id);
    put_text(&place, session->name);
    put_text(&place, session->env ? session->env : "{}");
    put_number(&place, session->created_ms);
    put_number(&place, session->used_ms);
    put_number(&place, session->expires_ms);
    put_number(&place, session->idle_ms);
    put_number(&place, session->next_execution);
    put_number(&place, session->has_box);
    put_number(&place, session->ended_ms);
    put_text(&place, session->reason);
    return run(&place, err);
}

struct session_call {
    void (*each)(void *ctx, const struct index_session *session);
    void *ctx;
};

static void session_row(struct place *place, void *ctx)
{
    struct session_call *call = ctx;
    struct index_session session = {0};

    take_id(place, session.id);
    session.name = take_text(place);
    session.env = take_text(place);
    session.created_ms = take_number(place);
    session.used_ms = take_number(place);
    session.expires_ms = take_number(place);
    session.idle_ms = take_number(place);
    session.next_execution = (uint32_t)take_number(place);
    session.has_box = take_number(place) != 0;
    session.ended_ms = take_number(place);
    session.reason = take_text(place);
    if (place->code == SQLITE_OK)
        call->each(call->ctx, &session);
}

int index_each_session(struct index *index,
                       void (*each)(void *ctx, const struct index_session *session), void *ctx,
                       struct error *err)
{
    struct session_call call = {.each = each, .ctx = ctx};
    struct place place = place_in(index, EACH_SESSION);
    int r = check_idle(index, EACH_SESSION, err);

    return r < 0 ? r : each_row(&place, session_row, &call, err);
}

int index_prune(struct index *index, unsigned keep, struct error *err)
{
    struct place place = place_in(index, PRUNE);

    put_number(&place, keep);
    return run(&place, err);
}

/* ---- executions -------------------------------------------------------------------------------
 */

static int put_execution(struct index *index, const struct index_execution *execution,
                         struct error *err)
{
    struct place place = place_in(index, PUT_EXECUTION);

    put_text(&place, execution->session);
    put_number(&place, execution->number);
    put_number(&place, execution->call);
    put_text(&place, execution->argv ? execution->argv : "[]");
    put_number(&place, execution->started_ms);
    put_number(&place, execution->deadline_ms);
    put_number(&place, execution->flags);
    put_number(&place, execution->ended_ms);
    put_number(&place, (uint64_t)(int64_t)execution->exit_code);
    put_number(&place, (uint64_t)(int64_t)execution->signal);
    put_number(&place, execution->duration_ns);
    put_number(&place, execution->out_bytes);
    put_number(&place, execution->err_bytes);
    put_text(&place, execution->error_code);
    put_text(&place, execution->error_text);
    put_number(&place, execution->cpu_us);
    put_number(&place, execution->max_rss_bytes);
    return run(&place, err);
}

static int drop_executions(struct index *index, const char *session, uint32_t last,
                           struct error *err)
{
    struct place place = place_in(index, DROP_EXECUTIONS);

    put_text(&place, session);
    put_number(&place, last);
    return run(&place, err);
}

int index_put_execution(struct index *index, const struct index_execution *execution,
                        struct error *err)
{
    int r;

    if (execution->number <= LIMIT_EXECUTIONS)
        return put_execution(index, execution, err);
    r = run_plain(index, BEGIN, err);
    if (r < 0)
        return r;
    r = put_execution(index, execution, err);
    if (r == 0)
        r = drop_executions(index, execution->session, execution->number - LIMIT_EXECUTIONS, err);
    if (r == 0)
        r = run_plain(index, COMMIT, err);
    /* Some errors have ended the transaction already. */
    if (!sqlite3_get_autocommit(index->database.sql))
        run_plain(index, ROLLBACK, NULL);
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

    take_id(place, execution.session);
    execution.number = (uint32_t)take_number(place);
    execution.call = (uint32_t)take_number(place);
    execution.argv = take_text(place);
    execution.started_ms = take_number(place);
    execution.deadline_ms = take_number(place);
    execution.flags = (uint32_t)take_number(place);
    execution.ended_ms = take_number(place);
    execution.exit_code = (int)take_number(place);
    execution.signal = (int)take_number(place);
    execution.duration_ns = take_number(place);
    execution.out_bytes = take_number(place);
    execution.err_bytes = take_number(place);
    execution.error_code = take_text(place);
    execution.error_text = take_text(place);
    execution.cpu_us = take_number(place);
    execution.max_rss_bytes = take_number(place);
    if (place->code == SQLITE_OK)
        call->each(call->ctx, &execution);
}

int index_each_execution(struct index *index, const char *session,
                         void (*each)(void *ctx, const struct index_execution *execution),
                         void *ctx, struct error *err)
{
    struct execution_call call = {.each = each, .ctx = ctx};
    struct place place = place_in(index, EACH_EXECUTION);
    int r = check_idle(index, EACH_EXECUTION, err);

    if (r < 0)
        return r;
    put_text(&place, session);
    return each_row(&place, execution_row, &call, err);
}

/* ---- files ------------------------------------------------------------------------------------
 */

int index_put_file(struct index *index, const struct index_file *file, struct error *err)
{
    struct place place = place_in(index, PUT_FILE);

    put_text(&place, file->session);
    put_number(&place, (unsigned char)file->kind);
    put_text(&place, file->name);
    put_number(&place, file->bytes);
    put_number(&place, file->time_ns);
    put_text(&place, file->type);
    put_number(&place, file->is_fetched);
    return run(&place, err);
}

struct file_call {
    void (*each)(void *ctx, const struct index_file *file);
    void *ctx;
};

static void file_row(struct place *place, void *ctx)
{
    struct file_call *call = ctx;
    struct index_file file = {0};

    take_id(place, file.session);
    file.kind = (char)take_number(place);
    file.name = take_text(place);
    file.bytes = take_number(place);
    file.time_ns = take_number(place);
    file.type = take_text(place);
    file.is_fetched = take_number(place) != 0;
    if (place->code == SQLITE_OK)
        call->each(call->ctx, &file);
}

int index_each_file(struct index *index, const char *session, char kind,
                    void (*each)(void *ctx, const struct index_file *file), void *ctx,
                    struct error *err)
{
    struct file_call call = {.each = each, .ctx = ctx};
    struct place place = place_in(index, EACH_FILE);
    int r = check_idle(index, EACH_FILE, err);

    if (r < 0)
        return r;
    put_text(&place, session);
    put_number(&place, (unsigned char)kind);
    return each_row(&place, file_row, &call, err);
}
