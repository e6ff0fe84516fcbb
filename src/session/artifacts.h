/*
 * artifacts.h - every saved output by an id of its own: its bytes, their hash, their type, and for
 * how long. The bytes are output/.by-id/<id>, a second name of the file in output/, which stays
 * what it was when that one is replaced.
 *
 * One lives until its session ends or its time is over (SANDBOX_ARTIFACT_TIME), unless it is kept:
 * a timer goes to the first whose time is over. An older one of the same name goes when there is a
 * newer. What is kept counts for its tenant's disk by itself. Blocks for the index. One thread.
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

/* Bytes on their way to the disk. */
struct artifact_digest {
    struct sha256 hash;
    char head[OUTPUT_SNIFF_BYTES];
    size_t head_length;
    uint64_t bytes;
};
void artifact_begin(struct artifact_digest *digest);
void artifact_add(struct artifact_digest *digest, const void *data, size_t length);

/* The file of this name in the session's folder (folder_fd) is whole. *ret says what it is now. */
int artifact_save(struct session *session, int folder_fd, const char *name,
                  struct artifact_digest *digest, struct output_row *ret, struct error *err);

/* Errors: -ENOENT (no_route): there is none, or its time is over. */
int artifact_find(struct session_manager *manager, const char *id, struct output_row *ret,
                  struct error *err);
int artifact_open(struct session_manager *manager, const char *id,
                  struct error *err); /* a descriptor */
int artifact_keep(struct session_manager *manager, struct output_row *row, bool is_kept,
                  struct error *err);
int artifact_remove(struct session_manager *manager, const char *id, struct error *err);
/* The newest of a tenant's (NULL: of everybody's). */
int artifacts_list(struct session_manager *manager, const char *tenant, bool only_kept,
                   void (*each)(void *ctx, const struct output_row *row), void *ctx,
                   struct error *err);
int artifacts_each(struct session_manager *manager, const char *session,
                   void (*each)(void *ctx, const struct output_row *row), void *ctx,
                   struct error *err);
/* The session has ended: what is not kept goes. */
void artifacts_end(struct session *session);
/*
 * What is kept counts in its tenant's quota of the disk, unless it is the newest of its name in a
 * session that lives, which counts it already. Done by the calls above; outputs.c does it after a
 * newer one came, and a new broker for everybody.
 */
void artifacts_recount(struct session_manager *manager, const char *tenant);
void artifacts_adopt(struct session_manager *manager);
/* Every artifact whose bytes have no row goes, and from then on those whose time is over. */
int artifacts_start(struct session_manager *manager);
void artifacts_stop(struct session_manager *manager); /* safe twice */
/* What links are signed with. */
int artifacts_secret(struct session_manager *manager, uint8_t secret[SHA256_BYTES],
                     struct error *err);

#endif
