/*
 * openapi.h - the OpenAPI 3.1 document, printed from the rows that the servers use. Pure.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_API_FRONT_OPENAPI_H
#define BAILEY_API_FRONT_OPENAPI_H

#include "base/buf.h"

typedef struct json_t json_t;
struct door_list;
struct door_route;

json_t *openapi_json(const struct door_list *doors); /* new reference; NULL: no memory */
int openapi_write(const struct door_list *doors, struct buf *text);

/* `content` of a row's reply, for a door with `responses` of its own; new reference or NULL. */
json_t *openapi_content(const struct door_route *route);

#endif
