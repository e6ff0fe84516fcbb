/*
 * upload.h - files that a tenant uploaded, by id ("file-..."): bytes in the state folder, a row in
 * the index. They outlive sessions and the broker, until they are deleted or expire.
 *
 * Bytes count in the tenant's disk quota from the moment they are written. An upload that is not
 * ended leaves nothing, also when the broker is killed. One thread; blocks for the disk.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_UPLOAD_H
#define BAILEY_SESSION_UPLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "store/container_row.h"

struct session_manager;

/* What an upload is: copied by upload_end(). */
struct upload_spec {
    const char *tenant;
    const char *filename; /* as the client named it; only its last component is kept */
    const char *purpose;
    uint64_t expires_ms; /* wall clock; 0: never */
};

/* Bytes on their way. They have no name until the end: a killed broker leaves nothing. */
struct upload_writer;
/* For any use of bytes: also for a file that goes on into a container and is not kept. */
int upload_begin(struct session_manager *manager, const char *tenant, struct upload_writer **ret,
                 struct error *err);
/* Errors: quota_exceeded, disk_full, too_large. The writer stays valid: cancel it. */
int upload_write(struct upload_writer *writer, const void *data, size_t length, struct error *err);
uint64_t upload_bytes(const struct upload_writer *writer);
int upload_fd(const struct upload_writer *writer); /* borrowed: for reading what was written */
void upload_cancel(struct upload_writer *writer);  /* NULL is fine */
/* Gives it a name and a row; frees the writer in any case. Errors: bad_input, disk_full. */
int upload_end(struct upload_writer *writer, const struct upload_spec *spec, struct upload_row *ret,
               struct error *err);

/*
 * Bytes in memory that a client may send again and again: the same bytes under the same name are
 * the same file, which is kept until the later of both times.
 */
int upload_keep(struct session_manager *manager, const struct upload_spec *spec, const void *data,
                size_t length, struct upload_row *ret, struct error *err);

/* Errors: file_not_found, also for a file of another tenant and for one that has expired. */
int upload_find(struct session_manager *manager, const char *tenant, const char *id,
                struct upload_row *ret, struct error *err);
int upload_open(struct session_manager *manager, const struct upload_row *row,
                struct error *err); /* a descriptor, or a negative errno */
int upload_remove(struct session_manager *manager, const struct upload_row *row, struct error *err);
/* All files of the tenant that have not expired, oldest first. */
int upload_each(struct session_manager *manager, const char *tenant,
                void (*each)(void *ctx, const struct upload_row *row), void *ctx,
                struct error *err);
/* The last component of a client's file name. Errors: bad_input. Pure. */
int upload_check_name(const char *name, char ret[UPLOAD_NAME_MAX], struct error *err);

/* ---- for the manager ---- */
void uploads_start(struct session_manager *manager); /* counts them, removes strays */
void uploads_age(struct session_manager *manager);   /* removes what has expired */

#endif
