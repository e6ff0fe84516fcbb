/*
 * index.c - the schema, and the rows of sessions and files; see index.h. Executions and contexts
 * have files of their own.
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
#include "store/index_private.h"

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

/* Code that keeps its variables: contexts, cells; and short output in the row of its execution. */
static const char version_2[] =
    "ALTER TABLE session ADD COLUMN template TEXT;"
    "ALTER TABLE execution ADD COLUMN event_bytes INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE execution ADD COLUMN cell TEXT;"
    "ALTER TABLE execution ADD COLUMN out_data BLOB;"
    "ALTER TABLE execution ADD COLUMN err_data BLOB;"
    "ALTER TABLE execution ADD COLUMN event_data BLOB;"
    "CREATE TABLE context (session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,"
    " number INTEGER NOT NULL, language TEXT NOT NULL, name TEXT, cwd TEXT,"
    " is_default INTEGER NOT NULL, kernel INTEGER NOT NULL, warm INTEGER NOT NULL,"
    " cells INTEGER NOT NULL, started_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL, note TEXT,"
    " PRIMARY KEY (session, number)) WITHOUT ROWID;";

/* Sessions from before tenants existed belong to the daemon's owner. */
static const char version_3[] =
    "ALTER TABLE session ADD COLUMN tenant TEXT NOT NULL DEFAULT 'local';"
    "CREATE TABLE key (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL,"
    " scopes INTEGER NOT NULL, created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,"
    " used_ms INTEGER NOT NULL, salt TEXT NOT NULL, hash TEXT NOT NULL, old_hash TEXT NOT NULL,"
    " old_until_ms INTEGER NOT NULL) WITHOUT ROWID;";

/* Outputs by id, which may outlive their session; and what links to them are signed with. */
static const char version_4[] =
    "CREATE TABLE output (id TEXT PRIMARY KEY, session TEXT NOT NULL, tenant TEXT NOT NULL,"
    " name TEXT NOT NULL, type TEXT NOT NULL, sha256 TEXT NOT NULL, bytes INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL, is_kept INTEGER NOT NULL)"
    " WITHOUT ROWID;"
    "CREATE INDEX output_by_session ON output (session, name);"
    "CREATE INDEX output_by_tenant ON output (tenant, created_ms);"
    "CREATE INDEX output_by_end ON output (expires_ms) WHERE is_kept = 0;"
    "CREATE TABLE secret (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;";

/* Adds `provider`; the end reason docker_gone becomes provider_gone. */
static const char version_5[] = "ALTER TABLE session ADD COLUMN provider TEXT;"
                                "UPDATE session SET reason = 'provider_gone', provider = 'docker' "
                                "WHERE reason = 'docker_gone';";

/* The settings that a session was made with. */
static const char version_6[] = "ALTER TABLE session ADD COLUMN settings TEXT;";
/* Stored code: whose it is and how old, as its files have neither. */
static const char version_7[] =
    "CREATE TABLE code (name TEXT PRIMARY KEY, tenant TEXT NOT NULL, bytes INTEGER NOT NULL,"
    " created_ms INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX code_by_age ON code (created_ms);";

/* Requests with an Idempotency-Key, and their replies. */
static const char version_8[] =
    "CREATE TABLE reply (owner TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, status INTEGER NOT NULL DEFAULT 0, session TEXT, type TEXT,"
    " data BLOB, PRIMARY KEY (owner, key));"
    "CREATE INDEX reply_by_age ON reply (created_ms);"
    "CREATE INDEX reply_by_owner ON reply (owner, created_ms);"
    "CREATE INDEX reply_by_session ON reply (session) WHERE data IS NOT NULL;";

/* Containers, their files, and uploaded files; in the order in which they came. */
static const char version_9[] =
    "CREATE TABLE container (id TEXT NOT NULL UNIQUE, session TEXT NOT NULL, tenant TEXT NOT NULL,"
    " name TEXT NOT NULL, memory_limit TEXT NOT NULL, created_ms INTEGER NOT NULL,"
    " used_ms INTEGER NOT NULL, minutes INTEGER NOT NULL, has_policy INTEGER NOT NULL,"
    " is_provisional INTEGER NOT NULL);"
    "CREATE INDEX container_by_session ON container (session);"
    "CREATE INDEX container_by_tenant ON container (tenant);"
    "CREATE TABLE container_file (id TEXT NOT NULL UNIQUE, container TEXT NOT NULL REFERENCES"
    " container (id) ON DELETE CASCADE, path TEXT NOT NULL, created_ms INTEGER NOT NULL,"
    " bytes INTEGER NOT NULL, change_ns INTEGER NOT NULL, seen_ms INTEGER NOT NULL,"
    " is_users INTEGER NOT NULL);"
    "CREATE INDEX container_file_by_container ON container_file (container);"
    "CREATE TABLE upload (id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, filename TEXT NOT NULL,"
    " purpose TEXT NOT NULL, bytes INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
    " expires_ms INTEGER NOT NULL);"
    "CREATE INDEX upload_by_tenant ON upload (tenant);";
/* Responses of models, with what is needed to go on from them. */
static const char version_10[] =
    "CREATE TABLE response (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, created_ms INTEGER NOT NULL,"
    " status TEXT NOT NULL, previous TEXT, container TEXT, bytes INTEGER NOT NULL,"
    " document TEXT NOT NULL, input TEXT NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX response_by_age ON response (tenant, created_ms);";

/* What was said in sessions that answer messages. */
static const char version_11[] =
    "CREATE TABLE chat (session TEXT PRIMARY KEY NOT NULL REFERENCES session (id)"
    " ON DELETE CASCADE, messages TEXT NOT NULL) WITHOUT ROWID;";

/* What a door has to remember of a session, and in which spelling a key was made. */
static const char version_12[] = "ALTER TABLE session ADD COLUMN notes TEXT;"
                                 "ALTER TABLE key ADD COLUMN format TEXT NOT NULL DEFAULT '';";

/* Which uploaded file a container's file was copied from. */
static const char version_13[] =
    "ALTER TABLE container_file ADD COLUMN upload TEXT NOT NULL DEFAULT '';";

/* Which response an item is part of, for those that name it by its id alone. */
static const char version_14[] =
    "CREATE TABLE response_item (id TEXT NOT NULL, response TEXT NOT NULL REFERENCES response (id)"
    " ON DELETE CASCADE, PRIMARY KEY (id, response)) WITHOUT ROWID;"
    "CREATE INDEX response_item_by_response ON response_item (response);";

/* Paused sessions: since when, and what a door asked for; and how long executions stood still. */
static const char version_15[] =
    "ALTER TABLE session ADD COLUMN paused_ms INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE session ADD COLUMN flags INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE execution ADD COLUMN paused_ms INTEGER NOT NULL DEFAULT 0;";

static const char *const migrations[] = {
    version_1, version_2,  version_3,  version_4,  version_5,  version_6,  version_7,  version_8,
    version_9, version_10, version_11, version_12, version_13, version_14, version_15, NULL};

static const struct database_schema schema = {.application = INDEX_APPLICATION,
                                              .migrations = migrations};

#define SESSION_COLUMNS                                                                            \
    "id, name, env, created_ms, used_ms, expires_ms, idle_ms, next_execution, has_box, ended_ms, " \
    "reason, template, tenant, provider, settings, notes, paused_ms, flags"
#define EXECUTION_COLUMNS                                                                        \
    "session, number, call, argv, started_ms, deadline_ms, flags, ended_ms, exit_code, signal, " \
    "duration_ns, out_bytes, err_bytes, error_code, error_text, cpu_us, max_rss_bytes, "         \
    "event_bytes, cell, paused_ms"
#define OUTPUT_COLUMNS "out_data, err_data, event_data"
#define CONTEXT_COLUMNS                                                                   \
    "session, number, language, name, cwd, is_default, kernel, warm, cells, started_ms, " \
    "used_ms, note"
#define KEY_COLUMNS                                                                     \
    "id, tenant, name, scopes, created_ms, expires_ms, used_ms, salt, hash, old_hash, " \
    "old_until_ms, format"
/* Those that have not expired, or only those that are kept. */
#define OUTPUT_ROW_IS_SHOWN \
    "(is_kept = 1 OR (? = 0 AND expires_ms > ?)) ORDER BY created_ms DESC, id LIMIT ?"
#define OUTPUT_ROW_COLUMNS \
    "id, session, tenant, name, type, sha256, bytes, created_ms, expires_ms, is_kept"
#define CONTAINER_COLUMNS                                                                 \
    "id, session, tenant, name, memory_limit, created_ms, used_ms, minutes, has_policy, " \
    "is_provisional"
#define CONTAINER_FILE_COLUMNS \
    "id, container, path, created_ms, bytes, change_ns, seen_ms, is_users, upload"
#define UPLOAD_COLUMNS "id, tenant, filename, purpose, bytes, created_ms, expires_ms"
#define RESPONSE_COLUMNS \
    "id, tenant, created_ms, status, previous, container, bytes, document, input"
#define FILE_COLUMNS "session, kind, name, bytes, time_ns, type, is_fetched"

static const char *const texts[_STATEMENT_MAX] = {
    [PUT_SESSION] =
        "INSERT INTO session (" SESSION_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
        " ON CONFLICT (id) DO UPDATE SET name = excluded.name, env = excluded.env,"
        " created_ms = excluded.created_ms, used_ms = excluded.used_ms,"
        " expires_ms = excluded.expires_ms, idle_ms = excluded.idle_ms,"
        " next_execution = excluded.next_execution, has_box = excluded.has_box,"
        " ended_ms = excluded.ended_ms, reason = excluded.reason,"
        " template = excluded.template, tenant = excluded.tenant,"
        " provider = excluded.provider, settings = excluded.settings,"
        " notes = excluded.notes, paused_ms = excluded.paused_ms, flags = excluded.flags",
    /* The order comes from an index: sorting would hold every environment in memory. */
    [EACH_SESSION] = "SELECT " SESSION_COLUMNS " FROM session ORDER BY created_ms, id",
    [FORGET_ENV] = "UPDATE session SET env = '{}' WHERE ended_ms <> 0 AND env <> '{}'",
    [PRUNE] = "DELETE FROM session WHERE id IN (SELECT id FROM session WHERE ended_ms <> 0"
              " ORDER BY ended_ms DESC, created_ms DESC LIMIT -1 OFFSET ?)",
    [PUT_EXECUTION] =
        "INSERT INTO execution (" EXECUTION_COLUMNS ", " OUTPUT_COLUMNS
        ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
        " ON CONFLICT (session, number) DO UPDATE SET call = excluded.call, argv = excluded.argv,"
        " started_ms = excluded.started_ms, deadline_ms = excluded.deadline_ms,"
        " flags = excluded.flags, ended_ms = excluded.ended_ms, exit_code = excluded.exit_code,"
        " signal = excluded.signal, duration_ns = excluded.duration_ns,"
        " out_bytes = excluded.out_bytes, err_bytes = excluded.err_bytes,"
        " error_code = excluded.error_code, error_text = excluded.error_text,"
        " cpu_us = excluded.cpu_us, max_rss_bytes = excluded.max_rss_bytes,"
        " event_bytes = excluded.event_bytes, cell = excluded.cell,"
        " paused_ms = excluded.paused_ms, out_data = excluded.out_data, err_data = "
        "excluded.err_data,"
        " event_data = excluded.event_data",
    /* Output itself is not read: of a long list it would be much. */
    [EACH_EXECUTION] = "SELECT " EXECUTION_COLUMNS ", out_data IS NOT NULL, err_data IS NOT NULL,"
                       " event_data IS NOT NULL FROM execution WHERE session = ? ORDER BY number",
    [DROP_EXECUTIONS] = "DELETE FROM execution WHERE session = ? AND number <= ? AND ended_ms <> 0",
    [GET_ARGV] = "SELECT argv FROM execution WHERE session = ? AND number = ?",
    [GET_OUTPUT] =
        "SELECT substr(CASE ? WHEN 1 THEN out_data WHEN 2 THEN err_data ELSE event_data END, ?, ?)"
        " FROM execution WHERE session = ? AND number = ?",
    [DROP_OUTPUTS] = "UPDATE execution SET out_data = NULL, err_data = NULL, event_data = NULL"
                     " WHERE session = ?",
    [DROP_OUTPUT] = "UPDATE execution SET out_data = NULL, err_data = NULL, event_data = NULL"
                    " WHERE session = ? AND number = ?",
    [PUT_CONTEXT] =
        "INSERT INTO context (" CONTEXT_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
        " ON CONFLICT (session, number) DO UPDATE SET language = excluded.language,"
        " name = excluded.name, cwd = excluded.cwd, is_default = excluded.is_default,"
        " kernel = excluded.kernel, warm = excluded.warm, cells = excluded.cells,"
        " started_ms = excluded.started_ms, used_ms = excluded.used_ms, note = excluded.note",
    [EACH_CONTEXT] = "SELECT " CONTEXT_COLUMNS " FROM context WHERE session = ? ORDER BY number",
    [DROP_CONTEXT] = "DELETE FROM context WHERE session = ? AND number = ?",
    [PUT_KEY] = "INSERT INTO key (" KEY_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
                " ON CONFLICT (id) DO UPDATE SET tenant = excluded.tenant, name = excluded.name,"
                " scopes = excluded.scopes, expires_ms = excluded.expires_ms,"
                " used_ms = excluded.used_ms, salt = excluded.salt, hash = excluded.hash,"
                " old_hash = excluded.old_hash, old_until_ms = excluded.old_until_ms,"
                " format = excluded.format",
    [GET_KEY] = "SELECT " KEY_COLUMNS " FROM key WHERE id = ?",
    [EACH_KEY] = "SELECT " KEY_COLUMNS " FROM key ORDER BY created_ms, id",
    [DROP_KEY] = "DELETE FROM key WHERE id = ?",
    [PUT_OUTPUT_ROW] = "INSERT INTO output (" OUTPUT_ROW_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?)"
                       " ON CONFLICT (id) DO UPDATE SET expires_ms = excluded.expires_ms,"
                       " is_kept = excluded.is_kept",
    [GET_OUTPUT_ROW] = "SELECT " OUTPUT_ROW_COLUMNS " FROM output WHERE id = ?",
    [EACH_OUTPUT_ROW] =
        "SELECT " OUTPUT_ROW_COLUMNS " FROM output WHERE session = ? ORDER BY name, created_ms",
    [DUE_OUTPUT_ROW] = "SELECT " OUTPUT_ROW_COLUMNS " FROM output WHERE is_kept = 0 AND"
                       " expires_ms <= ? ORDER BY expires_ms LIMIT 100",
    [KEPT_OUTPUT_ROW] = "SELECT " OUTPUT_ROW_COLUMNS " FROM output WHERE is_kept = 1 AND"
                        " (?1 = '' OR tenant = ?1)",
    [NEXT_OUTPUT_ROW] =
        "SELECT expires_ms FROM output WHERE is_kept = 0 ORDER BY expires_ms LIMIT 1",
    [LIST_OUTPUT_ROW] = "SELECT " OUTPUT_ROW_COLUMNS " FROM output WHERE " OUTPUT_ROW_IS_SHOWN,
    [LIST_OUTPUT_ROW_OF] =
        "SELECT " OUTPUT_ROW_COLUMNS " FROM output WHERE tenant = ? AND " OUTPUT_ROW_IS_SHOWN,
    [DROP_OUTPUT_ROW] = "DELETE FROM output WHERE id = ?",
    [PUT_SECRET] = "INSERT INTO secret (name, value) VALUES (?,?) ON CONFLICT (name) DO NOTHING",
    [GET_SECRET] = "SELECT value FROM secret WHERE name = ?",
    [PUT_CODE] = "INSERT INTO code (name, tenant, bytes, created_ms) VALUES (?,?,?,?)"
                 " ON CONFLICT (name) DO NOTHING",
    [DUE_CODE] = "SELECT name, tenant, bytes, created_ms FROM code WHERE created_ms < ?"
                 " ORDER BY created_ms LIMIT " INDEX_DUE_CODE_TEXT,
    [SUM_CODE] = "SELECT '', tenant, sum(bytes), 0 FROM code GROUP BY tenant",
    [DROP_CODE] = "DELETE FROM code WHERE name = ?",
    [BEGIN_REPLY] = "INSERT INTO reply (owner, key, request, created_ms) VALUES (?,?,?,?)",
    [END_REPLY] = "UPDATE reply SET status = ?3, session = ?4, type = ?5, data = ?6"
                  " WHERE owner = ?1 AND key = ?2",
    [DROP_REPLY] = "DELETE FROM reply WHERE owner = ? AND key = ?",
    [GET_REPLY] =
        "SELECT request, created_ms, status, type, data FROM reply WHERE owner = ? AND key = ?",
    [AGE_REPLIES] = "DELETE FROM reply WHERE created_ms < ?",
    /* An owner is TENANT/KEY, and '0' is the character after '/'. */
    [TRIM_REPLIES] = "DELETE FROM reply WHERE rowid IN (SELECT rowid FROM reply"
                     " WHERE owner >= ?1 || '/' AND owner < ?1 || '0'"
                     " ORDER BY created_ms DESC, rowid DESC LIMIT -1 OFFSET ?2)",
    [TRIM_REPLY_BYTES] =
        "UPDATE reply SET data = NULL WHERE rowid IN (SELECT rowid FROM (SELECT rowid,"
        " sum(length(data)) OVER (ORDER BY created_ms DESC, rowid DESC) AS bytes FROM reply"
        " WHERE owner >= ?1 || '/' AND owner < ?1 || '0' AND data IS NOT NULL) WHERE bytes > ?2)",
    [FORGET_REPLIES] = "UPDATE reply SET data = NULL WHERE data IS NOT NULL AND session IN"
                       " (SELECT id FROM session WHERE ended_ms <> 0)",
    [PUT_RESPONSE] = "INSERT INTO response (" RESPONSE_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?)"
                     " ON CONFLICT (id) DO UPDATE SET status = excluded.status,"
                     " container = excluded.container, bytes = excluded.bytes,"
                     " document = excluded.document, input = excluded.input",
    [GET_RESPONSE] = "SELECT " RESPONSE_COLUMNS " FROM response WHERE id = ? AND tenant = ?",
    [PUT_RESPONSE_ITEM] = "INSERT OR IGNORE INTO response_item (id, response) VALUES (?,?)",
    [GET_RESPONSE_OF_ITEM] =
        "SELECT " RESPONSE_COLUMNS " FROM response WHERE tenant = ? AND id IN"
        " (SELECT response FROM response_item WHERE id = ?) ORDER BY created_ms DESC LIMIT 1",
    [DROP_RESPONSE] = "DELETE FROM response WHERE id = ?",
    [OLD_RESPONSE] =
        "SELECT id, tenant, created_ms, status, NULL, NULL, bytes, '', '' FROM response"
        " WHERE tenant = ? AND status NOT IN ('queued', 'in_progress')"
        " ORDER BY created_ms LIMIT ?",
    [SUM_RESPONSE] = "SELECT '', tenant, 0, '', NULL, NULL, sum(bytes), '', '' FROM response"
                     " GROUP BY tenant",
    [COUNT_RESPONSE] = "SELECT '', tenant, min(created_ms), '', NULL, NULL, count(*), '', ''"
                       " FROM response WHERE tenant = ? GROUP BY tenant",
    [FAIL_RESPONSE] = "UPDATE response SET status = 'failed' WHERE status IN ('queued',"
                      " 'in_progress')",
    [PUT_FILE] = "INSERT INTO file (" FILE_COLUMNS ") VALUES (?,?,?,?,?,?,?)"
                 " ON CONFLICT (session, kind, name) DO UPDATE SET bytes = excluded.bytes,"
                 " time_ns = excluded.time_ns, type = excluded.type,"
                 " is_fetched = excluded.is_fetched",
    [EACH_FILE] = "SELECT " FILE_COLUMNS " FROM file WHERE session = ? AND kind = ? ORDER BY name",
    [PUT_CONTAINER] = "INSERT INTO container (" CONTAINER_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?)"
                      " ON CONFLICT (id) DO UPDATE SET used_ms = excluded.used_ms,"
                      " is_provisional = excluded.is_provisional",
    [GET_CONTAINER] = "SELECT " CONTAINER_COLUMNS " FROM container WHERE id = ?",
    [GET_CONTAINER_OF] = "SELECT " CONTAINER_COLUMNS " FROM container WHERE session = ?",
    [EACH_CONTAINER] =
        "SELECT " CONTAINER_COLUMNS " FROM container WHERE tenant = ? ORDER BY rowid",
    [DROP_CONTAINER] = "DELETE FROM container WHERE id = ?",
    [DROP_PROVISIONAL] = "DELETE FROM container WHERE is_provisional = 1",
    [PUT_CONTAINER_FILE] =
        "INSERT INTO container_file (" CONTAINER_FILE_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?)"
        " ON CONFLICT (id) DO UPDATE SET bytes = excluded.bytes,"
        " change_ns = excluded.change_ns, seen_ms = excluded.seen_ms,"
        " is_users = excluded.is_users, upload = excluded.upload",
    [EACH_CONTAINER_FILE] =
        "SELECT " CONTAINER_FILE_COLUMNS " FROM container_file WHERE container = ? ORDER BY rowid",
    [DROP_CONTAINER_FILE] = "DELETE FROM container_file WHERE id = ?",
    [PUT_UPLOAD] = "INSERT INTO upload (" UPLOAD_COLUMNS ") VALUES (?,?,?,?,?,?,?)"
                   " ON CONFLICT (id) DO UPDATE SET expires_ms = excluded.expires_ms",
    [GET_UPLOAD] = "SELECT " UPLOAD_COLUMNS " FROM upload WHERE id = ?",
    [EACH_UPLOAD] = "SELECT " UPLOAD_COLUMNS " FROM upload WHERE tenant = ? ORDER BY rowid",
    [ALL_UPLOADS] = "SELECT " UPLOAD_COLUMNS " FROM upload ORDER BY rowid",
    [COUNT_UPLOADS] = "SELECT count(*) FROM upload WHERE tenant = ?",
    [DROP_UPLOAD] = "DELETE FROM upload WHERE id = ?",
    [PUT_CHAT] = "INSERT INTO chat (session, messages) VALUES (?,?)"
                 " ON CONFLICT (session) DO UPDATE SET messages = excluded.messages",
    [GET_CHAT] = "SELECT messages FROM chat WHERE session = ?",
    [DROP_CHAT] = "DELETE FROM chat WHERE session = ?",
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
};

/* ---- values into a statement, and out of a row ------------------------------------------------
 */

struct place index_place(struct index *index, enum statement which)
{
    return (struct place){.index = index, .statement = index->statements[which]};
}

void index_put_text(struct place *place, const char *text)
{
    int code = sqlite3_bind_text(place->statement, ++place->at, text, -1, SQLITE_STATIC);

    if (place->code == SQLITE_OK)
        place->code = code;
}

void index_put_number(struct place *place, uint64_t number)
{
    int code = sqlite3_bind_int64(place->statement, ++place->at, (sqlite3_int64)number);

    if (place->code == SQLITE_OK)
        place->code = code;
}

void index_put_bytes(struct place *place, const void *data, size_t length)
{
    int code = data
                   ? sqlite3_bind_blob64(place->statement, ++place->at, data, length, SQLITE_STATIC)
                   : sqlite3_bind_null(place->statement, ++place->at);

    if (place->code == SQLITE_OK)
        place->code = code;
}

const char *index_take_text(struct place *place)
{
    int column = place->at++;
    const char *text = (const char *)sqlite3_column_text(place->statement, column);

    /* SQLite made a copy to have room for the NUL, and there was no memory. */
    if (!text && sqlite3_errcode(place->index->database.sql) == SQLITE_NOMEM)
        place->code = SQLITE_NOMEM;
    return text;
}

uint64_t index_take_number(struct place *place)
{
    return (uint64_t)sqlite3_column_int64(place->statement, place->at++);
}

const void *index_take_bytes(struct place *place, size_t *ret_length)
{
    int column = place->at++;
    bool is_null = sqlite3_column_type(place->statement, column) == SQLITE_NULL;
    const void *data = sqlite3_column_blob(place->statement, column);

    *ret_length = (size_t)sqlite3_column_bytes(place->statement, column);
    return is_null ? NULL : data ? data : "";
}

void index_take_id(struct place *place, char id[ID_MAX])
{
    const char *text = index_take_text(place);

    if (!str_copy(id, ID_MAX, text ? text : ""))
        place->code = SQLITE_CORRUPT;
}

/* ---- running ----------------------------------------------------------------------------------
 */

/* Parameters point to the caller's memory: none of them stays. */
void index_reset(sqlite3_stmt *statement)
{
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
}

/* Runs a statement that has no rows. */
int index_run(struct place *place, struct error *err)
{
    int code = place->code == SQLITE_OK ? sqlite3_step(place->statement) : place->code;
    int r = code == SQLITE_DONE ? 0 : database_error(&place->index->database, code, err);

    index_reset(place->statement);
    return r;
}

int index_run_plain(struct index *index, enum statement which, struct error *err)
{
    struct place place = index_place(index, which);

    return index_run(&place, err);
}

/* Parameters of it may still be in use by the call that is going on. */
int index_check_idle(struct index *index, enum statement which, struct error *err)
{
    if (sqlite3_stmt_busy(index->statements[which]))
        return error_set(err, -EBUSY, ERROR_ENGINE, "the index is being listed already");
    return 0;
}

/* Calls row() for each row of a statement whose parameters are bound. */
int index_each_row(struct place *place, void (*row)(struct place *place, void *ctx), void *ctx,
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
    index_reset(place->statement);
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
    struct error ignored = {0};
    int r;

    if (!index)
        return error_memory(err);
    r = database_open(&index->database, folder_fd, INDEX_FILE, &schema, err);
    if (r == 0)
        r = prepare(index, err);
    if (r < 0)
        return r;
    (void)index_forget(index, &ignored); /* a full disk: the next session's end tries again */
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
    struct place place = index_place(index, PUT_SESSION);

    index_put_text(&place, session->id);
    index_put_text(&place, session->name);
    index_put_text(&place, session->env && !session->ended_ms ? session->env : "{}");
    index_put_number(&place, session->created_ms);
    index_put_number(&place, session->used_ms);
    index_put_number(&place, session->expires_ms);
    index_put_number(&place, session->idle_ms);
    index_put_number(&place, session->next_execution);
    index_put_number(&place, session->has_box);
    index_put_number(&place, session->ended_ms);
    index_put_text(&place, session->reason);
    index_put_text(&place, session->template_name);
    index_put_text(&place, session->tenant ? session->tenant : TENANT_LOCAL);
    index_put_text(&place, session->provider);
    index_put_text(&place, session->settings);
    index_put_text(&place, session->notes);
    index_put_number(&place, session->paused_ms);
    index_put_number(&place, session->flags);
    return index_run(&place, err);
}

struct session_call {
    void (*each)(void *ctx, const struct index_session *session);
    void *ctx;
};

static void session_row(struct place *place, void *ctx)
{
    struct session_call *call = ctx;
    struct index_session session = {0};

    index_take_id(place, session.id);
    session.name = index_take_text(place);
    session.env = index_take_text(place);
    session.created_ms = index_take_number(place);
    session.used_ms = index_take_number(place);
    session.expires_ms = index_take_number(place);
    session.idle_ms = index_take_number(place);
    session.next_execution = (uint32_t)index_take_number(place);
    session.has_box = index_take_number(place) != 0;
    session.ended_ms = index_take_number(place);
    session.reason = index_take_text(place);
    session.template_name = index_take_text(place);
    session.tenant = index_take_text(place);
    session.provider = index_take_text(place);
    session.settings = index_take_text(place);
    session.notes = index_take_text(place);
    session.paused_ms = index_take_number(place);
    session.flags = (uint32_t)index_take_number(place);
    if (place->code == SQLITE_OK)
        call->each(call->ctx, &session);
}

int index_each_session(struct index *index,
                       void (*each)(void *ctx, const struct index_session *session), void *ctx,
                       struct error *err)
{
    struct session_call call = {.each = each, .ctx = ctx};
    struct place place = index_place(index, EACH_SESSION);
    int r = index_check_idle(index, EACH_SESSION, err);

    return r < 0 ? r : index_each_row(&place, session_row, &call, err);
}

int index_forget(struct index *index, struct error *err)
{
    int r = index_run_plain(index, FORGET_ENV, err);

    /* The reply that described the session when it was made has its environment, too. */
    if (r == 0)
        r = index_run_plain(index, FORGET_REPLIES, err);
    return r < 0 ? r : database_empty_log(&index->database, err);
}

int index_prune(struct index *index, unsigned keep, struct error *err)
{
    struct place place = index_place(index, PRUNE);

    index_put_number(&place, keep);
    return index_run(&place, err);
}

/* ---- files ------------------------------------------------------------------------------------
 */

int index_put_file(struct index *index, const struct index_file *file, struct error *err)
{
    struct place place = index_place(index, PUT_FILE);

    index_put_text(&place, file->session);
    index_put_number(&place, (unsigned char)file->kind);
    index_put_text(&place, file->name);
    index_put_number(&place, file->bytes);
    index_put_number(&place, file->time_ns);
    index_put_text(&place, file->type);
    index_put_number(&place, file->is_fetched);
    return index_run(&place, err);
}

struct file_call {
    void (*each)(void *ctx, const struct index_file *file);
    void *ctx;
};

static void file_row(struct place *place, void *ctx)
{
    struct file_call *call = ctx;
    struct index_file file = {0};

    index_take_id(place, file.session);
    file.kind = (char)index_take_number(place);
    file.name = index_take_text(place);
    file.bytes = index_take_number(place);
    file.time_ns = index_take_number(place);
    file.type = index_take_text(place);
    file.is_fetched = index_take_number(place) != 0;
    if (place->code == SQLITE_OK)
        call->each(call->ctx, &file);
}

int index_each_file(struct index *index, const char *session, char kind,
                    void (*each)(void *ctx, const struct index_file *file), void *ctx,
                    struct error *err)
{
    struct file_call call = {.each = each, .ctx = ctx};
    struct place place = index_place(index, EACH_FILE);
    int r = index_check_idle(index, EACH_FILE, err);

    if (r < 0)
        return r;
    index_put_text(&place, session);
    index_put_number(&place, (unsigned char)kind);
    return index_each_row(&place, file_row, &call, err);
}
