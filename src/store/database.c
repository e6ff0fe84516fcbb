/*
 * database.c - SQLite by folder descriptor; see database.h.
 *
 * The broker is confined by Landlock and may be unable to name its folder, so the file is opened as
 * /proc/self/fd/N/name: the kernel goes directly to the folder of the descriptor, whatever its path
 * is by now. SQLite's own VFS would first replace such links by the text they show, which may lead
 * nowhere, or elsewhere. Ours is that VFS without this step. /proc has to be mounted; no rights are
 * needed but those that every process has to its own descriptors.
 *
 * The file is locked exclusively for as long as it is open (locking_mode=EXCLUSIVE): the log's
 * index is then in our memory, there is no -shm file to map, and a second broker gets an error
 * instead of half a view. synchronous=NORMAL: what was committed is in the page cache, where the
 * kill of a process cannot reach it; a power cut may lose the last transactions, never a part of
 * one.
 *
 * What is deleted is overwritten with zeros (secure_delete), in the pages of the file; an earlier
 * text of a page stays in the log until database_empty_log().
 *
 * syscalls: openat close read fstat newfstatat fcntl pread64 pwrite64 fdatasync ftruncate unlink
 * access readlink fchmod fchown geteuid getpid clock_nanosleep (read: /dev/urandom, where it may)
 */
#include "store/database.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define FILE_MODE 0600
#define BUSY_MS 2000 /* a killed broker releases its lock only when it has ended */
#define PATH_SIZE 64

/* Before anything is read. */
static const char settings[] = "PRAGMA locking_mode = EXCLUSIVE;"
                               "PRAGMA mmap_size = 0;"
                               "PRAGMA temp_store = MEMORY;"
                               "PRAGMA cell_size_check = ON;"
                               "PRAGMA foreign_keys = ON;"
                               "PRAGMA secure_delete = ON;"
                               "PRAGMA synchronous = NORMAL;"
                               "PRAGMA journal_size_limit = 4194304;";

/* ---- errors -----------------------------------------------------------------------------------
 */

static int say_damaged(struct database *database, const char *why, struct error *err)
{
    return error_set(err, -EUCLEAN, ERROR_ENGINE,
                     "the index '%s' is damaged (%s): move it away, together with its '-wal' file, "
                     "and start again",
                     database->name, why);
}

static int say_full(struct database *database, int num, struct error *err)
{
    return error_set(err, -ENOSPC, ERROR_DISK_FULL,
                     "no space for the index '%s' (%s): nothing was written; make space and try "
                     "again",
                     database->name, error_name(num));
}

/* SQLite's message, if it is about this error. */
static const char *words_for(struct database *database, int code)
{
    switch (database->sql ? sqlite3_errcode(database->sql) : SQLITE_OK) {
    case SQLITE_OK:
    case SQLITE_ROW:
    case SQLITE_DONE:
        return sqlite3_errstr(code);
    default:
        return sqlite3_errmsg(database->sql);
    }
}

/* The errno of the result, if SQLite has one; else 0. */
static int errno_of(struct database *database, int code)
{
    sqlite3_file *log = NULL;
    int num = 0;

    if (!database->sql)
        return 0;
    if ((code & 0xff) == SQLITE_CANTOPEN)
        return sqlite3_system_errno(database->sql);
    if ((code & 0xff) != SQLITE_IOERR)
        return 0;
    /* All writes except a checkpoint's go to the log; a failed commit has its errno only there. */
    sqlite3_file_control(database->sql, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (log && log->pMethods)
        log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &num);
    return num ? num : sqlite3_system_errno(database->sql);
}

int database_error(struct database *database, int code, struct error *err)
{
    int num = errno_of(database, code);
    const char *text = words_for(database, code);
    int primary = code & 0xff;

    switch (primary) {
    case SQLITE_FULL:
        return say_full(database, ENOSPC, err);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return say_damaged(database, text, err);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return error_set(err, -EBUSY, ERROR_ENGINE, "the index '%s' is in use by another process",
                         database->name);
    case SQLITE_NOMEM:
        return error_memory(err);
    case SQLITE_READONLY:
        return error_set(err, -EROFS, ERROR_ENGINE, "the index '%s' cannot be written: %s",
                         database->name, text);
    case SQLITE_TOOBIG:
        return error_set(err, -EFBIG, ERROR_TOO_LARGE, "too large for the index: %s", text);
    default:
        break;
    }
    if (code == SQLITE_CONSTRAINT_FOREIGNKEY)
        return error_set(err, -ENOENT, ERROR_ENGINE, "the index '%s' has no such session",
                         database->name);
    if (primary == SQLITE_CONSTRAINT)
        return error_set(err, -EINVAL, ERROR_ENGINE, "the index '%s' refuses a row: %s",
                         database->name, text);
    /* A quota, or a limit of the process: to SQLite only one of many, to people the same. */
    if (num == ENOSPC || num == EDQUOT || num == EFBIG)
        return say_full(database, num, err);
    return error_set(err, num ? -num : -EIO, ERROR_ENGINE, "the index '%s': %s%s%s", database->name,
                     text, num ? ": " : "", num ? strerror(num) : "");
}

/* ---- asking -----------------------------------------------------------------------------------
 */

int database_exec(struct database *database, const char *text, struct error *err)
{
    int code = sqlite3_exec(database->sql, text, NULL, NULL, NULL);

    return code == SQLITE_OK ? 0 : database_error(database, code, err);
}

static void finalizep(sqlite3_stmt **statement)
{
    sqlite3_finalize(*statement);
}

/* The first value of the first row, as a number and as text (cut to size). */
static int ask(struct database *database, const char *question, int64_t *ret, char *text,
               size_t size, struct error *err)
{
    CLEANUP(finalizep) sqlite3_stmt *statement = NULL;
    const char *found;
    int code = sqlite3_prepare_v2(database->sql, question, -1, &statement, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    if (code == SQLITE_DONE)
        return say_damaged(database, "no answer", err);
    if (code != SQLITE_ROW)
        return database_error(database, code, err);
    *ret = sqlite3_column_int64(statement, 0);
    found = (const char *)sqlite3_column_text(statement, 0);
    str_copy(text, size, found ? found : "");
    return 0;
}

static int ask_number(struct database *database, const char *question, int64_t *ret,
                      struct error *err)
{
    char text[32];

    return ask(database, question, ret, text, sizeof(text), err);
}

/* ---- the file ---------------------------------------------------------------------------------
 */

/* Ours from the start, and a plain file: SQLite would make it readable for others. */
static int prepare_file(struct database *database, const char *file, struct error *err)
{
    CLEANUP(fd_closep) int fd = -1;
    struct stat st;

    fd = openat(database->folder_fd, file,
                O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, FILE_MODE);
    if (fd < 0 && (errno == ENOSPC || errno == EDQUOT))
        return say_full(database, errno, err);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, "opening the index '%s'", database->name);
    if (!S_ISREG(st.st_mode))
        return error_set(err, -EINVAL, ERROR_ENGINE, "the index '%s' is not a file",
                         database->name);
    /* The umask may have taken bits away. */
    if (st.st_size == 0 && fchmod(fd, FILE_MODE) < 0)
        return error_errno(err, "setting the mode of '%s'", database->name);
    return 0;
}

/* The folder's path as the kernel shows it; for messages only. */
static void name_for_people(struct database *database, const char *link, const char *file)
{
    char folder[sizeof(database->name)];
    ssize_t length = readlink(link, folder, sizeof(folder) - 1);

    folder[length > 0 ? length : 0] = '\0';
    if (length <= 0 ||
        str_format(database->name, sizeof(database->name), "%s/%s", folder, file) < 0)
        str_copy(database->name, sizeof(database->name), file);
}

static int keep_path(sqlite3_vfs *vfs, const char *path, int size, char *ret)
{
    (void)vfs;
    return str_copy(ret, (size_t)size, path) ? SQLITE_OK : SQLITE_CANTOPEN;
}

static int add_vfs(struct database *database, struct error *err)
{
    sqlite3_vfs *ordinary = sqlite3_vfs_find("unix");
    int code = SQLITE_ERROR;

    if (ordinary) {
        database->vfs = *ordinary;
        database->vfs.pNext = NULL;
        database->vfs.xFullPathname = keep_path;
        snprintf(database->vfs_name, sizeof(database->vfs_name), "bailey-%p", (void *)database);
        database->vfs.zName = database->vfs_name;
        code = sqlite3_vfs_register(&database->vfs, 0);
    }
    if (code != SQLITE_OK) {
        database->vfs_name[0] = '\0';
        return error_set(err, -EIO, ERROR_ENGINE, "SQLite: %s", sqlite3_errstr(code));
    }
    return 0;
}

/* Opens it without reading a byte yet. */
static int open_file(struct database *database, int folder_fd, const char *file, struct error *err)
{
    char link[PATH_SIZE], path[PATH_SIZE];
    int code, r;

    /* The log is opened later, perhaps when the caller's own descriptor is gone. */
    database->folder_fd = fcntl(folder_fd, F_DUPFD_CLOEXEC, 3);
    if (database->folder_fd < 0) {
        database->folder_fd = 0;
        return error_errno(err, "the index's folder");
    }
    snprintf(link, sizeof(link), "/proc/self/fd/%d", database->folder_fd);
    if (str_format(path, sizeof(path), "%s/%s", link, file) < 0)
        return error_set(err, -ENAMETOOLONG, ERROR_ENGINE, "the index's name is too long");
    name_for_people(database, link, file);
    if (access(link, F_OK) < 0)
        return error_errno(err, "the index needs /proc: '%s'", link);
    r = prepare_file(database, file, err);
    if (r == 0)
        r = add_vfs(database, err);
    if (r < 0)
        return r;
    code = sqlite3_open_v2(path, &database->sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
                           database->vfs_name);
    return code == SQLITE_OK ? 0 : database_error(database, code, err);
}

static void set_up(struct database *database)
{
    sqlite3 *sql = database->sql;

    sqlite3_extended_result_codes(sql, 1);
    sqlite3_busy_timeout(sql, BUSY_MS);
    sqlite3_db_config(sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(sql, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    /* Until it is known that the file is ours, it stays as it is. */
    sqlite3_db_config(sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
}

/* ---- what is in it ----------------------------------------------------------------------------
 */

/* *ret is the version of what is there; 0: nothing yet. */
static int find_version(struct database *database, const struct database_schema *schema,
                        int64_t *ret, struct error *err)
{
    int64_t application = 0, tables = 0, version = 0, known = 0;
    int r = ask_number(database, "SELECT count(*) FROM sqlite_schema", &tables, err);

    if (r == 0)
        r = ask_number(database, "PRAGMA application_id", &application, err);
    if (r == 0)
        r = ask_number(database, "PRAGMA user_version", &version, err);
    if (r < 0)
        return r;
    while (schema->migrations[known])
        known++;
    if (application != schema->application && (application || version || tables))
        return error_set(err, -EUCLEAN, ERROR_ENGINE,
                         "'%s' is a database, but not an index of bailey: move it away",
                         database->name);
    if (version > known)
        return error_set(err, -ENOTSUP, ERROR_ENGINE,
                         "the index '%s' was written by a newer bailey (version %lld, this one "
                         "supports %lld): use that version, or move the file away",
                         database->name, (long long)version, (long long)known);
    if (version < 0 || (version == 0) != (tables == 0))
        return say_damaged(database, "it has no version", err);
    *ret = version;
    return 0;
}

static int check_pages(struct database *database, struct error *err)
{
    int64_t pages = 0, page_bytes = 0, ignored;
    char verdict[256];
    int r = ask_number(database, "PRAGMA page_count", &pages, err);

    if (r == 0)
        r = ask_number(database, "PRAGMA page_size", &page_bytes, err);
    if (r < 0)
        return r;
    /* It would take seconds: damage in a larger one is found when its rows are read. */
    if (pages > (int64_t)LIMIT_INDEX_CHECK / page_bytes)
        return 0;
    r = ask(database, "PRAGMA quick_check(1)", &ignored, verdict, sizeof(verdict), err);
    if (r < 0 || str_equal(verdict, "ok"))
        return r;
    for (char *at = verdict; (at = strchr(at, '\n'));)
        *at = ' ';
    return say_damaged(database, verdict, err);
}

static int start_log(struct database *database, struct error *err)
{
    char mode[32];
    int64_t ignored;
    int r = ask(database, "PRAGMA journal_mode = WAL", &ignored, mode, sizeof(mode), err);

    if (r == 0 && !str_equal(mode, "wal"))
        return error_set(err, -ENOTSUP, ERROR_ENGINE,
                         "the index '%s' cannot have a write-ahead log there (it has '%s')",
                         database->name, mode);
    return r;
}

static int migrate(struct database *database, const struct database_schema *schema, int64_t version,
                   struct error *err)
{
    char text[96];
    int r;

    if (!schema->migrations[version])
        return 0;
    r = database_exec(database, "BEGIN IMMEDIATE", err);
    while (r == 0 && schema->migrations[version])
        r = database_exec(database, schema->migrations[version++], err);
    snprintf(text, sizeof(text), "PRAGMA application_id = %d; PRAGMA user_version = %lld; COMMIT",
             schema->application, (long long)version);
    if (r == 0)
        r = database_exec(database, text, err);
    if (!sqlite3_get_autocommit(database->sql))
        sqlite3_exec(database->sql, "ROLLBACK", NULL, NULL, NULL);
    return r;
}

int database_open(struct database *database, int folder_fd, const char *file,
                  const struct database_schema *schema, struct error *err)
{
    int64_t version = 0;
    int r = open_file(database, folder_fd, file, err);

    if (r < 0)
        return r;
    set_up(database);
    r = database_exec(database, settings, err);
    if (r == 0)
        r = find_version(database, schema, &version, err);
    if (r == 0)
        r = check_pages(database, err);
    if (r == 0)
        r = start_log(database, err);
    if (r == 0)
        r = migrate(database, schema, version, err);
    if (r == 0)
        sqlite3_db_config(database->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
    return r;
}

int database_empty_log(struct database *database, struct error *err)
{
    int code =
        sqlite3_wal_checkpoint_v2(database->sql, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);

    return code == SQLITE_OK ? 0 : database_error(database, code, err);
}

void database_close(struct database *database)
{
    sqlite3_close(database->sql);
    database->sql = NULL;
    if (database->vfs_name[0])
        sqlite3_vfs_unregister(&database->vfs);
    database->vfs_name[0] = '\0';
    if (database->folder_fd > 0)
        fd_closep(&database->folder_fd);
    database->folder_fd = 0;
}
