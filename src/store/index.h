/*
 * index.h - the daemon's memory of sessions, executions, datasets and outputs, in SQLite (WAL).
 *
 * No runtime state: what runs is known by launcher and wardens; this says what they cannot (names,
 * environments, deadlines, why something ended). Every call is one transaction: it happened or it
 * did not, also when the disk is full (-ENOSPC, ERROR_DISK_FULL; later calls work again once there
 * is space) or the process is killed; what a call did survives a kill -9, and a power cut but for
 * the last moments. Blocks for the disk. One process (it is locked while it is open), one thread.
 * Times are milliseconds since 1970.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_INDEX_H
#define BAILEY_STORE_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/id.h"
#include "model/principal.h"

struct index;

/*
 * The file is "index.db" (0600, never through a link) in the folder of folder_fd, which is needed
 * for the call only; no path to it has to exist, but /proc has to. Migrates forward (user_version).
 * Errors say what to do, and nothing is deleted or changed by them: -EUCLEAN (damaged, or not
 * ours), -ENOTSUP (of a newer bailey), -EBUSY (another process has it open), -ENOSPC.
 */
int index_open(int folder_fd, struct index **ret, struct error *err);
void index_close(struct index *index); /* NULL is fine */

struct index_session {
    char id[ID_MAX];
    const char *name;                         /* NULL: none */
    const char *env;                          /* JSON object */
    uint64_t created_ms, used_ms, expires_ms; /* expires: the age limit, absolute */
    uint64_t idle_ms;                         /* it ends this long after its last use */
    uint32_t next_execution;
    bool has_box;              /* one was made for it */
    uint64_t ended_ms;         /* 0: it lives */
    const char *reason;        /* why it ended; NULL */
    const char *template_name; /* NULL: the one that is configured */
    const char *tenant;        /* put: NULL is TENANT_LOCAL */
    const char *provider;      /* the name of what made its box; NULL: there was none yet */
    const char *settings;      /* JSON object {KEY: text}; NULL: those of the daemon */
    const char *notes;         /* JSON object of the door that made it; NULL: none */
    uint64_t paused_ms;        /* since when it is paused; 0: it is not */
    uint32_t flags;            /* SESSION_* of session/, opaque here */
};
/* Inserts or replaces the row. */
int index_put_session(struct index *index, const struct index_session *session, struct error *err);
/*
 * Calls for each, oldest first; strings are borrowed for the call. each() may use other functions
 * of the index, but not this one again (-EBUSY); rows that it puts may or may not be seen. An error
 * may come after some calls.
 */
int index_each_session(struct index *index,
                       void (*each)(void *ctx, const struct index_session *session), void *ctx,
                       struct error *err);
/*
 * The environment of an ended session is not stored; what was stored of it until then is gone from
 * the disk's files after this call. Blocks for the disk: not for every session by itself.
 */
int index_forget(struct index *index, struct error *err);
/* Drops the oldest ended ones (with their rows elsewhere) until at most `keep` are left. */
int index_prune(struct index *index, unsigned keep, struct error *err);

#define INDEX_STREAMS 3 /* stdout, stderr, events */

struct index_execution {
    char session[ID_MAX];
    uint32_t number;
    uint32_t call;    /* its id in the box */
    const char *argv; /* JSON array */
    uint64_t started_ms;
    uint64_t deadline_ms; /* 0: none */
    uint32_t flags;       /* EXECUTION_* of session/, opaque here */
    uint64_t paused_ms;   /* how long it stood still, until its session was resumed last */
    uint64_t ended_ms;    /* 0: it runs, as far as is known */
    int exit_code, signal;
    uint64_t duration_ns;
    uint64_t out_bytes, err_bytes;
    const char *error_code, *error_text; /* NULL: it ran */
    uint64_t cpu_us, max_rss_bytes;
    uint64_t event_bytes;
    const char *cell; /* JSON object of session/, opaque here; NULL: a command */
    struct {
        const void *bytes; /* all of a stream; NULL: none, or it is in a file */
        size_t length;
    } data[INDEX_STREAMS];        /* put */
    bool has_data[INDEX_STREAMS]; /* each: index_read_output() has it */
};
/*
 * Inserts or replaces the row by session (-ENOENT: that is not in the index) and number. Ended ones
 * that are LIMIT_EXECUTIONS older than this one are dropped.
 */
int index_put_execution(struct index *index, const struct index_execution *execution,
                        struct error *err);
/* By number. */
int index_each_execution(struct index *index, const char *session,
                         void (*each)(void *ctx, const struct index_execution *execution),
                         void *ctx, struct error *err);

/* What its row says, to be freed; NULL: there is none. */
char *index_read_argv(struct index *index, const char *session, uint32_t number);

/* Bytes of stream 1, 2 or 3 from the row; 0 at its end; -ENOENT: it has none of them. */
ssize_t index_read_output(struct index *index, const char *session, uint32_t number, int stream,
                          uint64_t offset, void *data, size_t size);

/* Of all executions of a session, or of one of them. */
int index_drop_outputs(struct index *index, const char *session, struct error *err);
int index_drop_output(struct index *index, const char *session, uint32_t number, struct error *err);

/* A file of stored code (artifact.h). */
struct index_code {
    const char *name, *tenant;
    uint64_t bytes, created_ms;
};
int index_put_code(struct index *index, const struct index_code *code, struct error *err);
int index_drop_code(struct index *index, const char *name, struct error *err);
/* At most INDEX_DUE_CODE that were stored before `ms`, the oldest first. */
#define INDEX_DUE_CODE 50
#define INDEX_DUE_CODE_TEXT "50"
int index_due_code(struct index *index, uint64_t ms,
                   void (*each)(void *ctx, const struct index_code *code), void *ctx,
                   struct error *err);
/* One for each tenant, with the sum of its bytes. */
int index_sum_code(struct index *index, void (*each)(void *ctx, const struct index_code *code),
                   void *ctx, struct error *err);

/* A context of a session: the name of an interpreter that keeps its variables. */
struct index_context {
    char session[ID_MAX];
    uint32_t number;
    const char *language;
    const char *name, *cwd; /* NULL: none */
    bool is_default;
    uint32_t kernel; /* its id in the box; 0: none */
    uint32_t warm;   /* how it was started, opaque here */
    uint32_t cells;
    uint64_t started_ms, used_ms;
    const char *note; /* what became of the kernel before; NULL: nothing */
};
/* Inserts or replaces the row by session (-ENOENT) and number. */
int index_put_context(struct index *index, const struct index_context *context, struct error *err);
int index_drop_context(struct index *index, const char *session, uint32_t number,
                       struct error *err);
/* By number. */
int index_each_context(struct index *index, const char *session,
                       void (*each)(void *ctx, const struct index_context *context), void *ctx,
                       struct error *err);

/* A dataset (kind 'd') or an output (kind 'o') of a session, by name. */
struct index_file {
    char session[ID_MAX];
    char kind;
    const char *name;
    uint64_t bytes, time_ns;
    const char *type; /* MIME; may be NULL */
    bool is_fetched;  /* an output that was saved on disk */
};
/* Inserts or replaces the row by session (-ENOENT), kind and name. */
int index_put_file(struct index *index, const struct index_file *file, struct error *err);
/* By name. */
int index_each_file(struct index *index, const char *session, char kind,
                    void (*each)(void *ctx, const struct index_file *file), void *ctx,
                    struct error *err);

#endif
