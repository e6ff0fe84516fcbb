/*
 * artifacts.h - stores every saved output under its own id, with its bytes, SHA-256, MIME type and
 * expiry time. The bytes are output/.by-id/<id>, a hard link of the file in output/, which keeps
 * its content when the file in output/ is replaced.
 *
 * An artifact lives until its session ends or SANDBOX_ARTIFACT_TIME is over, unless a user keeps
 * it; a timer fires at the first expiry time. Saving a newer output of the same name removes the
 * older artifact. Kept artifacts count in their tenant's disk quota. Blocks for the index. One
 * thread.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_ARTIFACTS_H
#define BAILEY_SESSION_ARTIFACTS_H

#include "base/error.h"
#include "base/sha256.h"
#include "session/output_sniff.h"
#include "store/output_row.h"

struct session_manager;
struct session;

/* The running SHA-256 of bytes that are being written. */
struct artifact_digest {
    struct sha256 hash;
    char head[OUTPUT_SNIFF_BYTES];
    size_t head_length;
    uint64_t bytes;
};
void artifact_begin(struct artifact_digest *digest);
void artifact_add(struct artifact_digest *digest, const void *data, size_t length);

/* The file of this name in the session's folder (folder_fd) is complete. *ret gets its new row. */
int artifact_save(struct session *session, int folder_fd, const char *name,
                  struct artifact_digest *digest, struct output_row *ret, struct error *err);

/* Errors: -ENOENT (no_route): no such artifact, or it has expired. */
int artifact_find(struct session_manager *manager, const char *id, struct output_row *ret,
                  struct error *err);
int artifact_open(struct session_manager *manager, const char *id,
                  struct error *err); /* returns a file descriptor */
int artifact_keep(struct session_manager *manager, struct output_row *row, bool is_kept,
                  struct error *err);
int artifact_remove(struct session_manager *manager, const char *id, struct error *err);
/* The newest artifacts of a tenant (NULL: of all tenants). */
int artifacts_list(struct session_manager *manager, const char *tenant, bool only_kept,
                   void (*each)(void *ctx, const struct output_row *row), void *ctx,
                   struct error *err);
int artifacts_each(struct session_manager *manager, const char *session,
                   void (*each)(void *ctx, const struct output_row *row), void *ctx,
                   struct error *err);
/* The session has ended: removes its artifacts that are not kept. */
void artifacts_end(struct session *session);
/*
 * Counts kept artifacts in their tenant's disk quota, except the newest of each name in a live
 * session, whose bytes the session counts already. The calls above do this themselves; outputs.c
 * calls it after a newer output was saved, and a new broker calls it for every tenant.
 */
void artifacts_recount(struct session_manager *manager, const char *tenant);
void artifacts_adopt(struct session_manager *manager);
/* Removes all bytes without a row, then starts the expiry timer. */
int artifacts_start(struct session_manager *manager);
void artifacts_stop(struct session_manager *manager); /* safe twice */
/* The key that signed links are made with. */
int artifacts_secret(struct session_manager *manager, uint8_t secret[SHA256_BYTES],
                     struct error *err);

#endif
