/*
 * database.h - a SQLite file in a folder that is known only by its descriptor: opening, checking,
 * migrating, and its errors as ours. For store/ only. One process, one thread; blocks.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_DATABASE_H
#define BAILEY_STORE_DATABASE_H

#include <sqlite3.h>

#include "base/error.h"
#include "base/limits.h"

/* What a file must be, or becomes when it is new or older. */
struct database_schema {
    int application;               /* PRAGMA application_id: marks the file as ours */
    const char *const *migrations; /* [n] leads from user_version n to n + 1; NULL ends */
};

struct database {
    sqlite3 *sql;
    sqlite3_vfs vfs; /* registered under vfs_name while this is open; must not move */
    char vfs_name[32];
    int folder_fd;                   /* our own */
    char name[LIMIT_PATH_BYTES + 1]; /* for people */
};

/* `database` is all zero before; database_close() also after a failure. */
int database_open(struct database *database, int folder_fd, const char *file,
                  const struct database_schema *schema, struct error *err);
/* Writes the log into the file and cuts it to nothing, so that no older text is in either. */
int database_empty_log(struct database *database, struct error *err);
void database_close(struct database *database); /* safe twice, and on zeroes */

/* One or more statements without parameters. */
int database_exec(struct database *database, const char *text, struct error *err);

/* What SQLite's result code means: fills err, returns a negative errno. Call it before reset. */
int database_error(struct database *database, int code, struct error *err);

#endif
