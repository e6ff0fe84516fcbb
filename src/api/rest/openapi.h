/*
 * openapi.h - the OpenAPI 3.1 document, printed from the rows that the server uses. Pure.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_REST_OPENAPI_H
#define BAILEY_API_REST_OPENAPI_H

#include "base/buf.h"

typedef struct json_t json_t;

json_t *openapi_json(void); /* new reference; NULL: no memory */
int openapi_write(struct buf *text);

#endif
