/*
 * response_row.h - rows of the index: responses of models that clients may fetch or go on from.
 *
 * The document and its input are JSON texts, opaque here. Blocks for the disk. One thread.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_RESPONSE_ROW_H
#define BAILEY_STORE_RESPONSE_ROW_H

#include <stdint.h>

#include "base/error.h"

struct index;

struct response_row { /* strings are borrowed for the call */
    const char *id, *tenant;
    uint64_t created_ms;
    const char *status;
    const char *previous;  /* id of the response before it; NULL: none */
    const char *container; /* NULL: none */
    uint64_t bytes;        /* of document and input; in sums: what is summed */
    const char *document, *input;
};
typedef void response_each(void *ctx, const struct response_row *row);

/* Inserts, or replaces what changes: status, container, bytes and document. */
int response_row_put(struct index *index, const struct response_row *row, struct error *err);
/* Calls once, if the tenant has it. */
int response_row_get(struct index *index, const char *tenant, const char *id, response_each *each,
                     void *ctx, struct error *err);
/* The response has an item of this id. It goes with the response. */
int response_row_put_item(struct index *index, const char *response, const char *item,
                          struct error *err);
/* Calls once with the tenant's newest response that has the item, if there is one. */
int response_row_of_item(struct index *index, const char *tenant, const char *item,
                         response_each *each, void *ctx, struct error *err);
int response_row_drop(struct index *index, const char *id, struct error *err);
/* The oldest of a tenant that are over, without their texts. */
int response_row_oldest(struct index *index, const char *tenant, unsigned most, response_each *each,
                        void *ctx, struct error *err);
/* `bytes` is how many the tenant has, created_ms is the oldest's. */
int response_row_count(struct index *index, const char *tenant, response_each *each, void *ctx,
                       struct error *err);
int response_row_sum(struct index *index, response_each *each, void *ctx, struct error *err);
/* What a broker left unfinished has failed. */
int response_row_fail_all(struct index *index, struct error *err);

#endif
