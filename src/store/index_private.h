/*
 * index_private.h - the index as its own files see it: statements, their parameters and rows.
 *
 * A call is index_place(), the values, then index_run() or index_each_row(), which leave the
 * statement as it was.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_INDEX_PRIVATE_H
#define BAILEY_STORE_INDEX_PRIVATE_H

#include "store/database.h"
#include "store/index.h"

enum statement {
    PUT_SESSION,
    EACH_SESSION,
    PRUNE,
    FORGET_ENV,
    PUT_EXECUTION,
    EACH_EXECUTION,
    DROP_EXECUTIONS,
    GET_ARGV,
    GET_OUTPUT,
    DROP_OUTPUTS,
    DROP_OUTPUT,
    PUT_CONTEXT,
    EACH_CONTEXT,
    DROP_CONTEXT,
    PUT_KEY,
    GET_KEY,
    EACH_KEY,
    DROP_KEY,
    PUT_OUTPUT_ROW,
    GET_OUTPUT_ROW,
    EACH_OUTPUT_ROW,
    DUE_OUTPUT_ROW,
    NEXT_OUTPUT_ROW,
    KEPT_OUTPUT_ROW,
    LIST_OUTPUT_ROW,
    LIST_OUTPUT_ROW_OF,
    DROP_OUTPUT_ROW,
    PUT_SECRET,
    GET_SECRET,
    PUT_CODE,
    DUE_CODE,
    SUM_CODE,
    DROP_CODE,
    BEGIN_REPLY,
    END_REPLY,
    DROP_REPLY,
    GET_REPLY,
    AGE_REPLIES,
    TRIM_REPLIES,
    TRIM_REPLY_BYTES,
    FORGET_REPLIES,
    PUT_RESPONSE,
    GET_RESPONSE,
    PUT_RESPONSE_ITEM,
    GET_RESPONSE_OF_ITEM,
    DROP_RESPONSE,
    OLD_RESPONSE,
    SUM_RESPONSE,
    COUNT_RESPONSE,
    FAIL_RESPONSE,
    PUT_FILE,
    EACH_FILE,
    PUT_CONTAINER,
    GET_CONTAINER,
    GET_CONTAINER_OF,
    EACH_CONTAINER,
    DROP_CONTAINER,
    DROP_PROVISIONAL,
    PUT_CONTAINER_FILE,
    EACH_CONTAINER_FILE,
    DROP_CONTAINER_FILE,
    PUT_UPLOAD,
    GET_UPLOAD,
    EACH_UPLOAD,
    ALL_UPLOADS,
    COUNT_UPLOADS,
    DROP_UPLOAD,
    PUT_CHAT,
    GET_CHAT,
    DROP_CHAT,
    BEGIN,
    COMMIT,
    ROLLBACK,
    _STATEMENT_MAX,
};

struct index {
    struct database database;
    sqlite3_stmt *statements[_STATEMENT_MAX];
};

/* The next parameter, or the next column; the first trouble stays. */
struct place {
    struct index *index;
    sqlite3_stmt *statement;
    int at;
    int code;
};

struct place index_place(struct index *index, enum statement which);
void index_put_text(struct place *place, const char *text);
void index_put_number(struct place *place, uint64_t number);
void index_put_bytes(struct place *place, const void *data, size_t length); /* NULL: none */
const char *index_take_text(struct place *place);
uint64_t index_take_number(struct place *place);
/* Borrowed until the next row. NULL: there are none; empty bytes are not NULL. */
const void *index_take_bytes(struct place *place, size_t *ret_length);
void index_take_id(struct place *place, char id[ID_MAX]);

void index_reset(sqlite3_stmt *statement);
int index_run(struct place *place, struct error *err); /* a statement that has no rows */
int index_run_plain(struct index *index, enum statement which, struct error *err);
/* -EBUSY: it is being listed already. */
int index_check_idle(struct index *index, enum statement which, struct error *err);
int index_each_row(struct place *place, void (*row)(struct place *place, void *ctx), void *ctx,
                   struct error *err);

#endif
