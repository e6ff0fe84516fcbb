/*
 * container.h - containers: sessions as OpenAI's clients see them, with an id ("cntr_..."), a name,
 * files with ids ("cfile_..."), and an idle time after which the data is gone.
 *
 * A container is one session and a row of the index: the row stays readable after its session has
 * ended ("expired"), and survives the broker. Below the doors, because several of them use
 * containers. The folder /mnt/data in the box is the session's /workspace; files of /tmp/output
 * belong to the container, too.
 *
 * A `struct container` is a copy of the row: find it again for each request. What goes into or out
 * of the box is a job: done() is called once, from the loop, and never after
 * container_job_cancel(); the job is gone then. Errors of a box are those of session_box() and
 * runtime/box/files.h. One thread.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_CONTAINER_H
#define BAILEY_SESSION_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "session/upload.h"
#include "store/container_row.h"

typedef struct json_t json_t;
struct caller;
struct session;
struct session_manager;
struct container_job;

#define CONTAINER_MINUTES 20 /* idle time of a container that did not name one */
#define CONTAINER_MINUTES_MAX 1440
#define CONTAINER_FOLDER "/mnt/data"

struct container_spec {
    const struct caller *caller; /* of the request; its tenant owns the container. Copied. */
    const char *name;            /* NULL: "auto" */
    unsigned minutes;            /* 0: CONTAINER_MINUTES */
    const char *memory_limit;    /* "1g", "4g", "16g", "64g"; NULL: the server's own limit */
    bool has_policy;             /* network_policy was given, and is {"type":"disabled"} */
    json_t *file_ids; /* array of strings, or NULL: checked here, placed by container_fill() */
};
/*
 * Makes the row and a session without a box; costs no time of a box. With file_ids the container is
 * provisional until container_fill() has ended: a broker that dies before that removes it.
 * Errors: bad_input (memory_limit above the server's maximum; too many files), file_not_found, and
 * those of session_manager_create(). err->text names the member.
 */
int container_create(struct session_manager *manager, const struct container_spec *spec,
                     struct container_row *ret, struct error *err);
/* The container of a session that was made as an ordinary one: it gets a row, if it has none. */
int container_adopt(struct session_manager *manager, struct session *session,
                    struct container_row *ret, struct error *err);
/* "disabled" is what a session is; "allowlist" is an error that says so. NULL, null: fine. */
int container_check_policy(const json_t *policy, bool *ret_has_policy, struct error *err);

/* Errors: container_not_found, also for a container of another tenant. It may have expired. */
int container_find(struct session_manager *manager, const char *tenant, const char *id,
                   struct container_row *ret, struct error *err);
/* The container of a session; -ENOENT without an error text: it is an ordinary one. */
int container_of_session(struct session_manager *manager, const struct session *session,
                         struct container_row *ret);
bool container_is_running(struct session_manager *manager, const struct container_row *row);
/* Its session, which counts as used now. Errors: container_expired. */
int container_session(struct session_manager *manager, struct container_row *row,
                      struct session **ret, struct error *err);
/* A request named it: its idle time starts again, if it is running. */
void container_touch(struct session_manager *manager, struct container_row *row);
/* Its session ends and its rows are removed. */
int container_remove(struct session_manager *manager, const struct container_row *row,
                     const struct caller *caller, struct error *err);
/* All containers of the tenant, oldest first; each with its last use. */
int container_each(struct session_manager *manager, const char *tenant,
                   void (*each)(void *ctx, const struct container_row *row), void *ctx,
                   struct error *err);

/* ---- files ---- */

/* A job's files are borrowed for the call of done(). */
typedef void container_done(void *ctx, const struct container_file *files, size_t count,
                            const struct error *err);

/*
 * Copies uploaded files into /mnt/data; the names are those of the uploads (container_fill_name()).
 * A file that was copied from the same upload before stays as it is now; another one of the name is
 * replaced. The container is complete afterwards; a failure leaves it provisional: remove it.
 * done() gets the new files.
 */
int container_fill(struct session_manager *manager, const struct container_row *row,
                   json_t *file_ids, container_done *done, void *ctx, struct container_job **ret,
                   struct error *err);
/*
 * The name of the next file of one container_fill(): its own, or with a number before it if a file
 * before it in the same call has that one. `taken`: an object, empty at the first. Pure.
 */
void container_fill_name(json_t *taken, const char *filename, char *ret, size_t size);
/*
 * One file of bytes that are on disk: fd is duplicated. `name`: a client's file name, whose last
 * component is used; an existing file is replaced and keeps its id.
 */
int container_put(struct session_manager *manager, const struct container_row *row,
                  const char *name, int fd, bool is_users, container_done *done, void *ctx,
                  struct container_job **ret, struct error *err);
/*
 * Brings the rows up to date with /mnt/data and /tmp/output: new files get ids, vanished ones lose
 * their rows. done() gets the files that code made or changed and that a look found after
 * `since_ms` (wall clock): take the time before the code starts. Hidden files and __pycache__ are
 * left out. A container without a box has none.
 */
int container_look(struct session_manager *manager, const struct container_row *row,
                   uint64_t since_ms, container_done *done, void *ctx, struct container_job **ret,
                   struct error *err);
/* Removes it in the box and its row. */
int container_unlink(struct session_manager *manager, const struct container_row *row,
                     const struct container_file *file, container_done *done, void *ctx,
                     struct container_job **ret, struct error *err);
void container_job_cancel(struct container_job *job); /* NULL is fine */

/*
 * By id, from the rows: call container_look() before, if the box may have changed. The path is the
 * buffer's. Errors: file_not_found.
 */
int container_file_find(struct session_manager *manager, const char *container, const char *id,
                        struct container_file *ret, char path[CONTAINER_PATH_MAX],
                        struct error *err);
/* Oldest first. */
int container_file_each(struct session_manager *manager, const char *container,
                        void (*each)(void *ctx, const struct container_file *file), void *ctx,
                        struct error *err);
/* "/mnt/data/a.csv" as the box's file calls name it: "/workspace/a.csv". */
void container_box_path(const char *path, char *ret, size_t size);
const char *container_file_name(const char *path); /* its last component */

/* ---- for the manager ---- */
void containers_start(struct session_manager *manager); /* removes what a killed broker left */

#endif
