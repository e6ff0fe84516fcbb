/*
 * kept_reply.h - requests with an Idempotency-Key in the index, and the replies that they got, so
 * that the same request sent again gets the same reply. Blocks for the disk as index.h does.
 *
 * A row is begun before the work, without a status, and ended with the reply. One that a broker's
 * death left without a status stays so: what became of its work is not known.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_KEPT_REPLY_H
#define BAILEY_STORE_KEPT_REPLY_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"
#include "store/index.h"

struct kept_reply {
    const char *owner;   /* who sent it, TENANT/KEY: two callers may use the same Idempotency-Key */
    const char *key;     /* as in the header */
    const char *request; /* SHA-256 of the request, as text */
    const char *session; /* that the reply is about: with its end the reply goes; NULL: none */
    uint64_t created_ms;
    unsigned status;  /* 0: no reply yet */
    const char *type; /* of the reply; NULL: none */
    const void *data; /* NULL: the reply was not kept, or is no longer */
    size_t length;
};

/* Begins a row: owner, key, request and created_ms. -EINVAL: there is one. */
int kept_reply_begin(struct index *index, const struct kept_reply *row, struct error *err);
/* Sets status, session, type and data of the row of owner and key. */
int kept_reply_end(struct index *index, const struct kept_reply *row, struct error *err);
int kept_reply_drop(struct index *index, const char *owner, const char *key, struct error *err);
/* Calls for the row, if there is one; its strings are borrowed for the call. */
int kept_reply_find(struct index *index, const char *owner, const char *key,
                    void (*found)(void *ctx, const struct kept_reply *row), void *ctx,
                    struct error *err);
/* What is kept: rows begun at `since_ms` or later; of each tenant the newest. */
struct kept_reply_bounds {
    uint64_t since_ms;
    uint64_t bytes; /* of replies */
    unsigned rows;
};
int kept_reply_trim(struct index *index, const char *tenant, const struct kept_reply_bounds *bounds,
                    struct error *err);

#endif
