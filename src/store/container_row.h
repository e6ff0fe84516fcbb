/*
 * container_row.h - rows of the index for containers, their files, and uploaded files. The bytes
 * are elsewhere (session/upload.h, a session's box). Blocks for the disk as index.h does.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_CONTAINER_ROW_H
#define BAILEY_STORE_CONTAINER_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/limits.h"
#include "model/principal.h"
#include "store/index.h"

#define CONTAINER_NAME_MAX 257
#define CONTAINER_PATH_MAX (LIMIT_PATH_BYTES + 32)
#define UPLOAD_NAME_MAX 256
#define UPLOAD_PURPOSE_MAX 32

struct container_row {
    char id[ID_MAX];
    char session[ID_MAX];
    char tenant[TENANT_MAX];
    char name[CONTAINER_NAME_MAX];
    char memory_limit[8]; /* "1g"; empty: null */
    uint64_t created_ms;
    uint64_t used_ms;
    unsigned minutes;
    bool has_policy;     /* {"type":"disabled"} was given */
    bool is_provisional; /* its files are not there yet */
};
/* Inserts or replaces. */
int container_row_put(struct index *index, const struct container_row *row, struct error *err);
/* By its own id, or by its session's. 1: there is one; 0: there is none. */
int container_row_get(struct index *index, const char *id, struct container_row *ret,
                      struct error *err);
int container_row_of_session(struct index *index, const char *session, struct container_row *ret,
                             struct error *err);
int container_row_drop(struct index *index, const char *id, struct error *err); /* and its files */
/* Of a tenant, oldest first. each() may not change rows. */
int container_row_each(struct index *index, const char *tenant,
                       void (*each)(void *ctx, const struct container_row *row), void *ctx,
                       struct error *err);
int container_row_drop_provisional(struct index *index, struct error *err);

struct container_file {
    char id[ID_MAX];
    char container[ID_MAX];
    const char *path; /* in the box: "/mnt/data/a.csv"; borrowed */
    uint64_t created_ms;
    uint64_t bytes;
    uint64_t change_ns;  /* ctime in the box, when it was looked at */
    uint64_t seen_ms;    /* when the last change was found */
    bool is_users;       /* source: "user"; else "assistant" */
    char upload[ID_MAX]; /* of the uploaded file that filled it; empty: none did */
};
/* Inserts or replaces by id. */
int container_file_put(struct index *index, const struct container_file *file, struct error *err);
int container_file_drop(struct index *index, const char *id, struct error *err);
/* Of a container, oldest first. each() may not change rows. */
int container_file_rows(struct index *index, const char *container,
                        void (*each)(void *ctx, const struct container_file *file), void *ctx,
                        struct error *err);
/* Several changes as one transaction. */
int container_rows_begin(struct index *index, struct error *err);
int container_rows_end(struct index *index, struct error *err);

struct upload_row {
    char id[ID_MAX];
    char tenant[TENANT_MAX];
    char filename[UPLOAD_NAME_MAX];
    char purpose[UPLOAD_PURPOSE_MAX];
    uint64_t bytes;
    uint64_t created_ms;
    uint64_t expires_ms; /* 0: never */
};
/* Inserts, or replaces when it expires. */
int upload_row_put(struct index *index, const struct upload_row *row, struct error *err);
int upload_row_get(struct index *index, const char *id, struct upload_row *ret, struct error *err);
int upload_row_drop(struct index *index, const char *id, struct error *err);
/* Of a tenant (NULL: of all), oldest first. each() may not change rows. */
int upload_row_each(struct index *index, const char *tenant,
                    void (*each)(void *ctx, const struct upload_row *row), void *ctx,
                    struct error *err);
int upload_row_count(struct index *index, const char *tenant, uint64_t *ret, struct error *err);

#endif
