/*
 * idempotency.h - a POST that is sent again with the same Idempotency-Key gets the reply of the
 * first one, and nothing is done twice.
 *
 * For rows that the hall checks (door.h). The key belongs to the API key that sent it. Kept for 24
 * hours in the index, also over a restart of the broker, are replies of success up to
 * LIMIT_KEPT_REPLY. A request that failed is forgotten, so that another try does it. One whose
 * client left, or whose broker died, may have done a part of its work: sent again it is an error
 * that says so. Called by dispatch.c. Blocks for the index.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_FRONT_IDEMPOTENCY_H
#define BAILEY_API_FRONT_IDEMPOTENCY_H

#include "api/front/front_private.h"
#include "base/sha256.h"

#define IDEMPOTENCY_HEADER "Idempotency-Key"

struct idempotency;

struct idempotency *idempotency_new(struct index *index); /* NULL: no memory */
/* After the servers have stopped; NULL is fine. */
void idempotency_free(struct idempotency *idempotency);

/* A request with a key; empty `key`: it has none. */
struct idempotent {
    char key[LIMIT_IDEMPOTENCY_KEY + 1];
    char owner[TENANT_MAX + KEY_ID_MAX + 1];
    char request[SHA256_TEXT];
};
/*
 * Looks for the request's key, before its body is read. False: the request has to be answered, with
 * the reply of the first one (`err` has no code, it was answered) or with `err`.
 */
bool idempotency_look(struct idempotency *idempotency, struct door_call *call,
                      struct idempotent *ret, struct error *err);
/* The request is about to be carried out: its reply will be kept. */
int idempotency_begin(struct idempotency *idempotency, struct door_call *call,
                      const struct idempotent *request, struct error *err);

#endif
