/*
 * output_row.h - outputs by id in the index, beyond the life of their session if they are kept; and
 * secrets of the daemon's own, made once. The bytes are elsewhere (session/artifacts.h). Blocks for
 * the disk as index.h does.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_OUTPUT_ROW_H
#define BAILEY_STORE_OUTPUT_ROW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id.h"
#include "base/sha256.h"
#include "model/principal.h"
#include "store/index.h"

#define OUTPUT_NAME_MAX 4096
#define OUTPUT_TYPE_MAX 128

struct output_row {
    char id[ID_MAX];
    char session[ID_MAX];
    char tenant[TENANT_MAX];
    char name[OUTPUT_NAME_MAX]; /* relative to /tmp/output */
    char type[OUTPUT_TYPE_MAX]; /* MIME, by content */
    char sha256[SHA256_TEXT];
    uint64_t bytes;
    uint64_t created_ms;
    uint64_t expires_ms; /* unless it is kept */
    bool is_kept;
};

/* Of one that is there only expiry and is_kept are changed. */
int output_row_put(struct index *index, const struct output_row *row, struct error *err);
/* 1: there is one; 0: there is none. */
int output_row_get(struct index *index, const char *id, struct output_row *ret, struct error *err);
int output_row_drop(struct index *index, const char *id, struct error *err);
/* Of a session, by name. each() may not change rows. */
int output_row_each(struct index *index, const char *session,
                    void (*each)(void *ctx, const struct output_row *row), void *ctx,
                    struct error *err);
/* Some of the expired ones. */
int output_row_due(struct index *index, uint64_t now_ms,
                   void (*each)(void *ctx, const struct output_row *row), void *ctx,
                   struct error *err);

/* The newest of a tenant (NULL: of all) that have not expired, or only those kept. */
struct output_filter {
    const char *tenant;
    bool only_kept;
    uint64_t now_ms;
    unsigned maximum;
};
int output_row_list(struct index *index, const struct output_filter *filter,
                    void (*each)(void *ctx, const struct output_row *row), void *ctx,
                    struct error *err);
/* The kept ones of a tenant; NULL: of all tenants. */
int output_row_kept(struct index *index, const char *tenant,
                    void (*each)(void *ctx, const struct output_row *row), void *ctx,
                    struct error *err);
/* When the time of the first of them is over; UINT64_MAX: there is none that is not kept. */
int output_row_next(struct index *index, uint64_t *ret_ms, struct error *err);

/* The secret of this name, random, the same for the life of the index. */
int index_secret(struct index *index, const char *name, uint8_t secret[SHA256_BYTES],
                 struct error *err);

#endif
